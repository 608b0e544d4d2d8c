package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The question whether a node may be removed from the records is not answered for a node that was put under
// quarantine since: its quarantine would be forgotten with it.
func TestRemovalUnderQuarantine(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		h := &hooked{Driver: w.fleet.Driver()}
		w.bmcs = h
		w.commit(w.design("a", "b"))
		w.up()
		w.after(5 * time.Minute)
		w.commit(w.design("b"))
		w.after(2 * time.Minute)
		read := w.node("a")
		if read.Approve == "" {
			t.Fatalf("no removal to approve: %+v", read)
		}
		slow := make(chan struct{})
		h.hold.Store(&slow) // its BMC answers slowly from here on
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", Reason: "compromised"})
		w.after(5 * time.Second)
		said, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Node: "a", By: "eve", Shown: read.Approval})
		if !errors.Is(err, site.ErrRefused) {
			t.Errorf("removed under quarantine: %q, %v", said, err)
		}
		close(slow)
		w.after(10 * time.Minute)
		if p := w.fleet.Machine("a").Power(); p != "off" {
			t.Errorf("a is %s 10 minutes after its quarantine", p)
		}
	}, "a", "b")
}

// An installation whose approval was taken back before its first request does not switch the machine off.
func TestPowerOffAfterTheApprovalWasTakenBack(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		began, goOn := make(chan struct{}), make(chan struct{})
		off := false
		h := &hooked{Driver: w.fleet.Driver()}
		h.apply = func(ctx context.Context, s site.Step, may driver.Permit) (bool, error) {
			if s.Action != site.ActionInstall {
				return false, nil
			}
			close(began)
			<-goOn // a slow BMC is read: who it is, what it has inserted
			// As sinks/redfish/install.go (load): switchOff goes through driver.Interrupt and comes before may.Ask.
			if err := driver.Interrupt(ctx, func() error { off = true; return nil }); err != nil {
				return true, err
			}
			return true, may.Ask(ctx, s)
		}
		w.bmcs = h
		w.waitsForApproval("a")
		w.approve()
		<-began
		w.do(site.Order{Verb: site.VerbDisapprove, Node: "a"})
		close(goOn)
		w.after(2 * time.Second)
		if off {
			t.Error("the machine was switched off for an installation whose approval had been taken back")
		}
		h.apply = nil
	}, "a")
}

// hooked is a driver of BMCs whose looks and steps can be held up.
type hooked struct {
	driver.Driver
	hold  atomic.Pointer[chan struct{}] // looks wait for it
	apply func(ctx context.Context, s site.Step, may driver.Permit) (done bool, err error)
}

func (h *hooked) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := h.Driver.Open(ctx, e, s)
	return hookedMachine{m, h}, err
}

type hookedMachine struct {
	driver.Machine
	h *hooked
}

func (m hookedMachine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if c := m.h.hold.Load(); c != nil {
		select {
		case <-*c:
		case <-ctx.Done():
			return site.Observed{}, ctx.Err()
		}
	}
	return m.Machine.Observe(ctx, n, facets)
}

func (m hookedMachine) Apply(ctx context.Context, s site.Step, n *site.Node, may driver.Permit) error {
	if m.h.apply != nil {
		if done, err := m.h.apply(ctx, s, may); done {
			return err
		}
	}
	return m.Machine.Apply(ctx, s, n, may)
}
