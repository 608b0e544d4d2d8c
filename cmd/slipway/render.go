package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) renderCommand() *cobra.Command {
	var path, name string
	cmd := &cobra.Command{
		Use: "render [NODE…]", Short: "write the effective design, every layer merged",
		Long: "Writes the effective design of the whole site, or of the named nodes: with every layer\n" +
			"merged and every default filled in. As a site, it means the same as the original.\n" +
			"Touches no machine and needs no daemon.\n" + exitHelp,
		Example:     "  slipway render compute-5\n  slipway render --dir site-example --output yaml",
		Annotations: map[string]string{outputs: "cue yaml json"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.render(cmd.Context(), path, name, args)
		},
	}
	cmd.Flags().StringVar(&path, "dir", ".", "the folder with the design")
	cmd.Flags().StringVar(&name, "site", "", "the site's name, when the repository has several")
	return cmd
}

func (a *app) render(ctx context.Context, path, siteName string, nodes []string) error {
	rev, r, err := evaluateDir(ctx, path, siteName)
	if err != nil {
		return err
	}
	if r.Site == nil {
		return a.refuse(rev.Files, r)
	}
	if err := allKnown(r.Site, nodes); err != nil {
		return fmt.Errorf("render %s: %w", strings.Join(nodes, " "), err)
	}
	text, err := design.Render(r.Site, nodes, design.Format(a.output))
	if err != nil {
		return err
	}
	_, err = a.out.Data().Write(text)
	return err
}

// allKnown refuses names that no node has.
func allKnown(s *site.Site, nodes []string) error {
	for _, n := range nodes {
		if s.Nodes[n] == nil {
			near := nearTo(n, s.NodeNames())
			if near == "" && len(s.Nodes) > 0 {
				near = "; its nodes are " + someOf(s.NodeNames())
			}
			return fmt.Errorf("site %s has no node %q%s", s.Name, n, near)
		}
	}
	return nil
}
