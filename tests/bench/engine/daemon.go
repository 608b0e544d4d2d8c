package main

import (
	"context"
	"os"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// latency is the fixed model of the figures.
func latency(get time.Duration) lab.Latency {
	return lab.Latency{GET: get, Write: 500 * time.Millisecond, PowerOn: 30 * time.Second, PowerOff: 10 * time.Second, Boot: 30 * time.Second}
}

// bed is a fleet, a repository of its site, and the daemon that keeps it.
type bed struct {
	*rig.Daemon
	dir   string
	fleet *lab.Fleet
	n     int
}

// newBed starts n machines and a daemon on a site that wants them as wanted.
func newBed(n int, get time.Duration, power, wanted string, p rig.Pace) (*bed, error) {
	dir, err := os.MkdirTemp("", "slipway-bench-")
	if err != nil {
		return nil, err
	}
	b := &bed{dir: dir, n: n}
	if b.fleet, err = lab.Start(lab.Config{Seed: rig.Seed, Latency: latency(get), Machines: rig.Machines(n, power)}); err != nil {
		return b, err
	}
	b.fleet.Certify() // real BMCs have theirs
	b.Daemon, err = rig.Start(dir, rig.Site(n, b.fleet.BMCPort(), wanted, p), rig.Password)
	return b, err
}

// close ends the daemon and the fleet, and shows the log's end after an error.
func (b *bed) close(failed error) {
	if b.Daemon != nil {
		b.Daemon.Close(failed)
	}
	if b.fleet != nil {
		b.fleet.Close()
	}
	os.RemoveAll(b.dir)
}

// inSync waits until every node is, and gives the status.
func (b *bed) inSync(ctx context.Context) (site.Status, error) { return b.InSync(ctx, b.n) }
