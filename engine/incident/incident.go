// Package incident decides when Slipway acts on a compromise by itself, and finds the secrets that
// the affected nodes could read. It is pure.
package incident

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What an incident may do to a site before a person has to confirm it: mostNodes nodes or mostPercent
// percent of the site's nodes, whichever is more.
const (
	mostNodes   = 5
	mostPercent = 5
)

// Unproven is why an incident that came by a commit waits.
const Unproven = "it came by a commit, and Slipway cannot prove that whoever merged it may order it"

// Reasons says why Slipway asks a person before it switches off the nodes of an incident; none if it
// does not ask. Lately are the nodes that other incidents of the last 24 hours hold; they count too, so
// that many small ones do not switch a site off. Host is the node that the daemon runs on; empty if
// none is known.
func Reasons(s *site.Site, i site.Incident, lately map[string]bool, host string) (all []string) {
	both := maps.Clone(lately)
	if both == nil {
		both = map[string]bool{}
	}
	for _, name := range i.Nodes {
		both[name] = true
	}
	switch most := max(mostNodes, len(s.Nodes)*mostPercent/100); {
	case len(i.Nodes) > most:
		all = append(all, fmt.Sprintf("it names %s of %d, more than %d", say.Count(len(i.Nodes), "node"), len(s.Nodes), most))
	case len(both) > most && len(both) > len(lately):
		all = append(all, fmt.Sprintf("with the incidents of the last 24 h that are not over, %s of %d would be off, more than %d", say.Count(len(both), "node"), len(s.Nodes), most))
	}
	for _, name := range i.Nodes {
		n := s.Nodes[name]
		switch {
		case n == nil:
			continue
		case name == host:
			all = append(all, fmt.Sprintf("%s is the bootstrap host: the daemon would switch itself off", name))
		case neededBy(s, n.Role) != "":
			all = append(all, fmt.Sprintf("%s is a controller: role %s needs nodes of its role %s", name, neededBy(s, n.Role), n.Role))
		case s.Roles[n.Role] != nil && (s.Roles[n.Role].Majority || s.Roles[n.Role].Leader == name):
			all = append(all, fmt.Sprintf("%s is a controller: its role %s keeps a majority or has it as its leader", name, n.Role))
		}
		for hv, h := range s.Hypervisors {
			if h.Node == name && guests(s, hv) > 0 {
				all = append(all, fmt.Sprintf("%s is hypervisor %s: its %s would go down with it", name, hv, say.Count(guests(s, hv), "virtual machine")))
			}
		}
	}
	slices.Sort(all)
	return all
}

// neededBy is the first role that needs nodes of a role; empty for none.
func neededBy(s *site.Site, role string) string {
	if role == "" {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(s.Roles)) {
		for _, needs := range s.Roles[name].Needs {
			if _, does := needs[role]; does {
				return name
			}
		}
	}
	return ""
}

func guests(s *site.Site, hypervisor string) (n int) {
	for _, node := range s.Nodes {
		if node.IsVirtual() && node.Virtual.Host.Hypervisor == hypervisor {
			n++
		}
	}
	return n
}

// New describes the incidents of a design that another one, which may be nil, does not have: what a
// confirmation does, and the secrets to replace, in order, by what is known of deliveries.
func New(before, after *site.Site, delivered map[string]site.Delivered) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(after.Incidents)) {
		in := after.Incidents[name]
		if before != nil {
			if was, had := before.Incidents[name]; had && was.ID(name) == in.ID(name) {
				continue
			}
		}
		lines = append(lines, fmt.Sprintf("incident %s: `slipway compromise --confirm %s` puts %s under quarantine and switches them off (%s); until then these nodes get no new password, and nothing is changed in their systems or installed", name, in.ID(name), say.Some(in.Nodes, 10), in.Reason))
		if why := Reasons(after, in, nil, ""); len(why) > 0 {
			lines = append(lines, "read before you confirm it: "+strings.Join(why, "; "))
		}
		exposed := Exposed(after, in.Nodes, Facts{Delivered: delivered})
		for i, x := range exposed[:min(len(exposed), mostShown)] {
			also := ""
			if len(x.Holders) > 0 {
				also = ", also held by " + say.Some(x.Holders, 10)
			}
			if epoch := raised(before, &x); epoch > 0 {
				x.Do = fmt.Sprintf("This change raises its epoch from %d to %d: Slipway sets the next password on one machine, then on the others", epoch, x.Epoch)
			}
			lines = append(lines, fmt.Sprintf("to replace %d: %s, read by %s%s. %s", i+1, x.Secret, x.ReadBy(), also, x.Do))
		}
		if rest := len(exposed) - mostShown; rest > 0 {
			lines = append(lines, fmt.Sprintf("and %s more to replace: `slipway incident %s` lists all after the merge", say.Count(rest, "secret"), name))
		}
	}
	return lines
}

// raised is the epoch that a derived credential had in the design before, if the one after has a later one; else 0.
func raised(before *site.Site, x *site.Exposed) int {
	if before == nil {
		return 0
	}
	if d, derived := before.Credentials[site.CredentialOf(x.Secret)].Derived(); derived && d.Epoch < x.Epoch {
		return d.Epoch
	}
	return 0
}

// mostShown is how many secrets of an incident a plan lists.
const mostShown = 40

// Text shows an incident as lines for people: what Slipway does or did, and what people have to.
func Text(s *site.IncidentState) string {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(site.Printable(fmt.Sprintf(format, args...)) + "\n") }
	line("incident %s (%s): %s", s.Name, s.ID, s.Incident.Reason)
	line("compromised since %s", at(s.Incident.Since))
	switch {
	case s.By == "" && s.Commit != "":
		line("found at %s in commit %s", at(s.Found), s.Commit[:min(len(s.Commit), 12)])
	case !s.Found.IsZero():
		line("ordered at %s by %s", at(s.Found), s.By)
	}
	if s.Confirmed != "" {
		line("confirmed by %s", s.Confirmed)
	}
	switch {
	case s.Acted.IsZero() && len(s.Waits) > 0:
		line("WAITS: nothing was switched off. To act on it, run `%s`", s.Confirm())
		for _, why := range s.Waits {
			line("  because %s", why)
		}
		line("nodes: %s", strings.Join(s.Incident.Nodes, ", "))
	case s.Acted.IsZero():
		line("Slipway would put these under quarantine and switch them off at once: %s", strings.Join(s.Incident.Nodes, ", "))
	default:
		line("acted on since %s", at(s.Acted))
		for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
			line("  %s: %s", name, s.Nodes[name].Power)
		}
	}
	switch {
	case !s.Ended.IsZero():
		line("ended at %s by %s: %s", at(s.Ended), s.EndedBy, s.EndedBecause)
	case !s.Clear.IsZero():
		line("all clear since %s", at(s.Clear))
	case s.IsReleased() && s.Follows:
		line("NOT all clear: some secrets are not known to be replaced. To end the incident all the same, run `%s`", s.End())
	}
	if s.Removed && !s.Acted.IsZero() {
		line("the design does not have it; this releases nothing")
	}
	line("")
	line("%s", Assumption)
	for i, x := range s.Exposed {
		line("%d. %s, read by %s", i+1, x.Secret, x.ReadBy())
		if len(x.Holders) > 0 {
			line("   also held by %s", say.Some(x.Holders, 10))
		}
		if x.State != "" {
			line("   %s", x.Progress())
		}
		if !x.State.IsDone() {
			line("   %s", x.Do)
		}
	}
	if len(s.Exposed) == 0 {
		line("the design names no secret for these nodes")
	}
	line("")
	line("Not done by Slipway:")
	for _, left := range site.IncidentLeftOver {
		line("- %s", left)
	}
	return b.String()
}

func at(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}
