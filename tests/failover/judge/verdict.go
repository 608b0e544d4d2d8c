package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// most is how many broken promises are printed.
const most = 40

// String is the verdict for people: what was looked at, the takeovers of each kind of fault as a histogram,
// and what was broken.
func (v Verdict) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "judged: %d terms, %d changes of machines, %d starts of installations (%d continued), %d approvals (%d used for nothing, %d ended by a rule), %d updates of the status branch\n",
		v.Terms, v.Changes, v.Installations, v.Continued, v.Approvals, v.UsedForNothing, v.Ended, v.StatusCommits)
	for _, name := range faults(v.WentOn) {
		all := of(v.WentOn, name)
		fmt.Fprintf(&s, "%s, %d times: %s\n", name, len(all), spread("a machine was changed after", all, func(t Takeover) time.Duration { return t.Wrote }))
	}
	for _, name := range faults(v.Takeovers) {
		all := of(v.Takeovers, name)
		fmt.Fprintf(&s, "%s, %d times: %s\n", name, len(all), spread("the next led after", all, func(t Takeover) time.Duration { return t.Led }))
		fmt.Fprintf(&s, "%s\n", spread("  and changed a machine after", all, func(t Takeover) time.Duration { return t.Wrote }))
		s.WriteString(histogram(all))
	}
	fmt.Fprintf(&s, "%d promises broken\n", len(v.Broken))
	for _, b := range v.Broken[:min(most, len(v.Broken))] {
		fmt.Fprintf(&s, "  %s\n", b)
	}
	return s.String()
}

// faults are the kinds of faults among some, sorted.
func faults(all []Takeover) (kinds []string) {
	for _, t := range all {
		kinds = append(kinds, t.Fault)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

func of(all []Takeover, fault string) []Takeover {
	return slices.DeleteFunc(slices.Clone(all), func(t Takeover) bool { return t.Fault != fault })
}

func spread(words string, all []Takeover, length func(Takeover) time.Duration) string {
	var times []time.Duration
	for _, t := range all {
		times = append(times, length(t))
	}
	slices.Sort(times)
	return fmt.Sprintf("%s %.1f to %.1f s, median %.1f s", words, times[0].Seconds(), times[len(times)-1].Seconds(), times[len(times)/2].Seconds())
}

// histogram counts takeovers by the second in which a machine was changed first.
func histogram(all []Takeover) string {
	count := map[int]int{}
	var seconds []int
	for _, t := range all {
		n := int(t.Wrote / time.Second)
		if count[n]++; count[n] == 1 {
			seconds = append(seconds, n)
		}
	}
	slices.Sort(seconds)
	var s strings.Builder
	for _, n := range seconds {
		fmt.Fprintf(&s, "  %3d s %s %d\n", n, strings.Repeat("#", count[n]), count[n])
	}
	return s.String()
}
