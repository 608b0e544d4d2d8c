package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
)

func oneOrTwo(cmd *cobra.Command, args []string) error {
	if len(args) == 2 {
		return nil
	}
	return exactly(1)(cmd, args)
}

func (a *app) explainCommand() *cobra.Command {
	var path, name, state string
	cmd := &cobra.Command{
		Use: "explain NODE [PATH]", Short: "show where the values of a node come from", Args: oneOrTwo,
		Long: "Says for each value of a node which line of the design sets it, in which layer, and what\n" +
			"it overrides, nearest first; a default of the schema comes last. A path, or the\n" +
			"beginning of one, selects values. For a virtual machine it says on which hypervisor it\n" +
			"is, or would be. For a file it also shows the content, and how it differs from what the\n" +
			"daemon last saw; for an interface what the system sees of the cable; for a driver\n" +
			"whether it is for the machine; for system.patch which upgrades are missing. Touches no\n" +
			"machine. Only what the daemon has seen needs a daemon.\n" + exitHelp,
		Example: "  slipway explain compute-5.boot\n  slipway explain --dir site-example compute-5\n  slipway explain compute-5 system.files./etc/motd",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.explain(cmd.Context(), path, name, state, strings.Join(args, "."))
		},
	}
	cmd.Flags().StringVar(&path, "dir", ".", "the folder with the design")
	cmd.Flags().StringVar(&name, "site", "", "the site's name, when the repository has several")
	addState(cmd, &state)
	return cmd
}

// explained is what explain prints as JSON.
type explained struct {
	design.Explanation
	// Placed says where a virtual machine is placed; empty for others.
	Placed string `json:"placed,omitempty"`
	// File is the file that was asked for; nil for other values.
	File *explainedFile `json:"file,omitempty"`
	// Ports are what was seen of the interfaces that were asked for.
	Ports []explainedPort `json:"ports,omitempty"`
	// Drivers say of the drivers that were asked for whether they are for the machine.
	Drivers []explainedDriver `json:"drivers,omitempty"`
	// Upgrades are those that the node lacks of the upgrades that were asked for; nil for
	// other values.
	Upgrades *explainedUpgrades `json:"upgrades,omitempty"`
}

func (a *app) explain(ctx context.Context, path, siteName, state, target string) error {
	path, siteName = located(path, siteName)
	rev, err := readDir(ctx, path)
	if err != nil {
		return err
	}
	e, err := newEvaluator(nil)
	if err != nil {
		return err
	}
	defer e.Close()
	x, r, err := e.Explain(ctx, rev.Files, siteName, target)
	switch {
	case err != nil:
		return fmt.Errorf("explain %s: %w", target, err)
	case r.Site == nil:
		return a.refuse(rev.Files, r)
	}
	_, at, _ := strings.Cut(target, ".")
	all := explained{x, a.placeOf(ctx, state, r.Site, x.Node), explainFile(ctx, state, r.Site, x.Node, at), explainPorts(ctx, state, r.Site, x.Node, at), explainDrivers(ctx, state, r.Site, x.Node, at), explainUpgrades(ctx, state, r.Site, x.Node, at)}
	if a.output == "json" {
		return a.out.JSON(all)
	}
	printExplanation(a.out, all)
	return nil
}

// printExplanation writes a value a line, and below it what it overrode.
func printExplanation(w *screen, x explained) {
	bold, dim := paint(w, text.Bold), paint(w, text.Faint)
	w.Println(bold(x.Node))
	if x.Placed != "" {
		w.Println("  " + x.Placed)
	}
	var rows [][3]string
	for _, v := range x.Values {
		rows = append(rows, row("  "+v.Path, v.Setting))
		for _, o := range v.Overrode {
			rows = append(rows, row("    over", o))
		}
	}
	what, value := width(rows, 0), width(rows, 1)
	for _, r := range rows {
		painted := func(s string) string { return s }
		if strings.HasPrefix(r[0], "    ") {
			painted = dim
		}
		w.Println(painted(text.Pad(r[0], what, ' ') + "  " + text.Pad(r[1], value, ' ') + "  " + r[2]))
	}
	if x.File != nil {
		x.File.print(w)
	}
	for _, p := range x.Ports {
		p.print(w)
	}
	for _, d := range x.Drivers {
		d.print(w)
	}
	if x.Upgrades != nil {
		x.Upgrades.print(w)
	}
}

func row(what string, s design.Setting) [3]string {
	return [3]string{expand(what), expand(brief(s.Value)), fmt.Sprintf("%s (%s)", s.Origin, s.Origin.LayerName())}
}

func width(rows [][3]string, column int) int {
	most := 0
	for _, r := range rows {
		most = max(most, text.StringWidth(r[column]))
	}
	return most
}

// brief is a value as it fits a line; nil is one that is taken away.
func brief(value json.RawMessage) string {
	const most = 48
	if value == nil {
		return "unset"
	}
	return site.Shorten(string(value), most)
}
