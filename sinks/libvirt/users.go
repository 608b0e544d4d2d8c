package libvirt

import (
	"context"
	"encoding/xml"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// unused refuses to let go of a volume of the machine d that something else
// needs: another machine, whoever's it is, or a volume that builds on it and is
// not one of this machine's. A volume that is not there is needed by nobody.
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

// nothingOn refuses a path that a volume of the pool builds on, other than those
// of the owner.
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

// pools are the active storage pools of the hypervisor, each looked at anew.
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

// definitions gives the definitions of all machines, whoever's they are, as they
// are and as they will be.
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

// names says whether a value somewhere in a definition is a path.
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

// takes says whether something in a definition is made of a volume.
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

// anywhere says whether one of the elements is as asked.
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
