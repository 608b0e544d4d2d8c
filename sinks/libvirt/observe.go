package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Observe looks at the machine. Most data comes from a snapshot that all machines of the hypervisor share, or from
// the cache. The result has an identity only if the machine exists and is ours.
func (m *machine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	m.called(n)
	seen, err := m.sight(ctx, n)
	if errors.Is(err, errElusive) {
		m.hypervisor.wrote(seen.uuid)
		seen, err = m.sight(ctx, n)
	}
	if err != nil {
		return site.Observed{}, fmt.Errorf("%s: %w", m.where(), err)
	}
	o := site.Observed{Facets: map[site.Facet]site.FacetState{}}
	if seen.record != nil {
		o.Identity = m.identity()
	}
	for _, f := range facets {
		look := sights[f]
		if look == nil {
			continue
		}
		state, err := look(seen, ctx)
		if err != nil {
			return site.Observed{}, err
		}
		state.Seen, state.Driver = seen.shot.at, Scheme
		o.Facets[f] = state
	}
	return o, nil
}

// sighting is the machine in a snapshot.
type sighting struct {
	m    *machine
	n    *site.Node
	uuid golibvirt.UUID
	shot *snapshot
	// record is nil if there is no machine of ours. foreign says why an existing one is not ours.
	record  *record
	foreign string
}

// errElusive reports that the list of machines and the data of one differ: the machine appeared or disappeared in
// between.
var errElusive = fmt.Errorf("%w: libvirt's list of its machines and what it says of this one differ", driver.ErrBusy)

// sight finds the machine in a snapshot and reads it.
func (m *machine) sight(ctx context.Context, n *site.Node) (*sighting, error) {
	seen := &sighting{m: m, n: n}
	var err error
	if seen.uuid, err = uuidOf(m.identity().UUID); err != nil {
		return seen, err
	}
	if seen.shot, err = m.hypervisor.look(ctx); err != nil {
		return seen, err
	}
	ref, there := seen.shot.find(seen.uuid, m.name)
	if !there {
		return seen, m.confirmAbsent(ctx)
	}
	err = seen.read(ctx, ref)
	if says(err, golibvirt.ErrNoDomain) {
		err = errElusive
	}
	return seen, err
}

// confirmAbsent asks for the machine directly. A list contains only the machines that the account may see, but a
// direct request for another one reports the missing permission.
func (m *machine) confirmAbsent(ctx context.Context) error {
	c, err := m.connection(ctx)
	if err != nil {
		return err
	}
	for _, look := range []lookup{m.byUUID, m.byName} {
		switch _, err := ask(ctx, c, look); {
		case err == nil:
			return errElusive
		case !says(err, golibvirt.ErrNoDomain):
			return err
		}
	}
	return nil
}

// sights maps each facet to the function that observes it.
var sights = map[site.Facet]func(*sighting, context.Context) (site.FacetState, error){
	site.FacetDefinition: (*sighting).definition,
	site.FacetDisks:      (*sighting).disks,
	site.FacetSeed:       (*sighting).seed,
	site.FacetPower:      (*sighting).power,
	site.FacetBoot:       (*sighting).boot,
}

func (s *sighting) read(ctx context.Context, ref golibvirt.Domain) error {
	c, err := s.m.connection(ctx)
	if err != nil {
		return err
	}
	r, err := s.m.hypervisor.recall(ctx, c, ref)
	if err != nil {
		return err
	}
	if s.foreign = s.m.foreign(r.domain); s.foreign == "" {
		s.record = r
	}
	return nil
}

// absent says why the machine is not seen, as a state.
func (s *sighting) absent() string {
	if s.foreign != "" {
		return site.StateForeign
	}
	return site.StateAbsent
}

// power of a machine that is not Slipway's is not known: it may be the node's own, which has lost what was written into it.
func (s *sighting) power(context.Context) (site.FacetState, error) {
	if s.foreign != "" {
		return site.FacetState{}, nil
	}
	state := "off"
	if s.record != nil {
		state = s.shot.power(s.record.domain.ref)
	}
	return site.FacetState{Have: site.Values{"state": state}}, nil
}

// boot is the boot order for the machine's next start. The running machine does not matter for it.
func (s *sighting) boot(context.Context) (site.FacetState, error) {
	var state site.FacetState
	if s.record != nil {
		state.Have = site.Values{"order": bootOrder(s.record.domain.next), "mode": firmware(s.record.domain.next)}
	}
	return state, nil
}

func (s *sighting) definition(context.Context) (site.FacetState, error) {
	var state site.FacetState
	if s.record == nil {
		state.Have = site.Values{site.FieldState: s.absent()}
		if s.foreign != "" {
			state.Unresolved = site.Values{site.FieldState: s.foreign}
		}
		return state, nil
	}
	d := s.record.domain
	state.Have = described(d.next, s.n)
	if d.active() {
		next := state.Have
		state.Have = described(d.live, s.n)
		state.Pending = differing(state.Have, next)
	}
	if o := d.owner; o.Generation > 0 {
		state.Have["generation"], state.Have["image"] = strconv.Itoa(o.Generation), o.Image
	}
	state.Have["autostart"] = strconv.FormatBool(s.shot.autostart[d.ref.UUID])
	return state, nil
}

// differing are the values of next that differ from now.
func differing(now, next site.Values) site.Values {
	pending := site.Values{}
	for field, value := range next {
		if now[field] != value {
			pending[field] = value
		}
	}
	if len(pending) == 0 {
		return nil
	}
	return pending
}

// described are the values of a definition.
func described(d *libvirtxml.Domain, n *site.Node) site.Values {
	v := site.Values{
		site.FieldState: site.StateDefined,
		"cpus":          strconv.FormatUint(uint64(processors(d)), 10),
		"memory":        asDesigned(memory(d), n.Virtual.Memory, mebibyte).String(),
		"machine":       machineOf(d),
		"firmware":      firmware(d),
		"secureBoot":    strconv.FormatBool(secureBoot(d)),
		"tpm":           strconv.FormatBool(len(d.Devices.TPMs) > 0),
		"watchdog":      cmp.Or(watchdog(d), site.NoneOf),
		"accelerator":   accelerator(d.Type),
	}
	names := map[string]bool{}
	for _, i := range d.Devices.Interfaces {
		if name := aliased(aliasInterface, i.Alias); name != "" {
			names[name] = true
			v[name+".bridge"], v[name+".model"], v[name+".mac"] = bridge(i), model(i), mac(i)
		}
	}
	v["interfaces"] = cmp.Or(strings.Join(slices.Sorted(maps.Keys(names)), ","), site.NoneOf)
	return v
}

// accelerator is the design's word for a domain type. The test driver runs nothing.
func accelerator(domainType string) string {
	for ours, libvirts := range domainTypes {
		if domainType == libvirts {
			return ours
		}
	}
	if domainType == "test" {
		return "emulation"
	}
	return domainType
}

// asDesigned is the designed size if the actual size is that one rounded up.
func asDesigned(have, want site.Size, to int64) site.Size {
	if want > 0 && have == roundUp(want, to) {
		return want
	}
	return have
}
