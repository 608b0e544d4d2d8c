// Package bios translates what a design asks of a machine's firmware settings into
// that machine's terms. It is pure: the same design and the same observations give
// the same result, whether the design is in force, proposed, or about to be applied.
package bios

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Terms are a machine's names for its firmware settings: those that it shows, and the
// content of its attribute registry (DSP0268, AttributeRegistry). They never change.
// Machines of one kind share them.
type Terms struct {
	// Makers are the makers of the BMC and, last, of the machine.
	Makers []string
	// Shown are the names of the attributes that the machine shows, in order. A
	// machine without any has no accessible settings.
	Shown []string
	// Registry is empty for a machine without one.
	Registry Registry
}

// Registry is the content of a machine's attribute registry.
type Registry struct {
	// Sum identifies it by its content.
	Sum        string               `json:"sum,omitempty"`
	Attributes map[string]Attribute `json:"attributes,omitempty"`
	Rules      map[string][]Rule    `json:"rules,omitempty"` // by the attribute that they are about
}

// Attribute is one setting.
type Attribute struct {
	Type     string   `json:"type,omitempty"` // Enumeration, Integer, Boolean, String, Password; empty if unknown
	ReadOnly bool     `json:"readOnly,omitempty"`
	GrayOut  bool     `json:"grayOut,omitempty"`
	Choices  []Choice `json:"choices,omitempty"`
	// Lower and Upper are nil if there is no limit.
	Lower   *int64 `json:"lower,omitempty"`
	Upper   *int64 `json:"upper,omitempty"`
	Step    int64  `json:"step,omitempty"`
	Least   int64  `json:"least,omitempty"` // in characters
	Most    int64  `json:"most,omitempty"`
	Pattern string `json:"pattern,omitempty"` // not compiled: thousands of them would fill the memory
}

// Choice is a value of an enumeration: its name in requests, and its display text.
type Choice struct {
	Name    string `json:"name"`
	Display string `json:"display,omitempty"`
}

// Rule is one dependency: how the values of other attributes affect one.
type Rule struct {
	Property string      `json:"property"` // ReadOnly, GrayOut or CurrentValue
	Value    string      `json:"value,omitempty"`
	Any      bool        `json:"any,omitempty"` // one condition is enough; else all must hold
	When     []Condition `json:"when"`
}

// Condition requires that an attribute has a value, or another one.
type Condition struct {
	Attribute string `json:"attribute"`
	Not       bool   `json:"not,omitempty"`
	Value     string `json:"value,omitempty"`
}

// Digest identifies terms by their content.
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

// shows reports whether the machine shows an attribute.
func (t *Terms) shows(name string) bool {
	_, found := slices.BinarySearch(t.Shown, name)
	return found
}

// registers reports whether the registry has an attribute.
func (t *Terms) registers(name string) bool { _, ok := t.Registry.Attributes[name]; return ok }

// names lists all attributes, in order.
func (t *Terms) names() []string {
	all := slices.AppendSeq(slices.Clone(t.Shown), maps.Keys(t.Registry.Attributes))
	slices.Sort(all)
	return slices.Compact(all)
}

// maker returns the maker of the machine, for people.
func (t *Terms) maker() string {
	if len(t.Makers) == 0 {
		return ""
	}
	return brief(t.Makers[len(t.Makers)-1])
}

// None reports whether the machine shows no settings and has none in a registry.
func (t *Terms) None() bool { return len(t.Shown) == 0 && len(t.Registry.Attributes) == 0 }
