package redfish_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/redfish"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// quick is a machine a few hundred times as fast as a real one, and the
// driver's patience with it.
var (
	quick = lab.Latency{
		GET: time.Millisecond, Write: 2 * time.Millisecond, PowerOn: 40 * time.Millisecond, PowerOff: 20 * time.Millisecond,
		Boot: 20 * time.Millisecond, Install: 60 * time.Millisecond,
	}
	patience = redfish.Options{Grace: 250 * time.Millisecond, Settle: 5 * time.Second, Poll: 2 * time.Millisecond}
)

// rack is a fleet of one kind of machine.
type rack struct {
	*lab.Fleet
	next atomic.Int32
}

func newRack(t *testing.T, size int, change func(*lab.MachineConfig)) *rack {
	t.Helper()
	c := lab.Config{Seed: t.Name(), Latency: quick}
	for i := range size {
		m := lab.MachineConfig{
			Name: fmt.Sprintf("m%d", i), BMCAddr: fmt.Sprintf("127.66.%d.%d", i/250, i%250+1),
			Identity: site.Identity{UUID: fmt.Sprintf("3d1c0000-0000-4000-8000-%012d", i), Serial: fmt.Sprintf("SN%d", i)},
			Username: "admin", Password: "correct horse", Manufacturer: "Lab", Model: "L1", MemoryGiB: 64, Processors: 2,
			BootOrder: []string{"Hdd", "Pxe", "Usb"},
		}
		if change != nil {
			change(&m)
		}
		c.Machines = append(c.Machines, m)
	}
	f, err := lab.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rack{Fleet: f}
}

// machine is one machine of a rack, designed as it is.
type machine struct {
	*lab.Machine
	node   *site.Node
	secret secret.Value
	image  *site.Image
}

// take gives the next machine that nobody used.
func (r *rack) take() machine {
	i := r.next.Add(1) - 1
	name := fmt.Sprintf("m%d", i)
	return machine{
		Machine: r.Machine(name),
		node: &site.Node{
			Name:      name,
			Identity:  site.Identity{UUID: fmt.Sprintf("3d1c0000-0000-4000-8000-%012d", i), Serial: fmt.Sprintf("SN%d", i)},
			Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: r.BMCURL(name), Trust: site.Trust{CA: string(r.CA())}}},
		},
		secret: secret.New("admin", "correct horse"),
		image:  &site.Image{URL: strings.NewReplacer("{node}", name, "{generation}", "1").Replace(r.ImageURL("debian12")), SHA256: r.ImageSHA256("debian12", name, 1)},
	}
}

func (m machine) open(t *testing.T) driver.Machine {
	t.Helper()
	h, err := redfish.New(patience).Open(t.Context(), m.node.Endpoints[site.Manager], m.secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func (m machine) step(a site.Action) site.Step {
	return site.Step{Node: m.node.Name, Machine: m.node.Identity, Facet: site.FacetPower, Action: a, Image: m.image, Generation: 1}
}

// subject is the machine for the conformance suite.
func (m machine) subject() drivertest.Subject {
	return drivertest.Subject{
		Endpoint: m.node.Endpoints[site.Manager], Secret: m.secret, Node: m.node, Image: m.image, Power: m.power,
		Counts: func() drivertest.Counts {
			c := m.Counts()
			return drivertest.Counts{Writes: c.Writes, Resets: c.Resets, Installs: c.Installs}
		},
	}
}

func (m machine) power() string { return strings.ToLower(m.Power()) }

func TestConformanceOnTheLab(t *testing.T) {
	kinds := map[string]func(*lab.MachineConfig){"blank": func(m *lab.MachineConfig) { m.Blank = true }}
	for _, name := range lab.Personalities {
		kinds[name] = func(m *lab.MachineConfig) { m.Personality = name }
	}
	for name, change := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			r := newRack(t, 60, change)
			drivertest.Run(t, drivertest.Suite{StartsAgent: true, Driver: redfish.New(patience), Fresh: func(t *testing.T) drivertest.Subject {
				return r.take().subject()
			}})
		})
	}
}

// Machines of every kind start over the network where that is permitted, and from their disks again
// without waiting for whatever runs then. No virtual media are used.
func TestStartOverTheNetworkOnTheLab(t *testing.T) {
	for _, name := range lab.Personalities {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			r := newRack(t, 1, func(m *lab.MachineConfig) { m.Personality, m.Power = name, "on" })
			m := r.take()
			m.node.References.Start = site.StartNetwork
			h, step := m.open(t), m.step(site.ActionStartAgent)
			step.Image, step.Unseen = nil, true
			refuse := func(context.Context) error { return driver.ErrNotPermitted }
			if err := h.Apply(t.Context(), step, m.node, refuse); !errors.Is(err, driver.ErrNotPermitted) || m.Writes() != 0 {
				t.Errorf("without permission: %v, %d writes", err, m.Writes())
			}
			for _, resumed := range []bool{false, true} {
				boots := m.BootCount()
				step.Resumed = resumed
				if err := h.Apply(t.Context(), step, m.node, drivertest.Permitted); err != nil {
					t.Fatalf("resumed %t: %v", resumed, err)
				}
				if m.power() != "on" || m.BootCount() != boots+1 {
					t.Errorf("resumed %t: the machine is %s, and was booted %d times", resumed, m.power(), m.BootCount()-boots)
				}
			}
			end := m.step(site.ActionFinishInstall)
			end.FromMemory, end.Unseen = true, true
			if err := h.Apply(t.Context(), end, m.node, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if s := m.State(); s.Power != "On" || s.Runs != "system" || s.Counts.Installs != 0 || writes(r, "InsertMedia") != 0 {
				t.Errorf("it is %+v", s)
			}
		})
	}
}

// The law of the suite that needs a second machine, whose BMC passes for the
// first's. TestProveSwappedAddresses has more of it.
func TestConformanceWhenAddressesSwap(t *testing.T) {
	slower := patience
	slower.Poll = 20 * time.Millisecond
	for name, change := range map[string]func(*lab.MachineConfig){
		"session": func(*lab.MachineConfig) {}, "basic": func(m *lab.MachineConfig) { m.BasicOnly = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			drivertest.Run(t, drivertest.Suite{Driver: redfish.New(slower), Fresh: func(t *testing.T) drivertest.Subject {
				r := newRack(t, 2, change)
				s := r.take().subject()
				s.Swap = func(n int) func() int {
					r.SwapBefore(n, "m0", "m1", lab.LinesStay)
					return func() (strays int) {
						for _, c := range r.Calls() {
							if c.Machine == "m1" && c.Write() && c.Status >= 200 && c.Status < 300 {
								strays++
							}
						}
						return strays
					}
				}
				return s
			}})
		})
	}
}

// A system that does not shut down when asked loses its power after the grace
// period, and not before.
func TestPowerOffIsForcedAfterTheGracePeriod(t *testing.T) {
	m := newRack(t, 1, func(m *lab.MachineConfig) { m.Power = "on" }).take()
	m.SetFault(lab.Fault{Kind: lab.FaultNoShutdown})
	began := time.Now()
	if err := m.open(t).Apply(t.Context(), m.step(site.ActionPowerOff), m.node, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); m.power() != "off" || took < patience.Grace {
		t.Errorf("the machine is %s after %s, want off after %s", m.power(), took, patience.Grace)
	}
	if m.Resets() != 1 {
		t.Errorf("got %d resets, want the forced one", m.Resets())
	}
}

func TestForcedPowerOffDoesNotAskTheSystem(t *testing.T) {
	r := newRack(t, 1, func(m *lab.MachineConfig) { m.Power = "on" })
	m := r.take()
	m.SetFault(lab.Fault{Kind: lab.FaultNoShutdown})
	step := m.step(site.ActionPowerOff)
	step.Force = true
	began := time.Now()
	if err := m.open(t).Apply(t.Context(), step, m.node, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	if took, resets := time.Since(began), writes(r, "ComputerSystem.Reset"); m.power() != "off" || resets != 1 || took >= patience.Grace {
		t.Errorf("the machine is %s after %d requests for a reset and %s, want off after one, without the grace period", m.power(), resets, took)
	}
}

func TestPowerOffIsGraceful(t *testing.T) {
	r := newRack(t, 1, func(m *lab.MachineConfig) { m.Power = "on" })
	m := r.take()
	if err := m.open(t).Apply(t.Context(), m.step(site.ActionPowerOff), m.node, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	if resets := writes(r, "ComputerSystem.Reset"); m.power() != "off" || resets != 1 {
		t.Errorf("the machine is %s after %d requests for a reset, want off after 1", m.power(), resets)
	}
}

func writes(r *rack, path string) int {
	n := 0
	for _, c := range r.Calls() {
		if c.Write() && strings.Contains(c.Path, path) {
			n++
		}
	}
	return n
}

// Where no system is known to run, none is asked to shut down and waited for.
func TestInstallationOfABlankMachine(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		r := newRack(t, 1, func(m *lab.MachineConfig) { m.Power = "on" })
		m := r.take()
		m.SetFault(lab.Fault{Kind: lab.FaultNoShutdown})
		step := m.step(site.ActionInstall)
		step.Unseen = unseen
		if err := m.open(t).Apply(t.Context(), step, m.node, drivertest.Permitted); err != nil {
			t.Fatal(err)
		}
		want := 3 // off, in vain; by force; on
		if unseen {
			want = 2
		}
		if got := writes(r, "ComputerSystem.Reset"); got != want {
			t.Errorf("unseen %v: %d resets, want %d", unseen, got, want)
		}
	}
}

// The order of an installation's writes is what lets it be taken up anywhere.
func TestInstallationInOrder(t *testing.T) {
	r := newRack(t, 1, func(m *lab.MachineConfig) { m.Power = "on" })
	m := r.take()
	h := m.open(t)
	if err := h.Apply(t.Context(), m.step(site.ActionInstall), m.node, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the installer to be done", func() bool { return m.power() == "off" })
	if err := h.Apply(t.Context(), m.step(site.ActionFinishInstall), m.node, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST ComputerSystem.Reset", "PATCH 1", "POST VirtualMedia.InsertMedia", "POST ComputerSystem.Reset",
		"POST VirtualMedia.EjectMedia", "PATCH 1", "POST ComputerSystem.Reset",
	}
	var got []string
	for _, c := range r.Calls() {
		if c.Write() {
			got = append(got, c.Method+" "+c.Path[strings.LastIndex(c.Path, "/")+1:])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got writes %q\nwant %q", got, want)
	}
	if s := m.State(); s.DiskDigest != m.image.SHA256 || s.Media != "" || s.Counts.Installs != 1 || s.Power != "On" {
		t.Errorf("got %+v", s)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("waited for", what)
		}
	}
}

// While the installer runs nothing is finished and nothing is written.
func TestFinishWaitsForTheInstaller(t *testing.T) {
	m := newRack(t, 1, nil).take()
	h := m.open(t)
	if err := h.Apply(t.Context(), m.step(site.ActionInstall), m.node, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	m.SetPower("off")
	m.SetPower("on") // somebody switched it on with the medium inserted
	before := m.Writes()
	err := h.Apply(t.Context(), m.step(site.ActionFinishInstall), m.node, drivertest.Permitted)
	if !errors.Is(err, driver.ErrBusy) || !strings.Contains(err.Error(), "medium inserted") || m.Writes() != before {
		t.Errorf("got %v and %d writes", err, m.Writes()-before)
	}
}

// An installation broken off before its boot must not come about by a plain
// power-on later.
func TestPowerOnDoesNotBootALeftoverInstaller(t *testing.T) {
	r := newRack(t, 1, nil)
	m := r.take()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.Watch(func(_ int, c lab.Call) {
		if strings.HasSuffix(c.Path, "InsertMedia") {
			cancel() // before its answer, so that the boot was not asked for
		}
	})
	if err := m.open(t).Apply(ctx, m.step(site.ActionInstall), m.node, drivertest.Permitted); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if m.power() != "off" || m.State().Media == "" {
		t.Fatalf("the installation was to be broken off between medium and boot: %+v", m.State())
	}
	if err := m.open(t).Apply(t.Context(), m.step(site.ActionPowerOn), m.node, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	if s := m.State(); s.Runs != "system" || s.DiskDigest != "factory" || s.Media != "" || s.Counts.Installers != 0 {
		t.Errorf("the machine is %+v", s)
	}
}

func TestFaults(t *testing.T) {
	r := newRack(t, len(faults), nil)
	for kind, want := range faults {
		t.Run(string(kind), func(t *testing.T) {
			m := r.take()
			t.Parallel()
			m.SetFault(lab.Fault{Kind: kind, RetryAfter: 7})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err := m.open(t).Apply(ctx, m.step(site.ActionPowerOn), m.node, drivertest.Permitted)
			if !errors.Is(err, want.class) || !strings.Contains(fmt.Sprint(err), want.says) {
				t.Errorf("got %v; want %v that says %q", err, want.class, want.says)
			}
			if kind != lab.FaultNoEffect && m.Writes() != 0 {
				t.Errorf("the machine was written to %d times", m.Writes())
			}
			var after driver.RetryAfter
			if errors.As(err, &after) && want.after != (after.RetryAfterSeconds() > 5) {
				t.Errorf("got a Retry-After of %d s", after.RetryAfterSeconds())
			}
		})
	}
}

var faults = map[lab.FaultKind]struct {
	class error
	says  string
	after bool
}{
	lab.FaultBusy:        {driver.ErrBusy, "Base.1.18.ServiceTemporarilyUnavailable", true},
	lab.FaultBusyDate:    {driver.ErrBusy, "503", true},
	lab.FaultHang:        {driver.ErrUnreachable, "deadline exceeded", false},
	lab.FaultRefuse:      {driver.ErrUnreachable, "", false},
	lab.FaultWrongUUID:   {driver.ErrRefused, "another machine answers", false},
	lab.FaultHTML:        {driver.ErrRefused, "text/html where Redfish is expected", false},
	lab.FaultExpired:     {driver.ErrRefused, "expired", false},
	lab.FaultOtherCert:   {driver.ErrRefused, "is not trusted", false},
	lab.FaultServerError: {driver.ErrBusy, "500", false},
	lab.FaultNoEffect:    {driver.ErrUnreachable, "deadline exceeded", false}, // the test's patience ends before the driver's
}

// A BMC that accepts everything and does nothing is found out.
func TestNoEffectIsRefused(t *testing.T) {
	m := newRack(t, 1, nil).take()
	m.SetFault(lab.Fault{Kind: lab.FaultNoEffect})
	impatient := patience
	impatient.Settle, impatient.Grace = 50*time.Millisecond, 10*time.Millisecond
	n := *m.node
	n.Boot.Order = []string{"Pxe"}
	for _, a := range []site.Action{site.ActionPowerOn, site.ActionBootOrder, site.ActionInstall} {
		h, err := redfish.New(impatient).Open(t.Context(), m.node.Endpoints[site.Manager], m.secret)
		if err != nil {
			t.Fatal(err)
		}
		err = h.Apply(t.Context(), m.step(a), &n, drivertest.Permitted)
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "there is no effect") {
			t.Errorf("%s: got %v", a, err)
		}
		h.Close()
	}
}

func TestBootOrderKeepsTheOthersBehind(t *testing.T) {
	m := newRack(t, 1, nil).take()
	h := m.open(t)
	n := *m.node
	n.Boot.Order = []string{"Usb", "Hdd"}
	if err := h.Apply(t.Context(), m.step(site.ActionBootOrder), &n, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	if got := m.BootOrder(); !slices.Equal(got, []string{"Usb", "Hdd", "Pxe"}) {
		t.Errorf("got %v", got)
	}
	n.Boot.Order = []string{"Floppy"}
	before := m.Writes()
	err := h.Apply(t.Context(), m.step(site.ActionBootOrder), &n, drivertest.Permitted)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "no boot option for Floppy, only for Cd, Hdd, Pxe, UefiHttp, Usb") || m.Writes() != before {
		t.Errorf("got %v and %d writes", err, m.Writes()-before)
	}
}

// Every session that is opened is closed, and each handle has one.
func TestSessionsAreCachedAndClosed(t *testing.T) {
	m := newRack(t, 1, nil).take()
	for range 20 { // more than the BMC has room for at once
		h := m.open(t)
		for range 2 {
			if _, err := h.Observe(t.Context(), m.node, []site.Facet{site.FacetPower}); err != nil {
				t.Fatal(err)
			}
		}
		if s := m.State(); s.Sessions != 1 {
			t.Fatalf("%d sessions are open", s.Sessions)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if c := m.Counts(); c.Sessions != 20 || m.State().Sessions != 0 {
		t.Errorf("got %d logins and %d sessions left, want 20 and none", c.Sessions, m.State().Sessions)
	}
}

// TestSessionsOfEarlierTermsAreEnded kills more daemons than the BMC has room
// for sessions; each one ends the session of the one before.
func TestSessionsOfEarlierTermsAreEnded(t *testing.T) {
	m := newRack(t, 1, nil).take()
	left := ""
	for range 20 {
		h := m.open(t) // and never closed
		if s := h.(driver.Sessioner).Session(); s != "" {
			t.Fatalf("a session %s before the first login", s)
		}
		if _, err := h.Observe(t.Context(), m.node, []site.Facet{site.FacetPower}); err != nil {
			t.Fatal(err)
		}
		if left != "" {
			if err := h.(driver.Ender).End(t.Context(), left); err != nil {
				t.Fatal(err)
			}
		}
		left = h.(driver.Sessioner).Session()
		if s := m.State(); s.Sessions != 1 {
			t.Fatalf("%d sessions are open", s.Sessions)
		}
	}
}

// Boot options and media slots come with their collection where the BMC can do
// so: a first step on a thousand machines at once is as quick as their requests
// are few.
func TestCollectionsAreReadAtOnce(t *testing.T) {
	for _, kind := range lab.Personalities {
		r := newRack(t, 1, func(m *lab.MachineConfig) { m.Personality = kind })
		m := r.take()
		seen, err := m.open(t).Observe(t.Context(), m.node, []site.Facet{site.FacetBoot})
		if err != nil {
			t.Fatal(err)
		}
		if got := seen.Facets[site.FacetBoot].Have["order"]; !strings.HasPrefix(got, "Hdd,Pxe") {
			t.Errorf("%s: the order is %q", kind, got)
		}
		asked := 0
		for _, c := range r.Calls() {
			if strings.Contains(strings.ToLower(c.Path), "bootoption") {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("%s: %d requests for boot options, want 1", kind, asked)
		}
	}
}

// A machine that is switched behind our back is seen so with the next look,
// however its BMC tags what it answers; and one that is as it was is not read
// again where ETags tell.
func TestLooksOnTheLab(t *testing.T) {
	for name, spares := range map[string]bool{"plain": false, "idrac9": false, "ilo5": true, "xcc": true} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, 1, func(m *lab.MachineConfig) { m.Personality, m.Power, m.Manufacturer = name, "on", "" })
			m := r.take()
			h := m.open(t)
			for i, state := range []string{"on", "on", "on", "off", "off", "on", "on"} {
				m.SetPower(state)
				seen, err := h.Observe(t.Context(), m.node, []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth})
				if is := seen.Facets[site.FacetPower].Have["state"]; err != nil || is != state {
					t.Fatalf("look %d: the machine is %s, and is seen %q (%v)", i, state, is, err)
				}
			}
			spared := slices.ContainsFunc(r.Calls(), func(c lab.Call) bool { return c.Status == http.StatusNotModified })
			if spared != spares {
				t.Errorf("answers were spared: %v, want %v", spared, spares)
			}
		})
	}
}

// A BMC whose sessions are all in use by daemons that died is logged in to all
// the same, whatever it says when there is no room.
func TestQuirkSessionsOfTheDead(t *testing.T) {
	for _, name := range lab.Personalities {
		t.Run(name, func(t *testing.T) {
			m := newRack(t, 1, func(c *lab.MachineConfig) { c.Personality = name }).take()
			var left []string
			for err := error(nil); err == nil; {
				h := m.open(t) // and never closed
				if _, err = h.Observe(t.Context(), m.node, []site.Facet{site.FacetPower}); err == nil {
					left = append(left, h.(driver.Sessioner).Session())
				} else if !errors.Is(err, driver.ErrBusy) {
					t.Fatal(err)
				}
			}
			h := m.open(t)
			h.(driver.Heir).Inherit(left[1:])
			if _, err := h.Observe(t.Context(), m.node, []site.Facet{site.FacetPower}); err != nil {
				t.Fatal(err)
			}
			if s := m.State(); s.Sessions != 2 || s.Counts.Denied > 0 {
				t.Errorf("%d sessions are open, want the one that is somebody's and the new one; %d logins were denied", s.Sessions, s.Counts.Denied)
			}
		})
	}
}

// A BMC that wants the medium before the override, or keeps an override for one boot,
// is installed as others are.
func TestInstalledInOtherOrders(t *testing.T) {
	for _, kind := range []lab.FaultKind{lab.FaultMediumFirst, lab.FaultOnceLasts, lab.FaultEmulator} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel() // they mostly wait
			m := newRack(t, 1, func(m *lab.MachineConfig) { m.Power = "on" }).take()
			m.SetFault(lab.Fault{Kind: kind})
			h := m.open(t)
			if err := h.Apply(t.Context(), m.step(site.ActionInstall), m.node, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the installer to be done", func() bool { return m.power() == "off" })
			if err := h.Apply(t.Context(), m.step(site.ActionFinishInstall), m.node, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if s := m.State(); s.DiskDigest != m.image.SHA256 || s.Media != "" || s.Counts.Installs != 1 || s.Counts.Installers != 1 || s.Power != "On" {
				t.Errorf("the machine is %+v", s)
			}
		})
	}
}
