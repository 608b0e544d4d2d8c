package site

// Role is what a group of nodes does, and what must be there before.
type Role struct {
	Description string `json:"description,omitempty"`
	Enabled     bool   `json:"enabled"`
	// Phases are what its nodes go through, in this order.
	Phases []string `json:"phases,omitempty"`
	// Needs are what a phase waits for: by the phase that waits and the role
	// that it waits for.
	Needs map[string]map[string]Need `json:"needs,omitempty"`
	// LeaderFirst says that one node goes through all phases before the
	// others: Leader or, without it, the first by name.
	LeaderFirst bool   `json:"leaderFirst,omitempty"`
	Leader      string `json:"leader,omitempty"`
	Minimum     int    `json:"minimum,omitempty"`
	Majority    bool   `json:"majority,omitempty"`
}

// Need is what a phase waits for of another role: that Quorum of its nodes have
// gone through Phase.
type Need struct {
	Phase  string `json:"phase"`
	Quorum Quorum `json:"quorum"`
}

// Window is when what disrupts may be done.
type Window struct {
	// Days are those on which it begins ("mon"); every day when empty.
	Days []string `json:"days,omitempty"`
	// From and To are times of day ("22:00"); a To before From is on the next
	// day.
	From string `json:"from"`
	To   string `json:"to"`
	// Zone is a time zone of tzdata; "UTC" when empty.
	Zone string `json:"zone,omitempty"`
}
