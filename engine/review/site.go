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
	// Known returns what is known of all machines now.
	Known() site.Known
	// Situation returns the present state of the site.
	Situation() Situation
	// Ends returns when the rollout under way is expected to end; zero if unknown.
	Ends(now time.Time) time.Time
}

// Details provides what people are told about machines that lose something.
type Details interface {
	// WithDrives adds what is known of the disks of a set to what is known of its
	// machines.
	WithDrives(ctx context.Context, known site.Known, set site.Losses) (site.Known, error)
	// Detail returns what is known of the machines of two sets, with the disks of those
	// whose loss is held.
	Detail(ctx context.Context, held, approved site.Losses) (Detail, error)
}

// Ledger is where approvals are kept.
type Ledger interface {
	// Open approves those losses of a set that are planned and that nobody has
	// approved, by the digest that people could read. It returns which losses of the
	// set are then approved. A loss that has changed since it was read waits for a
	// person.
	Open(ctx context.Context, set site.Losses, digest string, by site.ApprovalSource) (site.Losses, error)
	// Show notes that people were shown a set: they may approve it by its digest.
	Show(set site.Losses)
}

// Journal reports on a site to people.
type Journal interface {
	// Problem records what is wrong with something; nil clears it.
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
	// Listing is told what people are told of proposals.
	Listing *Listing
	// Design returns the design in force, nil before the first, and Revision its
	// revision. HasMetAll reports whether every machine of it was looked at.
	Design    func() *site.Site
	Revision  func() site.Revision
	HasMetAll func() bool
	// Ready is closed once the records are loaded. InForce receives a value when a
	// design comes into force.
	Ready, InForce <-chan struct{}
	// PollEvery is how often Slipway lists the open proposals.
	PollEvery func() time.Duration
	Dice      *rand.Rand
	Log       *slog.Logger
}

// Situation is the state of a site, as far as it concerns landed proposals.
type Situation struct {
	When time.Time
	// Applied is the revision in force, Attempted the one evaluated last.
	Applied, Attempted site.Revision
	// Queued and Broken say why the newest revision is not in force.
	Queued, Broken string
	// Rollout is the last rollout. Ended holds those of this process that have ended.
	Rollout *site.RolloutStatus
	Ended   []site.RolloutStatus
	// Stuck holds the nodes of the rollout under way that wait for a person, and why.
	Stuck map[string]string
	// Machines is what the machines of the rollout under way are doing.
	Machines []site.MachineNow
	// Waiting holds the losses that wait for a person.
	Waiting site.Losses
	// ReadOnly is why nothing is written to machines; empty otherwise.
	ReadOnly string
}

// Detail is what people are told of some machines.
type Detail struct {
	Known site.Known
	// Lines says, by node, where the design asks for the planned losses.
	Lines map[string]site.Origin
}
