package present

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// deed says what an action does to one machine, and to several.
var deed = map[site.Action][2]string{
	site.ActionPowerOn:       {"is switched on", "are switched on"},
	site.ActionPowerOff:      {"is switched off", "are switched off"},
	site.ActionBootOrder:     {"changes its boot order", "change their boot order"},
	site.ActionStartAgent:    {"starts Slipway's agent in memory", "start Slipway's agent in memory"},
	site.ActionInstall:       {"is erased and installed", "are erased and installed"},
	site.ActionFinishInstall: {"ejects its installation medium", "eject their installation media"},
	site.ActionRestart:       {"restarts", "restart"},
	site.ActionFirmware:      {"gets new firmware", "get new firmware"},
	site.ActionBIOS:          {"gets new BIOS settings", "get new BIOS settings"},
	site.ActionAccounts:      {"changes accounts of its BMC", "change accounts of their BMCs"},
	site.ActionPackages:      {"gets new packages", "get new packages"},
	site.ActionBase:          {"gets other accounts or basic settings", "get other accounts or basic settings"},
	site.ActionConfig:        {"gets other files, units or parameters", "get other files, units or parameters"},
	site.ActionKernel:        {"gets another kernel or command line", "get another kernel or command line"},
	site.ActionOnce:          {"runs a boot action", "run a boot action"},
	site.ActionNetwork:       {"gets a new network configuration", "get a new network configuration"},
	site.ActionDefine:        {"gets a new definition", "get a new definition"},
	site.ActionDisks:         {"gets new or larger disks", "get new or larger disks"},
	site.ActionRemoveSeed:    {"drops its first-boot seed", "drop their first-boot seeds"},
	site.ActionZeroize:       {"is erased and removed", "are erased and removed"},
	site.ActionFinishErase:   {"is left off", "are left off"},
}

// deeds says what steps do to a number of machines.
func deeds(steps []site.Step, machines int) string {
	var words []string
	for _, s := range steps {
		w, ok := deed[s.Action]
		switch {
		case s.Maybe:
			w = [2]string{"may restart", "may restart"}
		case s.Retires():
			w = [2]string{"has its disks erased", "have their disks erased"}
		case !ok:
			w = [2]string{string(s.Action), string(s.Action)}
		}
		words = append(words, w[min(machines, 2)-1])
	}
	return strings.Join(words, ", ")
}

// changed returns the first changes of equal machines, and the lines that ask
// for them.
func (c *comment) changed(g nodeGroup) (changes, places []string) {
	const most = 3
	more := 0
	for _, s := range g.first.Steps {
		for _, x := range s.Changes {
			if len(changes) == most || !c.details {
				more++
				continue
			}
			changes = append(changes, literal(x.Name())+" "+literal(say.OrNone(x.Have))+" → "+literal(say.OrNone(x.Want)))
			place := c.place(x.Origin)
			if origins(x, s.Node, len(g.names)) == "each node" {
				place = "each node"
			}
			if place != "" && !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
	}
	switch {
	case more > 0 && len(changes) > 0:
		changes = append(changes, fmt.Sprintf("%d more", more))
	case more > 0:
		changes = append(changes, say.Count(more, "change"))
	}
	return changes, places
}

// away says how long a machine is out of service.
func away(n site.NodePlan) string {
	switch last := n.Steps[len(n.Steps)-1]; {
	case n.MayRestart():
		return "for moments, or about " + inWords(time.Duration(n.Expect)) + " with a restart"
	case worst(n) < site.ImpactInterrupts:
		return "no"
	case worst(n) == site.ImpactInterrupts:
		return "for moments"
	case last.Action == site.ActionPowerOff:
		return "yes, until it is switched on again"
	case last.Action == site.ActionZeroize || last.Action == site.ActionFinishErase:
		return "for good"
	}
	return "about " + inWords(time.Duration(n.Expect))
}

// shape names the machines that change: "412 machines of profile compute" if all
// changes come from one layer that they share.
func (g nodeGroup) shape() string {
	layer, differences := "", 0
	for _, s := range g.first.Steps {
		for _, c := range s.Changes {
			differences++
			if l := c.Origin.LayerName(); differences == 1 {
				layer = l
			} else if l != layer {
				layer = ""
			}
		}
	}
	if name, isProfile := strings.CutPrefix(layer, "profile/"); isProfile && len(g.names) > 1 {
		return fmt.Sprintf("%d machines of profile %s", len(g.names), name)
	}
	return g.head(5)
}

// nodes writes the details of equal nodes.
func (c *comment) nodes(g nodeGroup) {
	var b strings.Builder
	const headed = 5 // more are inside
	fmt.Fprintf(&b, "<details><summary>%s</summary>\n\n", g.named(headed))
	if len(g.names) > headed+1 && c.names > headed {
		b.WriteString("- machines: " + g.named(c.names) + "\n")
	}
	for _, s := range g.first.Steps {
		var lines []string
		if s.Facet == site.FacetPackages {
			lines = upgrades(g.first)
		}
		b.WriteString(c.step(s, len(g.names), lines))
	}
	for _, x := range g.first.Blocked {
		b.WriteString("- blocked: " + escape(x) + "\n")
	}
	if x := g.first.Waiting; x != "" {
		b.WriteString("- waiting: " + escape(x) + "\n")
	}
	for _, x := range doubts(g.first) {
		b.WriteString("- " + escape(x) + "\n")
	}
	for _, x := range g.first.Reported {
		b.WriteString("- reported: " + escape(x) + "\n")
	}
	if c.tier.details {
		for _, x := range remarks(g.first) {
			b.WriteString("- " + escape(x) + "\n")
		}
		b.WriteString("- " + observed(g.nodes, c.view.Now) + "\n")
	}
	b.WriteString("\n</details>\n\n")
	c.add("details of "+kindOf(g), b.String())
}

// kindOf names the kind of nodes whose details were cut.
func kindOf(g nodeGroup) string {
	if len(g.first.Steps) > 0 {
		return "nodes that change (by shape)"
	}
	return "other nodes (by shape)"
}

func (c *comment) step(s site.Step, nodes int, lines []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- **%s** (%s, about %s): %s%s\n", escape(string(s.Action)), impactOf(s), inWords(time.Duration(s.Expect)), escape(s.Reason), serves(s))
	for _, x := range s.Changes {
		fmt.Fprintf(&b, "  - %s: %s → %s", literal(x.Name()), literal(say.OrNone(x.Have)), literal(say.OrNone(x.Want)))
		if o := origins(x, s.Node, nodes); o != "" && c.tier.details {
			b.WriteString(", " + escape(o))
		}
		b.WriteString("\n")
	}
	for _, line := range lines {
		b.WriteString("  - " + escape(line) + "\n")
	}
	if s.Undo != "" && c.tier.details {
		b.WriteString("  - " + escape(undo(s)) + "\n")
	}
	return b.String()
}

// differences adds the differences of files, folded, if everything else leaves room
// for them.
func (c *comment) differences() {
	if !c.tier.details {
		return
	}
	for _, d := range Differences(&c.review.Plan, c.view) {
		on := escape(d.Nodes[0])
		if n := len(d.Nodes); n > 1 {
			on = say.Count(n, "machine")
		}
		part := fmt.Sprintf("<details><summary>Difference of %s on %s</summary>\n\n", literal(d.Path), on)
		if d.Text == "" {
			part += "Not shown (" + d.sizes() + "): " + escape(d.Why) + ".\n"
		} else {
			part += fenced("diff", d.Text)
		}
		c.add("differences of files", part+"\n</details>\n\n")
	}
}

func (c *comment) removes() {
	var lines []string
	for _, r := range c.review.Plan.Removes {
		line := "- **" + escape(r.Node) + "** leaves the design. Slipway does not touch its machine."
		if r.Held != "" {
			line += " Not removed yet: " + escape(r.Held)
		}
		lines = append(lines, line+"\n")
	}
	c.section("nodes that leave the design", "", lines, "")
}
