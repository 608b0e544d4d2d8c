package libvirt

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/site"
)

// domain is a machine in libvirt.
type domain struct {
	ref golibvirt.Domain
	// next is the definition for its next start. live is the current one; nil when it is off.
	next, live *libvirtxml.Domain
	ours       bool // its metadata has an owner
	owner      owner
}

func (d *domain) active() bool { return d.live != nil }

// maxXML bounds a definition, in bytes.
const maxXML = 1 << 20

// read reads a domain, twice if it is on. A definition that will be written again must be read with its secrets: a
// person may have set a display password.
func read(ctx context.Context, c *connection, ref golibvirt.Domain, flags golibvirt.DomainXMLFlags) (*domain, error) {
	d := &domain{ref: ref}
	var err error
	if d.next, err = describe(ctx, c, ref, flags|golibvirt.DomainXMLInactive); err != nil {
		return nil, err
	}
	if ref.ID >= 0 {
		if d.live, err = describe(ctx, c, ref, flags); err != nil {
			return nil, err
		}
	}
	if d.next.Metadata == nil {
		return d, nil
	}
	o, err := ownerIn(d.next.Metadata.XML)
	if o == nil || err != nil {
		return d, err
	}
	d.ours, d.owner = true, *o
	return d, d.named(ctx, c)
}

func describe(ctx context.Context, c *connection, ref golibvirt.Domain, flags golibvirt.DomainXMLFlags) (*libvirtxml.Domain, error) {
	text, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (string, error) { return rpc.DomainGetXMLDesc(ref, flags) })
	if err != nil {
		return nil, err
	}
	return parseDomain(text)
}

func parseDomain(text string) (*libvirtxml.Domain, error) {
	if len(text) > maxXML {
		return nil, refused("the definition has %d bytes; no more than %d are read", len(text), maxXML)
	}
	var d libvirtxml.Domain
	if err := d.Unmarshal(text); err != nil {
		return nil, refused("the definition cannot be understood: %v", err)
	}
	if d.Devices == nil {
		d.Devices = &libvirtxml.DomainDeviceList{}
	}
	if d.OS == nil {
		d.OS = &libvirtxml.DomainOS{}
	}
	if d.OS.Type == nil {
		d.OS.Type = &libvirtxml.DomainOSType{}
	}
	return &d, nil
}

// lookup finds a domain.
type lookup func(*golibvirt.Libvirt) (golibvirt.Domain, error)

// mine reads the machine's domain right before a write; nil if there is none. It refuses a domain that only looks
// like it.
func (m *machine) mine(ctx context.Context, c *connection) (*domain, error) {
	for _, look := range []lookup{m.byUUID, m.byName} {
		ref, err := ask(ctx, c, look)
		if says(err, golibvirt.ErrNoDomain) {
			continue
		}
		if err != nil {
			return nil, err
		}
		d, err := read(ctx, c, ref, golibvirt.DomainXMLSecure)
		if says(err, golibvirt.ErrNoDomain) { // it disappeared meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if why := m.foreign(d); why != "" {
			return nil, refused("%s; nothing was written", why)
		}
		return d, nil
	}
	return nil, nil
}

// existing is the machine's domain, which must exist.
func (m *machine) existing(ctx context.Context, c *connection) (*domain, error) {
	d, err := m.mine(ctx, c)
	if err == nil && d == nil {
		err = refused("there is no machine %s on %s; it has to be defined first", m.name, m.where())
	}
	return d, err
}

func (m *machine) byUUID(rpc *golibvirt.Libvirt) (golibvirt.Domain, error) {
	uuid, err := uuidOf(m.identity().UUID)
	if err != nil {
		return golibvirt.Domain{}, err
	}
	return rpc.DomainLookupByUUID(uuid)
}

func (m *machine) byName(rpc *golibvirt.Libvirt) (golibvirt.Domain, error) {
	return rpc.DomainLookupByName(m.name)
}

// meant refuses to write to a machine other than the step's.
func (m *machine) meant(step site.Step) error {
	switch want := step.Machine; {
	case !want.Known():
		return refused("the step names no machine by UUID; nothing was written")
	case !want.Matches(m.identity()):
		return refused("another machine is meant: the step is for UUID %q serial %q, and %s of the site %s has UUID %q and no serial; nothing was written",
			want.UUID, want.Serial, m.name, m.site, m.identity().UUID)
	}
	return nil
}

// state is "on", "off", "starting" or, for a suspended machine, "paused".
func state(ctx context.Context, c *connection, ref golibvirt.Domain) (string, error) {
	var s, why int32
	err := tell(ctx, c, func(rpc *golibvirt.Libvirt) (err error) {
		s, why, err = rpc.DomainGetState(ref, 0)
		return err
	})
	if err != nil {
		return "", err
	}
	return stateName(golibvirt.DomainState(s), golibvirt.DomainPausedReason(why))
}

func stateName(s golibvirt.DomainState, why golibvirt.DomainPausedReason) (string, error) {
	switch s {
	case golibvirt.DomainRunning, golibvirt.DomainBlocked, golibvirt.DomainShutdown:
		return "on", nil
	case golibvirt.DomainPaused, golibvirt.DomainPmsuspended:
		if s == golibvirt.DomainPaused && why == golibvirt.DomainPausedStartingUp {
			return "starting", nil
		}
		return "paused", nil
	case golibvirt.DomainShutoff, golibvirt.DomainCrashed:
		return "off", nil
	}
	return "", refused("libvirt gives the state %d of the machine, which Slipway does not know", s)
}
