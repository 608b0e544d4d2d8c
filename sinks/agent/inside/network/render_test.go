package network

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

var update = flag.Bool("update", false, "write the golden files")

var managers = []string{Networkd, Netplan, NetworkManager, Ifupdown}

// designs are what the golden files hold each manager's configuration of.
var designs = map[string]links{
	"static": {"eth0": {Kind: "ethernet", MAC: "52:54:00:AA:00:01", Addresses: []string{"10.1.0.11/24", "fd00:1::11/64"},
		Routes:  []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}, {To: "::/0", Via: "fd00:1::1"}},
		Servers: []string{"10.1.0.2", "fd00:1::2"}, Search: []string{"example.org", "lab.example.org"}}},
	"dhcp": {"eth0": {Kind: "ethernet", DHCP4: true}, "eth1": {Kind: "ethernet", DHCP4: true, DHCP6: true}, "eth2": {Kind: "ethernet", DHCP6: true, SLAAC: true}},
	// The ports boot from the network untagged, each for itself, and are a bond then:
	// its own address is in that untagged network.
	"bond": {
		"eth0": {Kind: "ethernet", MAC: "52:54:00:aa:00:01"},
		"eth1": {Kind: "ethernet", MAC: "52:54:00:aa:00:02", MTU: 9000},
		"bond0": {Kind: "bond", Members: []string{"eth0", "eth1"}, MTU: 9000, Addresses: []string{"10.1.0.11/24"},
			Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}},
			Bond:   &item.Bond{Mode: "802.3ad", LACPRate: "fast", HashPolicy: "layer3+4", Monitor: 100, UpDelay: 200, DownDelay: 200, MinLinks: 1}},
		"bond0.5": {Kind: "vlan", Parent: "bond0", VLAN: 5, MTU: 1500},
		"storage": {Kind: "vlan", Parent: "bond0", VLAN: 6, MTU: 9000, Addresses: []string{"10.6.0.11/24"}},
		"br5":     {Kind: "bridge", Members: []string{"bond0.5"}, STP: true, Addresses: []string{"10.5.0.11/24"}},
	},
	"backup":  {"bond0": {Kind: "bond", Members: []string{"eth0", "eth1"}, DHCP4: true, Bond: &item.Bond{Mode: "active-backup", Monitor: 100, Primary: "eth1"}}},
	"several": {"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24", "10.1.0.12/24", "10.2.0.11/24", "192.0.2.9/32", "fd00::1/64", "fd00::2/64"}}},
	"slaac":   {"eth0": {Kind: "ethernet", SLAAC: true, Addresses: []string{"10.1.0.11/24"}}, "eth1": {Kind: "ethernet", SLAAC: true, Addresses: []string{"fd00::1/64"}}},
	"routes": {"eth0": {Kind: "ethernet", MTU: 9000, Addresses: []string{"10.1.0.11/24", "fd00::1/64"}, Routes: []item.Route{
		{To: "0.0.0.0/0", Via: "10.1.0.1", Metric: 200}, {To: "10.9.0.0/16", Via: "10.1.0.2", Metric: 50}, {To: "10.8.0.0/16", Via: "10.1.0.2"},
		{To: "fd00:9::/48", Via: "fd00::9", Metric: 30}}}},
	"sriov":  {"eth0": {Kind: "ethernet", MAC: "52:54:00:aa:00:01", Functions: 2, Trusted: true}},
	"bridge": {"eth0": {Kind: "ethernet"}, "br0": {Kind: "bridge", Members: []string{"eth0"}, DHCP4: true}},
}

func listing(files map[string]file) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "==> %s %04o\n%s", path, files[path].mode, files[path].text)
	}
	return b.String()
}

// Each manager's files are as the golden files have them, whatever the order.
func TestGoldenFiles(t *testing.T) {
	for name, all := range designs {
		if err := all.validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, manager := range managers {
			golden := filepath.Join("testdata", name+"."+manager)
			got := listing(render(manager, all))
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("%s: %v, got\n%s\nwant\n%s", golden, err, got, want)
			}
		}
	}
}

// tool skips a test where a program is missing.
func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed: run make setup", name)
		}
		t.Skipf("%s is not installed", name)
	}
}

// under writes files under a new root.
func under(t *testing.T, files map[string]file) string {
	t.Helper()
	root := t.TempDir()
	for path, f := range files {
		put(t, root, path, f.text, os.FileMode(f.mode))
	}
	return root
}

func put(t *testing.T, root, path, text string, mode os.FileMode) {
	t.Helper()
	at := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// netplan itself reads our file, and makes of it what is asked.
func TestNetplanReadsOurs(t *testing.T) {
	tool(t, "netplan")
	generator := "/usr/lib/netplan/generate"
	if _, err := os.Stat(generator); err != nil {
		generator = "/usr/libexec/netplan/generate"
	}
	for name, all := range designs {
		t.Run(name, func(t *testing.T) {
			root := under(t, render(Netplan, all))
			out, err := exec.Command(generator, "--root-dir", root).CombinedOutput()
			if err != nil || len(bytes.TrimSpace(out)) > 0 {
				t.Fatalf("%v: %s", err, out)
			}
			for _, id := range all.complete().names() {
				text, err := os.ReadFile(filepath.Join(root, "run/systemd/network", "10-netplan-"+id+".network"))
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range all[id].Addresses {
					if !strings.Contains(string(text), "Address="+a+"\n") {
						t.Errorf("%s lacks %s:\n%s", id, a, text)
					}
				}
				for _, r := range all[id].Routes {
					if !strings.Contains(string(text), "Gateway="+r.Via+"\n") {
						t.Errorf("%s lacks the route by %s:\n%s", id, r.Via, text)
					}
				}
				if m := all.complete().master(id); m != "" && !strings.Contains(string(text), "="+m+"\n") {
					t.Errorf("%s is not a member of %s:\n%s", id, m, text)
				}
			}
		})
	}
}

// NetworkManager's own parser reads our profiles and keeps all of them: what it
// writes again has every setting of ours.
func TestNetworkManagerReadsOurs(t *testing.T) {
	tool(t, "nmcli")
	for name, all := range designs {
		t.Run(name, func(t *testing.T) {
			for path, f := range render(NetworkManager, all) {
				if !strings.HasSuffix(path, ".nmconnection") {
					continue
				}
				cmd := exec.Command("nmcli", "--offline", "connection", "modify", "connection.zone", "")
				cmd.Stdin = strings.NewReader(f.text)
				var said bytes.Buffer
				cmd.Stderr = &said
				out, err := cmd.Output()
				if err != nil || said.Len() > 0 {
					t.Fatalf("%s: %v: %s\n%s", path, err, said.String(), f.text)
				}
				again := settings(string(out))
				for key, values := range settings(f.text) {
					if got := again[key]; !sameSetting(key, got, values) {
						t.Errorf("%s: %s is %q, want %q\n%s", path, key, got, values, out)
					}
				}
			}
		})
	}
}

// sameSetting leaves out what NetworkManager writes in another way or not at all,
// because it is its default.
func sameSetting(key string, got, want []string) bool {
	if slices.Equal(got, want) {
		return true
	}
	switch key {
	case "ipv4.may-fail", "ipv6.may-fail", "connection.master", "connection.slave-type", "bridge.stp":
		return len(got) == 0 || slices.Equal(got, want)
	case "vlan.flags":
		return true
	}
	return false
}

// ifupdown itself reads our file, and knows every interface in it.
func TestIfupdownReadsOurs(t *testing.T) {
	tool(t, "ifquery")
	for name, all := range designs {
		t.Run(name, func(t *testing.T) {
			root := under(t, render(Ifupdown, all))
			interfaces := filepath.Join(root, ifupdownFile)
			for _, id := range all.complete().names() {
				out, err := exec.Command("ifquery", "--interfaces="+interfaces, id).CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v: %s", id, err, out)
				}
				for _, a := range all[id].Addresses {
					if address, _, _ := strings.Cut(a, "/"); !strings.Contains(string(out), "address: "+address+"\n") {
						t.Errorf("%s lacks %s:\n%s", id, a, out)
					}
				}
				out, err = exec.Command("ifup", "--no-act", "--force", "--interfaces="+interfaces, id).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v: %s", id, err, out)
				}
			}
		})
	}
}

// What would not mean in a file what it says is refused.
func TestHostileInterfacesAreRefused(t *testing.T) {
	for name, all := range map[string]links{
		"a path":             {"../../etc": {Kind: "ethernet"}},
		"a line":             {"eth0\nx": {Kind: "ethernet"}},
		"an option":          {"-eth0": {Kind: "ethernet"}},
		"a long name":        {"abcdefghijklmnop": {Kind: "ethernet"}},
		"the loopback":       {"lo": {Kind: "ethernet"}},
		"no kind":            {"eth0": {}},
		"a MAC":              {"eth0": {Kind: "ethernet", MAC: "52:54:00:aa:00:01\n[Match]"}},
		"an MTU":             {"eth0": {Kind: "ethernet", MTU: 10}},
		"an address":         {"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24\nDHCP=yes"}}},
		"no length":          {"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11"}}},
		"a destination":      {"eth0": {Kind: "ethernet", Routes: []item.Route{{To: "default; reboot", Via: "10.1.0.1"}}}},
		"a gateway":          {"eth0": {Kind: "ethernet", Routes: []item.Route{{To: "0.0.0.0/0", Via: "fe80::1%$(reboot)"}}}},
		"a metric":           {"eth0": {Kind: "ethernet", Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1", Metric: -1}}}},
		"a server":           {"eth0": {Kind: "ethernet", Servers: []string{"$(reboot)"}}},
		"a search domain":    {"eth0": {Kind: "ethernet", Search: []string{"a b"}}},
		"a member":           {"br0": {Kind: "bridge", Members: []string{"eth0; reboot"}}},
		"itself":             {"br0": {Kind: "bridge", Members: []string{"br0"}}},
		"a bond's mode":      {"bond0": {Kind: "bond", Members: []string{"eth0"}, Bond: &item.Bond{Mode: "x; reboot"}}},
		"no mode":            {"bond0": {Kind: "bond", Members: []string{"eth0"}}},
		"a VLAN":             {"v": {Kind: "vlan", Parent: "eth0", VLAN: 4095}},
		"a VLAN on none":     {"v": {Kind: "vlan", VLAN: 5}},
		"a member's address": {"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.1/24"}}, "br0": {Kind: "bridge", Members: []string{"eth0"}}},
	} {
		if err := all.validate(); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
