package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/site"
)

// completionWait is how long a shell waits for the daemon to say which nodes
// there are.
const completionWait = 2 * time.Second

// completeNodes has shells complete the names of nodes in all commands whose
// usage names a NODE. The daemon knows them; without one nothing is offered.
func completeNodes(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		completeNodes(c)
	}
	if cmd.ValidArgsFunction != nil || !strings.Contains(cmd.Use, "NODE") {
		return
	}
	many := strings.Contains(cmd.Use, "NODE…")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nodesBeginning(cmd.Context(), stateOf(cmd), begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// stateOf is the state directory that a command line names, or the usual one.
func stateOf(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("state"); f != nil {
		return f.Value.String()
	}
	return defaultState()
}

// nodesBeginning are the daemon's nodes whose names begin so, each with its state.
func nodesBeginning(ctx context.Context, state, begun string) (names []cobra.Completion) {
	daemon := daemonAt(state)
	defer daemon.Close()
	answered := make(chan site.Report, 1)
	go func() {
		if r, err := daemon.Report(ctx, ""); err == nil { // a shell has no place for an error
			answered <- r
		}
		close(answered)
	}()
	select {
	case r := <-answered:
		for _, n := range r.Status.Nodes {
			if strings.HasPrefix(n.Name, begun) {
				names = append(names, cobra.CompletionWithDesc(n.Name, string(n.State)))
			}
		}
	case <-time.After(completionWait):
	}
	return names
}
