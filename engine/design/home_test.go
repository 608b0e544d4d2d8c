package design

import (
	"strings"
	"testing"
	"testing/fstest"
)

// The home of a site is found without evaluating it.
func TestHome(t *testing.T) {
	root := fstest.MapFS{"site.cue": {Data: []byte("package fra\n")}}
	many := fstest.MapFS{"sites/fra/a.cue": {Data: []byte("package fra\n")}, "sites/muc/a.cue": {Data: []byte("package muc\n")}}
	for name, c := range map[string]struct {
		files     fstest.MapFS
		ask       string
		site, dir string
		says      string
	}{
		"the root":     {root, "", "fra", ".", ""},
		"by its name":  {root, "fra", "fra", ".", ""},
		"another name": {root, "muc", "", "", `no site "muc"`},
		"one of two":   {many, "muc", "muc", "sites/muc", ""},
		"of two":       {many, "", "", "", "several sites: fra, muc"},
		"none":         {fstest.MapFS{}, "", "", "", "holds no site"},
	} {
		site, dir, err := Home(c.files, c.ask)
		if site != c.site || dir != c.dir || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %q in %q, %v", name, site, dir, err)
		}
	}
}
