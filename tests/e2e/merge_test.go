package e2e

import (
	"fmt"
	"strings"
	"testing"

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
	text := h.says(p, "merging approves exactly this")
	if !strings.HasPrefix(why, "2 nodes change") || !strings.Contains(text, "**new-1** (UUID "+identity(2).UUID) {
		t.Errorf("the check says %q, and the comment\n%s", why, text)
	}
	h.shoot(p, "1-planned")
	h.readable("what is destroyed")
	before := h.fleet.Machine("new-1").State().Counts

	merged := p.Merge("bob")
	h.says(p, "merged; ")
	h.shoot(p, "2-merged")
	text = h.says(p, "merged; done: 2 of 2 nodes as designed")
	h.shoot(p, "3-done")
	if !strings.Contains(text, merged[:12]) {
		t.Errorf("it does not say as which commit it was merged:\n%s", text)
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
	h.inForce(h.repo.Push("ada", "main", "a profile", files(h.fresh("new-1"), generation(1))))
	p := h.proposes("again", generation(2))
	shown := h.says(p, "merging approves exactly this")
	if !strings.Contains(shown, "**new-1**") || strings.Contains(shown, "**new-2**") {
		t.Errorf("it does not name new-1 alone:\n%s", shown)
	}
	h.readable("new-1 alone")
	end := h.hub.Suffer(github.Outage{Kind: github.Refuse})
	h.repo.Push("bob", "main", "new-2 has the profile too", h.fresh("new-1", "new-2"))
	p.Merge("bob") // before anybody could read of it
	end()
	h.status("new-2 is held", func(s site.Status) bool {
		return stateOf(s, "new-2").State == site.Blocked && len(s.Waiting) == 1 && stateOf(s, "new-1").State == site.InSync
	})
	h.says(p, "what is destroyed on 1 more machine is held")
	for name, want := range map[string]int{"new-1": 2, "new-2": 1} {
		if n := h.fleet.Machine(name).State().Counts.Installs; n != want {
			t.Errorf("%s was installed %d times, want %d", name, n, want)
		}
	}
	h.eventually("a comment of its own calls a person", func() bool {
		_, calls := h.kept(p)
		return len(calls) == 1 && strings.Contains(calls[0].Body(), "needs a person")
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
	return github.Files{"site.cue": design}
}

func generation(n int) github.Files {
	return github.Files{"fresh.cue": fmt.Sprintf("package town\n\nprofiles: fresh: generation: %d\n", n)}
}

// inForce waits until a commit's design is.
func (h *hall) inForce(commit string) {
	h.t.Helper()
	h.status("the design of "+commit[:7]+" is in force", func(s site.Status) bool { return s.Applied.ID == commit })
}
