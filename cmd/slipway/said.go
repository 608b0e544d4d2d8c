package main

import (
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// saidBy is a part of what an agent said, as JSON.
type saidBy struct {
	Node  string      `json:"node"`
	Lines []site.Said `json:"lines"`
}

// said shows what the agent of a node has said, and what comes to it.
func (a *app) said(ctx context.Context, daemon *control.Client, f logFlags, node string) error {
	var last uint64
	for first := true; ; first = false {
		lines, err := daemon.Said(ctx, f.site, node)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		lines = after(lines, last)
		switch {
		case a.output == "json" && (first || len(lines) > 0):
			if err := a.out.JSON(saidBy{node, lines}); err != nil {
				return err
			}
		case first && len(lines) == 0 && !f.follow:
			return a.err.Printf("the agent on %s has said nothing yet: it runs while Slipway installs an image of kind \"root\" or \"disk\"\n", node)
		}
		for _, l := range lines {
			if last = l.Seq; a.output == "json" {
				continue
			}
			if err := a.out.Printf("%s  %s\n", l.When.UTC().Format("2006-01-02 15:04:05Z"), l.Text); err != nil {
				return err
			}
		}
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

// after are the lines that were said after one.
func after(lines []site.Said, last uint64) []site.Said {
	for i, l := range lines {
		if l.Seq > last {
			return lines[i:]
		}
	}
	return []site.Said{}
}
