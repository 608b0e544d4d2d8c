package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// configured is a fleet on which a step inside takes two minutes.
var configured = drivertest.Config{Latency: 200 * time.Millisecond, PowerTime: 30 * time.Second, OSTime: 20 * time.Second,
	StepTime: map[site.Action]time.Duration{site.ActionConfig: 2 * time.Minute}}

// sysctls commits a design of one node with these kernel parameters.
func (w *world) sysctls(all site.Scalars, change func(*site.Node)) {
	d := w.service("n1")
	d.Nodes["n1"].System.Sysctl = all
	if change != nil {
		change(d.Nodes["n1"])
	}
	w.commit(d)
}

func (w *world) isSysctl(name, want string) {
	w.t.Helper()
	if got := w.fleet.Machine("n1").Have(site.FacetConfig)["sysctl."+name]; got != want {
		w.t.Errorf("sysctl %s is %q, want %q", name, got, want)
	}
}

// What leaves the design is taken away, and what others made stays, also where
// all of the facet leaves it.
func TestItemThatLeavesTheDesignIsRemoved(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		w.fleet.Machine("n1").SetHave(site.FacetConfig, site.Values{"sysctl.others": "7"})
		w.sysctls(site.Scalars{"a": int64(1), "b": int64(2)}, nil)
		w.after(time.Minute)
		w.until("set", 10*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("b", "2")
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.after(time.Minute)
		w.until("one removed", 10*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("a", "1")
		w.isSysctl("b", "")
		w.sysctls(nil, nil)
		w.after(time.Minute)
		w.until("all removed", 10*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("a", "")
		w.isSysctl("others", "7")
		if owned := w.fleet.Machine("n1").Owned(site.FacetConfig); len(owned) > 0 {
			t.Errorf("still owned: %q", owned)
		}
	}, "n1")
}

// What is designed inside a system that no endpoint leads to is said to be acted on by
// nothing, and holds up nothing.
func TestNoEndpointLeadsInside(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		w.sysctls(site.Scalars{"a": int64(1)}, func(n *site.Node) { delete(n.Endpoints, site.OS) })
		w.after(10 * time.Minute)
		w.want("n1", site.InSync)
		if got := w.node("n1").NotActedOn; !slices.Contains(got, "system.sysctl") {
			t.Errorf("not acted on: %q", got)
		}
	}, "n1")
}

// A node whose system did not answer is not waited for any longer once its endpoint leaves the
// design: nobody asks it.
func TestEndpointThatLeavesIsNotWaitedFor(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.until("set", 15*time.Minute, w.is(site.InSync, "n1"))
		w.fleet.Machine("n1").SetDisk(nil)
		w.until("unseen", time.Hour, w.is(site.Retrying, "n1"))
		w.sysctls(site.Scalars{"a": int64(1)}, func(n *site.Node) { delete(n.Endpoints, site.OS) })
		w.until("not asked", 30*time.Minute, w.is(site.InSync, "n1"))
	}, "n1")
}

// A list that somebody edited on the machine removes nothing until a person has
// accepted it.
func TestEditedListRemovesNothing(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		w.fleet.Machine("n1").SetHave(site.FacetConfig, site.Values{"sysctl.others": "7"})
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.after(time.Minute)
		w.until("set", 10*time.Minute, w.is(site.InSync, "n1"))
		w.fleet.Machine("n1").Own(site.FacetConfig, "sysctl.a", "sysctl.others")
		w.after(20 * time.Minute)
		w.want("n1", site.Blocked)
		w.reason("n1", "config sysctl.others left the design and Slipway does not remove it")
		w.isSysctl("others", "7")
		w.sysctls(site.Scalars{"a": int64(1), "b": int64(2)}, nil)
		w.after(20 * time.Minute)
		w.isSysctl("b", "2")
		w.isSysctl("others", "7")
		w.reason("n1", "somebody changed it")
		w.do(site.Order{Verb: site.VerbApprove, Node: "n1", By: "ann", Reason: "seen"})
		w.until("removed", 20*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("others", "")
	}, "n1")
}

// What somebody adds to the list while a run of ours goes on is not ours for that.
func TestARunMakesNothingElseOurs(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		w.fleet.Machine("n1").SetHave(site.FacetConfig, site.Values{"sysctl.others": "7"})
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.after(time.Minute)
		w.want("n1", site.Progressing)
		w.fleet.Machine("n1").Own(site.FacetConfig, "sysctl.others")
		w.after(20 * time.Minute)
		w.isSysctl("a", "1")
		w.isSysctl("others", "7")
		w.want("n1", site.Blocked)
		w.reason("n1", "config sysctl.others left the design and Slipway does not remove it")
		w.do(site.Order{Verb: site.VerbApprove, Node: "n1", By: "ann", Reason: "seen"})
		w.until("removed", 20*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("others", "")
	}, "n1")
}

// A design that changes while a run goes on leaves what that run made ours.
func TestWhatARunMakesIsOursThoughItLeftTheDesign(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.after(time.Minute)
		w.want("n1", site.Progressing)
		w.sysctls(site.Scalars{"b": int64(2)}, nil)
		w.until("the other", 20*time.Minute, func() bool {
			have := w.fleet.Machine("n1").Have(site.FacetConfig)
			return w.is(site.InSync, "n1")() && have["sysctl.b"] == "2" && have["sysctl.a"] == ""
		})
	}, "n1")
}

// A list that somebody removed on the machine is told of, and not believed: what left the
// design stays there, and the node is not called in-sync.
func TestLostListIsTold(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.after(time.Minute)
		w.until("set", 10*time.Minute, w.is(site.InSync, "n1"))
		w.fleet.Machine("n1").Own(site.FacetConfig)
		w.after(20 * time.Minute)
		w.want("n1", site.Blocked)
		w.sysctls(nil, nil)
		w.after(20 * time.Minute)
		w.isSysctl("a", "1")
		w.want("n1", site.Blocked)
		w.reason("n1", "the list on the machine of what Slipway made is gone")
		w.do(site.Order{Verb: site.VerbApprove, Node: "n1", By: "ann", Reason: "seen"})
		w.until("a new list", 20*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("a", "1")
		w.sysctls(site.Scalars{"b": int64(2)}, nil)
		w.after(time.Minute)
		w.until("set anew", 10*time.Minute, w.is(site.InSync, "n1"))
		w.sysctls(nil, nil)
		w.after(time.Minute)
		w.until("removed again", 10*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("b", "")
	}, "n1")
}

// A run that a kill of the daemon cuts off is joined, and what it made is known to
// be ours.
func TestListOutlivesACut(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.after(time.Minute)
		w.want("n1", site.Progressing)
		w.down()
		w.after(5 * time.Minute)
		w.up()
		w.after(time.Minute)
		w.until("set", 10*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("a", "1")
		w.sysctls(nil, nil)
		w.after(time.Minute)
		w.until("removed", 10*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("a", "")
	}, "n1")
}

// The policy of a facet says what becomes of an item that was changed on the
// machine.
func TestDriftOfAnItem(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		report := func(n *site.Node) { n.Drift = map[site.Facet]string{site.FacetConfig: "report"} }
		w.sysctls(site.Scalars{"a": int64(1)}, report)
		w.after(time.Minute)
		w.until("set", 10*time.Minute, w.is(site.InSync, "n1"))
		w.fleet.Machine("n1").SetHave(site.FacetConfig, site.Values{"sysctl.a": "9"})
		w.after(20 * time.Minute)
		w.reason("n1", "config.sysctl.a is 9 and is designed as 1")
		w.isSysctl("a", "9")
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.after(time.Minute)
		w.until("repaired", 20*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("a", "1")
	}, "n1")
}

// A system that Slipway did not install is not changed inside before a person has
// seen the plan.
func TestFirstContactHoldsStepsInside(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.met = true
		w.fleet.Machine("n1").SetDisk(&site.Marker{})
		w.fleet.Machine("n1").SetPower("on")
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.up()
		w.after(20 * time.Minute)
		w.want("n1", site.Blocked)
		if reason := w.node("n1").Reason; !strings.HasPrefix(reason, "first contact: Slipway did not install the system, and apply-config would change it") {
			t.Errorf("it waits, because %s", reason)
		}
		w.isSysctl("a", "")
		w.do(site.Order{Verb: site.VerbApprove, Node: "n1", By: "ann", Reason: "seen"})
		w.until("set", 20*time.Minute, w.is(site.InSync, "n1"))
		w.isSysctl("a", "1")
	}, "n1")
}

// What is designed inside a system is not said to be so while the system does not
// answer, and a step is not said to be done that the design does not ask for any more.
func TestSystemThatDoesNotAnswerIsNotInSync(t *testing.T) {
	inBubble(t, configured, func(w *world) {
		w.serving("n1")
		m := w.fleet.Machine("n1")
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.after(time.Minute)
		w.until("set", 10*time.Minute, w.is(site.InSync, "n1"))
		done := w.events(site.EventDone)
		disk := m.Disk()
		m.SetDisk(nil)
		w.after(20 * time.Minute)
		w.want("n1", site.Retrying)
		w.reason("n1", "its system does not answer; inside, it was as designed at 2")

		w.sysctls(site.Scalars{"a": int64(1), "b": int64(2)}, nil)
		w.after(20 * time.Minute)
		w.want("n1", site.Retrying)
		w.sysctls(site.Scalars{"a": int64(1)}, nil)
		w.after(20 * time.Minute)
		if more := w.events(site.EventDone); more != done {
			t.Errorf("%d steps are said to be done beside %d", more-done, done)
		}
		if w.events(site.EventDropped) != 1 {
			t.Error("the step is not said to be dropped")
		}
		m.SetDisk(disk)
		w.until("it answers", 20*time.Minute, w.is(site.InSync, "n1"))

		// More that is designed meanwhile takes nothing from a step.
		done = w.events(site.EventDone)
		w.sysctls(site.Scalars{"a": int64(1), "b": int64(2)}, nil)
		w.after(time.Minute)
		w.sysctls(site.Scalars{"a": int64(1), "b": int64(2), "c": int64(3)}, nil)
		w.until("more", 20*time.Minute, func() bool { return w.is(site.InSync, "n1")() && m.Have(site.FacetConfig)["sysctl.c"] == "3" })
		if dropped, more := w.events(site.EventDropped), w.events(site.EventDone)-done; dropped != 1 || more != 2 {
			t.Errorf("%d steps are said to be dropped, and %d to be done", dropped, more)
		}
	}, "n1")
}

// events counts those of a kind.
func (w *world) events(kind site.EventKind) (n int) {
	w.t.Helper()
	for _, e := range w.engine.Events(0) {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// A change that restarts a unit goes from node to node as the bounds say. One that interrupts
// nothing goes to all of them at once.
func TestRestartedUnitsKeepToTheBounds(t *testing.T) {
	all := names(3)
	atOnce := func(t *testing.T, units map[string]site.Unit, sysctl site.Scalars) (most int) {
		inBubble(t, configured, func(w *world) {
			w.serving(all...)
			for _, name := range all {
				w.fleet.Machine(name).SetHave(site.FacetConfig, site.Values{"units.a.service.content": "sha256:other", "units.a.service.state": "running"})
			}
			d := w.service(all...)
			for _, name := range all {
				d.Nodes[name].System.Units, d.Nodes[name].System.Sysctl = units, sysctl
			}
			w.commit(d)
			for range 120 {
				w.after(10 * time.Second)
				busy := 0
				for _, name := range all {
					if w.node(name).State == site.Progressing && strings.Contains(w.node(name).Reason, string(site.ActionConfig)) {
						busy++
					}
				}
				most = max(most, busy)
			}
			for _, name := range all {
				w.want(name, site.InSync)
			}
		}, all...)
		return most
	}
	text := "[Service]"
	if most := atOnce(t, map[string]site.Unit{"a.service": {Content: &text}}, nil); most != 1 {
		t.Errorf("%d nodes had their unit restarted at once, and one may be out of service", most)
	}
	if most := atOnce(t, nil, site.Scalars{"a": int64(1)}); most != 3 {
		t.Errorf("%d nodes were changed at once, and nothing is interrupted", most)
	}
}
