package design

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/slipway-gitops/slipway/engine/site"
)

// filesIn are the files of a folder.
func filesIn(t *testing.T, dir string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has %d files, %v", dir, len(files), err)
	}
	return files
}

// migrated are the files after a migration.
func migrated(files fstest.MapFS, m Migration) fstest.MapFS {
	after := maps.Clone(files)
	for _, f := range m.Files {
		after[f.Name] = &fstest.MapFile{Data: f.Text}
	}
	return after
}

// TestMigrate rewrites what is in testdata/migrate/*.txtar: the archives have
// the files before and, under want/, those that change, the changes and the
// findings. -update rewrites them.
func TestMigrate(t *testing.T) {
	paths, err := filepath.Glob("testdata/migrate/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	e := newEvaluator(t, Limits{})
	for _, p := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(p)
			if err != nil {
				t.Fatal(err)
			}
			g := golden{p, a}
			files := g.files(t).(fstest.MapFS)
			m, err := e.Migrate(t.Context(), files)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{wantPrefix + "said": narrate(m)}
			for _, f := range m.Files {
				got[wantPrefix+f.Name] = string(f.Text)
			}
			compareMigrated(t, g, got)
			if len(m.Findings) > 0 {
				return
			}
			again, err := e.Migrate(t.Context(), migrated(files, m))
			if err != nil || len(again.Files)+len(again.Changes)+len(again.Findings) > 0 {
				t.Errorf("again: %s, %v", narrate(again), err)
			}
		})
	}
}

// narrate is what a migration says.
func narrate(m Migration) string {
	var b strings.Builder
	for _, c := range m.Changes {
		fmt.Fprintf(&b, "%s:%d: %s -> %s\n", c.File, c.Line, c.Have, c.Want)
	}
	return b.String() + describe(m.Findings)
}

func compareMigrated(t *testing.T, g golden, got map[string]string) {
	t.Helper()
	if *update {
		a := &txtar.Archive{Comment: g.archive.Comment}
		for _, f := range g.archive.Files {
			if !strings.HasPrefix(f.Name, wantPrefix) {
				a.Files = append(a.Files, f)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(got)) {
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(got[name])})
		}
		if err := os.WriteFile(g.path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := map[string]string{}
	for _, f := range g.archive.Files {
		if strings.HasPrefix(f.Name, wantPrefix) {
			want[f.Name] = string(f.Data)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// The example as it was in v1alpha1 becomes one that is accepted and means the
// same; what is no field of that is as it was, to the byte.
func TestMigrateTheExampleOfBefore(t *testing.T) {
	files := filesIn(t, "testdata/migrate/v1alpha1")
	m, err := newEvaluator(t, Limits{}).Migrate(t.Context(), files)
	if err != nil || len(m.Findings) > 0 {
		t.Fatalf("%v, %v", m.Findings, err)
	}
	want := "endpoints.cue:9: bmc: url: \"redfish+https://\\(addresses.bmc):\\(_ports.bmc)/redfish/v1/Systems/1\" -> " +
		"manager: url: \"redfish+https://\\(addresses.bmc):\\(_ports.bmc)/redfish/v1/Systems/1\"\n" +
		"inventory/hardware.cue:11: memoryGiB: 64 -> memory: \"64GiB\"\n" +
		"inventory/hardware.cue:12: processors: 1 -> sockets: 1\n" +
		"profiles.cue:11: bmc: trust: ca: inventory.ca -> manager: trust: ca: inventory.ca\n" +
		"site.cue:17:  -> site: schema: \"v1alpha2\"\n" + describe(nil)
	if got := narrate(m); got != want {
		t.Errorf("said\n%s\nwant\n%s", got, want)
	}
	// What no program can know is left to a person: the digest of each node's own
	// image.
	after := EvaluateHere(migrated(files, m), "")
	if len(after.Findings) != 1 || after.Findings[0].Code != "image-digest" {
		t.Fatalf("findings %v, want one that asks for digests", after.Findings)
	}
	files["digests.cue"] = &fstest.MapFile{Data: []byte(`package example

images: debian12: digests: {
	"compute-5": "9100babb16941ce0792fe9ad000c14ee47ad36f06ec656db97ef861af1c7f2e8"
	"compute-6": "9100babb16941ce0792fe9ad000c14ee47ad36f06ec656db97ef861af1c7f2e8"
}
`)}
	if after = EvaluateHere(migrated(files, m), ""); after.Site == nil {
		t.Fatalf("%v", after.Findings)
	}
	if s := after.Site; s.Schema != site.SchemaVersion || s.Name != "example" || len(s.Nodes) != 12 {
		t.Errorf("site %s of schema %s has %d nodes", s.Name, s.Schema, len(s.Nodes))
	}
	for name, n := range after.Site.Nodes {
		if n.Hardware.Memory.String() != "64GiB" || n.Hardware.Sockets != 1 {
			t.Errorf("%s has the hardware %+v", name, n.Hardware)
		}
	}
	before := withoutHardware(t, files)
	if diff := diffSites(t, before, after.Site); len(diff) > 0 {
		t.Errorf("apart from hardware it differs: %v", diff)
	}
}

// withoutHardware is the effective design of files without the fields whose values
// changed, which leaves what both versions can say, by its present names.
func withoutHardware(t *testing.T, files fstest.MapFS) *site.Site {
	t.Helper()
	rest := maps.Clone(files)
	text := string(files["inventory/hardware.cue"].Data)
	for _, field := range []string{"\t\tmemoryGiB:  64\n", "\t\tprocessors: 1\n"} {
		if !strings.Contains(text, field) {
			t.Fatalf("hardware.cue has no %q", field)
		}
		text = strings.Replace(text, field, "", 1)
	}
	rest["inventory/hardware.cue"] = &fstest.MapFile{Data: []byte(text)}
	for file, is := range map[string]string{"endpoints.cue": "bmc: url: \"redfish", "profiles.cue": "endpoints: bmc:"} {
		rest[file] = &fstest.MapFile{Data: []byte(strings.Replace(string(files[file].Data), is, strings.Replace(is, "bmc", "manager", 1), 1))}
	}
	rest["version.cue"] = &fstest.MapFile{Data: []byte("package example\n\nsite: schema: \"v1alpha2\"\n")}
	r := EvaluateHere(rest, "")
	if r.Site == nil {
		t.Fatalf("without hardware: %v", r.Findings)
	}
	return r.Site
}

// diffSites lists what differs between two designs but their hardware.
func diffSites(t *testing.T, a, b *site.Site) []Difference {
	t.Helper()
	d, err := Compare(a, b)
	if err != nil || len(d.Added)+len(d.Removed) > 0 {
		t.Fatalf("compare: %v, added %v, removed %v", err, d.Added, d.Removed)
	}
	var other []Difference
	for _, g := range d.Groups {
		for _, x := range g.Differences {
			if !strings.HasPrefix(x.Path, "hardware") {
				other = append(other, x)
			}
		}
	}
	return other
}

// A site of another version is told that, and nothing else that is wrong with
// it; what it says of itself counts most.
func TestOutdatedSite(t *testing.T) {
	const fields = "profiles: a: hardware: {memoryGiB: 64, processors: 1}\nnodes: n2: {hardware: processors: 2, racc: 1}\n"
	example := filesIn(t, "testdata/migrate/v1alpha1")
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		want  []string
	}{
		{"the example of before", example, []string{"schema-version inventory/hardware.cue:11:3"}},
		{"nothing stated", repository(map[string]string{"site.cue": "package fra\n" + fields}), []string{"schema-version site.cue:2:25"}},
		{"another is stated", repository(map[string]string{"site.cue": "package fra\nsite: schema: \"v1alpha1\"\n" + fields}), []string{"schema-version site.cue:2:15"}},
		{"another, and more is broken", repository(map[string]string{"site.cue": "package fra\nsite: schema: \"v2\"\nroles: 1\n"}), []string{"schema-version site.cue:2:15"}},
		{"the present one is stated", repository(map[string]string{"site.cue": "package fra\nsite: schema: \"v1alpha2\"\nprofiles: a: hardware: processors: 1\n"}), []string{"unknown-field site.cue:3:24"}},
		{"nothing stated, nothing old", repository(map[string]string{"site.cue": "package fra\nprofiles: a: hardware: cores: 1\n"}), []string{"unknown-field site.cue:2:24"}},
	} {
		var got []string
		for _, f := range EvaluateHere(c.files, "").Findings {
			if f.Severity == site.SeverityError {
				got = append(got, f.Code+" "+f.Place())
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Whatever a file holds, it is formatted and migrated once and for all, or it
// is said why not.
func FuzzRewrite(f *testing.F) {
	paths, err := filepath.Glob("testdata/migrate/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			f.Add(string(file.Data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "\r") {
			return // which the parser takes out before it counts
		}
		migrate := func(text string) Migration {
			return migrateHere(pack{dir: ".", files: map[string][]byte{"site.cue": []byte(text)}})
		}
		m := migrate(text)
		if len(m.Findings) > 0 || len(m.Files) == 0 {
			return
		}
		after := string(m.Files[0].Text)
		if again := migrate(after); len(again.Files)+len(again.Findings) > 0 {
			t.Errorf("%q became %q, and then %q: %v", text, after, again.Files, again.Findings)
		}
	})
}
