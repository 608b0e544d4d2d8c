package site

import (
	"slices"
	"time"
)

// Attempts are the times that Slipway interrupted a machine to bring one of its
// facets to the design. Package plan limits them.
type Attempts struct {
	// Asked are the designed values that the machine did not have at the last
	// attempt, by their names in the design. The attempts count as long as the
	// design asks for all of these values.
	Asked Values `json:"asked"`
	// Made are the attempts, oldest first.
	Made []Attempt `json:"made,omitempty"`
	// Declined is how often the machine answered that it will not or cannot do
	// what an attempt needs.
	Declined int `json:"declined,omitempty"`
	// AsDesigned is the time since which the facet has always been seen as
	// designed. It is zero while the facet differs.
	AsDesigned time.Time `json:"asDesigned,omitzero"`
}

// Attempt is one interruption of a machine.
type Attempt struct {
	When   time.Time `json:"when"`
	Action Action    `json:"action"`
	// Failed says how the step failed. It is empty if the step was reported
	// done, or if nobody saw how it ended.
	Failed string `json:"failed,omitempty"`
}

// With returns the attempts with one more.
func (a Attempts) With(x Attempt) Attempts {
	a.Made = append(slices.Clone(a.Made), x)
	return a
}
