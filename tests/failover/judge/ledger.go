package judge

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// approval is a person's approval of one installation of one node.
type approval struct {
	node, set string
	opened    time.Time // by the clock of the controller, as consumed
	consumed  time.Time // zero while it was not used
	used      time.Time // when it was recorded
	ended     bool
}

// entry is an approval as the ledger of a node has it.
type entry struct {
	Set      string    `json:"set"`
	Opened   time.Time `json:"opened"`
	Consumed time.Time `json:"consumed"`
	Ended    time.Time `json:"ended"`
	Why      string    `json:"why"`
}

// setBack is how a controller says that it ends an approval because of its clock (docs/approvals.md).
const setBack = "the clock was set back"

// otherDisks is how a controller says that it ends an approval because it has learned of other disks than the approval names.
var otherDisks = regexp.MustCompile(`^the disks of the machine are now (.*) and were (.*)$`)

// kept is how many approvals that were used the ledger keeps of a node.
const kept = 8

// readLedger follows each approval through the records. What else ends one in the tests
// is in checkEnd.
func (c *court) readLedger() {
	c.approvals, c.learned = map[string][]*approval{}, map[string]bool{}
	for _, w := range c.history.Writes {
		_, node, is := strings.Cut(w.Key, "/ledger/")
		var account struct {
			Entries []entry `json:"entries"`
		}
		if !is || !c.decode(w, &account) {
			continue
		}
		for _, known := range c.approvals[node] {
			i := slices.IndexFunc(account.Entries, func(e entry) bool { return e.Set == known.set && e.Opened.Equal(known.opened) })
			if i < 0 && known.used.IsZero() && !known.ended {
				c.broken("revision %d: the approval %s for %s is gone, and was not used", w.Revision, known.set, node)
				known.used = known.opened // reported once
			} else if i < 0 && len(account.Entries) < kept {
				c.broken("revision %d: the approval %s for %s was used, and the ledger forgot it", w.Revision, known.set, node)
			}
		}
		for _, e := range account.Entries {
			c.readEntry(w, node, e)
		}
	}
	for _, all := range c.approvals {
		c.verdict.Approvals += len(all)
	}
}

func (c *court) readEntry(w Write, node string, e entry) {
	all := c.approvals[node]
	i := slices.IndexFunc(all, func(a *approval) bool { return a.set == e.Set && a.opened.Equal(e.Opened) })
	if i < 0 {
		i = len(all)
		c.approvals[node] = append(all, &approval{node: node, set: e.Set, opened: e.Opened})
	}
	known := c.approvals[node][i]
	if !e.Ended.IsZero() && !known.ended {
		known.ended = true
		c.checkEnd(w, node, e)
	}
	switch {
	case e.Consumed.Equal(known.consumed):
	case known.ended:
		c.broken("revision %d: the approval %s for %s ended, and was used", w.Revision, e.Set, node)
	case known.consumed.IsZero():
		known.consumed, known.used = e.Consumed, w.At
	case e.Consumed.IsZero():
		c.broken("revision %d: the approval %s for %s was used, and is open again", w.Revision, e.Set, node)
	default:
		c.broken("revision %d: the approval %s for %s was used at %s, and again at %s", w.Revision, e.Set, node, clock(known.consumed), clock(e.Consumed))
	}
}

// checkEnd allows an approval to end without being used for two reasons only: a clock was set back before, or a machine has
// disks besides those that were approved, once: its BMC does not list all that its system does.
func (c *court) checkEnd(w Write, node string, e entry) {
	disks := otherDisks.FindStringSubmatch(e.Why)
	switch {
	case strings.HasPrefix(e.Why, setBack) && slices.ContainsFunc(c.history.Events, func(x Event) bool { return x.SetBack && x.At.Before(w.At) }):
	case disks != nil && !c.learned[node] && hasAll(strings.Split(disks[1], ", "), strings.Split(disks[2], ", ")):
		c.learned[node] = true
	default:
		c.broken("revision %d: the approval %s for %s ended without being used: %s", w.Revision, e.Set, node, e.Why)
		return
	}
	c.verdict.Ended++
}

func hasAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(x string) bool { return !slices.Contains(all, x) })
}

// checkApprovals looks for each approval that a person was told is recorded.
func (c *court) checkApprovals() {
	for _, e := range c.history.Events {
		if e.Kind != Approved {
			continue
		}
		for _, node := range e.Nodes {
			if !slices.ContainsFunc(c.approvals[node], func(a *approval) bool { return a.set == e.Set }) {
				c.broken("the approval %s for %s was confirmed before %s, and is in no record", e.Set, node, clock(e.At))
			}
		}
	}
}

// checkInstallations holds each start of an installation to the approval that was used for it.
func (c *court) checkInstallations() {
	all := c.starts()
	for _, machine := range c.machines() {
		used := 0
		for _, a := range c.approvals[machine] {
			if !a.used.IsZero() {
				used++
			}
		}
		c.verdict.Installations += len(all[machine])
		by := map[*approval]start{}
		for _, s := range all[machine] {
			a := c.approvalAt(machine, s.When)
			switch before, again := by[a]; {
			case a == nil:
				c.broken("%s was installed at %s by %s, and no approval was used for it", machine, clock(s.When), s.host())
			case again && c.continues(before, s):
				c.verdict.Continued++
			case again:
				c.broken("%s was installed at %s by %s and at %s by %s, for one approval (%s)", machine, clock(before.When), before.host(), clock(s.When), s.host(), a.set)
			}
			by[a] = s
			c.checkFence(s.Call)
		}
		c.verdict.UsedForNothing += used - len(by)
	}
}

func (c *court) machines() (all []string) {
	for _, x := range c.history.Calls {
		all = append(all, x.Machine)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// approvalAt is the last one for a machine that was used before a moment.
func (c *court) approvalAt(machine string, at time.Time) (last *approval) {
	for _, a := range c.approvals[machine] {
		if !a.used.IsZero() && !a.used.After(at) && (last == nil || a.used.After(last.used)) {
			last = a
		}
	}
	return last
}
