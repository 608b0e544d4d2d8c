package rule

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var drivers = []Rule{
	{
		Code: "driver-match", Severity: site.SeverityError,
		What:  "A driver says which hardware it is for: PCI ids, or a model.",
		Why:   "No node gets it.",
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
					f.Path, f.Message = path+".pci", fmt.Sprintf("the driver %s has an empty list of PCI ids, so it matches no hardware", key)
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
		Code: "driver-firmware-path", Severity: site.SeverityError,
		What: "A driver's firmware is named by its plain path below /lib/firmware.",
		Why:  "The kernel asks for it by that path. Another one could lead out of the folder, to any file of the system.",
		Wrong: `drivers: ice: {match: pci: ["8086:1592"], firmware: "../ice.pkg": "ice"}
artifacts: ice: {url: "https://files.example.org/ice.pkg", sha256: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}`,
		Right: `drivers: ice: {match: pci: ["8086:1592"], firmware: "intel/ice/ddp/ice.pkg": "ice"}
artifacts: ice: {url: "https://files.example.org/ice.pkg", sha256: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Drivers) {
				for _, file := range keys(s.Drivers[key].Firmware) {
					if !plainFirmware(file) {
						found = append(found, wrong("drivers."+key+".firmware."+file,
							fmt.Sprintf("the driver %s has firmware at %q, which is not a plain path below /lib/firmware", key, file),
							"Write the path from there, as the kernel's log and `modinfo -F firmware MODULE` show it, without \"..\", \"//\", blanks and a \"/\" at its beginning or end."))
					}
				}
			}
			return found
		},
	},
	{
		Code: "driver-contradiction", Severity: site.SeverityError,
		What: "Drivers for the same hardware agree on the firmware and on the parameters of modules.",
		Why:  "Only one of the two values can be on a machine.",
		Wrong: `drivers: ice: {match: pci: ["8086:1592"], modules: ice: parameters: debug: 0}
drivers: nic: {match: pci: ["8086:1592", "8086:1593"], modules: ice: parameters: debug: 1}`,
		Right: `drivers: ice: {match: pci: ["8086:1592"], modules: ice: parameters: debug: 0}
drivers: nic: {match: pci: ["8086:1592", "8086:1593"], modules: ice: parameters: debug: 0}`,
		Site: contradictions,
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

// broken reports whether one of some missing values was stated nevertheless, so that
// another finding reports it.
func broken(s *site.Site, paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		_, ok := within(s.Origins, path)
		return ok
	})
}

// modelFacts returns the model of a node, if a driver depends on it.
func modelFacts(s *site.Site, n *site.Node) []Fact {
	for _, d := range s.Drivers {
		if byModel(d) {
			return fact(n.Hardware.Model, "hardware.model")
		}
	}
	return nil
}

// byModel reports whether only the model decides if a driver is used. The PCI devices of a
// machine are not known before Slipway sees it.
func byModel(d *site.Driver) bool { return d.Match.Model != "" && len(d.Match.PCI) == 0 }

// driverUnused finds nothing while no node states its model.
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

// anyFits reports whether a driver is for one of some sorted models.
func anyFits(model string, models []string) bool {
	if !strings.Contains(model, "*") {
		_, ok := slices.BinarySearch(models, model)
		return ok
	}
	return slices.ContainsFunc(models, func(is string) bool { return site.ModelFits(model, is) })
}

// contradictions returns the places where two drivers disagree on what they bring. Two
// drivers that differ in PCI ids, or that models select, may be for different machines. If
// they meet on one machine, its plan says so.
func contradictions(s *site.Site) (found []site.Finding) {
	all := keys(s.Drivers)
	for i, name := range all {
		for _, other := range all[:i] {
			a, b := s.Drivers[other], s.Drivers[name]
			meet := meets(a.Match, b.Match)
			if meet == "" {
				continue
			}
			for _, file := range keys(b.Firmware) {
				if is, there := a.Firmware[file]; there && is != b.Firmware[file] {
					found = append(found, wrong("drivers."+name+".firmware."+file,
						fmt.Sprintf("the drivers %s and %s are both for %s, and name two artifacts for the firmware %s: %s and %s", other, name, meet, file, is, b.Firmware[file]),
						"Name one artifact, or let one of the drivers be for other hardware."))
				}
			}
			for _, module := range keys(b.Modules) {
				for _, p := range keys(b.Modules[module].Parameters) {
					is, there := a.Modules[module].Parameters[p]
					if value := b.Modules[module].Parameters[p]; there && site.SettingText(is) != site.SettingText(value) {
						found = append(found, wrong("drivers."+name+".modules."+module+".parameters."+p,
							fmt.Sprintf("the drivers %s and %s are both for %s, and give the parameter %s of the module %s two values: %s and %s", other, name, meet, p, module, site.SettingText(is), site.SettingText(value)),
							"Write one value, or let one of the drivers be for other hardware."))
					}
				}
			}
		}
	}
	return found
}

// meets returns the hardware that two drivers are certainly both for; empty for none.
func meets(a, b site.DriverMatch) string {
	for _, id := range a.PCI {
		if slices.Contains(b.PCI, id) {
			return "the PCI id " + id
		}
	}
	if a.Model != "" && a.Model == b.Model {
		return fmt.Sprintf("the model %q", a.Model)
	}
	return ""
}

// plainFirmware reports whether a path below the firmware folder cannot lead out of it.
func plainFirmware(file string) bool {
	return file != "" && file != "." && path.Clean(file) == file && !path.IsAbs(file) && file != ".." && !strings.HasPrefix(file, "../") &&
		!strings.ContainsFunc(file, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
