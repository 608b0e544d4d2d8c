package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/github"
)

// The whole way of a change: proposed, planned, checked, read, merged, carried
// out on the machines, and told as done in the comment that it began with. The
// merge approves the installation that the comment named; nobody does anything
// else. With SLIPWAY_SHOTS set, pictures of the comment on its way are left in
// that folder.
func TestFromProposalToDone(t *testing.T) {
	t.Parallel()
	h := openHall(t, true)
	h.hook()
	p := h.proposes("again", files(h.reinstalled("new-1"), ordered("old-1")))
	why := h.stands(p.HeadID(), "success")
	text := h.says(p, "Merging approves exactly this")
	if !strings.HasPrefix(why, "1 machine is erased, 1 changes its boot order") || !strings.Contains(text, "**new-1** (serial "+identity(2).Serial) {
		t.Errorf("the check says %q, and the comment\n%s", why, text)
	}
	h.erases(text, "new-1")
	h.shoot(p, "1-planned")
	h.readable("what is destroyed")
	before := h.fleet.Machine("new-1").State().Counts

	merged := p.Merge("bob")
	h.says(p, "Merged by bob")
	h.shoot(p, "2-merged")
	text = h.says(p, "done, 2 of 2 machines are as designed")
	h.shoot(p, "3-done")
	if !strings.Contains(text, merged[:12]) {
		t.Errorf("it does not say into which commit it was merged:\n%s", text)
	}
	now := h.fleet.Machine("new-1").State()
	if now.Counts.Installs != before.Installs+1 || now.Marker == nil || now.Marker.Generation != 2 {
		t.Errorf("new-1 was installed %d times before and %d now, and its marker is %+v", before.Installs, now.Counts.Installs, now.Marker)
	}
	h.status("all are in-sync", allInSync)
	if one, calls := h.kept(p); len(one) != 1 || len(calls) > 0 {
		t.Errorf("%d comments, and %d that call somebody", len(one), len(calls))
	}
	h.orderly(p)
	h.stop()
}

// What a set has grown by between its comment and the merge is held, and the
// comment says so: the branch gave one more node the profile that the proposal
// changes.
func TestGrowthIsHeld(t *testing.T) {
	t.Parallel()
	h := openHall(t, false)
	h.hook()
	h.inForce(h.repo.Push("ada", "main", "a profile", files(h.fresh("new-1"), h.generation(1))))
	p := h.proposes("again", h.generation(2))
	shown := h.says(p, "Merging approves exactly this")
	if !strings.Contains(shown, "**new-1**") || strings.Contains(shown, "**new-2**") {
		t.Errorf("it does not name new-1 alone:\n%s", shown)
	}
	h.erases(shown, "new-1")
	h.readable("new-1 alone")
	end := h.hub.Suffer(github.Outage{Kind: github.Refuse})
	h.repo.Push("bob", "main", "new-2 has the profile too", h.fresh("new-1", "new-2"))
	p.Merge("bob") // before anybody could read of it
	end()
	h.status("new-2 is held", func(s site.Status) bool {
		return stateOf(s, "new-2").State == site.Blocked && len(s.Waiting) == 1 && stateOf(s, "new-1").State == site.InSync
	})
	h.says(p, "erasing 1 more machine needs a decision")
	for name, want := range map[string]int{"new-1": 2, "new-2": 1} {
		if n := h.fleet.Machine(name).State().Counts.Installs; n != want {
			t.Errorf("%s was installed %d times, want %d", name, n, want)
		}
	}
	h.eventually("a comment of its own calls a person", func() bool {
		_, calls := h.kept(p)
		return len(calls) == 1 && strings.Contains(calls[0].Body(), "a decision is needed")
	})
	h.orderly(p)
	h.stop()
}

// fresh is the design in which nodes have their generation from a profile.
func (h *hall) fresh(names ...string) github.Files {
	design := h.design()
	for _, name := range names {
		head := fmt.Sprintf("nodes: %q: {\n", name)
		before, node, _ := strings.Cut(design, head)
		node = strings.Replace(node, `["worker"]`, `["worker", "fresh"]`, 1)
		design = before + head + strings.Replace(node, "\tgeneration: 1\n", "", 1)
	}
	for _, name := range everNew {
		design = strings.Replace(design, h.digests(1, name), "", 1)
	}
	return github.Files{"site.cue": design}
}

// everNew are the nodes that get their generation from the profile at some time.
var everNew = []string{"new-1", "new-2"}

// generation is the file with the profile's generation, and the digests of what
// is installed in it.
func (h *hall) generation(n int) github.Files {
	return github.Files{"fresh.cue": fmt.Sprintf("package town\n\nprofiles: fresh: generation: %d\nimages: debian12: digests: {%s}\n",
		n, h.digests(n, everNew...))}
}

// inForce waits until a commit's design is.
func (h *hall) inForce(commit string) {
	h.t.Helper()
	h.status("the design of "+commit[:7]+" is in force", func(s site.Status) bool { return s.Applied.ID == commit })
}

// A merge approves nothing when somebody has edited the comment before, or when a
// program has merged: both are held, people are called, the comment that was read
// in the end says what would be lost, and a person approves it by a comment of
// their own, which history names.
func TestMergesThatNobodyDecidedOn(t *testing.T) {
	t.Parallel()
	h := openHall(t, true)
	h.hook()
	p := h.proposes("again", h.reinstalled("new-1"))
	h.says(p, "Merging approves exactly this")
	h.readable("what is destroyed")
	one, _ := h.kept(p)
	one[0].Edit("bob", "nothing changes <!-- "+one[0].Body()+" -->")
	p.Merge("ada") // who has read that
	text := h.says(p, "The merge approved nothing")
	if !strings.Contains(text, "others have changed its comment since Slipway wrote it") && !strings.Contains(text, "others had changed its comment, and Slipway had not restored it yet") {
		t.Errorf("it does not say why:\n%s", text)
	}

	q := h.proposes("more", h.reinstalled("new-1", "new-2"))
	h.says(q, "**new-2**")
	h.eventually("its check is good", func() bool { return h.green(q) })
	h.hub.Pass(2 * time.Second)
	q.Merge("lander[bot]")
	text = h.says(q, "The merge approved nothing")
	if !strings.Contains(text, "by a program (lander&#91;bot&#93;)") {
		t.Errorf("it does not say why:\n%s", text)
	}
	h.status("both are held", func(s site.Status) bool {
		return stateOf(s, "new-1").State == site.Blocked && stateOf(s, "new-2").State == site.Blocked && len(s.Waiting) == 2
	})
	for _, x := range []*github.Pull{p, q} {
		h.eventually("a person is called", func() bool { _, calls := h.kept(x); return len(calls) > 0 })
		_, calls := h.kept(x)
		for i, c := range calls[1:] {
			if c.Body() == calls[i].Body() {
				t.Errorf("people are called twice for one need:\n%s", c.Body())
			}
		}
	}
	for _, name := range []string{"new-1", "new-2"} {
		if n := h.fleet.Machine(name).State().Counts.Installs; n != 1 {
			t.Errorf("%s was installed %d times", name, n)
		}
	}
	digest := ""
	h.status("a set waits", func(s site.Status) bool { digest = s.Approve; return digest != "" })
	c := q.Comment("ada", "/slipway approve "+digest+"\n\nI have read it now.")
	h.answered(c, "+1")
	h.status("all are in-sync", allInSync)
	out := h.slipway(0, "history")
	if want := fmt.Sprintf("approved by ada, comment %d on pull request %d", c.ID(), q.Number()); !strings.Contains(out, want) {
		t.Errorf("history does not tell %q:\n%s", want, out)
	}
	h.orderly(p, q)
	h.stop()
}
