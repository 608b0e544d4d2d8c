package metrics

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-gitops/slipway/engine/site"
)

// These metrics are read from a site's report at each scrape.
var (
	nodesDesc       = desc("nodes", "Nodes by state.", "state")
	stateAgeDesc    = desc("state_age_seconds", "For each state, how long the node that has been in it longest has been there; no series for a state without nodes.", "state")
	personDesc      = desc("nodes_need_person", "Nodes that need a person: stalled ones, and those that wait for a person's approval or decision.")
	observationDesc = desc("observation_age_seconds", "How long ago the machines were last seen: quantiles over those that were, 1 is the oldest.")
	unseenDesc      = desc("nodes_unseen", "Nodes whose machine was never seen.")
	silentDesc      = desc("nodes_silent", "Nodes whose machine is on and whose system did not answer when it was last asked.")
	healthDesc      = desc("nodes_by_health", "Nodes by the health of their systems, as their role defines it; nodes whose role defines none are left out.", "health")
	notActedOnDesc  = desc("nodes_not_acted_on", "Nodes with parts in their design that no driver acts on.")
	bindingDesc     = desc("nodes_by_binding", "Nodes by what makes sure that a write reaches the machine that was identified; nodes where that is not known are left out.", "binding")
	planDesc        = desc("plan_nodes", "Nodes with a plan by its worst impact.", "impact")
	approvalsDesc   = desc("approvals_waiting", "Destructions that are planned and wait for an approval.")
	problemsDesc    = desc("problems", "What is wrong with the site as a whole; no series when nothing is.", "about")
	findingsDesc    = desc("findings", "Findings of the newest revision.", "severity")
	revisionDesc    = desc("revision_info", "The revision in force and the newest that was looked at; always 1.", "applied", "attempted")
	commitDesc      = desc("revision_timestamp_seconds", "When the revision in force was committed.")
	certsDesc       = desc("certificates", "TLS certificates of nodes that others may still accept, by state.", "state")
	listsDesc       = desc("certificate_revocation_list_expiry_timestamp_seconds", "When the first of the lists of revoked certificates on the nodes is over; no series without any.")
	expiryDesc      = desc("certificate_expiry_timestamp_seconds", "When the first of the TLS certificates in use ends; no series without any.")
	pausedDesc      = desc("paused", "1 while the site is paused.")
	readOnlyDesc    = desc("observe_only", "1 while nothing is written to any machine.")
	termDesc        = desc("term", "The term of the controller that acts.")
	rolloutDesc     = desc("rollout_nodes", "Nodes of the last rollout by their result.", "outcome")
	runningDesc     = desc("rollout_running", "1 while the last rollout has not ended.")
	haltedDesc      = desc("rollout_halted", "1 while the last rollout begins no further node because too many have failed.")
	sinceDesc       = desc("rollout_start_timestamp_seconds", "When the revision of the last rollout was accepted.")
)

var descs = []*prometheus.Desc{nodesDesc, stateAgeDesc, personDesc, observationDesc, unseenDesc, silentDesc, healthDesc, notActedOnDesc, bindingDesc, planDesc, approvalsDesc, problemsDesc, findingsDesc, certsDesc, expiryDesc, listsDesc,
	revisionDesc, commitDesc, pausedDesc, readOnlyDesc, termDesc, rolloutDesc, runningDesc, haltedDesc, sinceDesc}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("slipway_"+name, help, append([]string{"site"}, labels...), nil)
}

// collector reads a site's state at each scrape.
type collector struct {
	site   string
	report func() site.Report
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range descs {
		out <- d
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	r := c.report()
	s := scrape{site: c.site, now: time.Now(), out: out}
	s.nodes(r.Status.Nodes)
	s.plan(&r)
	s.state(&r.Status)
	s.revisions(&r)
	if r.Status.Rollout != nil {
		s.rollout(r.Status.Rollout)
	}
}

// scrape is one reading.
type scrape struct {
	site string
	now  time.Time
	out  chan<- prometheus.Metric
}

func (s *scrape) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{s.site}, labels...)...)
}

func (s *scrape) counter(d *prometheus.Desc, value float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, append([]string{s.site}, labels...)...)
}

func (s *scrape) age(t time.Time) float64 { return max(0, s.now.Sub(t).Seconds()) }

func (s *scrape) nodes(nodes []site.NodeStatus) {
	counts, oldest := map[site.State]int{}, map[site.State]float64{}
	bound := map[site.Binding]int{}
	person, not, silent := 0, 0, 0
	health := map[site.HealthState]int{}
	ages := make([]float64, 0, len(nodes))
	certs := certificates{count: map[string]int{}}
	for i := range nodes {
		n := &nodes[i]
		counts[n.State]++
		bound[n.Binding]++
		oldest[n.State] = max(oldest[n.State], s.age(n.Since))
		if n.Person || n.State == site.Stalled {
			person++
		}
		if len(n.NotActedOn) > 0 {
			not++
		}
		if n.Service == site.ServiceSilent {
			silent++
		}
		health[n.SystemHealth.State]++
		if !n.Seen.IsZero() {
			ages = append(ages, s.age(n.Seen))
		}
		certs.add(n.Certificates)
	}
	for _, state := range site.States {
		s.gauge(nodesDesc, float64(counts[state]), string(state))
	}
	for state, age := range oldest {
		s.gauge(stateAgeDesc, age, string(state))
	}
	for _, binding := range site.Bindings {
		s.gauge(bindingDesc, float64(bound[binding]), string(binding))
	}
	for _, state := range site.HealthStates {
		s.gauge(healthDesc, float64(health[state]), string(state))
	}
	s.gauge(personDesc, float64(person))
	s.gauge(unseenDesc, float64(len(nodes)-len(ages)))
	s.gauge(silentDesc, float64(silent))
	s.gauge(notActedOnDesc, float64(not))
	s.observations(ages)
	s.certificates(&certs)
}

// observations reports quantiles, which cost the same for any number of nodes.
func (s *scrape) observations(ages []float64) {
	if len(ages) == 0 {
		return
	}
	slices.Sort(ages)
	sum, quantiles := 0.0, map[float64]float64{}
	for _, a := range ages {
		sum += a
	}
	for _, q := range []float64{0.5, 0.9, 0.99, 1} {
		quantiles[q] = ages[int(math.Ceil(q*float64(len(ages))))-1]
	}
	s.out <- prometheus.MustNewConstSummary(observationDesc, uint64(len(ages)), sum, quantiles, s.site)
}

func (s *scrape) plan(r *site.Report) {
	var counts [site.ImpactDestructive + 1]int
	for i := range r.Plan.Nodes {
		if worst := worst(r.Plan.Nodes[i].Steps); worst >= 0 {
			counts[worst]++
		}
	}
	for impact, n := range counts {
		s.gauge(planDesc, float64(n), site.Impact(impact).String())
	}
	s.gauge(approvalsDesc, float64(len(r.Status.Waiting)))
}

// worst is the worst impact of steps; -1 for none.
func worst(steps []site.Step) site.Impact {
	w := site.Impact(-1)
	for i := range steps {
		w = max(w, steps[i].Impact)
	}
	return w
}

// certificates counts the TLS certificates of nodes by state, and finds the first of those in use to end.
type certificates struct {
	count map[string]int
	first time.Time
	list  time.Time // when the first of the lists of revoked certificates is over
}

func (all *certificates) add(those []site.TLSState) {
	for _, c := range those {
		all.count[c.State]++
		if c.IsInUse() && (all.first.IsZero() || c.Until.Before(all.first)) {
			all.first = c.Until
		}
		if !c.ListUntil.IsZero() && (all.list.IsZero() || c.ListUntil.Before(all.list)) {
			all.list = c.ListUntil
		}
	}
}

func (s *scrape) certificates(all *certificates) {
	for state, n := range all.count {
		s.gauge(certsDesc, float64(n), state)
	}
	if !all.first.IsZero() {
		s.gauge(expiryDesc, seconds(all.first))
	}
	if !all.list.IsZero() {
		s.gauge(listsDesc, seconds(all.list))
	}
}

func (s *scrape) state(st *site.Status) {
	about := map[string]int{}
	for _, p := range st.Problems {
		what := p.About
		if first, _, _ := strings.Cut(what, " "); first == "report" || first == "credential" {
			what = first // there may be several
		}
		about[what]++
	}
	for what, n := range about {
		s.gauge(problemsDesc, float64(n), what)
	}
	s.gauge(pausedDesc, flag(st.Paused != nil))
	s.gauge(readOnlyDesc, flag(st.ObserveOnly != ""))
	s.gauge(termDesc, float64(st.Term))
}

func (s *scrape) revisions(r *site.Report) {
	severity := map[site.Severity]int{site.SeverityError: 0, site.SeverityWarning: 0}
	for i := range r.Findings {
		severity[r.Findings[i].Severity]++
	}
	for what, n := range severity {
		s.gauge(findingsDesc, float64(n), string(what))
	}
	s.gauge(revisionDesc, 1, r.Status.Applied.ID, r.Status.Attempted.ID)
	if when := r.Status.Applied.When; !when.IsZero() {
		s.gauge(commitDesc, seconds(when))
	}
}

func (s *scrape) rollout(r *site.RolloutStatus) {
	s.gauge(rolloutDesc, float64(r.Done), "done")
	s.gauge(rolloutDesc, float64(len(r.Failed)), "failed")
	s.gauge(rolloutDesc, float64(max(0, len(r.Nodes)-r.Done-len(r.Failed))), "left")
	s.gauge(runningDesc, flag(r.Ended.IsZero()))
	s.gauge(haltedDesc, flag(r.Halted != "" && r.Ended.IsZero()))
	s.gauge(sinceDesc, seconds(r.Since))
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}
