package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func classOf(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

// errCut is what a run ends with that is cut.
var errCut = errors.New("cut")

// model is an apt and a dpkg of few lines, under a root folder: they know what of
// packages the status file has.
type model struct {
	t    *testing.T
	root string
	have map[string]string // status lines behind "Status: ", and the version
	ran  []string
	// cut ends the run at the program of this number, before it has its effect, or
	// after half of it.
	cut, at int
	half    bool
	slow    int // so many programs after that one end so too
}

func newModel(t *testing.T) *model {
	m := &model{t: t, root: t.TempDir(), have: map[string]string{"dpkg": "install ok installed 1"}, cut: -1}
	for _, folder := range []string{"var/lib/dpkg", "etc/apt/sources.list.d", "usr/sbin"} {
		if err := os.MkdirAll(filepath.Join(m.root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.save()
	return m
}

func (m *model) save() {
	var b strings.Builder
	for name, is := range m.have {
		f := strings.Fields(is)
		fmt.Fprintf(&b, "Package: %s\nStatus: %s\nArchitecture: amd64\nVersion: %s\n\n", name, strings.Join(f[:3], " "), f[3])
	}
	if err := os.WriteFile(filepath.Join(m.root, dpkgStatus), []byte(b.String()), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) host() *inside.Host {
	owned, err := inside.LoadOwned(m.root)
	if err != nil {
		m.t.Fatal(err)
	}
	return &inside.Host{Root: m.root, Owned: owned, Exec: m.exec, Tell: func(string) {}}
}

func (m *model) exec(_ context.Context, c inside.Command) (inside.Output, error) {
	m.ran = append(m.ran, c.Path+" "+strings.Join(c.Args, " "))
	m.at++
	cut := m.cut >= 0 && m.at >= m.cut && m.at <= m.cut+m.slow
	if cut && !m.half {
		return inside.Output{Code: -1}, errCut
	}
	defer m.save()
	var out inside.Output
	switch {
	case c.Path == "dpkg" && c.Args[0] == "--configure":
		for name, is := range m.have {
			m.have[name] = strings.Replace(is, "half-configured", "installed", 1)
		}
	case c.Path == "dpkg": // --set-selections
		for line := range strings.Lines(string(c.Stdin)) {
			f := strings.Fields(line)
			_, rest, _ := strings.Cut(m.have[f[0]], " ")
			m.have[f[0]] = f[1] + " " + rest
		}
	case slices.Contains(c.Args, "install"):
		for _, arg := range c.Args[slices.Index(c.Args, "--")+1:] {
			name, version, _ := strings.Cut(arg, "=")
			bare, gone := strings.CutSuffix(name, "-")
			if version == "" {
				version = "1"
			}
			switch {
			case slices.Contains(c.Args, "-s") && gone:
				out.Out = fmt.Appendf(out.Out, "Remv %s [1]\n", bare)
			case slices.Contains(c.Args, "-s"):
				out.Out = fmt.Appendf(out.Out, "Inst %s (%s Site [amd64])\n", name, version)
			case gone:
				delete(m.have, bare)
			case cut:
				m.have[name] = "install ok half-configured " + version
			default:
				m.have[name] = "install ok installed " + version
			}
		}
	}
	if cut {
		return inside.Output{Code: -1}, errCut
	}
	return out, nil
}

// Wherever the removal of what left the design is cut, and whatever of it did not answer, the
// next run removes it: only what other packages need stays.
func TestEveryCutOfARemoval(t *testing.T) {
	t.Parallel()
	items := []item.Item{pkg("aa", "2", "present"), pkg("bb", "", "held")}
	for _, half := range []bool{false, true} {
		for cut := 1; ; cut++ {
			m := newModel(t)
			if err := New().Apply(t.Context(), m.host(), items, nil); err != nil {
				t.Fatal(err)
			}
			m.at, m.cut, m.half, m.slow = 0, cut, half, 1
			_ = New().Apply(t.Context(), m.host(), nil, item.Keys(items))
			whole := m.at < cut
			m.cut = -1
			if err := New().Apply(t.Context(), m.host(), nil, item.Keys(items)); err != nil {
				t.Fatal(err)
			}
			if m.have["aa"] != "" || m.have["bb"] != "" || m.host().Owned.Digest() != "" {
				t.Errorf("after cut %d (half %v) of the removal there is %v, owned %q", cut, half, m.have, m.host().Owned.Keys(facetName))
			}
			if whole {
				break
			}
		}
	}
}

// Wherever a run is cut, between programs or in the middle of one, the next one
// gets to the same end, and what Slipway installed goes again.
func TestEveryCut(t *testing.T) {
	t.Parallel()
	repo := repository("site", item.Repository{Family: "debian", URL: "http://example.org/debian", Suite: "stable", Components: []string{"main"}, Key: "KEY", Pin: 900})
	items := []item.Item{repo, pkg("aa", "2", "present"), pkg("bb", "", "held"), pkg("old", "", "absent"), pkg("kept", "3", "present")}
	for _, half := range []bool{false, true} {
		for cut := 1; ; cut++ {
			m := newModel(t)
			m.have["old"], m.have["kept"] = "install ok installed 1", "hold ok installed 1"
			m.save()
			m.cut, m.half = cut, half
			err := New().Apply(t.Context(), m.host(), items, nil)
			whole := m.at < cut
			if whole != (err == nil) && !half {
				t.Fatalf("cut %d: %v", cut, err)
			}
			m.cut = -1
			if err := New().Apply(t.Context(), m.host(), items, nil); err != nil {
				t.Fatalf("after cut %d: %v\n%s", cut, err, strings.Join(m.ran, "\n"))
			}
			seen, err := New().Observe(t.Context(), m.host(), item.Keys(items))
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range item.Values(items) {
				if seen.Have[name] != want {
					t.Errorf("after cut %d: %s is %q, want %q", cut, name, seen.Have[name], want)
				}
			}
			m.ran = nil
			if err := New().Apply(t.Context(), m.host(), items, nil); err != nil || len(m.ran) > 0 {
				t.Errorf("a second pass ran %v, %v", m.ran, err)
			}
			if err := New().Apply(t.Context(), m.host(), nil, item.Keys(items)); err != nil {
				t.Fatal(err)
			}
			if m.have["aa"] != "" || m.have["bb"] != "" || m.have["kept"] != "hold ok installed 3" || m.have["old"] != "" {
				t.Errorf("after it left the design there is %v", m.have)
			}
			if files, err := filepath.Glob(filepath.Join(m.root, "etc/apt/*/*")); err != nil || len(files) > 0 {
				t.Errorf("left: %v %v", files, err)
			}
			if m.host().Owned.Digest() != "" {
				t.Error("something is still owned")
			}
			if whole {
				break
			}
		}
	}
}

// A folder that a repository needed goes with the last one that has files there, and stays
// where people have put something into it.
func TestFoldersOfRepositories(t *testing.T) {
	t.Parallel()
	a := repository("a", item.Repository{Family: "debian", URL: "http://example.org", Suite: "./", Key: "KEY"})
	b := repository("b", item.Repository{Family: "debian", URL: "http://example.org", Suite: "./", Key: "KEY"})
	for name, c := range map[string]struct {
		there, between string // paths that are there first, and that people make after a run
		remove         [][]string
		left           []string
	}{
		"the first that came goes first": {remove: [][]string{{a.Key}, {b.Key}}, left: []string{"sources.list.d"}},
		"the first that came goes last":  {remove: [][]string{{b.Key}, {a.Key}}, left: []string{"sources.list.d"}},
		"both go":                        {remove: [][]string{{a.Key, b.Key}}, left: []string{"sources.list.d"}},
		"one stays":                      {remove: [][]string{{a.Key}}, left: []string{"keyrings", "sources.list.d"}},
		"it was there":                   {there: "keyrings/", remove: [][]string{{a.Key, b.Key}}, left: []string{"keyrings", "sources.list.d"}},
		"people use it":                  {between: "keyrings/own.asc", remove: [][]string{{a.Key, b.Key}}, left: []string{"keyrings", "sources.list.d"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t)
			put := func(path string) {
				at := filepath.Join(m.root, "etc/apt", path)
				err := os.MkdirAll(filepath.Dir(at), 0o755)
				if strings.HasSuffix(path, "/") {
					err = os.MkdirAll(at, 0o755)
				} else if path != "" {
					err = errors.Join(err, os.WriteFile(at, nil, 0o644))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			put(c.there)
			for _, repo := range []item.Item{a, b} {
				if err := New().Apply(t.Context(), m.host(), []item.Item{repo}, nil); err != nil {
					t.Fatal(err)
				}
			}
			put(c.between)
			for _, keys := range c.remove {
				if err := New().Apply(t.Context(), m.host(), nil, keys); err != nil {
					t.Fatal(err)
				}
			}
			entries, err := os.ReadDir(filepath.Join(m.root, "etc/apt"))
			var left []string
			for _, e := range entries {
				left = append(left, e.Name())
			}
			if err != nil || !slices.Equal(left, c.left) {
				t.Errorf("left: %v %v, want %v", left, err, c.left)
			}
		})
	}
}

// A folder that people have replaced by a link is theirs.
func TestALinkToAFolderStays(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	repo := repository("a", item.Repository{Family: "debian", URL: "http://example.org", Suite: "./", Key: "KEY"})
	if err := New().Apply(t.Context(), m.host(), []item.Item{repo}, nil); err != nil {
		t.Fatal(err)
	}
	folder, moved := filepath.Join(m.root, "etc/apt/keyrings"), filepath.Join(m.root, "srv")
	if err := errors.Join(os.Rename(folder, moved), os.Symlink("/srv", folder)); err != nil {
		t.Fatal(err)
	}
	if err := New().Apply(t.Context(), m.host(), nil, []string{repo.Key}); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(folder); err != nil || to != "/srv" {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	if entries, err := os.ReadDir(moved); err != nil || len(entries) > 0 {
		t.Errorf("left where it leads: %v %v", entries, err)
	}
}

// venv puts a .gitignore into an environment since Python 3.13. It goes with the
// environment, unless it is one of people's.
func TestEnvironmentsThatGo(t *testing.T) {
	t.Parallel()
	const made = "# Created by venv; see https://docs.python.org/3/library/venv.html\n*\n"
	for name, c := range map[string]struct {
		ignores string
		left    []string
	}{
		"of Python 3.12": {"", nil},
		"of Python 3.13": {made, nil},
		"people's":       {"*.log\n", []string{".gitignore"}},
		"of both":        {made + "!own\n", []string{".gitignore"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t)
			files := map[string]string{"pyvenv.cfg": "", "bin/pip": "", "lib/python3/site-packages/one.py": ""}
			if c.ignores != "" {
				files[".gitignore"] = c.ignores
			}
			for file, text := range files {
				at := filepath.Join(m.root, "opt/tools", file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			h := m.host()
			if err := errors.Join(h.Owned.Take(facetName, "language.tools", nil), h.Owned.Note(facetName, "language.tools", []byte(`{"path":"/opt/tools","packages":[]}`))); err != nil {
				t.Fatal(err)
			}
			if err := New().Apply(t.Context(), h, nil, []string{"language.tools"}); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(filepath.Join(m.root, "opt/tools"))
			var left []string
			for _, e := range entries {
				left = append(left, e.Name())
			}
			if !slices.Equal(left, c.left) || (err == nil) != (c.left != nil) {
				t.Errorf("left: %v %v, want %v", left, err, c.left)
			}
		})
	}
}

func TestRefusedItems(t *testing.T) {
	t.Parallel()
	deb := func(r item.Repository) item.Repository {
		if r.Suite == "" {
			r.Suite, r.Components = "stable", []string{"main"}
		}
		return r
	}
	for want, i := range map[string]item.Item{
		`"-x"`:                      pkg("-x", "", "present"),
		`"../x"`:                    pkg("../x", "", "present"),
		"no versions like":          pkg("aa", "1 --force", "present"),
		"no state":                  pkg("aa", "", "latest"),
		"its name must consist of":  repository("../../etc/passwd", deb(item.Repository{URL: "http://x"})),
		"none of http":              repository("a", deb(item.Repository{URL: "cdrom:x"})),
		"is not a single word":      repository("a", deb(item.Repository{URL: "http://x\nTrusted: yes"})),
		"a folder has no component": repository("a", deb(item.Repository{URL: "http://x", Suite: "stable/", Components: []string{"main"}})),
		"components is empty":       repository("a", deb(item.Repository{URL: "http://x", Suite: "stable", Components: []string{""}})),
		`of "debian"`:               repository("a", deb(item.Repository{URL: "http://x", Family: "rhel"})),
		"body cannot be read":       {Key: "language.a", Body: []byte(`{"kind":`)},
		"only python environments":  {Key: "language.a", Body: []byte(`{"kind":"ruby"}`)},
		"is not one of a folder":    {Key: "language.a", Body: []byte(`{"kind":"python","path":"/etc/x"}`)},
		"is not a Python package":   {Key: "language.a", Body: []byte(`{"kind":"python","path":"/opt/x","packages":{"--index-url":"1"}}`)},
		"no level":                  {Key: "patch", Fields: map[string]string{"level": "some"}},
		"neither a time":            {Key: "patch", Fields: map[string]string{"level": "all", "snapshot": "yesterday"}},
		`"[trusted=yes] http://x a`: {Key: "patch", Fields: map[string]string{"level": "all", "snapshot": "[trusted=yes] http://x a main"}},
		`"copy:/x" is neither`:      {Key: "patch", Fields: map[string]string{"level": "all", "snapshot": "copy:/x"}},
		`http://x# a main" is`:      {Key: "patch", Fields: map[string]string{"level": "all", "snapshot": "http://x# a main"}},
		`no items "files"`:          {Key: "files./etc/motd"},
	} {
		m := newModel(t)
		err := New().Apply(t.Context(), m.host(), []item.Item{i}, nil)
		if classOf(err) != wire.Refused || !strings.Contains(err.Error(), want) || len(m.ran) > 0 {
			t.Errorf("%q: %v after %v", want, err, m.ran)
		}
	}
}

// A link inside another root leads nowhere outside it.
func TestLinksStayInside(t *testing.T) {
	t.Parallel()
	m, outside := newModel(t), t.TempDir()
	folder := filepath.Join(m.root, "etc/apt/sources.list.d")
	if err := errors.Join(os.Remove(folder), os.Symlink(outside, folder)); err != nil {
		t.Fatal(err)
	}
	repo := repository("site", item.Repository{URL: "http://example.org", Suite: "./"})
	if err := New().Apply(t.Context(), m.host(), []item.Item{repo}, nil); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("written outside: %v %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(m.root, outside, "slipway-site.sources")); err != nil {
		t.Error(err)
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		out         inside.Output
		err         error
		class, text string
	}{
		{inside.Output{}, nil, "", ""},
		{inside.Output{Code: 100, Err: []byte("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1")}, nil, wire.Busy, "another program"},
		{inside.Output{Code: 100, Err: []byte("dpkg: error: write: No space left on device")}, nil, wire.Failed, "the disk is full"},
		{inside.Output{Code: 1, Out: []byte(strings.Repeat("line \x1b[31m\n", 1000))}, nil, wire.Failed, "failed with code 1"},
		{inside.Output{Code: -1}, errCut, wire.Failed, "cut"},
		{inside.Output{Code: 1, Err: []byte("Setting up db\nadmin password hunter\nfailed")}, nil, wire.Failed, "Setting up db\n[redacted]\nfailed"},
	} {
		err := outcome("installing", c.out, c.err)
		if (err == nil) != (c.class == "") || err != nil && (classOf(err) != c.class || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%v, want %s %q", err, c.class, c.text)
		}
		if err != nil && (len(err.Error()) > 4000 || strings.Contains(err.Error(), "\x1b")) {
			t.Errorf("%d bytes: %q", len(err.Error()), err)
		}
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"":       {"proc/sys/kernel/osrelease": "6.1.0-21-amd64\n", "boot/vmlinuz-6.1.0-9-amd64": "", "boot/vmlinuz-6.1.0-22-cloud-amd64": ""},
		"reboot": {"proc/sys/kernel/osrelease": "6.1.0-21-amd64\n", "boot/vmlinuz-6.1.0-22-amd64": ""},
	} {
		m := newModel(t)
		for file, text := range files {
			file = filepath.Join(m.root, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		h := m.host()
		h.Live = true
		if got := rebootReason(h, inventory{}); got != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
	m := newModel(t)
	h := m.host()
	h.Live = true
	if err := errors.Join(os.MkdirAll(filepath.Join(m.root, "proc"), 0o755), os.WriteFile(filepath.Join(m.root, "proc/stat"), []byte("cpu 1\nbtime 100\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int64]string{99: "", 101: "reboot"} {
		if got := rebootReason(h, inventory{byName: map[string]installed{"glibc": {State: "present", Time: at}}}); got != want {
			t.Errorf("installed at %d: %q, want %q", at, got, want)
		}
	}
}

// Programs that run by a library which was replaced go on by what it lacked. What containers run by
// is theirs.
func TestProgramsThatRunByOldLibraries(t *testing.T) {
	const kept, gone = "7f00-7f01 r-xp 00000000 fe:00 42 /usr/lib/x86_64-linux-gnu/libssl.so.3\n", "7f00-7f01 r-xp 00000000 fe:00 42 /usr/lib/x86_64-linux-gnu/libssl.so.3 (deleted)\n"
	for name, c := range map[string]struct{ maps, root, want string }{
		"as installed":      {kept, "", ""},
		"replaced":          {kept + gone, "", "libraries"},
		"of a container":    {gone, "/elsewhere", ""},
		"a file of its own": {"7f00-7f01 rw-p 00000000 fe:00 42 /tmp/libssl.so.3 (deleted)\n7f00-7f01 rw-s 00000000 00:01 42 /memfd:x (deleted)\n", "", ""},
	} {
		m := newModel(t)
		h := m.host()
		h.Live = true
		process := filepath.Join(m.root, "proc/42")
		if err := errors.Join(os.MkdirAll(process, 0o755), os.MkdirAll(m.root+"/elsewhere", 0o755), os.WriteFile(process+"/maps", []byte(c.maps), 0o644),
			os.Symlink(m.root+c.root, process+"/root")); err != nil {
			t.Fatal(err)
		}
		if got := rebootReason(h, inventory{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
