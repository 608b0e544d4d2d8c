package plan

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// madeBySlipway is what an item is that Slipway made and that left the design, and
// setBack what becomes of it.
const (
	madeBySlipway = "made by Slipway"
	setBackTo     = "removed, or as it was before"
)

// planRemoval gives the items of a facet that Slipway made and that left the
// design, where they may be removed: the machine shows the list of them that is
// recorded. Where it shows another one somebody changed the list, and a person
// says whether it is right.
func planRemoval(p *site.NodePlan, n *site.Node, f site.Facet, m site.Memory, seen site.FacetState) []string {
	left := seen.Left(n, f)
	if len(left) == 0 || m.Recorded.Owned.Agrees(seen) {
		return left
	}
	p.Reported = append(p.Reported, fmt.Sprintf("%s %s left the design and Slipway does not remove it: %s", f, someOf(printable(left)), editedList(n, m, seen)))
	return nil
}

// planReturn gives the changes that set back fields that left the design, where they may be:
// the list says which those are, and so it has to be the recorded one as for a removal.
func planReturn(p *site.NodePlan, w wish, n *site.Node, f site.Facet, m site.Memory, seen site.FacetState) []site.Change {
	changes := w.returning(n, f, seen)
	if len(changes) == 0 || m.Recorded.Owned.Agrees(seen) {
		return changes
	}
	var fields []string
	for _, c := range changes {
		fields = append(fields, c.Field)
	}
	p.Reported = append(p.Reported, fmt.Sprintf("%s left the design and Slipway does not set it back: %s", someOf(fields), editedList(n, m, seen)))
	return nil
}

// editedList says that the list of what Slipway made is another one than the recorded, and what
// to do.
func editedList(n *site.Node, m site.Memory, seen site.FacetState) string {
	return fmt.Sprintf("the list on the machine of what Slipway made (%s) is not the one on record (%s), "+
		"so somebody changed it. Check /var/lib/slipway-inside/owned.json there, then run `slipway approve %s` to accept the list",
		say.OrNone(short(seen.OwnedDigest)), say.OrNone(short(m.Recorded.Owned.Digest)), n.Name)
}

// planLostList reports that the list on the machine of what Slipway made is gone: what
// leaves the design now stays there, and nobody can tell what that is.
func planLostList(p *site.NodePlan, n *site.Node, m site.Memory) {
	if digest, is := Disowned(m); is && digest == "" {
		p.Reported = append(p.Reported, fmt.Sprintf("the list on the machine of what Slipway made is gone (/var/lib/slipway-inside/owned.json; on record is %s), so what leaves the design stays there. "+
			"Find out who removed it, and put it back or run `slipway approve %s` to begin a new list", short(m.Recorded.Owned.Digest), n.Name))
	}
}

// disputed is what a step has in the place of the recorded list's digest where the machine shows
// another list: whatever the machine's own journal says, nothing is removed or set back.
const disputed = "disputed"

func short(digest string) string { return digest[:min(len(digest), 12)] }

// wasBefore is what becomes of most fields that the design does not name any more.
const wasBefore = "as it was before"

// returning are the changes that set back fields that left the design.
func (w wish) returning(n *site.Node, f site.Facet, seen site.FacetState) []site.Change {
	var changes []site.Change
	for _, field := range seen.Returning(n, f) {
		have, told := seen.Have[field]
		if !told {
			have = Unknown
		}
		want := wasBefore
		switch {
		case strings.HasSuffix(field, ".password"):
			want = "locked" // no password is kept
		case f == site.FacetNetwork:
			want = "none" // what a field of an interface was before is not kept: its files are written anew
		}
		changes = append(changes, site.Change{Field: FieldOf(f, site.Printable(field)), Have: have, Want: want})
	}
	return changes
}

// printable are keys as they may be shown: what is owned is told by the machine.
func printable(keys []string) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = site.Printable(key)
	}
	return all
}

// removals are the changes that take items away.
func removals(f site.Facet, keys []string) []site.Change {
	var changes []site.Change
	for _, key := range printable(keys) {
		changes = append(changes, site.Change{Field: FieldOf(f, key), Have: madeBySlipway, Want: setBackTo})
	}
	return changes
}

// Disowned says whether the machine shows another list of what Slipway made than
// the recorded one.
func Disowned(m site.Memory) (digest string, is bool) {
	digest, seen := m.Observed.OwnedDigest()
	return digest, seen && digest != m.Recorded.Owned.Digest
}
