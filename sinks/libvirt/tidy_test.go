package libvirt

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestTidy(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	used, _, _, _ := imageVolume(b.image())
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
		return imagePrefix + sum + "-" + strings.Repeat(letter, 13)
	}
	age(b.image(), 48*time.Hour)
	for _, letter := range []string{"a", "b", "c"} {
		age(name(letter)+verified, 48*time.Hour)
	}
	age(name("a")+".qcow2", 2*time.Hour)    // goes
	age(name("b")+".qcow2", 10*time.Minute) // new
	age(name("c")+".raw", 2*time.Hour)      // a person's machine has it in its definition
	age(name("d")+".qcow2", 2*time.Hour)    // there in part
	age(name("e")+".qcow2", 25*time.Hour)   // goes
	left := newStem(b.step.Image.SHA256)    // goes: of a digest that is needed, and there in part
	age(left+".qcow2", 25*time.Hour)
	age(imagePrefix+"of-mine.qcow2", 48*time.Hour)
	if _, err := b.rpc.DomainDefineXMLFlags(`<domain type='qemu'><name>other</name><memory unit='MiB'>16</memory><os><type arch='x86_64' machine='q35'>hvm</type></os>
		<devices><disk type='file' device='disk'><source file='/var/lib/libvirt/default/`+name("c")+`.raw'/><target dev='vda' bus='virtio'/></disk></devices></domain>`, 0); err != nil {
		t.Fatal(err)
	}
	b.volumes() // refreshes
	b.step.Generation = 2
	b.mayErase()
	b.mustInstall()
	for what, want := range map[string]bool{
		used + ".qcow2": true, used + verified: true, name("b"): true, name("c") + ".raw": true, name("d"): true, "of-mine": true,
		left: false, name("a"): false, name("e"): false,
	} {
		if got := b.has(what); got != want {
			t.Errorf("%s is there: %t, want %t", what, got, want)
		}
	}
	age(b.image(), 48*time.Hour)
	must(t, b.machine(), b.n, site.FacetDefinition, site.ActionZeroize)
	if b.has(used) {
		t.Errorf("the image is kept though no machine needs it: %v", b.volumes())
	}
}

// An image that a volume of another pool builds on is kept, whoever's that is.
func TestTidyOtherPool(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	name := b.image()
	b.pool(t, "more")
	b.over("more", "clone.qcow2", "/var/lib/libvirt/default/"+name)
	if err := os.Chtimes(b.file(name), time.Now(), time.Now().Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	must(t, b.machine(), b.n, site.FacetDefinition, site.ActionZeroize)
	if got := b.image(); got != name {
		t.Errorf("the image is %s, want %s", got, name)
	}
}

// An image that another daemon needs by the time it is to be deleted counts as
// before.
func TestTidyMeanwhile(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	name := b.image()
	stem, sum, end, _ := imageVolume(name)
	s, err := b.machine().storage(t.Context(), b.conn(), "default")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.discard(t.Context(), []kept{{stem, sum, end, true}}); err != nil { // the machine notes it
		t.Fatal(err)
	}
	if got := b.image(); got != name {
		t.Errorf("the image is %s, want %s", got, name)
	}
}

// What came of an image that nobody wants any more is forgotten.
func TestForgotten(t *testing.T) {
	f := newFetches(time.Second)
	f.of(place{sha256: "wanted"})
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{keepPartial - time.Minute, true}, {keepPartial + time.Minute, false}} {
		if got := f.underWay(time.Now().Add(c.after))["wanted"]; got != c.want {
			t.Errorf("after %s it is under way: %t, want %t", c.after, got, c.want)
		}
	}
	one := f.of(place{sha256: "wanted"})
	one.turn <- struct{}{}
	if !f.underWay(time.Now().Add(2 * keepPartial))["wanted"] {
		t.Error("one that is fetched right now is forgotten")
	}
}
