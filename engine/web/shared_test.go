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
		kept := func() map[sharedKey]func() (template.HTML, error) {
			f.pages.shared.mu.Lock()
			defer f.pages.shared.mu.Unlock()
			return f.pages.shared.made
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
				for key, made := range kept() {
					text, err := made()
					if err != nil || strings.Contains(string(text), "/do/") || strings.Contains(string(text), "@example.org") {
						t.Errorf("%s: section %s depends on who sees it: %v\n%s", path, key.section, err, text)
					}
				}
				// Of those who see the site, a rack and nothing, each has sections of its own.
				if n, want := len(kept()), map[string]int{"/sites/berlin": 3 * 4, "/sites/berlin/nodes": 3}[path]; want > 0 && n != want {
					t.Errorf("%s: %d shared sections of %d viewers, not %d", path, n, len(whom), want)
				}
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
