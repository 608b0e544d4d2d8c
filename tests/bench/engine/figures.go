package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// overhead brings machines from off to in-sync, one alone and a thousand at
// once, and gives the ratio: what being many costs over a node's own path.
func overhead(quick bool) ([]string, error) {
	n, runs := 1000, 3
	if quick {
		n, runs = 50, 1
	}
	// The laboratory has the processors in common with what is measured.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 30))
	var alone, all []float64
	for range runs {
		one, err := bringUp(1)
		if err != nil {
			return nil, err
		}
		many, err := bringUp(n)
		if err != nil {
			return nil, err
		}
		rig.Progress("overhead: one node %.2f s, %d nodes %.2f s", one.Seconds(), n, many.Seconds())
		alone, all = append(alone, one.Seconds()), append(all, many.Seconds())
	}
	return []string{
		rig.Figure("engine/own-path", rig.Median(alone), "s"),
		rig.Figure(fmt.Sprintf("engine/wall-%d", n), rig.Median(all), "s"),
		rig.Figure("engine/overhead", rig.Median(all)/rig.Median(alone), "ratio"),
	}, nil
}

// bringUp brings up n machines, beside one that is up and that they need. It
// is the time from the daemon's first request to any machine until the last one
// is in-sync.
func bringUp(n int) (wall time.Duration, err error) {
	b, err := newBed(n+1, 200*time.Millisecond, "off", "on", rig.Pace{Poll: "30s", Observe: "60s", Report: "30s"})
	defer func() { b.close(err) }()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	st, err := b.inSync(ctx)
	if err != nil {
		return 0, err
	}
	var last time.Time
	for _, node := range st.Nodes {
		if node.Since.After(last) {
			last = node.Since
		}
	}
	return last.Sub(b.fleet.FirstCall()), nil
}

// idle keeps machines that are in-sync for two minutes.
func idle(quick bool) ([]string, error) {
	n, span := 10_000, 2*time.Minute
	if quick {
		n, span = 500, 20*time.Second
	}
	b, err := newBed(n, 200*time.Millisecond, "on", "on", rig.Pace{Poll: "30s", Observe: "60s", Report: "30s"})
	defer func() { b.close(err) }()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if _, err = b.inSync(ctx); err != nil {
		return nil, err
	}
	rig.Progress("idle: %d nodes in-sync after %.0f s; settling for a minute", n, time.Since(b.Begun).Seconds())
	time.Sleep(span / 2) // the first looks were all at once
	before, _, err := b.Usage()
	if err != nil {
		return nil, err
	}
	calls, begun, peak := b.fleet.CallCount(), time.Now(), int64(0)
	for time.Since(begun) < span {
		_, rss, uerr := b.Usage()
		if uerr != nil {
			err = uerr
			return nil, err
		}
		peak = max(peak, rss)
		time.Sleep(time.Second)
	}
	after, _, err := b.Usage()
	if err != nil {
		return nil, err
	}
	_, own, err := rig.Process(os.Getpid())
	if err != nil {
		return nil, err
	}
	wall := time.Since(begun).Seconds()
	rig.Progress("idle: %.0f requests a second", float64(b.fleet.CallCount()-calls)/wall)
	return []string{
		rig.Figure(fmt.Sprintf("engine/idle-%d-cpu", n), (after-before).Seconds()/wall, "cores"),
		rig.Figure(fmt.Sprintf("engine/idle-%d-rss", n), float64(peak)/(1<<20), "MiB"),
		rig.Figure(fmt.Sprintf("lab/rss-%d", n), float64(own)/(1<<20), "MiB"),
	}, nil
}

// commitToWrite is the time from a pushed commit to the first write to a BMC.
func commitToWrite(quick bool) ([]string, error) {
	n, commits := 100, 11
	if quick {
		n, commits = 10, 3
	}
	b, err := newBed(n, 50*time.Millisecond, "on", "on", rig.Pace{Poll: "1s", Observe: "60s", Report: "2s"})
	defer func() { b.close(err) }()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err = rig.Git(rig.Work(b.dir), "remote", "add", "origin", rig.Repo(b.dir)); err != nil {
		return nil, err
	}
	var took []float64
	for i := range commits {
		if _, err = b.inSync(ctx); err != nil {
			return nil, err
		}
		// Another phase of the polling for each commit.
		time.Sleep(time.Duration(i) * 370 * time.Millisecond % time.Second)
		var d time.Duration
		if d, err = b.changeBoot(ctx, i); err != nil {
			return nil, err
		}
		took = append(took, d.Seconds())
	}
	rig.Progress("commit-to-write: %.2f s", took)
	return []string{rig.Figure("engine/commit-to-write", rig.Median(took), "s")}, nil
}

// changeBoot commits another boot order for one node and waits for the first
// write.
func (b *bed) changeBoot(ctx context.Context, i int) (time.Duration, error) {
	order := []string{`["Pxe", "Hdd"]`, `["Hdd", "Pxe"]`}[i%2]
	text := fmt.Sprintf("package bench\n\nnodes: %s: boot: order: %s\n", rig.NodeName(b.n-1), order)
	if err := rig.Write(rig.Work(b.dir), map[string]string{"change.cue": text}); err != nil {
		return 0, err
	}
	if err := rig.Git(rig.Work(b.dir), "add", "-A"); err != nil {
		return 0, err
	}
	if err := rig.Git(rig.Work(b.dir), "commit", "-q", "-m", "boot order"); err != nil {
		return 0, err
	}
	m := b.fleet.Machine(rig.NodeName(b.n - 1))
	writes := m.Writes()
	begun := time.Now()
	if err := rig.Git(rig.Work(b.dir), "push", "-q", "origin", "main"); err != nil {
		return 0, err
	}
	for m.Writes() == writes {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("no write after commit %d: %w", i, ctx.Err())
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(begun), nil
}
