package libvirt

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// An image that a person deleted does not count while it is fetched again,
// though what made it count is left.
func TestImageDeleted(t *testing.T) {
	b := newBench(t, "raw")
	b.mustInstall()
	s, err := b.machine().storage(t.Context(), b.conn(), "default")
	if err != nil {
		t.Fatal(err)
	}
	v, there, err := s.image(t.Context(), b.step.Image)
	if err != nil || !there {
		t.Fatal(there, err)
	}
	if err := os.Remove(b.file(v.Name)); err != nil {
		t.Fatal(err)
	}
	b.volumes() // refreshes
	b.server.cut = 150000
	if _, err := b.machine().fetches.image(t.Context(), s, b.step.Image); !errors.Is(err, driver.ErrUnreachable) {
		t.Fatalf("got %v", err)
	}
	if _, counts, err := s.image(t.Context(), b.step.Image); err != nil || counts {
		t.Errorf("a part of the image counts: %t, %v", counts, err)
	}
}

// Two daemons that fetch one image into one pool write two volumes, and each
// counts for itself.
func TestImageByTwo(t *testing.T) {
	b := newBench(t, "raw")
	i := b.step.Image
	type daemon struct {
		s    *storage
		f    *fetch
		from *bufio.Reader
		v    golibvirt.StorageVol
	}
	begin := func(name string) *daemon {
		d := New(impatient)
		m := b.open(t, d, name).(*machine)
		c, err := m.connection(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.storage(t.Context(), c, "default")
		if err != nil {
			t.Fatal(err)
		}
		f := m.fetches.of(place{s.h.address, "default", i.SHA256})
		f.url = i.URL
		body, err := f.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(body.stop)
		from := bufio.NewReaderSize(body, mostPiece)
		v, err := f.prepare(t.Context(), s, i, from)
		if err != nil {
			t.Fatal(err)
		}
		return &daemon{s, f, from, v}
	}
	put := func(d *daemon, n int64) {
		t.Helper()
		if err := d.f.put(t.Context(), d.s, d.v, io.LimitReader(d.from, n)); err != nil && n == d.f.size {
			t.Fatal(err)
		}
	}
	one := begin("vm-1")
	put(one, 1<<20)
	two := begin("vm-2")
	put(one, one.f.size)
	if err := one.f.verify(t.Context(), one.s, one.v, i); err != nil {
		t.Fatal(err)
	}
	if got := b.image(); got != one.v.Name || got == two.v.Name {
		t.Errorf("the image is %s; the daemons wrote %s and %s", got, one.v.Name, two.v.Name)
	}
	if got, err := os.ReadFile(b.file(b.image())); err != nil || string(got) != string(b.server.content) {
		t.Errorf("the image has %d bytes that are not the server's; %v", len(got), err)
	}
	b.mustInstall()
	if out, err := exec.Command("qemu-img", "info", "-U", b.disk("root.qcow2")).CombinedOutput(); err != nil || !strings.Contains(string(out), one.v.Name) {
		t.Errorf("the disk builds on another image: %s, %v", out, err)
	}
}
