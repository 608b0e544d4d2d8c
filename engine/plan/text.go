package plan

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

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

// View is how a plan is shown.
type View struct {
	// Site is the design, Known what the plan rests on beside it; Now is when
	// its ages are told.
	Site  *site.Site
	Known site.Known
	Now   time.Time
	Paint Paint
	// Width is how wide the picture of the order may be; without one there is
	// a list in its place.
	Width int
	// Pages is the address that shows files of the proposal's commit by their
	// path, for links; empty for none.
	Pages string
}

// Text writes a plan for people: nodes with the same steps together, what is
// destroyed by name, how it will run, and one line that counts.
func Text(w io.Writer, p *site.Plan, v View) {
	never := 0
	for _, n := range p.Nodes {
		if n.Seen.IsZero() {
			never++
		}
	}
	Nodes(w, p.Nodes, v.Now, v.Paint)
	for _, r := range p.Removes {
		fmt.Fprintf(w, "%s\n  - leaves the design; its machine is left as it is\n", v.Paint.with(v.Paint.Bold, r.Node))
		if r.Held != "" {
			fmt.Fprintf(w, "    held: %s\n", r.Held)
		}
		fmt.Fprintln(w)
	}
	writeDestroys(w, p, v)
	if p.Forecast != nil {
		writeForecast(w, p, v)
	}
	change, reboot, destructive := p.Counts()
	line := fmt.Sprintf("%d to change, %d reboots, %d destructive", change, reboot, destructive)
	if len(p.Removes) > 0 {
		line += fmt.Sprintf(", %d to remove", len(p.Removes))
	}
	if never > 0 && never < len(p.Nodes) {
		line += fmt.Sprintf(" (%d of %d nodes never seen)", never, len(p.Nodes))
	}
	fmt.Fprintln(w, v.Paint.with(v.Paint.Bold, line))
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
	nodes []site.NodePlan
	first site.NodePlan
}

func group(nodes []site.NodePlan) []nodeGroup {
	index := map[string]int{}
	var groups []nodeGroup
	for _, n := range nodes {
		if len(n.Steps)+len(n.Blocked)+len(n.Notes)+len(n.Findings)+len(n.Reported) == 0 && n.Waiting == "" {
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

// withHost is a node's name, and the hypervisor that its machine is placed on.
func withHost(n site.NodePlan) string {
	if n.Hypervisor == "" {
		return n.Node
	}
	return n.Node + " on " + n.Hypervisor
}

// remarks are what is worth knowing and stops nothing.
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
	parts := slices.Concat(n.Blocked, remarks(n), n.Reported, []string{n.Waiting})
	for _, s := range n.Steps {
		parts = append(parts, s.Digest(), s.Reason, s.Undo, Brief(s.Expect))
		for _, c := range s.Changes {
			parts = append(parts, origins(c, n.Node, 2))
		}
	}
	return strings.Join(parts, "\x00")
}

func (g nodeGroup) write(w io.Writer, now time.Time, paint Paint) {
	fmt.Fprintln(w, paint.with(paint.Bold, g.head(5))+paint.with(paint.Dim, seenAgo(g, now)))
	for _, s := range g.first.Steps {
		writeStep(w, s, len(g.names), paint)
	}
	if len(g.first.Steps) > 1 {
		fmt.Fprintf(w, "  about %s in all\n", Brief(g.first.Expect))
	}
	for _, b := range g.first.Blocked {
		fmt.Fprintf(w, "  %s %s\n", paint.with(paint.Reboot, "blocked:"), clean(b))
	}
	if g.first.Waiting != "" {
		fmt.Fprintf(w, "  waiting: %s\n", clean(g.first.Waiting))
	}
	for _, r := range g.first.Reported {
		fmt.Fprintf(w, "  reported: %s\n", clean(r))
	}
	for _, r := range remarks(g.first) {
		fmt.Fprintf(w, "  %s\n", paint.with(paint.Dim, clean(r)))
	}
	fmt.Fprintln(w)
}

// head names the nodes, or some of many.
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

// clean takes out of a text that others wrote what would move on a terminal, or
// turn the order of what is around it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		}
		return r
	}, s)
}

func seenAgo(g nodeGroup, now time.Time) string {
	if g.first.Seen.IsZero() || len(g.names) > 1 {
		return ""
	}
	return fmt.Sprintf("  seen %s ago", now.Sub(g.first.Seen).Round(time.Second))
}

var signs = map[site.Impact]string{site.ImpactNone: "~", site.ImpactOnline: "~", site.ImpactReboot: "!", site.ImpactDestructive: "✗"}

func writeStep(w io.Writer, s site.Step, nodes int, paint Paint) {
	fmt.Fprintf(w, "  %s  %s, about %s; %s%s\n", paint.impact(s.Impact, signs[s.Impact]+" "+string(s.Action)), s.Impact, Brief(s.Expect), clean(s.Reason), serves(s))
	for _, c := range s.Changes {
		fmt.Fprintf(w, "      %s: %s → %s", clean(c.Name()), clean(orNone(c.Have)), clean(orNone(c.Want)))
		if o := origins(c, s.Node, nodes); o != "" {
			fmt.Fprint(w, paint.with(paint.Dim, "   "+clean(o)))
		}
		fmt.Fprintln(w)
	}
	if s.Undo != "" {
		fmt.Fprintf(w, "      %s\n", paint.with(paint.Dim, clean(undo(s))))
	}
}

func undo(s site.Step) string {
	if strings.HasPrefix(s.Undo, "cannot") {
		return s.Undo
	}
	return "undo: " + s.Undo
}

// origins says where a change was designed. What several nodes say each for
// itself is in as many places.
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

// serves says that one boot takes the place of several.
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

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Brief is a duration without its zero parts: "3m", not "3m0s".
func Brief(d site.Duration) string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func writeDestroys(w io.Writer, p *site.Plan, v View) {
	destroyed := Destroyed(p, v.Known)
	if len(destroyed) == 0 {
		return
	}
	fmt.Fprintln(w, v.Paint.with(v.Paint.Destructive, "What is destroyed, as set "+p.Destroys().Digest()+":"))
	for _, d := range destroyed {
		fmt.Fprintf(w, "  %s (%s): %s loses %s\n      %s\n", d.Node, d.Machine, d.Action, d.Lost, v.Paint.with(v.Paint.Dim, d.disks()))
	}
	fmt.Fprintln(w)
}

// Destruction is a loss with what is known of what is lost.
type Destruction struct {
	site.Loss
	// Drives are the machine's, as it tells; nil when nothing is known.
	Drives []site.Drive `json:"drives,omitempty"`
	// Volumes are those of a virtual machine, each in words.
	Volumes []string `json:"volumes,omitempty"`
}

// Destroyed is what a plan destroys.
func Destroyed(p *site.Plan, k site.Known) []Destruction { return withDrives(p.Destroys(), k) }

func withDrives(set site.Losses, k site.Known) []Destruction {
	var all []Destruction
	for _, l := range set {
		d := Destruction{Loss: l, Volumes: volumes(k.Nodes[l.Node].Observed)}
		if i := k.Nodes[l.Node].Observed.Inventory; i != nil {
			d.Drives = i.Drives
		}
		all = append(all, d)
	}
	return all
}

func (d Destruction) disks() string {
	switch {
	case d.Volumes != nil:
		return "its disks: " + clean(strings.Join(d.Volumes, ", "))
	case d.Drives == nil:
		return "nothing is known of its disks"
	case len(d.Drives) == 0:
		return "its BMC tells of no disks"
	}
	var disks []string
	for _, x := range d.Drives {
		parts := []string{Size(x.Bytes), x.Model, "serial " + x.Serial}
		if x.Serial == "" {
			parts[2] = ""
		}
		disks = append(disks, clean(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")+" ("+x.Name+")"))
	}
	return fmt.Sprintf("%s: %s", count(len(disks), "disk"), strings.Join(disks, ", "))
}

// Size is a drive's as vendors tell it.
func Size(bytes int64) string {
	switch {
	case bytes <= 0:
		return ""
	case bytes < 1e12:
		return fmt.Sprintf("%d GB", bytes/1e9)
	}
	return strconv.FormatFloat(math.Round(float64(bytes)/1e10)/100, 'f', -1, 64) + " TB"
}
