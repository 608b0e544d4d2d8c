package bios

import "fmt"

// holds reports whether a rule applies with some values.
func (r Rule) holds(value func(string) string) bool {
	for _, c := range r.When {
		v := value(c.Attribute)
		if (v != "" && (v == c.Value) != c.Not) == r.Any {
			return r.Any
		}
	}
	return !r.Any
}

// LockedBy says what prevents an attribute from being set, given the future
// values; empty if it can be set. Rules override the registry's own flags,
// which describe only the moment and machine at which the registry was read.
func (r Registry) LockedBy(name string, value func(string) string) string {
	a := r.Attributes[name]
	fixed := map[string]bool{"ReadOnly": a.ReadOnly, "GrayOut": a.GrayOut}
	for _, rule := range r.Rules[name] {
		if rule.Property == "CurrentValue" {
			continue
		}
		if rule.Value == "true" && rule.holds(value) {
			c := rule.When[0]
			return fmt.Sprintf("%s is %s", c.Attribute, value(c.Attribute))
		}
		fixed[rule.Property] = false
	}
	if fixed["ReadOnly"] || fixed["GrayOut"] {
		return "it is read-only"
	}
	return ""
}

// forced returns the value that other attributes force on an attribute.
func (r Registry) forced(name string, value func(string) string) string {
	for _, rule := range r.Rules[name] {
		if rule.Property == "CurrentValue" && rule.holds(value) {
			return rule.Value
		}
	}
	return ""
}

// Follows returns the value that an attribute takes by itself when others
// change; empty if it does not.
func (r Registry) Follows(name string, now, then func(string) string) string {
	v := r.forced(name, then)
	if v == r.forced(name, now) || r.LockedBy(name, then) == "" {
		return ""
	}
	return v
}
