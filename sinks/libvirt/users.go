package libvirt

import (
	"context"
	"encoding/xml"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// unused refuses to release a volume of the machine d that something else needs: another machine of any owner, or a
// volume that is based on it and not one of this machine's. Nobody needs a missing volume.
func (m *machine) unused(ctx context.Context, c *connection, d *domain, v volume) error {
	s, err := m.storage(ctx, c, v.Pool)
	if err != nil {
		return err
	}
	pools, err := s.pools(ctx)
	if err != nil {
		return err
	}
	ref, there, err := s.find(ctx, v.Name)
	if err != nil || !there {
		return err
	}
	path, err := s.path(ctx, ref)
	if err != nil {
		return err
	}
	const then = "nothing of this machine was deleted: give what uses the disk a disk of its own, or remove what uses it, and try again"
	err = definitions(ctx, c, func(other golibvirt.Domain, text string) error {
		if other.UUID != d.ref.UUID && (names(text, path) || takes(text, v)) {
			return refused("the volume %s of the pool %s is a disk of this machine, and the machine %s on %s uses it, too; %s",
				v.Name, v.Pool, printable(other.Name), m.hypervisor.address, then)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range pools {
		if err := p.nothingOn(ctx, d.owner, path, then); err != nil {
			return err
		}
	}
	return nil
}

// nothingOn refuses a path on which a volume of the pool is based, other than the owner's.
func (s *storage) nothingOn(ctx context.Context, o owner, path, then string) error {
	all, err := s.all(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		if o.lists(v.Pool, v.Name) {
			continue
		}
		about, err := s.describe(ctx, v)
		if says(err, golibvirt.ErrNoStorageVol) {
			continue
		}
		if err != nil {
			return err
		}
		if about.BackingStore != nil && about.BackingStore.Path == path {
			return refused("the volume %s of the pool %s builds on %s, which is a disk of this machine; %s", printable(v.Name), v.Pool, path, then)
		}
	}
	return nil
}

// pools are the active storage pools of the hypervisor, each rescanned.
func (s *storage) pools(ctx context.Context) ([]*storage, error) {
	all, err := ask(ctx, s.c, func(rpc *golibvirt.Libvirt) ([]golibvirt.StoragePool, error) {
		all, _, err := rpc.ConnectListAllStoragePools(1, golibvirt.ConnectListStoragePoolsActive)
		return all, err
	})
	if err != nil {
		return nil, err
	}
	var pools []*storage
	for _, p := range all {
		at := &storage{c: s.c, h: s.h, pool: p, host: s.host}
		if err := at.refresh(ctx); err != nil {
			return nil, err
		}
		pools = append(pools, at)
	}
	return pools, nil
}

// definitions passes on the definitions of all machines of any owner, current and for the next start.
func definitions(ctx context.Context, c *connection, each func(golibvirt.Domain, string) error) error {
	machines, err := list(ctx, c, 0)
	if err != nil {
		return err
	}
	for _, d := range machines {
		for _, flags := range []golibvirt.DomainXMLFlags{0, golibvirt.DomainXMLInactive} {
			text, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (string, error) { return rpc.DomainGetXMLDesc(d, flags) })
			if says(err, golibvirt.ErrNoDomain) {
				continue
			}
			if err == nil {
				err = each(d, text)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// names reports whether a value in a definition is the path.
func names(text, path string) bool {
	return anywhere(text, func(e xml.StartElement) bool {
		for _, a := range e.Attr {
			if a.Value == path {
				return true
			}
		}
		return false
	})
}

// takes reports whether something in a definition uses a volume.
func takes(text string, v volume) bool {
	return anywhere(text, func(e xml.StartElement) bool {
		var of volume
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "pool":
				of.Pool = a.Value
			case "volume":
				of.Name = a.Value
			}
		}
		return of.Pool == v.Pool && of.Name == v.Name
	})
}

// anywhere reports whether one of the elements matches.
func anywhere(text string, is func(xml.StartElement) bool) bool {
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if e, ok := token.(xml.StartElement); ok && is(e) {
			return true
		}
	}
}
