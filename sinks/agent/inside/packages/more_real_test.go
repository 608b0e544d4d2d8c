package packages

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func patchItem(t *testing.T, p item.Patch) item.Item {
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return item.Item{Key: "patch", Fields: map[string]string{"level": p.Level}, Body: text}
}

// Upgrades of a level are made, and no others; looking for them writes nothing,
// and runs nothing while nothing has changed.
func TestProveAptPatch(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("takes minutes: set SLIPWAY_PROVE")
	}
	t.Parallel()
	s := debian(t)
	s.publish("stable", "Site", deb{name: "plain", version: "1.0"}, deb{name: "urgent", version: "1.0"}, deb{name: "fixed", version: "1.0"})
	s.publish("stable-security", "Site-Security")
	s.does([]item.Item{s.repository("stable", 0), s.repository("stable-security", 0), pkg("plain", "", "present"), pkg("urgent", "", "present"), pkg("fixed", "1.0", "present")})
	s.publish("stable", "Site", deb{name: "plain", version: "2.0"}, deb{name: "fixed", version: "2.0"})
	s.publish("stable-security", "Site-Security", deb{name: "urgent", version: "1.1"})

	before := listing(t, s.root)
	if got := s.have("patch").Have["patch.level"]; got != "none" { // by the lists that are there
		t.Errorf("before the lists are fetched: %q", got)
	}
	if after := listing(t, s.root); after != before {
		t.Errorf("looking wrote %s", difference(before, after))
	}
	s.makes([]item.Item{patchItem(t, item.Patch{Level: "security", Except: []string{"fixed"}})})
	s.are([]item.Item{pkg("plain", "1.0", "present"), pkg("urgent", "1.1", "present"), pkg("fixed", "1.0", "present")})
	s.ran = nil
	s.have("patch", "packages.plain")
	if len(s.ran) != 0 {
		t.Errorf("a look where nothing has changed ran %v", s.ran)
	}
	s.makes([]item.Item{patchItem(t, item.Patch{Level: "all", Except: []string{"fixed"}})})
	s.are([]item.Item{pkg("plain", "2.0", "present"), pkg("fixed", "1.0", "present")})
}

// wheel is a package of Python that an index has.
func wheel(t *testing.T, index, name, version string, needs ...string) {
	t.Helper()
	requires := ""
	for _, other := range needs {
		requires += "Requires-Dist: " + other + "\n"
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	info := name + "-" + version + ".dist-info/"
	for file, content := range map[string]string{
		name + ".py":      "version = '" + version + "'\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n" + requires,
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	} {
		f, err := w.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(index, item.PythonName(name))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	file := name + "-" + version + "-py3-none-any.whl"
	if err := os.WriteFile(filepath.Join(folder, file), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	page, _ := os.ReadFile(filepath.Join(folder, "index.html")) // empty at first
	if err := os.WriteFile(filepath.Join(folder, "index.html"), append(page, "<a href=\""+file+"\">"+file+"</a>\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// An environment is made, changed, and removed by the host's own Python.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	if exec.Command("/usr/bin/python3", "-m", "ensurepip", "--version").Run() != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3-venv not installed: run make setup")
		}
		t.Skip("python3-venv not installed: run make setup")
	}
	index, folder := t.TempDir(), filepath.Join(t.TempDir(), "env")
	wheel(t, index, "one", "1.0")
	wheel(t, index, "one", "2.0")
	wheel(t, index, "Two_Words", "1.0")
	wheel(t, index, "needy", "1.0", "one>=2", "two-words")
	owned, err := inside.LoadOwned(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := inside.Real("/", false)
	h.Owned = owned
	env := func(packages map[string]string) item.Item {
		l := item.Language{Kind: "python", Path: folder, Index: "file://" + index, Packages: packages}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return item.Item{Key: "language.tools", Fields: map[string]string{"": l.Text()}, Body: text}
	}
	for _, i := range []item.Item{
		env(nil), // without packages it is there too
		env(map[string]string{"one": "1.0", "two-words": "1.0"}), env(map[string]string{"one": "2.0", "two-words": "1.0"}), env(map[string]string{"one": "2.0"}),
	} {
		if err := New().Apply(t.Context(), h, []item.Item{i}, nil); err != nil {
			t.Fatal(err)
		}
		seen, err := New().Observe(t.Context(), h, []string{i.Key})
		if err != nil || seen.Have[i.Key] != i.Fields[""] {
			t.Errorf("%v %v, want %q", seen, err, i.Fields[""])
		}
	}
	if out, err := exec.Command(folder+"/bin/python", "-c", "import one; print(one.version)").CombinedOutput(); err != nil || string(out) != "2.0\n" {
		t.Errorf("%s %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "bin/pip")); err != nil {
		t.Error(err)
	}
	err = New().Apply(t.Context(), h, []item.Item{env(map[string]string{"one": "9.9"})}, nil)
	if err == nil || !strings.Contains(err.Error(), "one==9.9") || classOf(err) != wire.Failed {
		t.Error(err)
	}

	// What a package depends on is named too, or nothing is installed.
	err = New().Apply(t.Context(), h, []item.Item{env(map[string]string{"one": "2.0", "needy": "1.0"})}, nil)
	if err == nil || !strings.Contains(err.Error(), `pip would take "two-words": "1.0"`) || classOf(err) != wire.Refused {
		t.Error(err)
	}
	have := func() string {
		seen, err := New().Observe(t.Context(), h, []string{"language.tools"})
		if err != nil {
			t.Fatal(err)
		}
		return seen.Have["language.tools"]
	}
	if got := have(); got != env(map[string]string{"one": "2.0"}).Fields[""] {
		t.Errorf("after what was refused there is %s", got)
	}
	err = New().Apply(t.Context(), h, []item.Item{env(map[string]string{"one": "1.0", "two-words": "1.0", "needy": "1.0"})}, nil)
	if err == nil || !strings.Contains(err.Error(), "needy 1.0 depends on one>=2") {
		t.Error(err)
	}

	// What somebody else puts into it is seen, and goes.
	if out, err := exec.Command(folder+"/bin/python", "-m", "pip", "install", "-q", "--no-deps", "--index-url", "file://"+index, "two-words").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := have(); !strings.Contains(got, "two-words==1.0") {
		t.Errorf("what was added is not seen: %s", got)
	}
	if err := New().Apply(t.Context(), h, []item.Item{env(map[string]string{"one": "2.0"})}, nil); err != nil || strings.Contains(have(), "two-words") {
		t.Errorf("what was added stays: %s, %v", have(), err)
	}
	if err := New().Apply(t.Context(), h, nil, []string{"language.tools"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", folder, err)
	}
}
