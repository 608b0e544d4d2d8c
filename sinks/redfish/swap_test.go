package redfish

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// twins is two machines of one kind, in one state, whose BMCs show the same
// certificate and let in the same account: m0, which steps are for, and m1,
// which nothing may be written to. In an enclosure each has a sibling behind
// its BMC.
type twins struct {
	t     *testing.T
	fleet *lab.Fleet
	dial  func(context.Context, string, string) (net.Conn, error)
	trust site.Trust
	d     *Driver
	alike bool
	at    int // calls that were made before the addresses could swap
}

// brisk is a machine in whose life little has to be polled, and the patience
// with it.
var (
	brisk = lab.Latency{
		GET: 10 * time.Millisecond, Write: 50 * time.Millisecond, PowerOn: 3 * time.Second, PowerOff: 2 * time.Second,
		Boot: 3 * time.Second, Install: 10 * time.Second,
	}
	calm = Options{Grace: 20 * time.Second, Settle: time.Minute, Poll: time.Second}
)

// identity is what the design knows a machine by.
func (tw *twins) identity(name string) site.Identity {
	if tw.alike {
		return site.Identity{Serial: "S", MAC: twinMAC(name)}
	}
	return site.Identity{UUID: twinUUID(name)}
}

func twinMAC(name string) string { return "02:00:00:00:00:0" + name[1:] }

// twinUUID is that of a machine of the twins.
func twinUUID(name string) string { return "3d1c0000-0000-4000-8000-00000000000" + name[1:] }

// access is how the twins' BMCs are spoken to.
type access struct {
	name   string
	change func(*lab.MachineConfig)
	// bound says whether they have what a write can be bound to.
	bound bool
	lines []lab.Lines
}

var accesses = []access{
	{"session", func(*lab.MachineConfig) {}, true, lab.AllLines},
	{"session, closing", func(m *lab.MachineConfig) { m.Closes = lab.ClosesAnnounced }, true, []lab.Lines{lab.LinesStay, lab.LinesLost}},
	{"basic", func(m *lab.MachineConfig) { m.BasicOnly = true }, true, lab.AllLines},
	{"basic, closing", closing(lab.ClosesAnnounced), false, []lab.Lines{lab.LinesStay, lab.LinesLost}},
	{"basic, closing silently", closing(lab.ClosesSilently), false, []lab.Lines{lab.LinesStay, lab.LinesLost}},
	{"basic, HTTP/1.0", closing(lab.ClosesOld), false, []lab.Lines{lab.LinesStay, lab.LinesLost}},
}

func closing(how string) func(*lab.MachineConfig) {
	return func(m *lab.MachineConfig) { m.BasicOnly, m.Closes = true, how }
}

// breed is a kind of twins: a personality, or an enclosure.
type breed struct {
	name        string
	personality string
	enclosed    bool
	// alike has both report the same but the addresses of their ports.
	alike bool
}

func breeds() (all []breed) {
	for _, p := range lab.Personalities {
		all = append(all, breed{name: p, personality: p})
	}
	return append(all, breed{"enclosure", "plain", true, false}, breed{"alike", "plain", false, true})
}

func newTwins(t *testing.T, shown *twinCertificate, b breed, a access, s stage) *twins {
	t.Helper()
	c := lab.Config{Seed: "twins", LaxMedia: true, Latency: brisk}
	for i := range 2 {
		m := lab.MachineConfig{
			Name: fmt.Sprintf("m%d", i), Personality: b.personality, BMCAddr: fmt.Sprintf("127.67.0.%d", i+1),
			Identity: site.Identity{UUID: twinUUID(fmt.Sprintf("m%d", i)), Serial: fmt.Sprintf("S%d", i)},
			Username: "admin", Password: "hunter2", Power: s.power,
		}
		if b.personality == "plain" {
			m.HTTPBoot = true
		}
		if b.alike {
			m.Identity, m.Parts.MACs = site.Identity{Serial: "S"}, []string{twinMAC(m.Name)}
		}
		if s.config != nil {
			s.config(&m)
		}
		a.change(&m)
		if !b.enclosed {
			c.Machines = append(c.Machines, m)
			continue
		}
		m.SystemID = "Node1"
		sibling := m
		sibling.Name, sibling.BMCAddr, sibling.Behind, sibling.SystemID = fmt.Sprintf("m%d", i+2), "", m.Name, "Node2"
		sibling.Identity = site.Identity{UUID: twinUUID(sibling.Name), Serial: fmt.Sprintf("S%d", i+2)}
		c.Machines = append(c.Machines, m, sibling)
	}
	f, err := lab.New(c)
	if err != nil {
		t.Fatal(err)
	}
	f.Share(&shown.Certificate)
	tw := &twins{t: t, fleet: f, dial: f.Within(), trust: site.Trust{Fingerprint: sum(shown.Leaf)}, d: New(calm), alike: b.alike}
	t.Cleanup(func() { f.Close() })
	return tw
}

// open makes a handle on a machine at the address that it was configured with.
func (tw *twins) open(name, unbound string) *machine {
	tw.t.Helper()
	u := strings.Replace(tw.fleet.BMCURL(name), ":0/", ":443/", 1)
	h, err := tw.d.Open(tw.t.Context(), site.Endpoint{URL: u, Trust: tw.trust, Unbound: unbound}, secret.New("admin", "hunter2"))
	if err != nil {
		tw.t.Fatal(err)
	}
	m := h.(*machine)
	m.client.wire.next.DialContext = tw.dial
	tw.t.Cleanup(func() { m.Close() })
	return m
}

// stage is a step, and what both machines are brought to before it.
type stage struct {
	name   string
	power  string // "on" or "off"
	config func(*lab.MachineConfig)
	node   site.Node
	step   site.Step
	// settings has the firmware's be designed.
	settings bool
	// before are steps that both machines have gone through, with the last of
	// them broken off when so many of its writes were carried out.
	before []site.Step
	cut    int
	// then is what happens to both machines by themselves.
	then func(*lab.Machine)
	// done says whether the machine is as the step leaves it.
	done func(lab.State) bool
}

var testImage = &site.Image{URL: "http://127.0.0.1:1/installer.iso"} // booted, and not fetched

func stages() []stage {
	on := site.Step{Facet: site.FacetPower, Action: site.ActionPowerOn, Impact: site.ImpactReboot}
	switchOff := site.Step{Facet: site.FacetPower, Action: site.ActionPowerOff, Impact: site.ImpactReboot}
	force := switchOff
	force.Force = true
	install := site.Step{Facet: site.FacetImage, Action: site.ActionInstall, Image: testImage, Generation: 1, Impact: site.ImpactDestructive}
	finish := site.Step{Facet: site.FacetImage, Action: site.ActionFinishInstall, Image: testImage, Generation: 1, Impact: site.ImpactReboot}
	setBIOS := site.Step{Facet: site.FacetBIOS, Action: site.ActionBIOS}
	restart := site.Step{Facet: site.FacetPower, Action: site.ActionRestart, Impact: site.ImpactReboot}
	bootBIOS := restart
	bootBIOS.Changes = []site.Change{{Field: "bios.any"}}
	order := site.Step{Facet: site.FacetBoot, Action: site.ActionBootOrder}
	byHTTP := site.Node{Boot: site.Boot{InstallBy: installByHTTP}}
	resumed := func(s site.Step) site.Step { s.Resumed = true; return s }
	isOn := func(s lab.State) bool { return s.Power == "On" }
	isOff := func(s lab.State) bool { return s.Power == "Off" }
	installs := func(s lab.State) bool { return s.Counts.Installers == 1 }
	finished := func(s lab.State) bool { return s.Power == "On" && s.Media == "" && s.BootURL == "" }
	httpBoot := func(m *lab.MachineConfig) { m.HTTPBoot = true }
	return []stage{
		{name: "power on", power: "off", step: on, done: isOn},
		{name: "power on, resumed", power: "off", step: resumed(on), before: []site.Step{install}, cut: 2, done: isOn},
		{name: "power off", power: "on", step: switchOff, done: isOff},
		{name: "power off by force", power: "on", step: force, done: isOff},
		{name: "boot order", power: "on", node: site.Node{Boot: site.Boot{Order: []string{"Pxe", "Hdd"}}}, step: order},
		{name: "settings", power: "on", settings: true, step: setBIOS},
		{name: "settings, resumed", power: "on", settings: true, step: resumed(setBIOS), before: []site.Step{setBIOS}, cut: 1},
		{name: "restart", power: "on", step: restart, done: isOn},
		{name: "restart for settings", power: "on", settings: true, step: bootBIOS, before: []site.Step{setBIOS}, done: isOn},
		{name: "restart for settings, resumed", power: "on", settings: true, step: resumed(bootBIOS), before: []site.Step{setBIOS, bootBIOS}, cut: 1, done: isOn},
		{name: "install", power: "on", step: install, done: installs},
		{name: "install, resumed", power: "on", step: resumed(install), before: []site.Step{install}, cut: 2, done: installs},
		{name: "install, resumed late", power: "on", step: resumed(install), before: []site.Step{install}, cut: 3, done: installs},
		{name: "install by HTTP", power: "on", config: httpBoot, node: byHTTP, step: install, done: installs},
		{name: "install by HTTP, resumed", power: "on", config: httpBoot, node: byHTTP, step: resumed(install), before: []site.Step{install}, cut: 3, done: installs},
		{name: "finish", power: "off", step: finish, before: []site.Step{install}, then: func(m *lab.Machine) { m.SetPower("off") }, done: finished},
		{name: "finish, resumed", power: "off", step: resumed(finish), before: []site.Step{install, finish}, cut: 1, then: func(m *lab.Machine) { m.SetPower("off") }, done: finished},
		{name: "finish by HTTP", power: "off", config: httpBoot, node: byHTTP, step: finish, before: []site.Step{install}, then: func(m *lab.Machine) { m.SetPower("off") }, done: finished},
	}
}

// of is the stage of a breed, whose settings have names of their own.
func (s stage) of(b breed) stage {
	no := false
	switch {
	case !s.settings:
	case b.personality == "plain":
		s.node.BIOS.Attributes = map[string]any{"HyperThreading": "Disabled"}
	default:
		s.node.BIOS.SMT = &no
	}
	return s
}

// prepare brings both machines to where the step begins.
func (tw *twins) prepare(s stage) {
	tw.t.Helper()
	for _, name := range []string{"m0", "m1"} {
		for i, step := range s.before {
			cut := 0
			if i == len(s.before)-1 {
				cut = s.cut
			}
			err := tw.take(name, s.node, step, cut)
			for range 3 {
				if cut != 0 || !errors.Is(err, driver.ErrUnreachable) {
					break
				}
				// A connection that the BMC closed as a write was sent over it:
				// like the engine, try again.
				step.Resumed = true
				time.Sleep(5 * time.Second)
				err = tw.take(name, s.node, step, cut)
			}
			if err != nil && cut == 0 {
				tw.t.Fatalf("%s: %s: %v", s.name, step.Action, err)
			}
			if step.Action == site.ActionInstall && s.then != nil && cut == 0 {
				s.then(tw.fleet.Machine(name))
			}
		}
	}
}

// take takes a step with a handle of its own; with a cut it ends when so many
// of its writes were carried out.
func (tw *twins) take(name string, n site.Node, step site.Step, cut int) error {
	ctx, cancel := context.WithCancel(tw.t.Context())
	defer cancel()
	writes := 0
	tw.fleet.Watch(func(_ int, c lab.Call) {
		if c.Write() && accepted(c) {
			if writes++; writes == cut {
				cancel()
			}
		}
	})
	defer tw.fleet.Watch(nil)
	step.Machine = tw.identity(name)
	n.Identity = step.Machine
	// What is prepared is prepared also where steps would be refused.
	m := tw.open(name, "accept")
	defer m.Close()
	return m.Apply(ctx, step, &n, drivertest.Permitted)
}

// accepted says whether a BMC took a request.
func accepted(c lab.Call) bool { return c.Status >= 200 && c.Status < 300 }

// follow takes the step as the engine does: it looks, and goes on when this is
// the machine; it looks again after what is worth another try. It gives the
// last error.
func (tw *twins) follow(s stage, unbound string) (err error) {
	m := tw.open("m0", unbound)
	defer m.Close()
	node, step := s.node, s.step
	node.Name, node.Identity = "m0", tw.identity("m0")
	step.Node, step.Machine = "m0", node.Identity
	for range 4 {
		var seen site.Observed
		if seen, err = m.Observe(tw.t.Context(), &node, []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth}); err == nil {
			if !node.Identity.Matches(seen.Identity) {
				return fmt.Errorf("%w: another machine is seen", driver.ErrRefused)
			}
			if err = m.Apply(tw.t.Context(), step, &node, drivertest.Permitted); err == nil {
				return nil
			}
			step.Resumed = true
		}
		if errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrDenied) || errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		time.Sleep(5 * time.Second)
	}
	return err
}

// strays are the writes that a machine other than m0 has carried out since the
// addresses could swap, by the lab's own record.
func (tw *twins) strays() (all []lab.Call) {
	for _, c := range tw.fleet.Calls()[tw.at:] {
		if c.Write() && accepted(c) && c.Machine != "m0" {
			all = append(all, c)
		}
	}
	return all
}

// excused says whether nothing more could have been known before each stray: the
// request before it was a read of what m0 is known by.
func (tw *twins) excused(system string) bool {
	calls := tw.fleet.Calls()
	for i, c := range calls {
		if i < tw.at || !c.Write() || !accepted(c) || c.Machine == "m0" {
			continue
		}
		if before := calls[i-1]; before.Machine != "m0" || before.Method != http.MethodGet || before.Path != system && !strings.HasPrefix(before.Path, system+"/EthernetInterfaces") {
			return false
		}
	}
	return true
}

// swapCase is one moment at which addresses swap, in one step on one kind of
// machine.
type swapCase struct {
	breed  breed
	access access
	stage  stage
	lines  lab.Lines
	accept bool // the design takes what binds nothing
	n      int  // the request before which they swap
	back   int  // so many later they swap back; 0 is never
}

func (c swapCase) String() string {
	return fmt.Sprintf("%s, %s, %s, lines %s, accepted %t, swap before %d, back after %d", c.breed.name, c.access.name, c.stage.name, c.lines, c.accept, c.n, c.back)
}

// run tries one moment. It says whether there was such a request, how many
// writes another machine carried out, and what is wrong with that.
func (c swapCase) run(t *testing.T, shown *twinCertificate) (swapped bool, strays int, wrong string) {
	synctest.Test(t, func(t *testing.T) {
		tw := newTwins(t, shown, c.breed, c.access, c.stage)
		tw.prepare(c.stage)
		tw.at = len(tw.fleet.Calls())
		was := tw.fleet.Machine("m0").Counts().Installers
		tw.fleet.SwapBefore(c.n, "m0", "m1", c.lines)
		if c.back > 0 {
			tw.fleet.SwapBefore(c.n+c.back, "m0", "m1", c.lines)
		}
		unbound := map[bool]string{true: "accept"}[c.accept]
		err := tw.follow(c.stage, unbound)
		swapped = tw.fleet.CallCount()-tw.at >= c.n
		all := tw.strays()
		strays = len(all)
		switch {
		case strays > 0 && (c.access.bound || !tw.excused(tw.open("m0", "").path)):
			wrong = fmt.Sprintf("%s: %s %s was carried out by %s (the step ended with %v)", c, all[0].Method, all[0].Path, all[0].Machine, err)
		case !c.access.bound && !c.accept && c.stage.step.Impact == site.ImpactDestructive:
			if wrote := slices.ContainsFunc(tw.fleet.Calls()[tw.at:], lab.Call.Write); wrote || !errors.Is(err, driver.ErrRefused) && !errors.Is(err, driver.ErrUnreachable) {
				wrong = fmt.Sprintf("%s: wrote %t, and got %v; want nothing written and a refusal", c, wrote, err)
			}
		case c.breed.alike && !c.access.bound && c.back > 0:
			// What it is known by is in no answer that shows its state.
		case err == nil && strays == 0 && c.stage.done != nil:
			s := tw.fleet.Machine("m0").State()
			s.Counts.Installers -= was
			if c.stage.name == "install, resumed late" {
				s.Counts.Installers += was
			}
			if !c.stage.done(s) {
				wrong = fmt.Sprintf("%s: success is claimed, and the machine is %+v", c, s)
			}
		}
	})
	return swapped, strays, wrong
}

// kinds are the cases without the request at which they swap.
func kinds() (all []swapCase) {
	for _, b := range breeds() {
		for _, a := range accesses {
			for _, s := range stages() {
				for _, l := range a.lines {
					c := swapCase{breed: b, access: a, stage: s.of(b), lines: l}
					all = append(all, c)
					if !a.bound && s.step.Impact == site.ImpactDestructive {
						c.accept = true
						all = append(all, c)
					}
				}
			}
		}
	}
	return all
}

// The addresses of two BMCs that both pass for the designed one swap before any
// request of any step, and may swap back. No write changes the other machine
// wherever a session exists or the connection stays open. Where neither does,
// nothing is destroyed; other writes come right after the identity, which is as
// much as can be known.
//
// With SLIPWAY_PROVE set every request of every step is tried, otherwise a
// sample that SLIPWAY_SEED repeats.
func TestProveSwappedAddresses(t *testing.T) {
	shown := newTwinCertificate(t)
	all := kinds()
	var tried, strays atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d swaps, %d writes that nothing could have kept from the other machine", tried.Load(), strays.Load())
	})
	if os.Getenv("SLIPWAY_PROVE") == "" {
		seed := uint64(time.Now().UnixNano())
		if s := os.Getenv("SLIPWAY_SEED"); s != "" {
			var err error
			if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("SLIPWAY_SEED=%d", seed)
		dice := rand.New(rand.NewPCG(seed, 0))
		for range 100 {
			c := all[dice.IntN(len(all))]
			c.n, c.back = 1+dice.IntN(30), dice.IntN(5)
			_, n, wrong := c.run(t, shown)
			if wrong != "" {
				t.Error(wrong)
			}
			tried.Add(1)
			strays.Add(int64(n))
		}
		return
	}
	for _, c := range all {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			backs := []int{0}
			if c.lines == lab.LinesStay {
				backs = []int{0, 1, 3}
			}
			for _, c.back = range backs {
				for c.n = 1; ; c.n++ {
					swapped, n, wrong := c.run(t, shown)
					if wrong != "" {
						t.Error(wrong)
					}
					tried.Add(1)
					strays.Add(int64(n))
					if !swapped || wrong != "" {
						break
					}
				}
			}
		})
	}
}

// Of two short steps every request is tried in every run of the tests.
func TestSwappedAddresses(t *testing.T) {
	shown := newTwinCertificate(t)
	tried := 0
	for _, c := range kinds() {
		short := c.stage.name == "boot order" || c.stage.name == "power off by force"
		if !short || c.breed.name != "plain" && !c.breed.alike || !c.access.bound {
			continue
		}
		for _, c.back = range []int{0, 2} {
			for c.n = 1; ; c.n++ {
				swapped, _, wrong := c.run(t, shown)
				if tried++; wrong != "" {
					t.Error(wrong)
				}
				if !swapped {
					break
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d swaps were tried", tried)
	}
}

// twinCertificate is what both BMCs show, valid when bubbles begin.
type twinCertificate struct{ tls.Certificate }

func newTwinCertificate(t *testing.T) *twinCertificate {
	t.Helper()
	return &twinCertificate{certificate(t, time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC))}
}
