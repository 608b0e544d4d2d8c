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

	"github.com/slipway-gitops/slipway/engine/bios"
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
	return f.registered(name).Canonical(settingText(f.current[name]))
}

// next is what an attribute becomes with the next boot; ok when that differs
// from what is, or when what is is not known before.
func (f firmware) next(name string) (value string, ok bool) {
	raw, there := attributesOf(f.waiting)[name]
	value = f.registered(name).Canonical(settingText(raw))
	if v, sent := f.sent[name]; !there && sent {
		value, there = v, true
	}
	return value, there && (len(f.jobs) > 0 || value != f.now(name))
}

// shows says whether the machine has an attribute now.
func (f firmware) shows(name string) bool { _, ok := f.current[name]; return ok }

func (f firmware) registered(name string) bios.Attribute { return f.registry.Attributes[name] }

// terms are what the machine calls its settings.
func (f firmware) terms() *bios.Terms {
	return &bios.Terms{Makers: []string{f.maker.root, f.maker.manufacturer}, Shown: slices.Sorted(maps.Keys(f.current)), Registry: f.registry.Registry}
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
func (f firmware) missing(r bios.Resolved) []string {
	becomes := func(name string) string {
		if v, ok := r.Want[name]; ok {
			return v
		}
		return f.then(name)
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.Want)) {
		if f.then(name) != r.Want[name] && f.shows(name) && f.registry.LockedBy(name, becomes) == "" {
			names = append(names, name)
		}
	}
	return names
}

// state is what the engine is told: the settings that have a say in what the design
// means. A value that a job is about to change may be shown as if it were changed;
// then it is not known.
func (f firmware) state(t *bios.Terms, asked site.Values) site.FacetState {
	st := site.FacetState{Have: site.Values{}, Terms: t.Digest(), Words: t, Busy: f.busy()}
	for _, name := range t.Concern(asked) {
		st.Have[name] = f.now(name)
		next, ok := f.next(name)
		if !ok {
			next = f.registry.Follows(name, f.now, f.then)
		}
		if next == "" && !ok {
			continue
		}
		if st.Pending == nil {
			st.Pending = site.Values{}
		}
		if st.Pending[name] = next; next == st.Have[name] {
			st.Have[name] = bios.Unknown
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
	_, st, _, err := m.resolveBIOS(ctx, s, n)
	return st, err == nil, err
}

// resolveBIOS reads the settings and puts the design into their terms. What the
// registry of the kind does not resolve is tried with the machine's own, once:
// another BMC's garbled answer, or names with a MAC address in them, must not
// stop this one.
func (m *machine) resolveBIOS(ctx context.Context, s system, n *site.Node) (f firmware, st site.FacetState, r bios.Resolved, err error) {
	if f, err = m.bios(ctx, s); err != nil {
		return f, st, r, err
	}
	resolve := func() {
		st = f.state(m.registries.same(f.terms()), n.Want(site.FacetBIOS))
		r = st.Settings().Resolve(n.Want(site.FacetBIOS))
	}
	if f.path == "" {
		resolve()
		return f, st, r, nil
	}
	kind := strings.Join([]string{f.maker.manufacturer, f.maker.model, f.maker.firmware, f.name}, "\x00")
	if m.memory.checked != kind {
		m.memory.own, m.memory.checked = nil, ""
	}
	if f.registry = m.memory.own; f.registry == nil {
		f.registry, err = m.registries.of(ctx, kind, func() (*registry, error) { return m.readRegistry(ctx, f.name) })
	}
	if err != nil {
		return f, st, r, err
	}
	if resolve(); len(r.Unresolved) == 0 || m.memory.checked == kind {
		return f, st, r, nil
	}
	own, err := m.readRegistry(ctx, f.name)
	if err != nil {
		return f, st, r, err
	}
	if m.memory.checked = kind; own.Sum != f.registry.Sum {
		m.memory.own, f.registry = own, own
		resolve()
	}
	return f, st, r, nil
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
