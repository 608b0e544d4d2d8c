package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Reviews returns the reviews of proposals for the engine's site; their Run keeps
// them up to date.
func (e *Engine) Reviews(c review.Config) *review.Reviews {
	e.mu.Lock()
	e.reviews = true
	e.mu.Unlock()
	return review.New(e.siteOf("reviews"), c)
}

// siteOf is the site as reviews and plans of commits see it.
func (e *Engine) siteOf(dice string) review.Site {
	d := reviewSite{e}
	return review.Site{Name: e.Site, Machines: d, Details: d, Ledger: d, Journal: d, Design: e.designInForce, Revision: e.revisionInForce, HasMetAll: e.hasMetAll, Recorded: e.proposals, Listing: e.reviewed,
		Ready: e.ready, InForce: e.inForce, PollEvery: e.PollEvery, Dice: e.dice(dice), Log: e.Log}
}

// Proposals returns the proposals that Slipway has looked at, the highest number first. It returns a site.ErrNotFound where it
// looks at none.
func (e *Engine) Proposals() ([]site.ProposalBrief, error) {
	if !e.hasReviews() {
		return nil, errNoProposals(e.Site)
	}
	all := e.reviewed.All()
	for i := range all {
		e.addShown(&all[i])
	}
	return all, nil
}

// Proposal returns a proposal with its plan, or a site.ErrNotFound.
func (e *Engine) Proposal(number int) (site.ProposalDetail, error) {
	if !e.hasReviews() {
		return site.ProposalDetail{}, errNoProposals(e.Site)
	}
	d, known := e.reviewed.Of(number)
	if !known {
		return d, fmt.Errorf("%w: Slipway has looked at no pull request %d for site %s since the daemon started", site.ErrNotFound, number, e.Site)
	}
	e.addShown(&d.ProposalBrief)
	return d, nil
}

// ProposalsOf returns the open proposals that do something to a node, the highest number first.
func (e *Engine) ProposalsOf(node string) []site.NodeProposal { return e.reviewed.OfNode(node) }

func (e *Engine) hasReviews() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reviews
}

// addShown adds what is recorded of a proposal's comment. Merging approves what people can read, and nothing else.
func (e *Engine) addShown(p *site.ProposalBrief) {
	is := e.proposals.Of(p.Proposal.Number)
	if is.Comment != nil {
		p.Shown = is.Comment.Written
	}
	named := is.Shown != nil && is.Shown.Digest == p.Set && is.Shown.Head == p.Proposal.Head
	if p.Set != "" && p.Proposal.State == site.ProposalOpen && !p.Planning && !named {
		p.Waits = "its comment to appear on the forge; until then, merging does not approve erasing " + say.Count(p.Erases, "machine")
	}
}

func errNoProposals(siteName string) error {
	return fmt.Errorf("%w: Slipway reviews no pull requests for site %s: its daemon runs without --github", site.ErrNotFound, siteName)
}

// reviewSite is the engine as reviews see it.
type reviewSite struct{ *Engine }

// Warn adds an event to the history.
func (d reviewSite) Warn(ev site.Event) { d.warn(ev) }

// Situation returns the state of the site, as far as it concerns landed proposals.
func (d reviewSite) Situation() review.Situation {
	e := d.Engine
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting, _ := e.waitingLocked()
	s := review.Situation{When: time.Now(), Applied: e.applied, Attempted: e.attempted, Rollout: e.rolloutLocked(),
		Ended: slices.Clone(e.ended), Waiting: slices.Clone(waiting), ReadOnly: e.whyReadOnlyLocked(), Stuck: e.stuckLocked(waiting), Machines: e.machinesLocked()}
	if r := e.rollout; r.running() && r.Queued != nil {
		s.Queued = "it waits for the rollout of " + r.Revision.Short() + " to end"
	}
	if p, is := e.problems["design"]; is {
		s.Broken = p.What
	}
	return s
}

// stuckFor is how long a node waits before a person is called: it may be about to
// notice what it waited for.
const stuckFor = time.Minute

// stuckLocked returns the nodes of the rollout under way that wait for a person and
// not for the approval of a set. It returns none if the rollout is halted: then all
// of them wait for a person.
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

// machinesLocked returns what the machines of the rollout under way are doing now.
func (e *Engine) machinesLocked() []site.MachineNow {
	r := e.rollout
	if !r.running() {
		return nil
	}
	all := make([]site.MachineNow, 0, len(r.Nodes))
	for _, name := range r.Nodes {
		if w := e.workers[name]; w != nil {
			all = append(all, w.nowLocked())
		}
	}
	return all
}

// Ends returns when the rollout under way is expected to end; zero if unknown.
func (d reviewSite) Ends(now time.Time) time.Time {
	l := d.remains(now)
	if l == nil {
		return time.Time{}
	}
	return l.ends(l.forecast(now), now).Round(time.Minute)
}

// Detail returns what to tell people about the machines of two sets.
func (d reviewSite) Detail(ctx context.Context, held, approved site.Losses) (review.Detail, error) {
	known, lines := d.detail(slices.Concat(held, approved))
	known, err := d.WithDrives(ctx, known, held)
	return review.Detail{Known: known, Lines: lines}, err
}

// detail returns what is known of the machines of a set, and where the design asks
// for the planned losses.
func (e *Engine) detail(set site.Losses) (site.Known, map[string]site.Origin) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := site.Known{Nodes: map[string]site.Memory{}, Accounts: maps.Clone(e.accounts), Records: e.book.Records}
	lines := map[string]site.Origin{}
	for _, l := range set {
		w := e.workers[l.Node]
		if w == nil {
			continue
		}
		known.Nodes[l.Node] = w.memory
		for _, s := range w.plan.Steps {
			if s.Impact == site.ImpactDestructive && len(s.Changes) > 0 {
				lines[l.Node] = s.Changes[0].Origin
			}
		}
	}
	return known, lines
}

// WithDrives adds what is known of the disks of a set to what is known of its
// machines.
func (d reviewSite) WithDrives(ctx context.Context, known site.Known, set site.Losses) (site.Known, error) {
	const most = 500 // more are not listed one by one
	shown := known
	shown.Nodes = maps.Clone(known.Nodes)
	for _, l := range set[:min(len(set), most)] {
		inventory, err := d.Records.Inventory(ctx, l.Node)
		if err != nil {
			return known, fmt.Errorf("read inventory of %s: %w", l.Node, err)
		}
		if m := known.Nodes[l.Node]; inventory != nil && m.Observed.Identity.Matches(l.Machine) {
			m.Observed.Inventory = inventory
			shown.Nodes[l.Node] = m
		}
	}
	return shown, nil
}

// Show notes that people were shown a set: they may approve it by its digest.
func (d reviewSite) Show(set site.Losses) {
	if len(set) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shownLocked(set, set.Digest())
}

// Open opens the entries for what a merge approves, now that the merge commit is in
// force. It does so for losses that are planned and that nobody has approved. A loss
// that has changed since it was read waits for a person.
func (d reviewSite) Open(ctx context.Context, set site.Losses, digest string, by site.ApprovalSource) (site.Losses, error) {
	d.booking.Lock()
	defer d.booking.Unlock()
	if open := d.stillWaiting(set); len(open) > 0 {
		if err := d.openEntries(ctx, open, digest, by, ""); err != nil {
			return nil, err
		}
	}
	return d.approved(set), nil
}

// stillWaiting returns the losses of a set that wait for a person.
func (e *Engine) stillWaiting(set site.Losses) site.Losses {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting, _ := e.waitingLocked()
	return set.Both(waiting)
}

// approved returns the losses of a set that have an entry in the ledger.
func (e *Engine) approved(set site.Losses) (have site.Losses) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range set {
		if slices.ContainsFunc(e.accounts[l.Node].Entries, func(x site.LedgerEntry) bool { return x.Loss == l }) {
			have = append(have, l)
		}
	}
	return have
}
