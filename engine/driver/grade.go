package driver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Reader is a Machine whose controller shows resources by their paths.
type Reader interface {
	// Read reads one resource as the controller gives it, as JSON, and changes
	// nothing.
	Read(ctx context.Context, path string) (json.RawMessage, error)
}

// Booter is a Machine that can be told where to boot from the next time.
type Booter interface {
	// BootOnce makes the next boot, and only that, one from a source by its
	// name in designs ("Hdd", "Pxe"), and returns when the controller shows it
	// so. Before the first write it checks, as Apply does, that the machine is
	// the wanted one.
	BootOnce(ctx context.Context, want site.Identity, source string) error
}

// Told is told how far a long read is. The total is as far as it is known.
type Told func(what string, done, total int)

// Grader is a Machine whose controller can be judged.
type Grader interface {
	// Grade tries what the controller can do without a write to it. What it
	// cannot do is in the Grade. The wanted machine, which may be unknown, tells
	// which is meant where a controller has several. An error means that it
	// could not be looked at at all.
	Grade(ctx context.Context, want site.Identity, told Told) (Grade, error)
}

// Grade is what a controller was found to be and to do.
type Grade struct {
	Identity site.Identity `json:"identity"`
	// About are the names that it gives itself, in the order to be shown in.
	About []Fact `json:"about"`
	// Abilities are what was tried, in the order to be shown in.
	Abilities []Ability `json:"abilities"`
	// Known are the habits that its kind is known for, Met those that came up.
	Known []string `json:"known"`
	Met   []string `json:"met"`
	// Latency is how long requests took, by what was asked for.
	Latency  []Latency `json:"latency"`
	Requests int       `json:"requests"`
	Bytes    int64     `json:"bytes"`
}

// Fact is one name or version.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Ability is one thing that a controller should be able to do.
type Ability struct {
	Name string `json:"name"`
	// Facet is the facet that needs it; empty for what none needs.
	Facet   site.Facet `json:"facet,omitempty"`
	Verdict Verdict    `json:"verdict"`
	// Text says how it does it, or why it does not.
	Text string `json:"text"`
	// Values are what it lists: kinds of reset, sources of boots, settings.
	Values []string `json:"values,omitempty"`
}

// Verdict is how well something works.
type Verdict string

// The verdicts.
const (
	Works  Verdict = "works"
	Partly Verdict = "partly"
	Lacks  Verdict = "lacks"
	Fails  Verdict = "fails" // it should, and an error came
)

// Latency is how long requests of one kind took.
type Latency struct {
	Kind     string        `json:"kind"`
	Requests int           `json:"requests"`
	Median   site.Duration `json:"median"`
	Worst    site.Duration `json:"worst"`
}

// Capturer is a Machine whose controller's resources can be copied for others
// to look at.
type Capturer interface {
	// Capture reads what the controller shows, within bounds. In what it gives,
	// whatever tells of one machine, site or person is replaced, the same by
	// the same.
	Capture(ctx context.Context, b Bounds, told Told) (Capture, error)
}

// Bounds end a long read. Zero values take the driver's own.
type Bounds struct {
	Requests int
	Bytes    int64
	Time     time.Duration
}

// Capture is a redacted copy.
type Capture struct {
	// Resources are by their paths.
	Resources map[string]json.RawMessage
	// Left is how many resources were known of and not read; Why says which
	// bound it was, empty for none.
	Left int
	Why  string
	// Failed is how many could not be read.
	Failed int
}
