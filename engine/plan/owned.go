package plan

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// madeBySlipway is the value of an item that Slipway made and that left the design; setBackTo is
// what it becomes.
const (
	madeBySlipway = "made by Slipway"
	setBackTo     = "removed, or as it was before"
)

// planRemoval returns the items of a facet that Slipway made and that left the design. It returns
// them only if the machine's list of them is the recorded one. Otherwise somebody changed the list,
// and a person has to say whether it is right.
func planRemoval(p *site.NodePlan, w wish, n *site.Node, f site.Facet, m site.Memory) []string {
	left := w.seen.LeftBy(n, f, w.Resolved)
	if len(left) == 0 || m.Recorded.Owned.Agrees(w.seen) {
		return left
	}
	p.Reported = append(p.Reported, fmt.Sprintf("%s %s left the design and Slipway does not remove it: %s", f, someOf(printable(left)), editedList(n, m, w.seen)))
	return nil
}

// planReturn returns the changes that restore fields that left the design. The machine's list says
// which these are, so it must be the recorded one, as for a removal.
func planReturn(p *site.NodePlan, w wish, n *site.Node, f site.Facet, m site.Memory) []site.Change {
	changes := w.returning(f)
	if len(changes) == 0 || m.Recorded.Owned.Agrees(w.seen) {
		return changes
	}
	var fields []string
	for _, c := range changes {
		fields = append(fields, c.Field)
	}
	p.Reported = append(p.Reported, fmt.Sprintf("%s left the design and Slipway does not set it back: %s", someOf(fields), editedList(n, m, w.seen)))
	return nil
}

// editedList says that the machine's list of what Slipway made is not the recorded one, and what to
// do.
func editedList(n *site.Node, m site.Memory, seen site.FacetState) string {
	return fmt.Sprintf("the list on the machine of what Slipway made (%s) is not the one on record (%s), "+
		"so somebody changed it. Check /var/lib/slipway-inside/owned.json there, then run `slipway approve %s` to accept the list",
		say.OrNone(short(seen.OwnedDigest)), say.OrNone(short(m.Recorded.Owned.Digest)), n.Name)
}

// planLostList reports that the machine's list of what Slipway made is gone. Whatever leaves the
// design now stays there, and nobody can tell what that is.
func planLostList(p *site.NodePlan, n *site.Node, m site.Memory) {
	if digest, is := Disowned(m); is && digest == "" {
		p.Reported = append(p.Reported, fmt.Sprintf("the list on the machine of what Slipway made is gone (/var/lib/slipway-inside/owned.json; on record is %s), so what leaves the design stays there. "+
			"Find out who removed it, and put it back or run `slipway approve %s` to begin a new list", short(m.Recorded.Owned.Digest), n.Name))
	}
}

// disputed replaces the digest of the recorded list in a step if the machine shows another list.
// Then nothing is removed or restored, whatever the machine's own journal says.
const disputed = "disputed"

func short(digest string) string { return digest[:min(len(digest), 12)] }

// wasBefore is what most fields become that the design no longer names.
const wasBefore = "as it was before"

// returning returns the changes that restore fields that left the design.
func (w wish) returning(f site.Facet) []site.Change {
	var changes []site.Change
	for _, field := range w.seen.ReturningBy(w.Resolved) {
		have, told := w.seen.Have[field]
		if !told {
			have = Unknown
		}
		want := wasBefore
		switch {
		case strings.HasSuffix(field, ".password"):
			want = "locked" // passwords are not kept
		case f == site.FacetNetwork:
			want = "none" // earlier settings of interfaces are not kept: their files are written anew
		}
		changes = append(changes, site.Change{Field: FieldOf(f, site.Printable(field)), Have: have, Want: want})
	}
	return changes
}

// printable makes keys safe to show: they come from the machine.
func printable(keys []string) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = site.Printable(key)
	}
	return all
}

// removals returns the changes that remove items.
func removals(f site.Facet, keys []string) []site.Change {
	var changes []site.Change
	for _, key := range printable(keys) {
		changes = append(changes, site.Change{Field: FieldOf(f, key), Have: madeBySlipway, Want: setBackTo})
	}
	return changes
}

// Disowned reports whether the machine's list of what Slipway made differs from the recorded one.
func Disowned(m site.Memory) (digest string, is bool) {
	digest, seen := m.Observed.OwnedDigest()
	return digest, seen && digest != m.Recorded.Owned.Digest
}
