package design

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/schema"
)

// host is a directory beside the repository, with a secret in every form that
// a design could ask for.
type host struct {
	dir, secret string
	// opened are the kernel's notices that a file of it was opened.
	opened int
}

// newHost makes the files, and from then on has the kernel note whoever opens
// one of them or lists the directory.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{dir: t.TempDir(), secret: fmt.Sprintf("canary-%x", time.Now().UnixNano())}
	for name, text := range map[string]string{
		"secret.txt": h.secret, "secret.cue": "package secret\nx: \"" + h.secret + "\"\n",
		"secret.json":        `{"n1": {"labels": {"x": "` + h.secret + `"}}}`,
		"secret.yaml":        "n1: {labels: {x: " + h.secret + "}}\n",
		"cue.mod/module.cue": "module: \"example.org/secret\"\nlanguage: version: \"v0.17.0\"\n",
	} {
		h.write(t, filepath.Join(h.dir, name), text)
	}
	var err error
	if h.opened, err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(h.opened) })
	for _, what := range []string{h.dir, filepath.Join(h.dir, "cue.mod")} {
		if _, err := unix.InotifyAddWatch(h.opened, what, unix.IN_OPEN|unix.IN_ACCESS); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *host) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// wasOpened says what was opened since it was asked last.
func (h *host) wasOpened(t *testing.T) []string {
	t.Helper()
	buf := make([]byte, 1<<16)
	n, err := unix.Read(h.opened, buf)
	if err == syscall.EAGAIN {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for at := 0; at < n; {
		event := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
		at += unix.SizeofInotifyEvent
		names = append(names, fmt.Sprintf("%s (%x)", strings.TrimRight(string(buf[at:at+int(event.Len)]), "\x00"), event.Mask))
		at += int(event.Len)
	}
	return names
}

// escapes are designs that try to learn something of the host, each in files of
// a real directory; "-> " makes a link.
func (h *host) escapes() map[string]map[string]string {
	const module = "module: \"example.org/site\"\nlanguage: version: \"v0.17.0\"\n"
	up := strings.Repeat("../", 20) + strings.TrimPrefix(h.dir, "/")
	of := func(imported string) string {
		return fmt.Sprintf("package fra\nimport s %q\nroles: x: description: s.x\n", imported)
	}
	data := func(path string) map[string]string {
		return map[string]string{"a.cue": fmt.Sprintf("package fra\ndata: d: path: %q\nnodes: n1: {}\n", path)}
	}
	with := func(files map[string]string, name, text string) map[string]string {
		files = maps.Clone(files)
		files[name] = text
		return files
	}
	plain := map[string]string{"a.cue": of("example.org/secret")}
	return map[string]map[string]string{
		"embed a file":          {"a.cue": "@extern(embed)\npackage fra\nroles: x: description: _ @embed(file=" + h.dir + "/secret.txt,type=text)\n"},
		"embed from above":      {"a.cue": "@extern(embed)\npackage fra\nroles: x: description: _ @embed(file=" + up + "/secret.txt,type=text)\n"},
		"embed what matches":    {"a.cue": "@extern(embed)\npackage fra\nx: _ @embed(glob=" + up + "/*.json)\n"},
		"extern":                {"a.cue": "@extern(wasm)\npackage fra\nf: _ @extern(\"" + h.dir + "/secret.txt\", abi=c, sig=\"func(): int64\")\n"},
		"a link to a file":      {"a.cue": "package fra\n", "b.cue": "-> " + h.dir + "/secret.cue"},
		"a link to a folder":    {"a.cue": of("example.org/site/link:secret"), "link": "-> " + h.dir},
		"a link as package":     {"a.cue": of("example.org/secret"), "cue.mod/pkg/example.org/secret": "-> " + h.dir},
		"a link as module":      {"a.cue": "package fra\n", moduleFile: "-> " + h.dir + "/cue.mod/module.cue"},
		"a link as sites":       {"a.cue": "package fra\n", "sites": "-> " + h.dir},
		"a link as data":        with(data("secret.json"), "secret.json", "-> "+h.dir+"/secret.json"),
		"a link to data":        with(data("link/secret.json"), "link", "-> "+h.dir),
		"data by its path":      data(h.dir + "/secret.json"),
		"data from above":       data(up + "/secret.yaml"),
		"data from above, any":  data(up + "/*.yaml"),
		"data that includes":    with(data("d.yaml"), "d.yaml", "n1: !include "+h.dir+"/secret.yaml\n"),
		"import by its path":    {"a.cue": of(h.dir + ":secret")},
		"import from above":     {"a.cue": of(up + ":secret")},
		"import from here":      {"a.cue": of("./" + up + ":secret")},
		"import through itself": {"a.cue": of("example.org/site/" + up + ":secret")},
		"import as a file":      {"a.cue": of("file://" + h.dir + ":secret")},
		"replaced by a folder":  with(plain, moduleFile, module+"deps: \"example.org/secret@v0\": {v: \"v0.0.1\", replaceWith: \""+h.dir+"\"}\n"),
		"replaced beside":       with(plain, "cue.mod/local-module.cue", "deps: \"example.org/secret@v0\": replaceWith: \""+h.dir+"\"\n"),
		"a module from above":   {"a.cue": of(up + "/x:secret"), moduleFile: "module: \"" + up + "\"\nlanguage: version: \"v0.17.0\"\n"},
		"a dependency":          with(plain, moduleFile, module+"deps: \"example.org/secret@v0\": v: \"v0.0.1\"\n"),
		"a package of old":      with(plain, "cue.mod/usr/example.org/secret/x.cue", "-> "+h.dir+"/secret.cue"),
		"tool/file":             {"a.cue": "package fra\nimport \"tool/file\"\nx: file.Read & {filename: \"" + h.dir + "/secret.txt\"}\nroles: x: description: x.contents\n"},
		"tool/exec":             {"a.cue": "package fra\nimport \"tool/exec\"\nx: exec.Run & {cmd: [\"cat\", \"" + h.dir + "/secret.txt\"], stdout: string}\nroles: x: description: x.stdout\n"},
		"tool/os":               {"a.cue": "package fra\nimport \"tool/os\"\nx: os.Environ\nroles: x: description: x.SLIPWAY_CANARY\n"},
		"tool/http":             {"a.cue": "package fra\nimport \"tool/http\"\nx: http.Get & {url: \"file://" + h.dir + "/secret.txt\"}\nroles: x: description: x.response.body\n"},
		"a tool file":           {"a.cue": "package fra\n", "x_tool.cue": "package fra\nimport \"tool/file\"\ncommand: x: file.Read & {filename: \"" + h.dir + "/secret.txt\"}\n"},
		"a tag":                 {"a.cue": "package fra\nx: string @tag(home,var=hostname)\nroles: x: description: x\n"},
		"passwd":                {"a.cue": of("/etc/passwd"), "b.cue": "-> /etc/passwd"},
	}
}

// No design learns anything of the host: whatever it tries, the kernel has seen
// nobody open one of the files that it asks for, and nothing that is said has
// the secret in it.
func TestNoDesignReadsTheHost(t *testing.T) {
	h := newHost(t)
	if _, err := os.ReadFile(filepath.Join(h.dir, "secret.txt")); err != nil || len(h.wasOpened(t)) == 0 {
		t.Fatal("the kernel does not tell of files that are opened, so this test would show nothing", err)
	}
	t.Setenv("SLIPWAY_CANARY", h.secret)
	e := newEvaluator(t, Limits{})
	for name, files := range h.escapes() {
		t.Run(name, func(t *testing.T) {
			r, err := e.Evaluate(t.Context(), h.repository(t, files), "")
			said := ""
			if err != nil {
				said = err.Error()
			}
			text, _ := json.Marshal(r.Site)
			said += describe(r.Findings) + describe(r.Suppressed) + string(text)
			if strings.Contains(said, h.secret) || strings.Contains(said, "root:x:0") {
				t.Errorf("it tells of the host: %s", said)
			}
			if names := h.wasOpened(t); len(names) > 0 {
				t.Errorf("it opened %v", names)
			}
			if r.Site == nil && len(r.Findings) == 0 {
				t.Errorf("it is neither a design nor a finding: %v", err)
			}
		})
	}
}

// repository is a real directory with the files, and links where they say so.
func (h *host) repository(t *testing.T, files map[string]string) fs.FS {
	t.Helper()
	dir := t.TempDir()
	for name, m := range repository(nil) {
		if _, own := files[name]; !own {
			h.write(t, filepath.Join(dir, name), string(m.Data))
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		to, isLink := strings.CutPrefix(text, "-> ")
		if !isLink {
			h.write(t, path, text)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	return os.DirFS(dir)
}

// A link whose other end blocks whoever opens it does not block an evaluation:
// links are not opened.
func TestPipesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &host{}
	repo := h.repository(t, map[string]string{"a.cue": "package fra\ndata: d: path: \"d.json\"\n", "b.cue": "-> " + pipe, "d.json": "-> " + pipe})
	r, err := newEvaluator(t, Limits{}).Evaluate(t.Context(), repo, "")
	if err != nil || foundCodes(r.Findings) != "2 findings [not-regular-file not-regular-file]" {
		t.Errorf("got %v and %s, want a finding for each link", err, describe(r.Findings))
	}
}

// A copy of our schema in a site's cue.mod does not take the place of the
// binary's: what that does not allow stays a finding.
func TestOwnCopyOfTheSchemaIsNotUsed(t *testing.T) {
	const text = "package fra\nimport \"" + schema.Path + "\"\nroles: x: {bogus: 1, schema.#Role}\nnodes: n1: schema.#Layer & {power: \"explode\"}\n"
	files := map[string]string{"a.cue": text}
	want := describe(EvaluateHere(repository(files), "").Findings)
	if !strings.Contains(want, "unknown-field") || !strings.Contains(want, "invalid-value") {
		t.Fatalf("the design that is tried has other mistakes:\n%s", want)
	}
	loose := "package schema\n#Role: {...}\n#Layer: {...}\n#Node: {...}\n#Profile: {...}\n"
	for _, dir := range []string{"cue.mod/pkg/" + schema.Path, "cue.mod/usr/" + schema.Path, "cue.mod/gen/" + schema.Path, "schema"} {
		with := maps.Clone(files)
		with[dir+"/schema.cue"] = loose
		r := evaluateIn(t, newEvaluator(t, Limits{}), with)
		if got := describe(r.Findings); got != want {
			t.Errorf("with a copy in %s:\n%s\nwithout:\n%s", dir, got, want)
		}
	}
	own := maps.Clone(files)
	own[moduleFile] = "module: \"" + strings.TrimSuffix(schema.Path, "/schema") + "\"\nlanguage: version: \"v0.17.0\"\n"
	own["schema/schema.cue"] = loose
	if got := describe(evaluateIn(t, newEvaluator(t, Limits{}), own).Findings); got != want {
		t.Errorf("with a module of our name:\n%s\nwithout:\n%s", got, want)
	}
}
