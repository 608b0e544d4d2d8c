package say

import (
	"testing"
	"time"
)

func TestAmounts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Count(1, "node"), "1 node"},
		{Count(0, "node"), "0 nodes"},
		{Count(12, "node"), "12 nodes"},
		{Count(2, "loss"), "2 losses"},
		{Count(2, "entry"), "2 entries"},
		{Count(2, "key"), "2 keys"},
		{OrNone(""), "none"},
		{OrNone("a"), "a"},
		{Some(nil, 2), ""},
		{Some([]string{"b", "a"}, 2), "b, a"},
		{Some([]string{"b", "a", "c"}, 2), "b, a and 1 more"},
		{Few([]string{"b", "a"}), "a, b"},
		{Few([]string{"e", "d", "c", "b", "a"}), "a, b, c, … (5 nodes)"},
		{Brief(3 * time.Minute), "3m"},
		{Brief(2 * time.Hour), "2h"},
		{Brief(2*time.Hour + 5*time.Minute), "2h5m"},
		{Brief(90 * time.Second), "1m30s"},
		{Brief(0 * time.Second), "0s"},
		{Rough(90*time.Minute + 20*time.Second), "1h30m"},
		{Rough(90*time.Second + 400*time.Millisecond), "1m30s"},
		{Size(0), ""},
		{Size(480_103_981_056), "480 GB"},
		{Size(1_920_383_410_176), "1.92 TB"},
		{Size(4_000_787_030_016), "4 TB"},
		{Clock(time.Date(2026, 3, 2, 4, 5, 6, 0, time.UTC)), "Mon 2026-03-02 04:05 UTC"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
