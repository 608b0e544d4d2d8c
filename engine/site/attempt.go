package site

import (
	"slices"
	"time"
)

// Attempts are the times that Slipway interrupted a machine to make one of its
// facets as designed. They are bounded, see package plan.
type Attempts struct {
	// Asked are the designed values that the machine did not have at the last
	// attempt, by their names in the design. The attempts count for as long as
	// the design asks for all of these.
	Asked Values `json:"asked"`
	// Made are the attempts, oldest first.
	Made []Attempt `json:"made,omitempty"`
	// Declined is how often the machine answered that it will not or cannot do
	// what an attempt needs.
	Declined int `json:"declined,omitempty"`
	// AsDesigned is since when the facet is seen as designed without a break,
	// zero while it is not.
	AsDesigned time.Time `json:"asDesigned,omitzero"`
}

// Attempt is one of them.
type Attempt struct {
	When   time.Time `json:"when"`
	Action Action    `json:"action"`
	// Failed says how the step failed; empty for one that was reported done, and
	// for one that nobody saw the end of.
	Failed string `json:"failed,omitempty"`
}

// With are the attempts with one more.
func (a Attempts) With(x Attempt) Attempts {
	a.Made = append(slices.Clone(a.Made), x)
	return a
}
