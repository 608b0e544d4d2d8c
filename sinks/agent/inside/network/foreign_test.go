package network

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

var ours = links{"eth0": {Kind: "ethernet", MAC: "52:54:00:aa:00:01"}, "bond0": {Kind: "bond"}}

// A file of others counts where its manager would let it count; one that sets up
// more than ours is refused.
func TestConflicts(t *testing.T) {
	for name, c := range map[string]struct {
		manager, file, text string
		want                bool
		refused             string
	}{
		"before ours":           {Networkd, "/etc/systemd/network/10-eth0.network", "[Match]\nName=eth0\n", true, ""},
		"behind ours":           {Networkd, "/etc/systemd/network/20-eth0.network", "[Match]\nName=eth0\n", false, ""},
		"by its MAC":            {Networkd, "/etc/systemd/network/00-a.network", "[Match]\nMACAddress=52:54:00:AA:00:01\n", true, ""},
		"another one":           {Networkd, "/etc/systemd/network/00-a.network", "[Match]\nName=eth5\n", false, ""},
		"a pattern of ours":     {Networkd, "/etc/systemd/network/00-a.network", "[Match]\nName=eth0*\n", true, ""},
		"a pattern of more":     {Networkd, "/etc/systemd/network/00-a.network", "[Match]\nName=e*\n", false, "sorts after 10-slipway-"},
		"everything":            {Networkd, "/etc/systemd/network/00-a.network", "[Match]\nType=ether\n", false, "sorts after 10-slipway-"},
		"a device":              {Networkd, "/etc/systemd/network/00-b.netdev", "[NetDev]\nName=bond0\nKind=bond\n", true, ""},
		"netplan":               {Netplan, "/etc/netplan/50-cloud-init.yaml", "# by cloud-init\nnetwork:\n    version: 2\n    ethernets:\n        eth0:\n            dhcp4: true\n", true, ""},
		"netplan by MAC":        {Netplan, "/etc/netplan/50.yaml", "network:\n  ethernets:\n    port:\n      match:\n        macaddress: \"52:54:00:aa:00:01\"\n      addresses:\n      - 10.0.0.1/24\n", true, ""},
		"netplan by MAC inline": {Netplan, "/etc/netplan/50.yaml", "network:\n  ethernets:\n    port:\n      match: {macaddress: '52:54:00:aa:00:01'}\n", true, ""},
		"netplan by name":       {Netplan, "/etc/netplan/50.yaml", "network:\n  ethernets:\n    port:\n      set-name: eth0\n", true, ""},
		"netplan of another":    {Netplan, "/etc/netplan/50.yaml", "network:\n  ethernets:\n    eth5: {}\n", false, ""},
		"netplan of more":       {Netplan, "/etc/netplan/50.yaml", "network:\n  ethernets:\n    eth0: {}\n    eth5: {}\n", false, "sets up eth5"},
		"netplan as JSON":       {Netplan, "/etc/netplan/50.yaml", `{"network": {"version": 2, "bonds": {"bond0": {"interfaces": ["eth0"]}}}}`, true, ""},
		"netplan in flow":       {Netplan, "/etc/netplan/50.yaml", "network: {ethernets: {eth0: {dhcp4: true}}}\n", false, "plain blocks"},
		"netplan renderer":      {Netplan, "/etc/netplan/01.yaml", "network:\n  version: 2\n  renderer: NetworkManager\n", false, ""},
		"a profile":             {NetworkManager, "/x", "[connection]\nid=a\ninterface-name=eth0\n", true, ""},
		"a profile by MAC":      {NetworkManager, "/x", "[ethernet]\nmac-address=52:54:00:AA:00:01\n", true, ""},
		"a profile of another":  {NetworkManager, "/x", "[connection]\ninterface-name=eth5\n", false, ""},
		"an ifcfg":              {NetworkManager, "/x", "TYPE=Ethernet\nDEVICE=\"eth0\"\n", true, ""},
	} {
		got, err := conflicts(c.file, c.text, c.manager, ours, []string{"eth5"})
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		case c.refused == "" && (err != nil || got != c.want):
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}

// Stanzas of ours leave a file of ifupdown, and all the rest stays as it is.
func TestCutStanzas(t *testing.T) {
	const text = "# kept\nsource /etc/network/interfaces.d/*\nauto lo eth0\niface lo inet loopback\n\nallow-hotplug eth0 eth5\niface eth0 inet static\n" +
		"\taddress 10.1.0.10/24\n\tup echo \\\n\t\tmore\niface eth0:1 inet static\n\taddress 10.1.0.12/24\niface eth5 inet dhcp\n"
	stays, cut := cutStanzas(text, func(name string) bool { return name == "eth0" })
	if want := "# kept\nsource /etc/network/interfaces.d/*\nauto lo\niface lo inet loopback\n\nallow-hotplug eth5\niface eth5 inet dhcp\n"; stays != want {
		t.Errorf("stays %q\nwant  %q", stays, want)
	}
	if want := "auto eth0\nallow-hotplug eth0\niface eth0 inet static\n\taddress 10.1.0.10/24\n\tup echo \\\n\t\tmore\niface eth0:1 inet static\n\taddress 10.1.0.12/24\n"; cut != want {
		t.Errorf("cut %q\nwant %q", cut, want)
	}
	if again, none := cutStanzas(stays, func(name string) bool { return name == "eth0" }); again != stays || none != "" {
		t.Errorf("cut again: %q, %q", again, none)
	}
}

// The line that makes ifupdown read our file is there exactly where it is needed.
func TestSourceLine(t *testing.T) {
	const plain = "auto lo\n"
	with := withSource(plain, true)
	if with != plain+sourceLine+"\n" || withSource(with, true) != with || withSource(with, false) != plain {
		t.Errorf("%q, %q", with, withSource(with, false))
	}
	const has = "source /etc/network/interfaces.d/*\n"
	if got := withSource(has, true); got != has {
		t.Errorf("%q", got)
	}
}

// The manager is the one that is enabled; netplan comes before what it configures.
func TestManager(t *testing.T) {
	for want, files := range map[string][]string{
		Networkd:       {"/etc/systemd/system/multi-user.target.wants/systemd-networkd.service", "/usr/sbin/ifup", "/etc/network/interfaces"},
		Netplan:        {"/etc/systemd/system/multi-user.target.wants/systemd-networkd.service", "/usr/sbin/netplan", "/etc/netplan/50-x.yaml"},
		NetworkManager: {"/etc/systemd/system/multi-user.target.wants/NetworkManager.service", "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"},
		Ifupdown:       {"/usr/sbin/ifup", "/etc/network/interfaces"},
		"":             {"/usr/sbin/netplan"},
	} {
		s := &system{t: t, root: t.TempDir()}
		for _, path := range files {
			put(t, s.root, path, "", 0o755)
		}
		if got := Manager(s.host()); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Folders that lead out of another root are not followed.
func TestPlaceStaysInside(t *testing.T) {
	s := newSystem(t)
	h := s.host()
	if err := writeFile(h, "/etc/new/file", []byte("x"), 0o600); err != nil || !s.has("/etc/new/file") {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := writeFile(h, "/etc/out", []byte(outside), fs.ModeSymlink); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(h, "/etc/out/file", []byte("x"), 0o600); err == nil || !strings.Contains(err.Error(), "leads out of the system") {
		t.Errorf("%v, want refused", err)
	}
}

// Whatever stands in a file of others, nothing falls over, and cutting stanzas
// loses no word of it.
func FuzzForeignFiles(f *testing.F) {
	f.Add("network:\n  ethernets:\n    eth0: {}\n")
	f.Add("auto lo eth0\niface eth0 inet dhcp\n up x \\\n y\n")
	f.Add("[Match]\nName=eth0\n= \n=\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, manager := range []string{Networkd, Netplan, NetworkManager} {
			_, _ = conflicts("/etc/x/10-a.network", text, manager, ours, nil) // only that it ends
		}
		stays, cut := cutStanzas(text, func(name string) bool { return name == "eth0" })
		count := func(text string) map[string]int {
			all := map[string]int{}
			for _, w := range strings.Fields(text) {
				if w != "auto" && !strings.HasPrefix(w, "allow-") {
					all[w]++
				}
			}
			return all
		}
		if a, b := count(text), count(stays+cut); !maps.Equal(a, b) {
			t.Errorf("%v became %v", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
		}
	})
}
