package access

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const text = `# roles first
role viewer: read
role oncall: read logs pause resume retry quarantine
role approver: approve release

person ana@example.org: oncall approver
person bob: oncall site=berlin rack=r1,r2
person bob: viewer
person carol: oncall role=compute
token grafana: viewer site=berlin
`

func TestAllows(t *testing.T) {
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	whole, n1 := Target{Site: "berlin"}, Target{Site: "berlin", Node: "n1", Rack: "r1", Role: "compute"}
	n3, paris := Target{Site: "berlin", Node: "n3", Rack: "r3", Role: "storage"}, Target{Site: "paris", Node: "n1", Rack: "r1", Role: "compute"}
	unknown := Target{Site: "berlin", Node: "n9"}
	ana, bob, carol := Caller{Kind: Person, Name: "ana@example.org"}, Caller{Kind: Person, Name: "bob"}, Caller{Kind: Person, Name: "carol"}
	for _, x := range []struct {
		c    Caller
		v    Verb
		t    Target
		want bool
	}{
		{ana, Approve, whole, true}, {ana, Approve, n1, true}, {ana, TakeOver, whole, false}, {ana, Export, whole, false},
		{bob, Pause, n1, true}, {bob, Pause, n3, false}, {bob, Pause, whole, false}, {bob, Pause, paris, false}, {bob, Pause, unknown, false},
		{bob, Read, whole, true}, {bob, Read, paris, true}, {bob, Approve, n1, false},
		{carol, Pause, n1, true}, {carol, Pause, paris, true}, {carol, Pause, n3, false}, {carol, Read, whole, false},
		{Caller{Kind: Token, Name: "grafana"}, Read, whole, true}, {Caller{Kind: Token, Name: "grafana"}, Read, paris, false},
		{Caller{Kind: Token, Name: "bob"}, Read, whole, false},      // a token is no person of the same name
		{Caller{Kind: Person, Name: "grafana"}, Read, whole, false}, // and the other way round
		{Caller{Kind: Person, Name: "BOB"}, Read, whole, false},
		{Caller{Kind: Person}, Read, whole, false}, {Caller{}, Read, whole, false}, {Caller{Kind: Nobody, Name: "bob"}, Read, whole, false},
		{Caller{Kind: "root", Name: "bob"}, Read, whole, false},
		{Caller{Kind: User, Name: "whoever"}, Approve, whole, true},
		{ana, "fly", whole, false}, {Caller{Kind: User, Name: "root"}, "fly", whole, false},
	} {
		err := p.Allows(x.c, x.v, x.t)
		if (err == nil) != x.want || err != nil && !errors.Is(err, ErrDenied) {
			t.Errorf("%s %s %s: %v", x.c, x.v, x.t, err)
		}
	}
	if p.MaySome(carol, Read, "berlin") != true || p.MaySome(carol, Approve, "berlin") || p.MaySome(Caller{Kind: Token, Name: "grafana"}, Read, "paris") {
		t.Error("what callers may do to anything")
	}
}

// No token gets what is for persons, whatever a policy says.
func TestTokensNeverApprove(t *testing.T) {
	forged := &Policy{grants: []grant{{kind: Token, name: "ci", verbs: []Verb{Approve, Release, TakeOver, Export}}}}
	for _, v := range []Verb{Approve, Release, TakeOver, Export} {
		if forged.Allows(Caller{Kind: Token, Name: "ci"}, v, Target{Site: "berlin"}) == nil || forged.MaySome(Caller{Kind: Token, Name: "ci"}, v, "berlin") {
			t.Errorf("a token may %s", v)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"role a: fly":                             `1: role a has "fly", which is not one of the verbs`,
		"\nrole a:":                               "2: role a has no verb",
		"role a: read\nrole a: read":              "2: role a is there twice",
		"role a b: read":                          "cannot be the name of a role",
		"person x: a":                             `1: there is no role "a" above`,
		"role a: read\nperson x:":                 "2: person x has no role",
		"role a: read\nperson x: a zone=1":        `"zone=" is no bound`,
		"role a: read\nperson x: a rack=":         "has an empty value, which would bound nothing",
		"role a: read\nperson x: a rack=r1,":      "has an empty value",
		"role a: read\nperson x: a rack=1 rack=2": "is there twice",
		"role a: approve\ntoken x: a":             `token x has a role with "approve", which only persons may have`,
		"role a: read\ntoken X: a":                "cannot be the name of a token",
		"role a: read\nperson x\ty: a":            "the name has the character",
		"role a: read\nperson : a":                "the name is empty",
		"everyone: read":                          "is none of the lines that belong here",
		"role a: read\nperson x a":                "person x a has no role",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
	}
}

func TestTokens(t *testing.T) {
	all := Tokens{filepath.Join(t.TempDir(), "tokens.d"), uint32(os.Geteuid())}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if list, err := all.List(); err != nil || list != nil {
		t.Errorf("before the first: %v, %v", list, err)
	}
	secret, err := all.Make("ci", "root", now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(all.Folder, "ci"))
	if err != nil || strings.Contains(string(file), secret[len(TokenPrefix)+3:]) {
		t.Errorf("the file is %q, %v", file, err)
	}
	if i, err := all.Check(secret, now.Add(59*time.Minute)); err != nil || i.Name != "ci" || i.By != "root" {
		t.Errorf("check: %+v, %v", i, err)
	}
	for _, at := range []time.Time{now.Add(time.Hour), now.Add(-time.Hour)} {
		if _, err := all.Check(secret, at); !errors.Is(err, errToken) {
			t.Errorf("at %v: %v", at, err)
		}
	}
	if _, err := all.Make("ci", "root", now, time.Hour); !errors.Is(err, fs.ErrExist) {
		t.Errorf("twice: %v", err)
	}
	for name, life := range map[string]time.Duration{"../x": time.Hour, "": time.Hour, "A": time.Hour, ".x": time.Hour, "long": longestLife + 1, "short": 0} {
		if _, err := all.Make(name, "root", now, life); err == nil {
			t.Errorf("%q for %v was made", name, life)
		}
	}
	path := filepath.Join(all.Folder, "ci")
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Check(secret, now); !errors.Is(err, errToken) {
		t.Errorf("a file that others can write: %v", err)
	} else if why := WhyUnreadable(err); why == nil || !strings.Contains(why.Error(), "chmod go-w") || strings.Contains(err.Error(), "chmod") {
		t.Errorf("who showed it is told %v, the log %v", err, why)
	}
	if _, err := all.List(); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("list: %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(file), "2026-03-01T13", "2036-03-01T13", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Check(secret, now); !errors.Is(err, errToken) {
		t.Errorf("a lifetime of ten years: %v", err)
	}
	if err := all.Revoke("ci"); err != nil {
		t.Error(err)
	}
	if err := all.Revoke("../tokens.d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("revoke of a path: %v", err)
	}
	if _, err := all.Check(secret, now); !errors.Is(err, errToken) {
		t.Errorf("after that: %v", err)
	}
}

// Whatever somebody shows, it is a token that was made or none.
func FuzzToken(f *testing.F) {
	all := Tokens{f.TempDir(), uint32(os.Geteuid())}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	secret, err := all.Make("ci", "", now, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{secret, secret + "A", secret + "\n", "slipway_ci.", "slipway_../ci.", strings.ToUpper(secret)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, shown string) {
		if _, err := all.Check(shown, now); (err == nil) != (shown == secret) {
			t.Errorf("%q: %v", shown, err)
		}
	})
}

// Whatever the file says, a caller that it does not name gets nothing.
func FuzzParse(f *testing.F) {
	f.Add(text)
	f.Add("role a: read\nperson x: a site=\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		for _, c := range []Caller{{Kind: Person, Name: "not.there@example.org"}, {Kind: Nobody, Name: "x"}, {Kind: Token, Name: "Not a token"}} {
			if !strings.Contains(text, c.Name) && p.Allows(c, Read, Target{Site: "berlin"}) == nil {
				t.Errorf("%q allows %s", text, c)
			}
		}
		for _, g := range p.grants {
			for _, v := range g.verbs {
				if m, known := meaningOf(v); !known || m.ForPersons && g.kind == Token {
					t.Errorf("%q gives %s %s", text, g.kind, v)
				}
			}
		}
	})
}

func TestFileIsReadAgain(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), "access.conf"), Owner: uint32(os.Geteuid())}
	ana := Caller{Kind: Person, Name: "ana"}
	may := func() bool {
		p, _ := f.Policy()
		return p.Allows(ana, Read, Target{Site: "berlin"}) == nil
	}
	if _, err := f.Policy(); !errors.Is(err, fs.ErrNotExist) || may() {
		t.Errorf("without a file: %v", err)
	}
	const right = "role a: read\nperson ana: a\n"
	for _, x := range []struct {
		text string
		want bool
	}{{right, true}, {strings.Replace(right, "ana", "bob", 1), false}, {right, true}, {right + "x\n", false}, {right, true}} {
		if err := os.WriteFile(f.Path+".new", []byte(x.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(f.Path+".new", f.Path); err != nil {
			t.Fatal(err)
		}
		if may() != x.want {
			t.Errorf("%q: %v", x.text, !x.want)
		}
	}
}
