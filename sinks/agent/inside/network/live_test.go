package network

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// TestMain lets the test program be the helper inside a system, which is what the
// timer and the unit at boot start.
func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "helper-") {
		if err := helper(os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// request is what the helper is asked for: it kills itself at the step Kill.
type request struct {
	Items    []item.Item
	Remove   []string
	Deadline time.Duration
	Kill     string
}

func helper(args []string) error {
	ctx := context.Background()
	h := inside.Real("/", true)
	var err error
	if h.Owned, err = inside.LoadOwned("/"); err != nil {
		return err
	}
	f := standard()
	switch args[0] {
	case "revert":
		return Revert(ctx, h, args[1])
	case "confirm":
		return f.Confirm(ctx, h, args[1])
	case "observe":
		seen, err := f.Observe(ctx, h, args[1:])
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(seen)
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var r request
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	f.Deadline = r.Deadline
	f.step = func(what string) {
		if r.Kill != "" && strings.HasPrefix(what, r.Kill) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	if err := f.Apply(ctx, h, r.Items, r.Remove); err != nil {
		return err
	}
	name, _ := f.Unconfirmed(h)
	fmt.Print(name)
	return nil
}

const helperPath = inside.Folder + "/helper-test"

// live is a real Debian with the helper in it.
type live struct {
	*nspawn.System
	t *testing.T
}

// start boots a system with an interface eth0, at whose other end is a gateway.
func start(t *testing.T) live {
	nspawn.Require(t)
	return startIn(t, nspawn.Unpack(t))
}

// startIn boots the system in a folder.
func startIn(t *testing.T, root string) live {
	s := live{nspawn.Start(t, root, nspawn.Loopback), t}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.Root, helperPath, string(program), 0o755)
	s.Does(`ip netns add gw; ip link add eth0 type veth peer name gw0 netns gw
		ip -n gw link set gw0 up; ip -n gw address add 10.1.0.1/24 dev gw0; ip -n gw link set lo up`)
	return s
}

func (s live) apply(r request) (out string, err error) {
	s.t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		s.t.Fatal(err)
	}
	put(s.t, s.Root, "/root/request", string(text), 0o600)
	return s.Run(helperPath + " apply </root/request")
}

func (s live) observe(all links) inside.Seen {
	s.t.Helper()
	var seen inside.Seen
	out := s.Does(helperPath + " observe " + strings.Join(keysOf(all), " "))
	if err := json.NewDecoder(bytes.NewReader([]byte(out))).Decode(&seen); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return seen
}

func (s live) same(all links) {
	s.t.Helper()
	seen := s.observe(all)
	for key, want := range item.Values(items(all)) {
		if seen.Have[key] != want {
			s.t.Errorf("%s is %q, want %q", key, seen.Have[key], want)
		}
	}
}

// addresses are those of an interface, as the kernel has them.
const addresses = "ip -4 -o address show dev eth0 scope global | tr -s ' ' | cut -d' ' -f4"

// story is one life of an interface, under whatever manages it: a change that is
// confirmed, one that is not, one whose program is killed, one that cuts off, and
// its end.
func (s live) story(old string) {
	t := s.t
	one := links{"eth0": {Kind: "ethernet", MTU: 1400, Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}}}
	name, err := s.apply(request{Items: items(one), Deadline: time.Minute})
	if err != nil {
		t.Fatalf("%v: %s", err, name)
	}
	s.Does("systemctl is-active slipway-revert-" + name + ".timer")
	s.Says(addresses, "10.1.0.11/24")
	s.Does(helperPath + " confirm " + name)
	s.Refuses("systemctl is-active slipway-revert-"+name+".timer", "inactive")
	s.same(one)
	s.Comes("bash -c 'echo >/dev/udp/10.1.0.1/9' || true; ip neighbor show 10.1.0.1", "lladdr")

	// Nothing to do writes nothing.
	stamp := "find /etc /var/lib/slipway-inside -newer /root/stamp -type f | sort"
	s.Does("touch /root/stamp")
	if out, err := s.apply(request{Items: items(one), Deadline: time.Minute}); err != nil || out != "" {
		t.Errorf("a second pass: %v, %q", err, out)
	}
	s.Says(stamp, "")

	// A bridge on it, which nobody confirms.
	two := links{"eth0": {Kind: "ethernet"}, "br0": {Kind: "bridge", Members: []string{"eth0"}, Addresses: []string{"10.1.0.12/24"},
		Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}}}
	name, err = s.apply(request{Items: items(two), Deadline: 20 * time.Second})
	if err != nil {
		t.Fatalf("%v: %s", err, name)
	}
	s.same(two)
	s.Comes("test -e "+revertedFile+" && test ! -e "+markerFile+" && cat "+revertedFile, "nobody confirmed")
	s.Says(addresses+"; ip link show br0 2>&1 | tail -n1", "10.1.0.11/24\nDevice \"br0\" does not exist.")
	s.same(one)
	if out, err := s.apply(request{Items: items(two), Deadline: time.Minute}); err == nil || !strings.Contains(out, "nobody confirmed") {
		t.Errorf("the same again: %v, %q", err, out)
	}

	// Killed in the middle: the timer sets it back.
	three := links{"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.13/24"}}}
	if out, err := s.apply(request{Items: items(three), Deadline: 5 * time.Second, Kill: "note "}); err == nil {
		t.Errorf("not killed: %s", out)
	}
	s.Comes("test ! -e "+markerFile+" && cat "+revertedFile, cutShort)
	s.Says(addresses, "10.1.0.11/24")
	s.same(one)

	// A gateway that is not there: the machine sees it for itself.
	four := links{"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.99"}}}}
	out, err := s.apply(request{Items: items(four), Deadline: time.Minute})
	if err == nil {
		// A gateway that was asked before and was as silent then proves nothing.
		s.Does(helperPath + " revert " + out)
	}
	s.same(one)

	// It leaves the design.
	name, err = s.apply(request{Remove: keysOf(one), Deadline: time.Minute})
	if err != nil {
		t.Fatalf("%v: %s", err, name)
	}
	s.Does(helperPath + " confirm " + name)
	s.Comes(addresses, old)
	s.Says("ls -d /etc/systemd/system/*slipway* /etc/systemd/network/*slipway* /etc/network/interfaces.d/slipway /var/lib/slipway-inside/network-* 2>/dev/null | grep -v -e lock -e aside || true", "")
}

func TestNetworkdForReal(t *testing.T) {
	s := start(t)
	put(t, s.Root, "/etc/systemd/network/10-eth0.network", "[Match]\nName=eth0\n[Network]\nAddress=10.1.0.10/24\n", 0o644)
	s.Does("systemctl disable networking; systemctl enable --now systemd-networkd")
	s.Comes(addresses, "10.1.0.10/24")
	s.story("10.1.0.10/24")

	// Its parser has nothing to say about any golden file.
	for _, all := range designs {
		for path, f := range render(Networkd, all) {
			put(t, s.Root, path, f.text, os.FileMode(f.mode))
		}
		s.Does("systemctl reset-failed; systemctl restart systemd-networkd; rm -f /etc/systemd/network/10-slipway-*")
	}
	s.Says("journalctl -o cat -u systemd-networkd | grep ^/etc/systemd/network/10-slipway || true", "")
}

func TestProveIfupdownForReal(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("takes minutes: set SLIPWAY_PROVE")
	}
	s := start(t)
	put(t, s.Root, "/etc/network/interfaces", "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\taddress 10.1.0.10/24\n", 0o644)
	s.Does("systemctl enable networking; systemctl restart networking")
	s.Comes(addresses, "10.1.0.10/24")
	s.story("10.1.0.10/24")
	s.Says("cat /etc/network/interfaces", "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\taddress 10.1.0.10/24")
}

// A guest's port on a designed bridge is no difference. It stays there while a change of the bridge is made and set
// back, and the bridge is not deleted under it.
func TestGuestOnABridgeForReal(t *testing.T) {
	s := start(t)
	put(t, s.Root, "/etc/systemd/network/10-eth0.network", "[Match]\nName=eth0\n[Network]\nAddress=10.1.0.10/24\n", 0o644)
	s.Does("systemctl disable networking; systemctl enable --now systemd-networkd")
	s.Comes(addresses, "10.1.0.10/24")
	bridge := func(address string) links {
		return links{"eth0": {Kind: "ethernet"}, "br0": {Kind: "bridge", Members: []string{"eth0"}, Addresses: []string{address}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}}}
	}
	s.becomes(bridge("10.1.0.11/24"))
	s.Does("ip link add vnet0 type veth peer name guest0; ip link set vnet0 master br0 up; ip link set guest0 up")
	const theirs = "ip -4 -o address show dev br0 scope global | tr -s ' ' | cut -d' ' -f4"
	const ports = "ls /sys/class/net/br0/brif | xargs"
	s.Says(ports, "eth0 vnet0")
	s.same(bridge("10.1.0.11/24"))
	if got := s.observe(bridge("")).Have["facts.br0.others"]; got != "vnet0" {
		t.Errorf("ports of others are %q", got)
	}
	if out, err := s.apply(request{Items: items(bridge("10.1.0.11/24")), Deadline: time.Minute}); err != nil || out != "" {
		t.Errorf("nothing is to be done: %v, %q", err, out)
	}
	s.becomes(bridge("10.1.0.12/24"))
	s.Says(ports, "eth0 vnet0")
	name, err := s.apply(request{Items: items(bridge("10.1.0.13/24")), Deadline: time.Minute})
	if err != nil {
		t.Fatalf("%v: %s", err, name)
	}
	s.Does(helperPath + " revert " + name)
	s.same(bridge("10.1.0.12/24"))
	s.Says(ports, "eth0 vnet0")

	leaves := request{Remove: keysOf(bridge("")), Deadline: time.Minute}
	if out, err := s.apply(leaves); err == nil || !strings.Contains(out, "nobody designed: vnet0") {
		t.Errorf("its bridge leaves the design: %v, %q", err, out)
	}
	s.Says(ports, "eth0 vnet0")
	s.Does("systemctl stop systemd-networkd.socket systemd-networkd; ip link set eth0 nomaster") // a designed port is lost
	if got := s.observe(bridge("")).Have["links.br0.members"]; got != "" {
		t.Errorf("its ports are %q", got)
	}
	s.becomes(bridge("10.1.0.12/24"))
	s.Says(ports, "eth0 vnet0")
	s.Does("ip link delete vnet0")
	s.becomes(nil, keysOf(bridge(""))...)
	s.Comes(addresses+"; ip link show br0 2>&1 | tail -n1", "10.1.0.10/24\nDevice \"br0\" does not exist.")

	// A bridge that others made stays, with the guest on it and without what the design gave it.
	put(t, s.Root, "/etc/systemd/network/05-br0.netdev", "[NetDev]\nName=br0\nKind=bridge\n", 0o644)
	put(t, s.Root, "/etc/systemd/network/05-br0.network", "[Match]\nName=br0\n[Network]\nAddress=10.3.0.1/24\nConfigureWithoutCarrier=yes\n", 0o644)
	s.Does("networkctl reload; ip link add vnet0 type veth peer name guest0")
	s.Comes("ip link set vnet0 master br0 up; "+theirs, "10.3.0.1/24")
	s.becomes(bridge("10.1.0.12/24"))
	s.Says(ports, "eth0 vnet0")
	s.becomes(nil, keysOf(bridge(""))...)
	s.Comes(addresses+"; "+ports, "10.1.0.10/24\nvnet0")
	s.Comes(theirs, "10.3.0.1/24")
}
