package libvirt

import (
	"os"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestTidy(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	used := b.step.Image.SHA256
	age := func(name string, by time.Duration) {
		t.Helper()
		file := b.file(name)
		if _, err := os.Stat(file); err != nil {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(file, time.Now().Add(-by), time.Now().Add(-by)); err != nil {
			t.Fatal(err)
		}
	}
	name := func(letter string) string {
		sum := ""
		for len(sum) < 64 {
			sum += letter
		}
		return imagePrefix + sum
	}
	age(imageName(b.step.Image), 48*time.Hour)
	for _, letter := range []string{"a", "b", "c"} {
		age(name(letter)+verified, 48*time.Hour)
	}
	age(name("a")+".qcow2", 2*time.Hour)    // goes
	age(name("b")+".qcow2", 10*time.Minute) // new
	age(name("c")+".raw", 2*time.Hour)      // a person's machine has it in its definition
	age(name("d")+".qcow2", 2*time.Hour)    // there in part
	age(name("e")+".qcow2", 25*time.Hour)   // goes
	age(imagePrefix+"of-mine.qcow2", 48*time.Hour)
	if _, err := b.rpc.DomainDefineXMLFlags(`<domain type='qemu'><name>other</name><memory unit='MiB'>16</memory><os><type arch='x86_64' machine='q35'>hvm</type></os>
		<devices><disk type='file' device='disk'><source file='/var/lib/libvirt/default/`+name("c")+`.raw'/><target dev='vda' bus='virtio'/></disk></devices></domain>`, 0); err != nil {
		t.Fatal(err)
	}
	b.volumes() // refreshes
	b.step.Generation, b.step.Impact = 2, site.ImpactDestructive
	b.mustInstall()
	for what, want := range map[string]bool{
		used + ".qcow2": true, used + verified: true, name("b"): true, name("c") + ".raw": true, name("d"): true, "of-mine": true,
		name("a"): false, name("e"): false,
	} {
		if got := b.has(what); got != want {
			t.Errorf("%s is there: %t, want %t", what, got, want)
		}
	}
	age(imageName(b.step.Image), 48*time.Hour)
	must(t, b.machine(), b.n, site.FacetDefinition, site.ActionZeroize)
	if b.has(used) {
		t.Errorf("the image is kept though no machine needs it: %v", b.volumes())
	}
}
