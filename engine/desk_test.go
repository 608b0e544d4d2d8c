package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/site"
)

// desk is the forge of a story: people propose there, daemons comment, and people
// and programs merge.
type desk struct {
	*forge
	t *trial

	writing sync.Mutex
	written map[int]site.Review  // what the comment on a proposal says
	found   map[int]site.Reading // as the daemons left it; missing where they do not know
}

func newDesk(t *trial) *desk {
	w := &world{source: t.source}
	return &desk{forge: w.forge(), t: t, written: map[int]site.Review{}, found: map[int]site.Reading{}}
}

// mortalDesk is the forge as a daemon gets to it.
type mortalDesk struct {
	*desk
	life    *life
	reviews *review.Reviews
	work    *sync.WaitGroup
}

// review has a daemon plan what is proposed, until its life is over. It returns
// what waits for that.
func (d *desk) review(ctx context.Context, e *engine.Engine, l *life) (wait func()) {
	m := &mortalDesk{desk: d, life: l, work: &sync.WaitGroup{}}
	m.reviews = e.Reviews(review.Config{Branch: "main", Proposals: d, Merger: d, Announce: m,
		Evaluate: d.t.source.evaluate,
		Judge:    func(context.Context, site.Revision, site.Revision) ([]site.Finding, error) { return nil, nil }})
	m.work.Go(func() { _ = m.reviews.Run(ctx) })
	return m.work.Wait
}

// Announce writes the comment some time later. Only then do people read it.
func (d *mortalDesk) Announce(ctx context.Context, r site.Review) error {
	if err := d.life.wait(ctx); err != nil {
		return err
	}
	if r.Landing != nil {
		return nil
	}
	d.work.Go(func() {
		time.Sleep(time.Second)
		if d.life.wait(ctx) == nil || d.t.seed%2 == 0 {
			d.write(ctx, r)
		}
	})
	return nil
}

// write makes the comment say what a review does, and says so to the daemon,
// unless that has died.
func (d *mortalDesk) write(ctx context.Context, v site.Review) {
	d.writing.Lock()
	defer d.writing.Unlock()
	number := v.Proposal.Number
	told := site.Told{Number: number, Head: v.Proposal.Head, Base: v.Base, Set: v.Set}
	sum := sha256.Sum256([]byte(v.Comment))
	text := hex.EncodeToString(sum[:])
	d.mu.Lock()
	is, there := d.comments[number]
	if was := is; there {
		told.Before = &was
		known, left := d.found[number]
		told.Lost = !left && known.Text == is.Text
	}
	if is.Text != text {
		is = site.Reading{Comment: int64(1000 + number), Text: text, Written: time.Now().Add(-time.Second)}
	}
	d.comments[number], told.Is, d.written[number] = is, is, v
	delete(d.found, number)
	d.mu.Unlock()
	if d.life.wait(ctx) == nil && d.reviews.Told(ctx, told) == nil {
		d.mu.Lock()
		d.found[number] = is
		d.mu.Unlock()
	}
}

// open are the numbers of the open proposals.
func (d *desk) open() (numbers []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, p := range d.proposals {
		if p.State == site.ProposalOpen {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// proposes opens a proposal, or pushes to one.
func proposes(t *trial, _ context.Context) {
	if t.desk == nil {
		return
	}
	s := t.newest()
	for _, name := range s.NodeNames() {
		if t.chance(0.6) {
			s.Nodes[name].Image, s.Nodes[name].Generation = "debian", s.Nodes[name].Generation+1
		} else if t.chance(0.3) {
			t.changeNode(s.Nodes[name])
		}
	}
	number := 1 + t.dice.IntN(3) + 10*len(t.desk.open())
	t.desk.propose(number, s)
	t.note("proposal %d is made", number)
}

// ways are how a proposal can come to be merged. Only after the first has a person
// decided who had read what the daemon wrote.
var ways = []string{"", "", "", "", "by a bot", "by a program in a person's name", "automatically, as decided before the comment",
	"after an edit of the comment", "after an edit that was undone", "without its comment", "after another push"}

// merges is a person merging a proposal, or something that looks alike.
func merges(t *trial, ctx context.Context) {
	if t.desk == nil {
		return
	}
	if len(t.desk.open()) == 0 {
		proposes(t, ctx)
	}
	if t.chance(0.8) {
		t.wait(ctx, 90*time.Second) // for the comment
	}
	if !t.clock.IsZero() || len(t.desk.open()) == 0 {
		return
	}
	d, number, way := t.desk, pick(t, t.desk.open()), pick(t, ways)
	d.mu.Lock()
	v, commented := d.written[number]
	commented = commented && v.Proposal.Head == d.proposals[number].Head
	_, there := d.comments[number]
	d.mu.Unlock()
	by := "ann"
	switch way {
	case "by a bot":
		by = "renovate[bot]"
		d.decide(number, site.Decision{By: by, When: time.Now(), Program: "renovate"})
	case "by a program in a person's name":
		d.decide(number, site.Decision{By: by, When: time.Now(), Program: "queue"})
	case "automatically, as decided before the comment":
		before := time.Date(1999, time.December, 31, 0, 0, 0, 0, time.UTC) // no story begins sooner, however its clock is set
		d.decide(number, site.Decision{By: by, When: before, Auto: true})
	case "after an edit of the comment":
		d.edit(number, func(r *site.Reading) { r.Text, r.Written = "0000", time.Now() })
	case "after an edit that was undone":
		d.edit(number, func(r *site.Reading) { r.Written = time.Now() })
	case "without its comment":
		d.edit(number, func(r *site.Reading) { r.Comment = 0 })
	case "after another push":
		proposal := t.newest()
		for _, n := range proposal.Nodes {
			n.Generation++
		}
		d.propose(number, proposal)
	}
	d.merge(number)
	d.change(number, func(p *site.Proposal) { p.MergedBy = by })
	commit := t.source.head()
	t.note("proposal %d is merged %s as %s; its comment is set %s", number, way, commit, v.Set)
	if way == "" && commented && there && v.Set != "" {
		t.people.readSet(v.Destroys(), v.Set)
		t.people.ledger.ApproveByMerge(time.Now(), v.Set, fmt.Sprintf("a merge of proposal %d", number), commit)
	}
}

// decide says how it comes that a proposal is merged.
func (d *desk) decide(number int, how site.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.decisions[number] = how
}
