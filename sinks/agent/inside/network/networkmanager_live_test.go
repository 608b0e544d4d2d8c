package network

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// networkManager boots a system that has NetworkManager and ifupdown, as Debian sets them up, with a file of people.
func networkManager(t *testing.T, path, text string, mode os.FileMode) live {
	t.Helper()
	nspawn.Require(t)
	root := t.TempDir()
	nspawn.UnpackTo(t, root, nspawn.Suites[0], "network-manager")
	put(t, root, path, text, mode)
	s := startIn(t, root)
	s.Says("ls /etc/systemd/system/*.wants/NetworkManager.service | wc -l", "1")
	return s
}

// A real NetworkManager sets an interface up by our profiles, and by that of people again.
func TestProveNetworkManagerForReal(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("needs a system with another network manager: set SLIPWAY_PROVE")
	}
	const path = keyfileFolder + "people.nmconnection"
	const profile = "[connection]\nid=people\ntype=ethernet\ninterface-name=eth0\n[ipv4]\nmethod=manual\naddress1=10.1.0.10/24\n"
	s := networkManager(t, path, profile, 0o600)
	s.Comes(addresses, "10.1.0.10/24")
	s.story("10.1.0.10/24")
	s.Says("cat "+path+"; ls "+keyfileFolder, profile+"people.nmconnection")
}

// An interface that NetworkManager leaves to ifupdown is not touched, and can be had after what the refusal says was done.
func TestProveNetworkManagerBesideIfupdownForReal(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("needs a system with another network manager: set SLIPWAY_PROVE")
	}
	s := networkManager(t, interfacesFile, "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\taddress 10.1.0.10/24\n", 0o644)
	s.Does("systemctl enable networking; systemctl restart networking NetworkManager")
	s.Comes(addresses, "10.1.0.10/24")
	s.Comes("nmcli -g GENERAL.STATE device show eth0", unmanagedState)
	is := links{"eth0": {Kind: "ethernet", MTU: 1400, Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}}}
	s.Does("touch /root/stamp")
	out, err := s.apply(request{Items: items(is), Deadline: time.Minute})
	if err == nil || !strings.Contains(out, "NetworkManager is enabled and leaves eth0 to ifupdown") {
		t.Fatalf("%v: %s", err, out)
	}
	s.Says("find /etc /var/lib/slipway-inside -newer /root/stamp -type f | grep -v lock || true; "+addresses, "10.1.0.10/24")

	s.Does("sed -i /eth0/,\\$d " + interfacesFile + "; systemctl restart NetworkManager")
	s.Comes("nmcli -g GENERAL.STATE device show eth0", "100 ")
	name, err := s.apply(request{Items: items(is), Deadline: time.Minute})
	if err != nil {
		t.Fatalf("%v: %s", err, name)
	}
	s.Does(helperPath + " confirm " + name)
	s.same(is)
}
