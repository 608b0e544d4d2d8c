package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// verify has nodes looked at, waits until the run is over and returns what is known then.
func (w *world) verify(nodes ...string) site.Verification {
	w.t.Helper()
	run, err := w.engine.Verify(w.t.Context(), site.VerificationRequest{Nodes: nodes, By: "tester"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.until("the run is over", 4*time.Minute, func() bool {
		v := w.engine.Verification()
		return v.Run.Since.Equal(run.Since) && v.Run.IsOver(v.When)
	})
	return w.engine.Verification()
}

// check is the check of a kind, of a node or of something of the site.
func check(v site.Verification, node, kind string) site.Check {
	i := slices.IndexFunc(v.Checks, func(c site.Check) bool {
		return c.Node == node && c.Kind == kind && (node == "" || c.Subject == string(site.Manager))
	})
	if i < 0 {
		return site.Check{}
	}
	return v.Checks[i]
}

func wantCheck(t *testing.T, v site.Verification, node, kind string, o site.Outcome, phrase string) {
	t.Helper()
	if c := check(v, node, kind); c.Outcome != o || !strings.Contains(c.Sentence, phrase) {
		t.Errorf("%s of %s is %q (%s), want %q with %q", kind, node, c.Outcome, c.Sentence, o, phrase)
	}
}

func TestVerifySaysWhatTheLooksShow(t *testing.T) {
	inBubble(t, guardedSite("right"), func(w *world) {
		w.password("right")
		w.seeing(names(5)...)
		for _, name := range names(5) {
			w.want(name, site.InSync)
		}
		reads := w.fleet.Machine("n5").Counts().Reads
		w.until("n5 was looked at", 2*time.Minute, func() bool { return w.fleet.Machine("n5").Counts().Reads > reads })
		w.after(time.Second) // no look at n5 is under way
		began := time.Now()
		for name, fault := range map[string]drivertest.Fault{"n2": drivertest.WrongMachine, "n3": drivertest.Unreachable, "n4": drivertest.Denied, "n5": drivertest.Hangs} {
			w.fleet.Machine(name).SetFault(fault)
		}
		v := w.verify()
		if v.Run.Nodes != 5 || v.Run.Looked != 5 || v.Run.By != "tester" {
			t.Errorf("the run is %+v", *v.Run)
		}
		for _, c := range v.Checks {
			if accepted := c.Kind == site.CheckCredential && c.Outcome == site.CheckOK; c.Node != "" && c.Seen.Before(v.Run.Since) != accepted {
				t.Errorf("%+v was seen at a wrong time", c)
			}
		}
		wantCheck(t, v, "n1", site.CheckEndpoint, site.CheckOK, "it answers")
		wantCheck(t, v, "n1", site.CheckCredential, site.CheckOK, `credential "bmc" was accepted at 2000-01-01 00:00:0`)
		wantCheck(t, v, "n1", site.CheckMachine, site.CheckOK, "the designed machine")
		wantCheck(t, v, "n2", site.CheckMachine, site.CheckWrong, "another machine answers")
		wantCheck(t, v, "n3", site.CheckEndpoint, site.CheckWrong, "no route")
		wantCheck(t, v, "n3", site.CheckCredential, site.CheckUnknown, "was not tried")
		wantCheck(t, v, "n4", site.CheckCredential, site.CheckWrong, "was denied at ")
		wantCheck(t, v, "n5", site.CheckEndpoint, site.CheckWrong, "does not answer")
		wantCheck(t, v, "", site.CheckRepository, site.CheckOK, "was read")
		w.do(site.Order{Verb: site.VerbRetry, Node: "n4"})
		w.fleet.Machine("n4").SetFault(drivertest.Healthy)
		w.after(10 * time.Second)
		if c := check(w.engine.Verification(), "n4", site.CheckCredential); c.Outcome != site.CheckOK || c.Seen.Before(began) {
			t.Errorf("after the next login: %+v", c)
		}

		w.source.vanish(errors.New("the remote is silent"))
		w.after(time.Minute)
		v = w.engine.Verification()
		wantCheck(t, v, "", site.CheckProblem, site.CheckWrong, "the remote is silent")
		if c := check(v, "", site.CheckRepository); c.Outcome != "" {
			t.Errorf("%+v, although the repository has a problem", c)
		}
	}, names(5)...)
}

// What was seen of an endpoint says nothing about the one that the design has in its place.
func TestVerifyDoesNotClaimAnEndpointThatMoved(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.seeing("n1")
		wantCheck(t, w.verify(), "n1", site.CheckEndpoint, site.CheckOK, "")
		w.fleet.Machine("n1").SetFault(drivertest.Hangs)
		d = clone(d)
		moved := d.Nodes["n1"].Endpoints[site.Manager]
		moved.URL += "/"
		d.Nodes["n1"].Endpoints[site.Manager] = moved
		w.commit(d)
		w.after(20 * time.Second)
		wantCheck(t, w.engine.Verification(), "n1", site.CheckEndpoint, site.CheckUnknown, "changed the endpoint")
	}, "n1")
}

// Looks that people ask for send a wrong password to no machine, however often they ask.
func TestVerifyTriesNoPasswordAgain(t *testing.T) {
	inBubble(t, guardedSite("right"), func(w *world) {
		w.password("wrong")
		w.seeing(names(20)...)
		w.logins("before", 2, names(20)...)
		for range 2 {
			v := w.verify()
			w.logins("after a run", 2, names(20)...)
			count := map[site.Outcome]int{}
			for _, name := range names(20) {
				c := check(v, name, site.CheckCredential)
				count[c.Outcome]++
				if c.Outcome == site.CheckWrong && !c.Seen.Before(v.Run.Since) {
					t.Errorf("%s is said to have denied the password in the run: %+v", name, c)
				}
				if o := check(v, name, site.CheckEndpoint).Outcome; o != site.CheckUnknown {
					t.Errorf("the endpoint of %s is %s, although nobody asked it", name, o)
				}
			}
			if count[site.CheckWrong] != 2 || count[site.CheckUnknown] != 18 {
				t.Errorf("the credentials are %v, want 2 wrong and 18 unknown", count)
			}
			wantCheck(t, v, "", site.CheckProblem, site.CheckWrong, `credential "bmc" was denied by`)
		}
		w.password("right")
		w.verify()
		w.logins("with the right password", 2, names(20)...)
		wantCheck(t, w.engine.Verification(), "n7", site.CheckCredential, site.CheckOK, "")
	}, names(20)...)
}

// A login that ends without an answer that accepts the password may have counted against the
// account: 20 machines get the password as often as if nobody asked for looks.
func TestVerifySendsNoPasswordThatNothingAccepted(t *testing.T) {
	for _, fault := range []drivertest.Fault{drivertest.Busy, drivertest.Garbled, drivertest.Unreachable} {
		t.Run(string(fault), func(t *testing.T) {
			sent := func(verify bool) (n int) {
				inBubble(t, guardedSite("right"), func(w *world) {
					w.password("right")
					for _, name := range names(20) {
						w.fleet.Machine(name).SetFault(fault)
					}
					w.seeing(names(20)...)
					for range 60 {
						if verify {
							if _, err := w.engine.Verify(w.t.Context(), site.VerificationRequest{By: "tester"}); err != nil {
								t.Fatal(err)
							}
						}
						w.after(7 * time.Second)
					}
					for _, name := range names(20) {
						n += w.fleet.Machine(name).Counts().Logins
					}
					if verify {
						v := w.verify()
						told := slices.DeleteFunc(names(20), func(name string) bool {
							e, c := check(v, name, site.CheckEndpoint), check(v, name, site.CheckCredential)
							return e.Outcome != site.CheckUnknown || !strings.Contains(e.Sentence, "`slipway retry "+name+"` asks now") || !strings.Contains(c.Sentence, "was not tried: not asked, because ")
						})
						if len(told) < 15 { // Slipway looks at some by itself
							t.Errorf("only %v say why they were not asked: %+v", told, v.Checks)
						}
					}
				}, names(20)...)
				return n
			}
			// Machines wait for each other's answers, so the order and the number differ a little.
			if without, with := sent(false), sent(true); with > without+10 || without < 20 {
				t.Errorf("the password was sent %d times with looks that people asked for, and %d times without", with, without)
			}
		})
	}
}

// A machine that names a time is not asked before, also where Slipway has a session with it.
func TestVerifyWaitsAsLongAsTheMachineAsks(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.seeing("n1")
		w.fleet.Machine("n1").SetFault(drivertest.Busy)
		w.until("n1 is busy", 2*time.Minute, w.is(site.Retrying, "n1"))
		requests := w.fleet.Machine("n1").Requests()
		v := w.verify("n1")
		wantCheck(t, v, "n1", site.CheckEndpoint, site.CheckUnknown, "the machine asked to wait until ")
		if n := w.fleet.Machine("n1").Requests(); n != requests {
			t.Errorf("n1 got %d requests", n-requests)
		}
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		w.after(2 * time.Second)
		if w.fleet.Machine("n1").Requests() == requests {
			t.Error("`slipway retry` did not ask n1")
		}
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.after(drivertest.BusySeconds * time.Second)
		wantCheck(t, w.verify("n1"), "n1", site.CheckEndpoint, site.CheckOK, "it answers")
	}, "n1")
}

// shut is a driver that opens no endpoint.
type shut struct{ driver.Driver }

func (shut) Open(context.Context, site.Endpoint, secret.Value) (driver.Machine, error) {
	return nil, fmt.Errorf("%w: the path names no system", driver.ErrRefused)
}

// What was not asked is not wrong.
func TestVerifyDoesNotBlameAnEndpointThatWasNotAsked(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.bmcs = shut{w.fleet.Driver()}
		w.seeing("n1")
		v := w.verify()
		wantCheck(t, v, "n1", site.CheckEndpoint, site.CheckUnknown, "not asked: ")
		wantCheck(t, v, "n1", site.CheckCredential, site.CheckUnknown, "the path names no system")
	}, "n1")
}

// The installed systems are asked too, or it is said why they were not.
func TestVerifyAsksTheSystems(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.service(names(3)...)
		d.Nodes["n2"].Power = "off"
		for _, name := range []string{"n1", "n3"} {
			w.fleet.Machine(name).SetDisk(&site.Marker{})
			w.fleet.Machine(name).SetPower("on")
		}
		w.commit(d)
		w.up()
		w.after(3 * time.Minute)
		w.fleet.Machine("n3").SetFault(drivertest.Unreachable)
		v := w.verify()
		for name, want := range map[string]struct {
			outcome site.Outcome
			phrase  string
		}{
			"n1": {site.CheckOK, "it answers"},
			"n2": {site.CheckUnknown, "not asked, because the machine is not on"},
			"n3": {site.CheckUnknown, "not asked, because the machine could not be looked at"},
		} {
			i := slices.IndexFunc(v.Checks, func(c site.Check) bool {
				return c.Node == name && c.Subject == string(site.OS) && c.Kind == site.CheckEndpoint
			})
			if c := v.Checks[i]; c.Outcome != want.outcome || c.Sentence != want.phrase || c.Seen.Before(v.Run.Since) {
				t.Errorf("the system of %s: %+v, want %s with %q", name, c, want.outcome, want.phrase)
			}
		}
	}, names(3)...)
}

func TestVerifyJoinsTheRunUnderWay(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.seeing("n1", "n2")
		w.fleet.Machine("n1").SetFault(drivertest.Hangs)
		ask := func(by string, nodes ...string) site.VerificationRun {
			run, err := w.engine.Verify(w.t.Context(), site.VerificationRequest{Nodes: nodes, By: by})
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		first := ask("ana", "n1")
		if first.Joined || first.Nodes != 1 || first.Looked != 0 {
			t.Errorf("the first run is %+v", first)
		}
		w.after(5 * time.Second)
		reads := w.fleet.Machine("n2").Counts().Reads
		second := ask("bob")
		if !second.Joined || !second.Since.Equal(first.Since) || second.By != "ana" || second.Nodes != 2 {
			t.Errorf("who joins gets %+v", second)
		}
		w.after(5 * time.Second)
		once := w.fleet.Machine("n2").Counts().Reads
		if once == reads {
			t.Error("the joined node was not looked at")
		}
		third := ask("carol")
		if !third.Joined || third.Nodes != 2 || third.Looked != 0 {
			t.Errorf("who asks for a node that was looked at before gets %+v", third)
		}
		asked := time.Now()
		w.after(5 * time.Second)
		if w.fleet.Machine("n2").Counts().Reads == once {
			t.Error("n2 was not looked at again for who asked after its look")
		}
		if c := check(w.engine.Verification(), "n2", site.CheckEndpoint); c.Outcome != site.CheckOK || c.Seen.Before(asked) {
			t.Errorf("who asked at %s gets %+v", asked, c)
		}
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.verify()
		if next := ask("dan"); next.Joined || !next.Since.After(first.Since) {
			t.Errorf("the next run is %+v", next)
		}
		if _, err := w.engine.Verify(w.t.Context(), site.VerificationRequest{Nodes: []string{"n9"}}); !errors.Is(err, site.ErrNotFound) {
			t.Errorf("a node that does not exist: %v", err)
		}
	}, "n1", "n2")
}

// A look that somebody asks for sees a machine at once that is back, and leaves the wait after
// the failure, and pauses, as they are.
func TestVerifyShortensNoWait(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.seeing("n1")
		w.fleet.Machine("n1").SetFault(drivertest.Unreachable)
		w.after(10 * time.Minute)
		w.want("n1", site.Retrying)
		w.do(site.Order{Verb: site.VerbPause, Reason: "works"})
		w.after(time.Second)
		before := w.node("n1").Retry
		if time.Until(before) < time.Minute {
			w.after(time.Until(before) + time.Minute)
			before = w.node("n1").Retry
		}
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		v := w.verify("n1")
		wantCheck(t, v, "n1", site.CheckEndpoint, site.CheckOK, "it answers")
		n := w.node("n1")
		if !n.Retry.Equal(before) || n.State != site.Retrying {
			t.Errorf("n1 is %s and tried again at %s, want %s", n.State, n.Retry, before)
		}
		if w.engine.Report().Status.Paused == nil {
			t.Error("the pause has ended")
		}
		w.after(time.Until(before) + time.Minute)
		w.want("n1", site.Paused)
	}, "n1")
}

// What is known of a run and of its looks is of one time.
func TestVerificationIsOfOneTime(t *testing.T) {
	inBubble(t, drivertest.Config{}, func(w *world) {
		w.seeing(names(5)...)
		var torn atomic.Int64
		var readers sync.WaitGroup
		over := make(chan struct{})
		for range 4 {
			readers.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					v := w.engine.Verification()
					pending := slices.ContainsFunc(v.Checks, func(c site.Check) bool { return strings.Contains(c.Sentence, "did not end yet") })
					if v.Run != nil && v.Run.IsOver(v.When) == pending {
						torn.Add(1)
					}
				}
			})
		}
		for range 300 {
			if _, err := w.engine.Verify(w.t.Context(), site.VerificationRequest{}); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
		close(over)
		readers.Wait()
		if n := torn.Load(); n > 0 {
			t.Errorf("%d times a run is over and a look of it did not end, or the other way round", n)
		}
	}, names(5)...)
}

func TestVerifyKnowsTheFilesOfTheDesign(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design("n1")
		d.Nodes["n1"].Image, d.Nodes["n1"].Generation = "debian", 1
		w.commit(d)
		w.up()
		w.after(time.Minute)
		wantCheck(t, w.engine.Verification(), "", site.CheckImage, site.CheckOK, "the digest of the design, d1")
		wantCheck(t, w.engine.Verification(), "", site.CheckService, site.CheckOK, "it serves machines")
		for _, x := range []struct {
			state   artifact.State
			outcome site.Outcome
			phrase  string
		}{
			{artifact.State{Why: "404 Not Found"}, site.CheckWrong, "404 Not Found"},
			{artifact.State{Fetching: true}, site.CheckUnknown, "being fetched"},
			{artifact.State{}, site.CheckUnknown, "does not have it"},
		} {
			w.files.set("d1", x.state)
			wantCheck(t, w.engine.Verification(), "", site.CheckImage, x.outcome, x.phrase)
		}
	}, "n1")
}
