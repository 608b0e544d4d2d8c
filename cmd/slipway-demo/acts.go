package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// act is one thing that the demo shows.
type act struct {
	name, shows string
	play        func(context.Context, *stage) error
}

var acts = []act{
	{"check", "is the design sound?", check},
	{"plan", "what would be done, and what would be lost?", plan},
	{"run", "twelve machines that are off, two of them blank", run},
	{"change", "a commit changes the design", change},
	{"pull", "a pull request says what it would do, and merging approves it", pull},
	{"drift", "somebody switches a machine off", drift},
	{"mistake", "a commit with a broken design", mistake},
	{"deletion", "a commit drops half the nodes", deletion},
	{"status", "what is left in Git", status},
}

func check(ctx context.Context, s *stage) error {
	out, err := s.ask(ctx, "slipway", "check", "site")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, " checked") {
			s.show.answer(strings.TrimSpace(line))
		}
	}
	return nil
}

func plan(ctx context.Context, s *stage) error {
	out, err := s.ask(ctx, "slipway", "plan", "site")
	if err != nil {
		return err
	}
	for _, line := range destroyed(out) {
		s.show.answer(line)
	}
	s.show.answer(lastLine(out))
	return nil
}

func run(ctx context.Context, s *stage) error {
	if err := s.startLab(ctx, "--blank", "compute-5,compute-6", "--power", "off"); err != nil {
		return err
	}
	if err := s.startDaemon(s.forge.flags()...); err != nil {
		return err
	}
	if err := s.openPage(ctx); err != nil {
		return err
	}
	var waiting site.Status
	err := s.until(ctx, "10 nodes in-sync and 2 waiting for approval", time.Minute, func(r *site.Report) bool {
		waiting = r.Status
		n := r.Status.Counts()
		return n[site.InSync] == 10 && n[site.Blocked] == 2 && r.Status.Approve != ""
	})
	if err != nil {
		return err
	}
	s.show.proof("10 of 12 in-sync; " + strings.Join(blocked(&waiting), " and ") + " wait for a person:")
	s.show.answer(nodeLine(&waiting, "compute-5"))
	if err := s.approveSet(ctx, waiting.Approve); err != nil {
		return err
	}
	if err := s.untilInSync(ctx, nil); err != nil {
		return err
	}
	s.show.proof("12 of 12 in-sync")
	return s.showInstalled(ctx, "compute-5", "compute-6")
}

// decisionTime is how long a person may take to approve.
const decisionTime = 15 * time.Minute

// approveSet approves a set, or waits until a person has approved it in the browser.
func (s *stage) approveSet(ctx context.Context, set string) error {
	if s.opened != approved {
		return s.tell(ctx, "slipway", "approve", set)
	}
	s.show.proof("waiting for you: approve it in your browser")
	err := s.until(ctx, "you to approve", decisionTime, func(r *site.Report) bool { return r.Status.Approve != set })
	if err == nil {
		s.show.proof("approved in the browser")
	}
	return err
}

func change(ctx context.Context, s *stage) error {
	err := errors.Join(
		s.edit("rack-2.cue", `"compute-4": schema.#Layer & {`, `"compute-4": schema.#Layer & {`+"\n\t\t"+`power: "off"`),
		s.edit("rack-1.cue", `"storage-1": schema.#Layer & {`, `"storage-1": schema.#Layer & {`+"\n\t\t"+networkFirst))
	if err == nil {
		err = s.commit(ctx, "compute-4 rests, storage-1 boots from the network first")
	}
	if err != nil {
		return err
	}
	err = s.untilInSync(ctx, func() bool {
		return s.machine(ctx, "compute-4").Power == "Off" && slices.Equal(s.machine(ctx, "storage-1").BootOrder, []string{"Pxe", "Hdd"})
	})
	if err != nil {
		return err
	}
	s.show.proof("12 of 12 in-sync with the new design; the machines themselves say:")
	return s.showMachines(ctx, "compute-4", "storage-1")
}

const networkFirst = `boot: order: ["Pxe", "Hdd"]`

func drift(ctx context.Context, s *stage) error {
	before := s.machine(ctx, "controller-2").Counts.Resets
	if _, err := s.ask(ctx, "slipway-lab", "machine", "controller-2", "--power", "off", "--control", labSocket); err != nil {
		return err
	}
	var noticed site.NodeStatus
	err := s.until(ctx, "the daemon to notice that controller-2 is off", 30*time.Second, func(r *site.Report) bool {
		noticed = node(&r.Status, "controller-2")
		return noticed.State != site.InSync
	})
	if err != nil {
		return err
	}
	s.show.proof("noticed: controller-2 is " + string(noticed.State) + ", " + noticed.Reason)
	if err := s.untilInSync(ctx, func() bool { return s.machine(ctx, "controller-2").Counts.Resets > before }); err != nil {
		return err
	}
	s.show.proof("repaired: 12 of 12 in-sync")
	return s.showMachines(ctx, "controller-2")
}

func mistake(ctx context.Context, s *stage) error {
	before, err := s.writes(ctx)
	if err != nil {
		return err
	}
	err = s.edit("rack-1.cue", `"compute-2": schema.#Layer & {`, `"compute-2": schema.#Layer & {`+"\n\t\t"+`power: "onn"`)
	if err == nil {
		err = s.commit(ctx, "compute-2: power")
	}
	if err != nil {
		return err
	}
	var told site.Report
	err = s.until(ctx, "the status to say what is wrong", 30*time.Second, func(r *site.Report) bool {
		told = *r
		return r.Status.Attempted.ID == s.head && r.Status.Applied.ID != s.head && site.HasErrors(r.Findings)
	})
	if err != nil {
		return err
	}
	s.show.proof("refused, and the status says why:")
	for _, f := range told.Findings {
		if f.Severity == site.SeverityError {
			s.show.refusal(f)
		}
	}
	s.show.proof(fmt.Sprintf("in force is still %s; %d of %d in-sync", told.Status.Applied.Short(), told.Status.Counts()[site.InSync], len(told.Status.Nodes)))
	if err := s.untilReported(ctx, "12/12 in-sync, 1 problem"); err != nil {
		return err
	}
	if err := s.revert(ctx); err != nil {
		return err
	}
	if err := s.untilInSync(ctx, nil); err != nil {
		return err
	}
	after, err := s.writes(ctx)
	switch {
	case err != nil:
		return err
	case after != before:
		return fmt.Errorf("the machines were written to: %d requests for a change before, %d after", before, after)
	}
	s.show.proof(fmt.Sprintf("12 of 12 in-sync; no machine was touched: %d requests for a change before, %d after", before, after))
	return nil
}

func deletion(ctx context.Context, s *stage) error {
	rest := "\n\t\t" + networkFirst
	err := errors.Join(
		s.cut("rack-2.cue", "\n\n\t\"storage-2\": schema.#Layer & {", "\n}"),
		s.cut("rack-3.cue", "\n\n\t\"storage-3\": schema.#Layer & {", "\n}"),
		s.edit("rack-1.cue", rest, ""))
	if err == nil {
		err = s.commit(ctx, "tidy up")
	}
	if err != nil {
		return err
	}
	var held site.Status
	err = s.until(ctx, "6 deletions held and the rest done", 30*time.Second, func(r *site.Report) bool {
		held = r.Status
		n := r.Status.Counts()
		return r.Status.Applied.ID == s.head && n[site.Blocked] == 6 && n[site.InSync] == 6 &&
			slices.Equal(s.machine(ctx, "storage-1").BootOrder, []string{"Hdd", "Pxe"})
	})
	if err != nil {
		return err
	}
	names := blocked(&held)
	s.show.proof("held: " + strings.Join(names, ", "))
	s.show.answer(nodeLine(&held, names[0]))
	s.show.proof("the rest is done; the machine itself says:")
	if err := s.showMachines(ctx, "storage-1"); err != nil {
		return err
	}
	if err := s.untilReported(ctx, "6/12 in-sync, 6 blocked"); err != nil {
		return err
	}
	if err := s.restore(ctx, "rack-2.cue", "rack-3.cue"); err != nil {
		return err
	}
	if err := s.untilInSync(ctx, nil); err != nil {
		return err
	}
	s.show.proof("12 of 12 in-sync; nothing was lost")
	return nil
}

func status(ctx context.Context, s *stage) error {
	if err := s.untilInSync(ctx, nil); err != nil {
		return err
	}
	if err := s.untilReported(ctx, fmt.Sprintf("%d/%[1]d in-sync", s.nodes)); err != nil {
		return err
	}
	if err := s.countReports(ctx); err != nil {
		return err
	}
	log, err := s.ask(ctx, "git", "-C", "site.git", "log", "--oneline", "--no-decorate", s.branch)
	if err != nil {
		return err
	}
	for _, line := range shortened(strings.Split(strings.TrimSpace(log), "\n"), 5) {
		s.show.quote(line)
	}
	page, err := s.ask(ctx, "git", "-C", "site.git", "show", s.branch+":README.md")
	if err != nil {
		return err
	}
	for line := range strings.Lines(strings.TrimSpace(page)) {
		s.show.quote(strings.TrimRight(line, "\n"))
	}
	return nil
}
