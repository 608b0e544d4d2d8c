package engine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// countEvery is how long people wait for news of a rollout that are only how far
// it is, for each merged proposal that has one: so that all of them together do
// not keep the forge busy.
const countEvery = time.Minute

// news is what people were last told of a merged proposal.
type news struct {
	landing     site.Landing // without how far its rollout is
	held        site.Losses
	done, nodes int // of the rollout
	begun       int
	when        time.Time
}

// willFollow notes that people are going to be told of a proposal.
func (r *Reviews) willFollow(ctx context.Context, number int) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	was := r.engine.proposed(number)
	next := was
	next.Told = true
	return r.engine.putProposed(ctx, was, next)
}

// follow tells what has come of a proposal that has landed, until there is no
// more to tell. What it remembers is recorded before it is told, and the record
// goes after the last was told: a death in between has it told again, alike.
func (r *Reviews) follow(ctx context.Context, is record.Proposed) error {
	is, err := r.approve(ctx, is)
	if err != nil {
		return err
	}
	v, next, err := r.landing(ctx, is)
	if err != nil {
		return err
	}
	if err := r.engine.putProposed(ctx, is, next); err != nil {
		return err
	}
	if err := r.tellLanding(ctx, v); err != nil || !v.Landing.Done {
		return err
	}
	r.forgetTold(is.Number)
	return r.engine.putProposed(ctx, next, record.Proposed{Number: is.Number})
}

// approve opens what a merge approves, once the revision in force has the merge
// commit. Before that the machines are kept by another design, by which nothing
// of it is planned.
func (r *Reviews) approve(ctx context.Context, is record.Proposed) (record.Proposed, error) {
	if len(is.Landed.Pending) == 0 {
		return is, nil
	}
	there, err := r.contains(ctx, r.engine.situation().applied.ID, is.Landed.Proposal.Merge)
	if err != nil || !there {
		return is, err
	}
	opened, err := r.engine.openMerged(ctx, is)
	if err != nil {
		return is, err
	}
	return opened, r.engine.putProposed(ctx, is, opened)
}

// landing is how far a proposal that has landed is, and what is recorded of it
// from here on.
func (r *Reviews) landing(ctx context.Context, is record.Proposed) (site.Review, record.Proposed, error) {
	now, landed := r.engine.situation(), *is.Landed
	there, err := r.contains(ctx, now.applied.ID, landed.Proposal.Merge)
	if err != nil {
		return site.Review{}, is, err
	}
	first := there && landed.InForce.IsZero()
	if first {
		landed.Revision, landed.InForce = now.applied.ID, now.when
	}
	if landed.Revision == now.applied.ID { // what later ones destroy is not this one's
		landed.Held = joined(landed.Held, beside(now.waiting, landed.Waiting))
	}
	is.Landed = &landed
	approved := joined(landed.Approved, landed.Pending)
	v := site.Review{Proposal: landed.Proposal, Base: landed.Revision, Approved: approved, Held: common(landed.Held, now.waiting), Landing: &site.Landing{
		Unapproved: landed.Unapproved, Revision: landed.Revision, InForce: landed.InForce, Asked: landed.Held, ObserveOnly: now.observeOnly}}
	if landed.InForce.IsZero() {
		return v, is, r.waits(ctx, v.Landing, landed.Proposal.Merge, now)
	}
	return v, is, r.rollsOut(ctx, &v, &landed, first, now)
}

// waits says what a proposal that has landed waits for before it is in force.
func (r *Reviews) waits(ctx context.Context, l *site.Landing, merge string, now situation) (err error) {
	switch {
	case now.queued != "":
		l.Waits = now.queued
	case now.broken != "":
		l.Waits = now.broken
		l.Refused, err = r.contains(ctx, now.attempted.ID, merge)
	default:
		l.Waits = "Slipway is about to evaluate the merged design"
	}
	return err
}

// rollsOut says how a proposal that is in force comes to the machines: by the first
// rollout that has it. One that begins later is not its own, unless it took the
// place of that before all of its nodes were done, or is of the same revision.
func (r *Reviews) rollsOut(ctx context.Context, v *site.Review, landed *record.Landed, first bool, now situation) error {
	own := landed.Rollout
	if own != nil {
		if i := slices.IndexFunc(now.ended, func(o site.RolloutStatus) bool { return o.Since.Equal(own.Since) }); i >= 0 {
			own = &now.ended[i]
		}
	}
	last := now.rollout
	if last != nil {
		has, err := r.contains(ctx, last.Revision.ID, v.Proposal.Merge)
		if err != nil {
			return err
		}
		same := own != nil && (own.Since.Equal(last.Since) || own.Ended.IsZero())
		if has && (first || same || last.Revision.ID == landed.Revision) {
			own = last
			v.Landing.Stuck = now.stuck
			v.Landing.Machines = now.machines
		}
	}
	v.Landing.Rollout = own
	v.Landing.Done = (own == nil || !own.Ended.IsZero()) && len(v.Held) == 0
	if own != nil && own.Ended.IsZero() { // how far it is changes all the time
		own = &site.RolloutStatus{Revision: own.Revision, Since: own.Since}
	}
	landed.Rollout = own
	return nil
}

// contains asks the branch whether a revision has a commit in its history, once
// for each state of the branch: more of its commits are only known at another.
// It is called with turn held.
func (r *Reviews) contains(ctx context.Context, revision, commit string) (bool, error) {
	if revision == "" || commit == "" {
		return false, nil
	}
	k := lineage{revision, commit}
	if has, known := r.lineages[k]; known {
		return has, nil
	}
	has, err := r.Merger.Contains(ctx, revision, commit)
	if err != nil {
		return false, fmt.Errorf("look for commit %s in %s: %w", commit, revision, err)
	}
	r.lineages[k] = has
	return has, nil
}

// lineage asks whether a revision has a commit in its history.
type lineage struct{ revision, commit string }

// tellLanding tells of a merged proposal, if there is news.
func (r *Reviews) tellLanding(ctx context.Context, v site.Review) error {
	v.Site, v.When = r.engine.Site, time.Now()
	is, fresh := r.newsOf(&v)
	if !fresh {
		return nil
	}
	known, err := r.engine.withDrives(ctx, r.engine.knownOfThese(v.Held, v.Approved), v.Held)
	if err != nil {
		return err
	}
	if v.Landing.Machines != nil {
		v.Landing.Expected = r.engine.expected(v.When)
	}
	v.Landing.Lines = r.engine.linesOf(v.Held, v.Approved)
	view := present.View{Known: known, Now: v.When}
	if r.Pages != nil && v.Landing.Revision != "" {
		view.Pages = r.Pages(v.Landing.Revision)
	}
	var w bytes.Buffer
	v.Whole = present.Landed(&w, &v, view)
	v.Verdict, v.Comment, v.Call = present.Verdict(&v), w.String(), present.Call(&v)
	if v.Whole {
		r.engine.showHeld(v.Held)
	}
	if err := r.Announce.Announce(ctx, v); err != nil {
		return fmt.Errorf("report on proposal %d: %w", v.Proposal.Number, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[v.Proposal.Number] = is
	return nil
}

// newsOf is what is told of a merged proposal, and whether that is worth it.
func (r *Reviews) newsOf(v *site.Review) (is news, fresh bool) {
	is = news{landing: *v.Landing, held: v.Held, when: v.When}
	if o := v.Landing.Rollout; o != nil {
		quiet := *o
		is.done, is.nodes = o.Done, len(o.Nodes)
		quiet.Done, quiet.Nodes = 0, nil
		is.landing.Rollout = &quiet
	}
	is.landing.Machines = nil
	for _, m := range v.Landing.Machines {
		if m.State != site.MachineWaiting {
			is.begun++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.told[v.Proposal.Number]
	if !known || !reflect.DeepEqual(was.landing, is.landing) || !slices.Equal(was.held, is.held) {
		return is, true
	}
	soon := is.when.Sub(was.when) < time.Duration(len(r.told))*countEvery
	return is, !soon && (was.done != is.done || was.nodes != is.nodes || was.begun != is.begun)
}

func (r *Reviews) forgetTold(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, number)
}

// situation is how a site is, as far as it concerns what has landed.
type situation struct {
	when               time.Time
	applied, attempted site.Revision
	queued, broken     string // why the newest revision is not in force
	rollout            *site.RolloutStatus
	ended              []site.RolloutStatus // lately
	stuck              map[string]string
	machines           []site.MachineNow // of the rollout under way
	waiting            site.Losses
	observeOnly        string
}

func (e *Engine) situation() situation {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting, _ := e.waitingLocked()
	s := situation{when: time.Now(), applied: e.applied, attempted: e.attempted, rollout: e.rolloutLocked(),
		ended: slices.Clone(e.ended), waiting: slices.Clone(waiting), observeOnly: e.whyReadOnlyLocked(), stuck: e.stuckLocked(waiting), machines: e.machinesLocked()}
	if r := e.rollout; r.running() && r.Queued != nil {
		s.queued = "it waits for the rollout of " + r.Revision.Short() + " to end"
	}
	if p, is := e.problems["design"]; is {
		s.broken = p.What
	}
	return s
}

// stuckFor is how long a node waits before a person is called for it: it may be
// about to take notice of what it waited for.
const stuckFor = time.Minute

// stuckLocked are nodes of the rollout under way that wait for a person and not
// for the approval of a set. In a halted one all of them do.
func (e *Engine) stuckLocked(waiting site.Losses) map[string]string {
	r := e.rollout
	if !r.running() || r.Halted != "" {
		return nil
	}
	asked := map[string]bool{}
	for _, l := range waiting {
		asked[l.Node] = true
	}
	var stuck map[string]string
	for _, name := range r.Nodes {
		if w := e.workers[name]; w != nil && w.status.Person && w.standing == resting && !asked[name] && time.Since(w.status.Since) >= stuckFor {
			if stuck == nil {
				stuck = map[string]string{}
			}
			stuck[name] = w.status.Reason
		}
	}
	return stuck
}

// machinesLocked is what the machines of the rollout under way do now.
func (e *Engine) machinesLocked() []site.MachineNow {
	r := e.rollout
	if !r.running() {
		return nil
	}
	all := make([]site.MachineNow, 0, len(r.Nodes))
	for _, name := range r.Nodes {
		w := e.workers[name]
		if w == nil {
			continue
		}
		m := site.MachineNow{Node: name, State: site.MachineWaiting, What: w.status.Reason, Since: w.status.Since}
		switch {
		case w.standing == done:
			m.State = site.MachineDone
		case w.standing == failed:
			m.State = site.MachineFailed
		case w.status.State == site.Progressing, w.status.State == site.Retrying:
			m.State = site.MachineRunning
		case w.status.State == site.InSync || m.What == "": // of the design before
			m.What, m.Since = "not started yet", time.Time{}
		}
		if len(w.plan.Steps) > 0 && len(w.plan.Steps[0].Changes) > 0 {
			m.Change = &w.plan.Steps[0].Changes[0]
		}
		all = append(all, m)
	}
	return all
}

// expected is when the rollout under way is expected to end; zero where nobody can
// tell.
func (e *Engine) expected(now time.Time) time.Time {
	known := e.Known()
	e.mu.Lock()
	design, r, left, under := e.design, e.rollout, site.Plan{}, site.RolloutStatus{}
	if r.running() && r.Halted == "" {
		under = r.RolloutStatus
		for _, name := range r.Nodes {
			if w := e.workers[name]; w != nil && w.standing == pending {
				left.Nodes = append(left.Nodes, w.plan)
			}
		}
	}
	e.mu.Unlock()
	if design == nil || len(left.Nodes) == 0 {
		return time.Time{}
	}
	ends := rollout.Ends(design, &left, known, now, &under)
	if ends.IsZero() {
		return time.Time{}
	}
	return ends.Round(time.Minute)
}

// linesOf are where the design asks for the losses of some sets that are planned.
func (e *Engine) linesOf(sets ...site.Losses) map[string]site.Origin {
	e.mu.Lock()
	defer e.mu.Unlock()
	lines := map[string]site.Origin{}
	for _, l := range slices.Concat(sets...) {
		if w := e.workers[l.Node]; w != nil {
			for _, s := range w.plan.Steps {
				if s.Impact == site.ImpactDestructive && len(s.Changes) > 0 {
					lines[l.Node] = s.Changes[0].Origin
				}
			}
		}
	}
	return lines
}

// showHeld has a set that people are told of be approved by its digest.
func (e *Engine) showHeld(set site.Losses) {
	if len(set) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shownLocked(set, set.Digest())
}

// knownOfThese is what is known of the machines of some sets.
func (e *Engine) knownOfThese(sets ...site.Losses) site.Known {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := site.Known{Nodes: map[string]site.Memory{}, Accounts: maps.Clone(e.accounts), Records: e.book.Records}
	for _, l := range slices.Concat(sets...) {
		if w := e.workers[l.Node]; w != nil {
			known.Nodes[l.Node] = w.memory
		}
	}
	return known
}

func setOf(all site.Losses) map[site.Loss]bool {
	in := make(map[site.Loss]bool, len(all))
	for _, l := range all {
		in[l] = true
	}
	return in
}

// beside are the losses of a set that another does not have.
func beside(set, other site.Losses) site.Losses {
	in := setOf(other)
	return slices.DeleteFunc(slices.Clone(set), func(l site.Loss) bool { return in[l] })
}

// common are the losses that two sets have.
func common(set, other site.Losses) site.Losses {
	in := setOf(other)
	return slices.DeleteFunc(slices.Clone(set), func(l site.Loss) bool { return !in[l] })
}

// joined are the losses of either of two sets.
func joined(set, other site.Losses) site.Losses {
	return append(slices.Clip(set), beside(other, set)...)
}
