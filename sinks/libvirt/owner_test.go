package libvirt

import (
	"errors"
	"os"
	"strings"
	"testing"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// lookalikes are machines that are not vm-1 of the site lab, by what they are.
var lookalikes = map[string]struct{ uuid, metadata, says string }{
	"nobody's, of the same name": {"11111111-2222-4333-8444-555555555555", "", "that Slipway did not make"},
	"nobody's, with the UUID":    {site.MachineUUID("lab", "vm-1"), "", "that Slipway did not make"},
	"of another tool": {"11111111-2222-4333-8444-555555555555",
		`<x:machine xmlns:x="https://example.org/x" site="lab" node="vm-1"/>`, "that Slipway did not make"},
	"of another site": {site.MachineUUID("other", "vm-1"), owner{Site: "other", Node: "vm-1"}.element(), "the site other"},
	"of another node": {"11111111-2222-4333-8444-555555555555", owner{Site: "lab", Node: "vm-2"}.element(), "the node vm-2"},
	"a copy of ours":  {"11111111-2222-4333-8444-555555555555", owner{Site: "lab", Node: "vm-1"}.element(), "its UUID should be"},
}

func TestLookalikesAreLeftAlone(t *testing.T) {
	r := startReal(t, "/test/default")
	for name, c := range lookalikes {
		t.Run(name, func(t *testing.T) {
			ref := r.define(t, `<domain type='test'><name>vm-1</name><uuid>`+c.uuid+`</uuid><metadata>`+c.metadata+`</metadata><memory>65536</memory><os><type>hvm</type></os></domain>`)
			defer func() {
				if err := r.rpc.DomainUndefine(ref); err != nil {
					t.Error(err)
				}
			}()
			m, n := r.open(t, New(quick), "vm-1"), designed("vm-1")
			n.Virtual.Memory = 1 << 30
			n.Boot.Order = []string{"Pxe"}
			before := len(r.Writes())
			seen := look(t, m, n)
			if seen.Identity.Known() {
				t.Errorf("it is taken for the machine %v", seen.Identity)
			}
			if got := seen.Facets[site.FacetDefinition]; got.Have["state"] != site.StateForeign || !strings.Contains(got.Unresolved["state"], c.says) {
				t.Errorf("it is seen as %+v", got)
			}
			for a := range actions {
				if err := m.Apply(t.Context(), stepOf(n, site.FacetDefinition, a), n, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) {
					t.Errorf("%s: %v", a, err)
				}
			}
			if writes := r.Writes()[before:]; len(writes) > 0 {
				t.Errorf("it was written to: %v", writes)
			}
		})
	}
}

func (r *real) define(t *testing.T, text string) golibvirt.Domain {
	t.Helper()
	d, err := r.rpc.DomainDefineXMLFlags(text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestForeignVolumesAreLeftAlone(t *testing.T) {
	r := startReal(t, "/system")
	m, n := r.open(t, New(quick), "vm-1"), designed("vm-1")
	must(t, m, n, site.FacetDefinition, site.ActionDefine)
	p, err := r.rpc.StoragePoolLookupByName("default")
	if err != nil {
		t.Fatal(err)
	}
	name := volumeName("vm-1", n.Identity.UUID, "data", "qcow2")
	if _, err := r.rpc.StorageVolCreateXML(p, describeVolume(name, site.VirtualDisk{Size: 1 << 20}), 0); err != nil {
		t.Fatal(err)
	}
	if got := look(t, m, n).Facets[site.FacetDisks].Unresolved["data.size"]; !strings.Contains(got, "was not made for this machine") {
		t.Errorf("it is seen as %q", got)
	}
	before := len(r.Writes())
	if err := m.Apply(t.Context(), stepOf(n, site.FacetDisks, site.ActionDisks), n, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v", err)
	}
	if writes := r.Writes()[before:]; len(writes) > 0 {
		t.Errorf("something was written: %v", writes)
	}
}

// A file that libvirt does not know of yet is left alone, too; and one that
// somebody makes at the same time is not listed as the machine's.
func TestVolumesOfAnotherAreNotListed(t *testing.T) {
	b := newBench(t, "qcow2")
	file := b.disk("more.qcow2")
	if err := os.WriteFile(file, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := site.VirtualDisk{Size: 1 << 20}
	b.n.Virtual.Disks["more"] = want
	m := b.machine()
	listed := func() bool {
		d, err := m.existing(t.Context(), b.conn())
		if err != nil {
			t.Fatal(err)
		}
		_, listed := d.owner.disk("more")
		return listed
	}
	make := func() error {
		d, err := m.existing(t.Context(), b.conn())
		if err != nil {
			t.Fatal(err)
		}
		return m.makeVolume(t.Context(), b.conn(), d, m.volume("more", want), want)
	}
	setDisks := func() error {
		return m.Apply(t.Context(), stepOf(b.n, site.FacetDisks, site.ActionDisks), b.n, drivertest.Permitted)
	}
	for i, try := range []func() error{make, setDisks, make} { // libvirt knows of it from the second on
		if err := try(); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "was not made for this machine") || listed() {
			t.Errorf("%d: got %v, and it is listed: %t", i, err, listed())
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "dear" {
		t.Errorf("the file is %q, %v", got, err)
	}
}

// A disk that was listed and not made, as after a crash between the two, is
// made; one that is gone from under the machine is not made anew, and none
// becomes smaller.
func TestDisksAreNeverReplaced(t *testing.T) {
	r := startReal(t, "/system")
	m, n := r.open(t, New(quick), "vm-1"), designed("vm-1")
	must(t, m, n, site.FacetDefinition, site.ActionDefine)
	c, err := m.(*machine).connection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.(*machine).mine(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	v := m.(*machine).volume("data", n.Virtual.Disks["data"])
	if err := m.(*machine).setOwner(t.Context(), c, d, d.owner.with(v)); err != nil {
		t.Fatal(err)
	}
	must(t, m, n, site.FacetDisks, site.ActionDisks)
	settled(t, m, n, site.FacetDisks)
	before := len(r.Writes())
	must(t, m, n, site.FacetDisks, site.ActionDisks)
	must(t, m, n, site.FacetDefinition, site.ActionDefine)
	if writes := r.Writes()[before:]; len(writes) > 0 {
		t.Errorf("a second time writes %v", writes)
	}
	n.Virtual.Disks["data"] = site.VirtualDisk{Size: 8 << 20}
	if err := m.Apply(t.Context(), stepOf(n, site.FacetDisks, site.ActionDisks), n, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "16MiB") {
		t.Errorf("to make it smaller gave %v", err)
	}
	vol, err := find(t.Context(), c, v.Pool, v.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.rpc.StorageVolDelete(vol.ref, 0); err != nil {
		t.Fatal(err)
	}
	n.Virtual.Disks["data"] = site.VirtualDisk{Size: 16 << 20}
	if err := m.Apply(t.Context(), stepOf(n, site.FacetDisks, site.ActionDisks), n, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("a disk that is gone: %v", err)
	}
	m.(*machine).hypervisor.wrote(d.ref.UUID) // no event tells of volumes
	if got := look(t, m, n).Facets[site.FacetDisks].Unresolved["data.size"]; !strings.Contains(got, "is gone from the pool") {
		t.Errorf("a disk that is gone is seen as %q", got)
	}
}

// A machine that went after a change of it was planned is not made by that.
func TestAChangeMakesNoMachine(t *testing.T) {
	r := startReal(t, "/test/default")
	m, n := r.open(t, New(quick), "vm-1"), designed("vm-1")
	s := stepOf(n, site.FacetDefinition, site.ActionDefine)
	s.Changes = []site.Change{{Field: "definition.memory", Have: "64MiB", Want: "128MiB"}}
	before := len(r.Writes())
	if err := m.Apply(t.Context(), s, n, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "is no longer on") {
		t.Errorf("got %v", err)
	}
	if writes := r.Writes()[before:]; len(writes) > 0 {
		t.Errorf("something was written: %v", writes)
	}
}

// Metadata of others stays when ours is written, however it is written.
func TestMetadataOfOthersStays(t *testing.T) {
	others := `<a:b xmlns:a="https://example.org/a"><machine/></a:b>`
	for _, have := range []string{"", others, others + owner{Site: "x"}.element(), "\n  " + owner{}.element() + others} {
		if got := withoutOwner(have); got != others && got != "" || strings.Contains(have, others) && got != others {
			t.Errorf("of %q stays %q", have, got)
		}
	}
	o := owner{Site: `a"<&`, Node: "vm-1", Generation: 3, Volumes: []volume{{"root", "default", "x.qcow2"}}}
	got, err := ownerIn(others + o.element())
	if err != nil || got == nil || got.element() != o.element() {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, hostile := range []string{"<", "<a", strings.Repeat("<a>", 10000), `<m xmlns="` + namespace + `"/>`, others} {
		if got, err := ownerIn(hostile); got != nil || err != nil {
			t.Errorf("%.40q has the owner %+v, %v", hostile, got, err)
		}
	}
	if _, err := ownerIn(`<machine xmlns="` + namespace + `" generation="x"/>`); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("a generation that is no number: %v", err)
	}
}
