package notify

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/prometheus"
)

// A message of which a part was taken is told no more than the rest.
func TestWhatWasTakenIsNotToldAgain(t *testing.T) {
	atDesk(t, func(d *desk) {
		st := stalled("a")
		st.Nodes = append(st.Nodes, site.NodeStatus{Name: "b", State: site.Stalled, Since: time.Now(), Reason: "the disk is full"})
		settled := ""
		for k, c := range causes(&site.Report{Status: st}) {
			if c.nodes[0] == "a" {
				settled = k
			}
		}
		d.set(&undelivered{settled: []string{settled}, err: errors.New("away")})
		d.is(st, 40*time.Second)
		d.told()
		d.set(nil)
		d.after(time.Minute)
		d.told("example: b is stalled: the disk is full")
		d.is(site.Status{}, 11*time.Minute)
		d.told("example: resolved: b is stalled: the disk is full; " +
			"resolved: a is stalled: observe a: denied: https://10.0.0.1:443/redfish/v1 answers 401 after 2s")
	})
}

// What a service refuses for good is not sent again before there is news of it.
func TestWhatIsRefusedWaitsForNews(t *testing.T) {
	atDesk(t, func(d *desk) {
		st := stalled("a")
		settled := ""
		for k := range causes(&site.Report{Status: st}) {
			settled = k
		}
		d.set(&undelivered{settled: []string{settled}, err: errors.New("malformed")})
		d.is(st, 40*time.Second)
		d.set(nil)
		d.after(23 * time.Hour)
		d.told()
		d.after(2 * time.Hour)
		if got := d.messages(); len(got) != 1 || got[0].Events[0].Event != EventReminder {
			t.Errorf("told %+v", got)
		}
	})
}

func TestTheTimeThatAServiceAsksForIsWaited(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.set(&undelivered{after: 50 * time.Minute, err: errors.New("429")})
		d.is(stalled("a"), 40*time.Second)
		d.set(nil)
		d.after(49 * time.Minute)
		d.told()
		d.after(2 * time.Minute)
		if got := d.messages(); len(got) != 1 {
			t.Errorf("told %+v", got)
		}
	})
}

// pacedDesk is a channel that is told of what lasts each minute.
type pacedDesk struct{ *desk }

func (pacedDesk) Pace() Pace { return alertmanagerPace }

func TestAlertmanagerIsToldEachMinuteWhatLasts(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.n.tellers[0].channel = pacedDesk{d}
		d.n.tellers[0].pace = paceOf(pacedDesk{d})
		d.is(stalled("a"), 5*time.Minute+40*time.Second)
		var kinds []EventKind
		for _, m := range d.messages() {
			kinds = append(kinds, m.Events[0].Event)
		}
		if len(kinds) != 6 || kinds[0] != EventNew || kinds[5] != EventReminder {
			t.Errorf("told %q", kinds)
		}
		d.is(stalled("a", "b"), time.Minute)
		if got := d.messages(); len(got) != 1 || got[0].Events[0].Event != EventMore {
			t.Errorf("told %+v", got)
		}
		d.set(errors.New("away"))
		d.after(20 * time.Minute)
		d.set(nil)
		d.after(time.Minute)
		if got := d.messages(); len(got) == 0 {
			t.Error("one that was away longer is not told each minute")
		}
	})
}

// fired is an alert as a real Alertmanager shows it.
type fired struct {
	Labels           map[string]string
	Annotations      map[string]string
	StartsAt, EndsAt time.Time
	Status           struct{ State string }
}

// alerts are those that an Alertmanager has and that have not ended.
func alerts(t *testing.T, am string) []fired {
	t.Helper()
	resp, err := http.Get(am + "/api/v2/alerts?filter=" + url.QueryEscape(`site="example"`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all []fired
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	return all
}

func TestRealAlertmanager(t *testing.T) {
	am := prometheus.Alertmanager(t)
	w, err := NewWebhook(am, "", "alertmanager", nil)
	if err != nil {
		t.Fatal(err)
	}
	tell := func(events []Event) {
		t.Helper()
		if err := w.Send(t.Context(), newMessage("example", "abcd", time.Now(), events)); err != nil {
			t.Fatal(err)
		}
	}
	events := worstEvents(5)
	for i := range events {
		events[i].Event = EventNew
	}
	tell(events)
	tell(events)
	got := alerts(t, am)
	if len(got) != 5 {
		t.Fatalf("it has %d alerts: %+v", len(got), got)
	}
	for _, a := range got {
		if a.Labels["alertname"] == "" || a.Annotations["do"] != "slipway why n1" || a.EndsAt.Before(time.Now().Add(14*time.Minute)) || a.StartsAt.After(time.Now().Add(-59*time.Minute)) {
			t.Errorf("it has %+v", a)
		}
	}
	for i := range events[:4] {
		events[i].Event = EventResolved
	}
	tell(events)
	if got := alerts(t, am); len(got) != 1 || got[0].Labels["alertname"] != "SlipwaySiteProblem" {
		t.Errorf("after the end of four it has %+v", got)
	}
	if err := w.post(t.Context(), request{url: w.url.JoinPath("api/v2/alerts"), body: []byte(`[{"labels":{}}]`)}, credential{}); err == nil || !isMalformed(err.(*answerError).status) {
		t.Errorf("an alert without labels: %v", err)
	}
}
