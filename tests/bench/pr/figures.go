package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/github"
)

// pushToComment is the time from a push, which changes the profile that all
// nodes have, until the comment about it can be read.
func pushToComment(quick bool, n int, name string) (lines []string, err error) {
	pushes := 11
	if quick {
		n, pushes = min(n, 200), 3
	}
	// The laboratory and the GitHub have the processors in common with what is
	// measured.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 30))
	b, err := newBed(n)
	defer func() { b.close(err) }()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if _, err = b.InSync(ctx, n); err != nil {
		return nil, err
	}
	rig.Progress("%s: %d nodes in-sync after %.0f s", name, n, time.Since(b.Begun).Seconds())
	took, err := b.pushes(ctx, pushes)
	if err != nil {
		return nil, err
	}
	rig.Progress("%s: %.2f s", name, took)
	return []string{rig.Figure(name, rig.Median(took), "s")}, nil
}

// pushes opens a pull request and pushes to it again and again; it gives the
// seconds until each push was told of.
func (b *bed) pushes(ctx context.Context, n int) (took []float64, err error) {
	commit := b.repo.Push("ann", "edit", "edit 0", b.edited(0))
	p := b.repo.Open(github.Proposal{Author: "ann", Head: "edit", Title: "Another boot order"})
	text, err := read(ctx, p, commit)
	if err != nil {
		return nil, err
	}
	rig.Progress("the comment says: %s", strings.Split(text, "\n")[1])
	for i := range n {
		// Past what is still to be written of the last push, and in another
		// phase of what the daemon does beside.
		time.Sleep(4*time.Second + time.Duration(i)*370*time.Millisecond%time.Second)
		begun := time.Now()
		commit = b.repo.Push("ann", "edit", fmt.Sprint("edit ", i+1), b.edited(i+1))
		if _, err := read(ctx, p, commit); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begun).Seconds())
	}
	return took, nil
}
