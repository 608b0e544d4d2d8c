package rule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var drivers = []Rule{
	{
		Code: "driver-match", Severity: site.SeverityError,
		What:  "A driver says which hardware it is for: PCI ids, or a model.",
		Why:   "It is for nothing, and is put on no node.",
		Wrong: `drivers: ice: {match: {}, modules: ice: {}}`,
		Right: `drivers: ice: {match: pci: ["8086:1592"], modules: ice: {}}`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Drivers) {
				path, m := "drivers."+key+".match", s.Drivers[key].Match
				none := m.PCI != nil && len(m.PCI) == 0
				if len(m.PCI) > 0 || m.Model != "" || broken(s, path+".model") || !none && broken(s, path+".pci") {
					continue
				}
				f := wrong(path, fmt.Sprintf("the driver %s is for no hardware", key),
					"Set match.pci, as `lspci -nn` shows it, or match.model.")
				if none {
					f.Path, f.Message = path+".pci", fmt.Sprintf("the driver %s is for none of the PCI ids in an empty list", key)
				}
				found = append(found, f)
			}
			return found
		},
	},
	{
		Code: "driver-empty", Severity: site.SeverityError,
		What:  "A driver has modules, packages or firmware.",
		Why:   "It changes nothing, and the device stays without a driver.",
		Wrong: `drivers: ice: match: pci: ["8086:1592"]`,
		Right: `drivers: ice: {match: pci: ["8086:1592"], packages: debian: ["firmware-misc-nonfree"]}`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Drivers) {
				path, d := "drivers."+key, s.Drivers[key]
				if len(d.Modules)+len(d.Packages)+len(d.Firmware) == 0 && !broken(s, path+".modules", path+".packages", path+".firmware") {
					found = append(found, wrong(path,
						fmt.Sprintf("the driver %s has no modules, packages or firmware", key), "Set one of them, or remove the driver."))
				}
			}
			return found
		},
	},
	{
		Code: "driver-unused", Severity: site.SeverityNote,
		What: "The model that a driver is for is that of a node.",
		Why:  "It is left over, or its model is not spelled as Redfish reports it.",
		Wrong: `drivers: gpu: {match: model: "PowerEdge R760*", modules: nvidia: {}}
nodes: "n1": hardware: model: "PowerEdge R750"`,
		Right: `drivers: gpu: {match: model: "PowerEdge R750*", modules: nvidia: {}}
nodes: "n1": hardware: model: "PowerEdge R750"`,
		Facts: modelFacts, Fleet: driverUnused,
	},
}

// broken says whether one of some values that the site does not have is stated
// nevertheless, so that it is the subject of another finding.
func broken(s *site.Site, paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		_, ok := within(s.Origins, path)
		return ok
	})
}

// modelFacts are the model of a node, where a driver wants to know it.
func modelFacts(s *site.Site, n *site.Node) []Fact {
	for _, d := range s.Drivers {
		if byModel(d) {
			return fact(n.Hardware.Model, "hardware.model")
		}
	}
	return nil
}

// byModel says whether only its model says whether a driver is used: which PCI
// devices a machine has is not known before it is seen.
func byModel(d *site.Driver) bool { return d.Match.Model != "" && len(d.Match.PCI) == 0 }

// driverUnused says nothing while no node states its model.
func driverUnused(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	models := x.Keys()
	for _, key := range keys(s.Drivers) {
		m := s.Drivers[key].Match
		if !byModel(s.Drivers[key]) || len(models) == 0 || anyFits(m.Model, models) {
			continue
		}
		found = append(found, wrong("drivers."+key+".match.model",
			fmt.Sprintf("no node is of the model %q%s", m.Model, DidYouMean(m.Model, models)),
			"Write the model as the nodes' hardware.model has it, or remove the driver."))
	}
	return found
}

// anyFits says whether one of some models, in order, is what a driver is for.
func anyFits(model string, models []string) bool {
	if !strings.Contains(model, "*") {
		_, ok := slices.BinarySearch(models, model)
		return ok
	}
	return slices.ContainsFunc(models, pattern(model).MatchString)
}

// pattern is a text in which "*" stands for any letters.
func pattern(text string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$")
}
