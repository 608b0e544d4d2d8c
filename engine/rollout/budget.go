package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// budgetWarning says by how much a rollout exceeds its budget, and what would
// help. It has tried each suggestion.
func budgetWarning(s *site.Site, p *site.Plan, known site.Known, now time.Time, sim *simulation) string {
	budget := time.Duration(s.Rollout.Budget)
	try := func(r knobs) *simulation { return simulate(r.turn(s), p, known, now, nil) }
	within := func(r knobs) bool { return try(r).makespan() <= budget }
	return fmt.Sprintf("it takes about %s, which is %s more than the budget of %s; %s",
		say.Rough(sim.makespan()), say.Rough(sim.makespan()-budget), say.Brief(s.Rollout.Budget), knob(s, sim, within, try))
}

// knobs are the rules of a rollout that can be varied.
type knobs struct {
	maxUnavailable int  // of the site
	unbounded      bool // no bound except that a majority stays
	canaries       *site.Canaries
}

// turn returns a site with these rules for its rollout.
func (k knobs) turn(s *site.Site) *site.Site {
	own := *s
	own.Rollout.MaxUnavailable, own.Rollout.Canaries = fmt.Sprint(k.maxUnavailable), k.canaries
	if !k.unbounded {
		return &own
	}
	own.Rollout.MaxUnavailable, own.Racks = fmt.Sprint(len(s.Nodes)+1), nil
	own.Roles = map[string]*site.Role{}
	for name, r := range s.Roles {
		role := *r
		role.MaxUnavailable = ""
		own.Roles[name] = &role
	}
	return &own
}

func inUse(s *site.Site) int {
	count := 0
	for _, n := range s.Nodes {
		if s.Unused(n) == "" {
			count++
		}
	}
	return count
}

// knob names the first change of the rollout's rules that keeps the budget.
func knob(s *site.Site, sim *simulation, within func(knobs) bool, try func(knobs) *simulation) string {
	r := knobs{maxUnavailable: max(1, site.Bound(s.Rollout.MaxUnavailable, inUse(s))), canaries: s.Rollout.Canaries}
	free := r
	free.unbounded, free.canaries = true, nil
	if !within(free) {
		return "no change to the rollout's rules would help: " + longest(try(free))
	}
	if n, ok := leastAtOnce(s, sim, r, within); ok {
		return fmt.Sprintf("maxUnavailable %d would meet the budget", n)
	}
	if c := r.canaries; c != nil {
		soak := *c
		soak.Soak = max(0, c.Soak-(site.Duration(sim.makespan())-s.Rollout.Budget)) / site.Duration(time.Second) * site.Duration(time.Second)
		shorter, without := r, r
		shorter.canaries, without.canaries = &soak, nil
		if soak.Soak > 0 && within(shorter) {
			return fmt.Sprintf("canaries that soak for %s would meet the budget", say.Brief(soak.Soak))
		}
		if within(without) {
			return "a rollout without canaries would meet the budget"
		}
		if n, ok := leastAtOnce(s, sim, without, within); ok {
			return fmt.Sprintf("maxUnavailable %d without canaries would meet the budget", n)
		}
	}
	return "maxUnavailable of the site alone would not meet the budget, because that of its roles and racks applies too: see the critical path"
}

// leastAtOnce returns the smallest bound of the site that keeps the budget. A
// bound below the work divided by the budget cannot be enough, and seldom is
// much more needed.
func leastAtOnce(s *site.Site, sim *simulation, r knobs, within func(knobs) bool) (int, bool) {
	keeps := func(n int) bool {
		r.maxUnavailable = n
		return within(r)
	}
	all := inUse(s)
	low := max(r.maxUnavailable, int(sim.work()/time.Duration(s.Rollout.Budget))-1) // too low for the budget
	if low >= all || !keeps(all) {
		return 0, false
	}
	high := low + 1
	for step := 1; high < all && !keeps(high); step *= 2 {
		low, high = high, min(all, high+2*step)
	}
	for high-low > 1 {
		if middle := (low + high) / 2; keeps(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
}

// work returns the least time that all members together are out of service.
func (sim *simulation) work() time.Duration {
	var all time.Duration
	for _, m := range sim.members {
		first := slices.IndexFunc(m.steps, func(s site.Step) bool { return s.Impact >= site.ImpactInterrupts })
		for i := max(0, first); first >= 0 && !m.wasOut && i < len(m.steps); i++ {
			all += max(0, time.Duration(m.steps[i].Expect))
		}
	}
	return all
}

// longest names what takes longest when everything may run at once: a node
// alone or a chain of nodes, and in it the longest step or wait.
func longest(sim *simulation) string {
	what, took := "", time.Duration(-1)
	longer := func(text string, d time.Duration) {
		if d > took {
			what, took = text+" "+say.Rough(d), d
		}
	}
	chain := sim.chain()
	for _, l := range chain {
		longer(fmt.Sprintf("%s of %s alone takes", l.member.steps[l.step].Action, l.member.node.Name()), l.to-l.from)
		for _, x := range l.waits() {
			longer(fmt.Sprintf("%s %s for", x.Node, x.What), time.Duration(x.To-x.From))
		}
	}
	return fmt.Sprintf("the longest path, to the end of %s, takes about %s; %s",
		chain[len(chain)-1].member.node.Name(), say.Rough(sim.makespan()), what)
}
