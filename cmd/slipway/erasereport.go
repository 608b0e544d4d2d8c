package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) eraseReportCommand() *cobra.Command {
	var f orderFlags
	cmd := &cobra.Command{
		Use: "erase-report NODE", Short: "show how the disks of a machine were erased", Args: exactly(1),
		Long: "Shows how the disks of a node's machine were erased: in its last installations that asked\n" +
			"for it (storage: erase: \"secure\"), and when it was decommissioned with erase. For each disk,\n" +
			"by serial number, it shows which methods were tried, how the result was verified, and why a\n" +
			"method failed. It contains only what was observed. The status branch has the same in erased/.\n" + exitHelp,
		Example: "  slipway erase-report compute-5\n  slipway erase-report compute-5 --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon := daemonAt(f.state)
			defer daemon.Close()
			c, err := daemon.Closeup(cmd.Context(), f.site, args[0])
			if err != nil {
				return err
			}
			reports := c.Recorded.Erased
			if a.output == "json" {
				return a.out.JSON(erasures{args[0], append([]site.EraseReport{}, reports...)})
			}
			if len(reports) == 0 {
				return a.err.Printf("Slipway erased no disk of %s: an installation does so where the design has storage: erase: \"secure\", and decommission: {erase: \"secure\"} does\n", args[0])
			}
			for i, r := range reports {
				if i > 0 {
					a.out.Printf("\n")
				}
				printErasure(a.out, args[0], r)
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

// erasures are the reports of a node as JSON.
type erasures struct {
	Node    string             `json:"node"`
	Reports []site.EraseReport `json:"reports"`
}

// printErasure writes a report for people.
func printErasure(w *screen, node string, r site.EraseReport) {
	w.Printf("%s  %s, begun %s: %s\n", node, r.For(), r.Began.UTC().Format("2006-01-02 15:04:05Z"), r.Verdict())
	w.Printf("machine %s\n", r.Machine.Full())
	for _, d := range r.Disks {
		w.Printf("\n%s\n", strings.TrimSpace(fmt.Sprintf("%s (%s, %s) %s", d.ID(), d.Disk, item.Bytes(d.Bytes), d.Model)))
		switch {
		case d.Done:
			w.Printf("  erased by %s, %s to %s\n", d.Last().Method, d.Began.UTC().Format("2006-01-02 15:04:05Z"), d.Ended.UTC().Format("15:04:05Z"))
		case len(d.Tries) > 0:
			w.Printf("  NOT ERASED\n")
		default:
			w.Printf("  unknown: the agent did not report on it\n")
		}
		for _, t := range d.Tries {
			took := (time.Duration(t.Took) * time.Second).String()
			if t.Verified != "" {
				w.Printf("  %s (%s): %s\n", t.Method, took, t.Verified)
			} else {
				w.Printf("  %s (%s) did not: %s\n", t.Method, took, t.Why)
			}
		}
	}
	for _, name := range r.Unseen {
		w.Printf("\n%s\n  unknown: the BMC listed it, and the agent saw no disk of that name\n", name)
	}
}
