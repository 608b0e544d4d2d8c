package network

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
)

// What the system's manager has set up is told as Observe tells it, with the name
// service; what something else makes is told to be left.
func TestSurvey(t *testing.T) {
	s := newSystem(t)
	s.link("docker0", "02:42:00:00:00:01", 7)
	s.addresses["docker0"] = []string{"172.17.0.1/16"}
	put(t, s.root, "/sys/class/net/docker0/bridge/stp_state", "0\n", 0o644)
	put(t, s.root, "/run/systemd/netif/links/2", "ADMIN_STATE=configured\nDNS=10.1.0.2 10.1.0.3\nDOMAINS=example.org\n", 0o644)
	put(t, s.root, resolvFile, "nameserver 10.1.0.3\nnameserver 10.1.0.2\n", 0o644)
	before := allFiles(t, s.root)
	found, err := s.facet().Survey(t.Context(), s.host())
	if err != nil {
		t.Fatal(err)
	}
	if after := allFiles(t, s.root); !slices.Equal(after, before) {
		t.Errorf("the survey has written: %q", after)
	}
	want := []item.Item{item.New("links.eth0", map[string]string{
		"kind": "ethernet", "mac": "52:54:00:aa:00:01", "addresses": "10.1.0.10/24", "routes": "0.0.0.0/0 via 10.1.0.1", "dns": "10.1.0.2, 10.1.0.3; example.org",
	}, nil)}
	var l item.Link
	if len(found.Items) == 1 {
		if err := json.Unmarshal(found.Items[0].Body, &l); err != nil || l.Servers[0] != "10.1.0.2" {
			t.Errorf("its body is %+v, %v", l, err)
		}
		found.Items[0].Body = nil
	}
	if diff := cmp.Diff(want, found.Items); diff != "" {
		t.Error(diff)
	}
	if len(found.Left) != 1 || found.Left[0].What != "links.docker0" {
		t.Errorf("left are %+v", found.Left)
	}
	seen, err := s.facet().Observe(t.Context(), s.host(), []string{"links.eth0"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range item.Values(want) {
		if seen.Have[name] != text {
			t.Errorf("%s is %q, and the survey says %q", name, seen.Have[name], text)
		}
	}
}

// allFiles are all files with their contents.
func allFiles(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, path+"\n"+string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNameService(t *testing.T) {
	s := newSystem(t)
	put(t, s.root, "/etc/network/interfaces", "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\taddress 10.1.0.10/24\n\tdns-nameservers 10.1.0.2 10.1.0.3\n\tdns-search example.org\n\niface eth1 inet static\n\tdns-nameservers 10.2.0.2\n", 0o644)
	put(t, s.root, "/etc/NetworkManager/system-connections/a.nmconnection", "[connection]\ninterface-name=eth0\n[ipv4]\ndns=10.1.0.2;10.1.0.3;\ndns-search=example.org;\n[wifi-security]\npsk=secret\n", 0o600)
	for _, manager := range []string{Ifupdown, NetworkManager} {
		servers, search := nameService(s.host(), manager, "eth0", &real{index: 2})
		if !slices.Equal(servers, []string{"10.1.0.2", "10.1.0.3"}) || !slices.Equal(search, []string{"example.org"}) {
			t.Errorf("%s: got %q, %q", manager, servers, search)
		}
	}
}

// A name is found as a word, and not within another one.
func TestNamesAreWords(t *testing.T) {
	for text, want := range map[string]bool{"name=eth1\n": true, "name=eth10\n": false, "veth1": false, "eth1": true, "a eth10 eth1.5": true, "": false} {
		if names(text, "eth1") != want {
			t.Errorf("%q: got %v", text, !want)
		}
	}
}
