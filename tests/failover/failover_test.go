package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/failover/judge"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// longest is how long a site may be without a leader, and longestIdle without a change of a machine: that depends on
// what else the processors do, so it is only a bound for what hangs. The judge prints how long it was.
const longest, longestIdle = 15 * time.Second, time.Minute

// Two daemons and a witness keep a site through faults of the host that leads, drawn by a seed, while machines are
// installed again and again. No machine is asked for a change by a daemon whose term has ended, or installed twice
// for one approval, and nothing that was confirmed is lost. That is for package judge to decide.
//
// With SLIPWAY_PROVE set there are 30 faults of each kind, otherwise SLIPWAY_FAULTS of them. SLIPWAY_SEED draws
// them. SLIPWAY_KINDS has only those whose name it matches. SLIPWAY_KEEP names a folder for the history, which the command beside this test judges too.
func TestProveControllersUnderFaults(t *testing.T) {
	schedule, dice := drawn()
	if !inOwnNetwork(t) {
		return
	}
	w := newWorld(t)
	persons, leave := context.WithCancel(t.Context())
	var there sync.WaitGroup
	for _, m := range w.members[:2] {
		there.Go(func() { m.approves(persons) })
	}
	happened := 0
	defer func() { // also after a wait that was too long
		leave()
		there.Wait()
		v := w.verdict()
		w.holds(v, happened)
		if !t.Failed() {
			fmt.Printf("prove: failover %d ok\n", happened)
		}
	}()
	w.settle()
	for i, f := range schedule {
		if timeLeft(t) < patience+time.Minute {
			t.Logf("only %d of %d faults: there is no more time", i, len(schedule))
			break
		}
		began := time.Now()
		happened++
		w.happens(f, dice)
		w.settle()
		t.Logf("fault %d of %d, %s: all is well again after %s", i+1, len(schedule), f, time.Since(began).Round(100*time.Millisecond))
	}
}

// verdict stops all members, the leader last, and has the judge look at what they have done.
func (w *world) verdict() judge.Verdict {
	w.t.Helper()
	l, s := w.leader()
	for _, m := range append(slices.DeleteFunc(slices.Clone(w.members), func(m *member) bool { return m == l || m.dead() }), l) {
		if m != nil {
			m.stop()
		}
	}
	for _, m := range w.members {
		m.collect()
	}
	h := w.history()
	if dir := os.Getenv(keep); dir != "" {
		check(w.t, h.Save(dir))
	}
	v := judge.Judge(h)
	w.t.Logf("term %d\n%s", s.Term, v)
	return v
}

// drawn is the schedule of faults.
func drawn() (schedule []string, dice *rand.Rand) {
	n, seed := 1, uint64(1)
	if os.Getenv("SLIPWAY_PROVE") != "" {
		n = 30
	}
	if x, err := strconv.Atoi(os.Getenv("SLIPWAY_FAULTS")); err == nil {
		n = x
	}
	if x, err := strconv.ParseUint(os.Getenv("SLIPWAY_SEED"), 10, 64); err == nil {
		seed = x
	}
	for i := range n {
		schedule = append(schedule, "kill", "pause", partitions[(uint64(i)+seed)%uint64(len(partitions))])
		if i%6 == 0 {
			schedule = append(schedule, "full disk")
		}
		if i%6 == 1 {
			schedule = append(schedule, "bystander")
		}
		if i%3 == 0 && runtime.GOARCH == gripped {
			schedule = append(schedule, clocks[(uint64(i/3)+seed)%uint64(len(clocks))], disks[(uint64(i/3)+seed)%uint64(len(disks))])
		}
	}
	kinds := regexp.MustCompile(os.Getenv("SLIPWAY_KINDS"))
	schedule = slices.DeleteFunc(schedule, func(f string) bool { return !kinds.MatchString(f) })
	dice = rand.New(rand.NewPCG(seed, 11))
	dice.Shuffle(len(schedule), func(i, j int) { schedule[i], schedule[j] = schedule[j], schedule[i] })
	return schedule, dice
}

// The partitions: the leader from all, from the other members in both directions or in one of them, and from the
// machines. What is lost in one direction is lost without a word.
var partitions = []string{"cut off", "no members", "unheard", "deaf", "no machines"}

// The faults of clocks: that of the leader, of another member or of all jumps by an hour, or that of the leader is set back just as it
// loses the other members. Clocks stay where they were set until the next jump, through all that happens then.
var clocks = []string{"clock of all", "clock", "clock and no members", "clock of another"}

// The faults of disks: each write that has to be on the disk takes up to 3 seconds longer, on the host that leads or on another one.
var disks = []string{"slow disk", "slow disk of another"}

// jump is by how much a clock jumps.
const jump = time.Hour

// noTakeover are the faults after which the leader may go on, goesOn those after which machines have to be changed soon by
// whoever leads.
var (
	noTakeover = []string{"bystander", "no machines", "full disk", "clock", "clock of all", "clock of another", "slow disk", "slow disk of another"}
	goesOn     = []string{"bystander", "clock", "clock of all", "clock of another", "slow disk", "slow disk of another"}
)

// happens lets a fault happen in the middle of a rollout, and waits until another daemon has acted.
func (w *world) happens(f string, dice *rand.Rand) {
	w.t.Helper()
	if f == "full disk" {
		w.leadsFirst()
	}
	l, s := w.leader()
	if l == nil {
		w.t.Fatal("nobody leads")
	}
	victim := l
	if f == "bystander" || strings.HasSuffix(f, "of another") {
		victim = w.others(l)[dice.IntN(2)]
	}
	takes := !slices.Contains(noTakeover, f)
	var changed atomic.Bool // by another process since the fault
	var once sync.Once
	struck := make(chan error, 1)
	n := 1 + dice.IntN(150)
	turn := turns{forward: dice.IntN(2) == 0, slow: time.Duration(200+dice.IntN(2800)) * time.Millisecond}
	from := w.fleet.CallCount()
	w.fleet.Watch(func(k int, c lab.Call) {
		if k >= from+n {
			once.Do(func() {
				w.note(judge.Event{At: time.Now(), Kind: judge.Fault, What: f, Address: victim.host, Leads: takes, GoesOn: slices.Contains(goesOn, f)})
				struck <- w.strike(f, victim, turn)
			})
		}
	})
	w.generation++
	w.power = map[string]string{"on": "off", "off": "on"}[w.power]
	w.commit("install again")
	w.until("the fault has happened", func() bool {
		select {
		case err := <-struck:
			check(w.t, err)
			return true
		default:
			return false
		}
	})
	w.fleet.Watch(func(_ int, c lab.Call) { // the host that was struck may lead again
		if c.Write() && c.Status/100 == 2 && (!takes || !strings.HasPrefix(c.Source, victim.host+":") || f == "kill") {
			changed.Store(true)
		}
	})
	w.order = []string{w.order[1], w.order[0]}
	w.commit("another boot order")
	switch f {
	case "no machines":
		w.until("machines are missed", func() bool { _, now := w.leader(); return now.Counts()[site.InSync] == 0 })
	case "full disk": // what etcd has of the disk may be enough for a while, and then the daemon keeps its term
		w.until("the full disk is told, or another daemon leads", func() bool {
			_, now := w.leader()
			return now.Term > s.Term || slices.ContainsFunc(now.Problems, func(p site.Problem) bool { return strings.Contains(p.What, "no space left") })
		})
	case "bystander", "clock", "clock of all", "clock of another", "slow disk", "slow disk of another":
		w.until("machines are changed", changed.Load)
	default:
		w.until("another daemon leads", func() bool { _, now := w.leader(); return now.Term > s.Term })
		w.until("it changes machines", changed.Load)
	}
	w.fleet.Watch(nil)
	before := victim.cmd
	check(w.t, w.mend(f, victim))
	if takes {
		w.until("the daemon that led has ended, and was started again", func() bool { return victim.cmd != before || f == "kill" })
	}
}

// others are the members beside one.
func (w *world) others(than *member) []*member {
	return slices.DeleteFunc(slices.Clone(w.members), func(m *member) bool { return m == than })
}

// leadsFirst has the first daemon lead, whose disk is small. The other one is stopped in order where it leads.
func (w *world) leadsFirst() {
	w.t.Helper()
	if l, _ := w.leader(); l == w.members[0] {
		return
	}
	w.members[1].stop()
	w.until("the first daemon leads", func() bool { l, _ := w.leader(); return l == w.members[0] })
	w.members[1].collect()
	w.members[1].start()
	w.settle()
}

// turns are what was drawn for a fault: which way a clock jumps, and how slow a disk is.
type turns struct {
	forward bool
	slow    time.Duration
}

// turn has a member's clock jump, and not far from the right time.
func (m *member) turn(forward bool) error {
	if m.clock <= -jump || forward && m.clock < jump {
		return m.set(m.clock+jump, m.disk)
	}
	return m.set(m.clock-jump, m.disk)
}

// strike begins a fault.
func (w *world) strike(f string, m *member, as turns) error {
	switch f {
	case "clock", "clock of another":
		return m.turn(as.forward)
	case "clock of all":
		var errs []error
		for _, m := range w.members {
			errs = append(errs, m.turn(as.forward))
		}
		return errors.Join(errs...)
	case "slow disk", "slow disk of another":
		return m.set(m.clock, as.slow)
	case "clock and no members":
		if err := m.set(m.clock-jump, m.disk); err != nil {
			return err
		}
	case "kill", "bystander":
		return m.cmd.Process.Kill()
	case "pause":
		return m.signal(syscall.SIGSTOP)
	case "cut off":
		return m.down()
	case "full disk":
		return m.fill()
	case "no machines":
		return m.lose(router)
	}
	for _, other := range w.others(m) {
		if f != "deaf" {
			if err := m.lose(other.host); err != nil {
				return err
			}
		}
		if f != "unheard" {
			if err := other.lose(m.host); err != nil {
				return err
			}
		}
	}
	return nil
}

// mend ends a fault.
func (w *world) mend(f string, m *member) error {
	switch f {
	case "kill", "bystander", "clock", "clock of all", "clock of another":
		return nil
	case "slow disk", "slow disk of another":
		return m.set(m.clock, 0)
	case "pause":
		return m.signal(syscall.SIGCONT)
	case "cut off":
		return run("ip link set port-" + m.name + " up")
	case "full disk":
		return m.free()
	case "no machines":
		return m.reach(router)
	}
	for _, other := range w.others(m) {
		if f != "deaf" {
			if err := m.reach(other.host); err != nil {
				return err
			}
		}
		if f != "unheard" {
			if err := other.reach(m.host); err != nil {
				return err
			}
		}
	}
	return nil
}

// holds holds a verdict, and what the machines are, to what is promised.
func (w *world) holds(v judge.Verdict, faults int) {
	w.t.Helper()
	for _, b := range v.Broken {
		w.t.Error(b)
	}
	if v.UsedForNothing > faults {
		w.t.Errorf("%d approvals were used for nothing in %d faults", v.UsedForNothing, faults)
	}
	for _, x := range v.Takeovers {
		if x.Led > longest || x.Wrote > longestIdle {
			w.t.Errorf("%s after the fault %s another daemon led, and %s after it a machine was changed", x.Led, x.Fault, x.Wrote)
		}
	}
	for _, x := range v.WentOn {
		if x.Wrote > longestIdle {
			w.t.Errorf("%s after the fault %s a machine was changed", x.Wrote, x.Fault)
		}
	}
	installed := 0
	for _, name := range names {
		s := w.fleet.Machine(name).State()
		if isNew(name) {
			installed += s.Counts.Installs
			if s.Counts.Installs < w.generation {
				w.t.Errorf("%s was installed %d times, and the design wanted %d", name, s.Counts.Installs, w.generation)
			}
		}
	}
	if installed < v.Installations-v.Continued || installed > v.Installations || installed > v.Approvals+v.Continued {
		w.t.Errorf("the machines were installed %d times: the judge saw %d starts, of which %d continued another, and %d approvals", installed, v.Installations, v.Continued, v.Approvals)
	}
}
