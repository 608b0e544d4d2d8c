package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/say"
)

func (a *app) allocateCommand() *cobra.Command {
	var name string
	var check bool
	cmd := &cobra.Command{
		Use: "allocate [DIR]", Short: "give addresses to the nodes that ask for one",
		Long: "Gives every node with `addresses: NETWORK: \"allocate\"` an address of the network's\n" +
			"static ranges, and writes the addresses to " + design.AllocationsFile + " in the site's\n" +
			"folder. The same design always gets the same addresses. A node keeps its address for as\n" +
			"long as it asks for one. Commit the file: only then do the addresses count. The daemon\n" +
			"never writes it.\n" + exitHelp,
		Example: "  slipway allocate\n  slipway allocate --check site-example",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.allocate(cmd.Context(), folder(args), name, check)
		},
	}
	cmd.Flags().StringVar(&name, "site", "", "the site's name, when the repository has several")
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; say what would change, and exit 2 when anything would")
	return cmd
}

// allocation is one change of an allocated address; Before is empty for a new
// one, After for one that is free again.
type allocation struct {
	Network string `json:"network"`
	Node    string `json:"node"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
}

// allocated is what allocate prints as JSON.
type allocated struct {
	Site    string       `json:"site"`
	File    string       `json:"file"`
	Changes []allocation `json:"changes"`
}

func (a *app) allocate(ctx context.Context, path, siteName string, check bool) error {
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
	got, r, err := e.Allocate(ctx, rev.Files, siteName)
	switch {
	case err != nil:
		return fmt.Errorf("allocate %s: %w", path, err)
	case r.Site == nil:
		return a.refuse(rev.Files, r)
	}
	done := allocated{Site: got.Site, File: got.File, Changes: changesOf(got)}
	if len(done.Changes) > 0 && !check {
		if err := writeAllocations(filepath.Join(path, filepath.FromSlash(got.File)), got.Text); err != nil {
			return fmt.Errorf("allocate %s: %w", path, err)
		}
	}
	if err := a.printAllocated(done, check); err != nil {
		return err
	}
	if check && len(done.Changes) > 0 {
		return errChanges
	}
	return nil
}

// changesOf lists what allocating changes, by network and node.
func changesOf(got design.Allocated) []allocation {
	changes := []allocation{}
	for network, after := range got.After {
		for node, address := range after {
			if before := got.Before[network][node]; before != address {
				changes = append(changes, allocation{network, node, before, address})
			}
		}
	}
	for network, before := range got.Before {
		for node, address := range before {
			if got.After[network][node] == "" {
				changes = append(changes, allocation{network, node, address, ""})
			}
		}
	}
	slices.SortFunc(changes, func(x, y allocation) int {
		return strings.Compare(x.Network+"\n"+x.Node, y.Network+"\n"+y.Node)
	})
	return changes
}

// writeAllocations writes the file, or removes it when there is nothing to
// hold.
func writeAllocations(name string, text []byte) error {
	if text != nil {
		return replaceFile(name, text, 0o644)
	}
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (a *app) printAllocated(done allocated, check bool) error {
	if a.output == "json" {
		return a.out.JSON(done)
	}
	if len(done.Changes) == 0 {
		return a.out.Printf("every node of site %s that asks for an address has one\n", done.Site)
	}
	t := newTable("network", "node", "had", "has")
	for _, c := range done.Changes {
		t.AppendRow(table.Row{c.Network, c.Node, orDash(c.Before), orDash(c.After)})
	}
	a.out.Println(t.Render())
	if check {
		return a.out.Printf("\n%s is not written: it would change in %s\n", done.File, say.Count(len(done.Changes), "line"))
	}
	return a.out.Printf("\n%s is written; commit it with the design\n", done.File)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
