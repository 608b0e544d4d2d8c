package review

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Machines is what is known of the machines of a site.
type Machines interface {
	// Known is what is known of all machines now.
	Known() site.Known
	// Situation is how the site is now.
	Situation() Situation
	// Ends is when the rollout under way is expected to end; zero where nobody can
	// tell.
	Ends(now time.Time) time.Time
}

// Details is what people are told of machines that lose something.
type Details interface {
	// WithDrives adds what is known of the disks of a set to what is known of its
	// machines.
	WithDrives(ctx context.Context, known site.Known, set site.Losses) (site.Known, error)
	// Detail is what is known of the machines of two sets, with the disks of those
	// whose loss is held.
	Detail(ctx context.Context, held, approved site.Losses) (Detail, error)
}

// Ledger is where approvals are kept.
type Ledger interface {
	// Open approves those losses of a set that are planned and that nobody has
	// approved, by the digest that people could read. It returns which of the set
	// are approved then. What has become another loss since it was read waits for
	// a person.
	Open(ctx context.Context, set site.Losses, digest string, by site.ApprovalSource) (site.Losses, error)
	// Show notes that people are told of a set: they may approve it by its digest.
	Show(set site.Losses)
}

// Journal tells people of a site.
type Journal interface {
	// Problem notes what is wrong with something; nil when that is over.
	Problem(about string, err error)
	// Warn adds an event to the history.
	Warn(site.Event)
}

// Site is the site whose proposals are reviewed.
type Site struct {
	Name string
	Machines
	Details
	Ledger
	Journal
	Recorded *Recorded
	// Design is the design in force, nil before the first; HasMetAll says whether every
	// machine of it was looked at.
	Design    func() *site.Site
	HasMetAll func() bool
	// Ready is closed once the records are loaded; InForce tells that a design came
	// into force.
	Ready, InForce <-chan struct{}
	// PollEvery is how often Slipway lists the open proposals.
	PollEvery func() time.Duration
	Dice      *rand.Rand
	Log       *slog.Logger
}

// Situation is how a site is, as far as it concerns what has landed.
type Situation struct {
	When time.Time
	// Applied is the revision in force, Attempted the last that was evaluated.
	Applied, Attempted site.Revision
	// Queued and Broken say why the newest revision is not in force.
	Queued, Broken string
	// Rollout is the last one, Ended are those of this process that have ended.
	Rollout *site.RolloutStatus
	Ended   []site.RolloutStatus
	// Stuck are nodes of the rollout under way that wait for a person, and why.
	Stuck map[string]string
	// Machines is what the machines of the rollout under way do.
	Machines []site.MachineNow
	// Waiting is the destruction that waits for a person.
	Waiting site.Losses
	// ReadOnly says why nothing is written to machines; it is empty otherwise.
	ReadOnly string
}

// Detail is what people are told of some machines.
type Detail struct {
	Known site.Known
	// Lines are where the design asks for the losses that are planned, by node.
	Lines map[string]site.Origin
}
