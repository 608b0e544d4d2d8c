package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) inventoryCommand() *cobra.Command {
	var f orderFlags
	cmd := &cobra.Command{
		Use: "inventory NODE", Short: "show what a machine is made of", Args: exactly(1),
		Long: "Shows what the last inspection of a node's machine found: processors, memory modules,\n" +
			"drives, network adapters, power supplies and firmware; and what the installed system\n" +
			"reports over SSH: links, disks, file systems, memory, and units that have failed. At the\n" +
			"end it compares what the BMC reports, what Slipway's agent saw while it ran in the\n" +
			"machine's memory, and what the installed system sees, and marks where they differ.\n" +
			"Slipway inspects a machine once a day and looks into its system every few minutes;\n" +
			"`slipway retry NODE` does both now.\n" + exitHelp,
		Example: "  slipway inventory compute-5\n  slipway inventory compute-5 --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon := daemonAt(f.state)
			defer daemon.Close()
			c, err := daemon.Closeup(cmd.Context(), f.site, args[0])
			if err != nil {
				return err
			}
			inside, sides := insideOf(c), present.CompareSides(c)
			if sides.Seen() == 0 {
				return fmt.Errorf("%s was not inspected yet: its BMC was not reached, cannot be inspected, or will be inspected within minutes", args[0])
			}
			if a.output == "json" {
				return a.out.JSON(inspected{args[0], c.Observed.Facets[site.FacetInventory].Seen, c.Inventory, inside, sides})
			}
			if c.Inventory != nil {
				printInventory(a.out, args[0], c)
			} else {
				a.out.Printf("%s  its machine was not inspected yet\n", args[0])
			}
			if inside != nil {
				printInside(a.out, inside)
			}
			printSides(a.out, sides)
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

// inspected is an inventory as JSON.
type inspected struct {
	Node string `json:"node"`
	// Seen is when it was read, zero for never.
	Seen time.Time `json:"seen,omitzero"`
	*site.Inventory
	Inside *looked `json:"inside,omitempty"`
	// Compared is what each side tells of the machine beside the others.
	Compared present.Sides `json:"compared"`
}

// printSides writes what each side tells of a machine beside the others.
func printSides(w *screen, s present.Sides) {
	side := func(name, verb string, seen time.Time) string {
		if seen.IsZero() {
			return name + ": never " + verb
		}
		return name + ": " + verb + " " + age(seen) + " ago"
	}
	w.Printf("\n%s\n", strings.Join([]string{side("BMC", "inspected", s.BMC), side("agent in memory", "seen", s.Agent), side("installed system", "seen", s.System)}, "; "))
	if len(s.Rows) == 0 {
		return
	}
	t, differ := newTable("compared", "name", "BMC", "agent in memory", "installed system", "differs"), 0
	for _, r := range s.Rows {
		if r.Differs != "" {
			differ++
		}
		t.AppendRow(table.Row{r.What, r.Name, r.BMC, r.Agent, r.System, r.Differs})
	}
	w.Printf("\n%s\n", t.Render())
	switch {
	case s.Seen() < 2:
		w.Printf("\nnothing to compare: only one of BMC, agent and system was seen\n")
	case differ == 0:
		w.Printf("\nno differences found between the sides that were seen\n")
	default:
		w.Printf("\n%d of %d differ\n", differ, len(s.Rows))
	}
}

// printInventory writes an inventory for people, a line for each part.
func printInventory(w *screen, node string, c site.Closeup) {
	i := c.Inventory
	w.Printf("%s  %s, BIOS %s%s, inspected %s ago\n", node, strings.TrimSpace(i.Manufacturer+" "+i.Model), cmp.Or(i.BIOS, "unknown"), bmcOf(i), age(c.Observed.Facets[site.FacetInventory].Seen))
	t := newTable("what", "name", "model", "serial", "", "health")
	row := func(what string, p site.Part, more ...string) {
		more = slices.DeleteFunc(more, func(s string) bool { return s == "" })
		t.AppendRow(table.Row{what, cmp.Or(p.Name, p.ID), cmp.Or(p.Model, p.PartNumber), p.Serial, strings.Join(more, ", "), p.Health})
	}
	for _, p := range i.CPUs {
		row("processor", p.Part, p.Architecture, amount(p.Cores, "cores"), amount(p.Threads, "threads"))
	}
	for _, p := range i.GPUs {
		row("GPU", p.Part)
	}
	for _, d := range i.DIMMs {
		row("memory", d.Part, site.Size(d.Bytes).String(), d.Kind, amount(d.MHz, "MHz"))
	}
	for _, d := range i.Drives {
		row("drive", d.Part, say.Size(d.Bytes), d.Media, d.Protocol, d.Firmware)
	}
	for _, n := range i.NICs {
		row("adapter", n.Part, amount(len(n.Ports), "ports"), n.Firmware)
		for _, p := range n.Ports {
			row("", site.Part{Name: "port " + p.ID}, strings.Join(p.MACs, " "), p.Link, amount(p.Mbps, "Mb/s"))
		}
	}
	for _, s := range i.Supplies {
		row("supply", s.Part, amount(s.Watts, "W"), s.Firmware)
	}
	w.Printf("\n%s\n", t.Render())
	if len(i.Firmware) > 0 {
		t := newTable("firmware", "id", "version")
		for _, f := range i.Firmware {
			t.AppendRow(table.Row{f.Name, f.ID, f.Version})
		}
		w.Printf("\n%s\n", t.Render())
	}
	for _, m := range i.Missing {
		w.Printf("missing: %s\n", m)
	}
}

func bmcOf(i *site.Inventory) string {
	if i.BMC == nil {
		return ""
	}
	return ", BMC " + strings.TrimSpace(i.BMC.Model+" "+i.BMC.Version)
}

func amount(n int, of string) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + " " + of
}

// addDrives puts the drives of the machines that a plan wipes into what is
// known: a daemon tells of them one machine at a time.
func addDrives(p *site.Plan, known site.Known, ask func(node string) (site.Closeup, error)) {
	const most = 500 // wiped machines whose drives are told
	losses := p.Destroys()
	for _, l := range losses[:min(len(losses), most)] {
		m := known.Nodes[l.Node]
		c, err := ask(l.Node)
		if err != nil || c.Inventory == nil || !c.Observed.Identity.Matches(m.Observed.Identity) {
			continue
		}
		m.Observed.Inventory = c.Inventory
		known.Nodes[l.Node] = m
	}
}
