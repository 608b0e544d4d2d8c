package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sources/dir"
)

// collectAt is how much more than what it keeps a process that evaluates lets
// its memory grow before it collects, in per cent. It keeps much and makes
// little anew, so that less than Go's default costs little time.
const collectAt = 40

// newEvaluator runs this program's own evaluate command as its workers.
func newEvaluator(log *slog.Logger) (*design.Evaluator, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to run its workers: %w", err)
	}
	return &design.Evaluator{Command: []string{self, "evaluate"}, Log: log}, nil
}

// folder is the DIR argument of a command.
func folder(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// readDir takes a working directory's state as a revision.
func readDir(ctx context.Context, path string) (site.Revision, error) {
	switch info, err := os.Stat(path); {
	case err != nil:
		return site.Revision{}, fmt.Errorf("%s: there is no such folder: name the one that holds the design", path)
	case !info.IsDir():
		return site.Revision{}, fmt.Errorf("%s is not a folder: name the one that holds the design", path)
	}
	return dir.New(path, slog.New(slog.DiscardHandler)).Fetch(ctx)
}

// evaluateDir evaluates a working directory.
func evaluateDir(ctx context.Context, path, siteName string) (site.Revision, design.Result, error) {
	rev, err := readDir(ctx, path)
	if err != nil {
		return rev, design.Result{}, err
	}
	e, err := newEvaluator(nil)
	if err != nil {
		return rev, design.Result{}, err
	}
	defer e.Close()
	r, err := e.Evaluate(ctx, rev.Files, siteName)
	if err != nil {
		return rev, r, fmt.Errorf("evaluate %s: %w", path, err)
	}
	return rev, r, nil
}
