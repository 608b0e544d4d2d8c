package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/schema"
)

func TestSchemaPage(t *testing.T) { isPage(t, "../../docs/schema.md", schemaMarkdown()) }

// The links of the page lead somewhere.
func TestSchemaPageLinks(t *testing.T) {
	page := schemaMarkdown()
	for _, part := range strings.Split(page, "](#")[1:] {
		name, _, _ := strings.Cut(part, ")")
		if !strings.Contains(strings.ToLower(page), "\n## #"+name+"\n") {
			t.Errorf("nothing is at #%s", name)
		}
	}
}

// A second time nothing is written; what the schema no longer has goes.
func TestVendorSchema(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pkg")
	names, err := fs.Glob(schema.Files, "*.cue")
	if err != nil {
		t.Fatal(err)
	}
	if done, err := vendorSchema(dir); err != nil || !slices.Equal(done.Written, names) || len(done.Removed) > 0 {
		t.Errorf("at first %v, %v", done, err)
	}
	if done, err := vendorSchema(dir); err != nil || len(done.Written)+len(done.Removed) > 0 {
		t.Errorf("again %v, %v", done, err)
	}
	for name, text := range map[string]string{"old.cue": "package schema", names[0]: "package old", "README": "mine"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done, err := vendorSchema(dir)
	if err != nil || !slices.Equal(done.Written, names[:1]) || !slices.Equal(done.Removed, []string{"old.cue"}) {
		t.Errorf("after a change %v, %v", done, err)
	}
	for _, name := range names {
		want, err1 := fs.ReadFile(schema.Files, name)
		got, err2 := os.ReadFile(filepath.Join(dir, name))
		if err1 != nil || err2 != nil || string(got) != string(want) {
			t.Errorf("%s: %v, %v, or its content is another", name, err1, err2)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "README")); err != nil || string(text) != "mine" {
		t.Errorf("README is %q, %v", text, err)
	}
}

// What CUE alone can see of a design, the cue command sees with the vendored
// schema as check does, and at the same line.
func TestVendoredSchemaAgreesWithCUE(t *testing.T) {
	cue := filepath.Join(t.TempDir(), "cue")
	if out, err := exec.Command("go", "build", "-o", cue, "cuelang.org/go/cmd/cue").CombinedOutput(); err != nil {
		t.Fatalf("build cue: %v\n%s", err, out)
	}
	for _, c := range []struct {
		name, patch string
		good        bool
	}{
		{"nothing", "", true},
		{"override", `nodes: "server-1": power: "off"`, true},
		{"unset", `nodes: "server-1": power: _ @unset()`, true},
		{"a further node", `nodes: "server-3": {profiles: ["small-server", "server"], rack: "r1", addresses: {bmc: "192.0.2.13", os: "198.51.100.13"}}`, true},
		{"a profile as a definition", "import \"github.com/slipway-gitops/slipway/schema\"\n#Own: schema.#Profile & {boot: order: [\"Pxe\"]}\nprofiles: own: #Own\nnodes: \"server-1\": profiles: _", true},
		{"type", `nodes: "server-1": rack: 7`, false},
		{"type in a list", `nodes: "server-1": boot: order: ["Hdd", 1]`, false},
		{"value", `nodes: "server-1": power: "onn"`, false},
		{"pattern", `profiles: base: hardware: memory: "64 gigabytes"`, false},
		{"range", `networks: os: vlan: 4095`, false},
		{"name", `nodes: "server-1": image: "a/b"`, false},
		{"address", `nodes: "server-1": addresses: x: "300.1.1.1"`, false},
		{"key", `profiles: base: interfaces: "a name that is far too long": {}`, false},
		{"unknown field of a node", `nodes: "server-1": racc: "r1"`, false},
		{"unknown field within", `nodes: "server-1": boot: ordre: ["Hdd"]`, false},
		{"unknown field of a network", `networks: os: gatway: "198.51.100.1"`, false},
		{"unknown field in a definition", "import \"github.com/slipway-gitops/slipway/schema\"\n#Own: schema.#Profile & {bot: 1}\nprofiles: own: #Own", false},
		{"conflict", `nodes: "server-1": addresses: os: "198.51.100.12"`, false},
		{"conflict of lists", `profiles: base: boot: order: ["Hdd"]`, false},
		{"reference", `nodes: "server-1": rack: racks.r1.locaton`, false},
		{"unknown name", `nodes: "server-1": rack: r1`, false},
		{"syntax", `nodes: "server-1": {`, false},
		{"import", `import "example.org/other"`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files, err := newSite("fra")
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, newFile{"patch.cue", []byte("package fra\n\n" + c.patch + "\n")})
			if err := writeNew(dir, files); err != nil {
				t.Fatal(err)
			}
			before := design.EvaluateHere(os.DirFS(dir), "")
			if _, err := vendorSchema(filepath.Join(dir, "cue.mod/pkg", schema.Path)); err != nil {
				t.Fatal(err)
			}
			vet := exec.Command(cue, "vet", "./...")
			if strings.Contains(c.patch, "@unset()") { // a value that is only taken away is none
				vet = exec.Command(cue, "vet", "-c=false", "./...")
			}
			vet.Dir, vet.Env = dir, append(os.Environ(), "CUE_REGISTRY=none")
			out, err := vet.CombinedOutput()
			if (err == nil) != c.good || (before.Site != nil) != c.good {
				t.Errorf("cue vet: %v\n%s\ncheck: %v", err, out, before.Findings)
			}
			for _, f := range before.Findings {
				if f.Severity != site.SeverityError { // which CUE does not have
					continue
				}
				line := fmt.Sprintf("%s:%d:", f.File, f.Line)
				if !strings.Contains(string(out), line) && !strings.HasPrefix(string(out), "some instances are incomplete") { // which names no line
					t.Errorf("check says %s, cue vet does not:\n%s", f, out)
				}
			}
			after := design.EvaluateHere(os.DirFS(dir), "")
			if diff := cmp.Diff(before.Findings, after.Findings); diff != "" {
				t.Errorf("with the schema vendored check says something else:\n%s", diff)
			}
		})
	}
}

// A copy of the schema changes nothing of what check says, whatever is in it.
func TestVendoredSchemaIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	files, err := newSite("fra")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files,
		newFile{"patch.cue", []byte("package fra\n\nnodes: \"server-1\": racc: \"r1\"\n")},
		newFile{"cue.mod/pkg/" + schema.Path + "/layer.cue", []byte("package schema\n\n#Layer: racc: string\n#Site: _\n")},
		newFile{"cue.mod/pkg/" + schema.Path + "/broken.cue", []byte("package schema\n\n#Broken: {\n")},
	)
	if err := writeNew(dir, files); err != nil {
		t.Fatal(err)
	}
	r := design.EvaluateHere(os.DirFS(dir), "")
	if len(r.Findings) != 1 || r.Findings[0].Code != "unknown-field" || r.Findings[0].File != "patch.cue" {
		t.Errorf("%v", r.Findings)
	}
}
