package site

import (
	"testing"
	"time"
)

// News is as old as what is known best, and late only where a sign of life is due.
func TestNews(t *testing.T) {
	t0 := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return t0.Add(-d) }
	for name, x := range map[string]struct {
		news News
		at   time.Time
		late bool
	}{
		"changed long ago, no signs":    {News{Changed: ago(100 * time.Hour)}, ago(100 * time.Hour), false},
		"signs":                         {News{Changed: ago(100 * time.Hour), Alive: ago(25 * time.Minute), Every: Duration(10 * time.Minute)}, ago(25 * time.Minute), false},
		"no sign for three intervals":   {News{Changed: ago(100 * time.Hour), Alive: ago(31 * time.Minute), Every: Duration(10 * time.Minute)}, ago(31 * time.Minute), true},
		"a push takes its time":         {News{Alive: ago(4 * time.Minute), Every: Duration(time.Minute)}, ago(4 * time.Minute), false},
		"a change is a sign":            {News{Changed: ago(time.Minute), Alive: ago(2 * time.Hour), Every: Duration(10 * time.Minute)}, ago(time.Minute), false},
		"its clock is ahead":            {News{Alive: t0.Add(5 * time.Hour), Every: Duration(10 * time.Minute)}, t0, false},
		"its clock is ahead, and heard": {News{Alive: t0.Add(5 * time.Hour), Every: Duration(10 * time.Minute), Heard: ago(time.Hour)}, ago(time.Hour), true},
		"its clock is behind":           {News{Alive: ago(5 * time.Hour), Every: Duration(10 * time.Minute), Heard: ago(time.Minute)}, ago(time.Minute), false},
	} {
		if got := x.news.At(t0); !got.Equal(x.at) {
			t.Errorf("%s: at %s", name, t0.Sub(got))
		}
		if got := x.news.IsLate(t0); got != x.late {
			t.Errorf("%s: late %t", name, got)
		}
	}
}
