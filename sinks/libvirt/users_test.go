package libvirt

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// other is a machine of a person's, with a disk.
func (b *bench) other(name, source string) {
	b.t.Helper()
	_, err := b.rpc.DomainDefineXMLFlags(`<domain type='qemu'><name>`+name+`</name><memory unit='MiB'>16</memory><os><type arch='x86_64' machine='q35'>hvm</type></os>
		<devices><disk type='`+kindOf(source)+`' device='disk'><driver name='qemu' type='qcow2'/><source `+source+`/><target dev='vda' bus='virtio'/></disk></devices></domain>`, 0)
	if err != nil {
		b.t.Fatal(err)
	}
}

func kindOf(source string) string {
	kind, _, _ := strings.Cut(source, "=")
	if kind == "pool" {
		return "volume"
	}
	return kind
}

// over makes a qcow2 file that builds on another one.
func (b *bench) over(pool, name, base string) {
	b.t.Helper()
	file := strings.Replace(b.file(name), "/default/", "/"+pool+"/", 1)
	if out, err := exec.Command("qemu-img", "create", "-f", "qcow2", "-u", "-b", base, "-F", "qcow2", file, "64M").CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
}

// What others need of a machine's disks is not deleted.
func TestUnused(t *testing.T) {
	for name, c := range map[string]struct {
		by   func(b *bench, volume, path string)
		says string
	}{
		"nobody":          {func(*bench, string, string) {}, ""},
		"by its path":     {func(b *bench, _, path string) { b.other("theirs", "file='"+path+"'") }, "the machine theirs on"},
		"by its name":     {func(b *bench, name, _ string) { b.other("theirs", "pool='default' volume='"+name+"'") }, "the machine theirs on"},
		"another's":       {func(b *bench, _, path string) { b.other("theirs", "file='"+path+"2'") }, ""},
		"a volume":        {func(b *bench, _, path string) { b.over("default", "clone.qcow2", path) }, "clone.qcow2 of the pool default builds on"},
		"in another pool": {func(b *bench, _, path string) { b.pool(t, "more"); b.over("more", "clone.qcow2", path) }, "clone.qcow2 of the pool more builds on"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "qcow2")
			m := b.machine()
			d, err := m.existing(t.Context(), b.conn())
			if err != nil {
				t.Fatal(err)
			}
			v, _ := d.owner.disk("data")
			c.by(b, v.Name, "/var/lib/libvirt/default/"+v.Name)
			switch err := m.unused(t.Context(), b.conn(), d, v); {
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says != "" && (!errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.says)):
				t.Errorf("got %v", err)
			}
		})
	}
}
