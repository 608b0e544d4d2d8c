package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// looked is what an installed system tells of itself, as JSON.
type looked struct {
	// Seen is when it was asked.
	Seen time.Time `json:"seen"`
	*site.Inside
	// Cables are what the system sees of its ports and of the others on its networks; nil
	// where that was not looked at.
	Cables *item.LinksSeen `json:"cables,omitempty"`
}

// insideOf is nil for a node whose system was never looked into.
func insideOf(c site.Closeup) *looked {
	if c.Observed.Inside == nil {
		return nil
	}
	return &looked{c.Observed.Facets[site.FacetOS].Seen, c.Observed.Inside, c.Observed.Links}
}

// printInside writes what a system tells of itself for people.
func printInside(w *screen, l *looked) {
	about := []string{}
	if !l.BootedAt.IsZero() {
		about = append(about, "booted "+age(l.BootedAt)+" ago")
	}
	if l.MemoryBytes > 0 {
		about = append(about, gibibytes(l.MemoryBytes)+" of memory")
	}
	if l.SwapBytes > 0 {
		about = append(about, gibibytes(l.SwapBytes)+" of swap")
	}
	w.Printf("\n%s\n", strings.Join(append(about, "looked inside "+age(l.Seen)+" ago"), ", "))
	t := newTable("inside", "name", "kind", "")
	row := func(what, name, kind string, more ...string) {
		more = slices.DeleteFunc(more, func(s string) bool { return s == "" })
		t.AppendRow(table.Row{what, name, kind, strings.Join(more, ", ")})
	}
	for _, n := range l.Links {
		row("link", n.Name, n.State, append([]string{n.MAC, mtu(n.MTU)}, n.Addresses...)...)
	}
	if l.Cables != nil {
		for _, p := range l.Cables.Ports {
			row("port", p.Name, portState(p), portFacts(p)...)
		}
		for _, r := range l.Cables.Reached {
			row("reach", cmp.Or(r.Node, "gateway"), cmp.Or(r.Answers, "unknown"), r.Network+" "+r.Address, sized(r), r.Why)
		}
	}
	for _, d := range l.Disks {
		row("disk", d.Name, d.Kind, say.Size(d.Bytes), d.Model, d.Serial)
	}
	for _, m := range l.Mounts {
		row("mount", m.Path, m.FileSystem, m.Source, gibibytes(m.Bytes), full(m))
	}
	for _, u := range l.FailedUnits {
		row("unit", u, "failed")
	}
	if t.Length() > 0 {
		w.Printf("\n%s\n", t.Render())
	}
}

// portState is whether a port has a carrier.
func portState(p item.Port) string {
	if p.Off {
		return "off"
	}
	return cmp.Or(p.Carrier, "unknown")
}

// portFacts are what is known of a port and of its other end.
func portFacts(p item.Port) []string {
	facts := []string{p.MAC, amount(p.Speed, "Mb/s"), mtu(p.MTU)}
	if p.Duplex == "half" {
		facts = append(facts, "half duplex")
	}
	if p.Master != "" {
		facts = append(facts, "in "+p.Master)
	}
	for _, n := range p.Neighbours {
		facts = append(facts, fmt.Sprintf("at %s port %s (heard %s ago by %s)", cmp.Or(n.System, n.Chassis), n.Port, age(n.Heard), n.By))
	}
	return facts
}

func sized(r item.Reached) string {
	switch r.Sized {
	case item.Answered:
		return fmt.Sprintf("also %d bytes", r.MTU)
	case item.Silent:
		return fmt.Sprintf("not %d bytes", r.MTU)
	}
	return ""
}

func mtu(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("MTU %d", n)
}

// full is in steps of five.
func full(m site.Mount) string {
	if m.Used < 5 {
		return "nearly empty"
	}
	return fmt.Sprintf("%d %% full", m.Used)
}

// gibibytes is an amount to a tenth.
func gibibytes(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
