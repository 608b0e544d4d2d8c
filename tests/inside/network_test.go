package inside_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// The daemon's network is the one that this program is started in again. A router is
// between it and the node, and another machine is beside the node.
const (
	daemonAddress = "10.2.0.2"
	nodeAddress   = "10.1.0.10"
	otherAddress  = "10.1.0.50"
	// deadline is how long a change of the network waits to be confirmed, and grace what
	// is given beyond it.
	deadline = time.Minute
	grace    = 30 * time.Second
)

// inNetwork is the environment variable with what was made, in the program that runs
// in a network of its own.
const inNetwork = "SLIPWAY_TEST_NETWORK"

type handed struct{ Folder, Root, Helpers, Key, HostKey, Signs string }

// inOwnNetwork runs the test in a network of its own, and says whether it is in it.
func inOwnNetwork(t *testing.T) bool {
	if text := os.Getenv(inNetwork); text != "" {
		var h handed
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatal(err)
		}
		made.once.Do(func() {
			made.root, made.helpers, made.key, made.hostKey, made.signs = h.Root, h.Helpers, h.Key, h.HostKey, h.Signs
		})
		return true
	}
	made.base(t)
	text, err := json.Marshal(handed{made.folder, made.root, made.helpers, made.key, made.hostKey, made.signs})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60m")
	cmd.Env = append(os.Environ(), inNetwork+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	return false
}

// networked is a node with an interface, behind a router.
type networked struct {
	*node
	router, within string        // names of networks
	address        string        // at which the node was last reached
	patience       time.Duration // of a look; 20 s if 0
}

func startNetworked(t *testing.T) *networked {
	n := &networked{router: fmt.Sprintf("router-%d", os.Getpid()), within: fmt.Sprintf("node-%d", os.Getpid()), address: nodeAddress}
	for _, name := range []string{n.router, n.within} {
		does(t, "ip", "netns", "add", name)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	}
	shell(t, `ip link set lo up
ip link add up0 type veth peer name down0 netns R
ip addr add 10.2.0.2/24 dev up0; ip link set up0 up; ip route add 10.1.0.0/24 via 10.2.0.1
ip -n R link set lo up; ip -n R addr add 10.2.0.1/24 dev down0; ip -n R link set down0 up
ip -n R link add br0 type bridge; ip -n R addr add 10.1.0.1/24 dev br0; ip -n R link set br0 up
ip netns exec R sysctl -qw net.ipv4.ip_forward=1
ip -n R link add other0 type veth peer name other1; ip -n R link set other0 master br0 up
ip netns add O; ip -n R link set other1 netns O; ip -n O addr add 10.1.0.50/24 dev other1; ip -n O link set other1 up; ip -n N link set lo up`, n)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.other()).Run() })
	n.plug(t)
	root := nspawn.Layer(t, made.root)
	for path, text := range map[string]string{
		"etc/systemd/network/10-eth0.network":                                    "[Match]\nName=eth0\n[Network]\nAddress=10.1.0.10/24\nGateway=10.1.0.1\nLinkLocalAddressing=no\n",
		"etc/systemd/system/multi-user.target.wants/systemd-networkd.service":    "",
		"etc/systemd/system/systemd-networkd.service.d/always.conf":              "[Unit]\nConditionPathIsReadWrite=\n",
		"etc/systemd/system/ssh.service.d/always.conf":                           "[Service]\nRestart=always\n",
		"etc/systemd/system/network-online.target.wants/x-nothing.service.empty": "",
	} {
		at := root + "/" + path
		_ = os.MkdirAll(at[:strings.LastIndexByte(at, '/')], 0o755)
		if strings.HasSuffix(path, "networkd.service") {
			if err := os.Symlink("/lib/systemd/system/systemd-networkd.service", at); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	does(t, "chroot", root, "systemctl", "disable", "networking")
	n.node = &node{
		System: nspawn.Start(t, root, nspawn.Network("--network-namespace-path=/run/netns/"+n.within+" --capability=CAP_NET_ADMIN,CAP_NET_RAW")),
		t:      t, fixture: made, driver: agent.New(agent.Options{Folder: made.helpers}), term: 1,
	}
	return n
}

func (n *networked) other() string { return n.router + "-o" }

// shell runs words in which R, N and O stand for the networks.
func shell(t *testing.T, words string, n *networked) {
	t.Helper()
	r := strings.NewReplacer("netns R", "netns "+n.router, "-n R", "-n "+n.router, "exec R", "exec "+n.router, "netns O", "netns "+n.other(), "add O", "add "+n.other(), "-n O", "-n "+n.other(), "-n N", "-n "+n.within, "netns N", "netns "+n.within)
	does(t, "sh", "-ec", r.Replace(words))
}

// plug gives the node new interfaces, as a machine has after a power cycle.
func (n *networked) plug(t *testing.T) {
	shell(t, `ip -n R link del port0 2>/dev/null || true; ip -n R link del port1 2>/dev/null || true; ip -n N link del br0 2>/dev/null || true
ip -n R link add port0 type veth peer name eth0 netns N; ip -n N link set eth0 address 02:00:00:00:00:01
ip -n R link add port1 type veth peer name eth1 netns N; ip -n N link set eth1 address 02:00:00:00:00:02
ip -n R link set port0 master br0 up; ip -n R link set port1 master br0 up; ip -n R link set br0 mtu 1500`, n)
}

// machine is the node at an address.
func (n *networked) machine(t *testing.T, address string) driver.Machine {
	t.Helper()
	n.endpoint = site.Endpoint{URL: "ssh://root@" + address + ":22", Trust: site.Trust{HostKeys: []string{made.hostKey}}}
	return n.open(t)
}

// reached waits until a look at one of the addresses tells of everything, or the time is
// over.
func (n *networked) reached(t *testing.T, d *site.Node, until time.Time, addresses ...string) bool {
	t.Helper()
	for {
		for _, a := range addresses {
			if _, err := n.lookAt(t, a, d); err == nil {
				n.address = a
				return true
			}
		}
		if time.Now().After(until) {
			return false
		}
	}
}

type links = map[string]item.Link

func withLink(name string, l item.Link, more links) links {
	all := links{name: l}
	maps.Copy(all, more)
	return all
}

var gateway = []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}

// good are changes after which the node can be reached, and at which address.
func good(r *rand.Rand) (l links, address string) {
	address = fmt.Sprintf("10.1.0.%d", 10+r.IntN(4))
	is := item.Link{Kind: "ethernet", Addresses: []string{address + "/24"}, Routes: gateway}
	switch r.IntN(6) {
	case 0:
		is.MTU = []int{1280, 1400, 1500}[r.IntN(3)]
	case 1:
		is.Addresses = append(is.Addresses, "10.1.0.20/24", "10.77.0.1/24")
	case 2:
		is.Routes = append(is.Routes, item.Route{To: "10.200.0.0/16", Via: "10.1.0.50", Metric: 100})
	case 3:
		is.Kind = "bridge"
		is.Members = []string{"eth0"}
		return links{"eth0": {Kind: "ethernet"}, "br0": is}, address
	case 4:
		return withLink("eth0", is, links{"eth1": {Kind: "ethernet", Addresses: []string{"10.78.0.1/24"}}}), address
	case 5:
		return links{"eth1": is, "eth0": {Kind: "ethernet"}}, address
	}
	return links{"eth0": is}, address
}

// bad are changes that cut the node off, by what is wrong. An MTU that is too large is
// one that the switch drops and the daemon's side has as well.
var bad = []struct {
	name  string
	links links
	setup string
}{
	{"wrong gateway", links{"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.99"}}}}, ""},
	{"a gateway that answers and does not route", links{"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: otherAddress}}}}, ""},
	{"no gateway", links{"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}}}, ""},
	{"an address outside of the network", links{"eth0": {Kind: "ethernet", Addresses: []string{"10.99.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.99.0.1"}}}}, ""},
	{"another machine's address", links{"eth0": {Kind: "ethernet", Addresses: []string{otherAddress + "/24"}, Routes: gateway}}, ""},
	{"an MTU that the switch drops", links{"eth0": {Kind: "ethernet", MTU: 9000, Addresses: []string{"10.1.0.11/24"}, Routes: gateway}},
		"ip -n R link set br0 mtu 9000; ip link set up0 mtu 9000; ip -n R link set down0 mtu 9000"},
	// It leads to another network, in which the router would answer for all its addresses.
	{"another interface that is there", links{"eth0": {Kind: "ethernet"}, "eth1": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}, Routes: gateway}}, "ip -n R link set port1 nomaster; ip netns exec R sysctl -qw net.ipv4.conf.port1.arp_ignore=1"},
	{"an interface that is not there", links{"eth9": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}, Routes: gateway}}, ""},
	{"a bridge without a port", links{"eth0": {Kind: "ethernet"}, "br0": {Kind: "bridge", Addresses: []string{"10.1.0.11/24"}, Routes: gateway}}, ""},
	{"DHCP where no server is", links{"eth0": {Kind: "ethernet", DHCP4: true}}, ""},
}

// TestProveNetworkChanges makes changes of which a third cut the node off. Of the others
// some are killed in the middle, and some are overtaken by a power cut.
func TestProveNetworkChanges(t *testing.T) {
	if !proves() {
		t.Skip("takes half an hour: set SLIPWAY_PROVE")
	}
	if !inOwnNetwork(t) {
		return
	}
	const changes, seed = 30, 4
	r := rand.New(rand.NewPCG(seed, 1))
	n, began := startNetworked(t), time.Now()
	design := func(l links) *site.Node {
		return &site.Node{Name: "n1", References: site.References{Family: "debian", Links: l}}
	}
	if !n.reached(t, design(nil), time.Now().Add(time.Minute), nodeAddress) {
		t.Fatalf("the node is not reached at first:\n%s", n.Does("ip address; ip route; networkctl; systemctl --failed"))
	}
	counts := map[string]int{}
	var longest time.Duration
	retried := false // by a person, after a power cut had the change set back
	apply := func(name string, l links, addresses []string, meanwhile func()) (err error) {
		t.Helper()
		d := design(l)
		m := n.machine(t, n.address)
		defer m.Close()
		seen, err := look(t.Context(), n.node, m, d)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		at, done := time.Now(), make(chan error, 1)
		s := stepFor(d, site.FacetNetwork, seen)
		s.Again, retried = retried, false
		go func() { done <- m.Apply(t.Context(), s, d, nil) }()
		if meanwhile != nil {
			meanwhile()
		}
		reached := n.reached(t, d, at.Add(deadline+grace), append(addresses, n.address)...)
		took := time.Since(at)
		if longest = max(longest, took); !reached {
			n.t.Fatalf("%s: not reached after %s:\n%s", name, took, n.Does("ip address; ip route; ls /var/lib/slipway-inside; cat /var/lib/slipway-inside/reverted; journalctl --no-pager | tail -n 40"))
		}
		err = <-done
		counts[name]++
		t.Logf("%s: reached at %s after %s: %v", name, n.address, took.Round(time.Second), err)
		return err
	}
	for i := range changes {
		if i%3 == 2 {
			b := bad[i/3]
			if b.setup != "" {
				shell(t, b.setup, n)
			}
			// It is set back on its own: the address before is what must answer.
			before := n.address
			err := apply(b.name, b.links, nil, nil)
			if err == nil {
				t.Errorf("%s: the change was confirmed", b.name)
			}
			end := time.Now().Add(deadline + grace)
			for n.Does("test ! -e /var/lib/slipway-inside/network-unconfirmed || echo waits") != "" && time.Now().Before(end) {
			}
			if !n.reached(t, design(nil), end, before) {
				t.Fatalf("%s: not reached at %s any more", b.name, before)
			}
			if b.setup != "" {
				shell(t, "ip -n R link set br0 mtu 1500; ip link set up0 mtu 1500; ip -n R link set down0 mtu 1500; ip -n R link set port1 master br0; ip netns exec R sysctl -qw net.ipv4.conf.port1.arp_ignore=0", n)
			}
			continue
		}
		l, address := good(r)
		switch i % 6 {
		case 1: // the helper is killed
			n.arm(1+r.IntN(40), "helper")
			_ = apply("helper killed", l, []string{address}, nil)
			n.disarm()
		case 3: // the power is cut
			_ = apply("power cut", l, []string{address}, func() {
				<-time.After(time.Duration(r.IntN(6000)) * time.Millisecond)
				n.Cut()
				n.plug(t)
				n.Start()
			})
		}
		// In the end it can be had.
		var err error
		for range 4 {
			if err = apply("change", l, []string{address}, nil); err == nil {
				break
			}
			retried = i%6 == 3 && strings.Contains(err.Error(), "was reverted")
			<-time.After(5 * time.Second)
		}
		if err != nil {
			t.Fatalf("change %d: %v", i+1, err)
		}
		if !n.reached(t, design(l), time.Now().Add(grace), address) {
			t.Fatalf("change %d: not reached at %s", i+1, address)
		}
	}
	t.Logf("%d changes %v, the longest until it was reached %s, in %s", changes, counts, longest.Round(time.Second), time.Since(began).Round(time.Second))
}

// moments are when the daemon is killed in a change of the network: each waits for its
// moment, or the end of the change.
var moments = []struct {
	name   string
	marker string        // what the marker of an unconfirmed change has to have; empty is none
	after  time.Duration // at most, by seed
	gone   bool          // and then the marker has to be away again
}{
	{name: "anywhere", after: 4 * time.Second},
	{name: "while it is made", marker: `"armed":true`, after: 300 * time.Millisecond},
	{name: "before it is confirmed", marker: `"applied":true`},
	{name: "after it was confirmed", marker: `"applied":true`, gone: true},
}

// TestProveNetworkChangesOfAKilledDaemon kills the daemon in the middle of changes. Another
// one with a later term takes its place at once, and has the node as designed in the time in
// which the change would be set back.
func TestProveNetworkChangesOfAKilledDaemon(t *testing.T) {
	if !proves() {
		t.Skip("takes minutes: set SLIPWAY_PROVE")
	}
	if !inOwnNetwork(t) {
		return
	}
	const changes, seed = 24, 6
	r := rand.New(rand.NewPCG(seed, 1))
	n, began := startNetworked(t), time.Now()
	design := func(l links) *site.Node {
		return &site.Node{Name: "n1", References: site.References{Family: "debian", Links: l}}
	}
	if !n.reached(t, design(nil), time.Now().Add(time.Minute), nodeAddress) {
		t.Fatalf("the node is not reached at first:\n%s", n.Does("ip address; ip route; networkctl; systemctl --failed"))
	}
	left := map[string]int{} // as what the killed daemon left the change
	var longest time.Duration
	for i := range changes {
		when := moments[i%len(moments)]
		l, address := good(r)
		d := design(l)
		m := n.machine(t, n.address)
		seen, err := look(t.Context(), n.node, m, d)
		if err != nil {
			t.Fatalf("change %d: %v", i+1, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Apply(ctx, stepFor(d, site.FacetNetwork, seen), d, nil) }()
		n.waitForMarker(done, func(marker string) bool { return strings.Contains(marker, when.marker) })
		if when.after > 0 {
			n.waitFor(done, time.After(time.Duration(r.Int64N(int64(when.after)))))
		}
		if when.gone {
			n.waitForMarker(done, func(marker string) bool { return marker == "" })
		}
		cancel()
		killed := time.Now()
		err = <-done
		m.Close()
		state := n.changeState()
		left[state]++
		n.driver = agent.New(agent.Options{Folder: made.helpers})
		n.term++
		steps, last := n.becomes(t, d, killed.Add(deadline+grace), address, n.address)
		took := time.Since(killed)
		if longest = max(longest, took); last != nil {
			t.Fatalf("change %d, killed %s (%v) and left %s: not as designed after %s: %v\nthe design: %s\n%s", i+1, when.name, err, state, took.Round(time.Second), last, told(d),
				n.Does("ip address; ip route; ls /var/lib/slipway-inside; cat /var/lib/slipway-inside/reverted || true; journalctl --no-pager | tail -n 40"))
		}
		if n.address != address {
			t.Errorf("change %d: it is reached at %s, not at %s", i+1, n.address, address)
		}
		n.Says("find /var/lib/slipway-inside -name network-unconfirmed -o -name 'network-before-*'; systemctl list-units --all --no-legend --plain 'slipway-revert-*'", "")
		if err != nil && strings.Contains(err.Error(), "%!") {
			t.Errorf("change %d: the error is %q", i+1, err)
		}
		t.Logf("change %d, killed %s (%v) and left %s: as designed at %s after %d steps, %s", i+1, when.name, err, state, n.address, steps, took.Round(time.Second))
	}
	for _, state := range []string{"being made", "unconfirmed", "done or not begun"} {
		if left[state] == 0 {
			t.Errorf("no change was left %s: %v", state, left)
		}
	}
	t.Logf("%d changes, left %v, the longest until it was as designed %s, in %s", changes, left, longest.Round(time.Second), time.Since(began).Round(time.Second))
}

// marker is the file of a change that is not confirmed; empty without one.
func (n *networked) marker() string {
	text, _ := os.ReadFile(n.Root + "/var/lib/slipway-inside/network-unconfirmed")
	return strings.ReplaceAll(string(text), " ", "")
}

func (n *networked) changeState() string {
	switch marker := n.marker(); {
	case marker == "":
		return "done or not begun"
	case strings.Contains(marker, `"applied":true`):
		return "unconfirmed"
	}
	return "being made"
}

// waitForMarker waits until the marker is as it is to be, or a change has ended.
func (n *networked) waitForMarker(done chan error, is func(marker string) bool) {
	for !is(n.marker()) {
		if !n.waitFor(done, time.After(5*time.Millisecond)) {
			return
		}
	}
}

// waitFor waits for a moment, and tells whether it came before a change has ended.
func (n *networked) waitFor(done chan error, moment <-chan time.Time) bool {
	select {
	case <-moment:
		return true
	case err := <-done:
		done <- err
		return false
	}
}

// becomes looks at a node at any of some addresses, and sets its network, until that is as
// designed or the time is over. It tells how many steps it took.
func (n *networked) becomes(t *testing.T, d *site.Node, end time.Time, addresses ...string) (steps int, last error) {
	t.Helper()
	for {
		for _, a := range addresses {
			seen, err := n.lookAt(t, a, d)
			if err != nil {
				last = cmp.Or(last, err)
				continue
			}
			n.address = a
			if plan.AsDesigned(d, site.FacetNetwork, seen.Facets[site.FacetNetwork]) {
				return steps, nil
			}
			steps++
			m := n.machine(t, a)
			last = fmt.Errorf("step %d: %w", steps, cmp.Or(step(t.Context(), m, d, site.FacetNetwork, seen), errors.New("was taken")))
			m.Close()
			break
		}
		if time.Now().After(end) {
			return steps, cmp.Or(last, errors.New("was not reached"))
		}
		<-time.After(500 * time.Millisecond)
	}
}

// lookAt looks at the node at one address, for as long as it has patience.
func (n *networked) lookAt(t *testing.T, address string, d *site.Node) (site.Observed, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(n.patience, 20*time.Second))
	defer cancel()
	m := n.machine(t, address)
	defer m.Close()
	seen, err := look(ctx, n.node, m, d)
	if err == nil && seen.Facets[site.FacetNetwork].Seen.IsZero() {
		err = errors.New("its network was not seen")
	}
	return seen, err
}
