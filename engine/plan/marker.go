package plan

import (
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// otherSystem says why the system on the machine is not the one installed for
// the node. It is empty if it is, or if nobody has looked. During an
// installation the machine may show anything.
func otherSystem(s *site.Site, n *site.Node, m site.Memory) string {
	mk, i := m.Observed.Marker, m.Recorded.Installed
	switch {
	case m.Observed.Facets[site.FacetOS].Seen.IsZero() || m.Recorded.UnderWay() > 0 || Absent(m.Observed):
		return ""
	case i != nil && i.Accepted == mk.Digest() && m.Observed.MarkerUnread == "":
		return ""
	case m.Observed.MarkerUnread != "" && i != nil && i.Reported:
		return fmt.Sprintf("the marker of the system that answers was not read: %s; generation %d was installed %s and had one", m.Observed.MarkerUnread, i.Generation, day(i.Since))
	case mk == nil && i != nil && i.Reported:
		return fmt.Sprintf("the system that answers has no marker; generation %d was installed %s and had one", i.Generation, day(i.Since))
	case mk == nil:
		return ""
	case mk.Site != "" && mk.Site != s.Name:
		return fmt.Sprintf("the system that answers says that it is node %q of site %q", mk.Node, mk.Site)
	case mk.Node != n.Name:
		return fmt.Sprintf("the system that answers says that it is node %q", mk.Node)
	case mk.Generation < 1 || mk.Generation > site.MaxGeneration:
		return fmt.Sprintf("the system that answers says that it is generation %d, which no design can ask for", mk.Generation)
	case i == nil:
		return "" // see unproven
	case mk.Generation > i.Generation:
		return fmt.Sprintf("the system that answers says that it is generation %d, and %d is the last that is recorded: either the records are older than the installation, or somebody changed the marker",
			mk.Generation, i.Generation)
	case i.Reported && (mk.Generation < i.Generation || mk.Image != i.Image):
		return fmt.Sprintf("the system that answers says that it is generation %d from image %s; generation %d from image %s was installed %s",
			mk.Generation, brief(mk.Image), i.Generation, brief(i.Image), day(i.Since))
	}
	return ""
}

func day(t time.Time) string { return "on " + t.UTC().Format(time.DateOnly) }

// brief returns the beginning of a digest.
func brief(digest string) string { return digest[:min(len(digest), 12)] }

// claims reports whether the system on the machine claims to be installed for
// the node.
func claims(n *site.Node, m site.Memory) bool {
	mk := m.Observed.Marker
	return mk != nil && mk.Node == n.Name && mk.Generation >= 1 && mk.Generation <= site.MaxGeneration && !Absent(m.Observed)
}

// unproven says that the machine claims to be installed as designed, but the
// records know of no installation and the claim has no valid signature. A signed
// claim would have been recorded.
func unproven(n *site.Node, m site.Memory) string {
	if !claims(n, m) || m.Recorded.Installed != nil || m.Observed.Marker.Generation < wanted(n) {
		return ""
	}
	return fmt.Sprintf("the system that answers says that it is generation %d; the records have nothing about that, and it has no valid signature of this site", m.Observed.Marker.Generation)
}

// AcceptedGeneration is the generation that a system counts as when a person
// accepts it instead of the installed one: what it claims, if it names the
// node, or else what is recorded or designed.
func AcceptedGeneration(n *site.Node, m site.Memory) int {
	if claims(n, m) {
		return m.Observed.Marker.Generation
	}
	return max(m.Recorded.Generation(), wanted(n))
}

// planForeign plans only an installation on a machine with another system: that
// may belong to somebody else.
func planForeign(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory) {
	p.Foreign = otherSystem(s, n, m)
	if wanted(n) <= Generation(n, m) {
		return
	}
	if n.IsVirtual() {
		planVirtual(p, s, n, m, nil)
		return
	}
	planInstallation(p, s, n, m)
}

// whatRuns says what is known of a system that an installation would destroy,
// if the records have nothing, for whoever approves it.
func whatRuns(s *site.Site, n *site.Node, m site.Memory) string {
	mk := m.Observed.Marker
	switch other := otherSystem(s, n, m); {
	case other != "" && mk != nil && mk.Site != "":
		return fmt.Sprintf(", with the system of node %q of site %q", mk.Node, mk.Site)
	case other != "" && mk != nil && mk.Node != n.Name:
		return fmt.Sprintf(", with the system of node %q", mk.Node)
	case m.Recorded.Installed != nil || m.Recorded.UnderWay() > 0:
		return ""
	case claims(n, m):
		return fmt.Sprintf(", with a system that says it is generation %d", mk.Generation)
	case !m.Observed.Facets[site.FacetOS].Seen.IsZero():
		return ", with the system that runs there"
	}
	return " (Slipway has never seen what runs there)"
}

// NotBefore says why the system that answers is not the one from before the installation that
// was begun; empty if it may be.
func NotBefore(s *site.Site, n *site.Node, m site.Memory) string {
	generation := m.Recorded.UnderWay()
	m.Recorded.InFlight, m.Recorded.Installing = nil, nil
	if mk := m.Observed.Marker; generation > 0 && claims(n, m) && mk.Generation >= generation {
		return fmt.Sprintf("it says that it is generation %d, and does not prove that it is the one that was begun", mk.Generation)
	}
	if m.Observed.MarkerUnread != "" {
		return "its marker was not read: " + m.Observed.MarkerUnread
	}
	return otherSystem(s, n, m)
}

// unseen reports whether nothing is known of a system on the machine.
func unseen(m site.Memory) bool {
	return m.Recorded.Installed == nil && m.Recorded.UnderWay() == 0 && m.Observed.Marker == nil && m.Observed.Facets[site.FacetOS].Seen.IsZero()
}
