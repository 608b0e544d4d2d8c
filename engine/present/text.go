// Package present renders plans, and the progress of proposals, for people: the text of
// `slipway plan`, the comment on a pull request, the differences of files. It is pure
// and decides nothing.
package present

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Paint colours text by its meaning; the zero Paint leaves it plain.
type Paint struct {
	Bold, Dim, Online, Reboot, Destructive func(string) string
	Added, Removed                         func(string) string // lines of a file
}

func (c Paint) with(f func(string) string, s string) string {
	if f == nil {
		return s
	}
	return f(s)
}

func (c Paint) impact(i site.Impact, s string) string {
	switch i {
	case site.ImpactInterrupts, site.ImpactReboot:
		return c.with(c.Reboot, s)
	case site.ImpactDestructive:
		return c.with(c.Destructive, s)
	}
	return c.with(c.Online, s)
}

// View is how a plan is shown.
type View struct {
	// Site is the design, Known what else the plan is based on, and Now the
	// time for ages.
	Site  *site.Site
	Known site.Known
	Now   time.Time
	Paint Paint
	// Before is the design in force, which shows the files of machines that match
	// it; nil if unknown.
	Before *site.Site
	// Width is the width of the picture of the order; 0 means a list instead.
	Width int
	// Pages is the address that shows files of the proposal's commit by path,
	// for links; empty for none.
	Pages string
}

// Text writes a plan for people: nodes with the same steps together, what is
// destroyed by name, how it will run, and a line of counts.
func Text(w io.Writer, p *site.Plan, v View) {
	never := 0
	for _, n := range p.Nodes {
		if n.Seen.IsZero() {
			never++
		}
	}
	f := newFiles(v)
	for _, g := range group(p.Nodes) {
		g.write(w, f)
	}
	for _, r := range p.Removes {
		fmt.Fprintf(w, "%s\n  - leaves the design; Slipway does not change its machine\n", v.Paint.with(v.Paint.Bold, r.Node))
		if r.Held != "" {
			fmt.Fprintf(w, "    held: %s\n", r.Held)
		}
		fmt.Fprintln(w)
	}
	if not := notActedOn(p); len(not) > 0 {
		fmt.Fprintln(w, "designed, not acted on:")
		for _, u := range not {
			fmt.Fprintf(w, "  %s\n", site.Printable(u.String()))
		}
		fmt.Fprintln(w)
	}
	writeDestroys(w, p, v)
	if p.Forecast != nil {
		writeForecast(w, p, v)
	}
	change, reboot, destructive := p.Counts()
	possible := ""
	if may := p.MayReboot(); may > 0 {
		possible = fmt.Sprintf(" (%d of them possible)", may)
	}
	line := fmt.Sprintf("%d to change, %d reboots%s, %d destructive", change, reboot, possible, destructive)
	if len(p.Removes) > 0 {
		line += fmt.Sprintf(", %d to remove", len(p.Removes))
	}
	if never > 0 {
		line += fmt.Sprintf(" (%d of %d nodes never seen)", never, len(p.Nodes))
	}
	fmt.Fprintln(w, v.Paint.with(v.Paint.Bold, line))
}

// notActedOn returns the parts of a design that no driver acts on, of the site and
// of its nodes.
func notActedOn(p *site.Plan) []site.Unacted {
	all := []site.Unacted{{Paths: p.NotActedOn}}
	for _, n := range p.Nodes {
		all = append(all, site.Unacted{Paths: n.NotActedOn, Nodes: []string{n.Node}})
	}
	return site.GroupUnacted(all)
}

// Nodes writes the plans of nodes, those with the same steps together, without the
// differences of files.
func Nodes(w io.Writer, nodes []site.NodePlan, now time.Time, paint Paint) {
	f := newFiles(View{Now: now, Paint: paint})
	for _, g := range group(nodes) {
		g.write(w, f)
	}
}

// nodeGroup is a group of nodes whose plans read the same.
type nodeGroup struct {
	names []string
	nodes []site.NodePlan
	first site.NodePlan
}

func group(nodes []site.NodePlan) []nodeGroup {
	index := map[string]int{}
	var groups []nodeGroup
	for _, n := range nodes {
		n.NotActedOn = nil // is listed for all nodes together
		if n.IsEmpty() {
			continue
		}
		k := key(n)
		i, ok := index[k]
		if !ok {
			i = len(groups)
			index[k] = i
			groups = append(groups, nodeGroup{first: n})
		}
		groups[i].names = append(groups[i].names, withHost(n))
		groups[i].nodes = append(groups[i].nodes, n)
	}
	sort.SliceStable(groups, func(i, j int) bool { return worst(groups[i].first) > worst(groups[j].first) })
	return groups
}

// withHost is a node's name, with the hypervisor that its machine is placed on.
func withHost(n site.NodePlan) string {
	if n.Hypervisor == "" {
		return n.Node
	}
	return n.Node + " on " + n.Hypervisor
}

// doubts are why it is not sure that the system on the machine is the installed one.
func doubts(n site.NodePlan) []string {
	var all []string
	if n.Foreign != "" {
		all = append(all, "foreign: "+n.Foreign)
	}
	if n.Unproven != "" {
		all = append(all, "unproven: "+n.Unproven)
	}
	return all
}

// remarks are worth knowing and block nothing.
func remarks(n site.NodePlan) []string {
	var all []string
	for _, x := range n.Notes {
		all = append(all, "note: "+x)
	}
	for _, f := range n.Findings {
		all = append(all, "finding: "+f.String())
	}
	return all
}

func worst(n site.NodePlan) site.Impact {
	i := site.ImpactNone
	for _, s := range n.Steps {
		i = max(i, s.Impact)
	}
	return i
}

func key(n site.NodePlan) string {
	parts := slices.Concat(n.Blocked, remarks(n), n.Reported, []string{n.Waiting, n.Foreign, n.Unproven})
	for _, s := range n.Steps {
		parts = append(parts, s.Digest(), s.Reason, s.Undo, say.Brief(s.Expect))
		parts = append(parts, s.Makes...)
		for _, c := range s.Changes {
			parts = append(parts, origins(c, n.Node, 2))
		}
	}
	return strings.Join(parts, "\x00")
}

func (g nodeGroup) write(w io.Writer, f *files) {
	paint := f.Paint
	fmt.Fprintln(w, paint.with(paint.Bold, g.head(5))+paint.with(paint.Dim, seenAgo(g, f.Now)))
	for _, s := range g.first.Steps {
		writeStep(w, s, g.nodes, f)
	}
	if len(g.first.Steps) > 1 {
		fmt.Fprintf(w, "  about %s in all\n", say.Brief(g.first.Expect))
	}
	for _, b := range g.first.Blocked {
		fmt.Fprintf(w, "  %s %s\n", paint.with(paint.Reboot, "blocked:"), site.Printable(b))
	}
	if g.first.Waiting != "" {
		fmt.Fprintf(w, "  waiting: %s\n", site.Printable(g.first.Waiting))
	}
	for _, x := range doubts(g.first) {
		fmt.Fprintf(w, "  %s\n", site.Printable(x))
	}
	for _, r := range g.first.Reported {
		fmt.Fprintf(w, "  reported: %s\n", site.Printable(r))
	}
	for _, r := range remarks(g.first) {
		fmt.Fprintf(w, "  %s\n", paint.with(paint.Dim, site.Printable(r)))
	}
	fmt.Fprintln(w)
}

// head names the nodes, or a few of many.
func (g nodeGroup) head(some int) string {
	head := strings.Join(g.names, ", ")
	if len(g.names) > some+1 {
		head = strings.Join(g.names[:some], ", ") + ", …"
	}
	if len(g.names) > 1 {
		head += fmt.Sprintf(" (%d nodes)", len(g.names))
	}
	return head
}

func seenAgo(g nodeGroup, now time.Time) string {
	if g.first.Seen.IsZero() || len(g.names) > 1 {
		return ""
	}
	return fmt.Sprintf("  seen %s ago", now.Sub(g.first.Seen).Round(time.Second))
}

var signs = map[site.Impact]string{site.ImpactNone: "~", site.ImpactOnline: "~", site.ImpactInterrupts: "!", site.ImpactReboot: "!", site.ImpactDestructive: "✗"}

func writeStep(w io.Writer, s site.Step, nodes []site.NodePlan, f *files) {
	paint := f.Paint
	fmt.Fprintf(w, "  %s  %s, about %s; %s%s\n", paint.impact(s.Impact, signs[s.Impact]+" "+string(s.Action)), impactOf(s), say.Brief(s.Expect), site.Printable(s.Reason), serves(s))
	for _, c := range s.Changes {
		fmt.Fprintf(w, "      %s: %s → %s", site.Printable(c.Name()), site.Printable(say.OrNone(c.Have)), site.Printable(say.OrNone(c.Want)))
		if o := origins(c, s.Node, len(nodes)); o != "" {
			fmt.Fprint(w, paint.with(paint.Dim, "   "+site.Printable(o)))
		}
		fmt.Fprintln(w)
		if d, ok := f.difference(nodes, c); ok {
			d.write(w, "          ", paint)
		}
	}
	if s.Facet == site.FacetPackages && len(nodes) > 0 {
		for _, line := range upgrades(nodes[0]) {
			fmt.Fprintf(w, "      %s\n", site.Printable(line))
		}
	}
	for _, line := range s.Makes {
		fmt.Fprintf(w, "      makes %s\n", site.Printable(line))
	}
	if s.Undo != "" {
		fmt.Fprintf(w, "      %s\n", paint.with(paint.Dim, site.Printable(undo(s))))
	}
}

// impactOf is the impact of a step, marked if it is only possible.
func impactOf(s site.Step) string {
	if s.Maybe {
		return "possible " + s.Impact.String()
	}
	return s.Impact.String()
}

func undo(s site.Step) string {
	if strings.HasPrefix(s.Undo, "cannot") {
		return s.Undo
	}
	return "undo: " + s.Undo
}

// origins says where a change was designed. If several nodes each set the value
// themselves, it says so.
func origins(c site.Change, node string, nodes int) string {
	layer := c.Origin.LayerName()
	switch {
	case layer == "":
		return ""
	case nodes > 1 && layer == "node/"+node:
		return "each node"
	}
	return c.Origin.String() + " (" + layer + ")"
}

// serves says that one boot replaces several.
func serves(s site.Step) string {
	var facets []string
	for _, c := range s.Changes {
		if f, _, _ := strings.Cut(c.Field, "."); !slices.Contains(facets, f) {
			facets = append(facets, f)
		}
	}
	if s.Action != site.ActionRestart || len(facets) < 2 {
		return ""
	}
	return ": one boot for " + strings.Join(facets, " and ")
}

func writeDestroys(w io.Writer, p *site.Plan, v View) {
	destroyed := Destroyed(p, v.Known)
	if len(destroyed) == 0 {
		return
	}
	heading := "This plan destroys:"
	if waiting := plan.Unapproved(p.Destroys(), v.Known); len(waiting) > 0 {
		heading = "This plan destroys (set " + waiting.Digest() + "):"
	}
	fmt.Fprintln(w, v.Paint.with(v.Paint.Destructive, heading))
	for _, d := range destroyed {
		fmt.Fprintf(w, "  %s (%s): %s loses %s\n      %s\n", d.Node, d.Target(), d.Action, d.Lost, v.Paint.with(v.Paint.Dim, d.disks()))
		if approval := d.approval(); approval != "" {
			fmt.Fprintln(w, "      "+approval)
		}
	}
	fmt.Fprintln(w)
}

// approval says what is known of a loss's approval; empty if the loss waits for
// one.
func (d Destruction) approval() string {
	switch {
	case d.Approved != nil:
		return "approved by " + site.Printable(d.Approved.String())
	case d.Loss.Disks == "":
		return "cannot be approved before Slipway has read its disks"
	}
	return ""
}

// Destruction is a loss with what is known of the lost disks.
type Destruction struct {
	site.Loss
	// Drives are the drives that the machine reports; nil if unknown.
	Drives []site.Drive `json:"drives,omitempty"`
	// Approved says who has approved the loss; nil for nobody.
	Approved *site.ApprovalSource `json:"approved,omitempty"`
}

// Destroyed returns what a plan destroys.
func Destroyed(p *site.Plan, k site.Known) []Destruction { return withDrives(p.Destroys(), k) }

func withDrives(set site.Losses, k site.Known) []Destruction {
	var all []Destruction
	for _, l := range set {
		d := Destruction{Loss: l}
		if e := k.Account(l.Node).Open(l); e != nil {
			d.Approved = &e.Source
		}
		if i := k.Nodes[l.Node].Observed.Inventory; i != nil {
			d.Drives = i.Drives
		}
		all = append(all, d)
	}
	return all
}

// disks names the lost disks, and what is known of each.
func (d Destruction) disks() string {
	return namedDisks(d.Loss, func(name string) string {
		i := slices.IndexFunc(d.Drives, func(x site.Drive) bool {
			return name == x.DiskName() || x.Serial != "" && strings.HasPrefix(name, x.DiskName()+"/")
		})
		if i < 0 {
			return name
		}
		x := d.Drives[i]
		parts := []string{say.Size(x.Bytes), x.Model, "serial " + name, ""}
		if x.Serial == "" {
			parts[2] = "without a serial number"
		}
		if x.Name != "" {
			parts[3] = "(" + x.Name + ")"
		}
		return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
	})
}

// DisksOf names the disks of a loss, which are part of its approval.
func DisksOf(l site.Loss) string { return namedDisks(l, func(name string) string { return name }) }

// namedDisks names the disks of a loss, each in the words of tell.
func namedDisks(l site.Loss, tell func(name string) string) string {
	switch l.Disks {
	case "":
		return "Slipway has not read its disks yet"
	case site.DisksUnknown:
		return "Slipway cannot tell which disks these are"
	}
	names := strings.Split(l.Disks, ", ")
	for i, name := range names {
		names[i] = site.Printable(tell(name))
	}
	return "disks: " + strings.Join(names, ", ")
}
