package inside_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A node that had many designs is as one that had the last alone.
func TestProveTheLastDesignAloneCounts(t *testing.T) {
	if !proves() {
		t.Skip("takes half an hour: set SLIPWAY_PROVE")
	}
	seed, designs := uint64(2), 200
	if text := os.Getenv("SLIPWAY_PROVE_DESIGNS"); text != "" { // "SEED NUMBER"
		if _, err := fmt.Sscan(text, &seed, &designs); err != nil {
			t.Fatal(err)
		}
	}
	lastAlone(t, seed, designs, 10)
}

// lastAlone applies designs one after the other, and compares with a fresh node after
// every few.
func lastAlone(t *testing.T, seed uint64, designs, every int) {
	g := newGenerator(seed)
	g.network = true
	n := startInNetwork(t)
	before := n.listing()
	began, compared, edits := time.Now(), 0, 0
	var last *site.Node
	for i := range designs {
		d := g.design()
		if last != nil && g.maybe(1, 3) {
			edits += g.edit(n, last, d)
		}
		steps := n.converges(d)
		t.Logf("design %d: %d steps, %s", i+1, steps, time.Since(began).Round(time.Second))
		if (i+1)%every == 0 {
			fresh := startInNetwork(t)
			fresh.converges(d)
			if got, want := n.listing(), fresh.listing(); difference(got, want) != "" {
				t.Errorf("after design %d it is not as a fresh node:\n%s\nbefore: %s\nnow: %s", i+1, difference(got, want), told(last), told(d))
				if os.Getenv("SLIPWAY_GO_ON") == "" {
					t.FailNow()
				}
			}
			compared++
			fresh.Cut()
		}
		last = d
	}
	n.converges(&site.Node{Name: "n1", References: site.References{Family: "debian"}})
	if after := n.listing(); difference(after, before) != "" {
		t.Errorf("without a design it is not as before:\n%s", difference(after, before))
	}
	n.Says(`test ! -e /var/lib/slipway-inside/owned.json || tr -d ' \n\t' </var/lib/slipway-inside/owned.json`, `{"items":{}}`)
	t.Logf("%d designs with %d edits by people, %d compared with a fresh node, in %s", designs, edits, compared, time.Since(began).Round(time.Second))
}

// What a package has brought ends with it, whoever started it. What another file says of a
// unit of the same name does not.
func TestAServiceEndsWithItsPackage(t *testing.T) {
	n := start(t)
	before := n.listing()
	without := &site.Node{Name: "n1", References: site.References{Family: "debian"}}
	with := func(units map[string]site.Unit) *site.Node {
		return &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{
			Repositories: map[string]site.Repository{"site": {URL: "file:///srv/repo", Suite: "stable", Components: []string{"main"}, Key: made.signs}},
			Packages:     map[string]site.Package{"serving": {}}, Units: units,
		}}
	}
	const states = "systemctl show --property=LoadState,ActiveState --value serving.service serving@a.service | tr '\n' ' '"

	n.converges(with(nil))
	n.Does("systemctl start serving.service serving@a.service")
	n.Says(states, "loaded active  loaded active")
	n.converges(without)
	n.Says(states, "not-found inactive  not-found inactive")

	// The design says it in so many words.
	n.converges(with(nil))
	n.Does("systemctl start serving.service")
	absent := with(nil)
	absent.System.Packages = map[string]site.Package{"serving": {State: item.Absent}}
	n.converges(absent)
	n.Says(states, "not-found inactive  not-found inactive")

	// The unit is the design's, over the package's.
	n.converges(with(map[string]site.Unit{"serving.service": {Content: ref(service("ours", "basic.target")), State: "running"}}))
	n.Says(states, "loaded active  loaded inactive")
	n.converges(without)
	n.Says(states, "not-found inactive  not-found inactive")

	// A person has a unit of that name.
	n.converges(with(nil))
	n.Does("cp /lib/systemd/system/serving.service /etc/systemd/system/; systemctl daemon-reload; systemctl start serving.service")
	n.converges(without)
	n.Says(states, "loaded active  not-found inactive")
	n.Does("systemctl stop serving.service; rm /etc/systemd/system/serving.service; systemctl daemon-reload")
	if after := n.listing(); after != before {
		t.Errorf("it is not as before:\n%s", difference(after, before))
	}
}

// edit has people change what the last design and the next one ask for, so that it is
// Slipway's before and after.
func (g *generator) edit(n *node, last, next *site.Node) (edits int) {
	does := func(words string) {
		n.Does(words)
		edits++
	}
	for _, path := range slices.Sorted(maps.Keys(last.System.Files)) { // so that a seed always gives the same
		f := last.System.Files[path]
		if now, stays := next.System.Files[path]; stays && now.State == "" && f.State == "" && g.maybe(1, 3) {
			does(fmt.Sprintf(g.pick("echo edited >> %[1]s", "chmod 777 %[1]s", "chown bin:bin %[1]s", "rm -f %[1]s", "rm -f %[1]s; ln -s /etc/passwd %[1]s"), quoted(path)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(last.System.Users)) {
		u := last.System.Users[name]
		if now, stays := next.System.Users[name]; stays && now.State == "" && u.State == "" && name != "people" && g.maybe(1, 3) {
			does(fmt.Sprintf(g.pick("usermod -a -G games %[1]s", "usermod -s /bin/dash %[1]s", "rm -rf /home/%[1]s/.ssh", "userdel %[1]s", "passwd -l %[1]s"), name))
		}
	}
	if _, stays := next.System.Units["own.service"]; stays && last.System.Units["own.service"].Content != nil && g.maybe(1, 2) {
		does(g.pick("systemctl stop own; systemctl disable own 2>/dev/null", "echo '#' >> /etc/systemd/system/own.service", "rm /etc/systemd/system/own.service; systemctl daemon-reload"))
	}
	if len(last.System.Hosts) > 0 && len(next.System.Hosts) > 0 && g.maybe(1, 2) {
		does("sed -i '/10.9.0.1/d' /etc/hosts")
	}
	if len(last.System.Sysctl) > 0 && len(next.System.Sysctl) > 0 && g.maybe(1, 2) {
		does("rm /etc/sysctl.d/60-slipway.conf")
	}
	return edits
}

func quoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// A bridge whose MTU leaves the design, and a port that leaves it, are as on a node that never had them designed.
func TestWhatLeavesTheNetworkLeavesNothing(t *testing.T) {
	with := func(links map[string]item.Link) *site.Node {
		return &site.Node{Name: "n1", References: site.References{Family: "debian", Links: links}}
	}
	alone := with(map[string]item.Link{"eth1": {Kind: "ethernet"}, "br0": {Kind: "bridge", Members: []string{"eth1"}, Addresses: []string{"10.1.0.11/24"}}})
	const flags = "echo $(cat /sys/class/net/eth2/flags /proc/sys/net/ipv6/conf/eth2/addr_gen_mode)" // which the listing does not have
	n, fresh := startInNetwork(t), startInNetwork(t)
	fresh.converges(alone)
	for _, before := range []map[string]item.Link{
		{"eth1": {Kind: "ethernet"}, "eth2": {Kind: "ethernet"}, "br0": {Kind: "bridge", MTU: 1450, Members: []string{"eth1", "eth2"}, Addresses: []string{"10.1.0.11/24", "fd00::12/64"}}},
		{"eth1": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}}, "eth2": {Kind: "ethernet", Addresses: []string{"10.78.0.11/24"}}},
	} {
		n.converges(with(before))
		n.converges(alone)
		if got, want := n.listing()+n.Does(flags), fresh.listing()+fresh.Does(flags); difference(got, want) != "" {
			t.Errorf("it is not as a fresh node:\n%s", difference(got, want))
		}
	}
}
