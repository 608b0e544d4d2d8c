package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// emulator runs programs of arm64; it is of Debian's package qemu-user-static.
const emulator = "qemu-aarch64-static"

// The program for arm64, in an emulator, makes of a system what the one for amd64 makes of it, and
// sees the same there.
func TestARM64DoesTheSame(t *testing.T) {
	if _, err := exec.LookPath(emulator); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs " + emulator + ", which `make setup` installs")
	}
	native := build(t, "amd64")
	emulated := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(emulated, []byte("#!/bin/sh\nexec "+emulator+" "+build(t, "arm64")+` "$@"`+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	n := &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{
		Hosts:  map[string][]string{"10.1.0.12": {"n2", "n2.example.org"}},
		Sysctl: site.Scalars{"vm.swappiness": "17", "net.ipv4.ip_forward": "1"},
		Files:  map[string]site.File{"/etc/motd": {Content: new("welcome\n"), Mode: "0640"}, "/srv/deep/er/text": {Content: new(strings.Repeat("long ", 10000))}},
	}}
	var roots, seen [2]string
	for i, program := range []string{native, emulated} {
		root := t.TempDir()
		for name, text := range map[string]string{
			"os-release": "ID=debian\nVERSION_ID=\"12\"\n", "hosts": "127.0.0.1 localhost\n", "hostname": "old\n",
			"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n", "shadow": "root:*:1::::::\n", "motd": "before\n",
		} {
			if err := os.MkdirAll(root+"/etc", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(root+"/etc/"+name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		keys := map[string][]string{}
		for _, f := range []site.Facet{site.FacetBase, site.FacetConfig} {
			r := wire.Request{Version: wire.Version, Op: wire.OpApply, Site: "test", Node: "n1", Term: 1, Apply: &wire.Apply{Facet: string(f), Items: n.MayItems(f, &site.Platform{Family: "debian", ID: "debian", Release: "12"})}}
			for _, i := range r.Apply.Items {
				keys[string(f)] = append(keys[string(f)], i.Key)
			}
			ask(t, program, root, r)
		}
		roots[i] = listed(t, root)
		facets := ask(t, program, root, wire.Request{Version: wire.Version, Op: wire.OpObserve, Observe: keys}).Facets
		for _, facet := range slices.Sorted(maps.Keys(facets)) {
			s := facets[facet]
			seen[i] += fmt.Sprintf("%s %v %v %v %v\n", facet, s.Have, s.Owned, s.Unread, s.Cannot)
		}
	}
	if diff := cmp.Diff(roots[0], roots[1]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(roots[1], "/etc/motd -rw-r----- welcome") || !strings.Contains(roots[1], "10.1.0.12") || !strings.Contains(roots[1], "vm.swappiness") {
		t.Errorf("it made\n%s\nand saw\n%s", roots[1], seen[1])
	}
}

// listed are the files of a system with their modes and contents, but for what the program keeps of
// its own runs.
func listed(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	for _, line := range files(t, root) {
		name, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(name, "/var/lib/slipway-inside") {
			continue
		}
		info, err := os.Stat(root + name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(root + name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %s %s\n", name, info.Mode(), text)
	}
	return all.String()
}
