package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTraces(t *testing.T) {
	m := New("test")
	m.Traces("example", func() TraceNumbers { return TraceNumbers{Sent: 5, Refused: 6, Dropped: 7, Waiting: 8} })
	want := `
# HELP slipway_trace_spans_total Spans of traces by what became of them.
# TYPE slipway_trace_spans_total counter
slipway_trace_spans_total{outcome="dropped",site="example"} 7
slipway_trace_spans_total{outcome="refused",site="example"} 6
slipway_trace_spans_total{outcome="sent",site="example"} 5
# HELP slipway_trace_spans_waiting Spans of traces that wait to be sent.
# TYPE slipway_trace_spans_waiting gauge
slipway_trace_spans_waiting{site="example"} 8
`
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want), "slipway_trace_spans_total", "slipway_trace_spans_waiting"); err != nil {
		t.Error(err)
	}
}
