package lab

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
)

// settable says whether the registry lets attributes have values; it answers
// itself when it does not.
func (x *exchange) settable(given body) bool {
	registry := x.registry()
	now := x.attributes()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		a := registry.entry(name)
		_, there := now[name]
		id := ""
		switch {
		case a == nil && !there:
			id = "PropertyUnknown"
		case a == nil:
		case a["ReadOnly"] == true, registry.maps(name, now):
			id = "PropertyNotWritable"
		default:
			id = wrongValue(a, given[name], now[name])
		}
		switch id {
		case "":
		case "PropertyUnknown", "PropertyNotWritable":
			x.fail(http.StatusBadRequest, id, name)
			return false
		default:
			x.fail(http.StatusBadRequest, id, shown(given[name]), name)
			return false
		}
	}
	return true
}

// registry is the attribute registry of a machine's firmware.
type registry struct{ entries body }

func (m *Machine) registry() registry {
	entries, _ := m.kind.tree.at(m, m.kind.bios.store)["RegistryEntries"].(body)
	return registry{entries}
}

// entry describes an attribute, nil when the registry does not.
func (r registry) entry(name string) body {
	for _, a := range items(r.entries["Attributes"]) {
		if a, ok := a.(body); ok && a["AttributeName"] == name {
			return a
		}
	}
	return nil
}

// maps says whether a dependency makes an attribute unchangeable as long as
// the others are as they are (DSP0268, AttributeRegistry Dependencies).
func (r registry) maps(name string, now body) bool {
	for _, d := range items(r.entries["Dependencies"]) {
		d, _ := d.(body)
		on, _ := d["Dependency"].(body)
		to := on["MapToProperty"]
		if on["MapToAttribute"] == name && (to == "ReadOnly" || to == "GrayOut" || to == "Hidden") && on["MapToValue"] == true && holds(items(on["MapFrom"]), now) {
			return true
		}
	}
	return false
}

// holds says whether the conditions of a dependency are met.
func holds(conditions []any, now body) bool {
	met := false
	for i, c := range conditions {
		c, _ := c.(body)
		name, _ := c["MapFromAttribute"].(string)
		is := c["MapFromProperty"] == "CurrentValue" && (c["MapFromCondition"] == "EQU") == (fmt.Sprint(now[name]) == fmt.Sprint(c["MapFromValue"]))
		switch {
		case i == 0:
			met = is
		case c["MapTerms"] == "OR":
			met = met || is
		default:
			met = met && is
		}
	}
	return met
}

// wrongValue is the message about a value that an attribute cannot have, empty
// for one that it can. It is given in the words in which the present one is shown.
func wrongValue(a body, v, present any) string {
	switch a["Type"] {
	case "Enumeration":
		return wrongChoice(a, v, wordsOf(a, present))
	case "Integer":
		return wrongNumber(a, v)
	case "Boolean":
		if _, ok := v.(bool); !ok {
			return "PropertyValueTypeError"
		}
	default:
		return wrongText(a, v)
	}
	return ""
}

// wordsOf is the property of an enumeration's values that has the words in which
// the present one is shown: some firmware shows, and takes, the display names.
func wordsOf(a body, present any) string {
	words := "ValueName"
	for _, choice := range items(a["Value"]) {
		switch c, _ := choice.(body); {
		case c["ValueName"] == present:
			return "ValueName"
		case present != nil && c["ValueDisplayName"] == present:
			words = "ValueDisplayName"
		}
	}
	return words
}

func wrongChoice(a body, v any, words string) string {
	if _, ok := v.(string); !ok {
		return "PropertyValueTypeError"
	}
	for _, choice := range items(a["Value"]) {
		if c, ok := choice.(body); ok && c[words] == v {
			return ""
		}
	}
	return "PropertyValueNotInList"
}

func wrongNumber(a body, v any) string {
	n, ok := v.(float64)
	if !ok || n != math.Trunc(n) {
		return "PropertyValueTypeError"
	}
	low, hasLow := number(a["LowerBound"])
	high, hasHigh := number(a["UpperBound"])
	if hasLow && n < low || hasHigh && n > high {
		return "PropertyValueOutOfRange"
	}
	return ""
}

func wrongText(a body, v any) string {
	s, ok := v.(string)
	if !ok {
		return "PropertyValueTypeError"
	}
	low, hasLow := number(a["MinLength"])
	high, hasHigh := number(a["MaxLength"])
	if hasLow && float64(len(s)) < low || hasHigh && float64(len(s)) > high {
		return "PropertyValueFormatError"
	}
	if e, ok := a["ValueExpression"].(string); ok && e != "" {
		if r, err := regexp.Compile(e); err == nil && !r.MatchString(s) {
			return "PropertyValueFormatError"
		}
	}
	return ""
}

// number is a JSON number, however it came.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}
