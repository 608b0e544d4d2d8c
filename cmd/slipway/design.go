package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

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

// located is the root of the repository's module that a folder is in, as `cue`
// finds it, and the site whose folder it is, where none is named. A folder that is
// in none is its own root.
func located(path, siteName string) (root, name string) {
	folder, err := filepath.Abs(path)
	if err != nil {
		return path, siteName
	}
	for root = folder; ; root = filepath.Dir(root) {
		if info, err := os.Stat(filepath.Join(root, "cue.mod")); err == nil && info.IsDir() {
			break
		}
		if root == filepath.Dir(root) {
			return path, siteName
		}
	}
	if root == folder {
		return path, siteName
	}
	below, err := filepath.Rel(root, folder)
	if err != nil {
		return path, siteName
	}
	if parts := strings.Split(filepath.ToSlash(below), "/"); siteName == "" && len(parts) > 1 && parts[0] == "sites" {
		siteName = parts[1]
	}
	if here, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(here, root); err == nil {
			root = relative // which is shorter to read
		}
	}
	return root, siteName
}

// evaluateDir evaluates a working directory.
func evaluateDir(ctx context.Context, path, siteName string) (site.Revision, design.Result, error) {
	path, siteName = located(path, siteName)
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
