package engine_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/oracle"
)

// people are the people of a story: they read what daemons show, approve it, and
// know which machine stands where. What they did is in their own ledger.
type people struct {
	t      *trial
	ledger *oracle.Ledger

	mu     sync.Mutex
	plates map[string]bool // of all machines that ever were there
	forced int             // the newest commit that is known to be in force
	newest int             // that ever was
	known  map[string]bool // sets that they have read
	uses   map[site.Loss]bool
}

// Delays of the engine that are no mistakes.
const (
	// asksLag is the time from a permission to the first request of what it is
	// for; the other daemon's, which asks the repository by itself, is longer.
	asksLag, copyLag = 2 * time.Second, 20 * time.Second
	// disksLag is the age that disks may have that were read, and the time that a
	// machine takes to be switched off before they are erased.
	disksLag = 20 * time.Minute
)

func newPeople(t *trial) *people {
	return &people{t: t, ledger: oracle.New(asksLag, disksLag), plates: map[string]bool{}, known: map[string]bool{}, uses: map[site.Loss]bool{}}
}

// read is people reading what a daemon shows.
func (p *people) read(r *site.Report) {
	p.ledger.Clock(time.Now())
	p.readSet(r.Status.Waiting, r.Status.Approve)
}

func (p *people) readSet(losses site.Losses, digest string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if digest == "" || p.known[digest] {
		return
	}
	p.known[digest] = true
	set := oracle.Set{Digest: digest}
	for _, l := range losses {
		set.Lines = append(set.Lines, p.lineLocked(l))
	}
	p.ledger.Shown(set)
}

// lineLocked is a loss as it is printed.
func (p *people) lineLocked(l site.Loss) oracle.Line {
	line := oracle.Line{Text: fmt.Sprintf("%+v", l), Node: l.Node, Action: oracle.Erase, Generation: l.Generation, Image: l.Image}
	if strings.HasPrefix(l.Action, "install") {
		line.Action = oracle.Install
	}
	if p.plates[l.Machine.UUID] {
		line.Machine = l.Machine.UUID
	}
	if l.Disks != site.DisksUnknown {
		line.Disks = strings.Split(l.Disks, ", ")
	}
	return line
}

// seeInForce is people seeing by which designs the daemons that run go.
func (t *trial) seeInForce() {
	t.living.Lock()
	running := slices.Clone(t.engines)
	t.living.Unlock()
	for _, e := range running {
		t.inForce(e.Report().Status.Applied.ID)
	}
}

// seeInForceBefore is seeInForce but for designs that came in force in this very
// moment: nobody can say what was first.
func (t *trial) seeInForceBefore(now time.Time) {
	t.living.Lock()
	running := slices.Clone(t.engines)
	t.living.Unlock()
	for _, e := range running {
		commit := e.Report().Status.Applied.ID
		if !slices.ContainsFunc(e.Events(0), func(x site.Event) bool {
			return x.Kind == site.EventDesign && x.Revision == commit && !x.When.Before(now)
		}) {
			t.inForce(commit)
		}
	}
}

// inForce is people seeing that a commit is in force.
func (t *trial) inForce(commit string) {
	n, err := strconv.Atoi(strings.TrimPrefix(commit, "commit-"))
	design := t.source.design(commit)
	p := t.people
	t.living.Lock()
	beside := len(t.engines) > 1
	t.living.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || design == nil || n <= p.forced {
		return
	}
	p.forced = n
	beside = beside || n < p.newest // the daemon that remained goes by an earlier commit for a while
	p.newest = max(p.newest, n)
	d := oracle.Design{Commit: commit, Beside: beside, Has: map[string]bool{}, Nodes: map[string]oracle.Want{}}
	for ; n > 0; n-- {
		d.Has[fmt.Sprintf("commit-%d", n)] = true
	}
	for digest := range design.Approvals {
		d.Approvals = append(d.Approvals, digest)
	}
	slices.Sort(d.Approvals)
	for name, x := range design.Nodes {
		w := oracle.Want{Machine: x.Machine().UUID, Erased: x.Decommission}
		if image := design.Images[x.Image]; image != nil {
			w.Generation, w.Image = x.Generation, image.SHA256
		}
		d.Nodes[name] = w
	}
	p.ledger.InForce(time.Now(), d)
}

// witnessed is what a person beside the machines sees.
func (t *trial) witnessed(e drivertest.Event) {
	p := t.people
	p.mu.Lock()
	p.plates[e.Machine] = true
	p.mu.Unlock()
	loss := oracle.Loss{When: e.When, Machine: e.Machine, Action: oracle.Install, Node: e.Medium.Node, Generation: e.Medium.Generation, Image: e.Medium.Image}
	var err error
	switch e.Kind {
	case drivertest.Disks:
		p.ledger.Disks(e.When, e.Machine, e.Disks)
		return
	case drivertest.Asked:
		t.seeInForceBefore(e.When)
		p.ledger.Asked(e.When, e.Machine)
	case drivertest.TakenBack:
		p.ledger.TakenBack(e.Machine)
	case drivertest.Armed:
		err = p.ledger.Armed(loss)
	case drivertest.Installed:
		err = p.ledger.Lost(loss)
	case drivertest.Erased:
		loss.Action = oracle.Erase
		err = p.ledger.Lost(loss)
	}
	t.note("machine %s is %s: generation %d of %q", e.Machine, e.Kind, e.Medium.Generation, e.Medium.Node)
	if err != nil {
		t.complain("%s: %v", e.Kind, err)
	}
}

// usePublished is a daemon saying, on the status branch, that it has used what was
// approved of a node: from there on it brings that to its end, whatever the design
// says by then.
func (t *trial) usePublished(n site.NodeStatus) {
	t.seeInForceBefore(time.Now())
	t.people.ledger.Asked(time.Now(), n.Machine.UUID)
}

// readUses is people reading in a status which approvals are used: a daemon that was
// killed right after it had recorded that may have sent anything, and the next one
// brings it to its end. It counts while the approval stands.
func (p *people) readUses(r *site.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range r.Status.Ledger {
		if !x.Consumed.IsZero() && !p.uses[x.Loss] {
			p.uses[x.Loss] = true
			p.ledger.Asked(time.Now(), x.Loss.Machine.UUID)
		}
	}
}

// approve is a person approving a set that they have read.
func (p *people) approve(ctx context.Context, d *daemon, digest string) {
	p.t.seeInForce() // the plan that they read says of which revision it is
	if said, err := p.t.orders(ctx, d, site.Order{Verb: site.VerbApprove, Digest: digest}); wasHeard(err) {
		p.ledger.Approve(time.Now(), digest, "a command", p.named(said, err))
	}
}

// disapprove is a person taking back what was approved, by a digest or for a node.
func (p *people) disapprove(ctx context.Context, d *daemon, digest, node string) {
	if said, err := p.t.orders(ctx, d, site.Order{Verb: site.VerbDisapprove, Digest: digest, Node: node}); err == nil {
		p.ledger.Disapprove(time.Now(), digest, node, p.named(said, err))
	}
}

// named are the nodes of which a daemon's answer says that they are approved, or are
// not any more; all of them where nobody got the answer, or it names some only.
func (p *people) named(said string, err error) func(string) bool {
	return func(node string) bool {
		return err != nil || strings.Contains(said, node) || namesSome.MatchString(said)
	}
}

// wasHeard says whether an order may have been carried out: nobody knows when the
// daemon ended before it answered.
func wasHeard(err error) bool {
	return err == nil || !errors.Is(err, site.ErrRefused) && !errors.Is(err, errNoDaemon)
}

var errNoDaemon = errors.New("no daemon")

// namesSome are answers that count nodes beside those that they name.
var namesSome = regexp.MustCompile(` and \d+ more\b`)
