package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// settles is how long a story waits until machines have received what was sent to
// them, and daemons have published what they did.
const settles = time.Minute

// dies ends the daemon at one of the moments at which it waits for something.
func dies(t *trial, _ context.Context) {
	if t.daemon.life != nil {
		waits := 1 + t.chaos.IntN(300)
		t.note("the daemon ends after %d waits", waits)
		t.daemon.life.at(waits, t.daemon.life.end)
	}
}

// losesRecords has the state directory gone.
func losesRecords(t *trial, ctx context.Context) {
	if t.other != nil {
		return // has them still
	}
	t.quits()
	t.daemon.state, t.copies = t.newState(), nil
	t.wait(ctx, time.Duration(t.dice.IntN(180))*time.Second)
	t.people.ledger.Forget(time.Now(), "the records were lost")
	t.forget()
	t.up()
}

// forget is what the laws do when the daemon's records are not what they were:
// what it knew of nodes counts no more, and people do not know what is paused.
func (t *trial) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.settled)
	for _, of := range []map[string][]spell{t.holds, t.kept} {
		for who := range of {
			end(of, who)
		}
	}
	t.anew, t.perhaps = time.Now(), true
}

// quits ends the daemon, in order or not.
func (t *trial) quits() {
	if t.chance(0.5) {
		t.stop()
	} else {
		t.kill()
	}
}

// keepsCopy is somebody copying the state directory of a running daemon.
func keepsCopy(t *trial, _ context.Context) {
	t.copies = append(t.copies, t.copyState(t.daemon.state))
	t.note("the records are copied")
}

// rollsBack puts an older copy of the state directory in its place. Only what was
// published can tell.
func rollsBack(t *trial, ctx context.Context) {
	if t.board == nil || len(t.copies) == 0 || t.other != nil {
		return
	}
	t.board.set(nil)
	t.wait(ctx, settles)
	t.quits()
	t.daemon.state = t.copyState(pick(t, t.copies))
	t.note("the records are set back")
	t.forget()
	t.people.mu.Lock()
	t.people.forced = 0 // a daemon on older records may go by an earlier design
	t.people.mu.Unlock()
	t.up()
}

// isCopied starts a second daemon on a copy of the state directory.
func isCopied(t *trial, _ context.Context) {
	if t.board == nil || t.other != nil {
		return
	}
	t.board.set(nil)
	other := &daemon{t: t, label: "copy", state: t.copyState(t.daemon.state)}
	t.mu.Lock()
	t.other = other // the machines of the first one are called meanwhile
	t.mu.Unlock()
	other.up()
}

// oneRemains ends one of the two daemons for good.
func oneRemains(t *trial, _ context.Context) {
	if t.other == nil {
		return
	}
	if t.chance(0.5) {
		t.mu.Lock()
		t.daemon, t.other = t.other, t.daemon
		t.mu.Unlock()
	}
	t.other.kill()
	t.mu.Lock()
	t.other = nil
	t.mu.Unlock()
	t.forget()
	t.people.mu.Lock()
	t.people.forced = 0 // the one that remains may go by an earlier design
	t.people.mu.Unlock()
	t.seeInForce()
}

// takesOver is a person who is told that another daemon acts for the site, and who
// knows that it is gone.
func takesOver(t *trial, ctx context.Context) {
	if t.do(ctx, site.Order{Verb: site.VerbTakeOver}) == nil {
		t.people.ledger.Forget(time.Now(), "a person took over")
		t.forget()
	}
}

// losesBoard has the status branch not answer for a while.
func losesBoard(t *trial, ctx context.Context) {
	if t.board == nil || t.other != nil {
		return
	}
	t.note("the status branch is away")
	t.board.set(errors.New("no route to the forge"))
	t.wait(ctx, time.Duration(t.dice.IntN(600))*time.Second)
	t.board.set(nil)
}

// setsClock ends the chapter: the next one begins at another time.
func setsClock(t *trial, _ context.Context) {
	oneRemains(t, nil)
	t.quits()
	time.Sleep(settles)
	t.clock = time.Now()
}

// nextChapter sets the clock of everything to that of a new bubble, which begins
// in the past, and starts the daemon again.
func (t *trial) nextChapter() {
	ran := time.Until(t.clock)
	to := time.Duration(t.dice.Float64() * float64(ran))
	if t.chance(0.5) {
		to = ran + time.Duration(t.dice.IntN(9*24))*time.Hour
	}
	time.Sleep(to)
	t.step(time.Since(t.clock))
	t.note("the clock is set by %s", time.Since(t.clock))
	t.clock = time.Time{}
	t.up()
}

// step moves what was noted in time.
func (t *trial) step(by time.Duration) {
	t.fleet.Step(by)
	t.people.ledger.Step(by)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stepped = true
	move := func(at *time.Time) {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	for _, at := range []*time.Time{&t.began, &t.haltedSince, &t.anew} {
		move(at)
	}
	for i := range t.reigns {
		move(&t.reigns[i].from)
	}
	for _, all := range t.ills {
		for i := range all {
			move(&all[i].from)
		}
	}
	for _, of := range []map[string][]spell{t.holds, t.kept} {
		for _, all := range of {
			for i := range all {
				move(&all[i].from)
				move(&all[i].to)
			}
		}
	}
	for _, of := range []map[string]time.Time{t.halfway, t.begunAt, t.replaced, t.tried, t.begunOn} {
		for key, at := range of {
			of[key] = at.Add(by)
		}
	}
}

// swapsAddresses has two machines exchange their addresses, at one of the moments
// at which the daemon waits for something.
func swapsAddresses(t *trial, _ context.Context) {
	a, b := pick(t, t.names), pick(t, t.names)
	if a == b || t.daemon.life == nil {
		return
	}
	t.daemon.life.at(1+t.chaos.IntN(120), func() { t.exchange(a, b) })
}

func (t *trial) exchange(a, b string) {
	t.fleet.Swap(a, b)
	t.note("%s and %s have exchanged their addresses", a, b)
	t.swaps.Lock()
	defer t.swaps.Unlock()
	t.swapped = append(t.swapped, [2]string{a, b})
}

// unswap gives all machines their addresses back.
func (t *trial) unswap() {
	t.swaps.Lock()
	done := t.swapped
	t.swapped = nil
	t.swaps.Unlock()
	for _, s := range slices.Backward(done) {
		t.fleet.Swap(s[0], s[1])
	}
}

// forgesMarker has an installed system lie about what was installed.
func forgesMarker(t *trial, _ context.Context) {
	name := pick(t, t.names)
	m := t.fleet.Machine(name)
	generation := pick(t, []int{0, 1, 2, 3, 100, math.MaxInt})
	marker := site.Marker{Node: pick(t, t.names), Generation: generation, Image: pick(t, []string{"d1", "d2", ""}), Site: t.name, Machine: m.Identity(), Attempt: t.dice.IntN(3), Token: "forged"}
	if t.chance(0.7) {
		marker.Node = name
	}
	m.Forge(&marker)
	t.note("%s claims to be generation %d of %s", name, generation, marker.Node)
}

// exchangesDisks puts other disks into a machine.
func exchangesDisks(t *trial, _ context.Context) {
	name := pick(t, t.names)
	t.fleet.Machine(name).Made(t.someDisks())
	t.note("%s has other disks", name)
}

// reverts puts an earlier design into the repository, with its approvals.
func reverts(t *trial, _ context.Context) {
	t.source.mu.Lock()
	earlier := t.source.designs[fmt.Sprintf("commit-%d", 1+t.dice.IntN(t.source.n))]
	t.source.mu.Unlock()
	if earlier != nil {
		t.source.add(clone(earlier), nil)
		t.note("commit-%d: reverts to an earlier design", t.source.n)
	}
}

// returns puts a node back that the design has no more, with the same name, or
// as another one on its machine.
func returns(t *trial, _ context.Context) {
	first := t.source.design("commit-1")
	for _, name := range first.NodeNames() {
		if s := t.newest(); s.Nodes[name] == nil || s.Nodes[name].Decommission {
			t.commit("returns "+name, func(s *site.Site) {
				s.Nodes[name] = clone(first).Nodes[name]
				s.Nodes[name].Generation = t.dice.IntN(4)
			})
			return
		}
	}
}

// takesBack is a person ending an approval.
func takesBack(t *trial, ctx context.Context) {
	if digest := t.anyDigest(); t.chance(0.5) && digest != "" {
		t.people.disapprove(ctx, t.daemon, digest, "")
	} else {
		t.people.disapprove(ctx, t.daemon, "", pick(t, t.names))
	}
}

// approvesAgain is a person repeating a command with a digest of before.
func approvesAgain(t *trial, ctx context.Context) {
	if digest := t.anyDigest(); digest != "" {
		t.people.approve(ctx, t.daemon, digest)
	}
}

// approvesAtOther is a person at the console of the other daemon.
func approvesAtOther(t *trial, ctx context.Context) {
	if t.other == nil {
		return
	}
	t.mu.Lock()
	e := t.other.engine
	t.mu.Unlock()
	if e == nil {
		return
	}
	r := e.Report()
	t.people.read(&r)
	if r.Status.Approve != "" {
		t.people.approve(ctx, t.other, r.Status.Approve)
	}
}

// anyDigest is one that people have read.
func (t *trial) anyDigest() string {
	t.people.mu.Lock()
	known := sortedKeys(t.people.known)
	t.people.mu.Unlock()
	if len(known) == 0 {
		return ""
	}
	return pick(t, known)
}

// calm ends what is left of what nobody decided.
func (t *trial) calm() {
	oneRemains(t, nil)
	if t.board != nil {
		t.board.set(nil)
	}
	if t.daemon.life != nil {
		t.daemon.life.spare()
	}
	t.unswap()
	for _, name := range t.names {
		t.fleet.Machine(name).Forge(nil)
	}
}

// isAnew says whether the daemon knows little of what was, because its records
// are not what they were, or two daemons act.
func (t *trial) isAnew() bool {
	return t.other != nil || !t.anew.IsZero() && time.Since(t.anew) < knownInside
}
