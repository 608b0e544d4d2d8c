package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/design"
)

// warm is a site that was evaluated, by an evaluator that remembers it.
type warm struct {
	dir   string
	nodes int
	*design.Evaluator
}

func (b *bench) warm(ctx context.Context, s style, n int) (*warm, error) {
	w := &warm{b.site(s, n), n, &design.Evaluator{Command: []string{b.slipway, "evaluate"}}}
	_, err := w.check(ctx)
	return w, err
}

// check evaluates the site as it is now, and gives the time that it took.
func (w *warm) check(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	r, err := w.Evaluate(ctx, os.DirFS(w.dir), "")
	took := time.Since(begun)
	switch {
	case err != nil:
		return took, err
	case len(r.Findings) > 0:
		return took, fmt.Errorf("%s: %s", w.dir, r.Findings[0])
	case len(r.Site.Nodes) != w.nodes:
		return took, fmt.Errorf("%s has %d nodes, want %d", w.dir, len(r.Site.Nodes), w.nodes)
	}
	return took, nil
}

// change replaces a text in a file, evaluates, and puts the text back. People's
// edits come minutes after one another: what the last one left is collected, and
// the workers are ready, before the time begins.
func (w *warm) change(ctx context.Context, file, old, fresh string, times int) (time.Duration, error) {
	path := filepath.Join(w.dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	if !strings.Contains(string(text), old) {
		return 0, fmt.Errorf("%s has no %q to change", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, fresh, times)), 0o644); err != nil {
		return 0, err
	}
	runtime.GC()
	took, err := w.check(ctx)
	return took, errors.Join(err, os.WriteFile(path, text, 0o644))
}

// edits changes one node of a file of a large site, then all of its nodes, and
// then the places of all but one.
func (b *bench) edits(ctx context.Context) ([]string, error) {
	var lines []string
	for _, s := range styles {
		w, err := b.warm(ctx, s, b.large)
		if err != nil {
			return nil, err
		}
		defer w.Close()
		for _, of := range []struct {
			name, old, fresh string
			times            int
		}{
			{"", `slot: "`, `slot: "%d-`, 1},
			{"-all", `slot: "`, `slot: "%d-`, -1},
			{"-moved", "\n}\n\nnodes: ", "\n}\n// Edit %d.\n\nnodes: ", 1},
		} {
			took, err := w.edits(ctx, of.old, of.fresh, of.times)
			if err != nil {
				return nil, err
			}
			progress("edit%s: %s, %.1f ms", of.name, s.name, took)
			lines = append(lines, figure(fmt.Sprintf("edit%s-%d-%s/ms", of.name, b.large, s.name), median(took), "ms"))
		}
	}
	return lines, nil
}

// edits changes a text in files of nodes, one after the other, so many times in
// each.
func (w *warm) edits(ctx context.Context, old, fresh string, times int) ([]float64, error) {
	const rounds = 21
	var took []float64
	for i := range rounds {
		d, err := w.change(ctx, nodesFile(i%(w.nodes/nodesPerFile)), old, fmt.Sprintf(fresh, i), times)
		if err != nil {
			return nil, err
		}
		took = append(took, d.Seconds()*1000)
		if _, err := w.check(ctx); err != nil { // as it was
			return nil, err
		}
	}
	return took, nil
}

// profileEdits changes a profile that every node has.
func (b *bench) profileEdits(ctx context.Context) ([]string, error) {
	w, err := b.warm(ctx, styles[0], b.middle)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var took []float64
	for i := range 11 {
		d, err := w.change(ctx, "site.cue", `tier: "`, fmt.Sprintf(`tier: "%d-`, i), 1)
		if err != nil {
			return nil, err
		}
		took = append(took, d.Seconds()*1000)
	}
	progress("profile edit: %.1f ms", took)
	return []string{figure(fmt.Sprintf("profile-edit-%d/ms", b.middle), median(took), "ms")}, nil
}
