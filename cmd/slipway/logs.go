package main

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
)

type logFlags struct {
	orderFlags
	console, agent, machine, follow, raw bool
}

func (a *app) logsCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use: "logs NODE --console|--agent|--machine", Short: "show what a machine's console, its BMC's log or Slipway's agent on it said", Args: exactly(1),
		Long: "With --agent it shows the last 200 lines that Slipway's agent in the memory of the\n" +
			"machine said while it installed: what it does, how far it is, why it fails. The daemon\n" +
			"keeps them after the agent has gone. Of lines that differ only in numbers, only the last\n" +
			"one is kept.\n\n" +
			"With --console it shows the end of what a virtual machine wrote to its serial console,\n" +
			"as its hypervisor kept it: the boot, and why it does not come up. With --follow it also\n" +
			"shows new output, until interrupted. Control characters are left out. --raw keeps them\n" +
			"in a file or a pipe; a terminal never gets them.\n\n" +
			"With --machine it shows the newest entries of the log that the BMC of a machine keeps, as\n" +
			"Slipway last read them, about once an hour. It asks no machine.\n" + exitHelp,
		Example: "  slipway logs web-1 --console\n  slipway logs web-1 --console --follow\n  slipway logs compute-5 --agent\n  slipway logs compute-5 --machine",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.machine && (f.console || f.agent), f.console && f.agent, !f.console && !f.agent && !f.machine:
				return usage("pass one of --console for what the machine wrote to its console, --machine for the log of its BMC, or --agent for what Slipway's agent on it said (`slipway history NODE` has what Slipway did)")
			}
			if !f.console && f.raw {
				return usage("--raw is for the console: other lines are printable")
			}
			if f.machine && f.follow {
				return usage("--follow is for --console and --agent: Slipway reads the log of a BMC about once an hour")
			}
			daemon := daemonAt(f.state)
			defer daemon.Close()
			if f.machine {
				return a.machineLog(cmd.Context(), daemon, f, args[0])
			}
			if f.agent {
				return a.said(cmd.Context(), daemon, f, args[0])
			}
			return a.console(cmd.Context(), daemon, f, args[0])
		},
	}
	cmd.Flags().BoolVar(&f.console, "console", false, "the serial console")
	cmd.Flags().BoolVar(&f.agent, "agent", false, "what Slipway's agent said")
	cmd.Flags().BoolVar(&f.machine, "machine", false, "the log of the machine's BMC")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "also show new output, until interrupted")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "unchanged bytes, to a file or a pipe")
	f.add(cmd)
	return cmd
}

// consoleEvery is how often a console that is followed is asked for.
const consoleEvery = time.Second

// console shows a console, and what comes to it.
func (a *app) console(ctx context.Context, daemon *control.Client, f logFlags, node string) error {
	var last []byte
	for first := true; ; first = false {
		text, err := daemon.Console(ctx, f.site, node)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if more := news(last, text); len(more) > 0 || first {
			if err := a.printConsole(node, more, f); err != nil {
				return err
			}
		}
		last = text
		if !f.follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(consoleEvery):
		}
	}
}

// machineLog shows the log of the BMC of a node's machine, as it was last read.
func (a *app) machineLog(ctx context.Context, daemon *control.Client, f logFlags, node string) error {
	log, err := daemon.MachineLog(ctx, f.site, node)
	switch {
	case err != nil:
		return err
	case a.output == "json":
		return a.out.JSON(log)
	case log.Read.IsZero():
		return a.err.Printf("not known: Slipway has not read the log of %s since the daemon started, or its BMC shows none\n", node)
	case len(log.Entries) == 0:
		return a.err.Printf("the log of %s was empty when Slipway read it at %s\n", node, log.Read.Local().Format(time.DateTime))
	}
	t := newTable("when", "severity", "entry", "")
	for _, e := range log.Entries {
		when := "not told"
		if !e.When.IsZero() {
			when = e.When.Local().Format(time.DateTime)
		}
		t.AppendRow(table.Row{when, e.Severity, e.ID, e.Text})
	}
	a.out.Println(t.Render())
	return a.err.Printf("as read at %s\n", log.Read.Local().Format(time.DateTime))
}

// overlap is how much of the end of what was shown is looked for in what is
// there now, since the beginning of a long console is dropped.
const overlap = 1 << 10

// news is what a console says after what it said last.
func news(last, now []byte) []byte {
	if bytes.HasPrefix(now, last) {
		return now[len(last):]
	}
	end := last[max(0, len(last)-overlap):]
	if at := bytes.LastIndex(now, end); at >= 0 {
		return now[at+len(end):]
	}
	return now
}

// written is a part of a console as JSON.
type written struct {
	Node string `json:"node"`
	Text string `json:"text"`
}

func (a *app) printConsole(node string, text []byte, f logFlags) error {
	shown := string(text)
	if !f.raw {
		shown = present.ConsoleText(text)
	}
	switch {
	case a.output == "json":
		return a.out.JSON(written{node, shown})
	case shown == "" && !f.follow:
		return a.err.Printf("%s has written nothing to its console yet\n", node)
	}
	if f.raw {
		_, err := io.WriteString(a.out.Data(), shown)
		return err
	}
	return a.out.Lay(shown)
}
