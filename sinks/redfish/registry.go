package redfish

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// registry is what an attribute registry (DSP0268, AttributeRegistry) says of
// the settings of a kind of machine. It is never changed.
type registry struct {
	sum        [sha256.Size]byte // of its entries as they were read
	attributes map[string]attribute
	rules      map[string][]rule // by the attribute that they are about
}

// attribute is one setting.
type attribute struct {
	kind              string // Enumeration, Integer, Boolean, String, Password; empty when it is not known
	readOnly, gray    bool
	choices           []choice
	lower, upper      int64
	step              int64
	shortest, longest int64
	pattern           string // not compiled: thousands of them would fill the memory
}

// choice is a value of an enumeration: its name in requests, and what people
// are shown.
type choice struct{ name, display string }

// rule is one dependency: what the value of other attributes makes of one.
type rule struct {
	property string // ReadOnly, GrayOut or CurrentValue
	value    string
	any      bool // one condition does, not only all
	when     []condition
}

type condition struct {
	attribute, is, value string
}

// The bounds of what a registry is read to. Real ones have 200 to 1,000
// attributes.
const (
	maxAttributes = 5000
	maxRules      = 20000
	maxChoices    = 256
	maxText       = 1024
)

// readRegistry takes a registry out of a resource. What is of a wrong kind in
// it costs that attribute or rule only.
func readRegistry(o object) (*registry, error) {
	entries := at[[]object](o, "RegistryEntries", "Attributes")
	if len(entries) == 0 {
		return nil, refused("the attribute registry has no attributes")
	}
	r := &registry{sum: sha256.Sum256(o["RegistryEntries"]), attributes: map[string]attribute{}, rules: map[string][]rule{}}
	for _, e := range entries[:min(len(entries), maxAttributes)] {
		if name := at[string](e, "AttributeName"); name != "" && len(name) <= maxText {
			r.attributes[name] = readAttribute(e)
		}
	}
	rules := at[[]object](o, "RegistryEntries", "Dependencies")
	for _, d := range rules[:min(len(rules), maxRules)] {
		if about, rule, ok := readRule(at[object](d, "Dependency")); ok {
			r.rules[about] = append(r.rules[about], rule)
		}
	}
	return r, nil
}

func readAttribute(e object) attribute {
	a := attribute{
		kind: at[string](e, "Type"), readOnly: flag(e, "ReadOnly", "Readonly", "Immutable"), gray: flag(e, "GrayOut"),
		lower: bound(e, "LowerBound"), upper: bound(e, "UpperBound"), step: bound(e, "ScalarIncrement"),
		shortest: bound(e, "MinLength"), longest: bound(e, "MaxLength"),
	}
	values := at[[]object](e, "Value")
	for _, v := range values[:min(len(values), maxChoices)] {
		a.choices = append(a.choices, choice{settingText(v["ValueName"]), settingText(v["ValueDisplayName"])})
	}
	if p := at[string](e, "ValueExpression"); len(p) <= maxText && a.kind == "String" {
		a.pattern = p
	}
	return a
}

// flag is a truth value under one of several spellings; Dell writes "Readonly".
func flag(o object, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return at[bool](o, n) })
}

// unbounded is a bound that is not there.
const unbounded = math.MinInt64

// bound is a bound. Where Dell has none it writes -1.
func bound(o object, name string) int64 {
	n, err := strconv.ParseInt(settingText(o[name]), 10, 64)
	if err != nil || n == -1 {
		return unbounded
	}
	return n
}

// readRule takes one dependency; ok when it says something that can be judged.
func readRule(d object) (about string, r rule, ok bool) {
	r = rule{property: at[string](d, "MapToProperty"), value: settingText(d["MapToValue"])}
	about = at[string](d, "MapToAttribute")
	terms, equal, same := "", true, true
	from := at[[]object](d, "MapFrom")
	for _, f := range from[:min(len(from), maxChoices)] {
		c := condition{at[string](f, "MapFromAttribute"), at[string](f, "MapFromCondition"), settingText(f["MapFromValue"])}
		if at[string](f, "MapFromProperty") != "CurrentValue" || c.is != "EQU" && c.is != "NEQ" {
			return "", rule{}, false
		}
		r.when = append(r.when, c)
		terms += at[string](f, "MapTerms")
		equal = equal && c.is == "EQU"
		same = same && c.attribute == r.when[0].attribute
	}
	// Dell leaves MapTerms out. Several values of one attribute cannot all hold.
	r.any = strings.Contains(terms, "OR") || terms == "" && equal && same
	ok = about != "" && len(r.when) > 0 && slices.Contains([]string{"ReadOnly", "GrayOut", "CurrentValue"}, r.property)
	return about, r, ok
}

// holds says whether a rule comes into force with some values.
func (r rule) holds(value func(string) string) bool {
	for _, c := range r.when {
		v := value(c.attribute)
		if (v != "" && (v == c.value) == (c.is == "EQU")) == r.any {
			return r.any
		}
	}
	return !r.any
}

// lockedBy says what keeps an attribute from being set, with the values that
// there will be; empty when it can be set. What a rule speaks of is not taken
// from the registry's own flags: those are of the moment and the machine at
// which it was read.
func (r *registry) lockedBy(name string, value func(string) string) string {
	a := r.attributes[name]
	fixed := map[string]bool{"ReadOnly": a.readOnly, "GrayOut": a.gray}
	for _, rule := range r.rules[name] {
		if rule.property == "CurrentValue" {
			continue
		}
		if rule.value == "true" && rule.holds(value) {
			c := rule.when[0]
			return fmt.Sprintf("%s is %s", c.attribute, value(c.attribute))
		}
		fixed[rule.property] = false
	}
	if fixed["ReadOnly"] || fixed["GrayOut"] {
		return "it is read-only"
	}
	return ""
}

// forced is the value that others give to an attribute.
func (r *registry) forced(name string, value func(string) string) string {
	for _, rule := range r.rules[name] {
		if rule.property == "CurrentValue" && rule.holds(value) {
			return rule.value
		}
	}
	return ""
}

// follows is the value that an attribute takes by itself when others change from
// what they are; empty when it does not.
func (r *registry) follows(name string, now, then func(string) string) string {
	v := r.forced(name, then)
	if v == r.forced(name, now) || r.lockedBy(name, then) == "" {
		return ""
	}
	return v
}

// accept gives a designed value in canonical form, or says what is wrong with
// it.
func (a attribute) accept(v string) (string, error) {
	switch a.kind {
	case "Enumeration":
		return a.choose(v)
	case "Integer":
		return a.count(v)
	case "Boolean":
		if v != "true" && v != "false" {
			return "", fmt.Errorf("%q is neither true nor false", v)
		}
	case "String":
		return v, a.measure(v)
	case "Password":
		return "", fmt.Errorf("it is a password, which does not belong into Git and cannot be read back; set it by hand")
	}
	return v, nil
}

func (a attribute) choose(v string) (string, error) {
	if c := a.choice(v); c != "" || len(a.choices) == 0 {
		return orText(c, v), nil
	}
	names := make([]string, 0, 12)
	for _, c := range a.choices[:min(len(a.choices), 12)] {
		names = append(names, c.name)
	}
	return "", fmt.Errorf("%q is not one of its values: %s", v, printable(strings.Join(names, ", ")))
}

// choice is the name of a value by its name or by what people are shown; empty
// for no such value.
func (a attribute) choice(v string) string {
	for _, by := range []func(choice) string{func(c choice) string { return c.name }, func(c choice) string { return c.display }} {
		for _, c := range a.choices {
			if by(c) == v {
				return c.name
			}
		}
	}
	return ""
}

func orText(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

func (a attribute) count(v string) (string, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is not a whole number", v)
	case a.lower != unbounded && n < a.lower, a.upper != unbounded && n > a.upper:
		return "", fmt.Errorf("%d is not within %s", n, a.bounds())
	case a.step > 1 && a.lower != unbounded && (n-a.lower)%a.step != 0:
		return "", fmt.Errorf("%d is not %d and a multiple of %d more", n, a.lower, a.step)
	}
	return strconv.FormatInt(n, 10), nil
}

func (a attribute) bounds() string {
	switch {
	case a.upper == unbounded:
		return fmt.Sprintf("%d or more", a.lower)
	case a.lower == unbounded:
		return fmt.Sprintf("%d or less", a.upper)
	}
	return fmt.Sprintf("%d to %d", a.lower, a.upper)
}

func (a attribute) measure(v string) error {
	n := int64(len(v))
	switch {
	case a.shortest != unbounded && n < a.shortest && n > 0, a.longest > 0 && n > a.longest:
		return fmt.Errorf("it has %d letters, and may have %d to %d", n, max(a.shortest, 0), a.longest)
	case !matches(a.pattern, v):
		return fmt.Errorf("it does not match %s", printable(a.pattern))
	}
	return nil
}

// matches says whether a text is as a pattern has it. Vendors write patterns in
// several dialects; one that is not Go's says nothing.
func matches(pattern, text string) bool {
	p, err := regexp.Compile(pattern)
	return err != nil || p.MatchString(text)
}

// canonical is a value that the machine shows, by its name even where the
// machine shows what people are shown.
func (a attribute) canonical(shown string) string {
	if a.kind == "Enumeration" {
		return orText(a.choice(shown), shown)
	}
	return shown
}

// wire is a canonical value in the type that the registry has for it. Where it
// has none, and for enumerations by number (Intel), it is that of what is there.
func (a attribute) wire(v string, now json.RawMessage) any {
	kind := a.kind
	if shown := kindOf(now); kind == "" || kind == "Enumeration" && shown != "" {
		kind = shown
	}
	switch kind {
	case "Integer":
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	case "Boolean":
		if b, err := strconv.ParseBool(v); err == nil {
			return b
		}
	}
	if a.kind == "Enumeration" {
		return a.inWordsOf(settingText(now), v)
	}
	return v
}

// inWordsOf is a value in the words in which the machine shows the one that it has:
// the names of values or, as AMI's firmware on Supermicro boards does, what people
// are shown of them. It takes the same words that it shows.
func (a attribute) inWordsOf(shown, name string) string {
	if slices.ContainsFunc(a.choices, func(c choice) bool { return c.name == shown }) ||
		!slices.ContainsFunc(a.choices, func(c choice) bool { return c.display == shown }) {
		return name
	}
	for _, c := range a.choices {
		if c.name == name {
			return orText(c.display, name)
		}
	}
	return name
}

// kindOf is the type of a value as it stands there; empty for none.
func kindOf(raw json.RawMessage) string {
	var v any
	_ = json.Unmarshal(raw, &v) // nothing of it is as good as null
	switch v.(type) {
	case string:
		return "String"
	case float64:
		return "Integer"
	case bool:
		return "Boolean"
	}
	return ""
}

// settingText is the canonical form of a value; empty for null and for what is
// no single value.
func settingText(raw json.RawMessage) string {
	if kindOf(raw) == "" {
		return ""
	}
	var v any
	_ = json.Unmarshal(raw, &v)
	text := site.SettingText(v)
	return text[:min(len(text), maxText)]
}

// registries are those of all machines of a driver, by kind of machine: they
// are up to megabytes in transfer, and alike on machines of one kind.
type registries struct {
	mu    sync.Mutex
	known map[string]*shelf
	clock int
}

// shelf is the place of one registry.
type shelf struct {
	reading chan struct{} // closed when nobody reads it any more
	found   *registry
	used    int
}

const (
	// maxRegistries is how many kinds of machines there are registries of.
	maxRegistries = 64
	// patience is how long one machine waits for another's answer.
	patience = 5 * time.Second
)

// of gives the registry of a kind, and has one machine at a time read it. None
// waits for long: another's BMC may be slow, or dead.
func (r *registries) of(ctx context.Context, kind string, read func() (*registry, error)) (*registry, error) {
	s, first := r.shelf(kind)
	if !first {
		wait, stop := context.WithTimeout(ctx, patience)
		defer stop()
		select {
		case <-s.reading:
		case <-wait.Done():
		}
		if found := r.found(s); found != nil {
			return found, nil
		}
		return read()
	}
	defer close(s.reading)
	found, err := read()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.found = found; found == nil {
		delete(r.known, kind)
	}
	return found, err
}

func (r *registries) found(s *shelf) *registry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.found
}

// shelf is the place for a kind; first when it is empty and the caller's to fill.
func (r *registries) shelf(kind string) (s *shelf, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	if s := r.known[kind]; s != nil {
		s.used = r.clock
		return s, false
	}
	if r.known == nil {
		r.known = map[string]*shelf{}
	}
	if len(r.known) >= maxRegistries {
		delete(r.known, r.oldest())
	}
	s = &shelf{reading: make(chan struct{}), used: r.clock}
	r.known[kind] = s
	return s, true
}

func (r *registries) oldest() string {
	oldest := ""
	for kind, s := range r.known {
		if oldest == "" || s.used < r.known[oldest].used {
			oldest = kind
		}
	}
	return oldest
}

// fetchRegistry reads the registry of a name from a machine: nil without an
// error when the machine has none.
func (c *line) fetchRegistry(ctx context.Context, name string) (*registry, error) {
	const collection = "/redfish/v1/Registries"
	files, err := c.listed(ctx, collection)
	if err != nil {
		return nil, err
	}
	file := registryFile(files, name)
	if file == "" {
		return nil, nil
	}
	about, err := c.get(ctx, file)
	if err != nil {
		return nil, err
	}
	where := location(about)
	if where == "" {
		return nil, nil
	}
	o, err := c.get(ctx, where)
	if err != nil {
		return nil, err
	}
	return readRegistry(o)
}

// registryFile is the one of some registry files that is for a name. iDRAC9
// names version v1_0_3 where the file is v1_0_0's; the name before the version
// then decides.
func registryFile(files []string, name string) string {
	name = orText(name, "BiosAttributeRegistry.")
	family, _, _ := strings.Cut(strings.ToLower(name), ".")
	near := ""
	for _, f := range files {
		of := strings.ToLower(path.Base(strings.TrimRight(f, "/")))
		if of == strings.ToLower(name) {
			return f
		}
		if before, _, _ := strings.Cut(of, "."); before == family {
			near = f
		}
	}
	return near
}

// location is where a registry file is, in English where there is a choice.
func location(about object) string {
	found := ""
	for _, l := range at[[]object](about, "Location") {
		uri := at[string](l, "Uri")
		if uri != "" && (found == "" || strings.HasPrefix(at[string](l, "Language"), "en")) {
			found = uri
		}
	}
	return found
}
