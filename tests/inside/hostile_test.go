package inside_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// pieces make names that a shell, a settings file or a path could misread.
var pieces = []string{"a", "Z", "0", ".", "..", "/", "-", "--", "_", "@", ":", ";", "$(id)", "`id`", "'", "\"", "\\", " ", "\t", "\n", "\r", "\x00", "\x1b[2J", "%", "%i", "#", "*", "?", "~", "é", "\u202e", "\xff", "root", "etc", ".service", ".timer", "=", "|", "&", "<", ">", "{", "}", "(", ")", "!"}

func (g *generator) name() string {
	var b strings.Builder
	for range 1 + g.IntN(8) {
		b.WriteString(pieces[g.IntN(len(pieces))])
	}
	if g.maybe(1, 20) {
		return strings.Repeat(b.String(), 100)
	}
	return b.String()
}

func TestHostileNames(t *testing.T) {
	hostileNames(t, 1, 2)
}

func TestProveHostileNames(t *testing.T) {
	if !proves() {
		t.Skip("takes minutes: set SLIPWAY_PROVE")
	}
	hostileNames(t, 2, 60)
}

// hostileNames asks a node for accounts, units, files and parameters with names that no
// design could have: whatever is made of them, nothing is run, nothing else is
// changed, and the next design is as on any node.
func hostileNames(t *testing.T, seed uint64, rounds int) {
	g, n, began := newGenerator(seed), start(t), time.Now()
	n.Does("echo untouched > /srv/canary")
	before := n.listing()
	names := 0
	for range rounds {
		d := &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{
			Files: map[string]site.File{}, Units: map[string]site.Unit{}, Users: map[string]site.User{}, Sysctl: site.Scalars{},
			Packages: map[string]site.Package{g.name(): {}},
		}}
		for range 4 {
			d.System.Users[g.name()] = site.User{Shell: g.pick("", "/bin/sh", g.name()), Groups: []string{g.name()}, Keys: []string{g.name()}}
			d.System.Units[g.name()+g.pick("", ".service", ".timer")] = site.Unit{Content: ref(service(g.name(), "multi-user.target")), Enabled: ref(true)}
			d.System.Files[g.pick("", "/", "/srv/")+g.name()] = site.File{Content: ref(g.name()), Owner: g.pick("root", g.name()), Mode: g.pick("0600", g.name())}
			d.System.Sysctl[g.name()] = g.name()
			names += 4
		}
		d.System.Hostname = g.name()
		d.System.Hosts = map[string][]string{g.name(): {g.name()}}
		m := n.open(t)
		seen, err := look(t.Context(), n, m, d)
		if err != nil {
			t.Fatalf("%v\nthe design: %s", err, told(d))
		}
		for _, f := range []site.Facet{site.FacetBase, site.FacetPackages, site.FacetConfig} {
			if err := step(t.Context(), m, d, f, seen); err != nil && strings.Contains(err.Error(), "fault of Slipway") {
				t.Errorf("%s: %v\nthe design: %s", f, err, told(d))
			} else if err != nil && err.Error() != site.PrintableLines(err.Error()) {
				t.Errorf("%s: the error has what a terminal obeys: %q", f, err)
			}
		}
		m.Close()
		n.converges(&site.Node{Name: "n1", References: site.References{Family: "debian"}})
		if after := n.listing(); difference(after, before) != "" {
			t.Fatalf("it is not as before:\n%s\nthe design: %s", difference(after, before), told(d))
		}
	}
	t.Logf("%d rounds with %d names, in %s", rounds, names, time.Since(began).Round(time.Second))
}

// A package script prints 100 MB, a disk is full, and sshd ends the connection in the
// middle of a transaction.
func TestProveHostileNode(t *testing.T) {
	if !proves() {
		t.Skip("takes minutes: set SLIPWAY_PROVE")
	}
	repositories := map[string]site.Repository{"site": {URL: "file:///srv/repo", Suite: "stable", Components: []string{"main"}, Key: ""}}
	design := func(packages ...string) *site.Node {
		r := repositories["site"]
		r.Key = made.signs
		d := &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{
			Repositories: map[string]site.Repository{"site": r}, Packages: map[string]site.Package{}, Files: map[string]site.File{"/srv/big": {Content: ref(strings.Repeat("x", 40<<10))}},
		}}
		for _, p := range packages {
			d.System.Packages[p] = site.Package{}
		}
		return d
	}
	n := start(t)
	began := time.Now()
	n.converges(design("talking"))
	t.Logf("a package script that prints 100 MB: %s", time.Since(began).Round(time.Second))

	// The folder of what is ours is full: nothing is changed that could not be noted.
	n.Does("cp -a /var/lib/slipway-inside /root/kept; mount -t tmpfs -o size=9m tmpfs /var/lib/slipway-inside; cp -a /root/kept/. /var/lib/slipway-inside; head -c 100m /dev/zero >/var/lib/slipway-inside/full || true")
	before := n.listing()
	d := design("talking", "one")
	d.System.Files["/srv/new"] = site.File{Content: ref("new")}
	_, err := n.converge(d)
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a full disk: %v", err)
	}
	if after := n.listing(); difference(after, before) != "" {
		t.Errorf("with a full disk it changed:\n%s", difference(after, before))
	}
	n.Does("rm /var/lib/slipway-inside/full")
	n.converges(d)

	// sshd ends each connection within seconds, and a transaction takes longer.
	m := n.open(t)
	d = design("talking", "one", "slow")
	seen, err := look(t.Context(), n, m, d)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- step(t.Context(), m, d, site.FacetPackages, seen) }()
	select {
	case err := <-done:
		t.Fatalf("it took no time: %v", err)
	case <-time.After(60 * time.Second):
	}
	n.Does("pkill -f 'sshd: [r]oot' || true")
	if err := <-done; err == nil {
		t.Error("a connection that was cut told of success")
	}
	m.Close()
	n.afterBusy(d)
	n.settled("an sshd that cuts", true)
	n.Says("dpkg-query -W -f '${db:Status-Abbrev}' slow", "ii ")
	t.Log(fmt.Sprint("all in ", time.Since(began).Round(time.Second)))
}
