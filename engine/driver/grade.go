package driver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Reader is a Machine whose controller shows resources by their paths.
type Reader interface {
	// Read reads one resource as the controller returns it, as JSON, and
	// changes nothing.
	Read(ctx context.Context, path string) (json.RawMessage, error)
}

// Booter is a Machine that accepts a source for its next boot.
type Booter interface {
	// BootOnce makes only the next boot use a source, named as in designs
	// ("Hdd", "Pxe"), and returns when the controller shows it. Like Apply, it
	// checks before the first write that the machine is the wanted one.
	BootOnce(ctx context.Context, want site.Identity, source string) error
}

// Told reports the progress of a long read. The total is what is known so far.
type Told func(what string, done, total int)

// Grader is a Machine whose controller can be graded.
type Grader interface {
	// Grade tries what the controller can do without a write to it. The Grade
	// also lists what it cannot do. The wanted machine, which may be unknown,
	// selects one behind a controller with several. An error means that the
	// controller could not be looked at at all.
	Grade(ctx context.Context, want site.Identity, told Told) (Grade, error)
}

// Grade is what a controller is and what it can do.
type Grade struct {
	Identity site.Identity `json:"identity"`
	// About are the controller's names and versions, in display order.
	About []Fact `json:"about"`
	// Abilities are what was tried, in display order.
	Abilities []Ability `json:"abilities"`
	// Known are the known quirks of its kind, Met the quirks that were encountered.
	Known []string `json:"known"`
	Met   []string `json:"met"`
	// Latency is how long requests took, by kind of request.
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
	// Facet is the facet that needs the ability; empty for none.
	Facet   site.Facet `json:"facet,omitempty"`
	Verdict Verdict    `json:"verdict"`
	// Text says how the controller does it, or why it does not.
	Text string `json:"text"`
	// Values are what the controller lists: reset types, boot sources, settings.
	Values []string `json:"values,omitempty"`
}

// Verdict is how well an ability works.
type Verdict string

// The verdicts.
const (
	Works  Verdict = "works"
	Partly Verdict = "partly"
	Lacks  Verdict = "lacks"
	Fails  Verdict = "fails" // it should work, but an error occurred
)

// Latency is how long requests of one kind took.
type Latency struct {
	Kind     string        `json:"kind"`
	Requests int           `json:"requests"`
	Median   site.Duration `json:"median"`
	Worst    site.Duration `json:"worst"`
}

// Capturer is a Machine whose controller's resources can be copied for others
// to examine.
type Capturer interface {
	// Capture reads what the controller shows, within bounds. In the result,
	// everything that identifies a machine, site or person is replaced, and
	// equal values get equal replacements.
	Capture(ctx context.Context, b Bounds, told Told) (Capture, error)
}

// Bounds limit a long read. Zero values mean the driver's own limits.
type Bounds struct {
	Requests int
	Bytes    int64
	Time     time.Duration
}

// Capture is a redacted copy.
type Capture struct {
	// Resources are the resources by path.
	Resources map[string]json.RawMessage
	// Left is how many known resources were not read. Why says which bound
	// ended the read, empty for none.
	Left int
	Why  string
	// Failed is how many resources could not be read.
	Failed int
}
