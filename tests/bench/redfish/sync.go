package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// cycles is for how many periods the machines are kept.
const cycles = 5

// keeper keeps machines in sync: it looks at each once a period.
type keeper interface {
	// enroll begins with empty hands and returns when every machine was
	// observed, with the time that this took.
	enroll(ctx context.Context) (time.Duration, error)
	// usage is the CPU time that it has used.
	usage() (time.Duration, error)
	// close ends its processes, and says more after an error.
	close(failed error)
}

// kept is what keeping has cost.
type kept struct {
	enroll time.Duration // until every machine was observed
	cycle  time.Duration // CPU time in which every machine was looked at once
}

// beside keeps the same machines with Ironic and with Slipway, one after the
// other, and gives what Slipway takes of what Ironic does.
//
// Both look over TLS that they verify by the lab's authority, with sessions, at
// 1,000 machines of all personalities that answer a read after 5 ms, once in 60
// seconds, which is either's default. Ironic has its default eight workers for
// that. Its look is the power sync: is the machine on. Ours sees power, boot
// and health, compares them with the design, and reports. Neither inspects the
// machines: Ironic does so when it is told to, Slipway unless the design says
// never, once a day and soon after it has met a machine. A machine is enrolled
// when its power state was read: in Ironic from the first request to an API
// that is up until the last node is manageable, in Slipway from the start of the
// daemon, which first reads the design from Git, until the last node is in-sync.
// CPU time is that of ironic-conductor alone, without its API, and of the
// daemon with its workers; what a cycle costs is that of five periods, begun
// one period after the enrolment, over how often a machine was looked at.
func beside(quick bool) (lines []string, err error) {
	n, period := 1000, time.Minute
	if quick {
		n, period = 50, 20*time.Second
	}
	dir, err := os.MkdirTemp("", "slipway-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	all := machines(n)
	fleet, err := lab.Start(lab.Config{Seed: seed, Latency: lab.Latency{GET: 5 * time.Millisecond, Write: 5 * time.Millisecond}, Machines: all})
	if err != nil {
		return nil, err
	}
	defer fleet.Close()
	b := bench{fleet, all, period}
	theirs, err := b.keep("ironic", &ironic{bench: b, dir: filepath.Join(dir, "ironic")})
	if err != nil {
		return nil, fmt.Errorf("ironic: %w", err)
	}
	ours, err := b.keep("slipway", &slipway{bench: b, dir: filepath.Join(dir, "slipway")})
	if err != nil {
		return nil, fmt.Errorf("slipway: %w", err)
	}
	return []string{
		rig.Figure("redfish/ironic/sync-cpu-ratio", float64(ours.cycle)/float64(theirs.cycle), "ratio"),
		rig.Figure("redfish/ironic/enroll-ratio", float64(ours.enroll)/float64(theirs.enroll), "ratio"),
	}, nil
}

// bench is machines to be kept, and how often each is to be looked at.
type bench struct {
	fleet    *lab.Fleet
	machines []lab.MachineConfig
	period   time.Duration
}

// keep lets a keeper enroll the machines and keep them for the cycles.
func (b bench) keep(name string, k keeper) (cost kept, err error) {
	defer func() { k.close(err) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if cost.enroll, err = k.enroll(ctx); err != nil {
		return cost, fmt.Errorf("enroll: %w", err)
	}
	rig.Progress("%s: all observed after %.1f s", name, cost.enroll.Seconds())
	time.Sleep(b.period)
	from := time.Now()
	before, err := k.usage()
	if err != nil {
		return cost, err
	}
	time.Sleep(cycles * b.period)
	after, err := k.usage()
	if err != nil {
		return cost, err
	}
	looks, reads, err := b.looks(from)
	cost.cycle = time.Duration(float64(after-before) / looks)
	rig.Progress("%s: %.2f s of CPU a cycle, %.2f looks at each machine in %d periods, %.1f requests a look",
		name, cost.cycle.Seconds(), looks, cycles, reads/looks)
	return cost, err
}

// looks is how often a machine was looked at since a time, in the mean, and
// with how many requests in all: requests to a machine of which none comes long
// after the one before are one look. A machine that was left out for a period
// is an error.
func (b bench) looks(from time.Time) (looks, reads float64, err error) {
	asked := map[string][]time.Time{}
	for _, c := range b.fleet.Calls() {
		if c.When.After(from) {
			asked[c.Machine] = append(asked[c.Machine], c.When)
		}
	}
	for _, m := range b.machines {
		n := 0
		last := from.Add(-b.period)
		for _, t := range slices.SortedFunc(slices.Values(asked[m.Name]), time.Time.Compare) {
			if t.Sub(last) > b.period/3 {
				n++
			}
			last = t
			reads++
		}
		if n < cycles-1 {
			err = cmp.Or(err, fmt.Errorf("%s was looked at %d times in %d periods", m.Name, n, cycles))
		}
		looks += float64(n)
	}
	n := float64(len(b.machines))
	if looks == 0 {
		return 0, 0, errors.New("no machine was looked at")
	}
	return looks / n, reads / n, err
}
