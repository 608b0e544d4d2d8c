package inside_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// onlyFacet is a design without what other facets do.
func onlyFacet(d *site.Node, f site.Facet) *site.Node {
	only := &site.Node{Name: d.Name, References: site.References{Family: "debian", Artifacts: d.References.Artifacts}}
	switch s := d.System; f {
	case site.FacetBase:
		only.System = site.System{Hostname: s.Hostname, Hosts: s.Hosts, Users: s.Users, Time: s.Time, Logs: s.Logs}
	case site.FacetPackages:
		only.System = site.System{Packages: s.Packages, Repositories: s.Repositories}
	case site.FacetConfig:
		only.System = site.System{Files: map[string]site.File{}, Units: s.Units, Sysctl: s.Sysctl}
		for path, file := range s.Files {
			if u := s.Users[file.Owner]; u.UID != nil {
				file.Owner = "" // that account is not there
			}
			if path != "/etc/configured.conf" {
				only.System.Files[path] = file
			}
		}
		delete(only.System.Units, "serving.service")
	case site.FacetKernel:
		only.Kernel = d.Kernel
	case site.FacetNetwork:
		only.References.Links = d.References.Links
	}
	return only
}

// pair are two designs of a facet that differ much.
func pair(seed uint64, f site.Facet) (from, to *site.Node) {
	g := newGenerator(seed)
	switch f {
	case site.FacetPackages:
		repositories := map[string]site.Repository{"site": {URL: "file:///srv/repo", Suite: "stable", Components: []string{"main"}, Key: made.signs}}
		from = &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{
			Repositories: repositories, Packages: map[string]site.Package{"one": {Version: "1.0"}, "two": {}},
		}}
		to = &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{
			Repositories: repositories, Packages: map[string]site.Package{"one": {Version: "2.0", State: item.Held}, "configured": {}, "serving": {}},
		}}
		return from, to
	case site.FacetKernel:
		from, to = g.design(), g.design()
		from.Kernel.Parameters, to.Kernel.Parameters = site.Scalars{"nosmt": "off", "isolcpus": "2-3"}, site.Scalars{"isolcpus": "4", "iommu": "off"}
	case site.FacetNetwork:
		from, to = &site.Node{Name: "n1"}, &site.Node{Name: "n1"}
		from.References.Links = map[string]item.Link{"eth0": {Kind: "ethernet", MTU: 1400, Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}}}
		to.References.Links = map[string]item.Link{
			"eth0": {Kind: "ethernet"},
			"br0":  {Kind: "bridge", Members: []string{"eth0"}, Addresses: []string{"10.1.0.12/24"}, Routes: []item.Route{{To: "10.200.0.0/16", Via: "10.1.0.1", Metric: 50}}},
		}
	default:
		from, to = g.design(), g.design()
	}
	return onlyFacet(from, f), onlyFacet(to, f)
}

// The helper is killed after each of the writes of a step, by itself and with all that
// it has started.
func TestKilledAfterAWrite(t *testing.T) {
	killed(t, site.FacetConfig, 3, 40)
}

func TestProveKilledAfterEachWrite(t *testing.T) {
	if !proves() {
		t.Skip("takes an hour: set SLIPWAY_PROVE")
	}
	for _, f := range site.InsideFacets {
		every := 1
		if f == site.FacetPackages { // apt and dpkg write more than a thousand times: SLIPWAY_PROVE_EVERY=1 takes a day
			every = 12
		}
		if n, err := strconv.Atoi(os.Getenv("SLIPWAY_PROVE_EVERY")); err == nil && n > 0 {
			every = n
		}
		t.Run(string(f), func(t *testing.T) {
			if f == site.FacetActions {
				killedActing(t, every)
				return
			}
			killed(t, f, 5, every)
		})
	}
}

// wired starts a node with an interface that people have set up, and a gateway beside it.
func wired(t *testing.T) *node {
	t.Helper()
	made.base(t)
	root, people := nspawn.Layer(t, made.root), networkBefore["networkd"]
	layFiles(t, root, map[string]string{people.path: "0644 " + people.text})
	n := made.start(t, root, nspawn.Loopback)
	n.Does(wires)
	n.Does(people.words)
	n.Comes(hasAddress, "10.1.0.10/24")
	return n
}

// killed goes from one design to another and back, killed after one write in every few.
func killed(t *testing.T, f site.Facet, seed uint64, every int) {
	made.base(t)
	from, to := pair(seed, f)
	begin := start
	if f == site.FacetNetwork {
		begin = wired
	}
	n, began := begin(t), time.Now()
	n.converges(from)
	wantFrom := n.listing()
	n.converges(to)
	want := n.listing()
	n.converges(from)
	if got := n.listing(); difference(got, wantFrom) != "" {
		t.Fatalf("there and back is not the same:\n%s", difference(got, wantFrom))
	}
	points, first := 0, 1
	if n, err := strconv.Atoi(os.Getenv("SLIPWAY_PROVE_AFTER")); err == nil { // goes on behind a fault that was mended
		first = n
	}
	for after := first; ; after += every {
		what := []string{"helper", "all"}[points%2]
		n.arm(after, what)
		steps := n.converges(to)
		if n.disarm() {
			t.Logf("%s: killed after %d of %d writes, in %s", f, points, after-1, time.Since(began).Round(time.Second))
			break
		}
		points++
		at := n.Does("grep -v ^exec " + writesFile + " | sed -n " + strconv.Itoa(after) + "p")
		if got := n.listing(); difference(got, want) != "" {
			t.Errorf("%s (%s) killed after write %s: it is not as designed:\n%s\nfrom %s\nto %s", f, what, at, difference(got, want), told(from), told(to))
		}
		n.settled(at, steps > 1) // else that run had done all: the next one ends what it had begun to note
		n.converges(from)
		n.settled(at+", and back", true)
		if got := n.listing(); difference(got, wantFrom) != "" {
			t.Fatalf("%s (%s) killed after write %s, and back: it is not as before:\n%s", f, what, at, difference(got, wantFrom))
		}
	}
	if points < 2 {
		t.Errorf("killed %d times alone", points)
	}
}

// arm has the next session that makes so many writes killed.
func (n *node) arm(after int, what string) {
	n.Does(fmt.Sprintf("rm -f %s; echo /root/tracer %d %s > %s", writesFile, after, what, prefixFile))
}

// disarm takes that back, and tells whether nothing was killed.
func (n *node) disarm() (still bool) {
	return n.Does("if [ -e "+prefixFile+" ]; then rm "+prefixFile+"; echo still; fi") == "still"
}

// settled holds that nothing is half done: no package, no temporary file and, once the run was
// ended, no journal that is to be ended and no note that was being written.
func (n *node) settled(at string, ended bool) {
	n.t.Helper()
	journal, notes := "", " -o -path /var/lib/slipway-inside"
	if ended {
		journal, notes = `! grep -o '"begun":.*' /var/lib/slipway-inside/journal; `, ""
	}
	words := journal + `dpkg --audit; find / -xdev \( -path /proc -o -path /sys -o -path /var/tmp -o -path /tmp` + notes + ` \) -prune -o -name '.slipway-*' -print; ` +
		`ls /etc/*.lock /etc/*+ 2>/dev/null || true`
	if out := n.Does(words); out != "" {
		n.t.Errorf("after write %s there is left: %s", at, out)
	}
}

// The connection is cut in the middle of a step, or the daemon is killed and another one
// with a later term takes its place at once.
func TestProveConnectionCut(t *testing.T) {
	if !proves() {
		t.Skip("takes a quarter of an hour: set SLIPWAY_PROVE")
	}
	cut(t, 5, 100)
}

func cut(t *testing.T, seed uint64, cuts int) {
	g, n, began := newGenerator(seed), start(t), time.Now()
	later := 0
	for i := range cuts {
		d := g.design()
		m := n.open(t)
		seen, err := look(t.Context(), n, m, d)
		if err != nil {
			t.Fatal(err)
		}
		f := differing(d, seen, site.InsideFacets)
		if f == "" {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- step(ctx, m, d, f, seen) }()
		select {
		case <-time.After(time.Duration(g.IntN(1500)) * time.Millisecond):
		case err := <-done:
			done <- err
		}
		n.disconnect()
		if i%2 == 0 { // the daemon is gone, and another one is there
			cancel()
			n.driver = agent.New(agent.Options{Folder: made.helpers})
			n.term++
			later++
		}
		<-done
		cancel()
		m.Close()
		n.afterBusy(d)
		if i%10 == 9 || i == cuts-1 {
			fresh := start(t)
			fresh.converges(d)
			if got, want := n.listing(), fresh.listing(); difference(got, want) != "" {
				t.Errorf("after cut %d it is not as a fresh node:\n%s", i+1, difference(got, want))
			}
			fresh.Cut()
		}
		n.settled(fmt.Sprintf("cut %d", i+1), true)
	}
	t.Logf("%d cuts, %d of them with a new daemon, in %s", cuts, later, time.Since(began).Round(time.Second))
}

// afterBusy converges as soon as the run that was cut off has ended.
func (n *node) afterBusy(d *site.Node) {
	n.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; {
		_, err := n.converge(d)
		switch {
		case err == nil:
			return
		case time.Now().After(end) || !strings.Contains(err.Error(), "another run of Slipway"):
			n.t.Fatalf("%v\nthe design: %s", err, told(d))
		}
	}
}
