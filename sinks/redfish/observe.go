package redfish

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Observe reads the ComputerSystem, once: power, boot, health, inventory and
// identity are all in it, and where nothing else is asked for it need not even
// be sent, see glance. The boot options are read when the list of their
// references is new, the virtual media slot when the image facet is asked for.
func (m *machine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if err := m.locate(ctx, n.Machine()); err != nil {
		return site.Observed{}, err
	}
	if inSystem(facets) {
		return m.glance(ctx, n, facets)
	}
	s, err := m.read(ctx)
	if err != nil {
		return site.Observed{}, err
	}
	seen, _, err := m.shows(ctx, s, n, facets)
	return seen, err
}

// shows is what a machine shows of facets. It is whole when everything could be
// read, and nothing beside the system had to be that may be another next time.
func (m *machine) shows(ctx context.Context, s system, n *site.Node, facets []site.Facet) (seen site.Observed, whole bool, err error) {
	seen = site.Observed{Inventory: s.inventory(), Facets: map[site.Facet]site.FacetState{}}
	if seen.Identity, err = m.identityWith(ctx, s, n.Machine(), m.client.get); over(ctx, err) {
		return site.Observed{}, false, err
	}
	now, whole := time.Now(), n.Machine().MAC == ""
	for _, f := range facets {
		state, ok, err := m.facet(ctx, s, n, f)
		if f == site.FacetLog {
			state, seen.Entries, ok, err = m.events(ctx, s)
		}
		if over(ctx, err) {
			return site.Observed{}, false, err
		}
		whole = whole && err == nil && (f != site.FacetBoot || !differs(state, n))
		if !ok || err != nil {
			continue // what cannot be seen is left out
		}
		state.Seen, state.Driver = now, Scheme
		seen.Facets[f] = state
	}
	return seen, whole, nil
}

// differs says whether the boot is not as designed.
func differs(state site.FacetState, n *site.Node) bool {
	for field, want := range state.Resolve(n, site.FacetBoot).Want {
		if state.Have[field] != want {
			return true
		}
	}
	return false
}

// facet is one facet as the system shows it; false when it does not.
func (m *machine) facet(ctx context.Context, s system, n *site.Node, f site.Facet) (site.FacetState, bool, error) {
	switch f {
	case site.FacetPower:
		p, ok := powerStates[s.power()]
		state := site.FacetState{Have: site.Values{"state": p.is}}
		if p.goes != "" {
			state.Pending = site.Values{"state": p.goes}
		}
		return state, ok, nil
	case site.FacetBoot:
		return m.bootFacet(ctx, s, n)
	case site.FacetHealth:
		h := s.health()
		return site.FacetState{Have: site.Values{"status": h}}, h != "", nil
	case site.FacetInventory:
		return site.FacetState{}, true, nil
	case site.FacetBIOS:
		return m.biosFacet(ctx, s, n)
	case site.FacetAccounts:
		return m.accountsFacet(ctx, n)
	case site.FacetSensors:
		return m.sensors(ctx, s)
	case site.FacetImage:
		w, err := m.way(ctx, n, s)
		return site.FacetState{Have: site.Values{"media": w.image(s)}}, err == nil, err
	}
	return site.FacetState{}, false, nil
}

// bootFacet shows the persistent order of boot sources and, where it is
// designed, how the firmware boots. What waits for the next boot is so already:
// it has an effect then only.
func (m *machine) bootFacet(ctx context.Context, s system, n *site.Node) (site.FacetState, bool, error) {
	state, ok, err := m.bootOf(ctx, s, n)
	if err != nil || !differs(state, n) {
		return state, ok, err
	}
	if s, err = m.future(ctx, s); err != nil {
		return site.FacetState{}, false, err
	}
	return m.bootOf(ctx, s, n)
}

func (m *machine) bootOf(ctx context.Context, s system, n *site.Node) (site.FacetState, bool, error) {
	state, ok, err := m.orderOf(ctx, s)
	if mode := s.mode(); err == nil && (n.Boot.Mode != "" || ok && mode != "") {
		if state.Have == nil {
			state.Have = site.Values{}
		}
		state.Have["mode"], ok = mode, true
	}
	return state, ok, err
}

// orderOf shows the order; of a machine that has none, the source that
// overrides it for good.
func (m *machine) orderOf(ctx context.Context, s system) (site.FacetState, bool, error) {
	if len(s.bootOrder()) == 0 {
		return m.lastingBoot(s)
	}
	err := m.boot.read(ctx, m.client, s)
	state := m.boot.state(s.bootOrder())
	return state, err == nil, err
}

// bootOptions are a machine's boot options: which source each reference of the
// boot order stands for (DSP0268 6.14).
type bootOptions struct {
	refs   string            // the references for which they were read
	source map[string]string // "Hdd", "Pxe" by reference
	usable []string          // references of options that are not disabled, in the BMC's order
}

// read fetches the options if the machine's list of references is a new one.
func (b *bootOptions) read(ctx context.Context, c *line, s system) error {
	refs := slices.Sorted(slices.Values(s.bootOrder()))
	key := strings.Join(refs, ",")
	collection := link(s.object, "Boot", "BootOptions")
	if b.source != nil && b.refs == key || collection == "" {
		return nil
	}
	source, usable := map[string]string{}, []string(nil)
	err := c.members(ctx, collection, maxLinks, func(_ string, option object) {
		from, ref := bootSource(option), cmp.Or(at[string](option, "BootOptionReference"), at[string](option, "Id"))
		if from == "" {
			return
		}
		source[ref] = from
		if enabled := at[*bool](option, "BootOptionEnabled"); enabled == nil || *enabled {
			usable = append(usable, ref)
		}
	})
	if err != nil && !lasting(err) {
		return err
	}
	b.refs, b.source, b.usable = key, source, usable
	return nil
}

// state is the boot facet for an order of references.
func (b *bootOptions) state(refs []string) site.FacetState {
	all := slices.Concat(b.targets(refs), b.targets(b.usable))
	return site.FacetState{Have: site.Values{"order": joined(b.targets(refs))}, Sources: slices.Compact(slices.Sorted(slices.Values(all)))}
}

// of is the source that a reference stands for, or the reference itself.
func (b *bootOptions) of(ref string) string {
	if s := b.source[ref]; s != "" {
		return s
	}
	return printable(ref)
}

// targets are the sources of references.
func (b *bootOptions) targets(refs []string) []string {
	sources := make([]string, len(refs))
	for i, ref := range refs {
		sources[i] = b.of(ref)
	}
	return sources
}

// others are the references that stand for none of the sources.
func (b *bootOptions) others(refs, sources []string) []string {
	return slices.DeleteFunc(slices.Clone(refs), func(ref string) bool { return slices.Contains(sources, b.of(ref)) })
}

// order is the references with those for the wanted sources first; absent are
// the sources that the machine has no option for. An option may be there and not
// in the order (DSP0268 6.14): it is put into it when it is wanted.
func (b *bootOptions) order(refs, sources []string) (order, absent []string) {
	for _, s := range sources {
		options := b.standing(refs, s)
		if len(options) == 0 {
			options = b.standing(b.usable, s)
		}
		if len(options) == 0 {
			absent = append(absent, s)
		}
		order = append(order, options...)
	}
	return append(order, b.others(refs, sources)...), absent
}

// standing are the references that stand for a source.
func (b *bootOptions) standing(refs []string, source string) []string {
	return slices.DeleteFunc(slices.Clone(refs), func(ref string) bool { return b.of(ref) != source })
}

// joined is the canonical form of a list of sources: several disks in a row
// read "Hdd".
func joined(sources []string) string {
	return strings.Join(slices.Compact(slices.Clone(sources)), ",")
}
