package web

import (
	"html/template"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
)

// Sections are shared by those who see the same, and nobody is shown what somebody else sees, whoever comes first: each page is
// as it is for somebody who looks alone. No shared section has a button, or says who looks.
func TestSharedSectionsHideWhatRightsHide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // until the connections have ended
		f, l := &fleet{said: "there", size: 100, racked: true, waiting: true}, newPipes()
		as := serves(t, f, t.TempDir(), people+"person eve@example.org: viewer rack=r9\nperson fay@example.org: screen\n", l, l.dial)
		whom := []string{"ana", "bob", "carol", "dora", "eve", "fay"}
		paths := []string{"/sites/berlin", "/sites/berlin/nodes", "/sites/berlin/nodes?q=x-0000", "/sites/-/nodes", "/sites/berlin/racks", "/sites/berlin/nodes/web-1"}
		page := func(who, path string) string {
			_, text, _ := sends(t, as(who+"@example.org"), "GET", "https://127.0.0.1"+path, "")
			text, _, _ = strings.Cut(text, "<footer>") // with the time of the page
			return timeless(text)
		}
		alone := map[string]string{}
		for _, who := range whom {
			for _, path := range paths {
				time.Sleep(time.Second)
				alone[who+path] = page(who, path)
			}
		}
		for first := range whom {
			for _, path := range paths {
				time.Sleep(time.Second)
				for _, who := range slices.Concat(whom[first:], whom[:first]) {
					if page(who, path) != alone[who+path] {
						t.Errorf("%s: %s, after %s, is shown another page than alone", path, who, whom[first])
					}
				}
			}
		}
		shared := map[place]int{}
		for at, made := range f.pages.shared.made {
			text, err := made.text()
			if err != nil || strings.Contains(string(text), "@example.org") || at.rights == "" && strings.Contains(string(text), "/do/") {
				t.Errorf("%s: section %s depends on who sees it: %v\n%s", at.address, at.section, err, text)
			}
			at.rights, at.whole = "", false
			shared[at]++
		}
		// Those who see the site share what depends on no right: the others see some nodes. Ana and Dora have all rights, Bob, Carol,
		// Eve and Fay others.
		for section, want := range map[string]int{"verdict": 2, "newest": 2, "persons": 5} {
			if n := shared[place{name: "overview", address: "/sites/berlin", section: section}]; n != want {
				t.Errorf("section %s is kept %d times for %d viewers, not %d", section, n, len(whom), want)
			}
		}
		if alone["ana/sites/berlin"] == alone["bob/sites/berlin"] || alone["ana/sites/berlin/nodes"] == alone["carol/sites/berlin/nodes"] {
			t.Error("rights make no difference")
		}
	})
}

// What a shared section is made of does not know who asks and what they may do.
func TestSharedSectionsAreMadeWithoutRights(t *testing.T) {
	rights := []reflect.Type{reflect.TypeFor[access.Verb](), reflect.TypeFor[access.Caller](), reflect.TypeFor[control.Identity](), reflect.TypeFor[Shell](), reflect.TypeFor[request]()}
	seen := map[reflect.Type]bool{}
	var walk func(x reflect.Type, path string)
	walk = func(x reflect.Type, path string) {
		if seen[x] {
			return
		}
		seen[x] = true
		if slices.Contains(rights, x) {
			t.Errorf("%s is %s", path, x)
		}
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(x.Elem(), path)
		case reflect.Map:
			walk(x.Key(), path)
			walk(x.Elem(), path)
		case reflect.Struct:
			for i := range x.NumField() {
				walk(x.Field(i).Type, path+"."+x.Field(i).Name)
			}
		}
	}
	shares := 0
	for _, content := range []any{part{}, overviewPage{}, nodesPage{}} {
		walk(reflect.TypeOf(content), reflect.TypeOf(content).Name())
	}
	entries, err := files.ReadDir("pages")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := files.ReadFile("pages/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "{{shared ") {
			shares++
			if e.Name() != "overview.html" && e.Name() != "nodes.html" {
				t.Errorf("%s shares sections: add what it is made of to this test", e.Name())
			}
		}
	}
	if shares != 2 || len(seen) < 20 {
		t.Errorf("%d pages share sections, made of %d types", shares, len(seen))
	}
}

// A section is made again where what it shows has changed, or after a while, and for nobody who was answered otherwise. Those who
// ask meanwhile wait for it.
func TestSectionsAreMadeOnce(t *testing.T) {
	var s shared
	at, from, made := place{section: "verdict"}, basis{answers: uint64(1)}, 0
	get := func(at place, from basis) {
		t.Helper()
		if _, err := s.of(at, from, func() (template.HTML, error) { made++; return "", nil }); err != nil {
			t.Fatal(err)
		}
	}
	get(at, from)
	get(at, from)
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	for i, x := range []struct {
		at   place
		from basis
	}{
		{place{section: "verdict", rights: "may"}, from}, {place{section: "verdict", whole: true}, from}, {place{section: "verdict", address: "?q=x"}, from}, {place{section: "verdict", name: "nodes"}, from}, {place{section: "notes"}, from},
		{at, basis{answers: uint64(2)}}, {at, basis{answers: uint64(2), moment: 1}}, {at, basis{answers: uint64(2), files: "x"}}, {at, basis{answers: &made}},
	} {
		if get(x.at, x.from); made != i+2 {
			t.Errorf("%+v of %+v is that of another", x.at, x.from)
		}
	}
	for i := range 2 * mostShared {
		if get(place{address: strings.Repeat("x", i+1)}, from); len(s.made) > mostShared {
			t.Fatalf("%d sections are kept", len(s.made))
		}
	}
}
