package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

const longest = 15 * time.Minute

// used is what a rollout has taken.
type used struct {
	cpu         time.Duration // of the daemon that leads, with its workers
	makespan    time.Duration // from the push of the change until the last node was in-sync
	follower    float64       // cores
	followerRSS int64
}

// overhead has a thousand machines switched on by a commit, once with one host and once with three members, in turn.
func overhead(quick bool) ([]string, error) {
	n, runs := 1000, 3
	if quick {
		n, runs = 50, 1
	}
	// The laboratory has the processors in common with what is measured.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 30))
	var cpu, makespan, follower, rss []float64
	for range runs {
		one, err := rollout(n, false)
		if err != nil {
			return nil, fmt.Errorf("one host: %w", err)
		}
		three, err := rollout(n, true)
		for again := 0; again < 3 && errors.Is(err, errTakenOver); again++ {
			rig.Progress("overhead: %v; measured again", err)
			three, err = rollout(n, true)
		}
		if err != nil {
			return nil, fmt.Errorf("three members: %w", err)
		}
		rig.Progress("overhead: one host %.1f s in %.1f s of CPU, three members %.1f s in %.1f s; the follower %.3f cores, %d MiB",
			one.makespan.Seconds(), one.cpu.Seconds(), three.makespan.Seconds(), three.cpu.Seconds(), three.follower, three.followerRSS>>20)
		cpu, makespan = append(cpu, three.cpu.Seconds()/one.cpu.Seconds()), append(makespan, three.makespan.Seconds()/one.makespan.Seconds())
		follower, rss = append(follower, three.follower), append(rss, float64(three.followerRSS)/(1<<20))
	}
	return []string{
		rig.Figure("ha/overhead-ratio", rig.Median(cpu), "ratio"),
		rig.Figure("ha/makespan-ratio", rig.Median(makespan), "ratio"),
		rig.Figure("ha/follower-cpu", rig.Median(follower), "cores"),
		rig.Figure("ha/follower-rss", rig.Median(rss), "MiB"),
	}, nil
}

// errTakenOver is returned by a rollout of which another daemon led a part: it measures something else.
var errTakenOver = errors.New("the leader lost its lease, because the processors are busy")

// rollout switches n machines on, by the hosts of a new site.
func rollout(n int, members bool) (u used, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	b, err := newBed(ctx, n+1, members, rig.Pace{Poll: "1s", Observe: "60s", Report: "5s"})
	defer func() { b.close(err) }()
	if err != nil {
		return u, err
	}
	leader := b.hosts[0].cmd.Process.Pid
	before, _, err := rig.Usage(leader)
	if err != nil {
		return u, err
	}
	var followed time.Duration
	if members {
		if followed, _, err = rig.Usage(b.hosts[1].cmd.Process.Pid); err != nil {
			return u, err
		}
	}
	begun := time.Now()
	if err = b.push(b.files("on")); err != nil {
		return u, err
	}
	last, err := b.switchedOn(ctx, begun)
	if err != nil {
		return u, err
	}
	if now, _ := b.leader(); now != b.hosts[0] {
		err = errTakenOver
		return u, err
	}
	after, _, err := rig.Usage(leader)
	if err != nil {
		return u, err
	}
	u.cpu, u.makespan = after-before, last.Sub(begun)
	if members {
		var now time.Duration
		now, u.followerRSS, err = rig.Usage(b.hosts[1].cmd.Process.Pid)
		u.follower = (now - followed).Seconds() / time.Since(begun).Seconds()
	}
	return u, err
}

// switchedOn waits until all machines are on and as designed, and returns when the last one was.
func (b *bed) switchedOn(ctx context.Context, begun time.Time) (last time.Time, err error) {
	err = until(ctx, "all machines are on", 2*time.Second, func() bool {
		_, s := b.leader()
		if s.Counts()[site.InSync] != b.n || b.on() != b.n {
			return false
		}
		for _, node := range s.Nodes {
			if node.Since.After(last) {
				last = node.Since
			}
		}
		return last.After(begun)
	})
	return last, err
}

func (b *bed) on() (n int) {
	for i := range b.n {
		if b.fleet.Machine(rig.NodeName(i)).Power() == "On" {
			n++
		}
	}
	return n
}

// takeover kills the daemon that leads, again and again, and has a machine that somebody switched on wait for the next
// one: from the kill to its first write to a machine.
func takeover(quick bool) (lines []string, err error) {
	n, kills := 100, 11
	if quick {
		n, kills = 10, 3
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*longest)
	defer cancel()
	b, err := newBed(ctx, n, true, rig.Pace{Poll: "1s", Observe: "60s", Report: "2s"})
	defer func() { b.close(err) }()
	if err != nil {
		return nil, err
	}
	var took []float64
	for i := range kills {
		// Another phase of the leases for each kill.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(i) * 370 * time.Millisecond % (3 * time.Second)):
		}
		d, err := b.kill(ctx, i)
		if err != nil {
			return nil, err
		}
		rig.Progress("takeover %d of %d: %.1f s", i+1, kills, d.Seconds())
		took = append(took, d.Seconds())
	}
	return []string{rig.Figure("ha/takeover-p50", rig.Median(took), "s"), rig.Figure("ha/takeover-max", slices.Max(took), "s")}, nil
}

// kill kills the leader and measures until the next write to a machine. Then it starts the host again, and waits until
// all is as before.
func (b *bed) kill(ctx context.Context, i int) (time.Duration, error) {
	l, before := b.leader()
	if l == nil {
		return 0, fmt.Errorf("nobody leads")
	}
	first := make(chan time.Time, 1)
	if err := l.end(syscall.SIGKILL); err != nil {
		return 0, err
	}
	killed := time.Now()
	b.fleet.Watch(func(_ int, c lab.Call) {
		if c.Write() && c.When.After(killed) {
			select {
			case first <- c.When:
			default:
			}
		}
	})
	defer b.fleet.Watch(nil)
	b.fleet.Machine(rig.NodeName(b.n - 1 - i)).SetPower("on") // another one each time: what changes again and again is left alone
	var took time.Duration
	select {
	case at := <-first:
		took = at.Sub(killed)
	case <-ctx.Done():
		return 0, fmt.Errorf("no write after kill %d: %w", i+1, ctx.Err())
	}
	if err := l.start(); err != nil {
		return 0, err
	}
	return took, until(ctx, "another leads and the killed one follows", time.Second, func() bool {
		now, s := b.leader()
		r, err := l.ask.Report(context.Background(), "")
		return now != nil && now != l && s.Term > before.Term && s.Counts()[site.InSync] == b.n && err == nil && r.Status.Leader != "" && now.isMember()
	})
}
