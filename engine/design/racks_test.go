package design_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The example of docs/networks.md makes one VLAN in racks whose networks differ, with the
// bridge over it and an address of each node's own rack.
func TestOneVLANInEveryRack(t *testing.T) {
	page, err := os.ReadFile("../../docs/networks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## One VLAN in every rack\n")
	text, _, _ = strings.Cut(text, "\n## ")
	_, text, _ = strings.Cut(text, "```cue\n")
	example, _, _ := strings.Cut(text, "```\n")
	s, wrong := evaluatedRacks(t, map[string]string{"site.cue": `package x

site: {schema: "v1alpha2", rollout: maxUnavailable: "1"}
roles: web: {}
credentials: {bmc: {}, os: {}}
networks: bmc: cidr: "10.9.0.0/24"
profiles: base: {role: "web", endpoints: manager: url: "redfish+https://{addresses.bmc}/redfish/v1/Systems/1"}
nodes: {
	"w-1": {profiles: ["base", "storage", "rack-r1"], identity: serial: "S1", addresses: {bmc: "10.9.0.11", "storage-r1": "10.20.1.11"}}
	"w-2": {profiles: ["base", "storage", "rack-r2"], identity: serial: "S2", addresses: {bmc: "10.9.0.12", "storage-r2": "10.20.2.11"}}
}
`, "racks.cue": "package x\n\n" + example})
	if wrong != "" {
		t.Fatalf("%s\n%s", wrong, example)
	}
	for node, address := range map[string]string{"w-1": "10.20.1.11/24", "w-2": "10.20.2.11/24"} {
		want := map[string]item.Link{
			"eno1": {Kind: "ethernet"}, "storage": {Kind: "vlan", VLAN: 20, Parent: "eno1"},
			"br-storage": {Kind: "bridge", Members: []string{"storage"}, Addresses: []string{address}},
		}
		got := s.Nodes[node].References.Links
		for name, l := range got {
			l.MTU = 0
			got[name] = l
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", node, diff)
		}
	}
}

// evaluatedRacks is the site of a folder with these files; errors are given as text.
func evaluatedRacks(t *testing.T, files map[string]string) (*site.Site, string) {
	t.Helper()
	dir := t.TempDir()
	files = maps.Clone(files)
	files["cue.mod/module.cue"] = "module: \"example.org/x\"\nlanguage: version: \"v0.9.0\"\n"
	if err := os.Mkdir(filepath.Join(dir, "cue.mod"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := design.EvaluateHere(os.DirFS(dir), "")
	var wrong strings.Builder
	for _, f := range r.Findings {
		if f.Severity == site.SeverityError {
			wrong.WriteString(f.String() + "\n")
		}
	}
	return r.Site, wrong.String()
}
