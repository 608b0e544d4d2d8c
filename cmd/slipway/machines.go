package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/libvirt"
	"github.com/slipway-gitops/slipway/sinks/redfish"
)

// drivers is the one list of drivers, by the scheme of endpoints up to "+".
func drivers(inside agent.Options) map[string]driver.Driver {
	return map[string]driver.Driver{
		"redfish":    redfish.New(redfish.Options{}),
		"libvirt":    libvirt.New(libvirt.Options{}),
		agent.Scheme: agent.New(inside),
	}
}

// serves are the facets that drivers act on or observe, and with agents in the memory of machines
// the storage that these lay out.
func serves(by map[string]driver.Driver, agents bool) map[site.Facet]bool {
	all := driver.Serves(by)
	if agents {
		all[site.FacetStorage] = true
	}
	return all
}

// helperFolder is the folder of the helpers unless a flag names another: that of the
// environment, or else the one beside the program, or the packages'. It is empty for
// none, so that nothing inside installed systems is set.
func helperFolder() string {
	if folder, told := os.LookupEnv("SLIPWAY_AGENTS"); told {
		return folder
	}
	folders := []string{"/usr/lib/slipway/agents"}
	if program, err := os.Executable(); err == nil {
		folders = []string{filepath.Join(filepath.Dir(program), "agents"), folders[0]}
	}
	for _, folder := range folders {
		if agent.CheckFolder(folder) == nil {
			return folder
		}
	}
	return ""
}

// helpers are those of the folder that is used unless told otherwise.
func helpers() agent.Options { return agent.Options{Folder: helperFolder()} }

// checkHelpers refuses a folder that has no helpers.
func checkHelpers(folder string) error {
	if err := agent.CheckFolder(folder); err != nil {
		return usage("%v", err)
	}
	return nil
}

// defaultState is where a daemon keeps its state unless told otherwise.
func defaultState() string { return cmp.Or(os.Getenv("SLIPWAY_STATE"), "/var/lib/slipway") }

func addState(cmd *cobra.Command, state *string) {
	cmd.Flags().StringVar(state, "state", defaultState(), "the daemon's state directory (SLIPWAY_STATE)")
}

// Where the host says how credentials are had that a program or a server of secrets keeps.
const (
	programsFolder = "/etc/slipway/programs.d"
	vaultFile      = "/etc/slipway/vault.conf"
)

func addCredentials(cmd *cobra.Command, credentials *string) {
	cmd.Flags().StringVar(credentials, "credentials", os.Getenv("CREDENTIALS_DIRECTORY"), "folder with one file for each credential (CREDENTIALS_DIRECTORY)")
}

// openCredentials opens a folder of credentials, of which the command warns when it ends.
func (a *app) openCredentials(dir string) (*secret.Store, error) {
	a.hideMemory()
	secrets, err := secret.Open(dir)
	if err == nil {
		secrets.Unseal(identityAt("", dir), nil)
		secrets.Programs(programsFolder)
		secrets.Vault(vaultFile)
	}
	a.secrets = secrets
	return secrets, err
}

// hideMemory hides the memory of a command that handles secrets, and says where that is
// not possible.
func (a *app) hideMemory() {
	if err := hideMemory(); err != nil {
		a.err.Println("slipway: warning:", err)
	}
}

// warnOfCredentials says which of the credentials that a command has used are not limited to a use.
func (a *app) warnOfCredentials() {
	if a.secrets == nil {
		return
	}
	if err := a.secrets.Unlimited(); err != nil {
		a.err.Println("slipway: warning:", err)
	}
}

// looksAtOnce is how many machines plan --observe looks at together.
const looksAtOnce = 64

// look observes every machine of a design once and writes to none. A daemon's
// memory of them says which certificates they have shown. What could not be seen
// is said in failures, by node.
func look(ctx context.Context, s *site.Site, memory map[string]site.Memory, secrets *secret.Store, seen func(done, all int)) (map[string]site.Memory, map[string]error) {
	known, failures := map[string]site.Memory{}, map[string]error{}
	var mu sync.Mutex
	var done atomic.Int64
	all := drivers(agent.Options{Folder: helperFolder(), ObserveOnly: true})
	var g errgroup.Group
	g.SetLimit(looksAtOnce)
	for _, name := range s.NodeNames() {
		g.Go(func() error {
			o, err := lookAt(ctx, s.Nodes[name], memory[name].Recorded, all, secrets)
			mu.Lock()
			defer mu.Unlock()
			known[name] = site.Memory{Observed: o}
			if err != nil {
				failures[name] = err
			}
			seen(int(done.Add(1)), len(s.Nodes))
			return nil
		})
	}
	g.Wait()
	return known, failures
}

// lookAt observes one machine through its endpoints. Only a BMC that cannot
// be seen is a failure.
func lookAt(ctx context.Context, n *site.Node, r site.Recorded, all map[string]driver.Driver, secrets *secret.Store) (site.Observed, error) {
	seen, err := through(ctx, n, engine.Trusted(n, site.Manager, r), all, secrets)
	if err != nil {
		return site.Observed{}, err
	}
	if _, ok := n.Endpoints[site.OS]; ok && seen.Facets[site.FacetPower].Have["state"] == "on" {
		if inside, err := through(ctx, n, engine.Trusted(n, site.OS, r), all, secrets); err == nil {
			seen = seen.Merge(inside)
		}
	}
	return seen, nil
}

func through(ctx context.Context, n *site.Node, e site.Endpoint, all map[string]driver.Driver, secrets *secret.Store) (site.Observed, error) {
	d, value, err := driver.KeyTo(all, secrets, e)
	if err != nil {
		return site.Observed{}, err
	}
	m, err := d.Open(ctx, e, value)
	if err != nil {
		return site.Observed{}, err
	}
	defer m.Close()
	driver.Lend(m, e, secrets)
	return m.Observe(ctx, n, d.Facets())
}
