package libvirt

import (
	"context"
	"fmt"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// zeroize removes the machine with everything that was made for it. The machine itself goes last: until then its
// metadata lists the rest, so an interrupted removal can continue. It does not touch what is not listed. It deletes
// nothing if something else needs one of its disks, or if the approval does not name each of them.
func (m *machine) zeroize(ctx context.Context, c *connection, step site.Step, n *site.Node) error {
	d, err := m.mine(ctx, c)
	if err != nil || d == nil {
		return err
	}
	if err := m.allMerged(d); err != nil {
		return err
	}
	for _, v := range d.owner.Volumes {
		if err := m.unused(ctx, c, d, v); err != nil {
			return fmt.Errorf("disk %s: %w", v.Disk, err)
		}
	}
	there, err := m.there(ctx, c, d.owner.Volumes)
	if err != nil {
		return err
	}
	if err := m.approved(d, step, there); err != nil {
		return err
	}
	if err := m.stop(ctx, c, d, false, min(farewell, m.opts.Grace)); err != nil {
		return err
	}
	d.live = nil
	if err := m.may.Ask(ctx, step); err != nil {
		return err
	}
	if err := m.unseed(ctx, c, d, n); err != nil {
		return err
	}
	for _, v := range slices.Clone(d.owner.Volumes) {
		if err := m.eraseVolume(ctx, c, d, step, n, v); err != nil {
			return fmt.Errorf("disk %s: %w", v.Disk, err)
		}
	}
	if log := d.owner.Console; log != nil {
		if err := m.eraseLog(ctx, c, n, *log); err != nil {
			return fmt.Errorf("the console's log: %w", err)
		}
	}
	if err := m.undefine(ctx, c, d); err != nil {
		return err
	}
	m.tidyAfter(ctx, c, d.owner)
	return nil
}

// tidyAfter tidies the pools that contained a machine's volumes.
func (m *machine) tidyAfter(ctx context.Context, c *connection, o owner) {
	done := map[string]bool{}
	for _, v := range o.Volumes {
		if done[v.Pool] {
			continue
		}
		done[v.Pool] = true
		if s, err := m.storage(ctx, c, v.Pool); err == nil { // a missing pool has no images
			m.tidy(ctx, s)
		}
	}
}

// eraseVolume deletes a volume, and overwrites it before if the design says so.
func (m *machine) eraseVolume(ctx context.Context, c *connection, d *domain, step site.Step, n *site.Node, v volume) error {
	s, err := m.storage(ctx, c, v.Pool)
	if err != nil {
		return err
	}
	if err := s.refresh(ctx); err != nil { // a person may have restored it without libvirt
		return err
	}
	ref, there, err := s.find(ctx, v.Name)
	if err != nil || !there {
		return err
	}
	if err := m.approved(d, step, []volume{v}); err != nil { // it may have come back since the machine was stopped
		return err
	}
	if n.Virtual.Erase == "wipe" {
		if err := s.wipe(ctx, ref); err != nil {
			return fmt.Errorf("wipe the volume %s: %w", printable(v.Name), err)
		}
	}
	return s.remove(ctx, v.Name)
}

// rotated are the suffixes of a log and of the files to which libvirt rotates it.
var rotated = []string{"", ".0", ".1", ".2"}

func (m *machine) eraseLog(ctx context.Context, c *connection, n *site.Node, log consoleLog) error {
	s, err := m.storage(ctx, c, log.Pool)
	if err != nil {
		return err
	}
	if err := s.refresh(ctx); err != nil { // libvirt does not list a file that it logs to as a volume
		return err
	}
	for _, end := range rotated {
		if err := s.remove(ctx, log.Name+end); err != nil {
			return err
		}
	}
	return nil
}

// undefine removes the definition, with what libvirt stores for it.
func (m *machine) undefine(ctx context.Context, c *connection, d *domain) error {
	const all = golibvirt.DomainUndefineManagedSave | golibvirt.DomainUndefineSnapshotsMetadata |
		golibvirt.DomainUndefineNvram | golibvirt.DomainUndefineCheckpointsMetadata
	defer m.hypervisor.wrote(d.ref.UUID)
	undefine := func(flags golibvirt.DomainUndefineFlagsValues) error {
		err := tell(ctx, c, func(rpc *golibvirt.Libvirt) error { return rpc.DomainUndefineFlags(d.ref, flags) })
		if says(err, golibvirt.ErrNoDomain) {
			return nil
		}
		return err
	}
	err := undefine(all | golibvirt.DomainUndefineTpm)
	if says(err, golibvirt.ErrInvalidArg, golibvirt.ErrOperationUnsupported, golibvirt.ErrNoSupport) {
		err = undefine(all) // for a version that always deletes the state of a TPM
	}
	return err
}
