package network

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// serves runs dnsmasq at the other end of eth0: it knows the name answer.example.org, and gives
// addresses with itself as the router.
func (s live) serves() {
	s.t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("nsenter", "--net=/proc/"+s.Leader()+"/root/run/netns/gw", "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file=",
		"--no-resolv", "--no-hosts", "--no-ping", "--interface=gw0", "--bind-interfaces", "--address=/answer.example.org/10.1.0.77", "--dhcp-authoritative",
		"--dhcp-range=10.1.0.50,10.1.0.60,1h", "--dhcp-leasefile="+filepath.Join(s.t.TempDir(), "leases"))
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("dnsmasq: %s", said.String())
		}
	})
}

// becomes makes interfaces so, and confirms it.
func (s live) becomes(all links, remove ...string) {
	s.t.Helper()
	name, err := s.apply(request{Items: items(all), Remove: remove, Deadline: time.Minute})
	if err != nil {
		s.t.Fatalf("%v: %s\n%s", err, name, s.Does("ip address; ip route; cat /etc/resolv.conf; journalctl --no-pager | tail -n 30"))
	}
	s.Does(helperPath + " confirm " + name)
}

const lookup = "getent ahostsv4 answer.example.org | awk '{print $1; exit}'"

// namesAndLeases is a life of an interface whose lookups go to the designed server, and that
// gets its address from a DHCP server then.
func (s live) namesAndLeases() {
	t := s.t
	t.Helper()
	const before = "nameserver 192.0.2.1\noptions timeout:1 attempts:1"
	put(t, s.Root, resolvFile, before+"\n", 0o644)
	s.serves()
	s.Says(lookup, "")
	asks := links{"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}, Servers: []string{"10.1.0.1"}, Search: []string{"example.org"}}}
	s.becomes(asks)
	s.Says(lookup, "10.1.0.77")
	s.Says("getent ahostsv4 answer | awk '{print $1; exit}'", "10.1.0.77")
	s.same(asks)

	leases := links{"eth0": {Kind: "ethernet", DHCP4: true}}
	s.becomes(leases)
	s.Says(addresses+" | grep -c '10[.]1[.]0[.][56][0-9]/24'", "1")
	s.Says("ip route show default | cut -d' ' -f3", "10.1.0.1")
	s.same(leases)
	if seen := s.observe(leases); seen.Have[item.Asked("eth0")] != "" || len(seen.Cannot) > 0 {
		t.Errorf("of a lease it is told %q, %v", seen.Have[item.Asked("eth0")], seen.Cannot)
	}
}

// Lookups on a system of systemd-networkd without systemd-resolved go to the designed server,
// and it gets its address by DHCP.
func TestNamesAndLeasesOfNetworkd(t *testing.T) {
	nspawn.Require(t, "dnsmasq")
	s := start(t)
	put(t, s.Root, "/etc/systemd/network/10-eth0.network", "[Match]\nName=eth0\n[Network]\nAddress=10.1.0.10/24\n", 0o644)
	s.Does("systemctl disable networking; systemctl enable --now systemd-networkd")
	s.Comes(addresses, "10.1.0.10/24")
	s.namesAndLeases()
	s.Says("cat "+resolvFile, "nameserver 192.0.2.1\noptions timeout:1 attempts:1")
}

// The same of ifupdown, whose client is another package.
func TestProveNamesAndLeasesOfIfupdown(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("takes minutes: set SLIPWAY_PROVE")
	}
	nspawn.Require(t, "dnsmasq")
	root := t.TempDir()
	nspawn.UnpackTo(t, root, nspawn.Suite{}, "isc-dhcp-client")
	s := startIn(t, root)
	put(t, s.Root, "/etc/network/interfaces", "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\taddress 10.1.0.10/24\n", 0o644)
	s.Does("systemctl enable networking; systemctl restart networking")
	s.Comes(addresses, "10.1.0.10/24")
	s.namesAndLeases()
	s.Says(lookup, "10.1.0.77") // of the lease
}
