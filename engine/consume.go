package engine

import (
	"context"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/site"
)

// used reports whether a step has already used its approval.
func used(r site.Recorded, s site.Step) bool {
	f := r.InFlight
	return f.Is(s) && f.Consumed && f.Step.Attempt == s.Attempt && f.Step.Records == s.Records
}

// approvalGate passes a destructive step only if a person approved the loss and
// nobody has used that approval.
func (e *Engine) approvalGate(w *worker, s site.Step) *held {
	loss, destroys := s.Destroys()
	switch {
	case !destroys || used(w.memory.Recorded, s):
		return nil
	case !e.adoptedLocked(loss):
		return &held{state: site.Blocked, release: "the machine reporting its UUID or serial number",
			sentence: fmt.Sprintf("%s waits until the machine says that it is %s", loss.Action, s.Machine)}
	case loss.Disks == "":
		return &held{state: site.Blocked, release: "the BMC reporting the disks of the machine",
			sentence: fmt.Sprintf("%s waits until Slipway has read the disks of the machine: an approval names them", loss.Action)}
	}
	if open := w.memory.Account.Open(loss); open != nil && e.ledgerNowLocked().Before(open.Expires) {
		return nil
	}
	_, digest := e.waitingLocked()
	return &held{state: site.Blocked, person: true, release: "`slipway approve " + digest + "`, or that digest in the design's approvals",
		sentence: fmt.Sprintf("%s of %s waits for approval: %s would be lost; see `slipway plan`, then `slipway approve`", loss.Action, loss.Target(), loss.Lost)}
}

// adoptedLocked reports whether the node was adopted as the machine that the loss
// names.
func (e *Engine) adoptedLocked(loss site.Loss) bool {
	w := e.workers[loss.Node]
	return w != nil && w.memory.Recorded.Adopted != nil && loss.Machine.Matches(w.memory.Recorded.Adopted.Machine)
}

// permit returns the check that lets a step destroy. It uses the approval at the
// last moment, before the first request after which data may be lost. Minutes
// have passed since the gates, so it checks their conditions again.
func (w *worker) permit(j job, s site.Step) driver.Permit {
	if s.Action == site.ActionStartAgent {
		return w.mayStart(j)
	}
	return func(ctx context.Context) error {
		used, err := w.consume(ctx, j, s)
		if err == nil && used {
			err = w.commit(ctx, j, s)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", driver.ErrNotPermitted, err)
		}
		return nil
	}
}

// commit lets a step that has just used its approval send the destructive
// request. It first publishes the use, which takes a while, so it checks again
// whether the step may go on. A step that may not, or that was interrupted, is
// dropped, and its approval stays used.
func (w *worker) commit(ctx context.Context, j job, s site.Step) error {
	e := w.e
	if w.publishUse(ctx) {
		e.checkAnchor(ctx)
		e.mu.Lock()
		h := e.mayDestroyLocked(w, j, s, false)
		e.mu.Unlock()
		if h != nil {
			return fmt.Errorf("%w: %s", site.ErrRefused, h.sentence)
		}
	}
	held := false
	err := w.save(ctx, func(r *site.Recorded) {
		if held = !r.InFlight.Is(s) || r.Quarantined != nil; held {
			return
		}
		f := *r.InFlight
		f.Sent = true
		r.InFlight = &f
	})
	if err == nil && held {
		err = errHeld
	}
	return err
}

// publishUse publishes the use of an approval before anything is destroyed. From
// then on, records that were set back or copied are known to be older. It reports
// whether it tried to publish. If Git does not answer, only the records have the
// use, and the status branch gets it once Git answers.
func (w *worker) publishUse(ctx context.Context) bool {
	e := w.e
	e.branching.Lock()
	defer e.branching.Unlock()
	status, ok := w.toSeal()
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, anchorTimeout)
	defer cancel()
	if err := e.Anchor.Seal(ctx, status); err != nil {
		e.Log.Warn("use of an approval not published", "node", w.name, "err", err)
		return true
	}
	e.noteBranch(status)
	return true
}

// toSeal returns the status whose sealed part is to be written to the status branch; ok is false if the daemon
// writes none. What the branch has of the node's passwords is not known from now on, until the write has succeeded.
func (w *worker) toSeal() (status site.NodeStatus, ok bool) {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Anchor == nil || e.ObserveOnly || w.status.Sealed == nil {
		return site.NodeStatus{}, false
	}
	e.beginBranchLocked(w.status)
	return w.status, true
}

// consume uses the approval of a step, and reports whether it was unused before.
// A step that was begun continues.
func (w *worker) consume(ctx context.Context, j job, s site.Step) (used bool, err error) {
	w.e.checkAnchor(ctx)
	w.e.booking.Lock()
	defer w.e.booking.Unlock()
	return w.consumeBooked(ctx, j, s)
}

// consumeBooked is consume with booking held.
func (w *worker) consumeBooked(ctx context.Context, j job, s site.Step) (used bool, err error) {
	w.saving.Lock()
	defer w.saving.Unlock()
	account, recorded, err := w.consumption(j, s)
	if err != nil || account == nil {
		return false, err
	}
	if err := w.e.Records.Consume(ctx, w.name, *account, *recorded); err != nil {
		return false, fmt.Errorf("record that an approval is used: %w", err)
	}
	w.setConsumed(*account, *recorded)
	return true, nil
}

// setConsumed takes over what was recorded when the approval was used.
func (w *worker) setConsumed(account site.Account, recorded site.Recorded) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.memory.Recorded = recorded
	w.e.setAccountLocked(w.name, account)
	w.e.touch()
}

// consumption returns what to record when the step uses its approval; nil if the
// step has used it before and continues.
func (w *worker) consumption(j job, s site.Step) (*site.Account, *site.Recorded, error) {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	begun := used(w.memory.Recorded, s) && w.memory.Recorded.InFlight.Sent
	if h := e.mayDestroyLocked(w, j, s, begun); h != nil {
		return nil, nil, fmt.Errorf("%w: %s", site.ErrRefused, h.sentence)
	}
	if begun {
		return nil, nil, nil
	}
	loss, _ := s.Destroys()
	account, err := ledger.Consume(e.accountLocked(w.name), loss, e.ledgerNowLocked(), e.termNumberLocked())
	if err != nil {
		return nil, nil, err
	}
	recorded := w.memory.Recorded
	if !recorded.InFlight.Is(s) {
		return nil, nil, fmt.Errorf("%w: the step is not recorded as begun", site.ErrRefused)
	}
	f := *recorded.InFlight
	f.Step, f.Consumed = s, true
	f.Step.Resumed = false
	recorded.InFlight = &f
	return &account, &recorded, nil
}

// mayDestroyLocked returns why a step that passed the gates may not destroy now.
// An installation that has used its approval is finished whatever the design says
// by now.
func (e *Engine) mayDestroyLocked(w *worker, j job, s site.Step, begun bool) *held {
	return first(
		func() *held {
			if begun {
				return nil
			}
			return w.supersededLocked(j, e.sameRulesLocked(w, j))
		},
		func() *held { return e.readOnlyGate(s) },
		func() *held { return e.termGate(w, s) },
		func() *held {
			if w.memory.Recorded.Quarantined != nil {
				return &held{sentence: "the node was quarantined in the meantime"}
			}
			return e.pausedLocked(w, j)
		},
		func() *held { return e.guestsGate(w, s) },
		func() *held { return e.approvalGate(w, s) },
		func() *held { return e.artifactGate(w, s) },
	)
}
