package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
	"github.com/slipway-gitops/slipway/tests/port"
)

// A fleet of all kinds of BMC, of whose requests one in twenty goes wrong in
// some way, follows a design that changes again and again. When the trouble is
// over every machine is as designed, or told as one that is not; and whatever
// went wrong, nothing was written to a machine that the design did not change
// or that is another's, no account was locked, no session stays behind, and the
// daemon is no larger than it was.
//
// With SLIPWAY_PROVE set these are 200 machines and 100 changes, otherwise
// SLIPWAY_MACHINES and SLIPWAY_CHANGES. SLIPWAY_SEED draws what happens.
func TestProveSoak(t *testing.T) {
	t.Parallel()
	s := newSoak(t, number("SLIPWAY_MACHINES", 12), number("SLIPWAY_CHANGES", 6))
	s.start()
	s.settle()
	s.looks(2)
	before := s.goroutines()
	s.trouble()
	for range s.changes {
		s.change()
	}
	s.peace()
	s.settle()
	s.restart()
	s.settle()
	s.truth()
	s.looks(2)
	s.eventually("no goroutines but those of a fleet at rest", func() bool { return s.goroutines() <= before+len(s.names)/4+10 })
	s.stop()
	s.sessions()
	if !t.Failed() {
		fmt.Printf("prove: soak %d ok\n", s.changes)
	}
}

// soak is a town of machines without systems to look into.
type soak struct {
	*town
	whole   bool // not just a sample
	dice    *rand.Rand
	changes int
	wanted  []wanted // of each machine
	changed []bool   // whether the design ever asked for a change
	lasting []lab.Fault
	ill     int // the machine that has one of them
	// other is a machine that turns out to be another one, and foreign how many
	// writes it had met until then.
	other, foreign int
	metrics        string
}

// wanted is what the design says of a machine.
type wanted struct {
	power string
	order []string
}

var orders = [][]string{{"Hdd", "Pxe"}, {"Pxe", "Hdd"}}

func newSoak(t *testing.T, machines, changes int) *soak {
	t.Helper()
	seed := uint64(number("SLIPWAY_SEED", 1))
	whole := os.Getenv("SLIPWAY_PROVE") != ""
	if whole {
		machines, changes = 200, 100
	}
	s := &soak{town: &town{t: t, dir: t.TempDir()}, whole: whole, dice: rand.New(rand.NewPCG(seed, 5)), changes: changes, other: machines - 1}
	config := lab.Config{Seed: fmt.Sprint("soak ", seed), Latency: quick}
	for i := range machines {
		name := fmt.Sprintf("m%03d", i)
		s.names = append(s.names, name)
		s.wanted = append(s.wanted, wanted{"on", orders[0]})
		config.Machines = append(config.Machines, lab.MachineConfig{
			Name: name, Personality: lab.Personalities[i%len(lab.Personalities)], BMCAddr: fmt.Sprintf("127.96.1.%d", i+1),
			Identity: identity(i), Username: "admin", Password: password, Power: "on", BootOrder: orders[0], MemoryGiB: 64, Processors: 2,
		})
	}
	s.changed = make([]bool, machines)
	var err error
	s.fleet, err = lab.Start(config)
	check(t, err)
	t.Cleanup(func() { check(t, s.fleet.Close()) })
	s.write("cred/bmc", "hosts: 127.96.1.0/24\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+password+"\n")
	s.metrics = freeAddress(t)
	s.flags = []string{"--listen", s.metrics}
	s.makeRepository(s.design())
	s.dial()
	return s
}

// freeAddress is an address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := port.Address()
	check(t, err)
	return address
}

// design is what the machines are to be.
func (s *soak) design() string {
	var b strings.Builder
	fmt.Fprintf(&b, `package town

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {rollout: {maxUnavailable: "100%%", maxFailures: "100%%", firstContact: "repair", pollEvery: "200ms", observeEvery: %q, reportEvery: "1s"}}
roles: worker: {}
racks: r1: {}
credentials: bmc: {}
profiles: worker: {
	role: "worker"
	rack: "r1"
	endpoints: manager: trust: ca: """
		%s
		"""
}
`, s.every(), strings.ReplaceAll(strings.TrimSpace(string(s.fleet.CA())), "\n", "\n\t\t"))
	for i, name := range s.names {
		id, w := identity(i), s.wanted[i]
		fmt.Fprintf(&b, "nodes: %s: {profiles: [\"worker\"], identity: {uuid: %q, serial: %q}, endpoints: manager: url: %q, power: %q, boot: order: [%q, %q]}\n",
			name, id.UUID, id.Serial, s.fleet.BMCURL(name), w.power, w.order[0], w.order[1])
	}
	return b.String()
}

// every is how often a machine is looked at.
func (s *soak) every() string {
	if s.whole {
		return "3s"
	}
	return "500ms"
}

// lengthy are the faults for which a client has to wait a minute or more, so
// that a sample has no room for them.
var lengthy = []lab.FaultKind{lab.FaultHang, lab.FaultNoEffect, lab.FaultResetIgnored, lab.FaultNoShutdown}

// trouble lets requests go wrong, in every way in which single ones can, and
// one machine be exchanged for another.
func (s *soak) trouble() {
	s.t.Helper()
	var single []lab.Fault
	for _, kind := range lab.FaultKinds {
		f := lab.Fault{Kind: kind, RetryAfter: 1, Delay: site.Duration(300 * time.Millisecond)}
		if !s.whole && slices.Contains(lengthy, kind) {
			continue
		}
		if s.fleet.SetFaultRate(0, f) == nil {
			single = append(single, f)
		} else {
			s.lasting = append(s.lasting, f)
		}
	}
	check(s.t, s.fleet.SetFaultRate(0.05, single...))
	other := s.fleet.Machine(s.names[s.other])
	other.SetFault(lab.Fault{Kind: lab.FaultWrongUUID})
	s.status("a machine is another one", func(st site.Status) bool { return stateOf(st, s.names[s.other]).State == site.Stalled })
	s.foreign = other.Counts().Writes
}

// change commits another design for some machines: never for the first ones,
// and each time for the one that is another by now. Until the next change a
// machine has a fault of the kind that lasts.
func (s *soak) change() {
	s.t.Helper()
	n := len(s.names)
	for range max(2, n/20) {
		i := n/4 + s.dice.IntN(n-n/4)
		if s.changed[i] = true; s.dice.IntN(2) == 0 {
			s.wanted[i].power = map[string]string{"on": "off", "off": "on"}[s.wanted[i].power]
		} else {
			s.wanted[i].reorder()
		}
	}
	s.wanted[s.other].reorder()
	s.fleet.Machine(s.names[s.ill]).ClearFault()
	s.ill = s.dice.IntN(s.other)
	s.fleet.Machine(s.names[s.ill]).SetFault(s.lasting[s.dice.IntN(len(s.lasting))])
	s.commit(s.design(), "change")
	calls := s.fleet.CallCount()
	s.status("the change is in force", func(st site.Status) bool {
		return st.Applied.ID == s.head() && s.fleet.CallCount() > calls+3*n
	})
}

func (w *wanted) reorder() { w.order = []string{w.order[1], w.order[0]} }

func (s *soak) head() string { return s.git("-C", "site.git", "rev-parse", "main") }

// peace ends all trouble but that of the machine which is another one.
func (s *soak) peace() {
	s.t.Helper()
	check(s.t, s.fleet.SetFaultRate(0))
	s.fleet.Machine(s.names[s.ill]).ClearFault()
}

// settle waits until every machine is in-sync with the newest design or
// stalled. Those that would be tried again only much later are tried now, and
// those that are stalled once.
func (s *soak) settle() {
	s.t.Helper()
	head, again := s.head(), map[string]bool{s.names[s.other]: true}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for end := time.Now().Add(s.patience()); ; <-tick.C {
		r, err := s.ask.Report(context.Background(), "")
		settled := err == nil && r.Status.Applied.ID == head
		for _, n := range r.Status.Nodes {
			stalled := n.State == site.Stalled
			if n.State == site.Retrying && time.Until(n.Retry) > time.Second || stalled && !again[n.Name] {
				again[n.Name] = again[n.Name] || stalled
				_, err := s.ask.Do(context.Background(), "", site.Order{Verb: site.VerbRetry, Node: n.Name, By: "e2e"})
				check(s.t, err)
				settled = false
			}
			settled = settled && (stalled || n.State == site.InSync)
		}
		if settled {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("not all machines are in-sync or stalled: %+v\n%s", r.Status.Nodes, s.logEnd())
		}
	}
}

// patience bounds the wait for machines that may be in the middle of the
// longest wait of a driver.
func (s *soak) patience() time.Duration {
	if s.whole {
		return 20 * time.Minute
	}
	return patience
}

// restart cuts the power of machines that take their boot order over when they
// start: as the daemon has them on again, it can be seen.
func (s *soak) restart() {
	s.t.Helper()
	for i, name := range s.names {
		m := s.fleet.Machine(name)
		if i == s.other || s.wanted[i].power == "off" || slices.Equal(m.State().BootOrder, s.wanted[i].order) {
			continue
		}
		m.SetPower("off")
		s.eventually(name+" is on again", func() bool { return m.Power() == "On" })
	}
}

// later says whether a machine that is off takes its boot order over when it
// starts.
func later(m lab.State) bool { return m.Personality == "xcc" && m.Power == "Off" }

// truth holds what the status says to what the machines are.
func (s *soak) truth() {
	s.t.Helper()
	r, err := s.ask.Report(context.Background(), "")
	check(s.t, err)
	for i, name := range s.names {
		n, m := stateOf(r.Status, name), s.fleet.Machine(name).State()
		designed := strings.EqualFold(m.Power, s.wanted[i].power) && (later(m) || slices.Equal(m.BootOrder, s.wanted[i].order))
		switch {
		case i == s.other && (n.State != site.Stalled || m.Counts.Writes != s.foreign):
			s.t.Errorf("%s is another machine: %s, %d writes, %d before", name, n.State, m.Counts.Writes, s.foreign)
		case i == s.other:
		case n.State == site.InSync && !designed:
			s.t.Errorf("%s is told as in-sync: %s %v, want %v", name, m.Power, m.BootOrder, s.wanted[i])
		case n.State != site.InSync && (designed || n.Reason == ""):
			s.t.Errorf("%s is told as %s, %q: %s %v, want %v", name, n.State, n.Reason, m.Power, m.BootOrder, s.wanted[i])
		}
		if !s.changed[i] && i != s.other && m.Counts.Writes > 0 {
			s.t.Errorf("%s was written to %d times, and its design never changed", name, m.Counts.Writes)
		}
		if m.Counts.Lockouts > 0 || m.Counts.Denied > 0 {
			s.t.Errorf("%s: %d lockouts, %d logins that were not accepted", name, m.Counts.Lockouts, m.Counts.Denied)
		}
	}
	if s.t.Failed() {
		s.t.Log(s.writes())
	}
}

// sessions holds the sessions that are left behind to those that nobody could
// have ended: their login was cut off before its answer was understood, or
// their logout was refused.
func (s *soak) sessions() {
	s.t.Helper()
	lost, last := map[string]int{}, map[string]lab.Call{}
	for _, c := range s.fleet.Calls() {
		ofSession := strings.Contains(c.Path, "/Sessions")
		login, before := c.Method == http.MethodPost && ofSession, last[c.Machine]
		switch {
		case ofSession && c.Status/100 != 2:
			lost[c.Machine]++
		case login && before.Method == http.MethodPost && strings.Contains(before.Path, "/Sessions") && before.Status/100 == 2:
			lost[c.Machine]++
		}
		last[c.Machine] = c
	}
	for _, name := range s.names {
		if n := s.fleet.Machine(name).State().Sessions; n > lost[name] {
			s.t.Errorf("%s: %d sessions are left, %d of them with a reason", name, n, lost[name])
		}
	}
}

// goroutines are those of the daemon.
func (s *soak) goroutines() int {
	s.t.Helper()
	resp, err := http.Get("http://" + s.metrics + "/metrics")
	check(s.t, err)
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			n, err := strconv.Atoi(text)
			check(s.t, err)
			return n
		}
	}
	s.t.Fatal("the daemon does not tell its goroutines")
	return 0
}
