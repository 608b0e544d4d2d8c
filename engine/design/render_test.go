package design

import (
	stdjson "encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/encoding/json"
	"cuelang.org/go/encoding/yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What is rendered of a whole site is, fed back in, the same design; and so
// are its nodes one by one.
func TestRenderedIsTheSameDesign(t *testing.T) {
	hasOneGoroutine(t)
	for name, p := range goodDesigns(t) {
		s := evaluateHere(p, "").Site
		for _, f := range []Format{CUE, YAML, JSON} {
			again := fedBack(t, s, map[string]string{"site.cue": rendered(t, s, nil, f)})
			if diff := cmp.Diff(values(t, s), values(t, again)); diff != "" {
				t.Errorf("%s as %s: before (-), after (+):\n%s", name, f, diff)
			}
		}
		empty := *s
		empty.Nodes = nil
		files := map[string]string{"site.cue": rendered(t, &empty, nil, CUE)}
		for _, node := range s.NodeNames() {
			files[node+".cue"] = rendered(t, s, []string{node}, CUE)
		}
		files["profiles.cue"] = profilesOf(s)
		if diff := cmp.Diff(values(t, s), values(t, fedBack(t, s, files))); diff != "" {
			t.Errorf("%s in parts: before (-), after (+):\n%s", name, diff)
		}
	}
}

// rendered is what is rendered, as the text of a site's package.
func rendered(t *testing.T, s *site.Site, nodes []string, f Format) string {
	t.Helper()
	text, err := Render(s, nodes, f)
	if err != nil {
		t.Fatal(err)
	}
	var decls []ast.Decl
	switch f {
	case CUE:
		return string(text)
	case YAML:
		x, err := yaml.Extract("", text)
		if err != nil {
			t.Fatal(err)
		}
		decls = x.Decls
	case JSON:
		x, err := json.Extract("", text)
		if err != nil {
			t.Fatal(err)
		}
		decls = x.(*ast.StructLit).Elts
	}
	out, err := format.Node(&ast.File{Decls: decls})
	if err != nil {
		t.Fatal(err)
	}
	return "package " + s.Name + "\n\n" + string(out)
}

func profilesOf(s *site.Site) string {
	names := map[string]bool{}
	for _, n := range s.Nodes {
		for _, p := range n.Profiles {
			names[p] = true
		}
	}
	text := "package " + s.Name + "\n"
	for _, p := range slices.Sorted(maps.Keys(names)) {
		text += "profiles: \"" + p + "\": {}\n"
	}
	return text
}

func fedBack(t *testing.T, s *site.Site, files map[string]string) *site.Site {
	t.Helper()
	r := EvaluateHere(repository(files), "")
	if r.Site == nil {
		t.Fatalf("%s is not fed back: %s\n%s", s.Name, describe(r.Findings), files["site.cue"])
	}
	return r.Site
}

// values are a design without its places.
func values(t *testing.T, s *site.Site) string {
	t.Helper()
	plain := *s
	plain.Origins, plain.Nodes = nil, map[string]*site.Node{}
	for name, n := range s.Nodes {
		x := *n
		x.Origins, x.Place = nil, site.Origin{}
		plain.Nodes[name] = &x
	}
	text, err := stdjson.MarshalIndent(plain, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A text that is rendered is the text that was written.
func TestRenderKeepsTexts(t *testing.T) {
	const odd = "a\\(b) \"c\" #\"\"\" \t<&> \u2028 'd' \\u0041 #\"\\#(e)\"#\nline\n"
	s := &site.Site{Name: "small", SchemaVersion: site.SchemaVersion, Schema: site.SchemaVersion, Roles: map[string]*site.Role{}}
	for name, text := range map[string]string{"r": odd, "yes": "yes", "no": "012", "x": "~"} {
		s.Roles[name] = &site.Role{Description: text, Phases: []string{"base"}}
	}
	s.Rollout = EvaluateHere(repository(small), "").Site.Rollout
	for _, f := range []Format{CUE, YAML, JSON} {
		again := fedBack(t, s, map[string]string{"site.cue": rendered(t, s, nil, f)})
		if diff := cmp.Diff(s.Roles, again.Roles); diff != "" {
			t.Errorf("as %s: before (-), after (+):\n%s", f, diff)
		}
	}
}

// What is rendered as CUE is formatted as `cue fmt` does.
func TestRenderFormats(t *testing.T) {
	for name, p := range goodDesigns(t) {
		text := rendered(t, evaluateHere(p, "").Site, nil, CUE)
		formatted, err := format.Source([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(formatted), text); diff != "" {
			t.Errorf("%s: formatted (-), rendered (+):\n%s", name, diff)
		}
	}
}

// A site under sites/ may have a name that no package can have.
func TestRenderNamesAPackage(t *testing.T) {
	text, err := Render(&site.Site{Name: "dc-1"}, nil, CUE)
	if err != nil || !strings.HasPrefix(string(text), "package site\n") {
		t.Errorf("%v: %s", err, text)
	}
}

// What the placement says of a virtual machine is no part of a design: without
// it the rendered design is the same again.
func TestRenderedVirtualMachinesAreNotPlaced(t *testing.T) {
	s := EvaluateHere(virtualSite(t), "").Site
	for _, n := range s.Nodes {
		if n.IsVirtual() {
			n.Rack, n.Virtual.Host = "r1", site.Host{Hypervisor: "hv-1", Accelerator: "kvm"}
			n.Endpoints[site.Manager] = s.Hypervisors["hv-1"].Endpoint(s.Name, n.Name)
		}
	}
	text, err := Render(s, nil, CUE)
	if err != nil {
		t.Fatal(err)
	}
	again := EvaluateHere(repository(map[string]string{"site.cue": string(text)}), "")
	if again.Site == nil || len(again.Findings) > 0 {
		t.Fatalf("what was rendered has\n%s", describe(again.Findings))
	}
	d, err := Compare(EvaluateHere(virtualSite(t), "").Site, again.Site)
	if err != nil || !d.Empty() {
		t.Errorf("rendered, the design differs: %+v, %v", d, err)
	}
}

// virtualSite is the site of testdata/virtual.txtar.
func virtualSite(t *testing.T) fs.FS {
	t.Helper()
	a, err := txtar.ParseFile("testdata/virtual.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return golden{archive: a}.files(t)
}
