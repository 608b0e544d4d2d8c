package libvirt

import (
	"errors"
	"slices"
	"strings"
	"testing"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A machine that runs on a snapshot of a person's is left as it is, and says so
// until the snapshot is merged.
func TestExternalSnapshots(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	d, err := b.rpc.DomainLookupByName("vm-1")
	if err != nil {
		t.Fatal(err)
	}
	text := `<domainsnapshot><name>backup</name><disks><disk name='vda' snapshot='external'><source file='/var/lib/libvirt/default/snap-root'/></disk><disk name='vdb' snapshot='external'><source file='/var/lib/libvirt/default/snap-data'/></disk></disks></domainsnapshot>`
	flags := golibvirt.DomainSnapshotCreateDiskOnly | golibvirt.DomainSnapshotCreateAtomic
	if _, err := b.rpc.DomainSnapshotCreateXML(d, text, uint32(flags)); err != nil {
		t.Fatal(err)
	}
	before := b.volumes()
	m := b.machine()
	m.hypervisor.wrote(d.UUID)
	unresolved := look(t, m, b.n).Facets[site.FacetDisks].Unresolved
	for _, disk := range []string{"data", "root"} {
		if got := unresolved[disk+".size"]; !strings.Contains(got, "runs on a snapshot (/var/lib/libvirt/default/snap-"+disk+")") {
			t.Errorf("%s is seen as %q", disk, got)
		}
	}
	for f, a := range map[site.Facet]site.Action{site.FacetDisks: site.ActionDisks, site.FacetDefinition: site.ActionZeroize} {
		err := m.Apply(t.Context(), stepOf(b.n, f, a), b.n, drivertest.Permitted)
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "runs on a snapshot") {
			t.Errorf("%s: %v", a, err)
		}
	}
	if after := b.volumes(); !slices.Equal(before, after) || b.power(t, "vm-1") != "on" {
		t.Errorf("of %v is left %v, and the machine is %s", before, after, b.power(t, "vm-1"))
	}
	for _, disk := range []string{"vda", "vdb"} {
		if err := b.rpc.DomainBlockCommit(d, disk, nil, nil, 0, golibvirt.DomainBlockCommitActive|golibvirt.DomainBlockCommitShallow); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the snapshot to be merged", func() bool {
			return b.rpc.DomainBlockJobAbort(d, disk, golibvirt.DomainBlockJobAbortPivot) == nil
		})
	}
	m.hypervisor.wrote(d.UUID)
	settled(t, m, b.n, site.FacetDisks)
}

// A disk that is given by the path of its volume, as after such a merge, is the
// disk that it was.
func TestDisksByTheirPaths(t *testing.T) {
	b := newBench(t, "qcow2")
	m := b.machine()
	d, err := m.existing(t.Context(), b.conn())
	if err != nil {
		t.Fatal(err)
	}
	v, _ := d.owner.disk("data")
	text := marshalled(d.next)
	by := strings.Replace(strings.Replace(text, `type="volume"`, `type="file"`, 1), `pool="`+v.Pool+`" volume="`+v.Name+`"`, `file="/var/lib/libvirt/default/`+v.Name+`"`, 1)
	b.define(t, by)
	m.hypervisor.wrote(d.ref.UUID)
	settled(t, m, b.n, site.FacetDisks)
	must(t, m, b.n, site.FacetDisks, site.ActionDisks)
	must(t, m, b.n, site.FacetDefinition, site.ActionZeroize)
	if b.has("data") {
		t.Errorf("left: %v", b.volumes())
	}
}
