package packages

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const status = `Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.21.22
Description: package
 Status: install ok half-configured

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9

Package: libc6
Status: hold ok installed
Architecture: i386
Version: 2.36-8

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: cut-off
Status: purge ok config-files
Architecture: all
Version: 1

Package: keeps-conf
Status: purge ok config-files
Architecture: all
Conffiles:
 /etc/keeps.conf d41d8cd98f00b204e9800998ecf8427e
Version: 1

Package: half
Status: install ok half-configured
Architecture: all
Version: 2

Package: torn
Status: install reinstreq half-installed
Architecture: amd64
Version: 3

Package: triggers
Status: install ok triggers-pending
Architecture: amd64
Version: 4

Package: no-status
Version: 5
`

func TestParseStatus(t *testing.T) {
	t.Parallel()
	inv := parseStatus([]byte(status))
	for name, want := range map[string]installed{
		"libc6":       {Version: "2.36-9", State: "present"},
		"libc6:amd64": {Version: "2.36-9", State: "present"},
		"libc6:i386":  {Version: "2.36-8", State: "held"},
		"gone":        {State: "absent"},
		"cut-off":     {State: "absent"},
		"half":        {Version: "2", State: "half-configured"},
		"torn":        {Version: "3", State: "half-installed"},
		"triggers":    {Version: "4", State: "present"},
		"no-status":   {State: "absent"},
		"unknown":     {State: "absent"},
	} {
		if got := inv.find(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if !slices.Equal(inv.broken, []string{"half", "torn", "triggers"}) {
		t.Error(inv.broken)
	}
	if !slices.Equal(inv.purging, []string{"cut-off"}) {
		t.Error(inv.purging)
	}
}

// large is a status file as a large server has it.
func large(packages int) []byte {
	var b strings.Builder
	for i := range packages {
		fmt.Fprintf(&b, "Package: package-%d\nStatus: install ok installed\nPriority: optional\nArchitecture: amd64\nVersion: 1.%d\nDepends: a, b, c\nDescription: one\n%s\n\n", i, i, strings.Repeat(" text of a description that goes on\n", 30))
	}
	return []byte(b.String())
}

func BenchmarkParseStatus(b *testing.B) {
	text := large(2000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if inv := parseStatus(text); len(inv.byName) != 2000 {
			b.Fatal(len(inv.byName))
		}
	}
}

func TestParseSimulation(t *testing.T) {
	t.Parallel()
	got := parseSimulation([]byte(`NOTE: This is only a simulation!
Reading package lists...
Inst libc6 [2.36-9+deb12u1] (2.36-9+deb12u4 Debian:12.5/stable, Debian-Security:12/stable-security [amd64]) []
Inst good (1.0 Site:stable [all])
Inst libc6:i386 [1] (2 Ubuntu:22.04/jammy-updates [i386])
Inst ubuntu [1] (2 Ubuntu:22.04/jammy-security [amd64])
Inst torn (
Conf good (1.0 Site:stable [all])
Remv old [3]
Purg older [4]
`))
	want := []effect{
		{"libc6", "2.36-9+deb12u1", "2.36-9+deb12u4", true}, {"good", "", "1.0", false}, {"libc6:i386", "1", "2", false}, {"ubuntu", "1", "2", true},
		{"old", "3", "", false}, {"older", "4", "", false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestParseRPM(t *testing.T) {
	t.Parallel()
	inv := parseRPM([]byte("glibc\t0\t2.34-60.el9\tx86_64\t100\nglibc\t0\t2.34-59.el9\ti686\t90\nkernel\t0\t5.14-1\tx86_64\t10\nkernel\t0\t5.14-2\tx86_64\t20\n" +
		"openssl\t1\t3.0-1\tx86_64\t5\ngpg-pubkey\t0\tx-y\t(none)\t1\nshort\tline\n"))
	for name, want := range map[string]string{"glibc": "2.34-60.el9", "glibc.i686": "2.34-59.el9", "kernel": "5.14-2", "openssl": "1:3.0-1", "gpg-pubkey": "", "short": ""} {
		if got := inv.find(name).Version; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestParseTransaction(t *testing.T) {
	t.Parallel()
	got, shown := parseTransaction([]byte(`Dependencies resolved.
================================================================================
 Package              Architecture   Version            Repository         Size
================================================================================
Installing:
 good                 noarch         1.0-1              slipway-site      6.0 k
 a-package-with-a-name-that-is-longer-than-the-column
                      x86_64         1:2.0-1            slipway-site      6.0 k
Upgrading:
 glibc                x86_64         2.34-61.el9        baseos            2.0 M
     replacing  glibc-old.x86_64 2.34-60.el9
Installing dependencies:
 dep                  noarch         1.0-1              slipway-site      6.0 k
Removing:
 old                  noarch         3-1                @slipway-site     1.0 k
Removing dependent packages:
 older                noarch         4-1                @slipway-site     1.0 k

Transaction Summary
================================================================================
Install  3 Packages
`))
	want := []effect{
		{"good", "", "1.0-1", false}, {"a-package-with-a-name-that-is-longer-than-the-column", "", "1:2.0-1", false}, {"glibc", "?", "2.34-61.el9", false},
		{"dep", "", "1.0-1", false}, {"old", "3-1", "", false}, {"older", "4-1", "", false},
	}
	if !slices.Equal(got, want) || !shown {
		t.Errorf("%+v, %v\nwant %+v", got, shown, want)
	}
	if _, shown := parseTransaction([]byte("Dependencies resolved.\nNothing to do.\n")); shown {
		t.Error("a table where nothing is to be done")
	}
}

func TestExcludes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		conf  string
		names []string
		on    bool
		want  string
	}{
		{"", []string{"b", "a"}, true, "[main]\nexcludepkgs=a b\n"},
		{"[main]\ngpgcheck=1\n", []string{"a"}, true, "[main]\nexcludepkgs=a\ngpgcheck=1\n"},
		{"[main]\nexclude=x*, y\n", []string{"a"}, true, "[main]\nexcludepkgs=x* y a\n"},
		{"[main]\nexcludepkgs=x* a\n", []string{"a"}, false, "[main]\nexcludepkgs=x*\n"},
		{"[main]\nexcludepkgs=a\nbest=True\n", []string{"a"}, false, "[main]\nbest=True\n"},
		{"[main]\n[other]\nexclude=a\n", []string{"a"}, false, "[main]\n[other]\nexclude=a\n"},
	} {
		if got := string(setExcludes([]byte(c.conf), c.names, c.on)); got != c.want {
			t.Errorf("%q with %v %v: %q, want %q", c.conf, c.names, c.on, got, c.want)
		}
	}
}

func TestParseMetadata(t *testing.T) {
	t.Parallel()
	if name, version := parseMetadata([]byte("Metadata-Version: 2.1\r\nName: Foo_Bar\r\nVersion: 1.0\r\n\r\nVersion: 2\n")); name != "foo-bar" || version != "1.0" {
		t.Errorf("%q %q", name, version)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]bool{ // of apt and dnf
		"nginx": {true, true}, "g++": {true, true}, "libc6:i386": {true, false}, "NetworkManager": {false, true}, "python3.11": {true, true}, "glibc.i686": {true, true},
		"-x": {}, "--config=/x": {}, "": {}, "a b": {}, "a\nb": {}, "../x": {}, "x/stable": {}, "x=1": {}, "x-": {false, true}, "x*": {}, "x^": {}, strings.Repeat("x", 201): {},
	} {
		if got := [2]bool{apt{}.check(name) == nil, dnf{}.check(name) == nil}; got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"6.1.0-9-amd64", "6.1.0-21-amd64"}, {"5.14.0-362.8.1.el9_3.x86_64", "5.14.0-362.13.1.el9_3.x86_64"}, {"6.1~rc1", "6.1"}, {"6.1", "6.1.1"}, {"1a", "1+"},
	} {
		if inside.CompareVersions(c[0], c[1]) >= 0 || inside.CompareVersions(c[1], c[0]) <= 0 || inside.CompareVersions(c[0], c[0]) != 0 {
			t.Errorf("%s is not before %s", c[0], c[1])
		}
	}
	if a, b := flavour("6.1.0-21-cloud-amd64"), flavour("6.1.0-22-amd64"); a == b || a != "-cloud-amd64" || flavour("5.14.0-362.8.1.el9_3.x86_64") != "" {
		t.Errorf("%q, %q", a, b)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	inv := parseStatus([]byte(status))
	for _, c := range []struct {
		install map[string]string
		remove  []string
		effects []effect
		want    string
	}{
		{map[string]string{"new": ""}, nil, []effect{{name: "new", to: "1"}, {name: "dep", to: "1"}}, ""},
		{map[string]string{"libc6:amd64": "3"}, nil, []effect{{name: "libc6", from: "2.36-9", to: "3"}}, ""},
		{map[string]string{"half": ""}, nil, nil, ""},
		{nil, []string{"libc6:i386"}, []effect{{name: "libc6:i386", from: "2.36-8"}}, ""},
		{map[string]string{"new": ""}, nil, []effect{{name: "new", to: "1"}, {name: "libc6", from: "2.36-9", to: "3"}}, "libc6 from 2.36-9 to 3"},
		{map[string]string{"new": ""}, nil, []effect{{name: "new", to: "1"}, {name: "half", from: "2"}}, "would remove half"},
		{map[string]string{"new": "2"}, nil, []effect{{name: "new", to: "1"}}, "version 2 is not available"},
		{map[string]string{"new": ""}, nil, []effect{{name: "other", to: "1"}}, "package new: the repositories have no"},
	} {
		err := verify(inv, change{install: c.install, remove: c.remove}, c.effects)
		if c.want == "" && err != nil || c.want != "" && !says(err, c.want) {
			t.Errorf("%v %v: %v, want %q", c.install, c.remove, err, c.want)
		}
	}
}

// Upgrades change no package of which the design gives the version, however they come
// to it.
func TestVerifyKeepsPinnedPackages(t *testing.T) {
	t.Parallel()
	inv := parseStatus([]byte(status))
	c := change{install: map[string]string{"half": "3"}, upgrade: true, pinned: []string{"libc6"}}
	up := effect{name: "half", from: "2", to: "3"}
	if err := verify(inv, c, []effect{up, {name: "libc6:i386", from: "2.36-8", to: "3"}, {name: "fresh", to: "1"}}); err != nil {
		t.Errorf("a further upgrade that nobody pins: %v", err)
	}
	for _, name := range []string{"libc6", "libc6:amd64"} {
		err := verify(inv, c, []effect{up, {name: name, from: "2.36-9", to: "3"}})
		for _, want := range []string{"half", "libc6", "2.36-9", "to 3", "the design", "No package was changed"} {
			if !says(err, want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
		if classOf(err) != wire.Refused {
			t.Errorf("%s: the class is %q", name, classOf(err))
		}
	}
}

func TestLevelText(t *testing.T) {
	t.Parallel()
	found := []effect{{name: "b", from: "1", to: "2", security: true}, {name: "a", from: "1", to: "2"}, {name: "pinned", from: "1", to: "2", security: true}}
	for want, p := range map[string]item.Patch{
		"2 upgrades: a, b": {Level: "all", Except: []string{"pinned"}},
		"1 upgrade: b":     {Level: "security", Except: []string{"pinned"}},
		"security":         {Level: "security", Except: []string{"pinned", "b"}},
	} {
		if got := levelText(p.Level, open(found, p)); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
	if got := inWords(3*24*time.Hour + time.Minute); got != "3 days old" {
		t.Error(got)
	}
}

// The parsers take anything; what they give stays within what they were given.
func FuzzParsers(f *testing.F) {
	f.Add([]byte(status))
	f.Add([]byte("Inst a [1] (2 Debian-Security:12/x [amd64])\nRemv b [1]\n"))
	f.Add([]byte("a\t1\t2-3\tx86_64\t4\n"))
	f.Add([]byte("Installing:\n a noarch 1 r 1 k\n b\n  noarch 1 r 1\n"))
	f.Add([]byte("[main]\nexclude=a,b\n"))
	f.Add([]byte("Name: A\nVersion: 1\n\n"))
	f.Add([]byte("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nOrigin: a\nSuite: b\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, p := range parseStatus(text).byName {
			if name == "" || !p.there() {
				t.Errorf("%q is %+v", name, p)
			}
		}
		for _, e := range parseSimulation(text) {
			if e.name == "" || strings.ContainsAny(e.name+e.from+e.to, " \n") {
				t.Errorf("%+v", e)
			}
		}
		for name := range parseRPM(text).byName {
			if name == "" {
				t.Error("a package without a name")
			}
		}
		effects, _ := parseTransaction(text)
		for _, e := range effects {
			if e.name == "" || e.from == "" && e.to == "" {
				t.Errorf("%+v", e)
			}
		}
		on := setExcludes(text, []string{"held"}, true)
		if _, names := excludes(on); !slices.Contains(names, "held") {
			t.Errorf("%q does not exclude what it was to", on)
		}
		if _, names := excludes(setExcludes(on, []string{"held"}, false)); slices.Contains(names, "held") {
			t.Errorf("%q excludes what it was not to", on)
		}
		paragraph(text)
		ini(text)
		parseMetadata(text)
	})
}
