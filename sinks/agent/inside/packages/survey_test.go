package packages

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

func putFile(t *testing.T, root, path, text string) {
	t.Helper()
	at := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// surveyed is a system under a root folder whose programs print what is given.
func surveyed(t *testing.T, root string, printed map[string]inside.Output) (item.Found, *inside.Host) {
	t.Helper()
	h := &inside.Host{Root: root, Tell: func(string) {}, Exec: func(_ context.Context, c inside.Command) (inside.Output, error) {
		out, ok := printed[c.Path]
		if !ok {
			return inside.Output{Code: 127}, fmt.Errorf("no program %s", c.Path)
		}
		return out, nil
	}}
	var err error
	if h.Owned, err = inside.LoadOwned(root); err != nil {
		t.Fatal(err)
	}
	found, err := facet{}.Survey(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return found, h
}

// Of packages those are told that a person asked for after the installation, and those
// on hold; of repositories those that are nobody's but a person's.
func TestSurveyOfApt(t *testing.T) {
	root := t.TempDir()
	var status strings.Builder
	for _, p := range []struct{ name, priority, state, more string }{
		{"dpkg", "required", "install", "Essential: yes\n"}, {"vim-tiny", "important", "install", ""}, {"nginx", "optional", "install", ""},
		{"grub-pc", "optional", "install", ""}, {"linux-image-6.1.0-13-amd64", "optional", "install", ""}, {"postgresql", "optional", "hold", ""},
		{"libc6", "optional", "install", "Protected: yes\n"}, {"gone", "optional", "install", ""},
	} {
		state := p.state + " ok installed"
		if p.name == "gone" {
			state = "deinstall ok config-files"
		}
		fmt.Fprintf(&status, "Package: %s\nStatus: %s\nPriority: %s\n%sArchitecture: amd64\nVersion: 1.%d\n\n", p.name, state, p.priority, p.more, len(p.name))
	}
	putFile(t, root, dpkgStatus, status.String())
	var first bytes.Buffer
	z := gzip.NewWriter(&first)
	z.Write([]byte("Package: grub-pc\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\n"))
	z.Close()
	putFile(t, root, installerStatus, first.String())
	putFile(t, root, "/etc/os-release", "ID=debian\n")
	putFile(t, root, "/etc/apt/sources.list", "# a comment\ndeb http://deb.debian.org/debian bookworm main\ndeb [arch=amd64] https://ops:word@apt.example.org/x?token=1 stable main\n")
	putFile(t, root, "/etc/apt/sources.list.d/slipway-own.sources", "Types: deb\nURIs: https://own.example.org\nSuites: x\n")
	putFile(t, root, "/etc/apt/sources.list.d/off.sources", "Enabled: no\nTypes: deb\nURIs: https://off.example.org\nSuites: x\n")
	putFile(t, root, aptLists+"/deb.debian.org_debian_dists_bookworm_InRelease", "Origin: Debian\nLabel: Debian\nSuite: stable\nCodename: bookworm\n")
	putFile(t, root, "/etc/apt/preferences.d/mine", "Package: *\n")

	found, h := surveyed(t, root, map[string]inside.Output{"apt-mark": {Out: []byte("dpkg\nvim-tiny\nnginx\ngrub-pc\nlinux-image-6.1.0-13-amd64\nlibc6\ngone\n")}})
	want := []item.Item{
		item.New("packages.nginx", map[string]string{"state": "present", "version": "1.5"}, nil),
		item.New("packages.postgresql", map[string]string{"state": "held", "version": "1.10"}, nil),
	}
	if diff := cmp.Diff(want, found.Items); diff != "" {
		t.Error(diff)
	}
	seen, err := facet{}.Observe(t.Context(), h, item.Keys(found.Items))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(item.Values(found.Items), seen.Have); diff != "" {
		t.Errorf("Observe tells another thing: %s", diff)
	}
	told, _ := json.Marshal(found.Left)
	for _, want := range []string{"https://apt.example.org/x of /etc/apt/sources.list", "/etc/apt/preferences.d/mine", "packages.linux-image-6.1.0-13-amd64"} {
		if !strings.Contains(string(told), want) {
			t.Errorf("it does not tell of %s: %s", want, told)
		}
	}
	for _, secret := range []string{"word", "token", "deb.debian.org", "own.example", "off.example"} {
		if strings.Contains(string(told), secret) {
			t.Errorf("it tells of %s: %s", secret, told)
		}
	}
}

func TestSurveyOfDNF(t *testing.T) {
	root := t.TempDir()
	putFile(t, root, "/usr/lib/sysimage/rpm/rpmdb.sqlite", "")
	putFile(t, root, dnfConf, "[main]\n")
	putFile(t, root, "/etc/yum.repos.d/mine.repo", "[mine]\nbaseurl=https://x\n")
	found, _ := surveyed(t, root, map[string]inside.Output{
		"rpm": {Out: []byte("nginx\t0\t1.22-1.el9\tx86_64\t5\nkernel\t0\t5.14-1\tx86_64\t5\n"), Code: 0},
		"dnf": {Out: []byte("nginx\nkernel\n")},
	})
	if keys := item.Keys(found.Items); !slices.Equal(keys, []string{"packages.nginx"}) || found.Items[0].Fields["version"] != "1.22-1.el9" {
		t.Errorf("got %+v", found.Items)
	}
}

// A package that was there stays when it leaves the design.
func TestTakenOverPackagesStay(t *testing.T) {
	m := newModel(t)
	m.have["nginx"] = "install ok installed 1.22"
	m.have["cron"] = "install ok installed 3"
	m.save()
	wanted := []item.Item{
		item.New("packages.nginx", map[string]string{"state": "present"}, nil), item.New("packages.cron", map[string]string{"state": "present", "version": "3"}, nil),
		item.New("packages.htop", map[string]string{"state": "present"}, nil),
	}
	if err := (facet{}).Apply(t.Context(), m.host(), wanted, nil); err != nil {
		t.Fatal(err)
	}
	if keys := m.host().Owned.Keys(facetName); !slices.Equal(keys, []string{"packages.htop"}) {
		t.Errorf("Slipway owns %q", keys)
	}
	if err := (facet{}).Apply(t.Context(), m.host(), nil, item.Keys(wanted)); err != nil {
		t.Fatal(err)
	}
	if m.have["nginx"] != "install ok installed 1.22" || m.have["cron"] != "install ok installed 3" || strings.Contains(m.have["htop"], "ok installed") {
		t.Errorf("left is %v", m.have)
	}
}
