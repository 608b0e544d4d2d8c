package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

var slow = drivertest.Config{
	Latency: 200 * time.Millisecond, PowerTime: 30 * time.Second, InstallTime: 5 * time.Minute, OSTime: time.Minute,
}

func open(t *testing.T, d driver.Driver, e site.Endpoint) driver.Machine {
	t.Helper()
	m, err := d.Open(t.Context(), e, secret.New("admin", "password"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func installStep(n *site.Node) site.Step {
	return site.Step{Node: n.Name, Machine: n.Identity, Facet: site.FacetImage, Action: site.ActionInstall,
		Generation: 1, Image: &site.Image{URL: "https://images/x.iso", SHA256: "abcd"}}
}

func TestFleetInstallsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := drivertest.NewFleet(slow, "n1")
		fake := fleet.Machine("n1")
		n := fake.Node()
		m := open(t, fleet.Driver(), n.Endpoints[site.Manager])
		if err := m.Apply(t.Context(), installStep(n), n, drivertest.Permitted); err != nil {
			t.Fatal(err)
		}
		if fake.Power() != "on" {
			t.Fatal("the installer does not run")
		}
		time.Sleep(slow.InstallTime)
		if fake.Power() != "off" {
			t.Fatal("the installer did not power the machine off")
		}
		finish := site.Step{Node: "n1", Machine: n.Identity, Facet: site.FacetImage, Action: site.ActionFinishInstall}
		if err := m.Apply(t.Context(), finish, n, drivertest.Permitted); err != nil {
			t.Fatal(err)
		}
		inside := open(t, fleet.OSDriver(), n.Endpoints[site.OS])
		if _, err := inside.Observe(t.Context(), n, []site.Facet{site.FacetOS}); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("the system answers before its time: %v", err)
		}
		time.Sleep(slow.OSTime)
		seen, err := inside.Observe(t.Context(), n, []site.Facet{site.FacetOS})
		if err != nil || seen.Marker == nil || *seen.Marker != (site.Marker{Node: "n1", Generation: 1, Image: "abcd"}) {
			t.Errorf("got marker %v, %v", seen.Marker, err)
		}
		if c := fake.Counts(); c.Installs != 1 || c.Resets != 2 {
			t.Errorf("got %+v, want 1 install and 2 resets", c)
		}
	})
}

// Cut at any moment and resumed, an installation still happens once.
func TestInstallCutAnywhereInstallsOnce(t *testing.T) {
	for cut := time.Duration(0); cut < 70*time.Second; cut += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			fleet := drivertest.NewFleet(slow, "n1")
			fake := fleet.Machine("n1")
			fake.SetPower("on")
			n := fake.Node()
			m := open(t, fleet.Driver(), n.Endpoints[site.Manager])
			ctx, cancel := context.WithTimeout(t.Context(), cut)
			defer cancel()
			step := installStep(n)
			if m.Apply(ctx, step, n, drivertest.Permitted) != nil {
				step.Resumed = true
				if err := m.Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
					t.Fatal(cut, err)
				}
			}
			time.Sleep(slow.InstallTime)
			if c := fake.Counts(); c.Installs != 1 || c.Resets != 2 || fake.Power() != "off" {
				t.Errorf("cut at %s: got %+v and power %s, want 1 install, 2 resets, off", cut, c, fake.Power())
			}
		})
	}
}

func TestStagedSettingsNeedABoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := slow
		config.PostTime = 2 * time.Minute
		fleet := drivertest.NewFleet(config, "n1")
		fake := fleet.Machine("n1")
		fake.SetPower("on")
		n := fake.Node()
		n.Firmware = map[string]site.Firmware{"BMC": {Version: "2"}}
		m := open(t, fleet.Driver(), n.Endpoints[site.Manager])
		take := func(f site.Facet, a site.Action) site.FacetState {
			step := site.Step{Node: "n1", Machine: n.Identity, Facet: f, Action: a}
			if err := m.Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			seen, err := m.Observe(t.Context(), n, []site.Facet{site.FacetFirmware})
			if err != nil {
				t.Fatal(err)
			}
			return seen.Facets[site.FacetFirmware]
		}
		if s := take(site.FacetFirmware, site.ActionFirmware); s.Have["BMC"] != "" || s.Pending["BMC"] != "2" {
			t.Errorf("staged: have %v, pending %v", s.Have, s.Pending)
		}
		time.Sleep(time.Hour)
		if s := take(site.FacetFirmware, site.ActionFirmware); s.Have["BMC"] != "" {
			t.Errorf("in effect without a boot: %v", s.Have)
		}
		began := time.Now()
		if s := take(site.FacetPower, site.ActionRestart); s.Have["BMC"] != "2" || s.Pending != nil {
			t.Errorf("booted: have %v, pending %v", s.Have, s.Pending)
		}
		if took := time.Since(began); took < config.PowerTime+config.PostTime || fake.Counts().Resets != 1 {
			t.Errorf("took %s and %d resets", took, fake.Counts().Resets)
		}
	})
}

// Somebody's hand on the switch ends a restart, which does not wait for ever.
func TestRestartEndsWhenTheMachineIsSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := slow
		config.PostTime = 2 * time.Minute
		fleet := drivertest.NewFleet(config, "n1")
		fake := fleet.Machine("n1")
		fake.SetPower("on")
		n := fake.Node()
		n.Firmware = map[string]site.Firmware{"BMC": {Version: "2"}}
		m := open(t, fleet.Driver(), n.Endpoints[site.Manager])
		step := site.Step{Node: "n1", Machine: n.Identity, Facet: site.FacetFirmware, Action: site.ActionFirmware}
		if err := m.Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(config.PowerTime+time.Second, func() { fake.SetPower("off") })
		step.Facet, step.Action = site.FacetPower, site.ActionRestart
		if err := m.Apply(t.Context(), step, n, drivertest.Permitted); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("got %v, want an end", err)
		}
	})
}

func TestStepInsideIsCutAsByAPowerCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := slow
		config.StepTime = map[site.Action]time.Duration{site.ActionPackages: time.Minute}
		fleet := drivertest.NewFleet(config, "n1")
		fake := fleet.Machine("n1")
		fake.SetDisk(&site.Marker{})
		fake.SetPower("on")
		n := fake.Node()
		n.System.Packages = map[string]site.Package{"nginx": {}}
		inside := open(t, fleet.OSDriver(), n.Endpoints[site.OS])
		step := site.Step{Node: "n1", Machine: n.Identity, Facet: site.FacetPackages, Action: site.ActionPackages}
		if err := inside.Apply(t.Context(), step, n, drivertest.Permitted); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("a system that does not answer: %v", err)
		}
		time.Sleep(slow.OSTime)
		cut := func() (err error) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			return inside.Apply(ctx, step, n, drivertest.Permitted)
		}
		if err := cut(); err == nil || fake.Have(site.FacetPackages)["design"] != "interrupted" {
			t.Errorf("cut: %v, have %v", err, fake.Have(site.FacetPackages))
		}
		fake.SetPower("off")
		fake.SetPower("on")
		time.Sleep(slow.OSTime)
		if err := cut(); err == nil || fake.Have(site.FacetPackages)["design"] != "interrupted" {
			t.Errorf("cut again: %v, have %v", err, fake.Have(site.FacetPackages))
		}
		if err := inside.Apply(t.Context(), step, n, drivertest.Permitted); err != nil || !maps.Equal(fake.Have(site.FacetPackages), n.Want(site.FacetPackages)) {
			t.Errorf("joined: %v, have %v", err, fake.Have(site.FacetPackages))
		}
		if calls := fleet.Calls(); len(calls) != 2 || !calls[0].First || calls[0].Step.Action != site.ActionPackages {
			t.Errorf("calls are %+v", calls)
		}
		fake.SetDisk(nil)
		if have := fake.Have(site.FacetPackages); have != nil {
			t.Errorf("a new disk has %v", have)
		}
	})
}

func TestPowerOfADeafSystemIsCut(t *testing.T) {
	for force, least := range map[bool]time.Duration{true: 0, false: slow.PowerTime} {
		synctest.Test(t, func(t *testing.T) {
			fleet := drivertest.NewFleet(slow, "n1")
			fake := fleet.Machine("n1")
			fake.SetPower("on")
			fake.SetFault(drivertest.Rebellious)
			n := fake.Node()
			began := time.Now()
			step := site.Step{Node: "n1", Machine: n.Identity, Facet: site.FacetPower, Action: site.ActionPowerOff, Force: force}
			if err := open(t, fleet.Driver(), n.Endpoints[site.Manager]).Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); fake.Power() != "off" || force == (took > slow.PowerTime) || took < least {
				t.Errorf("force %t: %s after %s", force, fake.Power(), took)
			}
		})
	}
}

// The power comes back at no time when somebody holds the button, and the
// request is given up.
func TestPowerThatSomebodyTakesBackIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := drivertest.NewFleet(slow, "n1")
		fake := fleet.Machine("n1")
		n := fake.Node()
		time.AfterFunc(slow.PowerTime/2, func() { fake.SetPower("off") })
		step := site.Step{Node: "n1", Machine: n.Identity, Facet: site.FacetPower, Action: site.ActionPowerOn}
		err := open(t, fleet.Driver(), n.Endpoints[site.Manager]).Apply(t.Context(), step, n, drivertest.Permitted)
		if !errors.Is(err, driver.ErrRefused) {
			t.Errorf("power-on ended with %v, want a refusal", err)
		}
	})
}

func TestConformance(t *testing.T) {
	config := drivertest.Config{
		Latency: time.Millisecond, PowerTime: 20 * time.Millisecond, InstallTime: 50 * time.Millisecond,
		Secret: secret.New("admin", "password"),
	}
	fleet := drivertest.NewFleet(config)
	made := 0
	subject := func(t *testing.T, kind site.EndpointKind) (drivertest.Subject, *drivertest.FakeMachine) {
		made++
		fake := fleet.Add(fmt.Sprintf("n%d", made))
		return drivertest.Subject{Endpoint: fake.Node().Endpoints[kind], Secret: config.Secret, Node: fake.Node(), Counts: fake.Counts}, fake
	}
	t.Run("bmc", func(t *testing.T) {
		drivertest.Run(t, drivertest.Suite{StartsAgent: true, Driver: fleet.Driver(), Fresh: func(t *testing.T) drivertest.Subject {
			s, fake := subject(t, site.Manager)
			s.Power, s.Image = fake.Power, &site.Image{URL: "https://images/x.iso", SHA256: "abcd"}
			s.Swap = func(n int) func() int {
				fake.TakenOver(n)
				return func() int { return fake.Counts().Strays }
			}
			return s
		}})
	})
	t.Run("os", func(t *testing.T) {
		drivertest.Run(t, drivertest.Suite{Driver: fleet.OSDriver(), Fresh: func(t *testing.T) drivertest.Subject {
			s, fake := subject(t, site.OS)
			fake.SetDisk(&site.Marker{Node: fake.Node().Name, Generation: 1, Image: "abcd"})
			fake.SetPower("on")
			return s
		}})
	})
}

// A request that hangs comes to nothing when the machine is well again.
func TestHangEndsWithItsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := drivertest.NewFleet(slow, "n1")
		fake := fleet.Machine("n1")
		fake.SetFault(drivertest.Hangs)
		n := fake.Node()
		m := open(t, fleet.Driver(), n.Endpoints[site.Manager])
		began := time.Now()
		time.AfterFunc(time.Minute, func() { fake.SetFault(drivertest.Healthy) })
		if _, err := m.Observe(t.Context(), n, nil); !errors.Is(err, driver.ErrUnreachable) || time.Since(began) > 2*time.Minute {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}
