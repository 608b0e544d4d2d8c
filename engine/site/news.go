package site

import "time"

// SignOfLife is what a daemon leaves in the repository at intervals, also while the status of its site does not change.
type SignOfLife struct {
	Site string    `json:"site"`
	At   time.Time `json:"at"` // by the clock of the daemon's host
	// Every is how often a new one is left.
	Every Duration `json:"every"`
}

// News is how old a status is that somebody else than the site's own daemon shows, by what that daemon left in the repository.
type News struct {
	// Changed is when it last wrote a changed status, and Alive when it left its last sign of life, both by the clock of its
	// host. Alive is zero if it leaves none.
	Changed time.Time `json:"changed,omitzero"`
	Alive   time.Time `json:"alive,omitzero"`
	// Every is how often it means to leave a sign of life.
	Every Duration `json:"every,omitzero"`
	// Heard is when it last wrote something new, by the clock of whoever shows it, and rather too early than too late (Between).
	// It is zero if it wrote nothing since the first look.
	Heard time.Time `json:"heard,omitzero"`
}

// At is when the daemon was last known to run, by what is known best.
func (n *News) At(now time.Time) time.Time {
	if n.Ahead(now) > 0 {
		return now
	}
	return n.written()
}

// Ahead is by how much the clock of the daemon's host is ahead, as far as that makes it unknown how old the news is.
func (n *News) Ahead(now time.Time) time.Duration { return max(n.written().Sub(now), 0) }

func (n *News) written() time.Time {
	switch {
	case !n.Heard.IsZero():
		return n.Heard
	case n.Alive.After(n.Changed):
		return n.Alive
	}
	return n.Changed
}

// Between is when it wrote something new, which was between two times of another clock: as its own clock says, or at the
// earliest if its own clock is wrong.
func (n *News) Between(first, last time.Time) time.Time {
	at := first
	for _, t := range []time.Time{n.Changed, n.Alive} {
		if t.After(at) && !t.After(last) {
			at = t
		}
	}
	return at
}

// leastLate is how long news may take on its way.
const leastLate = 5 * time.Minute

// IsLate says whether the daemon should have left something since. It is false for one that leaves no signs of life: while nothing
// changes at its site, it writes nothing.
func (n *News) IsLate(now time.Time) bool {
	return !n.Alive.IsZero() && now.Sub(n.At(now)) > max(3*time.Duration(n.Every), leastLate)
}
