package libvirt

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// detach takes a disk out of the machine, which is switched off, as a person does.
func (b *bench) detach(disk string) {
	b.t.Helper()
	d, err := b.machine().existing(b.t.Context(), b.conn())
	if err != nil {
		b.t.Fatal(err)
	}
	i := slices.IndexFunc(d.next.Devices.Disks, func(x libvirtxml.DomainDisk) bool { return x.Serial == disk })
	text, err := d.next.Devices.Disks[i].Marshal()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.rpc.DomainDestroy(d.ref); err != nil && !says(err, golibvirt.ErrOperationInvalid) { // it is off
		b.t.Fatal(err)
	}
	if err := b.rpc.DomainDetachDeviceFlags(d.ref, text, uint32(golibvirt.DomainDeviceModifyConfig)); err != nil {
		b.t.Fatal(err)
	}
	b.d = New(impatient) // looks anew
}

// loss is what the plan for the node destroys, as the machine is now.
func (b *bench) loss() site.Loss {
	b.t.Helper()
	seen := look(b.t, b.machine(), b.n)
	m := site.Memory{Observed: seen, Recorded: site.Recorded{Adopted: &site.Adoption{Machine: b.n.Identity}, Installed: &site.Installation{Generation: 1, Proven: true}}}
	s := &site.Site{Name: "lab", Nodes: map[string]*site.Node{"vm-1": b.n}, Images: map[string]*site.Image{"debian": b.step.Image}}
	p := plan.Node(s, b.n, site.Known{Nodes: map[string]site.Memory{"vm-1": m}})
	losses := (&site.Plan{Nodes: []site.NodePlan{p}}).Destroys()
	if len(losses) != 1 {
		b.t.Fatalf("the plan is %+v, of %+v", p, seen)
	}
	return losses[0]
}

// A disk that somebody has taken out of a machine to keep it, and out of the
// design, is lost with the machine only if what is approved says so.
func TestZeroizeDeletesNoDiskThatTheApprovalDoesNotName(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	file := b.disk("data.qcow2")
	step := approved(t, b.machine(), b.n, stepOf(b.n, site.FacetDefinition, site.ActionZeroize))
	if want := "data 16MiB in the pool default, root 64MiB in the pool default"; step.Disks != want {
		t.Errorf("the step names %q, want %q", step.Disks, want)
	}
	b.detach("data")
	delete(b.n.Virtual.Disks, "data")
	b.n.Decommission = true
	if got, want := b.loss().Disks, "root 64MiB in the pool default, data 16MiB in the pool default (not attached)"; got != want {
		t.Errorf("what is approved names %q, want %q", got, want)
	}

	before := b.volumes()
	for _, named := range []string{"", site.DisksUnknown, "root 64MiB in the pool default", "root 64MiB in the pool default, data 16MiB in the pool other", "root 64MiB in the pool default, data2 16MiB in the pool default"} {
		step.Disks = named
		writes := len(b.Writes())
		err := b.machine().Apply(t.Context(), step, b.n, drivertest.Permitted)
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "the approval does not name the disk") {
			t.Errorf("an approval of %q: %v", named, err)
		}
		if after := b.volumes(); !slices.Equal(after, before) || slices.Contains(b.Writes()[writes:], "StorageVolDelete") {
			t.Errorf("an approval of %q: of %v is left %v", named, before, after)
		}
	}
	step.Disks = b.loss().Disks
	if err := b.machine().Apply(t.Context(), step, b.n, drivertest.Permitted); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the disk data is left: %v", err)
	}
}

// An installation deletes the disk that it replaces also where that is not attached
// any more, and so what is approved names it.
func TestInstallDeletesNoDiskThatTheApprovalDoesNotName(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	first := b.step
	old, err := os.Stat(b.disk("root.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	b.detach("root")
	b.n.Image, b.n.Generation, b.step.Generation = "debian", 2, 2
	loss := b.loss()
	if want := "root 64MiB in the pool default (not attached)"; loss.Disks != want || loss.Generation != 2 {
		t.Errorf("the loss is %+v, want it to name %q", loss, want)
	}
	for _, c := range []struct {
		named  string
		impact site.Impact
		says   string
	}{
		{"", first.Impact, "was not planned to destroy"},
		{"", site.ImpactDestructive, "the approval does not name the disk root"},
		{site.DisksUnknown, site.ImpactDestructive, "the approval does not name the disk root"},
		{"data 16MiB in the pool default", site.ImpactDestructive, "the approval does not name the disk root"},
	} {
		b.step.Disks, b.step.Impact = c.named, c.impact
		if err := b.install(t.Context()); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a step that names %q: %v", c.named, err)
		}
		if now, err := os.Stat(b.disk("root.qcow2")); err != nil || !os.SameFile(now, old) {
			t.Errorf("a step that names %q: the disk is another: %v", c.named, err)
		}
	}
	b.step.Disks = loss.Disks
	b.mustInstall()
	b.installed()
}

// A disk that is replaced in another pool is erased where it was.
func TestInstallNamesTheDiskInItsOldPool(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	b.pool(t, "more")
	root := b.n.Virtual.Disks["root"]
	root.Pool = "more"
	b.n.Virtual.Disks["root"] = root
	b.step.Generation = 2
	b.mayErase()
	if want := "root 64MiB in the pool default"; b.step.Disks != want {
		t.Errorf("the step names %q, want %q", b.step.Disks, want)
	}
	if cuts := b.cutAtEach(b.step); cuts < 3 { // the new disk, which no approval names, is made once more
		t.Errorf("it was cut %d times", cuts)
	}
	b.installed()
	if _, err := os.Stat(filepath.Join(b.Folder, "var/lib/libvirt/more", filepath.Base(b.disk("root.qcow2")))); err != nil || b.has("root") {
		t.Errorf("in the old pool: %v; in the new one: %v", b.volumes(), err)
	}
}
