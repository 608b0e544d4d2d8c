package model

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// bounds are how often people decide, commits change the design, daemons start,
// and so on, in one exploration.
type bounds = [kinds]uint8

// worlds are small enough for an ordinary run. In one of them each protection is
// missed.
var worlds = []bounds{
	{decisions: 1, designs: 1, starts: 2, losses: 1, swaps: 1},
	{decisions: 2, designs: 2, starts: 1},
	{decisions: 2, starts: 2, losses: 1, swaps: 1},
	{decisions: 2, designs: 2, starts: 1, removals: 1},
	{decisions: 1, starts: 3, copies: 1},
	{decisions: 2, starts: 3, copies: 1},
}

// large are what make prove explores besides: a site with one daemon, and one
// whose records are copied or set back.
var large = []bounds{
	{decisions: 2, designs: 1, starts: 3, copies: 1},
	{decisions: 2, designs: 2, starts: 2, losses: 1, swaps: 1, removals: 1},
	{decisions: 3, designs: 2, starts: 2, swaps: 1},
}

func (r *rules) bounds() string {
	var all []string
	for kind, n := range r.most {
		all = append(all, kindNames[kind]+" "+string('0'+rune(n)))
	}
	return strings.Join(all, ", ")
}

// Nothing is erased but what a person decided on, once, whatever happens in
// whatever order.
func TestProveLifeOfAnApproval(t *testing.T) {
	all := worlds
	if os.Getenv("SLIPWAY_PROVE") != "" {
		all = slices.Concat(worlds, large)
	}
	for _, most := range all {
		r := &rules{most: most}
		f := r.explore()
		t.Logf("%d states, %d transitions, %d deep; at most: %s", f.states, f.moves, f.depth, r.bounds())
		if f.wrong != "" {
			t.Fatalf("%s:\n%s", f.wrong, f.text())
		}
	}
}

// Each protection is needed: without it something goes wrong.
func TestEachProtectionIsNeeded(t *testing.T) {
	for _, p := range protections {
		t.Run(string(p), func(t *testing.T) {
			goesWrong(t, rules{without: p})
		})
	}
}

// What nobody enforces is known: without it something goes wrong too.
func TestEachAssumptionIsNeeded(t *testing.T) {
	for _, a := range assumptions {
		t.Run(string(a), func(t *testing.T) {
			goesWrong(t, rules{denied: a})
		})
	}
}

func goesWrong(t *testing.T, r rules) {
	t.Helper()
	states := 0
	for _, r.most = range worlds {
		f := r.explore()
		if f.wrong != "" {
			t.Logf("without it, %s:\n%s", f.wrong, f.text())
			return
		}
		states += f.states
	}
	t.Fatalf("nothing goes wrong without it in %d states", states)
}

func (f found) text() string { return "\t" + strings.Join(f.trace, "\n\t") }
