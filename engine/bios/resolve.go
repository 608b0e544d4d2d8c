package bios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings are the observed settings of one machine.
type Settings struct {
	*Terms
	// Have holds the attributes' values in canonical form, see Attribute.Canonical.
	// The value is unknown if the machine shows the attribute and it is missing here,
	// or is "?".
	Have map[string]string
	// Next holds the values that change with the next boot.
	Next map[string]string
	// Busy says that the BMC is changing settings on its own.
	Busy bool
}

// Unknown is the value of an attribute that was not read.
const Unknown = "?"

// Resolved is a design in a machine's terms.
type Resolved struct {
	// Want is the desired value of each attribute, From the field of the design that
	// asks for it.
	Want, From map[string]string
	// Unresolved says, by field of the design, why it has no meaning on this machine.
	Unresolved map[string]string
}

// attributeField begins the design's fields that name an attribute; all others are
// intents.
const attributeField = "attributes."

// Resolve translates what a design asks for, by its fields ("smt",
// "attributes.BootMode"), into the machine's terms. An attribute wins over an intent
// for the same setting.
func (s Settings) Resolve(asked map[string]string) Resolved {
	r := Resolved{Want: map[string]string{}, From: map[string]string{}, Unresolved: map[string]string{}}
	if s.None() {
		for field := range asked {
			r.Unresolved[field] = "the BMC shows no settings of the machine's firmware"
		}
		return r
	}
	intents, attributes := split(asked)
	for _, intent := range intents {
		o, err := s.intended(intent, asked[intent])
		if before, twice := r.Want[o.attribute]; err == nil && twice && before != o.value {
			err = fmt.Errorf("it is the machine's %s, which %s sets to %s", o.attribute, r.From[o.attribute], before)
		}
		r.add(intent, o, err)
	}
	for _, name := range attributes {
		o, err := s.designed(name, asked[attributeField+name])
		r.add(attributeField+name, o, err)
	}
	s.judge(&r)
	return r
}

// split separates the intents and the names of attributes that a design asks for, in
// order.
func split(asked map[string]string) (intents, attributes []string) {
	for _, field := range slices.Sorted(maps.Keys(asked)) {
		if name, ok := strings.CutPrefix(field, attributeField); ok {
			attributes = append(attributes, name)
		} else {
			intents = append(intents, field)
		}
	}
	return intents, attributes
}

func (r *Resolved) add(field string, o offer, err error) {
	if err != nil {
		r.Unresolved[field] = err.Error()
		return
	}
	r.Want[o.attribute], r.From[o.attribute] = o.value, field
}

// designed returns a designed attribute in the machine's terms.
func (s Settings) designed(name, value string) (offer, error) {
	found, err := s.named(name)
	switch {
	case err != nil:
		return offer{}, err
	case found == "":
		return offer{}, fmt.Errorf("the machine has no attribute of this name%s", s.near(name))
	}
	v, err := s.Registry.Attributes[found].accept(value)
	return offer{found, v}, err
}

// named returns the attribute that a design means by a name; empty for none.
func (t *Terms) named(name string) (string, error) {
	found, err := t.find([]string{name})
	if found == "" && err == nil {
		found, err = t.match(name+"*", t.shows)
	}
	return found, err
}

// near returns a hint at a name that may have been meant.
func (t *Terms) near(name string) string {
	best, like := "", 3
	for _, n := range t.names() {
		if strings.EqualFold(n, name) {
			return "; it has " + brief(n)
		}
		if l := alike(n, name); l > like {
			best, like = n, l
		}
	}
	if best == "" {
		return ""
	}
	return "; it has " + brief(best)
}

// alike returns how many letters two names have in common at the beginning.
func alike(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && strings.EqualFold(a[n:n+1], b[n:n+1]) {
		n++
	}
	return n
}

// judge moves unreachable values to Unresolved: those that the registry's rules lock,
// and those of missing attributes if no pending change could make them appear.
func (s Settings) judge(r *Resolved) {
	later := false
	var absent []string
	for _, name := range slices.Sorted(maps.Keys(r.Want)) {
		want, now := r.Want[name], s.now(name)
		if why := s.Locked(*r, name); why != "" && orText(s.Registry.Follows(name, s.now, s.becomes(*r)), now) != want {
			r.Unresolved[r.From[name]] = fmt.Sprintf("%s is %s and cannot be set to %s: %s", name, orText(now, "not shown"), want, why)
		}
		if now == want {
			continue
		}
		if s.shows(name) {
			later = true
		} else {
			absent = append(absent, name)
		}
	}
	if later || s.Busy || len(s.Next) > 0 {
		return // some settings appear when others have taken effect
	}
	for _, name := range absent {
		r.Unresolved[r.From[name]] = fmt.Sprintf("the machine does not show %s, which its registry has; another setting may have to be made first", name)
	}
}

// Locked says what prevents an attribute from being set together with all wanted
// values; empty if it can be set.
func (s Settings) Locked(r Resolved, name string) string {
	return s.Registry.LockedBy(name, s.becomes(r))
}

// becomes returns the values with everything wanted applied.
func (s Settings) becomes(r Resolved) func(string) string {
	return func(name string) string {
		if v, ok := r.Want[name]; ok {
			return v
		}
		return s.then(name)
	}
}

// now returns an attribute's value, empty when it is not shown or unknown.
func (s Settings) now(name string) string {
	if v := s.Have[name]; v != Unknown {
		return v
	}
	return ""
}

// then returns an attribute's value after the next boot.
func (s Settings) then(name string) string {
	if v, ok := s.Next[name]; ok {
		return v
	}
	return s.now(name)
}

// Unread reports whether the machine shows an attribute but its value is unknown.
func (s Settings) Unread(name string) bool {
	v, read := s.Have[name]
	return v == Unknown || !read && s.shows(name)
}

// Concern returns the attributes whose values affect what a design means, in order:
// those that it names, those of every intent, so that another design can be judged
// too, and those that their rules depend on.
func (t *Terms) Concern(asked map[string]string) []string {
	names := map[string]bool{}
	_, attributes := split(asked)
	for _, name := range attributes {
		if found, err := t.named(name); err == nil && found != "" {
			names[found] = true
		}
	}
	rows, _ := spellings(t.Makers)
	for _, all := range rows {
		for _, row := range all {
			if found, err := t.find(row.attributes); err == nil && found != "" {
				names[found] = true
			}
		}
	}
	for _, name := range slices.Collect(maps.Keys(names)) {
		for _, rule := range t.Registry.Rules[name] {
			for _, c := range rule.When {
				if t.shows(c.Attribute) {
					names[c.Attribute] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func orText(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

// brief shortens a text from a machine, which may have any length.
func brief(s string) string {
	if r := []rune(s); len(r) > 400 {
		return string(r[:400]) + "…"
	}
	return s
}
