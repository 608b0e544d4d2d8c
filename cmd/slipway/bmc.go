package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// bmcFlags say how a management controller is reached, and whom to ask of the
// node behind it.
type bmcFlags struct {
	credential, credentials string
	ca, fingerprint         string
	firstUse                bool
	site, state, dir        string
	noDaemon                bool
}

func (f *bmcFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.credential, "credential", "", "`NAME` of the credential to log in with at a URL")
	flags.StringVar(&f.ca, "ca", "", "`FILE` with the certificate authorities to trust at a URL, as PEM")
	flags.StringVar(&f.fingerprint, "fingerprint", "", "certificate to trust at a URL, by its SHA-256 digest")
	flags.BoolVar(&f.firstUse, "trust-first-use", false, "trust the certificate that the URL shows now")
	flags.StringVar(&f.site, "site", "", "the site's name, when there are several")
	flags.BoolVar(&f.noDaemon, "no-daemon", false, "do not ask a daemon: take NODE from the design in --dir")
	flags.StringVar(&f.dir, "dir", ".", "folder with the design, for --no-daemon")
	addState(cmd, &f.state)
	addCredentials(cmd, &f.credentials)
}

func (a *app) bmcCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bmc", Short: "look at one management controller, or switch one machine",
		Long: "Looks at one management controller, given by its URL or by its node, or switches its\n" +
			"machine. While a daemon manages the machine, it is switched only if its node is paused.\n" + exitHelp,
		Example: "  slipway bmc check compute-3 --credentials /etc/slipway/credentials\n" +
			"  slipway bmc check https://10.9.0.11 --credential bmc --credentials /etc/slipway/credentials --ca bmc-ca.pem --capture bmc.json.gz\n" +
			"  slipway bmc power compute-3 restart --credentials /etc/slipway/credentials",
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.bmcCheckCommand(), a.bmcGetCommand(), a.bmcPowerCommand(), a.bmcBootCommand())
	return cmd
}

func (a *app) bmcGetCommand() *cobra.Command {
	return a.onBMC(&bmcFlags{}, &cobra.Command{
		Use: "get URL|NODE PATH", Short: "print one resource of a management controller", Args: exactly(2),
		Long:    "Prints a resource as JSON, as the management controller sends it.\n" + exitHelp,
		Example: "  slipway bmc get compute-3 /redfish/v1/Systems/1 --credentials /etc/slipway/credentials",
	}, a.bmcGet)
}

// onBMC makes a command of what is done with the management controller that its
// first argument names.
func (a *app) onBMC(f *bmcFlags, cmd *cobra.Command, do func(ctx context.Context, b *bmc, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBMC(cmd.Context(), *f, args[0], func(b *bmc) error { return do(cmd.Context(), b, args[1:]) })
	}
	f.add(cmd)
	return cmd
}

func (a *app) bmcGet(ctx context.Context, b *bmc, args []string) error {
	r, err := able[driver.Reader](b, "show resources")
	if err != nil {
		return err
	}
	text, err := r.Read(ctx, args[0])
	if err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return a.out.JSON(v)
}

// bmc is an open management controller.
type bmc struct {
	driver.Machine
	name     string // as it was given
	endpoint site.Endpoint
	// node is the node that was named, empty at a URL; machine is what the
	// design says it is.
	node    string
	machine site.Identity
}

// able is a rarer ability of a controller.
func able[T any](b *bmc, what string) (T, error) {
	t, ok := driver.As[T](b.Machine)
	if !ok {
		return t, fmt.Errorf("%s: the driver of this endpoint does not %s", b.name, what)
	}
	return t, nil
}

// withBMC does something with a management controller that it opens.
func (a *app) withBMC(ctx context.Context, f bmcFlags, name string, do func(*bmc) error) error {
	b, err := a.findBMC(ctx, f, name)
	if err != nil {
		return err
	}
	all := drivers(helpers())
	if all[driver.Protocol(b.endpoint.URL)] == nil {
		return usage("no driver is known for %s", b.endpoint.URL)
	}
	secrets, err := a.secretsFor(f.credentials, b.endpoint)
	if err != nil {
		return err
	}
	b.Machine, err = driver.Open(ctx, all, secrets, b.endpoint)
	if errors.Is(err, secret.ErrMissing) && a.designed == nil {
		err = fmt.Errorf("%w. If it is encrypted in the repository, use --no-daemon and --dir, so that the design says so", err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err = do(b)
	a.tellTrust(b)
	return errors.Join(err, b.Close())
}

// secretsFor are the credentials of a folder, none where an endpoint needs none.
func (a *app) secretsFor(dir string, e site.Endpoint) (secret.Source, error) {
	if e.Credential == "" {
		return nil, nil
	}
	secrets, err := a.openCredentials(dir)
	if err != nil {
		return nil, err
	}
	if a.designed != nil {
		secrets.InForce(a.designed)
	}
	return secrets, nil
}

// findBMC is how the controller is reached that was named by a URL or a node.
func (a *app) findBMC(ctx context.Context, f bmcFlags, name string) (*bmc, error) {
	if strings.Contains(name, "://") {
		e, err := f.endpoint(name)
		return &bmc{name: name, endpoint: e}, err
	}
	if f.credential != "" || f.ca != "" || f.fingerprint != "" || f.firstUse {
		return nil, usage("--credential, --ca, --fingerprint and --trust-first-use are for a URL; how %s is reached is in the design", name)
	}
	r, err := a.reach(ctx, f, name)
	return &bmc{name: name, node: name, endpoint: r.Manager, machine: r.Machine}, err
}

// endpoint is a URL with what the flags say of it. A plain https:// is
// Redfish's.
func (f bmcFlags) endpoint(text string) (site.Endpoint, error) {
	if rest, ok := strings.CutPrefix(text, "https://"); ok {
		text = "redfish+https://" + rest
	}
	e := site.Endpoint{URL: text, Credential: f.credential, Trust: site.Trust{FirstUse: f.firstUse}}
	if err := oneTrust(f.ca != "", f.fingerprint != "", f.firstUse); err != nil {
		return e, err
	}
	if f.fingerprint != "" {
		pin, err := fingerprintOf(f.fingerprint)
		if err != nil {
			return e, err
		}
		e.Trust.Fingerprint = pin
	}
	if f.ca != "" {
		pem, _, err := readBounded(f.ca)
		if err != nil {
			return e, fmt.Errorf("--ca: %w", err)
		}
		e.Trust.CA = string(pem)
	}
	return e, nil
}

// tellTrust says which certificate was trusted for being the first.
func (a *app) tellTrust(b *bmc) {
	if c, ok := driver.As[driver.Certifier](b.Machine); ok && c.Certificate() != "" {
		a.err.Printf("slipway: trusted the certificate %s without checking it; from now on pass --fingerprint %s, or pin it in the design\n", c.Certificate(), c.Certificate())
	}
}

// reach is how a node's machine is reached, by the daemon or by the design in
// a folder.
func (a *app) reach(ctx context.Context, f bmcFlags, node string) (site.Reach, error) {
	if f.noDaemon {
		return a.designedReach(ctx, f, node)
	}
	daemon := daemonAt(f.state)
	defer daemon.Close()
	known, err := daemon.Known(ctx, f.site)
	if errors.Is(err, control.ErrNoDaemon) {
		return site.Reach{}, fmt.Errorf("%w; with --no-daemon the design in --dir says how %s is reached", err, node)
	}
	if err != nil {
		return site.Reach{}, err
	}
	r, ok := known.Reach[node]
	if !ok {
		return r, fmt.Errorf("the site has no node %q: see slipway status --all, or give the URL of its management controller", node)
	}
	return r, checkReach(r, node)
}

func (a *app) designedReach(ctx context.Context, f bmcFlags, node string) (site.Reach, error) {
	rev, r, err := evaluateDir(ctx, f.dir, f.site)
	if err != nil {
		return site.Reach{}, err
	}
	if r.Site == nil {
		return site.Reach{}, a.refuse(rev.Files, r)
	}
	a.designed = r.Site
	n := r.Site.Nodes[node]
	if n == nil {
		return site.Reach{}, fmt.Errorf("site %s has no node %q", r.Site.Name, node)
	}
	if n.IsVirtual() {
		return designedHost(r.Site, n)
	}
	reach := site.Reach{Manager: n.Endpoints[site.Manager], Machine: n.Machine()}
	return reach, checkReach(reach, node)
}

// designedHost is how a virtual machine is reached that the design itself has on
// a hypervisor.
func designedHost(s *site.Site, n *site.Node) (site.Reach, error) {
	h := s.Hypervisors[n.Virtual.Hypervisor]
	if h == nil {
		return site.Reach{}, fmt.Errorf("node %s is a virtual machine, and only the daemon knows its hypervisor: remove --no-daemon, or set virtual.hypervisor in the design", n.Name)
	}
	return site.Reach{Manager: h.Endpoint(s.Name, n.Name), Machine: n.Machine(), Hypervisor: n.Virtual.Hypervisor}, nil
}

func checkReach(r site.Reach, node string) error {
	if r.Manager.URL == "" {
		return fmt.Errorf("node %s has no endpoints.manager in the design", node)
	}
	return nil
}
