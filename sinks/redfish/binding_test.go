package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

var powerOff = site.Step{Machine: site.Identity{UUID: uuid}, Facet: site.FacetPower, Action: site.ActionPowerOff, Impact: site.ImpactReboot}

// expiring is a BMC whose system is off once it was reset, and that refuses
// tokens as it is told.
func expiring(t *testing.T) (b *bmc, logins *atomic.Int32, refuses *atomic.Pointer[func(token string, r *http.Request) bool]) {
	b = newBMC(t)
	logins, refuses = &atomic.Int32{}, &atomic.Pointer[func(string, *http.Request) bool]{}
	b.answer(loggingIn, func(w http.ResponseWriter, _ *http.Request) {
		n := logins.Add(1)
		w.Header().Set("X-Auth-Token", fmt.Sprint("token ", n))
		w.Header().Set("Location", fmt.Sprint("/redfish/v1/SessionService/Sessions/", 6+n))
		w.WriteHeader(http.StatusCreated)
	})
	guarded := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if f := refuses.Load(); f != nil && (*f)(r.Header.Get("X-Auth-Token"), r) {
				status(http.StatusUnauthorized, "")(w, r)
				return
			}
			h(w, r)
		}
	}
	b.answer("GET /redfish/v1/Systems/1", guarded(text(healthySystem)))
	b.answer(resetRequest, guarded(func(w http.ResponseWriter, _ *http.Request) {
		b.answer("GET /redfish/v1/Systems/1", guarded(systemIs("Off")))
		w.WriteHeader(http.StatusNoContent)
	}))
	return b, logins, refuses
}

// A session that ends in the middle of a step ends the step. Nothing logs in
// until the machine is looked at again, and no write is sent twice.
func TestSessionThatEndsInAStep(t *testing.T) {
	for name, at := range map[string]func(r *http.Request) bool{
		"at the first read": func(*http.Request) bool { return true },
		"at the write":      func(r *http.Request) bool { return r.Method == http.MethodPost },
	} {
		t.Run(name, func(t *testing.T) {
			b, logins, refuses := expiring(t)
			m := open(t, b.endpoint())
			if _, err := look(m, nil); err != nil {
				t.Fatal(err)
			}
			refuse := func(token string, r *http.Request) bool { return token == "token 1" && at(r) }
			refuses.Store(&refuse)
			b.took()
			err := m.Apply(t.Context(), powerOff, &site.Node{}, nil)
			if !errors.Is(err, driver.ErrInterrupted) || logins.Load() != 1 {
				t.Errorf("got %v after %d logins, want driver.ErrInterrupted after 1", err, logins.Load())
			}
			if n := b.count(resetRequest); n > 1 {
				t.Errorf("the write was sent %d times", n)
			}
			err = m.Apply(t.Context(), powerOff, &site.Node{}, nil)
			if asked := b.took(); !errors.Is(err, driver.ErrInterrupted) || len(asked) > 0 {
				t.Errorf("without a look in between: got %v, asked %v", err, asked)
			}
			if _, err := look(m, nil); err != nil || logins.Load() != 2 {
				t.Errorf("looking again: %v after %d logins", err, logins.Load())
			}
			if err := m.Apply(t.Context(), powerOff, &site.Node{}, nil); err != nil || b.count(resetRequest) != 1 {
				t.Errorf("after looking again: %v", err)
			}
		})
	}
}

// A BMC that answers 401 to a write of one session after the other means the
// account, and a person is needed.
func TestWriteThatIsRefusedForGood(t *testing.T) {
	b, logins, refuses := expiring(t)
	refuse := func(_ string, r *http.Request) bool { return r.Method == http.MethodPost }
	refuses.Store(&refuse)
	m := open(t, b.endpoint())
	for i, want := range []error{driver.ErrInterrupted, driver.ErrRefused} {
		if _, err := look(m, nil); err != nil {
			t.Fatal(err)
		}
		err := m.Apply(t.Context(), powerOff, &site.Node{}, nil)
		if !errors.Is(err, want) || errors.Is(err, driver.ErrDenied) {
			t.Errorf("try %d: got %v, want %v", i, err, want)
		}
		if i == 1 && !strings.Contains(err.Error(), "give the account the privilege") {
			t.Errorf("got %v", err)
		}
	}
	if logins.Load() != 2 {
		t.Errorf("%d logins", logins.Load())
	}
}

// A handle whose login was replaced by another handle's does not write before it
// has looked again: its session was never recorded.
func TestLoginOfASibling(t *testing.T) {
	b := newBMC(t)
	logins := 0
	b.answer(loggingIn, func(w http.ResponseWriter, _ *http.Request) {
		logins++
		w.Header().Set("X-Auth-Token", fmt.Sprint("token ", logins))
		w.Header().Set("Location", fmt.Sprint("/redfish/v1/SessionService/Sessions/", logins))
		w.WriteHeader(http.StatusCreated)
	})
	all := sleds(t, b, 2, secret.New("admin", "hunter2"))
	atOnce(all, func(_ int, m *machine) { look(m, nil) })
	all[1].client.in.over.Store(true)
	if _, err := look(all[1], nil); err != nil || logins != 2 {
		t.Fatalf("%v after %d logins", err, logins)
	}
	if was, is := all[0].Session(), all[1].Session(); was == is || !strings.HasSuffix(was, "/1") {
		t.Errorf("sessions %q and %q", was, is)
	}
	b.took()
	step := powerOff
	step.Machine = site.Identity{UUID: uuid, Serial: "S0"}
	err := all[0].Apply(t.Context(), step, &site.Node{}, nil)
	if asked := b.took(); !errors.Is(err, driver.ErrInterrupted) || len(asked) > 0 {
		t.Errorf("got %v, asked %v", err, asked)
	}
}

// Nothing is written outside of a step, whoever asks for it.
func TestNoWriteOutsideAStep(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	b.took()
	if err := m.client.post(t.Context(), "/redfish/v1/x", nil); !errors.Is(err, driver.ErrRefused) || len(b.took()) > 0 {
		t.Errorf("got %v", err)
	}
}

// Without sessions all requests of a step go over one connection, which ends with
// the step.
func TestStepOverOneConnection(t *testing.T) {
	b, _, _ := expiring(t)
	b.answer("GET /redfish/v1/", text(`{}`))
	var mu sync.Mutex
	sources := map[string][]string{}
	serve := b.Config.Handler
	b.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		sources[r.RemoteAddr] = append(sources[r.RemoteAddr], r.Method)
		mu.Unlock()
		serve.ServeHTTP(w, r)
	})
	m := open(t, b.endpoint())
	if err := m.Apply(t.Context(), powerOff, &site.Node{}, nil); err != nil {
		t.Fatal(err)
	}
	var step []string
	for _, methods := range sources {
		if slices.Contains(methods, http.MethodPost) {
			step = methods
		}
	}
	// The other connection is that of the service root, which needs no login.
	if len(sources) != 2 || len(step) < 4 || step[0] != http.MethodGet {
		t.Errorf("the requests by connection were %v", sources)
	}
	if m.Binding() != site.BindingConnection {
		t.Errorf("the binding is %q", m.Binding())
	}
}

// How writes are bound is what was seen, and unknown before.
func TestBinding(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lab.MachineConfig)
		want   site.Binding
	}{
		"session":          {func(*lab.MachineConfig) {}, site.BindingSession},
		"connection":       {func(m *lab.MachineConfig) { m.BasicOnly = true }, site.BindingConnection},
		"closing":          {closing(lab.ClosesAnnounced), site.BindingNone},
		"closing silently": {closing(lab.ClosesSilently), site.BindingNone},
		"HTTP/1.0":         {closing(lab.ClosesOld), site.BindingNone},
	} {
		t.Run(name, func(t *testing.T) {
			shown := newTwinCertificate(t)
			synctest.Test(t, func(t *testing.T) {
				tw := newTwins(t, shown, breeds()[0], access{change: c.change}, stage{power: "off"})
				m := tw.open("m0", "")
				defer m.Close()
				if m.Binding() != site.BindingUnknown {
					t.Errorf("before the first request it is %q", m.Binding())
				}
				step := site.Step{Machine: site.Identity{UUID: twinUUID("m0")}, Action: site.ActionPowerOn}
				if err := m.Apply(t.Context(), step, &site.Node{}, nil); err != nil || m.Binding() != c.want {
					t.Errorf("got %v, %q", err, m.Binding())
				}
			})
		})
	}
}

// Where nothing binds a write, what destroys is refused before anything is
// written, again and again, until the design accepts it; other steps are taken.
func TestUnbound(t *testing.T) {
	shown := newTwinCertificate(t)
	for _, how := range lab.Closings {
		synctest.Test(t, func(t *testing.T) {
			tw := newTwins(t, shown, breeds()[0], access{change: closing(how)}, stage{power: "on"})
			m := tw.open("m0", "")
			defer m.Close()
			step := site.Step{Machine: site.Identity{UUID: twinUUID("m0")}, Action: site.ActionInstall, Image: testImage, Generation: 1, Impact: site.ImpactDestructive}
			for range 3 {
				err := m.Apply(t.Context(), step, &site.Node{}, drivertest.Permitted)
				if !errors.Is(err, driver.ErrRefused) || !strings.Contains(fmt.Sprint(err), `endpoints.manager.unbound: "accept"`) {
					t.Errorf("%s: got %v", how, err)
				}
			}
			off := site.Step{Machine: step.Machine, Action: site.ActionPowerOff, Impact: site.ImpactReboot}
			if n := tw.fleet.Machine("m0").Writes(); n != 0 {
				t.Errorf("%s: %d writes of what was refused", how, n)
			}
			if err := m.Apply(t.Context(), off, &site.Node{}, nil); err != nil {
				t.Errorf("%s: %v", how, err)
			}
			accepting := tw.open("m0", site.UnboundAccept)
			defer accepting.Close()
			if err := accepting.Apply(t.Context(), step, &site.Node{}, drivertest.Permitted); err != nil {
				t.Errorf("%s, accepted: %v", how, err)
			}
		})
	}
}

// A settings object that is another machine's ends the step too.
func TestSettingsOfAnotherMachine(t *testing.T) {
	for name, settings := range map[string]string{
		"by UUID":          `{"UUID":"` + other + `","Boot":{"BootSourceOverrideTarget":"None"}}`,
		"by serial number": `{"SerialNumber":"S2","Boot":{"BootSourceOverrideTarget":"None"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.answer("GET /redfish/v1/Systems/1", text(strings.Replace(healthySystem, `{"UUID"`, `{"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/sd"}},"UUID"`, 1)))
			b.answer("GET /sd", text(settings))
			m := open(t, b.endpoint())
			err := m.Apply(t.Context(), powerOff, &site.Node{}, nil)
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "another machine answers") || !strings.Contains(err.Error(), "nothing was written") {
				t.Errorf("got %v", err)
			}
			if n := b.count(resetRequest); n != 0 {
				t.Errorf("%d resets", n)
			}
		})
	}
}

const other = "3d1c0000-0000-4000-8000-000000000009"

// An answer that does not tell the identity contradicts nothing: some BMCs forget
// it while a machine starts.
func TestIdentityThatIsForgottenMeanwhile(t *testing.T) {
	b := newBMC(t)
	b.answer("GET /redfish/v1/Systems/1", systemIs("Off"))
	b.answer(resetRequest, func(w http.ResponseWriter, _ *http.Request) {
		b.answer("GET /redfish/v1/Systems/1", text(`{"UUID":null,"SerialNumber":"","PowerState":"On","Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}}}`))
		w.WriteHeader(http.StatusNoContent)
	})
	on := site.Step{Machine: site.Identity{UUID: uuid, Serial: "S1"}, Action: site.ActionPowerOn, AsSet: true}
	m := open(t, b.endpoint())
	if err := m.Apply(t.Context(), on, &site.Node{}, nil); err != nil {
		t.Error(err)
	}
	b.answer("GET /redfish/v1/Systems/1", text(`{"PowerState":"On","Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}}}`))
	off := on
	off.Action = site.ActionPowerOff
	if err := m.Apply(t.Context(), off, &site.Node{}, nil); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("a step that begins without an identity: %v", err)
	}
}

// A session on a BMC that keeps the context carries site and term; one that knows
// no such thing is logged in to as before, and no login is put at risk for it.
func TestSessionsAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lab.MachineConfig)
		named  bool
		logins int // of two handles one after the other
	}{
		"kept":                     {func(m *lab.MachineConfig) { m.SessionContext = true }, true, 3},
		"kept by an older one":     {func(m *lab.MachineConfig) { m.Personality, m.SessionContext = "xcc", true }, true, 3},
		"known and not kept":       {func(*lab.MachineConfig) {}, false, 3},
		"of an older schema":       {func(m *lab.MachineConfig) { m.Personality = "xcc" }, false, 2},
		"with room for one alone":  {func(m *lab.MachineConfig) { m.SessionContext, m.MaxSessions = true, 1 }, false, 2},
		"no sessions at all":       {func(m *lab.MachineConfig) { m.BasicOnly = true }, false, 0},
		"refused without a schema": {func(m *lab.MachineConfig) { m.Personality = "ilo5" }, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			shown := newTwinCertificate(t)
			synctest.Test(t, func(t *testing.T) {
				tw := newTwins(t, shown, breed{personality: "plain"}, access{change: c.change}, stage{power: "on"})
				m := tw.open("m0", "")
				m.Name("bologna", 7)
				if _, err := look(m, nil); err != nil {
					t.Fatal(err)
				}
				s := tw.fleet.Machine("m0").State()
				if want := min(1, c.logins); s.Sessions != want || s.Counts.Denied != 0 {
					t.Errorf("%d sessions are open, want %d; %d logins were denied", s.Sessions, want, s.Counts.Denied)
				}
				tw.fleet.Machine("m0").ForgetSessions()
				if _, err := look(m, nil); err != nil { // logs in again, the same way
					t.Fatal(err)
				}
				if n := tw.fleet.Machine("m0").Counts().Sessions; n != c.logins {
					t.Errorf("%d sessions were opened, want %d", n, c.logins)
				}
				contexts := tw.fleet.Machine("m0").SessionContexts()
				if named := slices.Equal(contexts, []string{"slipway:bologna:7"}); named != c.named {
					t.Errorf("the sessions are named %q", contexts)
				}
				m.Close()
			})
		})
	}
}

// A later term of the same site on the BMC is seen, and no other session is taken
// for one.
func TestOutranked(t *testing.T) {
	for text, want := range map[string]error{
		"slipway:bologna:8": driver.ErrOutranked, "slipway:bologna:7": nil, "slipway:bologna:6": nil, "slipway:milano:8": nil,
		"slipway:bologna:1000007": nil, "slipway:bologna:8x": nil, "slipway:bologna:-8": nil, "": nil, "slipway:bologna:18446744073709551616": nil,
	} {
		t.Run(text, func(t *testing.T) {
			shown := newTwinCertificate(t)
			synctest.Test(t, func(t *testing.T) {
				tw := newTwins(t, shown, breed{personality: "plain"}, access{change: func(m *lab.MachineConfig) { m.SessionContext = true }}, stage{power: "on"})
				tw.fleet.Machine("m0").OpenSession("admin", text)
				for _, before := range []bool{true, false} { // it is named before it logs in, or after
					m := tw.open("m0", "")
					if before {
						m.Name("bologna", 7)
					}
					if err := m.Outranked(t.Context()); err != nil {
						t.Errorf("before a login: %v", err)
					}
					if _, err := look(m, nil); err != nil {
						t.Fatal(err)
					}
					m.Name("bologna", 7)
					if err := m.Outranked(context.Background()); !errors.Is(err, want) || (err == nil) != (want == nil) {
						t.Errorf("named before %t: got %v, want %v", before, err, want)
					}
					m.Close()
				}
			})
		})
	}
}
