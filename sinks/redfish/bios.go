package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	// biosByJob: settings take effect by a job in a queue, and are shown as
	// current before they are.
	biosByJob quirk = "bios-by-config-job"
	// noApplyTime: an apply time for settings is offered and refused.
	noApplyTime quirk = "bios-apply-time-refused"
)

// biosMemory is what a handle keeps of a machine's firmware between two looks.
type biosMemory struct {
	// own is the machine's own registry, where it differs from that of its kind;
	// checked is the kind with which it was compared.
	own     *registry
	checked string
	// sent are settings that a machine accepted which does not show what waits
	// for a boot.
	sent site.Values
	// queue is where the jobs are, once it is known.
	queue string
	// plain: this machine refused an apply time.
	plain bool
}

// firmware is the settings of a machine's firmware (DSP0268, Bios) as they were
// just read.
type firmware struct {
	maker    makers // of the machine; its firmware is the BIOS version
	registry *registry
	name     string // of the registry

	path     string // empty when the BMC shows no settings
	resource object
	current  map[string]json.RawMessage
	// settings is where changes are put, as the machine says: "/Settings",
	// "/Pending", "/SD"; the resource itself where it says nothing.
	settings string
	waiting  object // the resource there, when it was read
	times    []string
	jobs     []job // that change settings and have not ended
	sent     site.Values
}

// bios reads the settings, and what waits for a boot: two requests, and a third
// while a job is in the queue.
func (m *machine) bios(ctx context.Context, s system) (firmware, error) {
	f := firmware{maker: m.maker(s), path: link(s.object, "Bios"), registry: &registry{}, sent: m.memory.sent}
	if f.path == "" {
		return f, nil
	}
	o, err := m.client.get(ctx, f.path)
	if err != nil {
		return f, err
	}
	f.resource = o
	f.name, f.current = at[string](o, "AttributeRegistry"), attributesOf(o)
	f.settings = orText(link(o, "@Redfish.Settings", "SettingsObject"), f.path)
	f.times = at[[]string](o, "@Redfish.Settings", "SupportedApplyTimes")
	if m.has(biosByJob) {
		if f.jobs, err = m.biosJobs(ctx, s); err != nil || len(f.jobs) == 0 {
			return f, err // without a job nothing takes effect
		}
	}
	return f, m.readWaiting(ctx, &f)
}

// readWaiting reads what waits for a boot.
func (m *machine) readWaiting(ctx context.Context, f *firmware) error {
	if f.settings == f.path {
		return nil
	}
	o, err := m.client.get(ctx, f.settings)
	if hasStatus(err, http.StatusNotFound) {
		return nil // AMI has one only while something waits
	}
	f.waiting = o
	return err
}

func (m *machine) maker(s system) makers {
	m.habits.mu.Lock()
	defer m.habits.mu.Unlock()
	of := m.habits.of
	of.firmware = words(s.object, "BiosVersion")
	return of
}

// attributesOf are the attributes of a resource.
func attributesOf(o object) map[string]json.RawMessage {
	all := at[map[string]json.RawMessage](o, "Attributes")
	if len(all) > maxAttributes {
		return nil
	}
	return all
}

// now is an attribute's value in canonical form, empty for none.
func (f firmware) now(name string) string {
	return f.registered(name).canonical(settingText(f.current[name]))
}

// next is what an attribute becomes with the next boot; ok when that differs
// from what is, or when what is is not known before.
func (f firmware) next(name string) (value string, ok bool) {
	raw, there := attributesOf(f.waiting)[name]
	value = f.registered(name).canonical(settingText(raw))
	if v, sent := f.sent[name]; !there && sent {
		value, there = v, true
	}
	return value, there && (len(f.jobs) > 0 || value != f.now(name))
}

// shows says whether the machine has an attribute now.
func (f firmware) shows(name string) bool { _, ok := f.current[name]; return ok }

// registers says whether the registry has it.
func (f firmware) registers(name string) bool { _, ok := f.registry.attributes[name]; return ok }

func (f firmware) registered(name string) attribute { return f.registry.attributes[name] }

// names are all attributes that there are.
func (f firmware) names() []string {
	all := map[string]bool{}
	for n := range f.current {
		all[n] = true
	}
	for n := range f.registry.attributes {
		all[n] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// resolvedDesign is a design in a machine's own terms.
type resolvedDesign struct {
	want, from site.Values
	// unresolved says why parts of the design mean nothing here.
	unresolved site.Values
}

// resolved puts a design into the machine's terms. An attribute wins over an
// intent for the same setting.
func (f firmware) resolved(b site.BIOS) resolvedDesign {
	r := resolvedDesign{want: site.Values{}, from: site.Values{}, unresolved: site.Values{}}
	if f.path == "" {
		n := site.Node{BIOS: b}
		for field := range n.Want(site.FacetBIOS) {
			r.unresolved[field] = "the BMC shows no settings of the machine's firmware"
		}
		return r
	}
	intents := b.Intents()
	for _, intent := range slices.Sorted(maps.Keys(intents)) {
		o, err := f.resolve(intent, intents[intent])
		if before, twice := r.want[o.attribute]; err == nil && twice && before != o.value {
			err = fmt.Errorf("it is the machine's %s, which %s sets to %s", o.attribute, r.from[o.attribute], before)
		}
		r.add(intent, o, err)
	}
	for name, v := range b.Attributes {
		o, err := f.designed(name, site.SettingText(v))
		r.add(site.AttributeField(name), o, err)
	}
	f.judge(&r)
	return r
}

func (r *resolvedDesign) add(field string, o offer, err error) {
	if err != nil {
		r.unresolved[field] = err.Error()
		return
	}
	r.want[o.attribute], r.from[o.attribute] = o.value, field
}

// designed is an attribute of the design as the machine has it.
func (f firmware) designed(name, value string) (offer, error) {
	found, err := f.find([]string{name})
	if found == "" && err == nil {
		found, err = f.match(name+"*", f.shows)
	}
	switch {
	case err != nil:
		return offer{}, err
	case found == "":
		return offer{}, fmt.Errorf("the machine has no attribute of this name%s", f.near(name))
	}
	v, err := f.registered(found).accept(value)
	return offer{found, v}, err
}

// near is a hint at a name that may have been meant.
func (f firmware) near(name string) string {
	best, like := "", 3
	for _, n := range f.names() {
		if strings.EqualFold(n, name) {
			return "; it has " + n
		}
		if l := alike(n, name); l > like {
			best, like = n, l
		}
	}
	if best == "" {
		return ""
	}
	return "; it has " + printable(best)
}

// alike is how many letters two names begin with in common.
func alike(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && strings.EqualFold(a[n:n+1], b[n:n+1]) {
		n++
	}
	return n
}

// judge takes out what cannot become so: what the registry's rules keep from
// being set, and what is not there although nothing is left that could bring it.
func (f firmware) judge(r *resolvedDesign) {
	later := false
	var absent []string
	for _, name := range slices.Sorted(maps.Keys(r.want)) {
		want := r.want[name]
		if why := f.registry.lockedBy(name, r.becomes(f)); why != "" && orText(f.registry.follows(name, f.now, r.becomes(f)), f.now(name)) != want {
			r.unresolved[r.from[name]] = fmt.Sprintf("%s is %s and cannot be set to %s: %s", name, orText(f.now(name), "not shown"), want, why)
		}
		if f.now(name) == want {
			continue
		}
		if f.shows(name) {
			later = true
		} else {
			absent = append(absent, name)
		}
	}
	if later || len(f.jobs) > 0 {
		return // some settings appear when others have taken effect
	}
	for _, name := range absent {
		r.unresolved[r.from[name]] = fmt.Sprintf("the machine does not show %s, which its registry has; another setting may have to be made first", name)
	}
}

// becomes gives the values that there will be with all that is wanted.
func (r resolvedDesign) becomes(f firmware) func(string) string {
	return func(name string) string {
		if v, ok := r.want[name]; ok {
			return v
		}
		return f.then(name)
	}
}

// then is what an attribute is after the next boot.
func (f firmware) then(name string) string {
	if v, ok := f.next(name); ok {
		return v
	}
	return f.now(name)
}

// missing are the attributes that neither are as wanted nor become so with the
// next boot, and that can be set: not those that follow others.
func (f firmware) missing(r resolvedDesign) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.want)) {
		if f.then(name) != r.want[name] && f.shows(name) && f.registry.lockedBy(name, r.becomes(f)) == "" {
			names = append(names, name)
		}
	}
	return names
}

// state is what the engine is told. A value that a job is about to change may
// be shown as if it were changed; then it is not known.
func (f firmware) state(r resolvedDesign) site.FacetState {
	st := site.FacetState{Have: site.Values{}, Want: r.want, From: r.from, Unresolved: r.unresolved, Offers: f.offers(), Busy: f.busy()}
	names := maps.Clone(r.want)
	for _, o := range st.Offers {
		maps.Copy(names, o)
	}
	for name := range names {
		st.Have[name] = f.now(name)
		next, ok := f.next(name)
		if !ok {
			next = f.registry.follows(name, f.now, f.then)
		}
		if next == "" && !ok {
			continue
		}
		if st.Pending == nil {
			st.Pending = site.Values{}
		}
		if st.Pending[name] = next; next == st.Have[name] {
			st.Have[name] = "?"
		}
	}
	return st
}

// busy says what the BMC is doing with the settings by itself.
func (f firmware) busy() string {
	for _, j := range f.jobs {
		switch {
		case j.running():
			return fmt.Sprintf("the BMC's job %s is changing settings", j.id())
		case len(attributesOf(f.waiting)) == 0:
			return fmt.Sprintf("the BMC's job %s is %s and does not say which settings it changes", j.id(), j.shown())
		}
	}
	return ""
}

// biosFacet shows the settings that the design speaks of.
func (m *machine) biosFacet(ctx context.Context, s system, n *site.Node) (site.FacetState, bool, error) {
	f, r, err := m.resolveBIOS(ctx, s, n)
	if err != nil {
		return site.FacetState{}, false, err
	}
	return f.state(r), true, nil
}

// resolveBIOS reads the settings and puts the design into their terms. What the
// registry of the kind does not resolve is tried with the machine's own, once:
// another BMC's garbled answer, or names with a MAC address in them, must not
// stop this one.
func (m *machine) resolveBIOS(ctx context.Context, s system, n *site.Node) (firmware, resolvedDesign, error) {
	f, err := m.bios(ctx, s)
	if err != nil || f.path == "" {
		return f, f.resolved(n.BIOS), err
	}
	kind := strings.Join([]string{f.maker.manufacturer, f.maker.model, f.maker.firmware, f.name}, "\x00")
	if m.memory.checked != kind {
		m.memory.own, m.memory.checked = nil, ""
	}
	if f.registry = m.memory.own; f.registry == nil {
		f.registry, err = m.registries.of(ctx, kind, func() (*registry, error) { return m.readRegistry(ctx, f.name) })
	}
	if err != nil {
		return f, resolvedDesign{}, err
	}
	r := f.resolved(n.BIOS)
	if len(r.unresolved) == 0 || m.memory.checked == kind {
		return f, r, nil
	}
	own, err := m.readRegistry(ctx, f.name)
	if err != nil {
		return f, r, err
	}
	if m.memory.checked = kind; own.sum == f.registry.sum {
		return f, r, nil
	}
	m.memory.own, f.registry = own, own
	return f, f.resolved(n.BIOS), nil
}

// readRegistry reads the machine's registry; an empty one stands for none, and
// for one that makes no sense.
func (m *machine) readRegistry(ctx context.Context, name string) (*registry, error) {
	r, err := m.client.fetchRegistry(ctx, name)
	if errors.Is(err, driver.ErrRefused) || errors.Is(err, errors.ErrUnsupported) || err == nil && r == nil {
		return &registry{}, nil
	}
	return r, err
}
