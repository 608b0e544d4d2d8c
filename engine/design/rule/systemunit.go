package rule

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// unitTypes are the unit types of systemd.unit(5).
var unitTypes = []string{"service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"}

func unitNames(c contents) []site.Finding {
	var found []site.Finding
	for _, name := range keys(c.units) {
		at := c.path + ".units." + name
		kind := strings.TrimPrefix(path.Ext(name), ".")
		switch {
		case !slices.Contains(unitTypes, kind) || len(name) == len(kind)+1:
			found = append(found, wrong(at, fmt.Sprintf("%q is not a name and the type of a unit%s", name, DidYouMean(kind, unitTypes)),
				"Write a name and, after a dot, one of: "+strings.Join(unitTypes, ", ")+"."))
		case len(name) > 255:
			found = append(found, wrong(at, fmt.Sprintf("the name of the unit has %d letters", len(name)), "Use at most 255."))
		}
	}
	return found
}

func unitsMasked(c contents) []site.Finding {
	var found []site.Finding
	for _, name := range keys(c.units) {
		u, at := c.units[name], c.path+".units."+name
		if u.State != "masked" {
			continue
		}
		if u.Enabled != nil && *u.Enabled && c.clash(at+".state", at+".enabled") {
			found = append(found, wrong(at+".enabled", fmt.Sprintf("the unit %s is masked and enabled", name), "Remove one of the two."))
		}
		if u.Content != nil && c.clash(at+".state", at+".content") {
			found = append(found, wrong(at+".content", fmt.Sprintf("the unit %s is masked and has a content", name), "Remove one of the two."))
		}
	}
	return found
}

// unitRestarts reports files that units name and that neither the node's system nor that of its
// family has.
func unitRestarts(s *site.Site, n *site.Node) []site.Finding {
	files := keys(n.System.Files)
	for _, family := range keys(n.Families) {
		files = append(files, keys(n.Families[family].Files)...)
	}
	return eachSystem(func(path string, x site.System) []site.Finding { return strayRestarts(path, x.Units, files) })(s, n)
}

// actionRestarts does the same for boot actions.
func actionRestarts(s *site.Site) (found []site.Finding) {
	for _, name := range keys(s.BootActions) {
		a := s.BootActions[name]
		found = append(found, strayRestarts("bootActions."+name, a.Units, keys(a.Files))...)
	}
	return found
}

func strayRestarts(path string, units map[string]site.Unit, files []string) (found []site.Finding) {
	for _, name := range keys(units) {
		for _, file := range units[name].RestartOn {
			if !slices.Contains(files, file) {
				found = append(found, wrong(fmt.Sprintf("%s.units.%s.restartOn", path, name),
					fmt.Sprintf("the unit %s is to be restarted when %s changes, and the design has no such file%s", name, file, DidYouMean(file, files)),
					"Add the file to system.files, or take it out of restartOn."))
			}
		}
	}
	return found
}
