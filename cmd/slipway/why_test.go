package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// abroad is a time as a daemon in another time zone tells it.
func abroad(t time.Time) time.Time { return t.In(time.FixedZone("there", 13*60*60)) }

func TestReasonsOfWhatIsHardlyKnown(t *testing.T) {
	since := time.Now().Add(-time.Minute)
	var out bytes.Buffer
	printReasons(&screen{&out}, reasons{Status: site.NodeStatus{Name: "n1", State: site.Retrying, Since: abroad(since), Machine: site.Identity{Serial: "EX1"}}})
	for _, line := range []string{"n1 is retrying since " + since.Format(time.DateTime) + " (1m ago)", "machine   serial EX1", "seen      never"} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, &out)
		}
	}
	out.Reset()
	printReasons(&screen{&out}, reasons{Status: site.NodeStatus{Name: "n1", State: site.InSync, Seen: since, Machine: site.Identity{UUID: "5e1d", Serial: "EX1"}}})
	for _, line := range []string{"machine   UUID 5e1d, serial EX1", "seen      1m ago"} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, &out)
		}
	}
}

func TestTimesAreThoseOfTheReader(t *testing.T) {
	then := time.Now().Add(time.Hour)
	n := site.NodeStatus{Name: "n1", State: site.Retrying, Reason: "unreachable", Retry: abroad(then)}
	if got, want := present.ReasonOf(n, time.Now()), "unreachable (again at "+then.Format(time.TimeOnly)+")"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := present.ReleaseOf(n, time.Now()), "tries again at "+then.Format(time.TimeOnly); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestStatusAndWhySayThatASystemDoesNotAnswer(t *testing.T) {
	n := site.NodeStatus{Name: "n1", State: site.InSync, Service: site.ServiceSilent, OS: "Debian 12", Health: "Critical"}
	var out bytes.Buffer
	printStatus(&screen{&out}, &site.Status{Site: "s", Nodes: []site.NodeStatus{n, {Name: "n2", State: site.InSync, Service: site.ServiceAnswers}}}, false)
	printReasons(&screen{&out}, reasons{Status: n})
	for _, want := range []string{"2/2 in-sync, 1 whose system does not answer\n", "as designed, but its system does not answer",
		"health     n1 Critical (slipway why NODE)", "system    Debian 12; it does not answer although the machine is on: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "n2") {
		t.Errorf("n2 is listed:\n%s", &out)
	}
}

func TestStatusAndWhySayThatPowerIsOfThePast(t *testing.T) {
	n := site.NodeStatus{Name: "n1", State: site.Retrying, Reason: "the BMC does not answer", Power: "on", Health: "Warning", AsOf: time.Now().Add(-6 * time.Minute)}
	m := n
	m.Name, m.Findings, m.Health = "n2", []site.Finding{{Message: "4 of 8 modules"}}, "OK"
	var out bytes.Buffer
	printStatus(&screen{&out}, &site.Status{Site: "s", Nodes: []site.NodeStatus{n, m}}, false)
	printReasons(&screen{&out}, reasons{Status: n})
	for _, want := range []string{" 2 nodes  retrying, 1 with findings  never  was on 6m ago  the BMC does not answer: n1, n2",
		"health     n1 was Warning 6m ago (slipway why NODE)", "power     was on 6m ago\n", "health    was Warning 6m ago\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// The health of a system is told apart from that of the hardware, and unknown is
// neither healthy nor not.
func TestStatusAndWhyTellTheHealthOfSystems(t *testing.T) {
	n := site.NodeStatus{Name: "n1", State: site.Progressing, Health: "OK", SystemHealth: site.SystemHealth{State: site.Unhealthy, Why: "nginx.service is failed"}}
	m := site.NodeStatus{Name: "n2", State: site.InSync, SystemHealth: site.SystemHealth{State: site.HealthUnknown, Why: "its system did not answer"}}
	ok := site.NodeStatus{Name: "n3", State: site.InSync, SystemHealth: site.SystemHealth{State: site.Healthy}}
	var out bytes.Buffer
	printStatus(&screen{&out}, &site.Status{Site: "s", Nodes: []site.NodeStatus{n, m, ok}}, false)
	printReasons(&screen{&out}, reasons{Status: n})
	for _, want := range []string{"service    unhealthy: n1 (slipway why NODE)", "service    unknown: n2 (slipway why NODE)", ", 1 of unknown health",
		"as designed, but its system health is unknown: its system did not answer", "health    OK\n", "service   unhealthy: nginx.service is failed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "n3") {
		t.Errorf("n3 is listed:\n%s", &out)
	}
}

func TestStatusSaysUntilWhenASiteIsPaused(t *testing.T) {
	until := time.Now().Add(time.Hour)
	for _, c := range []struct {
		until time.Time
		want  string
	}{
		{time.Time{}, "paused     by anna, 0s ago: storm\n"},
		{abroad(until), "paused     by anna, 0s ago, until " + until.Format(time.DateTime) + ": storm\n"},
	} {
		var out bytes.Buffer
		printStatus(&screen{&out}, &site.Status{Site: "s", Paused: &site.Hold{By: "anna", Reason: "storm", Since: time.Now(), Until: c.until}}, false)
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("no %q in\n%s", c.want, &out)
		}
	}
}
