package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// cutAtEach takes a step with a new handle again and again, cut off after one
// write more each time, as if the daemon had been killed then, until it gets
// through.
func (b *bench) cutAtEach(step site.Step) int {
	b.t.Helper()
	for cuts := 0; ; cuts++ {
		from := len(b.Writes())
		ctx, cancel := context.WithCancel(b.t.Context())
		done := make(chan error, 1)
		d := New(impatient) // what the daemon knew is lost
		m := b.open(b.t, d, "vm-1").(*machine)
		m.Seed(seedOf("#cloud-config\n"))
		go func() { done <- m.Apply(ctx, step, b.n, drivertest.Permitted) }()
		err := b.cut(done, cancel, func() bool { return len(b.Writes())-from > cuts })
		cancel()
		if err == nil {
			return cuts
		}
		if !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), context.Canceled.Error()) {
			b.t.Fatalf("after %d cuts: %v", cuts, err)
		}
		step.Resumed = true
	}
}

// cut waits for a step, and cancels it when it is time.
func (b *bench) cut(done <-chan error, cancel func(), now func() bool) error {
	limit := time.After(time.Minute)
	for {
		select {
		case err := <-done:
			return err
		case <-limit:
			b.t.Fatal("the step does not end")
		case <-time.After(5 * time.Millisecond):
			if now() {
				cancel()
			}
		}
	}
}

func TestInstallCutAtEachWrite(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("again %t", again), func(t *testing.T) {
			b := newBench(t, "qcow2")
			boots := 1
			if again {
				b.mustInstall()
				boots, b.step.Generation = 2, 2
				b.mayErase()
			}
			cuts := b.cutAtEach(b.step)
			if cuts < 3 {
				t.Errorf("it was cut %d times", cuts)
			}
			b.installed()
			if got := b.boots(); got != boots {
				t.Errorf("the machine was started %d times, want %d", got, boots)
			}
		})
	}
}

// installed fails unless the machine runs from its newest generation.
func (b *bench) installed() {
	b.t.Helper()
	m := b.machine()
	settled(b.t, m, b.n, site.FacetDefinition, site.FacetDisks)
	d, err := m.existing(b.t.Context(), b.conn())
	if err != nil || d.owner.Generation != b.step.Generation || d.owner.Installing != 0 || !d.active() {
		b.t.Errorf("noted: %+v, %v", d, err)
	}
	if !b.has("data.qcow2") {
		b.t.Errorf("the disk of data is gone: %v", b.volumes())
	}
}

// TestInstallCutAnywhere kills the daemon, or the hypervisor's, at moments all
// over an installation.
func TestInstallCutAnywhere(t *testing.T) {
	const cuts = 5
	for _, kill := range []string{"daemon", "libvirtd"} {
		t.Run(kill, func(t *testing.T) {
			b := newBench(t, "qcow2")
			began := time.Now()
			b.mustInstall()
			took := time.Since(began)
			for i := range cuts {
				b.step.Generation, b.step.Resumed = i+2, false
				b.mayErase()
				b.cutAt(kill, took*time.Duration(i)/cuts)
				b.installed()
			}
		})
	}
}

// cutAt begins an installation, ends it after a time, and takes it up again.
func (b *bench) cutAt(kill string, after time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	done := make(chan error, 1)
	m := b.machine()
	m.Seed(seedOf("#cloud-config\n"))
	go func() { done <- m.Apply(ctx, b.step, b.n, drivertest.Permitted) }()
	<-time.After(after)
	if kill == "libvirtd" {
		b.Kill()
		b.Continue()
		b.dial(b.t)
	}
	cancel()
	if err := <-done; err == nil {
		return
	}
	b.step.Resumed = true
	b.d = New(impatient)
	b.mustInstall()
}

func TestZeroizeCutAtEachWrite(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	if cuts := b.cutAtEach(approved(t, b.machine(), b.n, stepOf(b.n, site.FacetDefinition, site.ActionZeroize))); cuts < 3 {
		t.Errorf("it was cut %d times", cuts)
	}
	if b.has("slipway-vm-1") {
		t.Errorf("left: %v", b.volumes())
	}
}
