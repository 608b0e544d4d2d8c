package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// statusBranch is the status branch of a machine. It has what the last report that reached it had.
type statusBranch struct {
	b       *bay
	refuses bool // each push
	landed  bool // although the push says that it was refused
	during  func()
}

func (s *statusBranch) Report(_ context.Context, r site.Report) error {
	if s.during != nil {
		s.during()
	}
	if !s.refuses || s.landed {
		s.b.sealed = r.Status.Nodes[0].Sealed
	}
	if s.refuses {
		return errors.New("the server refused the push")
	}
	return nil
}

// withBranch is a machine whose daemon has a status branch, which has the password of epoch 1.
func withBranch(b *bay) *bay {
	b.branch = &statusBranch{b: b}
	return b
}

// The host is lost after any request of a rotation, and somebody raises the epoch again before the next host is there. The next
// host has Git, the status branch and the site key alone, and ends that rotation too, whether the branch could be written or not.
func TestProveHostLostBetweenTwoRaises(t *testing.T) {
	for i, personality := range lab.Personalities {
		t.Run(personality, func(t *testing.T) {
			t.Parallel()
			whole := withBranch(owned(t, newRotationRack(t, personality, 1)))
			whole.designs("bmc-own", 2, own)
			all, _ := whole.run(0)
			whole.reaches("not lost", 2, 0)
			losses, seed := lossesOf(all, i)
			for losses := range slices.Chunk(losses, 25) {
				r := newRotationRack(t, personality, len(losses))
				for _, l := range losses {
					b := withBranch(owned(t, r))
					b.designs("bmc-own", 2, own)
					b.run(l.request)
					b.branch.refuses = !l.prompt
					b.designs("bmc-own", 3, own)
					if l.prompt { // the daemon learns of it, and is killed too
						b.run(l.request)
						b.designs("bmc-own", 4, own)
					}
					b.lose()
					b.branch.refuses = false
					b.reaches(fmt.Sprintf("lost at request %d, once more: %v", l.request, l.prompt), map[bool]int{false: 3, true: 4}[l.prompt], 0)
					if c := b.m.Counts(); c.Denied > 2 {
						t.Errorf("%d logins were denied", c.Denied)
					}
					if t.Failed() {
						t.Fatalf("%+v of %d requests, SLIPWAY_SEED=%d", l, all, seed)
					}
				}
			}
		})
	}
}

// Nobody can write the status branch for a while. Slipway gives the BMC no next password then, and says what it waits for;
// the BMC has the one that a host that is built again knows. It goes on once the branch is written.
func TestNextPasswordWaitsForTheStatusBranch(t *testing.T) {
	b := withBranch(owned(t, newRotationRack(t, "plain", 1)))
	b.branch.refuses = true
	for epoch := 2; epoch <= 3; epoch++ {
		b.designs("bmc-own", epoch, own)
		s := b.settle()
		if b.has("slipway").Password != b.passwordOf("slipway", 1) || b.m.Counts().Denied > 0 {
			t.Fatalf("epoch %d: the BMC has another password than the status branch says: %s: %s", epoch, s.State, s.Reason)
		}
		if s.State != site.Blocked || s.Person || !strings.Contains(s.Reason, fmt.Sprintf("epoch %d", epoch)) || !strings.Contains(s.Reason, "status branch") ||
			!strings.Contains(s.Detail, "the server refused the push") || s.Release == "" {
			t.Errorf("epoch %d: %s: %s (%s); released by %q", epoch, s.State, s.Reason, s.Detail, s.Release)
		}
	}
	b.branch.refuses = false
	b.reaches("the branch is written again", 3, 0)
}

// What the status branch names is read from it after a restart: a rotation that it announced goes on although nobody can write
// the branch. The next one waits, since the branch does not name the password that the BMC has by then.
func TestAnnouncedPasswordIsReadFromTheStatusBranch(t *testing.T) {
	b := withBranch(owned(t, newRotationRack(t, "plain", 1)))
	b.designs("bmc-own", 2, own)
	b.start()
	if !b.e.tellBranch(t.Context()) || b.sealed.Passwords["slipway"].Offered.Epoch != 2 {
		t.Fatalf("not announced: %+v", b.sealed.Passwords)
	}
	b.branch.refuses = true
	b.reaches("announced before the restart", 2, 0)
	b.designs("bmc-own", 3, own)
	if s := b.settle(); s.State != site.Blocked || b.has("slipway").Password != b.passwordOf("slipway", 2) {
		t.Errorf("the next one: %s: %s", s.State, s.Reason)
	}
	b.lose()
	b.branch.refuses = false
	b.reaches("lost meanwhile", 3, 0)
}

// While a push is under way, or has failed, nobody knows what the status branch names: no password is sent by what it named
// before. A design that changes in between changes nothing of that.
func TestNoPasswordIsSentWhileTheStatusBranchIsWritten(t *testing.T) {
	b := withBranch(owned(t, newRotationRack(t, "plain", 1)))
	b.designs("bmc-own", 2, own)
	b.start()
	earlier := b.w.passwords(b.design.Nodes[b.name]) // of a step that is under way
	v, err := earlier.value("bmc-own", site.Derived{Account: "slipway", Epoch: 2})
	b.must(err)
	refused := func(when string) {
		t.Helper()
		was := b.w.job().memory.Recorded.Accounts["slipway"]
		if err := earlier.Begin(t.Context(), "slipway", v); !errors.Is(err, driver.ErrInterrupted) || !strings.Contains(err.Error(), "status branch") {
			t.Errorf("%s: %v", when, err)
		}
		if use := b.w.job().memory.Recorded.Accounts["slipway"]; use != was {
			t.Errorf("%s: recorded: %+v", when, use)
		}
	}
	refused("before any push")
	if !b.e.tellBranch(t.Context()) {
		t.Fatal("not written")
	}
	b.designs("bmc-own", 3, own)
	b.e.mu.Lock()
	b.e.design = b.design
	b.w.redesignLocked(b.design.Nodes[b.name], false)
	b.e.mu.Unlock()
	asked := 0
	b.branch.during = func() { asked++; refused("during the push of epoch 3") }
	b.branch.refuses, b.branch.landed = true, true
	b.e.tellBranch(t.Context())
	b.branch.during = nil
	refused("after a push without an answer")
	if named := b.sealed.Passwords["slipway"].Offered.Epoch; asked != 1 || named != 3 {
		t.Errorf("%d pushes; the branch names epoch %d", asked, named)
	}
	for range len(b.w.wake) {
		<-b.w.wake
	}
	b.e.mu.Lock()
	step := site.Step{Action: site.ActionAccounts, Facet: site.FacetAccounts, Rotates: []string{"slipway"}}
	h := b.e.announceGate(b.w, step)
	b.e.mu.Unlock()
	if h == nil || len(b.w.wake) != 0 {
		t.Fatalf("the gate is open: %+v", h)
	}
	b.branch.refuses = false
	b.e.tellBranch(t.Context())
	if len(b.w.wake) != 1 {
		t.Error("the node is not woken when the branch is written")
	}
	b.e.mu.Lock()
	h = b.e.announceGate(b.w, step)
	b.e.mu.Unlock()
	if h != nil {
		t.Errorf("it waits: %s", h.sentence)
	}
	refused("that of epoch 2, when the branch names that of epoch 3")
}

// A design comes into force and is published while a step of the design before records its password. That step does not send it.
func TestReportBetweenTheQuestionAndTheRecord(t *testing.T) {
	b := withBranch(owned(t, newRotationRack(t, "plain", 1)))
	b.designs("bmc-own", 2, own)
	b.start()
	b.e.tellBranch(t.Context())
	p := b.w.passwords(b.design.Nodes[b.name])
	v, err := p.value("bmc-own", site.Derived{Account: "slipway", Epoch: 2})
	b.must(err)
	was, given := b.w.job().memory.Recorded.Accounts["slipway"], b.e.deliveriesOf(b.name).is.Load()
	b.e.proving.Lock() // the step stops where it records the password
	done := make(chan error, 1)
	go func() { done <- p.Begin(t.Context(), "slipway", v) }()
	for b.e.deliveriesOf(b.name).is.Load() == given {
		runtime.Gosched()
	}
	b.designs("bmc-own", 3, own)
	b.e.mu.Lock()
	b.e.design = b.design
	b.w.redesignLocked(b.design.Nodes[b.name], false)
	b.e.mu.Unlock()
	b.e.tellBranch(t.Context())
	b.e.proving.Unlock()
	if err := <-done; !errors.Is(err, driver.ErrInterrupted) {
		t.Errorf("it goes on: %v", err)
	}
	if use := b.w.job().memory.Recorded.Accounts["slipway"]; use != was || b.sealed.Passwords["slipway"].Offered.Epoch != 3 {
		t.Errorf("recorded: %+v; the branch has %+v", use, b.sealed.Passwords["slipway"])
	}
	b.memory = b.w.job().memory
	b.reaches("the design of now", 3, 0)
}

// A daemon that takes over does not go by what it wrote or read before: another one has written since.
func TestTakeOverReadsWhatIsAnnounced(t *testing.T) {
	b := withBranch(owned(t, newRotationRack(t, "plain", 1)))
	b.designs("bmc-own", 2, own)
	b.start()
	b.e.tellBranch(t.Context())
	opens := func(what string, want bool) {
		t.Helper()
		b.e.mu.Lock()
		defer b.e.mu.Unlock()
		step := site.Step{Action: site.ActionAccounts, Facet: site.FacetAccounts, Rotates: []string{"slipway"}}
		if h := b.e.announceGate(b.w, step); (h == nil) != want {
			t.Errorf("%s: %+v", what, h)
		}
	}
	opens("written", true)
	b.e.mu.Lock()
	delete(b.e.workers, b.name) // the node leaves, and its file with it
	b.e.mu.Unlock()
	b.e.toBranch()
	opens("it has left the branch", false)
	b.e.mu.Lock()
	b.e.workers[b.name] = b.w
	b.e.mu.Unlock()
	b.e.tellBranch(t.Context())
	opens("it is back", true)
	b.e.Anchor = noAnchor{}
	b.e.mu.Lock()
	b.e.book.Records = "r2"
	b.e.mu.Unlock()
	opens("taken over, before the branch is read", false)
	s := *b.sealed
	b.e.comparePublished([]site.Sealed{s})
	opens("read", true)
	s.Passwords = maps.Clone(s.Passwords)
	p := s.Passwords["slipway"]
	p.Offered.Epoch = 3
	s.Passwords["slipway"] = p
	b.e.comparePublished([]site.Sealed{s}) // with a signature of something else
	opens("nobody has signed it", false)
	b.e.comparePublished(nil)
	opens("a branch without it", false)
}

// noAnchor is a status branch that nobody has read.
type noAnchor struct{ Anchor }
