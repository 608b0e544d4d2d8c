package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// switchFlags are those of what writes to a machine.
type switchFlags struct {
	bmcFlags
	machine string
	yes     bool
}

func (f *switchFlags) add(cmd *cobra.Command) {
	f.bmcFlags.add(cmd)
	cmd.Flags().StringVar(&f.machine, "machine", "", "`IDENTITY` that the machine must have: a UUID, a serial number, or several of\nuuid=, serial=, slot= and mac=, with commas between")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
}

const switchHelp = "While a daemon manages a machine, it is switched only if its node is paused: otherwise the\n" +
	"daemon would undo it. Before the first write Slipway compares the machine with the\n" +
	"design, or with --machine.\n"

func (a *app) bmcPowerCommand() *cobra.Command {
	var f switchFlags
	var force, asSet bool
	cmd := &cobra.Command{
		Use: "power URL|NODE on|off|restart", Short: "switch a machine", Args: exactly(2),
		Long: "Switches a machine on or off, or off and on, and returns when the machine has done so.\n" +
			"\"off\" asks the operating system to shut down, and cuts the power if it has not done so\n" +
			"after 180 s; --force cuts it at once. Before it switches a machine on, it takes back a\n" +
			"pending boot from CD and ejects every medium, because these may be an installer's;\n" +
			"--as-set leaves them.\n" + switchHelp + exitHelp,
		Example: "  slipway pause compute-3 --reason \"disk is being replaced\"\n" +
			"  slipway bmc power compute-3 off --credentials /etc/slipway/credentials",
		RunE: func(cmd *cobra.Command, args []string) error {
			step, err := powerStep(args[1], force)
			if err != nil {
				return err
			}
			step.AsSet = asSet
			return a.switched(cmd.Context(), f, args[0], change{
				what: args[1], ask: step.Action != site.ActionPowerOn,
				do: func(b *bmc, id site.Identity) error {
					step.Node, step.Machine = b.node, id
					return b.Apply(cmd.Context(), step, &site.Node{Name: b.node, Identity: id}, nil)
				},
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "cut the power without asking the operating system")
	cmd.Flags().BoolVar(&asSet, "as-set", false, "switch on with the current boot override and media")
	return cmd
}

func powerStep(to string, force bool) (site.Step, error) {
	actions := map[string]site.Action{"on": site.ActionPowerOn, "off": site.ActionPowerOff, "restart": site.ActionRestart}
	action, ok := actions[to]
	switch {
	case !ok:
		return site.Step{}, usage("power is on, off or restart, not %q", to)
	case force && to == "on":
		return site.Step{}, usage("--force cuts the power, and `on` does not")
	}
	return site.Step{Facet: site.FacetPower, Action: action, Force: force}, nil
}

func (a *app) bmcBootCommand() *cobra.Command {
	var f switchFlags
	var once bool
	cmd := &cobra.Command{
		Use: "boot URL|NODE TARGET", Short: "choose what a machine boots from", Args: exactly(2),
		Long: "Puts a source, such as Hdd, Pxe, Cd, Usb or UefiHttp, first in the boot order; with\n" +
			"--once only for the next boot. The machine does not restart.\n" + switchHelp + exitHelp,
		Example: "  slipway bmc boot compute-3 --once Pxe --credentials /etc/slipway/credentials",
		RunE: func(cmd *cobra.Command, args []string) error {
			source, what := args[1], "boot from "+args[1]
			if once {
				what += " once"
			}
			return a.switched(cmd.Context(), f, args[0], change{what: what, do: func(b *bmc, id site.Identity) error {
				if !once {
					step := site.Step{Node: b.node, Machine: id, Facet: site.FacetBoot, Action: site.ActionBootOrder}
					return b.Apply(cmd.Context(), step, &site.Node{Name: b.node, Identity: id, Boot: site.Boot{Order: []string{source}}}, nil)
				}
				booter, err := able[driver.Booter](b, "boot once")
				if err != nil {
					return err
				}
				return booter.BootOnce(cmd.Context(), id, source)
			}})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "the next boot only")
	return cmd
}

// change is something to be done to a machine.
type change struct {
	what string
	ask  bool // it disrupts, and a person is asked
	do   func(*bmc, site.Identity) error
}

// switched does something to a machine, once it is sure that it is the right
// one, that no daemon keeps it otherwise, and that a person wants it.
func (a *app) switched(ctx context.Context, f switchFlags, name string, c change) error {
	return a.withBMC(ctx, f.bmcFlags, name, func(b *bmc) error {
		want, err := f.wanted(b)
		if err != nil {
			return err
		}
		seen, err := b.look(ctx, want)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		id := seen.Identity.Own()
		switch {
		case !id.Known():
			return fmt.Errorf("%s: refused: the machine reports no UUID, serial number or MAC address of its own, so Slipway cannot be sure which machine it is; nothing was written", name)
		case !want.Matches(seen.Identity):
			return fmt.Errorf("%s: another machine answers: %s is meant, this is %s; nothing was written", name, want.Full(), id.Full())
		}
		if err := a.mayDisturb(ctx, f.bmcFlags, b, id); err != nil {
			return err
		}
		if asked, err := a.confirm(f, c, b, seen); err != nil {
			return err
		} else if asked { // the pause may have ended while a person thought, and the session
			if err := a.mayDisturb(ctx, f.bmcFlags, b, id); err != nil {
				return err
			}
			if _, err := b.look(ctx, want); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := c.do(b, id); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return a.printDone(fmt.Sprintf("%s: %s is done (%s)", name, c.what, id))
	})
}

// look looks at the machine that is meant. Where nobody says which it is, the
// URL does, and its identity is read with all that tells it from others behind
// the same controller.
func (b *bmc) look(ctx context.Context, want site.Identity) (site.Observed, error) {
	seen, err := b.Observe(ctx, &site.Node{Name: b.node, Identity: want}, []site.Facet{site.FacetPower, site.FacetInventory})
	if i, ok := driver.As[driver.Identifier](b.Machine); ok && err == nil && !want.Known() {
		seen.Identity, err = i.Identify(ctx, want)
	}
	return seen, err
}

// wanted is the machine that is meant. A node that the design knows by nothing
// is not switched.
func (f switchFlags) wanted(b *bmc) (site.Identity, error) {
	want := b.machine
	if b.node != "" && !want.Known() && f.machine == "" {
		return want, fmt.Errorf("the design names no machine for %s by UUID, serial number or MAC address: give --machine", b.node)
	}
	if f.machine == "" {
		return want, nil
	}
	if id := strings.ToLower(f.machine); len(id) == 36 && strings.Count(id, "-") == 4 {
		want.UUID = id
		return want, nil
	}
	if !strings.Contains(f.machine, "=") {
		want.Serial = f.machine
		return want, nil
	}
	for part := range strings.SplitSeq(f.machine, ",") {
		name, value, _ := strings.Cut(part, "=")
		field := map[string]*string{"uuid": &want.UUID, "serial": &want.Serial, "slot": &want.Slot, "mac": &want.MAC}[name]
		if field == nil || value == "" {
			return want, usage("--machine %q: %q is none of uuid=, serial=, slot= and mac= with a value", f.machine, part)
		}
		if name == "uuid" || name == "mac" {
			value = strings.ToLower(value)
		}
		*field = value
	}
	if !want.Known() {
		return want, usage("--machine %q names no machine: give a UUID, a serial number or a MAC address, and a slot only together with one of them", f.machine)
	}
	return want, nil
}

// mayDisturb refuses to switch a machine that a daemon keeps. A URL is known
// by where it leads, and by the machine that answers there.
func (a *app) mayDisturb(ctx context.Context, f bmcFlags, b *bmc, id site.Identity) error {
	if f.noDaemon {
		return nil
	}
	daemon := daemonAt(f.state)
	defer daemon.Close()
	known, err := daemon.Known(ctx, f.site)
	if errors.Is(err, control.ErrNoDaemon) && b.node == "" {
		a.err.Printf("slipway: no daemon listens in %s; Slipway cannot tell whether another one manages this machine\n", f.state)
		return nil
	}
	if err != nil {
		return err
	}
	r, err := daemon.Report(ctx, f.site)
	if err != nil || r.Status.ObserveOnly != "" {
		return err
	}
	for _, n := range r.Status.Nodes {
		if means(known, n.Name, b, id) {
			if err := atRest(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// means says whether a node's machine is the one that is opened.
func means(known site.Known, node string, b *bmc, id site.Identity) bool {
	if b.node != "" {
		return node == b.node
	}
	r, seen := known.Reach[node], known.Nodes[node].Observed.Identity
	return sameEndpoint(r.Manager.URL, b.endpoint.URL) || same(r.Machine, id) || same(seen, id)
}

// same says whether two identities may be one machine's. Machines of an enclosure
// that share a serial number are told apart by what is known of both beside it.
func same(a, b site.Identity) bool {
	a = a.Own()
	if a.Slot != "" && b.Slot != "" && a.Slot != b.Slot || a.MAC != "" && b.MAC != "" && a.MAC != b.MAC {
		return false
	}
	return a.MAC != "" && a.MAC == b.MAC || a.UUID != "" && (a.UUID == b.UUID || site.TurnedRound(a.UUID) == b.UUID) || a.Serial != "" && a.Serial == b.Serial
}

// sameEndpoint compares where URLs lead. One without a path may mean any
// machine of its host.
func sameEndpoint(a, b string) bool {
	u, err := url.Parse(a)
	v, err2 := url.Parse(b)
	if err != nil || err2 != nil || !strings.EqualFold(u.Hostname(), v.Hostname()) || portOf(u) != portOf(v) {
		return false
	}
	p, q := strings.Trim(u.Path, "/"), strings.Trim(v.Path, "/")
	short := []string{"", "redfish", "redfish/v1"}
	return p == q || slices.Contains(short, p) || slices.Contains(short, q)
}

func portOf(u *url.URL) string {
	if u.Port() == "" {
		return "443"
	}
	return u.Port()
}

// atRest says why a node's machine must not be switched by hand now.
func atRest(n site.NodeStatus) error {
	switch {
	case n.Quarantined != nil:
		return fmt.Errorf("node %s is quarantined by %s: %s; the daemon keeps its machine off until `%s`", n.Name, n.Quarantined.By, n.Quarantined.Reason, n.Quarantined.Release(n.Name))
	case n.State == site.Paused:
		return nil
	case n.Paused != nil:
		return fmt.Errorf("node %s is being paused and is still %s: try again in a moment", n.Name, n.State)
	}
	return fmt.Errorf("node %s is not paused, and the daemon that manages its machine would undo this: run `slipway pause %s --reason TEXT` first, and `slipway resume %s` afterwards",
		n.Name, n.Name, n.Name)
}

// confirm asks a person before a machine is disrupted, if that is called for.
func (a *app) confirm(f switchFlags, c change, b *bmc, seen site.Observed) (asked bool, err error) {
	if !c.ask || f.yes {
		return false, nil
	}
	if !a.err.Terminal() || !isTerminal(os.Stdin) {
		return false, usage("%s disrupts what runs on %s: pass --yes, as there is no terminal to ask at", c.what, b.name)
	}
	model := ""
	if i := seen.Inventory; i != nil {
		model = strings.TrimSpace(i.Manufacturer+" "+i.Model) + ", "
	}
	a.err.Printf("%s: %s%s, power is %s\n%s? Type yes: ", b.name, model, seen.Identity, seen.Facets[site.FacetPower].Have["state"], c.what)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return true, errors.Join(errors.New("nothing was done"), err)
	}
	return true, nil
}

func (a *app) printDone(done string) error {
	if a.output == "json" {
		return a.out.JSON(map[string]string{"done": done})
	}
	return a.out.Println(done)
}
