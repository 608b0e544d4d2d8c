package redfish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/site"
)

// registry is what was read of an attribute registry. It is never changed.
type registry struct{ bios.Registry }

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
	sum := sha256.Sum256(o["RegistryEntries"])
	r := &registry{bios.Registry{Sum: hex.EncodeToString(sum[:]), Attributes: map[string]bios.Attribute{}, Rules: map[string][]bios.Rule{}}}
	for _, e := range entries[:min(len(entries), maxAttributes)] {
		if name := at[string](e, "AttributeName"); name != "" && len(name) <= maxText {
			r.Attributes[name] = readAttribute(e)
		}
	}
	rules := at[[]object](o, "RegistryEntries", "Dependencies")
	for _, d := range rules[:min(len(rules), maxRules)] {
		if about, rule, ok := readRule(at[object](d, "Dependency")); ok {
			r.Rules[about] = append(r.Rules[about], rule)
		}
	}
	return r, nil
}

func readAttribute(e object) bios.Attribute {
	a := bios.Attribute{
		Type: at[string](e, "Type"), ReadOnly: flag(e, "ReadOnly", "Readonly", "Immutable"), GrayOut: flag(e, "GrayOut"),
		Lower: bound(e, "LowerBound"), Upper: bound(e, "UpperBound"), Step: above0(e, "ScalarIncrement"),
		Least: above0(e, "MinLength"), Most: above0(e, "MaxLength"),
	}
	values := at[[]object](e, "Value")
	for _, v := range values[:min(len(values), maxChoices)] {
		a.Choices = append(a.Choices, bios.Choice{Name: settingText(v["ValueName"]), Display: settingText(v["ValueDisplayName"])})
	}
	if p := at[string](e, "ValueExpression"); len(p) <= maxText && a.Type == "String" {
		a.Pattern = p
	}
	return a
}

// flag is a truth value under one of several spellings; Dell writes "Readonly".
func flag(o object, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return at[bool](o, n) })
}

// bound is a bound, nil for none. Where Dell has none it writes -1.
func bound(o object, name string) *int64 {
	n, err := strconv.ParseInt(settingText(o[name]), 10, 64)
	if err != nil || n == -1 {
		return nil
	}
	return &n
}

// above0 is a number above 0; 0 for none.
func above0(o object, name string) int64 {
	if n := bound(o, name); n != nil {
		return max(*n, 0)
	}
	return 0
}

// readRule takes one dependency; ok when it says something that can be judged.
func readRule(d object) (about string, r bios.Rule, ok bool) {
	r = bios.Rule{Property: at[string](d, "MapToProperty"), Value: settingText(d["MapToValue"])}
	about = at[string](d, "MapToAttribute")
	terms, equal, same := "", true, true
	from := at[[]object](d, "MapFrom")
	for _, f := range from[:min(len(from), maxChoices)] {
		is := at[string](f, "MapFromCondition")
		c := bios.Condition{Attribute: at[string](f, "MapFromAttribute"), Not: is == "NEQ", Value: settingText(f["MapFromValue"])}
		if at[string](f, "MapFromProperty") != "CurrentValue" || is != "EQU" && is != "NEQ" {
			return "", bios.Rule{}, false
		}
		r.When = append(r.When, c)
		terms += at[string](f, "MapTerms")
		equal = equal && !c.Not
		same = same && c.Attribute == r.When[0].Attribute
	}
	// Dell leaves MapTerms out. Several values of one attribute cannot all hold.
	r.Any = strings.Contains(terms, "OR") || terms == "" && equal && same
	ok = about != "" && len(r.When) > 0 && slices.Contains([]string{"ReadOnly", "GrayOut", "CurrentValue"}, r.Property)
	return about, r, ok
}

func orText(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

// inType is a canonical value in the type that the registry has for it. Where it
// has none, and for enumerations by number (Intel), it is that of what is there.
func inType(a bios.Attribute, v string, now json.RawMessage) any {
	kind := a.Type
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
	if a.Type == "Enumeration" {
		return inWordsOf(a, settingText(now), v)
	}
	return v
}

// inWordsOf is a value in the words in which the machine shows the one that it has:
// the names of values or, as AMI's firmware on Supermicro boards does, what people
// are shown of them. It takes the same words that it shows.
func inWordsOf(a bios.Attribute, shown, name string) string {
	if slices.ContainsFunc(a.Choices, func(c bios.Choice) bool { return c.Name == shown }) ||
		!slices.ContainsFunc(a.Choices, func(c bios.Choice) bool { return c.Display == shown }) {
		return name
	}
	for _, c := range a.Choices {
		if c.Name == name {
			return orText(c.Display, name)
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
	terms map[string]*bios.Terms // by digest
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

// same is the one copy of terms that machines of one kind share.
func (r *registries) same(t *bios.Terms) *bios.Terms {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := t.Digest()
	if one := r.terms[digest]; one != nil {
		return one
	}
	if len(r.terms) >= maxRegistries || r.terms == nil {
		r.terms = map[string]*bios.Terms{}
	}
	r.terms[digest] = t
	return t
}

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
