package terms

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/record"
)

// in are the product's times in a unit, rounded to the side on which there is less room.
func in(unit time.Duration) times {
	is := record.SharedLeaseTimes()
	return times{
		lease: uint8(is.Length / unit), margin: uint8(is.Margin / unit), write: uint8((driver.LongestWrite + unit - 1) / unit), unit: unit,
	}
}

// fine is the largest unit in which the product's times are whole; in coarse, the margin is one.
var fine, coarse = in(divisor()), in(record.SharedLeaseTimes().Margin)

func divisor() time.Duration {
	is := record.SharedLeaseTimes()
	d := is.Length
	for _, b := range []time.Duration{is.Margin, driver.LongestWrite} {
		for b > 0 {
			d, b = b, d%b
		}
	}
	return d
}

// The product's times fit into the model, and leave a leader a second try to renew its lease.
func TestTimes(t *testing.T) {
	is := record.SharedLeaseTimes()
	for _, d := range []times{fine, coarse} {
		if d.lease <= d.margin || d.margin == 0 || (is.Length+driver.LongestWrite)/d.unit > 250 {
			t.Errorf("a lease of %s with a margin of %s, and writes of %s, cannot be explored in units of %s", is.Length, is.Margin, driver.LongestWrite, d.unit)
		}
	}
	if is.RenewEvery+is.RetryEvery+is.Margin >= is.Length {
		t.Errorf("a lease of %s that is renewed every %s leaves no time for a second try", is.Length, is.RenewEvery)
	}
}

// scene is a world that is explored.
type scene struct {
	name string
	rules
}

var (
	withSessions = scene{"a BMC with sessions, clocks that say anything",
		rules{kind: sessions, stops: withoutClocks, times: fine, judgesTerm: true, most: [kinds]uint8{starts: 1, takes: 2, expiries: 1}}}
	withHelper = scene{"the helper, clocks that say anything",
		rules{kind: helper, stops: withoutClocks, times: fine, judgesTerm: true, most: [kinds]uint8{starts: 2, takes: 2}}}
	steadySessions = scene{"a BMC with sessions, processes that stop before a write for the margin at most",
		rules{kind: sessions, stops: steadily, times: coarse, judgesTerm: true, judgesLead: true, most: [kinds]uint8{takes: 1}}}
	steadyBasic = scene{"a BMC without sessions, processes that stop before a write for the margin at most",
		rules{kind: basic, stops: steadily, times: coarse, judgesLead: true, most: [kinds]uint8{starts: 1, takes: 2}}}
)

// small are explored in an ordinary run, large by make prove besides.
var (
	small = []scene{withSessions, withHelper, steadyBasic}
	large = []scene{
		withSessions.larger(fine, [kinds]uint8{starts: 2, takes: 3, expiries: 1}),
		withHelper.larger(fine, [kinds]uint8{starts: 3, takes: 3}),
		steadySessions,
		steadyBasic.larger(fine, [kinds]uint8{takes: 1}),
		steadyBasic.larger(coarse, [kinds]uint8{starts: 2, takes: 3}),
	}
)

func (s scene) larger(units times, most [kinds]uint8) scene {
	s.times, s.most = units, most
	return s
}

// No destructive request is accepted twice, or without a record of its approval's use; where the machine tells
// terms apart, none is accepted after the next leader has written; and no two daemons write at a time.
func TestProveTerms(t *testing.T) {
	t.Parallel()
	all := small
	if os.Getenv("SLIPWAY_PROVE") != "" {
		all = slices.Concat(small, large)
	}
	for i, s := range all {
		f := s.explore()
		t.Logf("%s, in units of %s: %d states, %d transitions, %d deep; at most %d starts, %d takeovers, %d sessions forgotten",
			s.name, s.times.unit, f.states, f.moves, f.depth, s.most[starts], s.most[takes], s.most[expiries])
		if f.wrong != holds {
			t.Fatalf("%s:\n%s", broken[f.wrong], f.text())
		}
		if i < len(small) {
			tells(t, grouped(f.states)+" ", grouped(f.moves)+" ")
		}
	}
	is := record.SharedLeaseTimes()
	tells(t, fmt.Sprintf("a lease of %g seconds, a margin of %g, and writes that take effect %g seconds", is.Length.Seconds(), is.Margin.Seconds(), driver.LongestWrite.Seconds()),
		fmt.Sprintf("None of %d protections", len(needed)))
}

// tells holds docs/controllers.md against what was explored.
func tells(t *testing.T, all ...string) {
	t.Helper()
	doc, err := os.ReadFile("../../docs/controllers.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range all {
		if !strings.Contains(string(doc), text) {
			t.Errorf("docs/controllers.md does not tell this:\n%s", text)
		}
	}
}

// grouped is a number as people read it: 1,234,567.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// needed are the protections, with the scene in which each is missed.
var needed = map[protection]scene{
	margin:        steadyBasic,
	countsBefore:  steadyBasic,
	waitsLease:    steadyBasic,
	unchanged:     steadyBasic,
	checks:        steadyBasic,
	waitsWrites:   steadyBasic,
	releasesIdle:  steadyBasic,
	keepsUnclean:  steadyBasic,
	waitsAnswer:   steadyBasic,
	recordsFence:  withSessions,
	linearizable:  withSessions,
	usesFirst:     withSessions,
	looksFirst:    withSessions,
	endsSessions:  withSessions,
	recordsLogin:  withSessions,
	keepsKnown:    withSessions,
	noLoginAgain:  withSessions,
	helperRefuses: withHelper,
	helperLooks:   withHelper,
}

// Each protection is needed: without it a property fails.
func TestEachProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for p, s := range needed {
		t.Run(string(p), func(t *testing.T) {
			s.without = p
			goesWrong(t, s)
		})
	}
}

// Where sessions are ended, a new leader need not wait for the longest write: nothing rests on that there.
func TestEndedSessionsReplaceTheWait(t *testing.T) {
	t.Parallel()
	s := steadySessions
	s.without = waitsWrites
	f := s.explore()
	t.Logf("%d states", f.states)
	if f.wrong != holds {
		t.Errorf("%s:\n%s", broken[f.wrong], f.text())
	}
}

// What nobody enforces is known: without it a property fails too.
func TestEachAssumptionIsNeeded(t *testing.T) {
	for a, s := range map[assumption]scene{letsNothing: steadySessions, breaksAfter: steadyBasic} {
		t.Run(string(a), func(t *testing.T) {
			s.denied = a
			goesWrong(t, s)
		})
	}
}

func goesWrong(t *testing.T, s scene) {
	t.Helper()
	f := s.explore()
	if f.wrong == holds {
		t.Fatalf("nothing goes wrong without it in %d states", f.states)
	}
	t.Logf("without it, %s:\n%s", broken[f.wrong], f.text())
}

// A BMC with basic authentication only tells nobody apart. The shortest ways in which it accepts what it should
// not are those that docs/controllers.md tells.
func TestBasicAuthenticationIsWeaker(t *testing.T) {
	t.Parallel()
	once := [kinds]uint8{takes: 1}
	for _, c := range []struct {
		rules
		wrong property
	}{
		{rules{kind: basic, stops: steadily, times: fine, judgesTerm: true, most: once}, afterTerm},
		{rules{kind: basic, stops: anywhere, times: fine, most: once}, twice},
	} {
		f := c.explore()
		if f.wrong != c.wrong {
			t.Errorf("%q after %d states, want %q", broken[f.wrong], f.states, broken[c.wrong])
		}
		t.Logf("%s, %d states, %d transitions:\n%s", broken[f.wrong], f.states, f.moves, f.text())
		tells(t, "```text\n"+strings.Join(f.trace, "\n")+"\n```")
	}
}
