package plan

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Paint colours text by what it stands for; the zero Paint leaves it plain.
type Paint struct {
	Bold, Dim, Online, Reboot, Destructive func(string) string
}

func (c Paint) with(f func(string) string, s string) string {
	if f == nil {
		return s
	}
	return f(s)
}

func (c Paint) impact(i site.Impact, s string) string {
	switch i {
	case site.ImpactReboot:
		return c.with(c.Reboot, s)
	case site.ImpactDestructive:
		return c.with(c.Destructive, s)
	}
	return c.with(c.Online, s)
}

// Text writes a plan for people: nodes with the same steps together, what is
// destroyed by name, and one line that counts. Ages are told as of now.
func Text(w io.Writer, p *site.Plan, now time.Time, paint Paint) {
	never := 0
	for _, n := range p.Nodes {
		if n.Seen.IsZero() {
			never++
		}
	}
	Nodes(w, p.Nodes, now, paint)
	for _, r := range p.Removes {
		fmt.Fprintf(w, "%s\n  - leaves the design; its machine is left as it is\n", paint.with(paint.Bold, r.Node))
		if r.Held != "" {
			fmt.Fprintf(w, "    held: %s\n", r.Held)
		}
		fmt.Fprintln(w)
	}
	writeDestroys(w, p, paint)
	change, reboot, destructive := p.Counts()
	line := fmt.Sprintf("%d to change, %d reboots, %d destructive", change, reboot, destructive)
	if len(p.Removes) > 0 {
		line += fmt.Sprintf(", %d to remove", len(p.Removes))
	}
	if never > 0 && never < len(p.Nodes) {
		line += fmt.Sprintf(" (%d of %d nodes never seen)", never, len(p.Nodes))
	}
	fmt.Fprintln(w, paint.with(paint.Bold, line))
}

// Nodes writes what is to be done to nodes, those with the same steps together.
func Nodes(w io.Writer, nodes []site.NodePlan, now time.Time, paint Paint) {
	for _, g := range group(nodes) {
		g.write(w, now, paint)
	}
}

// nodeGroup is nodes whose plans read the same.
type nodeGroup struct {
	names []string
	first site.NodePlan
}

func group(nodes []site.NodePlan) []nodeGroup {
	index := map[string]int{}
	var groups []nodeGroup
	for _, n := range nodes {
		if len(n.Steps)+len(n.Blocked)+len(n.Notes) == 0 && n.Waiting == "" {
			continue
		}
		k := key(n)
		i, ok := index[k]
		if !ok {
			i = len(groups)
			index[k] = i
			groups = append(groups, nodeGroup{first: n})
		}
		groups[i].names = append(groups[i].names, n.Node)
	}
	sort.SliceStable(groups, func(i, j int) bool { return worst(groups[i].first) > worst(groups[j].first) })
	return groups
}

func worst(n site.NodePlan) site.Impact {
	i := site.ImpactNone
	for _, s := range n.Steps {
		i = max(i, s.Impact)
	}
	return i
}

func key(n site.NodePlan) string {
	parts := slices.Concat(n.Blocked, n.Notes, []string{n.Waiting})
	for _, s := range n.Steps {
		parts = append(parts, s.Digest(), s.Reason)
		for _, c := range s.Changes {
			parts = append(parts, c.Origin.String())
		}
	}
	return strings.Join(parts, "\x00")
}

func (g nodeGroup) write(w io.Writer, now time.Time, paint Paint) {
	head := strings.Join(g.names, ", ")
	if len(g.names) > 6 {
		head = strings.Join(g.names[:5], ", ") + ", …"
	}
	if len(g.names) > 1 {
		head += fmt.Sprintf(" (%d nodes)", len(g.names))
	}
	fmt.Fprintln(w, paint.with(paint.Bold, head)+paint.with(paint.Dim, seenAgo(g, now)))
	for _, s := range g.first.Steps {
		writeStep(w, s, paint)
	}
	for _, b := range g.first.Blocked {
		fmt.Fprintf(w, "  %s %s\n", paint.with(paint.Reboot, "blocked:"), b)
	}
	if g.first.Waiting != "" {
		fmt.Fprintf(w, "  waiting: %s\n", g.first.Waiting)
	}
	for _, n := range g.first.Notes {
		fmt.Fprintf(w, "  %s\n", paint.with(paint.Dim, "note: "+n))
	}
	fmt.Fprintln(w)
}

func seenAgo(g nodeGroup, now time.Time) string {
	if g.first.Seen.IsZero() || len(g.names) > 1 {
		return ""
	}
	return fmt.Sprintf("  seen %s ago", now.Sub(g.first.Seen).Round(time.Second))
}

var signs = map[site.Impact]string{site.ImpactNone: "~", site.ImpactOnline: "~", site.ImpactReboot: "!", site.ImpactDestructive: "✗"}

func writeStep(w io.Writer, s site.Step, paint Paint) {
	fmt.Fprintf(w, "  %s  %s, about %s; %s\n", paint.impact(s.Impact, signs[s.Impact]+" "+string(s.Action)), s.Impact, brief(s.Expect), s.Reason)
	for _, c := range s.Changes {
		fmt.Fprintf(w, "      %s: %s → %s", c.Field, orNone(c.Have), orNone(c.Want))
		if o := c.Origin.String(); o != "" {
			fmt.Fprint(w, paint.with(paint.Dim, "   "+o+" ("+c.Origin.LayerName()+")"))
		}
		fmt.Fprintln(w)
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// brief is a duration without its zero parts: "3m", not "3m0s".
func brief(d site.Duration) string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

func writeDestroys(w io.Writer, p *site.Plan, paint Paint) {
	losses := p.Destroys()
	if len(losses) == 0 {
		return
	}
	fmt.Fprintln(w, paint.with(paint.Destructive, "What is destroyed, as set "+losses.Digest()+":"))
	for _, l := range losses {
		fmt.Fprintf(w, "  %s (%s): %s loses %s\n", l.Node, l.Machine, l.Action, l.Lost)
	}
	fmt.Fprintln(w)
}
