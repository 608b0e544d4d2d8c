package engine

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// changesAccount says whether a request changes an account.
func changesAccount(c lab.Call) bool {
	return c.Method == "PATCH" && strings.Contains(c.Path, "Accounts/")
}

// logsIn says whether a request opens a session.
func logsIn(c lab.Call) bool { return c.Method == "POST" && strings.Contains(c.Path, "Sessions") }

// A commit that raises the epoch while the passwords of the epoch before are being set changes nothing of what is recorded
// of these.
func TestCommitWhilePasswordsAreSet(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.designs("bmc-own", 2, own)
	var once atomic.Bool
	b.r.Hold(func(_ int, c lab.Call) {
		if changesAccount(c) && once.CompareAndSwap(false, true) {
			b.designs("bmc-own", 3, own)
			b.e.mu.Lock()
			b.e.design = b.design
			b.w.redesignLocked(b.design.Nodes[b.name], false)
			b.e.mu.Unlock()
		}
	})
	b.reaches("merged meanwhile", 3, 0)
	b.r.Hold(nil)
	if c := b.m.Counts(); !once.Load() || c.Denied > 0 {
		t.Errorf("merged: %v, %d denied", once.Load(), c.Denied)
	}
}

// A BMC that says yes and keeps a password that nobody knows: it was cut, or put through rules of its own. Each of
// the two passwords is denied once at most.
func TestBMCThatKeepsAnotherPassword(t *testing.T) {
	for _, p := range []string{"xcc", "idrac9", "plain"} {
		b := owned(t, newRotationRack(t, p, 1))
		var armed atomic.Bool
		b.r.Hold(func(_ int, c lab.Call) {
			if changesAccount(c) {
				armed.Store(true)
			}
			if armed.Load() && logsIn(c) {
				b.m.SetAccount("slipway", "Cut-off-1", "Administrator")
			}
		})
		b.designs("bmc-own", 2, own)
		var s site.NodeStatus
		for range 4 {
			s = b.settle()
		}
		b.r.Hold(nil)
		if c := b.m.Counts(); c.Denied > 2 || c.Lockouts > 0 || !strings.Contains(s.Reason+s.Cause, "slipway retry") {
			t.Errorf("%s: %d were denied, %d locks: %s: %s", p, c.Denied, c.Lockouts, s.State, s.Reason)
		}
		if p != "xcc" {
			continue // it may have locked by now: two were denied, and a person's word sends one more
		}
		b.m.SetAccount("slipway", b.passwordOf("slipway", 2), "Administrator")
		b.retry()
		b.reaches("a person has set the one that was offered", 2, 0)
	}
}

// retry has a person say that passwords are sent again.
func (b *bay) retry() {
	b.t.Helper()
	b.start()
	b.must(b.w.save(b.t.Context(), func(r *site.Recorded) {
		r.Attempts, r.NoEffect = nil, nil
		retryLogins(r)
	}))
	b.memory = b.w.job().memory
}

// A BMC that takes a password late, or takes one and says that it has refused it: what was sent is not forgotten
// before a login shows what the account has.
func TestPasswordThatWasTakenAllTheSame(t *testing.T) {
	t.Run("late", func(t *testing.T) {
		b := owned(t, newRotationRack(t, "plain", 1))
		var patches atomic.Int32
		b.r.Hold(func(_ int, c lab.Call) {
			switch {
			case changesAccount(c):
				if b.has("monitor").Password == b.passwordOf("monitor", 2) && patches.Add(1) >= 2 {
					b.m.SetAccount("slipway", b.passwordOf("slipway", 2), "Administrator")
					b.m.SetFault(lab.Fault{Kind: lab.FaultForbidden, Times: 1})
				}
			case logsIn(c) && patches.Load() == 1:
				b.m.SetAccount("slipway", b.passwordOf("slipway", 1), "Administrator") // not yet
			}
		})
		b.designs("bmc-own", 2, own)
		b.settle()
		b.r.Hold(nil)
		b.m.SetFault(lab.Fault{})
		b.retry()
		b.reaches("a person has said so", 2, 0)
		if c := b.m.Counts(); c.Lockouts > 0 || c.Denied > 2 {
			t.Errorf("%d denied, %d locks", c.Denied, c.Lockouts)
		}
	})
	t.Run("refused", func(t *testing.T) {
		b := owned(t, newRotationRack(t, "plain", 1))
		b.r.Hold(func(_ int, c lab.Call) {
			if changesAccount(c) && b.has("monitor").Password == b.passwordOf("monitor", 2) && b.has("slipway").Password == b.passwordOf("slipway", 1) {
				b.m.SetAccount("slipway", b.passwordOf("slipway", 2), "Administrator")
				b.m.SetFault(lab.Fault{Kind: lab.FaultForbidden, Times: 1})
			}
		})
		b.designs("bmc-own", 2, own)
		b.reaches("it was set", 2, 0)
		b.r.Hold(nil)
		if c := b.m.Counts(); c.Denied > 1 {
			t.Errorf("%d denied", c.Denied)
		}
	})
}

// A password that was offered is not given up for the next one before a login shows which one the account has.
func TestNextPasswordWaitsForTheOneThatWasOffered(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.designs("bmc-own", 2, own)
	b.start()
	// The daemon was killed right after the password was set, and its session goes on.
	v, err := b.w.passwords(b.design.Nodes[b.name]).value("bmc-own", site.Derived{Account: "slipway", Epoch: 2})
	b.must(err)
	b.must(b.w.passwords(b.design.Nodes[b.name]).Begin(t.Context(), "slipway", v))
	b.memory = b.w.job().memory
	b.m.SetAccount("slipway", b.passwordOf("slipway", 2), "Administrator")
	b.designs("bmc-own", 3, own)
	b.reaches("raised once more", 3, 0)
	if c := b.m.Counts(); c.Denied > 1 || c.Lockouts > 0 {
		t.Errorf("%d denied, %d locks", c.Denied, c.Lockouts)
	}
}

// Records that were put back from a backup learn from the status branch what was done since, and what they seal is not
// older than what is published.
func TestOldRecordsLearnFromTheStatusBranch(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	old := b.memory
	b.designs("bmc-own", 2, own)
	b.reaches("raised", 2, 0)
	b.memory = old
	b.start()
	b.e.mu.Lock()
	got := b.w.sealLocked()
	b.e.mu.Unlock()
	if got == nil || got.Passwords["slipway"].Highest != 2 || got.Passwords["slipway"].Proven.Epoch != 2 {
		t.Errorf("published anew, before the node was opened: %+v", got)
	}
	b.reaches("with the records of before", 2, 0)
	if c := b.m.Counts(); c.Denied > 0 {
		t.Errorf("%d denied", c.Denied)
	}
	if p := b.sealed.Passwords["slipway"]; p.Highest != 2 || p.Proven.Epoch != 2 {
		t.Errorf("published then: %+v", p)
	}
}

// A machine that was not looked at yet since the host was lost keeps what was published of its passwords.
func TestSealOutlivesTheHost(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	s := *b.sealed
	s.HostKeys, s.Signature = []string{"ssh-ed25519 AAAA"}, ""
	signature, err := b.key.Sign(sitekey.ForStatus, s)
	b.must(err)
	s.Signature = signature
	b.sealed = &s
	b.lose()
	b.start()
	b.e.mu.Lock()
	got := b.w.sealLocked()
	b.e.mu.Unlock()
	if got == nil || len(got.Passwords) != 2 || got.BMC == nil || got.Passwords["slipway"] != s.Passwords["slipway"] {
		t.Errorf("published anew: %+v", got)
	}
}

// A form or a site key that is another one at the same epoch replaces no password, and the node is not in-sync.
func TestOtherPasswordOfTheSameEpoch(t *testing.T) {
	t.Run("form", func(t *testing.T) {
		b := owned(t, newRotationRack(t, "plain", 1))
		b.designs("bmc-own", 1, own)
		b.design.Credentials["bmc-own"].Form = "ipmi-1.5"
		n := b.design.Nodes[b.name]
		n.References = b.design.ReferencesOf(n)
		s := b.settle()
		if s.State == site.InSync || !strings.Contains(s.Reason, "raise the epoch to 2") || b.has("slipway").Password != b.passwordOf("slipway", 1) {
			t.Errorf("%s: %s", s.State, s.Reason)
		}
		b.design.Credentials["bmc-own"].Epoch = 2
		n.References = b.design.ReferencesOf(n)
		if s = b.settle(); s.State != site.InSync || b.memory.Recorded.Accounts["slipway"].ProvenAs.Form != "ipmi-1.5" {
			t.Errorf("raised: %s: %s", s.State, s.Reason)
		}
	})
	t.Run("site key", func(t *testing.T) {
		b := owned(t, newRotationRack(t, "plain", 1))
		b.designs("bmc", 1, nil)
		b.reaches("back to the factory's", 1, 0)
		b.key = newRotationRack(t, "xcc", 1).key
		s := b.settle()
		if s.State == site.InSync || !strings.Contains(s.Reason, "raise the epoch to 2") || b.has("slipway").Password != b.passwordOf("slipway", 1) {
			t.Errorf("%s: %s", s.State, s.Reason)
		}
	})
}

// The UUID that the design has for a machine is another one, as after an update of its firmware: nothing is sent, and the
// sentence says what to write.
func TestMachineWithAnotherUUID(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	before, was := b.m.Counts(), b.id
	b.id.UUID = "3d1c0000-0000-4000-8000-0000000000ff"
	b.designs("bmc-own", 1, own)
	s := b.settle()
	if s.State == site.InSync || b.m.Counts().Sessions != before.Sessions || b.m.Counts().Denied != 0 {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
	b.id = was
	b.designs("bmc-own", 1, own)
	b.reaches("the design is right again", 1, 0)
}
