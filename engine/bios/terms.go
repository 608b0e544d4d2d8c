// Package bios puts what a design asks of the settings of a machine's firmware into
// the words of that machine. It is pure: the same design on a machine of which the
// same was seen means the same, whether it is in force, proposed, or about to be
// applied.
package bios

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Terms are what a machine calls the settings of its firmware: those that it shows,
// and what its attribute registry (DSP0268, AttributeRegistry) says of them. They are
// never changed. Machines of one kind have the same.
type Terms struct {
	// Makers are the names of who made the BMC and, last, the machine.
	Makers []string
	// Shown are the names of the attributes that the machine shows, in order. A
	// machine without any has no settings that can be reached.
	Shown []string
	// Registry is empty for a machine that has none.
	Registry Registry
}

// Registry is what a machine's attribute registry says.
type Registry struct {
	// Sum names it by what was read.
	Sum        string               `json:"sum,omitempty"`
	Attributes map[string]Attribute `json:"attributes,omitempty"`
	Rules      map[string][]Rule    `json:"rules,omitempty"` // by the attribute that they are about
}

// Attribute is one setting.
type Attribute struct {
	Type     string   `json:"type,omitempty"` // Enumeration, Integer, Boolean, String, Password; empty when it is not known
	ReadOnly bool     `json:"readOnly,omitempty"`
	GrayOut  bool     `json:"grayOut,omitempty"`
	Choices  []Choice `json:"choices,omitempty"`
	// Lower and Upper are nil where there is no bound.
	Lower   *int64 `json:"lower,omitempty"`
	Upper   *int64 `json:"upper,omitempty"`
	Step    int64  `json:"step,omitempty"`
	Least   int64  `json:"least,omitempty"` // letters
	Most    int64  `json:"most,omitempty"`
	Pattern string `json:"pattern,omitempty"` // not compiled: thousands of them would fill the memory
}

// Choice is a value of an enumeration: its name in requests, and what people are
// shown.
type Choice struct {
	Name    string `json:"name"`
	Display string `json:"display,omitempty"`
}

// Rule is one dependency: what the values of other attributes make of one.
type Rule struct {
	Property string      `json:"property"` // ReadOnly, GrayOut or CurrentValue
	Value    string      `json:"value,omitempty"`
	Any      bool        `json:"any,omitempty"` // one condition does, not only all
	When     []Condition `json:"when"`
}

// Condition is that an attribute has a value, or that it has another one.
type Condition struct {
	Attribute string `json:"attribute"`
	Not       bool   `json:"not,omitempty"`
	Value     string `json:"value,omitempty"`
}

// Digest names terms by their content.
func (t *Terms) Digest() string {
	h := sha256.New()
	for _, names := range [][]string{t.Makers, t.Shown, {t.Registry.Sum}} {
		for _, name := range names {
			fmt.Fprintf(h, "%d:%s", len(name), name)
		}
		fmt.Fprint(h, ";")
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// shows says whether the machine shows an attribute.
func (t *Terms) shows(name string) bool {
	_, found := slices.BinarySearch(t.Shown, name)
	return found
}

// registers says whether the registry has it.
func (t *Terms) registers(name string) bool { _, ok := t.Registry.Attributes[name]; return ok }

// names are all attributes that there are, in order.
func (t *Terms) names() []string {
	all := slices.AppendSeq(slices.Clone(t.Shown), maps.Keys(t.Registry.Attributes))
	slices.Sort(all)
	return slices.Compact(all)
}

// maker is who made the machine, for people.
func (t *Terms) maker() string {
	if len(t.Makers) == 0 {
		return ""
	}
	return brief(t.Makers[len(t.Makers)-1])
}

// None says whether the machine shows no settings and has no registry of any.
func (t *Terms) None() bool { return len(t.Shown) == 0 && len(t.Registry.Attributes) == 0 }
