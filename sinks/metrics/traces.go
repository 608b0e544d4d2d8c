package metrics

import "github.com/prometheus/client_golang/prometheus"

// These metrics are read from the exporter of traces at each scrape.
var (
	traceSpansDesc   = desc("trace_spans_total", "Spans of traces by what became of them.", "outcome")
	traceWaitingDesc = desc("trace_spans_waiting", "Spans of traces that wait to be sent.")
)

// TraceNumbers are the numbers of an exporter of traces at one moment. What became of spans is counted since the
// daemon started.
type TraceNumbers struct {
	Sent, Refused, Dropped int64
	Waiting                int
}

// Traces registers a site's exporter of traces. read returns its numbers at each scrape.
func (m *Metrics) Traces(name string, read func() TraceNumbers) {
	m.registry.MustRegister(&traceCollector{name, read})
}

type traceCollector struct {
	site string
	read func() TraceNumbers
}

func (c *traceCollector) Describe(out chan<- *prometheus.Desc) {
	out <- traceSpansDesc
	out <- traceWaitingDesc
}

func (c *traceCollector) Collect(out chan<- prometheus.Metric) {
	n := c.read()
	s := scrape{site: c.site, out: out}
	s.counter(traceSpansDesc, float64(n.Sent), "sent")
	s.counter(traceSpansDesc, float64(n.Refused), "refused")
	s.counter(traceSpansDesc, float64(n.Dropped), "dropped")
	s.gauge(traceWaitingDesc, float64(n.Waiting))
}
