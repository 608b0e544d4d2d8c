package lab

import (
	"fmt"
	"regexp"
	"strings"
)

// attribute is one setting of the firmware.
type attribute struct {
	name, title, kind string
	value             any
	choices           []string
	low, high         int // of a number, or of a text's length
	readOnly          bool
	// only lets it be changed while another attribute has a value.
	only condition
}

type condition struct{ name, value string }

func choice(name, title, value string, choices ...string) attribute {
	return attribute{name: name, title: title, kind: "Enumeration", value: value, choices: choices}
}

func toggle(name, title, value string) attribute {
	return choice(name, title, value, "Enabled", "Disabled")
}

func count(name, title string, value, low, high int) attribute {
	return attribute{name: name, title: title, kind: "Integer", value: value, low: low, high: high}
}

func text(name, title, value string, longest int) attribute {
	return attribute{name: name, title: title, kind: "String", value: value, high: longest}
}

func flag(name, title string, value bool) attribute {
	return attribute{name: name, title: title, kind: "Boolean", value: value}
}

func (a attribute) fixed() attribute { a.readOnly = true; return a }

func (a attribute) while(name, value string) attribute {
	a.only = condition{name, value}
	return a
}

// slots are attributes of which a machine has as many as it has places.
func slots(n int, make func(i int) attribute) []attribute {
	var all []attribute
	for i := range n {
		all = append(all, make(i+1))
	}
	return all
}

// growBIOS adds the settings and their registry.
func (p *personality) growBIOS(l layout) {
	h := p.bios
	end := map[bool]string{true: "/"}[h.slashes]
	l.singles[h.path] = func(*Machine) body {
		settings := body{"@odata.type": "#Settings.v1_3_3.Settings", "SettingsObject": ref(h.settings + end)}
		if h.applyTimes != nil {
			settings["SupportedApplyTimes"] = h.applyTimes
		}
		return p.thing("Bios", h.path, "BIOS Configuration Current Settings", body{
			"@odata.id": h.path + end, "AttributeRegistry": h.registry, "Attributes": h.defaults(), "@Redfish.Settings": settings,
			"Actions": body{"#Bios.ResetBios": body{"target": h.path + "/Actions/Bios.ResetBios" + end}},
		})
	}
	l.singles[h.settings] = func(*Machine) body {
		b := p.thing("Bios", h.settings, "BIOS Configuration Pending Settings", body{
			"@odata.id": h.settings + end, "AttributeRegistry": h.registry, "Attributes": body{},
		})
		if p.complete { // DSP0266, Settings resource: which apply times a request may name
			b[applyTimeAnnotation] = body{
				"@odata.type": "#Settings.v1_3_3.PreferredApplyTime", "ApplyTime": h.applyTimes[0], "ApplyTime@Redfish.AllowableValues": h.applyTimes,
			}
		}
		return b
	}
	l.singles[h.store] = func(m *Machine) body { return p.attributeRegistry(m) }
}

func (h biosHabits) defaults() body {
	all := make(body, len(h.attributes))
	for _, a := range h.attributes {
		all[a.name] = a.value
	}
	return all
}

func (p *personality) attributeRegistry(m *Machine) body {
	h := p.bios
	var entries, dependencies []any
	for i, a := range h.attributes {
		entries = append(entries, h.entry(i, a))
		if a.only.name != "" {
			dependencies = append(dependencies, a.dependency())
		}
	}
	_, version, _ := strings.Cut(h.registry, ".")
	b := p.thing("AttributeRegistry", h.store, "BIOS Attribute Registry", body{
		"Id": h.registry, "Language": "en", "OwningEntity": or(p.vendor, "Slipway"), "RegistryVersion": strings.ReplaceAll(strings.TrimPrefix(version, "v"), "_", "."),
		"SupportedSystems": []any{body{"ProductName": m.model(), "SystemId": strings.ReplaceAll(m.sku(), "-", ""), "FirmwareVersion": m.biosVersion()}},
		"RegistryEntries":  body{"Attributes": entries, "Menus": []any{}, "Dependencies": dependencies},
	})
	if p.bios.textDefaults || p.bios.slashes {
		delete(b, "@odata.id") // as these vendors' registries have none
	}
	return b
}

// entry is how a registry describes the attribute.
func (h biosHabits) entry(i int, a attribute) body {
	b := body{
		"AttributeName": a.name, "DisplayName": a.title, "HelpText": a.title + ".", "Type": a.kind, "DefaultValue": a.value,
		"ReadOnly": a.readOnly, "WriteOnly": false, "GrayOut": false, "Hidden": false, "ResetRequired": true, "DisplayOrder": i + 1, "MenuPath": "./",
	}
	if h.textDefaults {
		b["DefaultValue"] = fmt.Sprint(a.value)
	}
	switch a.kind {
	case "Enumeration":
		values := make([]any, len(a.choices))
		for i, c := range a.choices {
			values[i] = body{"ValueName": c, "ValueDisplayName": spaced(c)}
		}
		b["Value"] = values
	case "Integer":
		b["LowerBound"], b["UpperBound"], b["ScalarIncrement"] = a.low, a.high, 1
	case "String":
		b["MinLength"], b["MaxLength"] = a.low, a.high
	}
	return b
}

// spaced is a name with spaces between its words.
func spaced(name string) string {
	return wordStart.ReplaceAllString(strings.ReplaceAll(name, "_", " - "), "$1 $2")
}

var wordStart = regexp.MustCompile(`([a-z])([A-Z])`)

// dependency is how a registry says that an attribute can be changed only
// while another has a value.
func (a attribute) dependency() body {
	return body{"DependencyFor": a.name, "Type": "Map", "Dependency": body{
		"MapFrom": []any{body{
			"MapFromAttribute": a.only.name, "MapFromProperty": "CurrentValue", "MapFromCondition": "NEQ", "MapFromValue": a.only.value,
		}},
		"MapToAttribute": a.name, "MapToProperty": "ReadOnly", "MapToValue": true,
	}}
}

// growRegistries adds the collection of registries. What is in the standard
// ones DMTF publishes.
func (p *personality) growRegistries(l layout) {
	const at = root + "/Registries"
	base := at + "/Base/" + p.speech.base + ".0"
	l.singles[at+"/Base"] = func(*Machine) body {
		where := body{"Language": "en", "PublicationUri": fmt.Sprintf("https://redfish.dmtf.org/registries/%s.0.json", p.speech.base)}
		if p.complete {
			where["Uri"] = base
		}
		return p.thing("MessageRegistryFile", at+"/Base", "Base Message Registry File", body{
			"Languages": []string{"en"}, "Registry": p.speech.base, "Location": []any{where},
		})
	}
	if p.complete {
		l.singles[base] = func(*Machine) body { return p.baseRegistry(base) }
	}
	l.singles[at+"/"+p.bios.file] = func(*Machine) body {
		name, version, _ := strings.Cut(strings.TrimPrefix(p.bios.registry, "."), ".")
		major, minor := strings.TrimPrefix(version, "v"), "0"
		if i := strings.IndexAny(major, "._"); i > 0 {
			major, minor = major[:i], strings.FieldsFunc(major[i+1:], func(r rune) bool { return r == '.' || r == '_' })[0]
		}
		return p.thing("MessageRegistryFile", at+"/"+p.bios.file, "BIOS Attribute Registry File", body{
			"Languages": []string{"en"}, "Registry": fmt.Sprintf("%s.%s.%s", name, major, minor),
			"Location": []any{body{"Language": "en", "Uri": p.bios.store}},
		})
	}
	l.some("MessageRegistryFile", at, "Base", p.bios.file)
}
