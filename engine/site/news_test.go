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

// What was written between two looks is as old as its own clock says, or as old as it may be.
func TestNewsBetween(t *testing.T) {
	t0 := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return t0.Add(d) }
	for name, x := range map[string]struct {
		news News
		want time.Time
	}{
		"a change":                        {News{Changed: after(5 * time.Minute), Alive: after(-time.Hour)}, after(5 * time.Minute)},
		"a sign":                          {News{Changed: after(-time.Hour), Alive: after(7 * time.Minute)}, after(7 * time.Minute)},
		"both":                            {News{Changed: after(5 * time.Minute), Alive: after(7 * time.Minute)}, after(7 * time.Minute)},
		"its clock is behind":             {News{Changed: after(-time.Hour), Alive: after(-time.Minute)}, t0},
		"its clock is ahead":              {News{Alive: after(2 * time.Hour)}, t0},
		"its clock was ahead, and is not": {News{Changed: after(48 * time.Hour), Alive: after(7 * time.Minute)}, after(7 * time.Minute)},
	} {
		if got := x.news.Between(t0, after(time.Hour)); !got.Equal(x.want) {
			t.Errorf("%s: %s", name, got.Sub(t0))
		}
	}
}
