package packages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// system is a Debian under a root folder with a signed repository of our own in
// /srv.
type system struct {
	t    *testing.T
	root string
	h    *inside.Host
	key  string
	home string // of gpg
	told []string
	ran  []string
	// release are further lines of the repository's Release files.
	release string
	run     func(ctx context.Context, c inside.Command) (inside.Output, error) // in place of the host's
}

func debian(t *testing.T) *system {
	t.Helper()
	nspawn.Require(t, "dpkg-deb", "dpkg-scanpackages", "gpg", "chroot")
	s := &system{t: t, root: nspawn.Unpack(t), home: filepath.Join(t.TempDir(), "gpg")}
	for _, name := range []string{"etc/apt/sources.list", "etc/apt/sources.list.d"} {
		if err := os.RemoveAll(filepath.Join(s.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.must("mkdir", "-p", filepath.Join(s.root, "etc/apt/sources.list.d"), filepath.Join(s.root, "srv/repo"))
	s.must("mkdir", "-m", "700", s.home)
	s.must("gpg", "--homedir", s.home, "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "site@example.org", "default", "default", "never")
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", s.home, "--kill", "all").Run() })
	s.key = string(s.must("gpg", "--homedir", s.home, "--armor", "--export"))
	s.again()
	return s
}

// again gives a host that reads anew what Slipway owns, as each run does.
func (s *system) again() {
	owned, err := inside.LoadOwned(s.root)
	if err != nil {
		s.t.Fatal(err)
	}
	s.h = inside.Real(s.root, false)
	s.h.Owned = owned
	s.h.Tell = func(text string) { s.told = append(s.told, text) }
	real := s.h.Exec
	s.h.Exec = func(ctx context.Context, c inside.Command) (inside.Output, error) {
		s.ran = append(s.ran, c.Path+" "+strings.Join(c.Args, " "))
		if s.run != nil {
			return s.run(ctx, c)
		}
		return real(ctx, c)
	}
}

func (s *system) must(name string, args ...string) []byte {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s %v: %v\n%s%s", name, args, err, out.String(), errs.String())
	}
	return out.Bytes()
}

// deb is a package to build: more fields of its control file, scripts and
// configuration files.
type deb struct {
	name, version, fields string
	postinst              string
	conf                  string
	data                  string // a file of it
}

// publish builds packages and signs the repository's lists anew.
func (s *system) publish(suite, label string, debs ...deb) {
	s.t.Helper()
	repo := filepath.Join(s.root, "srv/repo")
	pool, dist := filepath.Join(repo, "pool", suite), filepath.Join(repo, "dists", suite)
	s.must("mkdir", "-p", pool, filepath.Join(dist, "main/binary-amd64"))
	for _, d := range debs {
		tree := s.t.TempDir()
		if err := os.Chmod(tree, 0o755); err != nil {
			s.t.Fatal(err)
		}
		files := map[string]string{
			"DEBIAN/control":                   fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: for a test\n%s", d.name, d.version, d.fields),
			"usr/share/" + d.name + "/version": d.version + "\n",
		}
		if d.postinst != "" {
			files["DEBIAN/postinst"] = "#!/bin/sh\nset -e\n" + d.postinst + "\n"
		}
		if d.conf != "" {
			files["etc/"+d.name+".conf"], files["DEBIAN/conffiles"] = d.conf, "/etc/"+d.name+".conf\n"
		}
		if d.data != "" {
			files["usr/share/"+d.name+"/data"] = d.data
		}
		for name, content := range files {
			name = filepath.Join(tree, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
				s.t.Fatal(err)
			}
			if strings.HasSuffix(name, "postinst") {
				s.must("chmod", "755", name)
			}
		}
		s.must("dpkg-deb", "--build", "--root-owner-group", "-Znone", tree, filepath.Join(pool, d.name+"_"+d.version+"_all.deb"))
	}
	scan := exec.CommandContext(s.t.Context(), "dpkg-scanpackages", "--multiversion", "pool/"+suite)
	scan.Dir = repo
	lists, err := scan.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	release := fmt.Sprintf("Origin: Site\nLabel: %s\nSuite: %s\nCodename: %s\nDate: %s\nArchitectures: amd64 all\nComponents: main\n%sSHA256:\n %s %d main/binary-amd64/Packages\n",
		label, suite, suite, time.Now().UTC().Format(time.RFC1123), s.release, s.sum(lists), len(lists))
	if err := errors.Join(os.WriteFile(filepath.Join(dist, "main/binary-amd64/Packages"), lists, 0o644), os.WriteFile(filepath.Join(dist, "Release"), []byte(release), 0o644)); err != nil {
		s.t.Fatal(err)
	}
	s.must("gpg", "--homedir", s.home, "--batch", "--yes", "--quiet", "--clearsign", "-o", filepath.Join(dist, "InRelease"), filepath.Join(dist, "Release"))
	s.must("chmod", "-R", "a+rX", repo)
}

func (s *system) sum(text []byte) string {
	cmd := exec.Command("sha256sum")
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out[:64])
}

func (s *system) repository(suite string, pin int) item.Item {
	return repository("site-"+suite, item.Repository{Family: "debian", URL: "file:///srv/repo", Suite: suite, Components: []string{"main"}, Key: s.key, Pin: pin})
}

func repository(name string, r item.Repository) item.Item {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return item.Item{Key: "repositories." + name, Fields: map[string]string{"": r.Text()}, Body: text}
}

func pkg(name, version, state string) item.Item {
	i := item.Item{Key: "packages." + name, Fields: map[string]string{"state": state}}
	if version != "" {
		i.Fields["version"] = version
	}
	return i
}

// does applies items, and holds that they are seen so.
func (s *system) does(items []item.Item, remove ...string) {
	s.t.Helper()
	if err := s.apply(items, remove...); err != nil {
		s.t.Fatalf("%v\ntold: %s\nran: %s", err, strings.Join(s.told, "\n"), strings.Join(s.ran, "\n"))
	}
	s.are(items)
}

// makes applies items, and holds that they are seen so and that a second pass
// writes nothing.
func (s *system) makes(items []item.Item, remove ...string) {
	s.t.Helper()
	s.does(items, remove...)
	before := listing(s.t, s.root)
	s.ran = nil
	if err := s.apply(items, remove...); err != nil {
		s.t.Fatal(err)
	}
	s.are(items)
	if after := listing(s.t, s.root); after != before {
		s.t.Errorf("a second pass wrote: %s\nran %v", difference(before, after), s.ran)
	}
}

func (s *system) apply(items []item.Item, remove ...string) error {
	s.t.Helper()
	s.again()
	return New().Apply(s.t.Context(), s.h, items, remove)
}

func (s *system) have(keys ...string) inside.Seen {
	s.t.Helper()
	s.again()
	seen, err := New().Observe(s.t.Context(), s.h, keys)
	if err != nil {
		s.t.Fatal(err)
	}
	return seen
}

func (s *system) are(items []item.Item) {
	s.t.Helper()
	seen := s.have(item.Keys(items)...)
	for name, want := range item.Values(items) {
		if seen.Have[name] != want {
			s.t.Errorf("%s is %q, want %q (unread %v, cannot %v)", name, seen.Have[name], want, seen.Unread, seen.Cannot)
		}
	}
}

// fails holds that applying fails with a class and a text, and gives the text.
func (s *system) fails(items []item.Item, class string, parts ...string) string {
	s.t.Helper()
	err := s.apply(items)
	var e *wire.Error
	if !errors.As(err, &e) || e.Class != class {
		s.t.Fatalf("%v, want an error of class %s", err, class)
	}
	for _, part := range parts {
		if !strings.Contains(e.Text, part) {
			s.t.Errorf("the error is\n%s\nwithout %q", e.Text, part)
		}
	}
	return e.Text
}

func (s *system) file(name, want string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || strings.TrimSpace(string(text)) != want {
		s.t.Errorf("%s has %q (%v), want %q", name, text, err, want)
	}
}

// listing is of all files with their sizes, times and inodes.
func listing(t *testing.T, root string) string {
	t.Helper()
	out, err := exec.Command("find", root, "-xdev", "-not", "-path", root+"/proc/*", "-printf", "%P %s %T@ %C@ %i\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func difference(before, after string) string {
	known := map[string]bool{}
	for line := range strings.Lines(before) {
		known[line] = true
	}
	var lines []string
	for line := range strings.Lines(after) {
		if !known[line] {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// cutOffRemoval leaves dpkg's entry of a package as a kill at the end of its removal does.
func (s *system) cutOffRemoval(name string) {
	s.t.Helper()
	path := filepath.Join(s.root, "var/lib/dpkg/status")
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	before, entry, there := strings.Cut(string(text), "Package: "+name+"\n")
	if !there {
		before, entry = string(text)+"\n", "Status: install ok installed\nMaintainer: nobody <n@example.org>\nArchitecture: all\nVersion: 1.0\nDescription: for a test\n"
	}
	entry = strings.Replace(entry, "install ok installed", "purge ok config-files", 1)
	if err := os.WriteFile(path, []byte(before+"Package: "+name+"\n"+entry), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// One Debian goes through what its packages can meet with.
func TestProveAptTransactions(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("takes minutes: set SLIPWAY_PROVE")
	}
	t.Parallel()
	s := debian(t)
	s.publish("stable", "Site",
		deb{name: "good", version: "1.0", conf: "one\n"}, deb{name: "good", version: "2.0", conf: "two\n"},
		deb{name: "needs-good", version: "1.0", fields: "Depends: good\nRecommends: extra\n"}, deb{name: "extra", version: "1.0"},
		deb{name: "against", version: "1.0", fields: "Conflicts: good\n"},
		deb{name: "same", version: "2.0", fields: "Depends: good (>= 2.0)\n"},
		deb{name: "provider", version: "1.0", fields: "Provides: virtual\n"},
	)
	repo := s.repository("stable", 700)

	// A repository and a package of it, in one go.
	s.makes([]item.Item{repo, pkg("good", "1.0", "present")})
	s.file("usr/share/good/version", "1.0")
	s.file("etc/apt/preferences.d/slipway-site-stable.pref", "Package: *\nPin: release o=Site,l=Site,n=stable,a=stable\nPin-Priority: 700")

	// A file that was changed stays, whatever the package brings.
	if err := os.WriteFile(filepath.Join(s.root, "etc/good.conf"), []byte("ours\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.makes([]item.Item{repo, pkg("good", "2.0", "present")})
	s.file("etc/good.conf", "ours")
	s.makes([]item.Item{repo, pkg("good", "1.0", "held")})

	// What nobody asked for is not changed, and then nothing is.
	s.fails([]item.Item{pkg("good", "3.0", "held")}, wire.Failed, "3.0", "good")
	s.fails([]item.Item{pkg("nowhere", "", "present"), pkg("extra", "", "present")}, wire.Failed, "nowhere")
	s.fails([]item.Item{pkg("virtual", "", "present")}, wire.Failed, "virtual")
	s.fails([]item.Item{pkg("goo.", "", "present")}, wire.Refused, "goo.")
	s.fails([]item.Item{pkg("against", "", "present"), pkg("extra", "", "present")}, wire.Failed, "good")
	s.fails([]item.Item{pkg("same", "", "present")}, wire.Failed, "good")
	s.fails([]item.Item{pkg("bash", "", "absent")}, wire.Failed, "bash")
	s.are([]item.Item{pkg("good", "1.0", "held"), pkg("extra", "", "absent"), pkg("against", "", "absent"), pkg("bash", "", "present")})

	// Recommended packages stay out; a hold is lifted; a removal that takes others
	// along is refused, and one that the design asks for is made with the rest.
	s.makes([]item.Item{pkg("good", "1.0", "present"), pkg("needs-good", "", "present"), pkg("extra", "", "absent")})
	s.fails([]item.Item{pkg("good", "", "absent")}, wire.Failed, "needs-good")
	s.makes([]item.Item{pkg("good", "", "absent"), pkg("needs-good", "", "absent"), pkg("against", "", "present")})

}

// Package scripts do what they should not, and then packages leave the design.
func TestAptScripts(t *testing.T) {
	t.Parallel()
	s := debian(t)
	s.publish("stable", "Site", deb{name: "extra", version: "1.0"}, deb{name: "provider", version: "1.0"},
		deb{name: "fails", version: "1.0", postinst: "echo the last words; exit 3"}, deb{name: "fails", version: "2.0"},
		deb{name: "hangs", version: "1.0", postinst: "sleep 1000"}, deb{name: "hangs", version: "2.0"},
		deb{name: "asks", version: "1.0", postinst: "read answer || answer=none; echo $answer >/asked"},
		deb{name: "service", version: "1.0", postinst: "invoke-rc.d --query service start || echo $? >/policy"},
	)
	repo := s.repository("stable", 0)
	s.does([]item.Item{repo})

	// Scripts that fail, ask and start services.
	s.fails([]item.Item{pkg("fails", "1.0", "present"), pkg("extra", "", "present")}, wire.Failed, "the last words", "fails is half-configured")
	s.are([]item.Item{{Key: "packages.fails", Fields: map[string]string{"state": "half-configured", "version": "1.0"}}, pkg("extra", "", "present")})
	s.makes([]item.Item{pkg("fails", "2.0", "present")})
	s.makes([]item.Item{pkg("asks", "", "present"), pkg("service", "", "present")})
	s.file("asked", "none")
	s.file("policy", "101")
	s.file("usr/sbin/policy-rc.d", "")

	// A removal that was cut off at its end is ended; one that somebody else began is not.
	s.does([]item.Item{repo, pkg("extra", "", "present")})
	s.cutOffRemoval("extra")
	s.cutOffRemoval("others")
	s.cutOffRemoval("deletes")
	script := filepath.Join(s.root, "var/lib/dpkg/info/deletes.postrm")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch /deleted\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.does([]item.Item{repo, pkg("deletes", "", "absent")}, "packages.extra")
	s.file("deleted", "")
	if _, err := os.Stat(filepath.Join(s.root, "deleted")); err == nil {
		t.Error("a purge that somebody else began was ended, and its script has run")
	}
	if text, err := os.ReadFile(filepath.Join(s.root, "var/lib/dpkg/status")); err != nil || strings.Contains(string(text), "Package: extra\n") || !strings.Contains(string(text), "Package: others\n") {
		t.Errorf("dpkg has still extra, or no longer others (%v); ran %v", err, s.ran)
	}

	// A script that hangs is ended with its children, and the next run goes on.
	s.again()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	begun := time.Now()
	err := New().Apply(ctx, s.h, []item.Item{pkg("hangs", "1.0", "present")}, nil)
	if err == nil || !strings.Contains(err.Error(), "did not end") || time.Since(begun) > time.Minute {
		t.Fatalf("%v after %s", err, time.Since(begun))
	}
	if out, err := exec.Command("pgrep", "-f", "sleep 1000").Output(); err == nil && inRoot(s.root, string(out)) {
		t.Errorf("the script still runs: %s", out)
	}
	s.again()
	quick := s.h.Exec
	s.h.Exec = func(ctx context.Context, c inside.Command) (inside.Output, error) {
		if c.Path == "dpkg" && c.Args[0] == "--configure" {
			c.Timeout = 3 * time.Second
		}
		return quick(ctx, c)
	}
	if err := New().Apply(t.Context(), s.h, []item.Item{pkg("hangs", "2.0", "present")}, nil); err != nil {
		t.Fatal(err)
	}
	s.makes([]item.Item{pkg("hangs", "2.0", "present")})

	// What leaves the design goes where Slipway installed it, and its repository too.
	if out, err := exec.Command("chroot", s.root, "apt-get", "install", "-y", "-qq", "provider").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.makes([]item.Item{pkg("provider", "", "held")})
	s.makes(nil, "packages.provider", "packages.hangs", "packages.extra", "packages.never-ours", repo.Key)
	s.are([]item.Item{pkg("provider", "", "present"), pkg("hangs", "", "absent"), pkg("extra", "", "absent")})
	s.file("etc/apt/sources.list.d/slipway-site-stable.sources", "")
	s.file("etc/apt/keyrings/slipway-site-stable.asc", "")
}

// inRoot says whether one of some processes runs under a root.
func inRoot(root, pids string) bool {
	for _, pid := range strings.Fields(pids) {
		if at, err := os.Readlink("/proc/" + pid + "/root"); err == nil && at == root {
			return true
		}
	}
	return false
}
