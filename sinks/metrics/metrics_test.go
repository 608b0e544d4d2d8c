package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// full is a report in which everything is told.
func full(now time.Time) site.Report {
	return site.Report{
		Status: site.Status{
			Site: "example", Term: 3, ObserveOnly: "observing only (--observe)", Paused: &site.Hold{By: "ann"},
			Applied:   site.Revision{ID: "aaaa", When: time.Unix(1_800_000_000, 0)},
			Attempted: site.Revision{ID: "bbbb"},
			Problems: []site.Problem{{About: "source", What: "away"}, {About: "report 0", What: "no push"},
				{About: "report 1", What: "no post"}, {About: "status branch", What: "protected"}},
			Waiting: site.Losses{{Node: "a"}, {Node: "b"}},
			Rollout: &site.RolloutStatus{Since: time.Unix(1_800_000_100, 0), Nodes: []string{"a", "b", "c", "d"}, Done: 1,
				Failed: map[string]string{"b": "no effect"}, Halted: "1 of 4 nodes failed"},
			Nodes: []site.NodeStatus{
				{Name: "a", State: site.InSync, Since: now.Add(-time.Hour), Seen: now.Add(-10 * time.Second), Binding: site.BindingSession},
				{Name: "b", State: site.Stalled, Since: now.Add(-2 * time.Hour), Seen: now.Add(-30 * time.Second), Binding: site.BindingNone},
				{Name: "c", State: site.Stalled, Since: now.Add(-3 * time.Hour), Seen: now.Add(-20 * time.Second)},
				{Name: "d", State: site.Blocked, Person: true, Since: now.Add(-time.Minute), SystemHealth: site.SystemHealth{State: site.HealthUnknown}, Certificates: []site.TLSState{
					{State: site.TLSRevoked, Until: time.Unix(5000, 0)}, {State: site.TLSValid, Until: time.Unix(9000, 0), ListUntil: time.Unix(6000, 0)}, {State: site.TLSLate, Until: time.Unix(7000, 0)},
				}},
			},
		},
		Plan: site.Plan{Nodes: []site.NodePlan{
			{Node: "b", Steps: []site.Step{{Impact: site.ImpactOnline}, {Impact: site.ImpactDestructive}}},
			{Node: "c", Steps: []site.Step{{Impact: site.ImpactReboot}}},
			{Node: "d", Blocked: []string{"another machine"}},
		}},
		RevocationLists: []site.RevocationList{{PEM: "first\n"}, {PEM: "second\n"}},
		Findings:        []site.Finding{{Severity: site.SeverityError}, {Severity: site.SeverityWarning}, {Severity: site.SeverityWarning}},
	}
}

// lived is a daemon's metrics after everything that they measure has happened.
func lived(t *testing.T) *Metrics {
	m := New("v1")
	s := m.Site("example", func() site.Report { return full(time.Now()) })
	s.Late("turn", time.Second)
	now := time.Now()
	s.Ended(site.RolloutStatus{Nodes: []string{"a"}, Done: 1, Since: now.Add(-time.Minute), Ended: now, Revision: site.Revision{When: now.Add(-2 * time.Minute)}})
	if err := m.Time("fetch", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	fleet := drivertest.NewFleet(drivertest.Config{}, "a")
	if _, err := open(t, m, fleet).Observe(t.Context(), fleet.Machine("a").Node(), nil); err != nil {
		t.Fatal(err)
	}
	return m
}

// open opens the machine "a" through a measured driver.
func open(t *testing.T, m *Metrics, fleet *drivertest.Fleet) driver.Machine {
	t.Helper()
	d := m.Drivers(map[string]driver.Driver{"redfish": fleet.Driver()})["redfish"]
	machine, err := d.Open(t.Context(), fleet.Machine("a").Node().Endpoints[site.Manager], secret.Value{})
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

func TestStateIsReadWhenScraped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		c := &collector{site: "example", report: func() site.Report { return full(now) }}
		golden, err := os.ReadFile("testdata/state.prom")
		if err != nil {
			t.Fatal(err)
		}
		if err := testutil.CollectAndCompare(c, strings.NewReader(string(golden))); err != nil {
			t.Error(err)
		}
	})
}

func TestExpositionIsAsPrometheusWantsIt(t *testing.T) {
	problems, err := testutil.GatherAndLint(lived(t).registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The table of docs/metrics.md has each metric once, and no other.
func TestEveryMetricIsDocumented(t *testing.T) {
	m := lived(t)
	m.Artifacts("example", func() ArtifactNumbers { return ArtifactNumbers{Copies: &CopyNumbers{}} })
	m.Traces("example", func() TraceNumbers { return TraceNumbers{} })
	families, err := m.merged(func() map[string][]byte { return map[string][]byte{"paris": nil} }).Gather()
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]bool{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "slipway_") {
			measured[f.GetName()] = true
		}
	}
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(slipway_[a-z_]+)").FindAllSubmatch(text, -1) {
		if documented[string(row[1])] {
			t.Errorf("%s has two rows in docs/metrics.md", row[1])
		}
		documented[string(row[1])] = true
	}
	if !maps.Equal(measured, documented) {
		t.Errorf("measured   %q\ndocumented %q", slices.Sorted(maps.Keys(measured)), slices.Sorted(maps.Keys(documented)))
	}
	if len(measured) < 20 {
		t.Errorf("only %d metrics", len(measured))
	}
}

func TestRolloutsThatConvergedAreTimed(t *testing.T) {
	m := New("v1")
	s := m.Site("example", func() site.Report { return site.Report{} })
	at := time.Now()
	for _, r := range []site.RolloutStatus{
		{}, // changed nothing
		{Nodes: []string{"a", "b"}, Done: 2, Since: at.Add(-time.Minute), Ended: at, Revision: site.Revision{When: at.Add(-time.Hour)}},
		{Nodes: []string{"a"}, Done: 1, Since: at.Add(-time.Minute), Ended: at}, // of a folder, which has no commit
		{Nodes: []string{"a", "b"}, Done: 1, Failed: map[string]string{"b": "dead"}, Since: at.Add(-time.Minute), Ended: at},
		{Nodes: []string{"a", "b"}, Done: 1, Since: at.Add(-time.Minute), Ended: at}, // one waits for a person
	} {
		s.Ended(r)
	}
	for outcome, want := range map[string]float64{"converged": 2, "incomplete": 2} {
		if got := testutil.ToFloat64(m.rollouts.WithLabelValues("example", outcome)); got != want {
			t.Errorf("%v rollouts %s, want %v", got, outcome, want)
		}
	}
	if got := sums(t, m, "slipway_converge_seconds", "from"); got["acceptance"] != "2 in 120" || got["commit"] != "1 in 3600" {
		t.Errorf("converged: %v", got)
	}
}

// sums are the counts and sums of a histogram by the values of one label.
func sums(t *testing.T, m *Metrics, name, label string) map[string]string {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				if l.GetName() == label {
					h := series.GetHistogram()
					got[l.GetValue()] = fmt.Sprint(h.GetSampleCount(), " in ", h.GetSampleSum())
				}
			}
		}
	}
	return got
}

func TestTasksAreCountedByResult(t *testing.T) {
	m := New("v1")
	away := errors.New("away")
	for _, err := range []error{nil, away, fmt.Errorf("fetch: %w", context.Canceled)} {
		if got := m.Time("fetch", func() error { return err }); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
	if got := testutil.CollectAndCount(m.tasks); got != 2 { // ok and error
		t.Errorf("%d results", got)
	}
}

func TestRequestsToMachinesAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New("v1")
		fleet := drivertest.NewFleet(drivertest.Config{Latency: 2 * time.Second}, "a")
		machine, fake := open(t, m, fleet), fleet.Machine("a")
		n := fake.Node()
		for _, f := range []drivertest.Fault{drivertest.Healthy, drivertest.Unreachable, drivertest.Busy, drivertest.Denied, drivertest.Garbled} {
			fake.SetFault(f)
			machine.Observe(t.Context(), n, []site.Facet{site.FacetPower}) // what came of it is in the metrics
		}
		fake.SetFault(drivertest.Healthy)
		step := site.Step{Node: "a", Machine: fake.Identity(), Facet: site.FacetPower, Action: site.ActionPowerOn}
		if err := machine.Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := machine.Observe(ctx, n, nil); err == nil {
			t.Error("observed after the end")
		}
		if got := sums(t, m, "slipway_driver_duration_seconds", "operation"); got["open"] == "" || !strings.HasPrefix(got["apply"], "1 in ") {
			t.Errorf("measured %v", got)
		}
		results := sums(t, m, "slipway_driver_duration_seconds", "result")
		if got := slices.Sorted(maps.Keys(results)); !slices.Equal(got, []string{"busy", "denied", "ok", "refused", "unreachable"}) {
			t.Errorf("results %q", got)
		}
	})
}

// able is a driver and its machine with rarer abilities.
type able struct{ driver.Driver }

type ableMachine struct{ driver.Machine }

func (able) Sweep() string          { return "range" }
func (ableMachine) Inspect() string { return "inside" }

func (d able) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.Driver.Open(ctx, e, s)
	return ableMachine{m}, err
}

func TestAbilitiesAreNotLost(t *testing.T) {
	fleet := drivertest.NewFleet(drivertest.Config{}, "a")
	d := New("v1").Drivers(map[string]driver.Driver{"redfish": able{fleet.Driver()}})["redfish"]
	if s, ok := driver.As[interface{ Sweep() string }](d); !ok || s.Sweep() != "range" {
		t.Error("the driver's ability is lost")
	}
	machine, err := d.Open(t.Context(), fleet.Machine("a").Node().Endpoints[site.Manager], secret.Value{})
	if err != nil {
		t.Fatal(err)
	}
	if i, ok := driver.As[interface{ Inspect() string }](machine); !ok || i.Inspect() != "inside" {
		t.Error("the machine's ability is lost")
	}
	if _, ok := driver.As[interface{ Fly() }](machine); ok {
		t.Error("the machine has an ability of nobody's")
	}
}

// A measured driver keeps to the contract like any other.
func TestMeasuredDriverIsADriver(t *testing.T) {
	fleet := drivertest.NewFleet(drivertest.Config{Secret: secret.New("admin", "right")})
	measured := New("v1").Drivers(map[string]driver.Driver{"redfish": fleet.Driver()})
	machines := 0
	drivertest.Run(t, drivertest.Suite{Driver: measured["redfish"], Fresh: func(*testing.T) drivertest.Subject {
		machines++
		m := fleet.Add(fmt.Sprint("m", machines))
		n := m.Node()
		return drivertest.Subject{Endpoint: n.Endpoints[site.Manager], Secret: secret.New("admin", "right"), Node: n, Counts: m.Counts, Power: m.Power}
	}})
}

// BenchmarkScrape is one scrape of a site of 10,000 nodes.
func BenchmarkScrape(b *testing.B) {
	now := time.Now()
	r := site.Report{}
	for i := range 10_000 {
		r.Status.Nodes = append(r.Status.Nodes, site.NodeStatus{Name: fmt.Sprint("n", i), State: site.States[i%3],
			Since: now.Add(-time.Duration(i) * time.Second), Seen: now.Add(-time.Duration(i*7919%60_000) * time.Millisecond)})
		r.Plan.Nodes = append(r.Plan.Nodes, site.NodePlan{Steps: []site.Step{{Impact: site.ImpactReboot}}})
	}
	m := New("v1")
	m.Site("example", func() site.Report { return r })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
