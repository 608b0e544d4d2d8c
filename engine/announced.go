package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A bootstrap host that is built again knows of the passwords of BMCs what the status branch says: the one that was proven
// and the one that may have been set since. So the status branch names the next password of the account that Slipway logs
// in with before that password is sent. Otherwise the BMC could have one that no host knows of: the design may say a later
// epoch by the time that the next host reads it.
//
// Other accounts do not need this: Slipway sets their passwords anew, over its own login.

// branchWritten wakes the workers that wait for the status branch.
const branchWritten topic = "status branch"

// announcing is whether the daemon writes a status branch that others can trust.
func (e *Engine) announcing() bool { return e.Branch != nil && e.Key != nil }

// loginPassword is the derived password that the design has for the account by which Slipway logs in to a node's BMC; ok
// is false if that has none.
func loginPassword(n *site.Node) (d site.Derived, ok bool) {
	login, derived := n.References.Derived[n.Endpoints[site.Manager].Credential]
	if !derived {
		return site.Derived{}, false
	}
	d, ok = n.References.Derived[n.BMC.Accounts[login.Account].Credential]
	return d, ok && d.Account == login.Account
}

// nextPassword is the derived password that follows the one that Slipway logs in with to a node's BMC; ok is false if it has
// that of the design, or the design has none that could follow. It is also false while it is not known whether the one
// before was set: only the step tells.
func nextPassword(n *site.Node, r site.Recorded) (d site.Derived, ok bool) {
	d, ok = loginPassword(n)
	use, none := r.Accounts[d.Account], site.Derived{}
	if !ok || !use.IsOf(n.DerivedFrom()) || use.ProvenAs == none || use.OfferedAs != none {
		return d, false
	}
	return d, d != use.ProvenAs && d.Epoch >= use.Highest && d.Epoch <= use.Highest+mostRaised
}

// announce adds the next password of a node to what is published of the present ones. It has no digest: nothing was sent.
func announce(all map[string]site.SealedPassword, n *site.Node, r site.Recorded) {
	if d, ok := nextPassword(n, r); ok {
		p := all[d.Account]
		p.Offered = d
		all[d.Account] = p
	}
}

// isAnnouncedLocked reports whether the status branch names a password of a node's account, beside the one that was proven last.
func (e *Engine) isAnnouncedLocked(n *site.Node, use site.AccountUse, d site.Derived) bool {
	if e.Anchor != nil && e.anchor.compared != e.book.Records {
		return false // nobody has read what the branch says
	}
	p, there := e.onBranch[n.Name][d.Account]
	return there && p.Proven == use.ProvenAs && p.Offered == d && (p.From == "" || p.From == n.DerivedFrom())
}

// announceGate holds the step that replaces the password by which Slipway logs in to a BMC until the status branch names the
// next one. That is so in an incident too: what was read on a machine is the password of its own BMC, which is replaced after
// its release, and a BMC that nobody can log in to cannot be switched off.
func (e *Engine) announceGate(w *worker, s site.Step) *held {
	d, ok := nextPassword(w.node, w.memory.Recorded)
	if !e.announcing() || !ok || !slices.Contains(s.Rotates, d.Account) || e.isAnnouncedLocked(w.node, w.memory.Recorded.Accounts[d.Account], d) {
		return nil
	}
	e.waitLocked(w, branchWritten)
	h := &held{state: site.Blocked, release: "the next write of the status branch; nothing to do",
		sentence: fmt.Sprintf("Slipway sets the password with epoch %d of account %s only after the status branch names it, which it does not do yet; otherwise a host that replaces this one could not log in to the BMC", d.Epoch, d.Account)}
	if p, failed := e.problems[branchProblem]; failed {
		h.detail, h.release = p.What, "a write of the status branch that succeeds: Slipway keeps trying"
	}
	return h
}

// mayOffer says why a password is not sent although its step may run, or returns nil: the design has changed since, or a
// login has shown only now that the account does not have the one before. Before is what was recorded of the account before
// this password.
func (p accountPasswords) mayOffer(before site.AccountUse, d site.Derived) error {
	e := p.w.e
	login, ok := loginPassword(p.node)
	if !e.announcing() || !ok || login.Account != d.Account || before.ProvenAs == (site.Derived{}) || d == before.ProvenAs {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isAnnouncedLocked(p.node, before, d) {
		return nil
	}
	return fmt.Errorf("%w: the status branch does not name the password with epoch %d of account %s yet, so Slipway did not send it", driver.ErrInterrupted, d.Epoch, d.Account)
}

// readBranchLocked notes what was read of the status branch.
func (e *Engine) readBranchLocked(all map[string]site.Sealed) {
	e.onBranch = map[string]map[string]site.SealedPassword{}
	for node, s := range all {
		if e.isSealedLocked(s) {
			e.onBranch[node] = s.Passwords
		}
	}
}

// toBranch returns the report that is to be written to the status branch. What the branch has of the passwords that differ in
// it is not known from now on, until the write has succeeded.
func (e *Engine) toBranch() site.Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		w.status.Sealed = w.sealLocked()
	}
	r := e.reportLocked()
	r.RevocationLists = e.listsForBranchLocked()
	maps.DeleteFunc(e.onBranch, func(node string, _ map[string]site.SealedPassword) bool {
		return e.workers[node] == nil // its file goes
	})
	for _, n := range r.Status.Nodes {
		e.beginBranchLocked(n)
	}
	return r
}

// beginBranchLocked notes that the status of a node is about to be written to the status branch.
func (e *Engine) beginBranchLocked(n site.NodeStatus) {
	if !maps.Equal(e.onBranch[n.Name], passwordsIn(n)) {
		delete(e.onBranch, n.Name)
	}
}

// noteBranch notes what was written of some nodes to the status branch, and wakes those that waited for it.
func (e *Engine) noteBranch(nodes ...site.NodeStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range nodes {
		e.onBranch[n.Name] = passwordsIn(n)
	}
	e.wakeLocked(branchWritten)
}

// passwordsIn are the passwords that the sealed part of a node's status names.
func passwordsIn(n site.NodeStatus) map[string]site.SealedPassword {
	if n.Sealed == nil {
		return nil
	}
	return n.Sealed.Passwords
}
