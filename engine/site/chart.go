package site

import "time"

// RolloutChart is a rollout over time: what was done, what is done now, and the forecast
// of the rest by the rules that decide. A zero time is not known.
type RolloutChart struct {
	Site     string   `json:"site"`
	Revision Revision `json:"revision,omitzero"`
	// Now is when the chart was made. From and To are the bounds of the picture: all times of the
	// rows are between them, but for a Forecast of far more time than the rollout takes.
	Now  time.Time `json:"now"`
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Since is when the rollout began; zero if there was none yet. Ended is when it ended.
	Since time.Time `json:"since,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Ends is when it is expected to end. It is zero if that is not known, as while it is
	// halted or a node waits for a person.
	Ends time.Time `json:"ends,omitzero"`
	// Halted says why no further node is begun. Paused is the hold on the whole site, and ReadOnly says
	// why Slipway writes to no machine.
	Halted   string `json:"halted,omitempty"`
	Paused   *Hold  `json:"paused,omitempty"`
	ReadOnly string `json:"readOnly,omitempty"`
	// Soak is while the canaries have to stay in-sync; zero before they are, and without
	// canaries.
	Soak Span `json:"soak,omitzero"`
	// Counts are the rows by state.
	Counts map[MachineState]int `json:"counts"`
	// Windows are those that the nodes of the rollout wait for, by name.
	Windows []WindowTimes `json:"windows,omitempty"`
	// Path is the critical path of what is left, in order: what the time to Ends consists of.
	Path []TimedStretch `json:"path,omitempty"`
	// Warnings say what the forecast leaves out and what waits forever. Basis says what its
	// durations are based on.
	Warnings []string `json:"warnings,omitempty"`
	Basis    string   `json:"basis,omitempty"`
	// Rows are the nodes of the rollout: those that were begun, in that order, then the others
	// by when they are expected to begin, then those of which that is not known, by name.
	Rows []ChartRow `json:"rows"`
}

// ChartRow is one node of a rollout.
type ChartRow struct {
	Node string `json:"node"`
	Role string `json:"role,omitempty"`
	Rack string `json:"rack,omitempty"`
	// Canary means that it goes first, Critical that it is on the critical path of what is left.
	Canary   bool         `json:"canary,omitempty"`
	Critical bool         `json:"critical,omitempty"`
	State    MachineState `json:"state"`
	// Began is when its first step in this rollout was begun. Ended is when it was found in-sync,
	// or failed, or when the rollout ended without it.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Expected is when what is left of it is expected to run; zero for nothing, and where that is
	// not known. Forecast is what was expected of it when it became part of the rollout.
	Expected Span `json:"expected,omitzero"`
	Forecast Span `json:"forecast,omitzero"`
	// Work are the actions that are left, and Window is the window of the first; empty for any time.
	Work   string `json:"work,omitempty"`
	Window string `json:"window,omitempty"`
	// WaitsFor are the first nodes that it waits for, by the gate that holds it.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// Sentence says what it does or waits for, since Since. Detail adds to that, Release says what
	// would let it continue, and Person that a person has to act.
	Sentence string    `json:"sentence,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Detail   string    `json:"detail,omitempty"`
	Release  string    `json:"release,omitempty"`
	Person   bool      `json:"person,omitempty"`
}

// Span is the time from one moment to another.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// IsZero reports whether the span is not known.
func (s Span) IsZero() bool { return s.From.IsZero() && s.To.IsZero() }

// WindowTimes is when a window is open.
type WindowTimes struct {
	Name string `json:"name"`
	Open []Span `json:"open"`
	// Unknown is when it is not known whether the window is open, and Why says the reason; zero for never.
	Unknown Span   `json:"unknown,omitzero"`
	Why     string `json:"why,omitempty"`
}

// TimedStretch is a stretch of a forecast at its time.
type TimedStretch struct {
	Node string `json:"node"`
	// What is done, or waited for.
	What string `json:"what"`
	Span
}

// ForecastAtStart is what was expected of the nodes of a rollout when they became part of it. It is
// recorded.
type ForecastAtStart struct {
	// Rollout is when that rollout began, which identifies it.
	Rollout time.Time `json:"rollout"`
	// Nodes are the nodes, with a zero span for one of which nothing could be forecast.
	Nodes map[string]Span `json:"nodes"`
}
