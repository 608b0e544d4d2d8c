package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// latency is the fixed model of the figures.
var latency = lab.Latency{GET: 200 * time.Millisecond, Write: 500 * time.Millisecond, PowerOn: 30 * time.Second, PowerOff: 10 * time.Second, Boot: 30 * time.Second}

// own is the account that Slipway made for itself on each BMC, with a derived password; admin is that of the factory,
// with the password in a file on the host.
const own, admin = "slipway", "admin"

// bed is a fleet, the repository of its site, and the daemon that keeps it and logs in with passwords that it derives.
type bed struct {
	*rig.Daemon
	dir   string
	fleet *lab.Fleet
	n     int
	files map[string]string
}

// newBed starts n machines and a daemon that has taken them over: it logs in with an account of its own.
func newBed(ctx context.Context, n int) (b *bed, err error) {
	b = &bed{n: n}
	if b.dir, err = os.MkdirTemp("", "slipway-bench-"); err != nil {
		return b, err
	}
	if b.fleet, err = lab.Start(lab.Config{Seed: rig.Seed, Latency: latency, Machines: rig.Machines(n, "on")}); err != nil {
		return b, err
	}
	b.fleet.Certify() // real BMCs have theirs
	key := filepath.Join(b.dir, "site.key")
	public, err := exec.Command(rig.Binary(), "site", "init-key", "--site-key", key, "-o", "json").Output()
	if err != nil {
		return b, fmt.Errorf("slipway site init-key: %w", err)
	}
	var made struct {
		Public string `json:"public"`
	}
	if err = json.Unmarshal(public, &made); err != nil {
		return b, err
	}
	b.files = rig.Site(n, b.fleet.BMCPort(), "on", rig.Pace{Poll: "1s", Observe: "60s", Report: "2s"})
	b.edit("schema.#Site & {rollout", fmt.Sprintf("schema.#Site & {keys: [%q], rollout", made.Public))
	b.edit("credentials: bmc: {}", "credentials: bmc: {}\ncredentials: \"bmc-own\": {from: \"derived\", account: \"slipway\", epoch: 1}")
	b.edit("\tboot: order", "\tbmc: accounts: slipway: {role: \"administrator\", credential: \"bmc-own\"}\n\tendpoints: manager: credential: \"bmc\"\n\tboot: order")
	if err = rig.Publish(b.dir, b.files); err != nil {
		return b, err
	}
	if err = rig.Git(rig.Work(b.dir), "remote", "add", "origin", rig.Repo(b.dir)); err != nil {
		return b, err
	}
	b.Daemon, err = rig.Follow(b.dir, "file://"+rig.Repo(b.dir), map[string]string{
		"bmc": rig.Account("127.0.0.0/8", rig.Password), "bmc-own": "hosts: 127.0.0.0/8\nuse: redfish\nports: 1-65535\n",
	}, "--site-key", key)
	if err != nil {
		return b, err
	}
	if _, err = b.InSync(ctx, n); err != nil {
		return b, err
	}
	b.edit("manager: credential: \"bmc\"\n", "manager: credential: \"bmc-own\"\n")
	b.edit("bmc: accounts: slipway:", "bmc: accounts: admin: {role: \"administrator\", credential: \"bmc\"}\n\tbmc: accounts: slipway:")
	if err = b.push(b.files); err != nil {
		return b, err
	}
	return b, until(ctx, "the new login is in use everywhere", 500*time.Millisecond, func() bool {
		r, err := b.Ask.Report(ctx, "")
		return err == nil && r.Status.Counts()[site.InSync] == n && b.everywhere(func(m *lab.Machine) bool { return m.SessionsOf(own) > 0 })
	})
}

// edit replaces a part of the site's file that is there once.
func (b *bed) edit(from, to string) {
	if strings.Count(b.files["site.cue"], from) != 1 {
		panic("the rig's site has changed: " + from)
	}
	b.files["site.cue"] = strings.Replace(b.files["site.cue"], from, to, 1)
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

// tool runs a command of slipway on the host.
func (b *bed) tool(args ...string) ([]byte, error) {
	out, err := exec.Command(rig.Binary(), append(args, "--state", filepath.Join(b.dir, "state"))...).Output()
	if bad, is := errors.AsType[*exec.ExitError](err); is {
		return nil, fmt.Errorf("slipway %q: %w: %s", args, err, bad.Stderr)
	}
	return out, err
}

// published is the page of an incident on the status branch, empty while it has none.
func (b *bed) published(name string, i site.Incident) string {
	refs, err := exec.Command("git", "-C", rig.Repo(b.dir), "for-each-ref", "--format=%(refname)", "refs/heads/slipway/status/").Output()
	if err != nil {
		return ""
	}
	page, err := exec.Command("git", "-C", rig.Repo(b.dir), "show", fmt.Sprintf("%s:incidents/%s-%s.md", strings.TrimSpace(string(refs)), name, i.ID(name)[:8])).Output()
	if err != nil {
		return ""
	}
	return string(page)
}

// everywhere reports whether something holds for all machines.
func (b *bed) everywhere(holds func(m *lab.Machine) bool) bool {
	for i := range b.n {
		if !holds(b.fleet.Machine(rig.NodeName(i))) {
			return false
		}
	}
	return true
}

// passwords are those of both accounts on each BMC, by machine and user.
func (b *bed) passwords() map[string]map[string]string {
	all := map[string]map[string]string{}
	for i := range b.n {
		name := rig.NodeName(i)
		all[name] = map[string]string{}
		for _, a := range b.fleet.Machine(name).Accounts() {
			all[name][a.User] = a.Password
		}
	}
	return all
}

// close ends everything, and shows the log's end after an error.
func (b *bed) close(failed error) {
	if b.Daemon != nil {
		b.Daemon.Close(failed)
	}
	if b.fleet != nil {
		b.fleet.Close()
	}
	os.RemoveAll(b.dir)
}

// until waits for a condition, which asks seldom: asking takes the processors' time too.
func until(ctx context.Context, what string, every time.Duration, ok func() bool) error {
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("never: %s: %w", what, ctx.Err())
		case <-time.After(every):
		}
	}
	return nil
}
