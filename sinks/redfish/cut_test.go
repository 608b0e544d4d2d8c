package redfish

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
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

// box is a machine of the laboratory in a bubble: it and the driver take as
// long as real ones, and that costs nothing.
type box struct {
	*lab.Machine
	fleet *lab.Fleet
	t     *testing.T
	lines pipes
	e     site.Endpoint
	node  site.Node
}

func inBox(t *testing.T, test func(t *testing.T, b *box), change ...func(*lab.MachineConfig)) {
	t.Helper()
	c := lab.MachineConfig{
		Name: "n1", BMCAddr: "127.67.0.1", Identity: site.Identity{UUID: uuid, Serial: "S1"},
		Username: "admin", Password: "hunter2", BootOrder: []string{"Hdd", "Pxe"},
	}
	for _, f := range change {
		f(&c)
	}
	synctest.Test(t, func(t *testing.T) { test(t, newBox(t, c)) })
}

func newBox(t *testing.T, c lab.MachineConfig) *box {
	f, err := lab.New(lab.Config{Seed: "box", LaxMedia: true, Machines: []lab.MachineConfig{c}, Latency: lab.Latency{
		GET: 100 * time.Millisecond, Write: 2 * time.Second, PowerOn: 30 * time.Second, PowerOff: 20 * time.Second,
		Boot: time.Minute, Install: 5 * time.Minute,
	}})
	if err != nil {
		t.Fatal(err)
	}
	shown := certificate(t, time.Now().Add(24*time.Hour))
	b := &box{
		Machine: f.Machine(c.Name), fleet: f, t: t, lines: pipes{make(chan net.Conn), make(chan struct{})},
		e: site.Endpoint{URL: "redfish+https://bmc/redfish/v1/Systems/1", Trust: site.Trust{Fingerprint: sum(shown.Leaf)}},
	}
	srv := &http.Server{Handler: b.Machine, ErrorLog: quiet}
	// A ticket is sent while the client sends too, and a pipe holds nothing.
	go srv.Serve(tls.NewListener(b.lines, &tls.Config{Certificates: []tls.Certificate{shown}, SessionTicketsDisabled: true}))
	t.Cleanup(func() {
		srv.Close()
		f.Close()
	})
	return b
}

// open makes a handle, as a daemon that has just started does.
func (b *box) open() *machine {
	h, err := New(Options{}).Open(b.t.Context(), b.e, secret.New("admin", "hunter2"))
	if err != nil {
		b.t.Fatal(err)
	}
	m := h.(*machine)
	m.client.http.Transport.(*wire).next.DialContext = b.lines.dial
	b.t.Cleanup(func() { m.Close() })
	return m
}

// apply takes a step with a handle of its own.
func (b *box) apply(ctx context.Context, a site.Action, resumed bool) error {
	step := site.Step{
		Machine: site.Identity{UUID: uuid}, Action: a, Resumed: resumed, Generation: 1,
		Image: &site.Image{URL: "http://127.0.0.1:1/n1.iso"}, // an installer that is booted is counted; it need not be fetched
	}
	return b.open().Apply(ctx, step, &b.node, drivertest.Permitted)
}

// medium is what the machine was given to install from.
func (b *box) medium() string {
	s := b.State()
	if b.node.Boot.InstallBy == installByHTTP {
		return s.BootURL
	}
	return s.Media
}

// boxes is inBox, of machines that are installed in one way.
type boxes func(t *testing.T, test func(t *testing.T, b *box), change ...func(*lab.MachineConfig))

// eachWay runs a test of machines that are installed by a virtual CD and by
// HTTP.
func eachWay(t *testing.T, test func(t *testing.T, in boxes)) {
	for _, by := range []string{"media", installByHTTP} {
		t.Run(by, func(t *testing.T) {
			test(t, func(t *testing.T, test func(t *testing.T, b *box), change ...func(*lab.MachineConfig)) {
				t.Helper()
				inBox(t, func(t *testing.T, b *box) {
					b.node.Boot.InstallBy = by
					test(t, b)
				}, change...)
			})
		})
	}
}

// must takes steps that may not fail.
func (b *box) must(actions ...site.Action) {
	b.t.Helper()
	for _, a := range actions {
		if err := b.apply(b.t.Context(), a, false); err != nil {
			b.t.Fatal(err)
		}
	}
}

// arm leaves the machine as an installation that was broken off before its
// last write does.
func (b *box) arm() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	b.fleet.Watch(func(_ int, c lab.Call) {
		if c.Write() && b.medium() != "" {
			cancel()
		}
	})
	defer b.fleet.Watch(nil)
	if err := b.apply(ctx, site.ActionInstall, false); !errors.Is(err, context.Canceled) || b.medium() == "" || b.Power() != "Off" {
		b.t.Fatalf("got %v and %+v", err, b.State())
	}
}

// unharmed holds that the machine runs the system that it always had.
func (b *box) unharmed(what string) {
	b.t.Helper()
	if m := b.State(); m.Power != "On" || m.Runs != "system" || m.DiskDigest != "factory" || m.Counts.Installers != 0 {
		b.t.Errorf("%s: the machine is %+v", what, m)
	}
}

// disarmed holds that nothing is left that would boot an installer.
func (b *box) disarmed(what string) {
	b.t.Helper()
	s, err := b.open().system(b.t.Context(), site.Identity{})
	if err != nil {
		b.t.Fatal(err)
	}
	if medium := b.State().Media; medium != "" || bootsCD(s) || bootsHTTP(s) {
		b.t.Errorf("%s: the drive holds %q, the next boot is %s", what, medium, s.object["Boot"])
	}
}

// pipes is a listener on connections within the process.
type pipes struct {
	calls chan net.Conn
	ended chan struct{}
}

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.calls <- theirs:
		return ours, nil
	case <-p.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.ended); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// isReset says whether a request is for a change of power.
func isReset(c lab.Call) bool { return c.Write() && strings.HasSuffix(c.Path, "ComputerSystem.Reset") }

// A request that the BMC has is not left to itself when the context ends: what
// became of it is known before anything else is done to the machine.
func TestWriteUnderWayIsSeenThrough(t *testing.T) {
	inBox(t, func(t *testing.T, b *box) {
		ctx, cancel := context.WithCancel(t.Context())
		b.fleet.Hold(func(_ int, c lab.Call) {
			if isReset(c) {
				cancel()
			}
		})
		if err := b.apply(ctx, site.ActionInstall, false); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if b.Resets() != 1 || b.Power() != "PoweringOn" {
			t.Errorf("apply came back with a reset under way: %d resets, the machine is %s", b.Resets(), b.Power())
		}
	})
}

// An installation that was broken off before its last write does not come
// about by a plain power-on, whether it is the first try or a further one, and
// whether the override or the boot order would lead to the medium.
func TestPowerOnTakesBackWhatIsLeft(t *testing.T) {
	first := func(c *lab.MachineConfig) { c.BootOrder = []string{"Cd", "UefiHttp", "Hdd"} }
	eachWay(t, func(t *testing.T, in boxes) {
		for _, resumed := range []bool{false, true} {
			in(t, func(t *testing.T, b *box) {
				b.arm()
				if err := b.apply(t.Context(), site.ActionPowerOn, resumed); err != nil {
					t.Fatal(err)
				}
				b.unharmed("override and medium")
				b.disarmed("override and medium")
				if left := b.medium(); left != "" {
					t.Errorf("%q is left", left)
				}
			})
			in(t, func(t *testing.T, b *box) {
				b.arm()
				h := b.open()
				mayWrite(t, h)
				if err := h.client.patch(t.Context(), "/redfish/v1/Systems/1", nil, boot{Enabled: "Disabled"}.body()); err != nil {
					t.Fatal(err)
				}
				if err := b.apply(t.Context(), site.ActionPowerOn, resumed); err != nil {
					t.Fatal(err)
				}
				b.unharmed("medium and boot order")
				b.disarmed("medium and boot order")
			}, first)
		}
	})
}

// A power-on that is itself broken off anywhere, and taken up, is as safe.
func TestPowerOnCutAnywhere(t *testing.T) {
	eachWay(t, func(t *testing.T, in boxes) {
		for k, done := 1, false; !done; k++ {
			in(t, func(t *testing.T, b *box) {
				b.arm()
				err := b.cutAt(k, 0, func(ctx context.Context) error { return b.apply(ctx, site.ActionPowerOn, false) })
				if done = err == nil; err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				if err := b.apply(t.Context(), site.ActionPowerOn, true); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("cut at request %d", k)
				b.unharmed(what)
				b.disarmed(what)
			})
		}
	})
}

// cutAt does something whose context ends when the BMC receives its kth
// request. A write among them is carried out only after a time.
func (b *box) cutAt(k int, late time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	b.fleet.Hold(func(_ int, c lab.Call) {
		if k--; k != 0 {
			return
		}
		cancel()
		if c.Write() {
			time.Sleep(late)
		}
	})
	defer b.fleet.Hold(nil)
	return do(ctx)
}

// An installation that is broken off at any of its requests has either sent
// its last write, and that is known when Apply comes back, or does not come
// about by a power-on, however late the BMC carries out what it received.
func TestInstallationCutAnywhere(t *testing.T) {
	const answer = 15 * time.Second
	for name, c := range map[string]struct {
		power string
		late  time.Duration
	}{
		"off":                               {"off", 0},
		"on":                                {"on", 0},
		"off, late, as the power-on begins": {"off", answer + 5*time.Second},
		"off, long after":                   {"off", answer + 5*time.Minute},
		"on, late, as the power-on begins":  {"on", answer + 5*time.Second},
		"on, long after":                    {"on", answer + 5*time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, in boxes) {
				for k, more := 1, true; more; k++ {
					in(t, func(t *testing.T, b *box) { more = b.installCutAt(k, c.late) }, func(m *lab.MachineConfig) { m.Power = c.power })
				}
			})
		})
	}
}

// installCutAt says whether there are later requests to break off at.
func (b *box) installCutAt(k int, late time.Duration) bool {
	b.t.Helper()
	booted := func() bool { return b.medium() != "" && b.Power() != "Off" }
	ordered := b.cutAt(k, late, func(ctx context.Context) error {
		err := b.apply(ctx, site.ActionInstall, false)
		if err != nil && !errors.Is(err, context.Canceled) {
			b.t.Fatalf("cut at request %d: %v", k, err)
		}
		return err
	}) == nil
	if ordered || booted() {
		return false // it is under way, and whoever looks sees it
	}
	what := fmt.Sprintf("cut at request %d", k)
	b.powerOn()
	b.unharmed(what)
	time.Sleep(time.Hour) // whatever is late has come
	b.must(site.ActionPowerOff, site.ActionPowerOn)
	what += ", an hour later"
	b.unharmed(what)
	b.disarmed(what)
	return true
}

// powerOn tries until it succeeds, as the engine does.
func (b *box) powerOn() {
	b.t.Helper()
	err := b.apply(b.t.Context(), site.ActionPowerOn, false)
	for range 5 {
		if !errors.Is(err, driver.ErrBusy) {
			break
		}
		time.Sleep(10 * time.Second)
		err = b.apply(b.t.Context(), site.ActionPowerOn, true)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// An installation that the machine refuses at its last write is not taken up
// again, and must not come about when somebody presses the power button.
func TestRefusedInstallationLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		thenHeals bool
		says      string
	}{
		"taken back":      {true, ""},
		"cannot be taken": {false, "may boot the installer when it is switched on"},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, in boxes) {
				in(t, func(t *testing.T, b *box) {
					b.fleet.Hold(func(_ int, call lab.Call) {
						switch {
						case isReset(call):
							b.SetFault(lab.Fault{Kind: lab.FaultNoEffect})
						case c.thenHeals && call.Write():
							b.ClearFault()
						}
					})
					err := b.apply(t.Context(), site.ActionInstall, false)
					if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "waited for the machine to be on") || !strings.Contains(err.Error(), c.says) {
						t.Fatalf("got %v", err)
					}
					if !c.thenHeals {
						return
					}
					b.disarmed("refused")
					b.SetPower("on")
					b.unharmed("refused, then switched on")
				})
			})
		})
	}
}

// A BMC that does not show its drives can be switched all the same; one that
// cannot show them now is asked again.
func TestPowerOnWithoutADrive(t *testing.T) {
	for status, want := range map[int]error{403: nil, 404: nil, 501: nil, 503: driver.ErrBusy} {
		b := newBMC(t)
		b.answer("GET /redfish/v1/Systems/1", systemIs(`Off","VirtualMedia":{"@odata.id":"/media"},"x":"`))
		b.answer("GET /media", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		b.answer(resetRequest, func(w http.ResponseWriter, _ *http.Request) {
			b.answer("GET /redfish/v1/Systems/1", systemIs("On"))
			w.WriteHeader(http.StatusNoContent)
		})
		if err := powerOn(t, b); !errors.Is(err, want) {
			t.Errorf("%d: got %v, want %v", status, err, want)
		}
		if n := b.count(resetRequest); (n == 1) != (want == nil) {
			t.Errorf("%d: the machine was switched %d times", status, n)
		}
	}
}

// A BMC that has a write and is silent holds nobody up for long once the
// context has ended.
func TestSilenceToAWriteIsBounded(t *testing.T) {
	inBox(t, func(t *testing.T, b *box) {
		ended := make(chan time.Time, 1)
		h := b.open()
		mayWrite(t, h)
		err := b.cutAt(1, time.Minute, func(ctx context.Context) error {
			context.AfterFunc(ctx, func() { ended <- time.Now() })
			return h.client.post(ctx, "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", map[string]string{"ResetType": "On"})
		})
		if took := time.Since(<-ended); !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.Canceled) || took != 15*time.Second {
			t.Errorf("got %v after %s", err, took)
		}
		time.Sleep(time.Hour)
		if b.Resets() != 1 {
			t.Error("the write was not carried out")
		}
	})
}

// A write whose context ends before it is sent is not sent any more.
func TestWriteIsCalledOff(t *testing.T) {
	inBox(t, func(t *testing.T, b *box) {
		h := b.open()
		mayWrite(t, h)
		h.client.http.CloseIdleConnections()
		ctx, cancel := context.WithCancel(t.Context())
		w := h.client.http.Transport.(*wire)
		w.next.DialContext = func(_ context.Context, network, addr string) (net.Conn, error) {
			cancel()
			return b.lines.dial(t.Context(), network, addr)
		}
		began := time.Now()
		err := h.client.post(ctx, "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", map[string]string{"ResetType": "On"})
		if !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		time.Sleep(time.Hour)
		if b.Writes() != 0 {
			t.Error("the write was sent")
		}
	})
}

// A machine that is off takes over what waits when it is switched on: that boot
// is waited for, and not cut off by another one.
func TestPowerOnTakesSettingsOver(t *testing.T) {
	inBox(t, func(t *testing.T, b *box) {
		node := &site.Node{BIOS: site.BIOS{Attributes: map[string]any{"HyperThreading": "Disabled"}}}
		for _, a := range []site.Action{site.ActionBIOS, site.ActionPowerOn} {
			step := site.Step{Machine: site.Identity{UUID: uuid}, Action: a}
			if err := b.open().Apply(t.Context(), step, node, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
		}
		seen, err := b.open().Observe(t.Context(), node, []site.Facet{site.FacetBIOS})
		if st := seen.Facets[site.FacetBIOS]; err != nil || st.Have["HyperThreading"] != "Disabled" || len(st.Pending) > 0 {
			t.Errorf("once it is on: %+v, %v", st, err)
		}
		if b.Resets() != 1 {
			t.Errorf("%d resets", b.Resets())
		}
	}, func(c *lab.MachineConfig) { c.Power = "off" })
}

// A step whose term ends after any of its writes sends no further one, whatever the driver was doing:
// it asks the term, and does not wait for its context to end.
func TestNoWriteAfterTheEndOfTheTerm(t *testing.T) {
	eachWay(t, func(t *testing.T, in boxes) {
		for n, through := 0, false; !through; n++ {
			in(t, func(t *testing.T, b *box) {
				var writes atomic.Int32
				b.fleet.Watch(func(_ int, c lab.Call) {
					if c.Write() {
						writes.Add(1)
					}
				})
				over := errors.New("the lease of term 3 could not be renewed in time")
				ctx := driver.WhileAllowed(b.t.Context(), func() error {
					if int(writes.Load()) >= n {
						return over
					}
					return nil
				})
				err := b.apply(ctx, site.ActionInstall, false)
				b.fleet.Watch(nil)
				if through = err == nil; through {
					if n < 3 {
						t.Errorf("got through with %d writes", n)
					}
					return
				}
				if int(writes.Load()) != n || !errors.Is(err, driver.ErrInterrupted) || !errors.Is(err, over) {
					t.Errorf("%d writes before the end of the term and %d in all: %v", n, writes.Load(), err)
				}
			})
		}
	})
}
