package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

type racksFlags struct {
	site, state string
	svg         bool
}

func (a *app) racksCommand() *cobra.Command {
	var f racksFlags
	cmd := &cobra.Command{
		Use: "racks [RACK]", Short: "show which machine is at which unit of a rack", Args: cobra.MaximumNArgs(1),
		Long: "Shows the racks of a site from the top to the bottom: which node the design has at which\n" +
			"unit, and the state in which the daemon saw it. Nodes without a position in the design\n" +
			"are listed below their rack. A virtual machine is not in the list; its hypervisor is.\n" + exitHelp,
		Example: "  slipway racks\n  slipway racks r1\n  slipway racks r1 --svg > r1.svg",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.racks(cmd.Context(), f, strings.Join(args, ""))
		},
	}
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the daemon keeps several")
	cmd.Flags().BoolVar(&f.svg, "svg", false, "draw the rack as a picture (SVG)")
	addDaemon(cmd, &f.state)
	return cmd
}

func (a *app) racks(ctx context.Context, f racksFlags, name string) error {
	if f.svg && (name == "" || a.output == "json") {
		return usage("--svg draws one rack: name it, and leave out --output json")
	}
	daemon := daemonAt(f.state)
	defer daemon.Close()
	design, err := daemon.Design(ctx, f.site)
	if err != nil {
		return err
	}
	r, err := daemon.Report(ctx, f.site)
	if err != nil {
		return err
	}
	all := present.Elevations(design.Racks, r.Status.Nodes, present.ElevationView{StandAlone: true})
	if name != "" {
		if all, err = only(all, name); err != nil {
			return err
		}
	}
	switch {
	case f.svg:
		return all[0].WriteSVG(a.out.Data())
	case a.output == "json":
		return a.out.JSON(rackLists(all))
	}
	printRacks(a.out, all)
	return nil
}

// only returns the one rack with a name.
func only(all []present.Elevation, name string) ([]present.Elevation, error) {
	var names []string
	for i, e := range all {
		if e.Rack == name {
			return all[i : i+1], nil
		}
		names = append(names, e.Rack)
	}
	return nil, fmt.Errorf("the site has no rack %q; it has %s", site.Printable(name), someOf(names))
}

// rackList is a rack as JSON has it.
type rackList struct {
	Rack string `json:"rack"`
	// Units is the height of the rack; 0 where the design does not say it.
	Units    int    `json:"units,omitempty"`
	Location string `json:"location,omitempty"`
	// Nodes are those with a position, from the top of the rack to the bottom, and then
	// the others.
	Nodes []rackNode `json:"nodes"`
}

// rackNode is a node of a rack as JSON has it.
type rackNode struct {
	Name     string        `json:"name"`
	Role     string        `json:"role,omitempty"`
	Position site.Position `json:"position,omitzero"`
	State    site.State    `json:"state"`
	Power    string        `json:"power,omitempty"`
	Health   string        `json:"health,omitempty"`
	// AsOf is when Power and Health were seen if they are not known to be so now.
	AsOf time.Time `json:"asOf,omitzero"`
	// NeverSeen means that the daemon has not seen the machine yet.
	NeverSeen bool `json:"neverSeen,omitempty"`
}

func rackLists(all []present.Elevation) []rackList {
	lists := []rackList{}
	for _, e := range all {
		l := rackList{Rack: e.Rack, Units: e.Design.Units, Location: e.Design.Location, Nodes: []rackNode{}}
		for _, n := range e.Nodes() {
			l.Nodes = append(l.Nodes, rackNode{n.Name, n.Role, n.Position, n.State, n.Power, n.Health, n.AsOf, n.Seen.IsZero()})
		}
		lists = append(lists, l)
	}
	return lists
}

// printRacks writes each rack for people, with the units without a node as "-".
func printRacks(w *screen, all []present.Elevation) {
	bold, dim := paint(w, text.Bold), paint(w, text.Faint)
	for i, e := range all {
		if i > 0 {
			w.Println("")
		}
		head := bold("rack " + e.Rack)
		if e.Design.Location != "" {
			head += "  " + e.Design.Location
		}
		w.Println(head + "  " + e.Summary())
		t := newTable("units", "node", "role", "state", "power", "look at")
		free := e.Units() // the highest unit that is not in the table yet
		for _, p := range e.Placed {
			n := p.Node
			if top := n.Position.Top(); top < free {
				t.AppendRow(table.Row{dim(span(top+1, free)), dim("-")})
			}
			t.AppendRow(rackRow(w, span(n.Position.Unit, n.Position.Top()), n))
			free = min(free, n.Position.Unit-1)
		}
		if free > 0 {
			t.AppendRow(table.Row{dim(span(1, free)), dim("-")})
		}
		for _, n := range e.Loose {
			t.AppendRow(rackRow(w, "?", n))
		}
		if t.Length() > 0 {
			w.Printf("%s\n", t.Render())
		}
	}
}

func rackRow(w *screen, units string, n *site.NodeStatus) table.Row {
	name, state := n.Name, paint(w, stateColour(n.State))(string(n.State))
	if n.Position.Enclosure != "" {
		name += " (" + n.Position.Enclosure + ")"
	}
	if n.Seen.IsZero() {
		state += ", never seen"
	}
	return table.Row{units, name, n.Role, state, present.PowerOf(n, time.Now()), strings.Join(present.Troubles(n), "; ")}
}

// span is a range of units, from the lowest to the highest.
func span(low, high int) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d-%d", low, high)
}
