package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/discovery"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// sweeper is a driver whose network has a controller at some addresses.
type sweeper struct {
	driver.Driver
	at     []string
	denies bool
	broken error // of a sweep

	mu     sync.Mutex
	sweeps []driver.Sweep
	opened []string
}

func (s *sweeper) Discover(_ context.Context, w driver.Sweep) error {
	s.mu.Lock()
	s.sweeps = append(s.sweeps, w)
	s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	all, err := w.Addresses()
	if err != nil {
		return err
	}
	for i, a := range all {
		for _, at := range s.at {
			if a.String() == at {
				w.Found(driver.Found{Address: a, URL: "redfish+https://" + at})
			}
		}
		w.Asked(i+1, len(all))
	}
	return nil
}

func (s *sweeper) Open(ctx context.Context, e site.Endpoint, v secret.Value) (driver.Machine, error) {
	s.mu.Lock()
	s.opened = append(s.opened, e.URL)
	s.mu.Unlock()
	if s.denies {
		return nil, driver.ErrDenied
	}
	return s.Driver.Open(ctx, e, v)
}

// made are the sweeps so far.
func (s *sweeper) made() []driver.Sweep {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sweeps)
}

func (s *sweeper) opens(url string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.opened {
		if u == url {
			n++
		}
	}
	return n
}

// The daemon sweeps the ranges that the design names and proposes what to
// change; it writes to nothing that it meets, and leaves the nodes' controllers
// to their workers.
func TestTheDaemonSweeps(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		net := &sweeper{Driver: w.fleet.Driver(), at: []string{"10.9.0.1", "10.9.0.2", "10.9.0.3"}}
		w.bmcs = net
		s := w.design("10.9.0.1", "10.9.0.2")
		gone := s.Nodes["10.9.0.2"]
		gone.Endpoints[site.Manager] = site.Endpoint{URL: "redfish+https://10.9.0.77", Credential: "bmc"}
		s.Discovery = &site.Discovery{Ranges: []string{"10.9.0.0/28"}, Every: site.Duration(time.Hour), Credential: "bmc"}
		w.commit(s)
		w.up()
		swept := func() *site.Swept { return w.engine.Report().Status.Swept }
		w.until("a sweep", 5*time.Minute, func() bool { return swept() != nil })

		if got := swept(); got.Addresses != 16 || got.Answered != 3 || got.Known != 1 || len(got.Met) != 2 {
			t.Fatalf("%+v", got)
		}
		moved, unknown := swept().Met[0], swept().Met[1]
		if moved.Standing.Kind != site.StandingMoved || moved.Standing.Node != "10.9.0.2" || !strings.Contains(moved.Standing.Want, "10.9.0.2") {
			t.Errorf("%+v", moved.Standing)
		}
		if unknown.Standing.Kind != site.StandingUnknown || !strings.Contains(unknown.Standing.CUE, w.fleet.Machine("10.9.0.3").Identity().UUID) {
			t.Errorf("%+v", unknown.Standing)
		}
		if net.made()[0].AtOnce > 64 || net.opens("redfish+https://10.9.0.1") > 0 {
			t.Errorf("%d addresses at once, opened %d times", net.made()[0].AtOnce, net.opens("redfish+https://10.9.0.1"))
		}
		for _, c := range w.fleet.Calls() {
			if c.Machine != "10.9.0.1" {
				t.Errorf("%s was written to", c.Machine)
			}
		}

		w.after(50 * time.Minute)
		if n := len(net.made()); n != 1 {
			t.Errorf("%d sweeps within an hour", n)
		}
		w.until("another sweep", time.Hour, func() bool { return len(net.made()) == 2 })

		other := w.design("10.9.0.1")
		w.commit(other)
		w.until("no sweep without ranges", 5*time.Minute, func() bool { return swept() == nil })
	}, "10.9.0.1", "10.9.0.2", "10.9.0.3")
}

// What is wrong with a sweep is over when the design asks for none.
func TestASweepThatFailedIsNoProblemOnceNoneIsDesigned(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.bmcs = &sweeper{Driver: w.fleet.Driver(), broken: errors.New("no route")}
		s := w.design()
		s.Discovery = &site.Discovery{Ranges: []string{"10.9.0.0/28"}, Every: site.Duration(time.Hour)}
		w.commit(s)
		w.up()
		isTold := func() bool {
			return slices.ContainsFunc(w.engine.Report().Status.Problems, func(p site.Problem) bool { return p.About == "discovery" })
		}
		w.until("the problem", 5*time.Minute, isTold)
		w.commit(w.design())
		w.until("no problem without ranges", 5*time.Minute, func() bool { return !isTold() })
	})
}

// A credential that was not accepted is not sent again by the next sweep.
func TestASweepDoesNotTryADeniedCredentialAgain(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		net := &sweeper{Driver: w.fleet.Driver(), at: []string{"10.9.0.3"}, denies: true}
		w.bmcs = net
		s := w.design()
		s.Discovery = &site.Discovery{Ranges: []string{"10.9.0.0/28"}, Every: site.Duration(time.Hour), Credential: "bmc"}
		w.commit(s)
		w.up()
		w.until("three sweeps", 5*time.Hour, func() bool { return len(net.made()) == 3 })
		w.after(time.Minute)
		if n := net.opens("redfish+https://10.9.0.3"); n != 1 {
			t.Errorf("it was sent %d times", n)
		}
		if m := w.engine.Report().Status.Swept.Met; len(m) != 1 || m[0].Standing.Kind != site.StandingUnread || !strings.Contains(m[0].Why, "does not send it again") {
			t.Errorf("%+v", m)
		}
	}, "10.9.0.3")
}

// A wrong password is not tried at every controller, which would lock the
// account in a directory that they share; of the others it is told why they were
// left alone.
func TestASurveyEndsAfterTwoDenials(t *testing.T) {
	net := &sweeper{denies: true, at: addresses(100)}
	met, _, err := surveyOf(net).Run(t.Context())
	left := slices.DeleteFunc(slices.Clone(met), func(m site.Met) bool {
		return !strings.Contains(m.Why, `credential "bmc" was not accepted by 10.9.0.`) || !strings.Contains(m.Why, "Slipway sent it to no other")
	})
	if err != nil || len(net.opened) != 2 || len(met) != 100 || len(left) != 98 {
		t.Errorf("%v, sent to %v, %d met, %d left", err, net.opened, len(met), len(left))
	}
}

// What two controllers have denied is sent to no other by later surveys either,
// until it is another.
func TestASurveyRemembersWhatWasDenied(t *testing.T) {
	var denied sync.Map
	net := &sweeper{denies: true, at: addresses(5)}
	for _, password := range []string{"old", "old", "new", "new"} {
		s := surveyOf(net)
		s.Denied, s.Secrets = &denied, theSecret(password)
		if _, _, err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := map[string]int{"old": 2, "new": 4}[password]; len(net.opened) != want {
			t.Errorf("with the %s one sent to %v, want %d", password, net.opened, want)
		}
	}
}

// theSecret is the password of every credential.
type theSecret string

func (s theSecret) Get(secret.Request) (secret.Value, error) {
	return secret.New("root", string(s)), nil
}

// A credential is sent to one controller at a time until one has taken it, and
// to many from then on, whoever of them denies it. One that is slow keeps the
// others waiting for a few seconds, and one whose machines are slow to look at
// does not.
func TestASurveySendsToOneControllerFirst(t *testing.T) {
	for name, c := range map[string]struct {
		login func(nth int) (time.Duration, error)
		begun []time.Duration // of the first logins; the others are with the last of them
		left  int             // how many are not looked into
	}{
		"taken by the second": {func(nth int) (time.Duration, error) {
			return time.Second, map[int]error{0: driver.ErrDenied, 2: driver.ErrDenied, 3: driver.ErrDenied}[nth]
		}, []time.Duration{0, time.Second, 2 * time.Second}, 3},
		"the first are slow": {func(nth int) (time.Duration, error) {
			if nth < 2 {
				return time.Minute, driver.ErrUnreachable
			}
			return 0, nil
		}, []time.Duration{0, 5 * time.Second, 10 * time.Second}, 2},
		"the first break off": {func(nth int) (time.Duration, error) {
			if nth < 3 {
				return time.Second, driver.ErrUnreachable
			}
			return 0, nil
		}, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := addresses(40)
				net := &unhurried{sweeper: sweeper{Driver: drivertest.NewFleet(drivertest.Config{}, at...).Driver(), at: at}, login: c.login}
				began := time.Now()
				met, _, err := surveyOf(net).Run(t.Context())
				left := slices.DeleteFunc(slices.Clone(met), func(m site.Met) bool { return m.Why == "" })
				if err != nil || len(met) != 40 || len(left) != c.left || len(net.begun) != 40 {
					t.Fatalf("%v, met %d, left %+v, sent %d times", err, len(met), left, len(net.begun))
				}
				for i, at := range net.begun {
					if want := c.begun[min(i, len(c.begun)-1)]; at.Sub(began) != want {
						t.Errorf("login %d after %s, want %s", i, at.Sub(began), want)
					}
				}
			})
		})
	}
}

// A survey that waits for a login ends with its context.
func TestASurveyEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		net := &unhurried{sweeper: sweeper{at: addresses(3)}, login: func(int) (time.Duration, error) { return 4 * time.Second, driver.ErrUnreachable }}
		if _, _, err := surveyOf(net).Run(ctx); !errors.Is(err, context.DeadlineExceeded) || len(net.begun) != 1 {
			t.Errorf("%v, sent %d times", err, len(net.begun))
		}
	})
}

// unhurried is a network whose logins take their time.
type unhurried struct {
	sweeper
	login func(nth int) (time.Duration, error)
	begun []time.Time
}

func (l *unhurried) Open(ctx context.Context, e site.Endpoint, v secret.Value) (driver.Machine, error) {
	l.mu.Lock()
	takes, err := l.login(len(l.begun))
	l.begun = append(l.begun, time.Now())
	l.mu.Unlock()
	<-time.After(takes)
	if err != nil {
		return nil, err
	}
	return l.Driver.Open(ctx, e, v)
}

// addresses are the first addresses of the network.
func addresses(n int) (at []string) {
	for i := range n {
		at = append(at, fmt.Sprintf("10.9.0.%d", i+1))
	}
	return at
}

func surveyOf(d driver.Driver) discovery.Survey {
	return discovery.Survey{
		Drivers: map[string]driver.Driver{"redfish": d}, Ranges: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")},
		Credential: "bmc", Secrets: anySecret{}, Trust: func(driver.Found) (site.Trust, error) { return site.Trust{}, nil },
	}
}

// Without a credential, and where the account is for other hosts, nobody is
// logged in to.
func TestASurveyThatMayNotLogIn(t *testing.T) {
	for name, s := range map[string]discovery.Survey{
		"no credential": {},
		"other hosts":   {Credential: "bmc", Secrets: noSecret{}, Trust: func(driver.Found) (site.Trust, error) { return site.Trust{}, nil }},
		"not trusted":   {Credential: "bmc", Secrets: anySecret{}, Trust: func(driver.Found) (site.Trust, error) { return site.Trust{}, errors.New("a stranger") }},
	} {
		net := &sweeper{at: []string{"10.9.0.3"}}
		s.Drivers, s.Ranges = map[string]driver.Driver{"redfish": net}, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/28")}
		met, answered, err := s.Run(t.Context())
		if err != nil || answered != 1 || len(met) != 1 || met[0].Why == "" || len(net.opened) > 0 {
			t.Errorf("%s: %+v, %v, opened %v", name, met, err, net.opened)
		}
	}
}

type noSecret struct{}

func (noSecret) Get(secret.Request) (secret.Value, error) { return secret.Value{}, secret.ErrHost }
