package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// quick are machines that take the time of fast ones.
var quick = drivertest.Config{
	Latency: 200 * time.Millisecond, PowerTime: 8 * time.Second, PostTime: 20 * time.Second, InstallTime: 45 * time.Second, OSTime: 15 * time.Second,
	GraceTime: 20 * time.Second,
	StepTime: map[site.Action]time.Duration{
		site.ActionBase: 8 * time.Second, site.ActionNetwork: 4 * time.Second, site.ActionPackages: 30 * time.Second, site.ActionConfig: 10 * time.Second,
		site.ActionFirmware: 40 * time.Second, site.ActionBIOS: 2 * time.Second,
	},
}

func newTrial(seed uint64, dir string, key *sitekey.Key) *trial {
	t := &trial{
		seed: seed, name: "trial", dice: rand.New(rand.NewPCG(seed, 77)), chaos: rand.New(rand.NewPCG(seed, 78)), dir: dir,
		source: &commits{}, ills: map[string][]ill{}, holds: map[string][]spell{}, kept: map[string][]spell{},
		halfway: map[string]time.Time{}, begunAt: map[string]time.Time{}, installing: map[string]bool{}, settled: map[string]site.Identity{}, shown: map[string]string{}, replaced: map[string]time.Time{}, tried: map[string]time.Time{}, keptPerhaps: map[string]bool{}, accepted: map[string]bool{}, begunOn: map[string]time.Time{},
	}
	t.people = newPeople(t)
	t.daemon = &daemon{t: t, label: "daemon", state: t.newState()}
	config := quick
	config.Seed = seed
	if t.chance(0.3) {
		config.Flaky = 0.02
	}
	if t.chance(0.7) {
		t.board, t.key = &board{}, key
	}
	if t.chance(0.4) {
		t.desk = newDesk(t)
	}
	t.fleet = drivertest.NewFleet(config)
	t.fleet.Watch(t.called)
	t.fleet.Witness(t.witnessed)
	return t
}

// someDisks are the parts of a machine with disks that no other has.
func (t *trial) someDisks() *site.Inventory {
	var serials []string
	for range 1 + t.dice.IntN(3) {
		serials = append(serials, fmt.Sprintf("D%d", t.dice.IntN(1e6)))
	}
	slices.Sort(serials)
	return withDisks(serials...)
}

func (t *trial) chance(p float64) bool { return t.dice.Float64() < p }

func pick[T any](t *trial, from []T) T { return from[t.dice.IntN(len(from))] }

var phases = []string{"base", "network", "install", "configure"}

// firstDesign draws a site: roles that need those before them, and nodes.
func (t *trial) firstDesign() *site.Site {
	s := &site.Site{
		Name: t.name, SchemaVersion: site.SchemaVersion,
		Rollout: site.Rollout{
			MaxUnavailable: pick(t, []string{"1", "1", "2", "30%", "100%"}), FirstContact: pick(t, []string{"repair", "repair", "hold"}),
			ObserveEvery: site.Duration(time.Minute), PollEvery: site.Duration(10 * time.Second), ReportEvery: site.Duration(10 * time.Second),
			OnChange: pick(t, []string{"", "supersede", "queue"}), MaxFailures: pick(t, []string{"", "0", "50%", "100%"}),
		},
		Roles: map[string]*site.Role{}, Racks: map[string]*site.Rack{"rack-1": {}, "rack-2": {}}, Windows: map[string]*site.Window{},
		Images: map[string]*site.Image{"debian": {URL: "http://images.example/debian.iso", SHA256: "d1", InstallTimeout: site.Duration(10 * time.Minute)}},
		Nodes:  map[string]*site.Node{},
	}
	if t.chance(0.3) {
		s.Racks["rack-1"].MaxUnavailable = "1"
	}
	if t.chance(0.3) {
		s.Rollout.Canaries = &site.Canaries{Count: 1 + t.dice.IntN(2), Soak: site.Duration(pick(t, []time.Duration{0, 2 * time.Minute, 10 * time.Minute}))}
	}
	// A revision that queues may wait for a window of the next day.
	if t.chance(0.3) && s.Rollout.OnChange != "queue" {
		s.Windows["night"] = &site.Window{From: "00:20", To: "01:10", Overrun: pick(t, []string{"", "finish", "stop"})}
	}
	roles := 1 + t.dice.IntN(3)
	for i := range roles {
		t.addRole(s, i)
	}
	return s
}

func (t *trial) addRole(s *site.Site, i int) {
	r := &site.Role{Enabled: true, LeaderFirst: t.chance(0.25), Majority: t.chance(0.25)}
	if t.chance(0.85) {
		r.Phases = phases[t.dice.IntN(3):]
	}
	if t.chance(0.2) {
		r.MaxUnavailable = "1"
	}
	for range t.dice.IntN(3) {
		dep := s.Roles[fmt.Sprintf("role-%d", t.dice.IntN(max(1, i)))]
		if i == 0 || len(r.Phases) == 0 || len(dep.Phases) == 0 {
			continue
		}
		phase := pick(t, r.Phases)
		if r.Needs == nil {
			r.Needs = map[string]map[string]site.Need{}
		}
		if r.Needs[phase] == nil {
			r.Needs[phase] = map[string]site.Need{}
		}
		for name, x := range s.Roles {
			if x == dep {
				r.Needs[phase][name] = site.Need{Phase: pick(t, dep.Phases), Quorum: pick(t, []site.Quorum{"all", "all", "1", "50%"})}
			}
		}
	}
	name := fmt.Sprintf("role-%d", i)
	s.Roles[name] = r
	for k := range 1 + t.dice.IntN(3) {
		t.addNode(s, fmt.Sprintf("n%d%c", i, 'a'+k), name)
	}
}

// addNode draws a node and its machine.
func (t *trial) addNode(s *site.Site, name, role string) {
	m := t.fleet.Add(name)
	t.names = append(t.names, name)
	m.Made(t.someDisks())
	n := m.Node()
	n.Role, n.Rack, n.Power = role, pick(t, []string{"", "rack-1", "rack-2"}), "on"
	s.Nodes[name] = n
	if t.chance(0.5) {
		n.Image, n.Generation = "debian", 1
	} else {
		m.SetDisk(&site.Marker{})
	}
	if t.chance(0.4) {
		m.SetPower("on")
	}
	if len(s.Windows) > 0 && t.chance(0.3) {
		n.Window = "night"
	}
	for range t.dice.IntN(5) {
		t.changeNode(n)
	}
}

// changeNode draws a change of what a node is to be.
func (t *trial) changeNode(n *site.Node) {
	version := fmt.Sprint(t.dice.IntN(1000))
	yes := t.chance(0.5)
	switch t.dice.IntN(8) {
	case 0:
		n.System.Packages = map[string]site.Package{"nginx": {Version: version}}
	case 1:
		n.System.Users = map[string]site.User{"u" + version: {}}
	case 2:
		n.System.Files = map[string]site.File{"/etc/motd": {Content: &version}}
	case 3:
		n.Interfaces = map[string]site.Interface{"eth0": {MTU: 1500 + t.dice.IntN(1000)}}
	case 4:
		n.Boot.Order = pick(t, [][]string{{"Hdd"}, {"Hdd", "Pxe"}, {"Pxe", "Hdd"}})
	case 5:
		n.BIOS.SMT = &yes
	case 6:
		n.Firmware = map[string]site.Firmware{"BMC": {Version: version}}
	case 7:
		if n.Generation > 0 {
			n.Generation++
		}
	}
}

func (t *trial) newest() *site.Site {
	t.source.mu.Lock()
	defer t.source.mu.Unlock()
	for n := t.source.n; n > 0; n-- {
		if d := t.source.designs[fmt.Sprintf("commit-%d", n)]; d != nil {
			return clone(d)
		}
	}
	return nil
}

// commit puts a changed design into the repository.
func (t *trial) commit(what string, change func(*site.Site)) {
	s := t.newest()
	change(s)
	t.source.add(s, nil)
	t.note("commit-%d: %s", t.source.n, what)
}

// event is one thing that happens in a story.
type event func(*trial, context.Context)

// events are drawn from, by weight.
var events = []struct {
	weight int
	event  event
}{
	{8, changes}, {2, pausesInDesign}, {2, goesAway}, {2, isDisabled}, {2, decommissions}, {1, drops}, {2, lowers}, {1, misnames}, {1, breaks},
	{6, fallsIll}, {6, getsWell}, {3, drifts}, {2, losesPower}, {2, isReplaced}, {3, restarts},
	{10, approves}, {2, pauses}, {2, resumes}, {2, quarantines}, {2, releases}, {2, retries}, {2, approvesInDesign}, {1, swaps},
	{8, dies}, {2, losesRecords}, {2, keepsCopy}, {2, rollsBack}, {2, isCopied}, {2, oneRemains}, {2, takesOver}, {1, losesBoard},
	{2, setsClock}, {4, swapsAddresses}, {3, forgesMarker}, {2, exchangesDisks}, {3, reverts}, {2, returns}, {2, takesBack},
	{2, approvesAgain}, {2, approvesAtOther}, {8, proposes}, {8, merges},
}

func (t *trial) draw() event {
	total := 0
	for _, e := range events {
		total += e.weight
	}
	at := t.dice.IntN(total)
	for _, e := range events {
		if at -= e.weight; at < 0 {
			return e.event
		}
	}
	return nil
}

func changes(t *trial, _ context.Context) {
	t.commit("changes", func(s *site.Site) {
		for _, name := range s.NodeNames() {
			if t.chance(0.5) {
				t.changeNode(s.Nodes[name])
			}
		}
	})
}

func (t *trial) commitNode(what string, change func(*site.Node)) {
	s := t.newest()
	if len(s.Nodes) == 0 {
		return
	}
	name := pick(t, s.NodeNames())
	t.commit(what+" "+name, func(s *site.Site) { change(s.Nodes[name]) })
}

func pausesInDesign(t *trial, _ context.Context) {
	t.commitNode("pauses", func(n *site.Node) {
		n.Paused = pick(t, []*site.Hold{nil, {By: "design", Reason: "story"}})
	})
}

func goesAway(t *trial, _ context.Context) {
	t.commitNode("away", func(n *site.Node) { n.Away = pick(t, []string{"", "in repair"}) })
}

func isDisabled(t *trial, _ context.Context) {
	t.commitNode("enables or not", func(n *site.Node) { yes := t.chance(0.5); n.Enabled = &yes })
}

func decommissions(t *trial, _ context.Context) {
	t.commitNode("decommissions", func(n *site.Node) { n.Decommission = t.chance(0.7) })
}

func drops(t *trial, _ context.Context) {
	t.commit("drops", func(s *site.Site) {
		if names := s.NodeNames(); len(names) > 1 {
			delete(s.Nodes, pick(t, names))
		}
	})
}

func lowers(t *trial, _ context.Context) {
	t.commitNode("lowers or raises the generation of", func(n *site.Node) { n.Generation = max(0, n.Generation+pick(t, []int{-1, 1, 1})) })
}

// misnames gives a node the identity of another, or none.
func misnames(t *trial, _ context.Context) {
	other := pick(t, t.names)
	t.commitNode("misnames", func(n *site.Node) {
		n.Identity = pick(t, []site.Identity{{}, t.fleet.Machine(other).Identity(), t.fleet.Machine(n.Name).Identity()})
	})
}

func swaps(t *trial, _ context.Context) {
	t.commit("swaps endpoints", func(s *site.Site) {
		names := s.NodeNames()
		a, b := s.Nodes[pick(t, names)], s.Nodes[pick(t, names)]
		a.Endpoints, b.Endpoints = b.Endpoints, a.Endpoints
	})
}

func breaks(t *trial, _ context.Context) {
	t.source.add(nil, []site.Finding{{Code: "x", Severity: site.SeverityError, File: "nodes.cue", Line: 7, Col: 3, Message: "broken"}})
	t.note("commit-%d: broken", t.source.n)
}

func fallsIll(t *trial, _ context.Context) {
	t.fault(pick(t, t.names), pick(t, []drivertest.Fault{drivertest.Unreachable, drivertest.Unreachable, drivertest.Busy, drivertest.Denied,
		drivertest.Lies, drivertest.WrongMachine, drivertest.Hangs, drivertest.Garbled, drivertest.Rebellious}))
}

func getsWell(t *trial, _ context.Context) {
	for _, name := range t.names {
		if t.machineAt(name, time.Now()).fault != "" {
			t.fault(name, drivertest.Healthy)
			return
		}
	}
}

func drifts(t *trial, _ context.Context) {
	name := pick(t, t.names)
	m := t.fleet.Machine(name)
	if m.Disk() != nil && t.chance(0.7) {
		m.SetHave(pick(t, facets[4:]), site.Values{"design": "tampered"})
	} else {
		m.SetBootOrder("Usb")
	}
	t.note("%s drifts", name)
}

func losesPower(t *trial, _ context.Context) {
	name := pick(t, t.names)
	t.fleet.Machine(name).SetPower("off")
	t.note("%s is switched off by hand", name)
}

// isReplaced puts another machine in the place of one; the design follows or
// does not.
func isReplaced(t *trial, _ context.Context) {
	name := pick(t, t.names)
	t.fleet.Machine(name).Replace(site.Identity{UUID: fmt.Sprintf("11111111-0000-4000-8000-%012d", t.dice.IntN(1e9)), Serial: "NEW"})
	t.fleet.Machine(name).Made(t.someDisks())
	t.note("%s is replaced", name)
	t.mu.Lock()
	t.replaced[name] = time.Now()
	t.mu.Unlock()
	if s := t.newest(); s.Nodes[name] != nil && t.chance(0.7) {
		t.commit("moves "+name, func(s *site.Site) { s.Nodes[name].Moved = t.fleet.Machine(name).Identity() })
	}
}

func restarts(t *trial, ctx context.Context) {
	t.stop()
	t.wait(ctx, time.Duration(t.dice.IntN(180))*time.Second)
	t.up()
}

// approves approves what waits, and now and then a set that was shown before.
func approves(t *trial, ctx context.Context) {
	t.mu.Lock()
	r := t.see()
	t.mu.Unlock()
	digest := "0123"
	if r != nil && len(r.Status.Waiting) > 0 {
		digest = r.Status.Approve
	}
	t.people.approve(ctx, t.daemon, digest)
	if r == nil {
		return
	}
	for _, n := range r.Status.Nodes {
		if (n.State == site.Blocked || n.State == site.Foreign) && t.chance(0.5) {
			err := t.do(ctx, site.Order{Verb: site.VerbApprove, Node: n.Name, Shown: n.Approval})
			t.mu.Lock()
			t.accepted[n.Name] = t.accepted[n.Name] || wasHeard(err)
			t.mu.Unlock()
		}
	}
}

func approvesInDesign(t *trial, _ context.Context) {
	t.mu.Lock()
	r := t.see()
	t.mu.Unlock()
	if r == nil || len(r.Status.Waiting) == 0 {
		return
	}
	t.commit("approves "+r.Status.Approve, func(s *site.Site) {
		s.Approvals = map[string]site.Approval{r.Status.Approve: {By: "design"}}
	})
}

// someone is a node for an order, or "" for the site.
func (t *trial) someone() string {
	if t.chance(0.3) {
		return ""
	}
	return pick(t, t.names)
}

func pauses(t *trial, ctx context.Context) {
	who := t.someone()
	err := t.do(ctx, site.Order{Verb: site.VerbPause, Node: who})
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		begin(t.holds, who)
	} else if wasHeard(err) {
		t.perhaps = true
	}
}

func (t *trial) ends(ctx context.Context, verb site.Verb, of map[string][]spell) {
	t.mu.Lock()
	var whose []string
	for _, who := range sortedKeys(of) {
		if during(of[who], 0) {
			whose = append(whose, who)
			end(of, who)
		}
	}
	t.mu.Unlock()
	for _, who := range whose {
		if err := t.do(ctx, site.Order{Verb: verb, Node: who}); err != nil && wasHeard(err) {
			t.mu.Lock()
			t.perhaps, t.keptPerhaps[who] = true, true
			t.mu.Unlock()
		}
	}
}

func resumes(t *trial, ctx context.Context)  { t.ends(ctx, site.VerbResume, t.holds) }
func releases(t *trial, ctx context.Context) { t.ends(ctx, site.VerbRelease, t.kept) }

func quarantines(t *trial, ctx context.Context) {
	who := t.someone()
	t.mu.Lock()
	begin(t.kept, who)
	t.mu.Unlock()
	if err := t.do(ctx, site.Order{Verb: site.VerbQuarantine, Node: who}); err != nil {
		t.mu.Lock()
		end(t.kept, who)
		if wasHeard(err) {
			t.perhaps, t.keptPerhaps[who] = true, true
		}
		t.mu.Unlock()
	}
}

func retries(t *trial, ctx context.Context) {
	_ = t.do(ctx, site.Order{Verb: site.VerbRetry, Node: t.someone()})
}

// wait lets time pass, and looks around now and then.
func (t *trial) wait(ctx context.Context, d time.Duration) {
	for left := d; left > 0; left -= time.Minute {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(left, time.Minute)):
		case <-t.died():
			t.rises(ctx)
		case happens := <-t.soon:
			happens()
		case <-t.other.died():
			t.other.kill()
		}
		t.mu.Lock()
		if r := t.see(); r != nil {
			t.backAgain(r)
		}
		t.mu.Unlock()
	}
}

// backAgain notes which machines are in service again after a step of ours.
func (t *trial) backAgain(r *site.Report) {
	for _, n := range r.Status.Nodes {
		if n.State == site.InSync {
			if d := t.reigns[len(t.reigns)-1].site; d != nil && d.Nodes[n.Name] != nil {
				delete(t.halfway, host(d.Nodes[n.Name]))
			}
		}
	}
}

// heal mends everything that is wrong and asks for a plain design.
func (t *trial) heal(ctx context.Context) {
	for _, name := range t.names {
		t.fault(name, drivertest.Healthy)
		t.fleet.Machine(name).Configure(func(c *drivertest.Config) { c.Flaky = 0 })
	}
	t.commit("heals", func(s *site.Site) {
		s.Rollout.MaxFailures, s.Rollout.Canaries, s.Rollout.FirstContact, s.Rollout.OnChange = "100%", nil, "repair", ""
		if ordered(s) {
			unbind(s)
		}
		for _, name := range t.names {
			if s.Nodes[name] == nil {
				s.Nodes[name] = clone(t.source.design("commit-1")).Nodes[name]
			}
			t.healNode(s.Nodes[name])
		}
	})
	for _, verb := range []site.Verb{site.VerbResume, site.VerbRelease} {
		_ = t.do(ctx, site.Order{Verb: verb})
		for _, name := range t.names {
			_ = t.do(ctx, site.Order{Verb: verb, Node: name})
		}
	}
	t.mu.Lock()
	for _, of := range []map[string][]spell{t.holds, t.kept} {
		for who := range of {
			end(of, who)
		}
	}
	t.mu.Unlock()
}

// ordered says whether nodes wait for others to be done. What is out of service
// may then wait for what is held because others are out of service.
func ordered(s *site.Site) bool {
	for _, r := range s.Roles {
		if len(r.Needs) > 0 || r.LeaderFirst {
			return true
		}
	}
	return false
}

// unbind lets any number of machines be out of service.
func unbind(s *site.Site) {
	s.Rollout.MaxUnavailable = "100%"
	for _, r := range s.Roles {
		r.MaxUnavailable, r.Majority = "", false
	}
	for _, r := range s.Racks {
		r.MaxUnavailable = ""
	}
}

// reinstalls raises the generation of machines whose installation came to
// nothing because somebody switched them off, and of those of which the daemon
// asks for it.
func (t *trial) reinstalls() {
	var lost []string
	for _, n := range t.engine.Report().Status.Nodes {
		m := t.fleet.Machine(n.Name)
		asked := n.State == site.Stalled && (strings.Contains(n.Reason, "raise the generation") || strings.Contains(n.Reason, "raise it to"))
		if asked || m.Disk() == nil && m.Media() == nil && n.State != site.Blocked {
			lost = append(lost, n.Name)
		}
	}
	if len(lost) == 0 {
		return
	}
	known := t.engine.Known().Nodes
	t.commit("installs again", func(s *site.Site) {
		for _, name := range lost {
			s.Nodes[name].Image, s.Nodes[name].Generation = "debian", max(s.Nodes[name].Generation, known[name].Recorded.Generation())+1
		}
	})
}

func (t *trial) healNode(n *site.Node) {
	m := t.fleet.Machine(n.Name)
	n.Paused, n.Away, n.Enabled, n.Decommission, n.Window, n.Endpoints = nil, "", nil, false, "", m.Node().Endpoints
	t.bind(n)
	highest := 0
	t.source.mu.Lock()
	for _, d := range t.source.designs {
		if d != nil && d.Nodes[n.Name] != nil {
			highest = max(highest, d.Nodes[n.Name].Generation)
		}
	}
	t.source.mu.Unlock()
	if n.Generation = highest; m.Disk() == nil || t.chance(0.3) {
		n.Image, n.Generation = "debian", highest+1
	}
}

// bind has the design name the machine that the daemon knows by the node's name,
// and the one that is there in its place.
func (t *trial) bind(n *site.Node) {
	is := t.fleet.Machine(n.Name).Identity()
	n.Identity, n.Moved = is, site.Identity{}
	if a := t.engine.Known().Nodes[n.Name].Recorded.Adopted; a != nil && a.Machine != is {
		n.Identity, n.Moved = a.Machine, is
	}
}

// rebinds does so for the nodes whose name the daemon came to know another machine
// by before the last design was in force.
func (t *trial) rebinds() {
	var bound []string
	for _, n := range t.engine.Report().Status.Nodes {
		if n.State == site.Stalled && strings.Contains(n.Reason, "`moved` lets another machine take its place") {
			bound = append(bound, n.Name)
		}
	}
	if len(bound) > 0 {
		t.commit("binds", func(s *site.Site) {
			for _, name := range bound {
				t.bind(s.Nodes[name])
			}
		})
	}
}

// rises is what follows when a daemon has died.
func (t *trial) rises(context.Context) {
	t.kill()
	time.Sleep(time.Duration(t.chaos.IntN(120)) * time.Second)
	t.up()
}

// tell tells a story up to the end of a chapter, and says whether that was the
// last one.
func (t *trial) tell(ctx context.Context) (ended bool) {
	if t.clock.IsZero() {
		t.began, t.left = time.Now(), 4+t.dice.IntN(16)
		t.source.add(t.firstDesign(), nil)
		t.up()
	} else {
		t.nextChapter()
	}
	for ; t.left > 0; t.left-- {
		t.wait(ctx, time.Duration(t.dice.IntN(150))*time.Second)
		if t.draw()(t, ctx); !t.clock.IsZero() {
			return false
		}
	}
	t.calm()
	t.wait(ctx, 16*time.Minute)
	t.judge()
	t.heal(ctx)
	t.recovers(ctx)
	t.stop()
	return true
}

// recovers waits until every node is in-sync again and truly so.
func (t *trial) recovers(ctx context.Context) {
	for i := range 90 {
		t.wait(ctx, 2*time.Minute)
		if i%10 == 9 {
			t.reinstalls()
			t.rebinds()
		}
		t.quiet = true
		takesOver(t, ctx)
		t.looksInside()
		approves(t, ctx)
		if i%10 == 0 {
			_ = t.do(ctx, site.Order{Verb: site.VerbRetry})
		}
		t.quiet = false
		if t.allInSync() {
			break
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.engine.Report().Status
	nodes := st.Nodes
	t.note("in force %s, attempted %s, problems %v", st.Applied.ID, st.Attempted.ID, st.Problems)
	for _, n := range nodes {
		t.note("%s is %s since %s: %s (next %s) %v", n.Name, n.State, time.Since(n.Since).Round(time.Second), n.Reason, n.Next, n.Notes)
	}
	for _, n := range nodes {
		if n.State != site.InSync {
			t.complain("%s does not recover: it is %s: %s", n.Name, n.State, n.Reason)
		}
	}
	t.truth()
}

// looksInside is a person switching on machines of which the daemon says that
// something else runs there.
func (t *trial) looksInside() {
	for _, n := range t.engine.Report().Status.Nodes {
		if m := t.fleet.Machine(n.Name); n.State == site.Foreign && m.Power() == "off" {
			m.SetPower("on")
		}
	}
}

func (t *trial) allInSync() bool {
	r := t.engine.Report()
	return !slices.ContainsFunc(r.Status.Nodes, func(n site.NodeStatus) bool { return n.State != site.InSync }) && r.Status.Applied.ID == fmt.Sprintf("commit-%d", t.source.n)
}

// truth complains of nodes that are said to be in-sync and are not.
func (t *trial) truth() {
	r := t.see()
	d := t.reigns[len(t.reigns)-1].site
	for _, s := range r.Status.Nodes {
		n := d.Nodes[s.Name]
		if s.State != site.InSync || n == nil || n.Decommission || d.Unused(n) != "" || !n.Machine().Known() {
			continue // a design that names no machine is of whichever answers
		}
		m := t.machineAt(host(n), time.Now())
		switch f := m.differs(n, everyFacet); {
		case f != "" && !t.anew.IsZero() && time.Since(t.anew) < time.Hour:
			// other records have what was seen before; each facet is read in its time
		case f != "" && !t.sometime(host(n), time.Now().Add(-known), time.Now(), func(m machine) bool { return m.differs(n, everyFacet) == "" }):
			t.complain("%s is said to be in-sync, and its %s differs: %v", s.Name, f, m.have[f])
		case !t.sometime(host(n), time.Now().Add(-known), time.Now(), machine.seen):
			t.complain("%s is said to be in-sync, and is %s", s.Name, m.fault)
		}
	}
}

// judge holds what people are told against the truth, after a while in which
// nothing happened.
func (t *trial) judge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.engine == nil {
		return
	}
	t.truth()
	r := t.see()
	d := t.reigns[len(t.reigns)-1].site
	for _, s := range r.Status.Nodes {
		t.note("%s is %s since %s: %s (next %s)", s.Name, s.State, time.Since(s.Since).Round(time.Second), s.Reason, s.Next)
		n := d.Nodes[s.Name]
		if n == nil {
			continue
		}
		m := t.machineAt(host(n), time.Now())
		lasts := time.Since(s.Since) > 15*time.Minute
		switch {
		case s.State != site.InSync && s.Reason == "":
			t.complain("%s is %s for no reason", s.Name, s.State)
		case s.State == site.Unknown:
			t.complain("%s is unknown long after the daemon's start", s.Name)
		case s.State == site.Paused && !t.perhaps && !during(t.holds[""], 0) && !during(t.holds[s.Name], 0) && n.Paused == nil &&
			!during(t.kept[""], 0) && !during(t.kept[s.Name], 0) && d.Unused(n) == "":
			t.complain("%s is said to be paused: %s", s.Name, s.Reason)
		case s.State == site.Progressing && lasts && m.fault == "" && d.Images[n.Image] == nil && time.Since(s.Since) < 45*time.Minute:
			// an installer that was begun from an image which the design no longer has
			// is given the time of those that say none
		case s.State == site.Progressing && lasts && m.fault == "":
			t.complain("%s is progressing for %s: %s", s.Name, time.Since(s.Since), s.Reason)
		case s.State == site.Retrying && lasts && m.fault == "" && t.fleet.Machine(host(n)).Disk() != nil:
			t.complain("%s is retrying for %s and nothing is wrong: %s", s.Name, time.Since(s.Since), s.Reason)
		}
	}
}
