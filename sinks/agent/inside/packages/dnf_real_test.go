package packages

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// spec is that of a package good of rpm, and of more that are built with it, by
// what they require or run.
func spec(version string, more [][3]string) string {
	text := "Name: good\nVersion: " + version + "\nRelease: 1\nSummary: for a test\nLicense: none\nBuildArch: noarch\n%description\nfor a test\n"
	end := "%install\nmkdir -p %{buildroot}/usr/share/good\necho " + version + " >%{buildroot}/usr/share/good/version\n%files\n/usr/share/good\n"
	for _, m := range more {
		text += "%package -n " + m[0] + "\nSummary: for a test\n" + m[1] + "\n%description -n " + m[0] + "\nfor a test\n"
		if m[2] != "" {
			end += "%pre -n " + m[0] + " -p <lua>\n" + m[2] + "\n" // the root has no shell
		}
		end += "%files -n " + m[0] + "\n"
	}
	return text + end
}

// fedora is a root folder with a database of rpm, in which the host's own dnf and
// rpm work, and a signed repository beside it.
func fedora(t *testing.T) *system {
	t.Helper()
	nspawn.Require(t, "dnf", "rpm", "rpmbuild", "rpmsign", "createrepo_c", "modifyrepo_c", "gpg")
	s := &system{t: t, root: t.TempDir(), home: filepath.Join(t.TempDir(), "gpg")}
	s.must("mkdir", "-m", "700", s.home)
	s.must("gpg", "--homedir", s.home, "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "site@example.org", "rsa2048", "default", "never")
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", s.home, "--kill", "all").Run() })
	s.key = string(s.must("gpg", "--homedir", s.home, "--armor", "--export"))
	s.must("mkdir", "-p", filepath.Join(s.root, "var/lib/rpm"), filepath.Join(s.root, "etc/dnf"), filepath.Join(s.root, "etc/yum.repos.d"))
	s.must("rpm", "--root", s.root, "--initdb")
	if err := os.WriteFile(filepath.Join(s.root, dnfConf), []byte("[main]\ngpgcheck=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.again()
	s.run = s.inRoot
	return s
}

// publishRPM builds packages into a repository, signs them, and makes its lists anew,
// with advisories where there are any. It gives all packages of the repository.
func (s *system) publishRPM(repo, advisories string, specs ...string) []string {
	s.t.Helper()
	for _, text := range specs {
		file := filepath.Join(s.t.TempDir(), "x.spec")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
		s.must("rpmbuild", "-bb", "--quiet", "--define", "_topdir "+s.t.TempDir(), "--define", "_rpmdir "+repo, file)
	}
	files, err := filepath.Glob(repo + "/noarch/*.rpm")
	if err != nil || len(files) == 0 {
		s.t.Fatal(files, err)
	}
	s.must("rpmsign", append([]string{"--define", "__gpg /usr/bin/gpg", "--define", "_gpg_path " + s.home, "--define", "_gpg_name site@example.org", "--addsign"}, files...)...)
	s.must("createrepo_c", "-q", repo)
	if advisories != "" {
		file := filepath.Join(s.t.TempDir(), "updateinfo.xml")
		if err := os.WriteFile(file, []byte(advisories), 0o644); err != nil {
			s.t.Fatal(err)
		}
		s.must("modifyrepo_c", file, filepath.Join(repo, "repodata"))
	}
	return files
}

func (s *system) repositoryRPM(repo string) item.Item {
	return repository("site", item.Repository{Family: "rhel", URL: "file://" + repo, Key: s.key, Pin: 50})
}

// advisory is one of updateinfo.xml: a kind such as security, and its packages of a version.
func advisory(id, kind, version string, names ...string) string {
	text := `<update from="site@example.org" status="final" type="` + kind + `" version="1"><id>` + id + `</id><title>for a test</title>` +
		`<issued date="2026-01-01 00:00:00"/><description>for a test</description><pkglist><collection short="site"><name>site</name>`
	for _, name := range names {
		text += `<package name="` + name + `" version="` + version + `" release="1" epoch="0" arch="noarch" src="good-` + version + `-1.src.rpm"><filename>` +
			name + "-" + version + `-1.noarch.rpm</filename></package>`
	}
	return text + "</collection></pkglist></update>\n"
}

// inRoot has the host's programs work on the root.
func (s *system) inRoot(ctx context.Context, c inside.Command) (inside.Output, error) {
	switch c.Path {
	case "rpm":
		c.Args = append([]string{"--root", s.root}, c.Args...)
	case "dnf":
		c.Args = append([]string{"--installroot=" + s.root, "--releasever=9", "--config=" + filepath.Join(s.root, dnfConf), "--setopt=reposdir=" + filepath.Join(s.root, "etc/yum.repos.d"),
			"--setopt=slipway-site.gpgkey=file://" + filepath.Join(s.root, "etc/pki/rpm-gpg/RPM-GPG-KEY-slipway-site")}, c.Args...)
	default:
		return inside.Output{Code: 127}, errors.New("no program " + c.Path)
	}
	return inside.Real("/", false).Exec(ctx, c)
}

// Transactions of dnf and rpm themselves, on a root that they can work on from
// outside.
func TestDNFTransactions(t *testing.T) {
	t.Parallel()
	s := fedora(t)
	repo := t.TempDir()
	const long = "a-package-with-a-name-that-is-longer-than-any-column-of-a-table"
	if files := s.publishRPM(repo, "",
		spec("1.0", [][3]string{
			{"needs-good", "Requires: good\nRecommends: extra", ""}, {"extra", "", ""}, {"against", "Conflicts: good", ""}, {"same", "Requires: good >= 2.0", ""},
			{"fails", "", "error('the last words')"}, {long, "", ""},
		}),
		spec("2.0", nil),
	); len(files) != 8 {
		t.Fatal(files)
	}
	site := s.repositoryRPM(repo)
	s.does([]item.Item{site, pkg("good", "1.0-1", "present"), pkg(long, "", "present")})
	s.file("usr/share/good/version", "1.0")
	s.does([]item.Item{pkg("good", "2.0-1", "present")})
	s.does([]item.Item{pkg("good", "1.0-1", "held")})
	s.file(dnfConf, "[main]\nexcludepkgs=good\ngpgcheck=1")

	s.fails([]item.Item{pkg("good", "3.0-1", "held")}, wire.Failed, "good")
	s.fails([]item.Item{pkg("nowhere", "", "present"), pkg("extra", "", "present")}, wire.Failed, "nowhere")
	s.fails([]item.Item{pkg("against", "", "present"), pkg("extra", "", "present")}, wire.Failed, "good")
	s.fails([]item.Item{pkg("same", "", "present")}, wire.Failed, "good")
	s.are([]item.Item{pkg("good", "1.0-1", "held"), pkg("extra", "", "absent"), pkg("same", "", "absent")})

	s.does([]item.Item{pkg("good", "1.0-1", "present"), pkg("needs-good", "", "present"), pkg("extra", "", "absent")})
	s.fails([]item.Item{pkg("same", "", "present")}, wire.Failed, "good") // it would upgrade good
	s.fails([]item.Item{pkg("good", "", "absent")}, wire.Failed, "needs-good")
	s.does([]item.Item{pkg("good", "", "absent"), pkg("needs-good", "", "absent"), pkg("against", "", "present")})
	s.fails([]item.Item{pkg("fails", "", "present")}, wire.Failed, "fails is absent", "the last words")

	s.does(nil, "packages.against", "packages."+long, site.Key)
	s.are([]item.Item{pkg("against", "", "absent"), pkg(long, "", "absent")})
	s.file("etc/yum.repos.d/slipway-site.repo", "")
	if keys := s.h.Owned.Keys(facetName); slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, "repositories.") }) {
		t.Error(keys)
	}
}

// Upgrades of a level are made by dnf, and no others. What counts for security is said
// by the advisories of the repository.
func TestDNFPatch(t *testing.T) {
	t.Parallel()
	s := fedora(t)
	repo := t.TempDir()
	packages := func(version string) string {
		return spec(version, [][3]string{{"urgent", "", ""}, {"late", "", ""}, {"fixed", "", ""}, {"kept", "", ""}, {"library", "", ""}, {"user", "Requires: library = " + version, ""}})
	}
	s.publishRPM(repo, "", packages("1.0"))
	all := func(versions map[string]string) (items []item.Item) {
		for _, name := range []string{"good", "urgent", "late", "fixed", "kept", "library", "user"} {
			state := "present"
			if name == "kept" {
				state = "held"
			}
			version := "1.0-1"
			if v, ok := versions[name]; ok {
				version = v
			}
			items = append(items, pkg(name, version, state))
		}
		return items
	}
	s.does(append(all(nil), s.repositoryRPM(repo)))
	level := func(when, want string) {
		t.Helper()
		seen := s.have("patch")
		if got := seen.Have["patch.level"]; got != want {
			t.Errorf("%s: the level is %q, want %q (unread %v)", when, got, want, seen.Unread)
		}
	}
	level("without upgrades", "none")

	// The lists on the machine count until they are fetched.
	s.publishRPM(repo, "<updates>"+advisory("SITE-1", "security", "2.0", "urgent", "fixed", "kept")+advisory("SITE-2", "bugfix", "2.0", "good", "late", "library", "user")+"</updates>", packages("2.0"))
	level("before the lists are fetched", "none")
	if err := (dnf{}).refresh(t.Context(), s.h, nil, true); err != nil {
		t.Fatal(err)
	}
	level("before the first patch", "none; 6 upgrades: fixed, good, late, library, urgent, user (2 for security)")
	s.are(all(nil))

	security := patchItem(t, item.Patch{Level: "security", Except: []string{"fixed"}})
	s.does([]item.Item{security})
	s.are(all(map[string]string{"urgent": "2.0-1"}))
	s.ran = nil
	s.does([]item.Item{security}) // and does nothing where nothing is missing
	if ran := strings.Join(s.ran, "\n"); strings.Contains(ran, "dnf -y") || strings.Contains(ran, "makecache") {
		t.Errorf("a second pass ran\n%s", ran)
	}
	level("after those for security", "security")

	// Old lists tell nothing, and fetching them helps even where they have not changed.
	s.must("find", filepath.Join(s.root, "var/cache/dnf"), "-exec", "touch", "--no-dereference", "--date=2020-01-01", "{}", "+")
	level("with old lists", "unknown: the lists of packages are older than 7 days")
	s.does([]item.Item{security})

	// Another advisory makes an upgrade one for security that was none.
	s.publishRPM(repo, "<updates>"+advisory("SITE-3", "security", "2.0", "late")+"</updates>")
	if err := (dnf{}).refresh(t.Context(), s.h, nil, true); err != nil {
		t.Fatal(err)
	}
	level("after the next advisory", "1 upgrade: late")
	s.does([]item.Item{security})
	s.are(all(map[string]string{"urgent": "2.0-1", "late": "2.0-1"}))

	// An upgrade that needs that of a pinned package is refused, and nothing is changed.
	s.fails([]item.Item{patchItem(t, item.Patch{Level: "all", Except: []string{"fixed", "library"}})}, wire.Refused, "library from 1.0-1 to 2.0-1")
	s.are(all(map[string]string{"urgent": "2.0-1", "late": "2.0-1"}))
	level("while it is refused", "2 upgrades: good, user")

	s.does([]item.Item{patchItem(t, item.Patch{Level: "all", Except: []string{"fixed"}})})
	level("after all", "all")
	s.are(all(map[string]string{"good": "2.0-1", "urgent": "2.0-1", "late": "2.0-1", "library": "2.0-1", "user": "2.0-1"}))
}
