package metrics

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/tests/prometheus"
)

// What is shipped for those who watch.
const (
	rulesFile     = "../../packaging/prometheus/slipway.rules.yml"
	rulesTestFile = "../../packaging/prometheus/slipway.rules.test.yml"
	dashboardFile = "../../packaging/grafana/slipway.json"
)

func TestAlertRules(t *testing.T) {
	prometheus.Require(t, "promtool")
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", rulesTestFile}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// watched is a real Prometheus that scrapes a daemon's metrics.
type watched struct {
	t   *testing.T
	url string
}

// watch starts one with the rules, which fire at once.
func watch(t *testing.T, page http.Handler) *watched {
	t.Helper()
	daemon := httptest.NewServer(page)
	t.Cleanup(daemon.Close)
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAll(rules, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return &watched{t, prometheus.Prometheus(t, "global: {scrape_interval: 200ms, evaluation_interval: 200ms}\nrule_files: ["+file+"]\n"+
		"scrape_configs: [{job_name: slipway, static_configs: [{targets: [\""+strings.TrimPrefix(daemon.URL, "http://")+"\"]}]}]\n")}
}

// ask is what an endpoint of Prometheus's API answers as data.
func (w *watched) ask(path string, into any) error {
	resp, err := http.Get(w.url + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// eventually waits until something is so.
func (w *watched) eventually(what string, so func() bool) {
	w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !so(); <-tick.C {
		if time.Now().After(end) {
			w.t.Fatalf("never: %s", what)
		}
	}
}

// firing are the alerts that fire.
func (w *watched) firing() (names []string) {
	var got struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	if w.ask("alerts", &got) != nil {
		return nil
	}
	for _, a := range got.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// count is how many series an expression gives, -1 for an error.
func (w *watched) count(expr string) int {
	var got struct{ Result []any }
	if err := w.ask("query?query="+url.QueryEscape(expr), &got); err != nil {
		return -1
	}
	return len(got.Result)
}

// A Prometheus that scrapes a daemon in trouble raises the alerts that are shipped,
// and each query of the dashboard gives something.
func TestPrometheusAlertsAndShows(t *testing.T) {
	page := lived(t)
	page.Artifacts("example", func() ArtifactNumbers { return ArtifactNumbers{} })
	w := watch(t, page.Pages(func() []string { return nil }))
	want := []string{"SlipwayApprovalWaits", "SlipwayNeedsAPerson", "SlipwayRolloutHalted", "SlipwayStatusNotWritten"}
	w.eventually("the alerts fire", func() bool {
		got := w.firing()
		return !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(got, name) })
	})
	for _, calm := range []string{"SlipwayDown", "SlipwayRecordsFail", "SlipwayDoesNotAct", "SlipwayBlind"} {
		if slices.Contains(w.firing(), calm) {
			t.Errorf("%s fires", calm)
		}
	}
	exprs := queries(t)
	if len(exprs) < 15 {
		t.Errorf("%d queries in the dashboard", len(exprs))
	}
	for _, expr := range exprs {
		w.eventually(expr, func() bool {
			n := w.count(expr)
			return n > 0 || n == 0 && strings.Contains(expr, `result!="ok"`) // nothing has failed
		})
	}
}

// queries are those of the dashboard, with the variables as Grafana fills them in.
func queries(t *testing.T) (exprs []string) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 {
			t.Errorf("the panel %d %q has no place, no query or the number of another", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			exprs = append(exprs, strings.ReplaceAll(q.Expr, "$site", ".*"))
		}
	}
	for _, a := range d.Annotations.List {
		exprs = append(exprs, strings.ReplaceAll(a.Expr, "$site", ".*"))
	}
	return exprs
}

// Whatever the rules and the dashboard ask for is a metric that the page tells of.
func TestWatchersAskForMetricsThatAreThere(t *testing.T) {
	documented, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`slipway_[a-z_]+`)
	for _, file := range []string{rulesFile, rulesTestFile, dashboardFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllString(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s asks for nothing", file)
		}
		for _, m := range found {
			base := strings.TrimSuffix(strings.TrimSuffix(m, "_bucket"), "_count")
			if !strings.Contains(string(documented), "`"+base+"`") {
				t.Errorf("%s asks for %s, which docs/metrics.md does not have", file, m)
			}
		}
	}
}
