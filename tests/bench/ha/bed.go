package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// latency is the fixed model of the figures.
var latency = lab.Latency{GET: 200 * time.Millisecond, Write: 500 * time.Millisecond, PowerOn: 30 * time.Second, PowerOff: 10 * time.Second, Boot: 30 * time.Second}

// bed is a fleet that is off, the repository of its site, and the hosts that keep it.
type bed struct {
	dir   string
	fleet *lab.Fleet
	n     int
	pace  rig.Pace
	hosts []*host
}

// newBed starts a fleet and the hosts of its site: one, or two daemons and a witness, of which the first leads. It
// returns when all nodes are as designed, and all members vote.
func newBed(ctx context.Context, n int, members bool, pace rig.Pace) (b *bed, err error) {
	b = &bed{n: n, pace: pace}
	if b.dir, err = os.MkdirTemp("", "slipway-bench-"); err != nil {
		return b, err
	}
	if b.fleet, err = lab.Start(lab.Config{Seed: rig.Seed, Latency: latency, Machines: rig.Machines(n, "off")}); err != nil {
		return b, err
	}
	b.fleet.Certify() // real BMCs have theirs
	credentials := map[string]string{"credentials/bmc": rig.Account("127.0.0.0/8", rig.Password)}
	for _, step := range []func() error{
		func() error { return rig.Publish(b.dir, b.files("off")) },
		func() error { return rig.Git(rig.Work(b.dir), "remote", "add", "origin", rig.Repo(b.dir)) },
		func() error { return rig.Write(b.dir, credentials) },
		func() error { return os.Chmod(filepath.Join(b.dir, "credentials"), 0o700) },
	} {
		if err := step(); err != nil {
			return b, err
		}
	}
	if !members {
		err = b.startOne()
	} else {
		err = b.startThree(ctx)
	}
	if err != nil {
		return b, err
	}
	_, err = b.inSync(ctx)
	return b, err
}

// files are the design in which all machines but the first have some power.
func (b *bed) files(power string) map[string]string {
	files := rig.Site(b.n, b.fleet.BMCPort(), power, b.pace)
	files["nodes-000.cue"] = strings.Replace(files["nodes-000.cue"], `power: "off"`, `power: "on"`, 1)
	return files
}

func (b *bed) startOne() error {
	h, err := newHost(b.dir, "a")
	if err != nil {
		return err
	}
	b.hosts = []*host{h}
	return h.start()
}

func (b *bed) startThree(ctx context.Context) error {
	for i, name := range []string{"a", "b", "c"} {
		h, err := newMember(b.dir, name, i+1)
		if err != nil {
			return err
		}
		h.witness = name == "c"
		b.hosts = append(b.hosts, h)
	}
	first := b.hosts[0]
	if _, err := first.tool("member", "init", first.address, "--join", first.folder()); err != nil {
		return err
	}
	if err := first.start(); err != nil {
		return err
	}
	if err := until(ctx, "the first daemon leads", time.Second, func() bool { _, leads := first.leads(); return leads }); err != nil {
		return err
	}
	// Each starts before the next is added: a member that joins checks that it knows all others.
	for i, h := range b.hosts[1:] {
		args := []string{"member", "add", h.address, "--folder", h.folder(), "--join", first.folder()}
		if h.witness {
			args = append(args, "--witness")
		}
		if _, err := first.tool(args...); err != nil {
			return err
		}
		if err := h.start(); err != nil {
			return err
		}
		if i == 0 {
			if err := until(ctx, "the second daemon follows", time.Second, func() bool { r, err := h.ask.Report(ctx, ""); return err == nil && r.Status.Leader != "" }); err != nil {
				return err
			}
		}
	}
	return until(ctx, "three members vote", time.Second, first.isMember)
}

// leader is the host that leads, nil if none does.
func (b *bed) leader() (*host, site.Status) {
	for _, h := range b.hosts {
		if s, leads := h.leads(); leads {
			return h, s
		}
	}
	return nil, site.Status{}
}

// inSync waits until the newest design is in force and every node is as it says.
func (b *bed) inSync(ctx context.Context) (s site.Status, err error) {
	err = until(ctx, "all nodes are in-sync", 2*time.Second, func() bool {
		var l *host
		l, s = b.leader()
		return l != nil && s.Counts()[site.InSync] == b.n
	})
	return s, err
}

// push commits files and pushes them.
func (b *bed) push(files map[string]string) error {
	for _, step := range []func() error{
		func() error { return rig.Write(rig.Work(b.dir), files) },
		func() error { return rig.Git(rig.Work(b.dir), "add", "-A") },
		func() error { return rig.Git(rig.Work(b.dir), "commit", "-q", "-m", "change") },
		func() error { return rig.Git(rig.Work(b.dir), "push", "-q", "origin", "main") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// close ends all, the leader last, and shows the ends of the logs after an error.
func (b *bed) close(failed error) {
	for i := len(b.hosts) - 1; i >= 0; i-- {
		b.hosts[i].close(failed)
	}
	if b.fleet != nil {
		b.fleet.Close()
	}
	os.RemoveAll(b.dir)
}
