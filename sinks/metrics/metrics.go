// Package metrics exposes Prometheus metrics of a daemon, and whether the daemon is ready. A site's state is read
// at each scrape. Only passing events (requests to machines, lateness, rollouts) are counted as they happen. No
// metric is about a single node: a site has thousands, and the status shows which node it is.
package metrics

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Metrics are the metrics of one daemon.
type Metrics struct {
	registry    *prometheus.Registry
	drivers     *prometheus.HistogramVec
	tasks       *prometheus.HistogramVec
	taskSuccess *prometheus.GaugeVec
	lateness    *prometheus.HistogramVec
	converge    *prometheus.HistogramVec
	rollouts    *prometheus.CounterVec
	reports     sync.Map // func() site.Report, by the name of the site
}

// These are the buckets, in seconds. BMCs answer within tenths of a second to a minute, and a step may take many
// minutes. Loops are late by less than a second unless something is wrong. Rollouts take minutes to hours.
var (
	callBuckets     = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	lateBuckets     = []float64{0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	convergeBuckets = []float64{30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400}
)

// New makes the metrics of a daemon of this version.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		drivers: histogram("driver_duration_seconds", "How long requests to machines took.",
			callBuckets, "driver", "operation", "result"),
		tasks: histogram("task_duration_seconds", "How long the daemon's own tasks took.",
			callBuckets, "task", "result"),
		taskSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "slipway_task_success_timestamp_seconds",
			Help: "When a task last succeeded."}, []string{"task"}),
		lateness: histogram("loop_lateness_seconds", "How much later than due the rounds of the engine's loops began.",
			lateBuckets, "site", "loop"),
		converge: histogram("converge_seconds", "From the acceptance of a revision, or from its commit, until all its nodes were in-sync.",
			convergeBuckets, "site", "from"),
		rollouts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "slipway_rollouts_total",
			Help: "Rollouts that have ended."}, []string{"site", "outcome"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "slipway_build_info", Help: "The running program; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version(), "schema": site.SchemaVersion}})
	build.Set(1)
	m.registry.MustRegister(m.drivers, m.tasks, m.taskSuccess, m.lateness, m.converge, m.rollouts, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "slipway_" + name, Help: help, Buckets: buckets}, labels)
}

// Time runs one of the daemon's tasks and measures it. It does not count a canceled task.
func (m *Metrics) Time(task string, run func() error) error {
	begun := time.Now()
	err := run()
	if errors.Is(err, context.Canceled) {
		return err
	}
	result := "ok"
	if err != nil {
		result = "error"
	} else {
		m.taskSuccess.WithLabelValues(task).SetToCurrentTime()
	}
	m.tasks.WithLabelValues(task, result).Observe(time.Since(begun).Seconds())
	return err
}

// Site measures one site. It implements engine.Meter.
type Site struct {
	m    *Metrics
	name string
}

// Site registers a site. report returns its state at each scrape.
func (m *Metrics) Site(name string, report func() site.Report) *Site {
	m.registry.MustRegister(&collector{site: name, report: report})
	m.reports.Store(name, report)
	return &Site{m: m, name: name}
}

// Late records the lateness of a loop's round.
func (s *Site) Late(loop string, by time.Duration) {
	s.m.lateness.WithLabelValues(s.name, loop).Observe(by.Seconds())
}

// Ended counts a rollout. It ignores a rollout that changed no node, because that took no time. A rollout with
// failed nodes has not converged.
func (s *Site) Ended(r site.RolloutStatus) {
	switch {
	case len(r.Nodes) == 0:
		return
	case len(r.Failed) > 0 || r.Done < len(r.Nodes):
		s.m.rollouts.WithLabelValues(s.name, "incomplete").Inc()
		return
	}
	s.m.rollouts.WithLabelValues(s.name, "converged").Inc()
	s.converged("acceptance", r.Since, r.Ended)
	s.converged("commit", r.Revision.When, r.Ended)
}

// converged measures a rollout. It ignores one without a start: a folder has no commit time.
func (s *Site) converged(from string, begun, ended time.Time) {
	if !begun.IsZero() {
		s.m.converge.WithLabelValues(s.name, from).Observe(max(0, ended.Sub(begun).Seconds()))
	}
}
