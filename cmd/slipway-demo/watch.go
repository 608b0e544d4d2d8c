package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// moment is the time between two looks.
const moment = 200 * time.Millisecond

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// until shows the status live until a report meets a condition.
func (s *stage) until(ctx context.Context, what string, limit time.Duration, met func(*site.Report) bool) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); pause(ctx, moment) {
		r, err := s.daemon.Report(ctx, "")
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.deaths() != nil:
			return fmt.Errorf("waiting for %s", what)
		case err != nil:
			continue // it is only starting
		}
		s.last = r.Status
		s.console.show(s.show)
		s.show.progress(&r.Status)
		if met(&r) {
			s.show.still()
			return nil
		}
	}
	return fmt.Errorf("waited %s for %s; the status is: %s", limit, what, describe(&s.last))
}

// untilInSync waits until the newest design is in force, every node is as
// designed, and the machines agree.
func (s *stage) untilInSync(ctx context.Context, agree func() bool) error {
	return s.until(ctx, fmt.Sprintf("%d nodes in-sync", s.nodes), s.patience, func(r *site.Report) bool {
		return r.Status.Applied.ID == s.head && len(r.Status.Nodes) == s.nodes && r.Status.Counts()[site.InSync] == s.nodes &&
			(agree == nil || agree())
	})
}

// caveat is what a verdict says at its end of parts that no driver acts on.
var caveat = regexp.MustCompile(`, \d+ with parts not acted on$`)

// untilReported waits until the status branch says this of the newest design.
func (s *stage) untilReported(ctx context.Context, verdict string) error {
	err := s.until(ctx, "the status branch", time.Minute, func(*site.Report) bool {
		message, err := s.run(ctx, "git", "-C", "site.git", "log", "-1", "--format=%B", s.branch)
		said, _, _ := strings.Cut(message, "\n")
		return err == nil && caveat.ReplaceAllString(said, "") == "status: "+verdict && strings.Contains(message, "Slipway-Attempted: "+s.head)
	})
	if err == nil {
		s.show.proof("told on branch " + s.branch + ": " + verdict)
	}
	return err
}

func (s *stage) countReports(ctx context.Context) error {
	count, err := s.run(ctx, "git", "-C", "site.git", "rev-list", "--count", s.branch)
	if err != nil {
		return err
	}
	s.commits, err = strconv.Atoi(strings.TrimSpace(count))
	return err
}

// machines is what the machines themselves say.
func (s *stage) machines(ctx context.Context) ([]lab.State, error) {
	out, err := s.run(ctx, "slipway-lab", "machine", "--json", "--control", labSocket)
	if err != nil {
		return nil, err
	}
	var all []lab.State
	return all, json.Unmarshal([]byte(out), &all)
}

// machine is one of them; the zero State when the lab does not answer.
func (s *stage) machine(ctx context.Context, name string) lab.State {
	all, _ := s.machines(ctx)
	for _, m := range all {
		if m.Name == name {
			return m
		}
	}
	return lab.State{}
}

func (s *stage) showMachines(ctx context.Context, names ...string) error {
	for _, name := range names {
		m := s.machine(ctx, name)
		if m.Name == "" {
			return fmt.Errorf("the lab does not tell of %s", name)
		}
		s.show.answer(fmt.Sprintf("%s  power %s, boots %s", m.Name, strings.ToLower(m.Power), strings.Join(m.BootOrder, ", ")))
	}
	return nil
}

// showInstalled shows that machines carry the image of the design.
func (s *stage) showInstalled(ctx context.Context, names ...string) error {
	design, err := os.ReadFile("site/lab.cue")
	if err != nil {
		return err
	}
	for _, name := range names {
		m := s.machine(ctx, name)
		if m.Marker == nil || !bytes.Contains(design, []byte(strconv.Quote(m.DiskDigest))) {
			return fmt.Errorf("the disk of %s holds %q, which is not the design's image", name, m.DiskDigest)
		}
		s.show.answer(fmt.Sprintf("%s  generation %d, disk sha256 %.12s… is the design's image", m.Name, m.Marker.Generation, m.DiskDigest))
	}
	return nil
}

// writes is how many requests asked the machines for a change, ever.
func (s *stage) writes(ctx context.Context) (int, error) {
	out, err := s.run(ctx, "slipway-lab", "calls", "--writes", "--json", "--control", labSocket)
	if err != nil {
		return 0, err
	}
	var calls []lab.Call
	err = json.Unmarshal([]byte(out), &calls)
	return len(calls), err
}
