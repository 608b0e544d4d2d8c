package author

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	cueliteral "cuelang.org/go/cue/literal"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

func quote(s string) string { return cueliteral.String.Quote(s) }

// nodeName returns a name for a machine: a word for its model and its serial
// number, or its address.
func nodeName(m site.Met) string {
	var parts []string
	if i := m.Observed.Inventory; i != nil {
		parts = append(parts, modelWord(i.Model))
	}
	if serial := m.Observed.Identity.Own().Serial; serial != "" {
		parts = append(parts, serial)
		if slot := m.Observed.Identity.Slot; slot != "" {
			parts = append(parts, slot)
		}
	} else {
		parts = append(parts, "at", m.Address)
	}
	return slug(strings.Join(parts, "-"))
}

// modelWord returns the word that distinguishes a model from others of its
// maker: the first with a digit ("ProLiant DL385 Gen10 Plus v2"), or the last.
func modelWord(model string) string {
	words := strings.Fields(model)
	for _, w := range words {
		if strings.ContainsAny(w, "0123456789") {
			return w
		}
	}
	return strings.Join(words[max(0, len(words)-1):], "")
}

// modelName returns the name of a profile for machines of one model.
func modelName(i *site.Inventory) string {
	if i == nil {
		return "unknown-model"
	}
	maker := strings.Fields(i.Manufacturer)
	name := slug(strings.Join(append(maker[:min(1, len(maker))], i.Model), "-"))
	if name == adoptedProfile || i.Model == "" {
		return "unknown-model"
	}
	return name
}

// slug turns a text into a name: lower case letters, digits and hyphens. It has
// at most 56, which leaves room for a number.
func slug(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '-' }), "-")
	return cmp.Or(strings.Trim(s[:min(len(s), 56)], "-"), "machine")
}

// spare returns a name, with a number added if it is taken.
func spare(name string, taken map[string]bool) string {
	with := name
	for i := 2; taken[with]; i++ {
		with = name + "-" + strconv.Itoa(i)
	}
	taken[with] = true
	return with
}

func label(name string) string {
	if cueIdentifier(name) {
		return name
	}
	return quote(name)
}

// cueIdentifier reports whether a name can be a label without quotes.
func cueIdentifier(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && name != ""
}

func cueValue(v any) string {
	switch x := v.(type) {
	case int:
		return strconv.Itoa(x)
	case []string:
		quoted := make([]string, len(x))
		for i, s := range x {
			quoted[i] = quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case string:
		if strings.Contains(x, "\n") {
			return cueliteral.String.WithTabIndent(1).Quote(x)
		}
		return quote(x)
	}
	panic(fmt.Sprintf("%T in an adopted site", v)) // only this package makes leaves
}

// inventoryLines describes the parts of a machine, for people.
func inventoryLines(i *site.Inventory) []string {
	if i == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("%s %s%s", cmp.Or(i.Manufacturer, "?"), cmp.Or(i.Model, "?"), extentOf(i))}
	for _, d := range i.Drives {
		lines = append(lines, fmt.Sprintf("drive %s: %s, %d GB", cmp.Or(d.Name, d.ID), path.Join(d.Model, d.Serial), d.Bytes/1e9))
	}
	for _, n := range i.NICs {
		for _, p := range n.Ports {
			lines = append(lines, fmt.Sprintf("port %s of %s: %s", p.ID, cmp.Or(n.Name, n.ID), strings.Join(p.MACs, ", ")))
		}
	}
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ") // a comment ends with its line
	}
	return lines[:min(len(lines), 40)]
}

// extentOf returns the size of a machine, as far as its controller reports it.
func extentOf(i *site.Inventory) string {
	var parts []string
	if i.Processors > 0 {
		parts = append(parts, say.Count(i.Processors, "processor"))
	}
	if i.MemoryGiB > 0 {
		parts = append(parts, fmt.Sprintf("%g GiB of memory", i.MemoryGiB))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
