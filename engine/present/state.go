package present

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The words about states that the command line, the full-screen view and the report of a site share. They contain
// text from designs and machines as it is: whoever shows them makes it printable.

// Age is how long ago a time was, in its largest unit; "never" for no time.
func Age(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "never"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// FacetAges says how long ago each facet was seen.
func FacetAges(seen map[site.Facet]time.Time, now time.Time) string {
	var parts []string
	for _, f := range slices.Sorted(maps.Keys(seen)) {
		if at := seen[f]; !at.IsZero() {
			parts = append(parts, fmt.Sprintf("%s %s ago", f, Age(at, now)))
		}
	}
	return strings.Join(parts, ", ")
}

// ReasonOf is the reason of a node's state in one line, or what no state shows.
func ReasonOf(n site.NodeStatus, now time.Time) string {
	if f := FacetAges(n.Stale, now); f != "" {
		n.Stale = nil
		return strings.TrimSpace(ReasonOf(n, now) + " (seen: " + f + ")")
	}
	if n.Retry.After(now) {
		return n.Reason + " (again at " + n.Retry.Local().Format(time.TimeOnly) + ")"
	}
	if n.Detail != "" {
		return n.Reason + ": " + n.Detail
	}
	if ailments := n.Ailments(); n.Reason == "" && len(ailments) > 0 {
		text := strings.Join(ailments, "; ")
		if n.State == site.InSync {
			text = "as designed, but " + text
		}
		return text
	}
	if n.Reason == "" && n.State == site.InSync && n.Links.State == site.LinksUnknown {
		return "as designed inside, and its links are not known: " + n.Links.Why
	}
	if n.Reason == "" && len(n.NotActedOn) > 0 {
		return "designed, not acted on: " + strings.Join(n.NotActedOn, ", ")
	}
	return n.Reason
}

// ReleaseOf says what would let a node continue; empty if it waits for nothing.
func ReleaseOf(n site.NodeStatus, now time.Time) string {
	if n.Release != "" {
		return n.Release
	}
	switch n.State {
	case site.InSync, site.Unknown:
		return ""
	case site.Progressing:
		return "nothing: it is in progress"
	case site.Retrying:
		if n.Retry.Before(now) {
			return "an answer of the machine; Slipway is trying again now"
		}
		return fmt.Sprintf("an answer of the machine; Slipway tries again at %s, or now with `slipway retry %s`", n.Retry.Local().Format(time.TimeOnly), n.Name)
	}
	return fmt.Sprintf("a commit that changes the node, or `slipway retry %s` once the cause is gone", n.Name)
}

// NeedsALook reports whether a list of what is not well has a node: any that is not in-sync, or is but ails.
func NeedsALook(n site.NodeStatus) bool { return n.Urgency() > site.Calm }

// PowerOf is a machine's power: "on", or "was on 6m ago" if it is not known to be on now. It is empty if it was never seen.
func PowerOf(n *site.NodeStatus, now time.Time) string { return seenOf(n.Power, n, now) }

// PowersOf is PowerOf for nodes that are shown as one: "was on 2m to 6m ago", or "differs".
func PowersOf(nodes []site.NodeStatus, now time.Time) string {
	first := &nodes[0]
	oldest, newest := first, first
	for i := range nodes {
		n := &nodes[i]
		if n.Power != first.Power || n.AsOf.IsZero() != first.AsOf.IsZero() {
			return "differs"
		}
		if n.AsOf.Before(oldest.AsOf) {
			oldest = n
		}
		if n.AsOf.After(newest.AsOf) {
			newest = n
		}
	}
	text, since := PowerOf(oldest, now), Age(newest.AsOf, now)
	if text == "" || first.AsOf.IsZero() || since == Age(oldest.AsOf, now) {
		return text
	}
	return inPast(first) + first.Power + " " + since + " to " + Age(oldest.AsOf, now) + " ago"
}

// HealthOf is the health of a machine's hardware, in the manner of PowerOf.
func HealthOf(n *site.NodeStatus, now time.Time) string { return seenOf(n.Health, n, now) }

func seenOf(value string, n *site.NodeStatus, now time.Time) string {
	if value == "" || n.AsOf.IsZero() {
		return value
	}
	return "was " + value + " " + Age(n.AsOf, now) + " ago"
}

// inPast is put before a value of a machine that is not known to be so now.
func inPast(n *site.NodeStatus) string {
	if n.Power == "" || n.AsOf.IsZero() {
		return ""
	}
	return "was "
}

// Grouped returns nodes in the same state for the same reason together, the longest in it first, in the order of their
// names; or each alone.
func Grouped(nodes []site.NodeStatus, alone bool) [][]site.NodeStatus {
	type trouble struct {
		state  site.State
		reason string
	}
	at := map[trouble]int{}
	var groups [][]site.NodeStatus
	for _, n := range nodes {
		key := trouble{n.State, CommonReason(n)}
		i, known := at[key]
		if alone || !known || n.Reason == "" {
			at[key] = len(groups)
			groups = append(groups, []site.NodeStatus{n})
			continue
		}
		groups[i] = append(groups[i], n)
	}
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b site.NodeStatus) int { return a.Since.Compare(b.Since) })
	}
	return groups
}

// CommonReason is a node's reason as others can have it too: a command in it is of any node.
func CommonReason(n site.NodeStatus) string { return strings.ReplaceAll(n.Reason, n.Name+"`", "NODE`") }

// GroupReason is the reason of nodes that are shown as one: when they are tried again, what is the same of them in
// detail, and how many are overdue for a look. Where details differ it says so.
func GroupReason(group []site.NodeStatus, now time.Time) string {
	var again []time.Time
	same, stale := true, 0
	for _, n := range group {
		if n.Retry.After(now) {
			again = append(again, n.Retry)
		}
		same = same && n.Detail == group[0].Detail
		if FacetAges(n.Stale, now) != "" {
			stale++
		}
	}
	text := CommonReason(group[0])
	switch {
	case len(again) > 0:
		text += " (" + againAt(again, len(group)) + ")"
	case !same:
		text += " (details differ: `slipway why NODE`)"
	case group[0].Detail != "":
		text += " (" + group[0].Detail + ")"
	}
	if stale > 0 {
		text += fmt.Sprintf(" (%d not looked at in time)", stale)
	}
	return text
}

// againAt says when some of the nodes of a group are tried again.
func againAt(times []time.Time, nodes int) string {
	first := slices.MinFunc(times, time.Time.Compare).Local().Format(time.TimeOnly)
	last := slices.MaxFunc(times, time.Time.Compare).Local().Format(time.TimeOnly)
	text := "again at " + first
	if first != last {
		text = "again from " + first + " to " + last
	}
	if len(times) < nodes {
		text = fmt.Sprintf("%d %s", len(times), text)
	}
	return text
}

// NamesOf are the names of nodes, sorted.
func NamesOf(nodes []site.NodeStatus) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// HoldLine is who paused or quarantined something, for how long, and why.
func HoldLine(h site.Hold, now time.Time) string {
	until := ""
	if !h.Until.IsZero() {
		until = ", until " + h.Until.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("by %s, %s ago%s: %s", h.By, Age(h.Since, now), until, h.Reason)
}

// RevisionLine is a revision with its subject, or says that there is none yet.
func RevisionLine(r site.Revision) string {
	if r.ID == "" {
		return "nothing yet"
	}
	return strings.TrimSpace(r.Short() + "  " + r.Subject)
}

// RolloutLine is how far a rollout is, without its failures.
func RolloutLine(r *site.RolloutStatus, now time.Time) string {
	line := fmt.Sprintf("%d of %d nodes of %s", r.Done, len(r.Nodes), r.Revision.Short())
	if r.Ended.IsZero() {
		return line + ", for " + Age(r.Since, now)
	}
	return line + ", ended " + Age(r.Ended, now) + " ago"
}

// CanariesLine names the canaries of a rollout and says how they are; empty if it has none.
func CanariesLine(r *site.RolloutStatus, nodes []site.NodeStatus, now time.Time) string {
	if len(r.Canaries) == 0 {
		return ""
	}
	proven := ": awaited"
	if !r.Proven.IsZero() {
		proven = ": in-sync for " + Age(r.Proven, now)
		if otherwise := notInSync(r.Canaries, nodes); otherwise != "" {
			proven = ": were in-sync " + Age(r.Proven, now) + " ago; " + otherwise
		}
	}
	return strings.Join(r.Canaries, ", ") + proven
}

// notInSync tells of nodes that are not in-sync now.
func notInSync(names []string, nodes []site.NodeStatus) string {
	var not []string
	for _, n := range nodes {
		if slices.Contains(names, n.Name) && n.State != site.InSync {
			not = append(not, n.Name+" is "+string(n.State)+" now")
		}
	}
	return strings.Join(not, ", ")
}

// LossLine says what one loss destroys, on which machine and which disks.
func LossLine(l site.Loss) string {
	return fmt.Sprintf("%s (%s): %s loses %s; %s", l.Node, l.Target(), l.Action, l.Lost, DisksOf(l))
}

// EventLine is what happened and, of an order, who gave it.
func EventLine(e site.Event) string {
	if e.By != "" {
		return e.Text + " (by " + e.By + ")"
	}
	return e.Text
}

// MachineOf is all that is known of who a machine is; empty for nothing.
func MachineOf(i site.Identity) string {
	switch {
	case !i.Known():
		return ""
	case i.UUID != "" && i.Serial != "":
		return fmt.Sprintf("%s, serial %s", i, i.Serial)
	}
	return i.String()
}

// SystemOf is which system was seen last, and whether it answers.
func SystemOf(s site.NodeStatus) string {
	switch s.Service {
	case site.ServiceSilent:
		return strings.TrimPrefix(s.OS+"; ", "; ") + "it does not answer although the machine is on: look at its console, and at the endpoint os in the design"
	case site.ServiceUnknown:
		return strings.TrimPrefix(s.OS+"; ", "; ") + "Slipway does not know whether it answers now"
	}
	return s.OS
}

// PasswordsOf says which derived passwords the accounts of a node's BMC have, one line each.
func PasswordsOf(all []site.AccountPasswordStatus) []string {
	var lines []string
	for _, p := range all {
		text := fmt.Sprintf("%s has that of epoch %d, proven %s", p.Account, p.Epoch, p.Proven.UTC().Format("2006-01-02 15:04:05Z"))
		switch {
		case p.Epoch == 0:
			text = p.Account + ": none is proven yet"
		case p.Proven.IsZero():
			text = fmt.Sprintf("%s has that of epoch %d, by the status branch", p.Account, p.Epoch)
		}
		if p.Form != "" {
			text += ", form " + p.Form
		}
		if p.Offered > 0 {
			text += fmt.Sprintf("; that of epoch %d was offered and is not proven", p.Offered)
		}
		switch {
		case p.Designed == 0:
			text += "; the design no longer has a derived password for it"
		case p.Designed != p.Epoch:
			text += fmt.Sprintf("; the design has epoch %d", p.Designed)
		}
		lines = append(lines, text)
	}
	return lines
}

// LoginOf says how Slipway logged in last.
func LoginOf(l *site.Login) string {
	if l == nil {
		return ""
	}
	text := map[string]string{
		site.ByCertificate: "by a certificate of the site's authority", site.ByKey: "by the key of the credential", site.ByPassword: "by the password of the credential",
	}[l.By]
	if l.Account != "" {
		text += ", account " + l.Account
	}
	if l.Host == site.ByCertificate {
		text += "; the system showed its host certificate"
	}
	if l.Refused == "" {
		return text
	}
	text += "; no certificate: " + l.Refused
	if off := time.Duration(l.Clock).Abs(); off >= time.Minute {
		text += fmt.Sprintf(". The system's clock is off by %s, which may be the cause", say.Rough(off))
	}
	return text
}
