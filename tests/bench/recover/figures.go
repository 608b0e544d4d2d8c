package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// longest bounds a run.
const longest = 5 * time.Minute

// bound is what the machines of an incident have to be off within.
const bound = 30 * time.Second

// recover20 has an incident come by a commit, confirms it, replaces what its machines could read and releases them.
// Then, unless it is to be quick, another one is ordered by command.
func recover20(quick bool) (lines []string, err error) {
	n := 20
	if quick {
		n = 6
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	b, err := newBed(ctx, n)
	defer func() { b.close(err) }()
	if err != nil {
		return nil, err
	}
	rig.Progress("%d machines taken over after %.0f s; each lets in %s by a password of its own", n, time.Since(b.Begun).Seconds(), own)
	if lines, err = b.byCommit(ctx); err != nil || quick {
		return lines, err
	}
	more, err := b.byCommand(ctx)
	return append(lines, more...), err
}

// byCommit is an incident whose lines are pushed, until it is all clear.
func (b *bed) byCommit(ctx context.Context) ([]string, error) {
	bad := []string{rig.NodeName(2), rig.NodeName(b.n / 2), rig.NodeName(b.n - 1)}
	in := site.Incident{Nodes: bad, Since: time.Now().Add(-time.Hour).UTC().Truncate(time.Second), Reason: "a shell that nobody opened"}
	before := b.passwords()
	w := b.watch(bad)
	defer w.end()
	nodes, err := json.Marshal(in.Nodes)
	if err != nil {
		return nil, err
	}
	b.files["incident.cue"] = fmt.Sprintf("package bench\n\nincidents: shell: {nodes: %s, since: %q, reason: %q}\n", nodes, in.Since.Format(time.RFC3339), in.Reason)
	pushed := time.Now()
	if err := b.push(b.files); err != nil {
		return nil, err
	}
	quarantine, err := b.switchedOff(ctx, in, w, pushed)
	if err != nil {
		return nil, err
	}
	clear, err := b.rekeyed(ctx, in, w, before, pushed)
	if err != nil {
		return nil, err
	}
	w.end()
	tried, err := b.refused(ctx, before)
	if err != nil {
		return nil, err
	}
	steps := w.steps()
	rig.Progress("%d old passwords were tried, all refused; single steps: %d of switching off, %d of setting passwords", tried, steps.offs, steps.sets)
	name := fmt.Sprintf("-%d", b.n)
	if quarantine > bound {
		err = fmt.Errorf("the machines were off after %.1f s, which is more than %.0f s", quarantine.Seconds(), bound.Seconds())
	}
	return []string{
		rig.Figure("recover/quarantine"+name, quarantine.Seconds(), "s"),
		rig.Figure("recover/quarantine-steps"+name, steps.off.Seconds(), "s"),
		rig.Figure("recover/all-clear", clear.Seconds(), "s"),
		rig.Figure("recover/all-clear-steps", (steps.off + steps.set).Seconds(), "s"),
	}, err
}

// switchedOff waits until the machines of an incident are off, and returns how long after the push the last one was.
func (b *bed) switchedOff(ctx context.Context, in site.Incident, w *watcher, pushed time.Time) (time.Duration, error) {
	// An incident of a commit waits for a person, who is here at once.
	if err := until(ctx, "the incident waits", 100*time.Millisecond, func() bool {
		all, err := b.Ask.Incidents(ctx, "", "shell")
		return err == nil && len(all) == 1 && len(all[0].Waits) > 0
	}); err != nil {
		return 0, err
	}
	found := time.Since(pushed)
	if _, err := b.tool("compromise", "--confirm", in.ID("shell")); err != nil {
		return 0, err
	}
	off, err := w.off(ctx)
	if err != nil {
		return 0, err
	}
	if err := b.publishes(ctx, "shell", in, "the page names the power of each", func(page string) bool { return strings.Count(page, "| power seen off at ") == len(in.Nodes) }); err != nil {
		return 0, err
	}
	quarantine := off.Sub(pushed)
	rig.Progress("by a commit: waited for a person after %.1f s, all off after %.1f s, told on the status branch after %.1f s", found.Seconds(), quarantine.Seconds(), time.Since(pushed).Seconds())
	return quarantine, nil
}

// rekeyed gives all machines new passwords and releases those of the incident, and returns how long after the push it
// was all clear.
func (b *bed) rekeyed(ctx context.Context, in site.Incident, w *watcher, before map[string]map[string]string, pushed time.Time) (time.Duration, error) {
	// What is replaced before Slipway acts counts as read by machines that it reaches until then.
	if err := b.replace(); err != nil {
		return 0, err
	}
	// The machines that are not off are given their new passwords first; a person waits for that before the release.
	if err := until(ctx, "the others have new passwords", 200*time.Millisecond, func() bool { return b.changed(before, in.Nodes) }); err != nil {
		return 0, err
	}
	others := time.Since(pushed)
	if left := w.stillOff(); left != "" {
		return 0, fmt.Errorf("%s was on before its release", left)
	}
	for _, node := range in.Nodes {
		if _, err := b.tool("release", node, "--incident", "shell"); err != nil {
			return 0, err
		}
	}
	released := time.Since(pushed)
	if err := until(ctx, "all have new passwords", 200*time.Millisecond, func() bool { return b.changed(before, nil) }); err != nil {
		return 0, err
	}
	last := time.Since(pushed)
	if err := b.publishes(ctx, "shell", in, "the derived passwords are replaced", replaced.MatchString); err != nil {
		return 0, err
	}
	known := time.Since(pushed)
	if err := b.publishes(ctx, "shell", in, "all clear", func(page string) bool { return strings.Contains(page, " | all clear: ") }); err != nil {
		return 0, err
	}
	clear := time.Since(pushed)
	rig.Progress("by a commit: the others had new passwords after %.1f s, the three were released after %.1f s, they had theirs after %.1f s, the status branch said so after %.1f s, all clear after %.1f s",
		others.Seconds(), released.Seconds(), last.Seconds(), known.Seconds(), clear.Seconds())
	return clear, nil
}

// replace gives both secrets new values: a higher epoch in the design, and another password in the file on the host.
func (b *bed) replace() error {
	b.edit("epoch: 1}", "epoch: 2}")
	if err := os.WriteFile(filepath.Join(b.dir, "credentials", "bmc"), []byte(rig.Account("127.0.0.0/8", "bench-after-the-break-in-1")), 0o600); err != nil {
		return err
	}
	return b.push(b.files)
}

// byCommand is an incident that a person orders on the host.
func (b *bed) byCommand(ctx context.Context) ([]string, error) {
	bad := []string{rig.NodeName(3), rig.NodeName(7), rig.NodeName(b.n - 2)}
	w := b.watch(bad)
	defer w.end()
	ordered := time.Now()
	if _, err := b.tool(append([]string{"compromise", "--name", "second", "--reason", "the same key"}, bad...)...); err != nil {
		return nil, err
	}
	off, err := w.off(ctx)
	if err != nil {
		return nil, err
	}
	took := off.Sub(ordered)
	if took > bound {
		err = fmt.Errorf("the machines were off after %.1f s, which is more than %.0f s", took.Seconds(), bound.Seconds())
	}
	return []string{rig.Figure(fmt.Sprintf("recover/quarantine-by-command-%d", b.n), took.Seconds(), "s")}, err
}

// publishes waits until the page of an incident on the status branch says something.
func (b *bed) publishes(ctx context.Context, name string, i site.Incident, what string, says func(page string) bool) error {
	page := ""
	err := until(ctx, what, 200*time.Millisecond, func() bool { page = b.published(name, i); return page != "" && says(page) })
	if err != nil {
		err = fmt.Errorf("%w; the page of the incident is:\n%s", err, page)
	}
	return err
}
