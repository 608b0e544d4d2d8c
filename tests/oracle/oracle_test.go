package oracle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/tests/oracle"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// story is a ledger and the clock of a story.
type story struct {
	*oracle.Ledger
	now time.Time
}

func newStory() *story {
	s := &story{oracle.New(5*time.Second, 15*time.Minute), start}
	s.Disks(s.now, "m1", []string{"S1", "S2"})
	s.InForce(s.now, planning("c1", 1))
	s.Shown(set("d1", first))
	return s
}

// step sets the clock.
func (s *story) step(by time.Duration) { s.now = s.now.Add(by); s.Step(by) }

func (s *story) after(d time.Duration) *story { s.now = s.now.Add(d); return s }

// first is a loss as it is printed first, second the same after its approval has
// ended.
var (
	first  = oracle.Line{Text: "n1 attempt 1", Node: "n1", Machine: "m1", Action: oracle.Install, Generation: 1, Image: "i1", Disks: []string{"S1", "S2"}}
	second = oracle.Line{Text: "n1 attempt 2", Node: "n1", Machine: "m1", Action: oracle.Install, Generation: 1, Image: "i1", Disks: []string{"S1", "S2"}}
)

func set(digest string, lines ...oracle.Line) oracle.Set {
	return oracle.Set{Digest: digest, Lines: lines}
}

// planning is a design that installs n1.
func planning(commit string, generation int, approvals ...string) oracle.Design {
	return oracle.Design{Commit: commit, Has: map[string]bool{commit: true}, Approvals: approvals,
		Nodes: map[string]oracle.Want{"n1": {Machine: "m1", Generation: generation, Image: "i1"}}}
}

func (s *story) loss(change ...func(*oracle.Loss)) oracle.Loss {
	x := oracle.Loss{When: s.now, Machine: "m1", Action: oracle.Install, Node: "n1", Generation: 1, Image: "i1"}
	for _, c := range change {
		c(&x)
	}
	return x
}

// wanted fails the test unless the machine may lose its data, now and once.
func (s *story) wanted(t *testing.T) {
	t.Helper()
	if err := s.Armed(s.loss()); err != nil {
		t.Error(err)
	}
	if err := s.Lost(s.after(time.Minute).loss()); err != nil {
		t.Error(err)
	}
}

// unwanted fails the test unless the loss is nobody's wish, for the reason.
func (s *story) unwanted(t *testing.T, why string, change ...func(*oracle.Loss)) {
	t.Helper()
	x := s.loss(change...)
	for what, err := range map[string]error{"armed": s.Armed(x), "lost": s.Lost(x)} {
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %q", what, err, why)
		}
	}
}

func TestApprovedIsWantedOnce(t *testing.T) {
	s := newStory()
	s.unwanted(t, "nobody approved it")
	s.Approve(s.now, "d1", "ann", all)
	s.after(time.Hour).wanted(t)
	s.after(time.Hour).unwanted(t, "was used")
	s.Approve(s.now, "d1", "ann", all) // once more the same line
	s.after(time.Second).unwanted(t, "was used")
	s.Shown(set("d2", second))
	s.Approve(s.now, "d2", "ann", all)
	s.after(time.Second).wanted(t)
}

func TestOnlyWhatWasApproved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*oracle.Loss)
		why    string
	}{
		"another machine":    {func(x *oracle.Loss) { x.Machine = "m2" }, `is for machine "m1"`},
		"another node":       {func(x *oracle.Loss) { x.Node = "n2" }, "nobody approved it"},
		"another generation": {func(x *oracle.Loss) { x.Generation = 2 }, "is generation 1"},
		"another image":      {func(x *oracle.Loss) { x.Image = "i2" }, "of image i1"},
		"another action":     {func(x *oracle.Loss) { x.Action = oracle.Erase }, "nobody approved it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			s.Approve(s.now, "d1", "ann", all)
			s.after(time.Minute).unwanted(t, c.why, c.change)
			s.wanted(t)
		})
	}
}

func TestWhatEndsAnApproval(t *testing.T) {
	for name, c := range map[string]struct {
		ends func(*story)
		why  string
	}{
		"a revert in force": {func(s *story) { s.InForce(s.now, planning("c2", 0)) }, "c2, which is in force, does not plan it"},
		"another image in force": {func(s *story) {
			d := planning("c2", 1)
			d.Nodes["n1"] = oracle.Want{Machine: "m1", Generation: 1, Image: "i2"}
			s.InForce(s.now, d)
		}, "does not plan it"},
		"another machine in force": {func(s *story) {
			d := planning("c2", 1)
			d.Nodes["n1"] = oracle.Want{Machine: "m2", Generation: 1, Image: "i1"}
			s.InForce(s.now, d)
		}, "does not plan it"},
		"the node gone": {func(s *story) { d := planning("c2", 1); delete(d.Nodes, "n1"); s.InForce(s.now, d) }, "does not plan it"},
		"the node given up": {func(s *story) {
			d := planning("c2", 1)
			d.Nodes["n1"] = oracle.Want{Machine: "m1", Generation: 1, Image: "i1", Erased: true}
			s.InForce(s.now, d)
		}, "does not plan it"},
		"disapproved by its set":    {func(s *story) { s.Disapprove(s.now, "d1", "", all) }, "a person took it back"},
		"disapproved by its node":   {func(s *story) { s.Disapprove(s.now, "", "n1", all) }, "a person took it back"},
		"the records lost":          {func(s *story) { s.Forget(s.now, "the records were lost") }, "the records were lost"},
		"a week":                    {func(s *story) { s.after(oracle.Lasts) }, "have passed"},
		"a week as the clock steps": {func(s *story) { s.step(oracle.Lasts); s.Clock(s.now); s.step(-oracle.Lasts) }, "have passed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			s.Approve(s.now, "d1", "ann", all)
			c.ends(s.after(time.Minute))
			s.after(time.Minute).unwanted(t, c.why)
			s.InForce(s.now, planning("c3", 1)) // the same as before
			s.Approve(s.now, "d1", "ann", all)
			s.after(time.Minute).unwanted(t, c.why)
			s.Shown(set("d2", second))
			s.Approve(s.now, "d2", "ann", all)
			s.after(time.Minute).wanted(t)
		})
	}
}

// A request that was under way when the approval ended, or an installation that
// was begun, goes on.
func TestWhatWasBegunGoesOn(t *testing.T) {
	s := newStory()
	s.Approve(s.now, "d1", "ann", all)
	s.Disapprove(s.after(time.Minute).now, "d1", "", all)
	s.after(4 * time.Second).wanted(t)

	s = newStory()
	s.Approve(s.now, "d1", "ann", all)
	s.Asked(s.after(time.Minute).now, "m1")
	s.Disapprove(s.after(time.Minute).now, "d1", "", all)
	s.after(time.Hour).wanted(t)

	s = newStory()
	s.Approve(s.now, "d1", "ann", all)
	s.Asked(s.after(time.Minute).now, "m1")
	s.TakenBack("m1")
	s.Disapprove(s.after(time.Minute).now, "d1", "", all)
	s.after(time.Minute).unwanted(t, "a person took it back")

	s = newStory()
	s.Approve(s.now, "d1", "ann", all)
	s.Asked(s.after(time.Minute).now, "m1")
	s.Disks(s.after(time.Minute).now, "m1", []string{"S9"})
	s.after(time.Hour).unwanted(t, "the machine has others")

	s = newStory()
	s.Approve(s.now, "d1", "ann", all)
	s.Asked(s.after(time.Minute).now, "m1")
	s.after(15*24*time.Hour).unwanted(t, "too long ago")

	s = newStory()
	s.Asked(s.now, "m1") // before anybody approved it
	s.Approve(s.now, "d1", "ann", all)
	s.Disapprove(s.after(time.Minute).now, "d1", "", all)
	s.after(time.Minute).unwanted(t, "a person took it back")

	s = newStory()
	s.Approve(s.after(time.Minute).now, "d1", "ann", all)
	s.now = start
	s.unwanted(t, "came later")
}

func TestNobodyApprovesWhatDoesNotWait(t *testing.T) {
	s := newStory()
	s.InForce(s.now, planning("c2", 2))
	s.Approve(s.now, "d1", "ann", all)
	s.InForce(s.now, planning("c3", 1))
	s.after(time.Minute).unwanted(t, "nobody approved it")
	s.Approve(s.now, "d9", "ann", all) // that nobody was shown
	s.unwanted(t, "nobody approved it")
}

func TestLineOfTheDesign(t *testing.T) {
	s := newStory()
	s.InForce(s.now, planning("c2", 1, "d1"))
	s.InForce(s.after(time.Minute).now, planning("c3", 1, "d1"))
	s.after(time.Minute).wanted(t)
	s.InForce(s.now, planning("c4", 1, "d1"))
	s.after(time.Minute).unwanted(t, "was used")

	s = newStory()
	s.InForce(s.now, planning("c2", 1, "d1"))
	s.InForce(s.after(time.Minute).now, planning("c3", 1))
	s.after(time.Minute).unwanted(t, "its line is not in c3")
	s.InForce(s.now, planning("c4", 1, "d1"))
	s.after(time.Minute).unwanted(t, "its line is not in c3")

	s = newStory() // the line stands, and what it approves comes later
	s.InForce(s.now, planning("c2", 0, "d1"))
	s.after(time.Minute).unwanted(t, "nobody approved it")
	s.InForce(s.now, planning("c3", 1, "d1"))
	s.after(time.Minute).wanted(t)
}

func TestMergeCountsWhenItIsInForce(t *testing.T) {
	s := newStory()
	s.InForce(s.now, planning("c1", 0))
	s.ApproveByMerge(s.now, "d1", "ann", "c2")
	s.after(time.Minute).unwanted(t, "nobody approved it")
	d := planning("c3", 1)
	d.Has["c2"] = true
	s.InForce(s.now, d)
	s.after(time.Minute).wanted(t)

	s = newStory()
	s.InForce(s.now, planning("c1", 0))
	s.ApproveByMerge(s.now, "d1", "ann", "c2")
	s.Disapprove(s.now, "", "n1", all)
	s.InForce(s.now, planning("c2", 1))
	s.after(time.Minute).unwanted(t, "nobody approved it")
}

// An engine that had not asked about a merge when its commit was reverted shows
// that the same line waits, and a person approves that.
func TestCommandAfterMergeOfWhichNothingCame(t *testing.T) {
	for by, wanted := range map[string]bool{"a command": true, "a merge": false} {
		s := newStory()
		s.InForce(s.now, planning("c1", 0))
		s.ApproveByMerge(s.now, "d1", "ann", "c2")
		s.InForce(s.now, planning("c2", 1))
		s.InForce(s.now, planning("c3", 0))
		s.InForce(s.after(time.Minute).now, planning("c4", 1))
		s.unwanted(t, "does not plan it")
		if s.after(time.Minute); wanted {
			s.Approve(s.now, "d1", by, all)
			s.wanted(t)
			s.after(time.Hour).unwanted(t, "was used")
		} else {
			s.ApproveByMerge(s.now, "d1", by, "c4")
			s.unwanted(t, "does not plan it")
		}
	}
}

func TestDisksAreThoseThatWereShown(t *testing.T) {
	s := newStory()
	s.Approve(s.now, "d1", "ann", all)
	s.Disks(s.after(time.Hour).now, "m1", []string{"S2", "S1", "S3"})
	s.after(16*time.Minute).unwanted(t, "are the disks S1, S2")
	s.Disks(s.now, "m1", []string{"S2", "S1"})
	s.wanted(t)

	s = newStory() // of which nobody can know yet
	s.Approve(s.now, "d1", "ann", all)
	s.Disks(s.after(time.Hour).now, "m1", []string{"S3"})
	s.after(14 * time.Minute).wanted(t)

	s = newStory()
	s.Disks(s.now, "m1", []string{"S3"})
	unknown := first
	unknown.Disks = nil
	s.Shown(set("d1", unknown))
	s.Approve(s.now, "d1", "ann", all)
	s.after(time.Hour).wanted(t)
}

// all is that a daemon says of every node that an order was carried out.
func all(string) bool { return true }

// What the answer to an order does not name was not approved, and not taken back.
func TestPeopleReadTheAnswer(t *testing.T) {
	none := func(string) bool { return false }
	s := newStory()
	s.Approve(s.now, "d1", "ann", none)
	s.after(time.Minute).unwanted(t, "nobody approved it")
	s.Approve(s.now, "d1", "ann", all)
	s.Disapprove(s.after(time.Minute).now, "d1", "", none)
	s.after(time.Minute).wanted(t)
}
