package tests

import (
	"net/http/httptest"
	"os"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slipway-gitops/slipway/tests/collector"
)

// sink is the collector of traces of a script.
type sink struct {
	collector.Collector
	server *httptest.Server
}

// collectorCmd starts a collector of traces, or changes how it is.
func collectorCmd(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	switch {
	case len(args) == 0 && s.sink == nil:
		s.sink = &sink{}
		s.sink.server = httptest.NewServer(s.sink)
		ts.Defer(s.sink.server.Close)
		ts.Setenv("COLLECTOR", s.sink.server.URL)
	case len(args) == 1 && s.sink != nil && args[0] == "away":
		s.sink.Always(collector.Away)
	case len(args) == 1 && s.sink != nil && args[0] == "back":
		s.sink.Always(nil)
	default:
		ts.Fatalf("usage: collector, then collector away or collector back")
	}
}

// spansCmd waits for the traces that were taken to match, and leaves them in ./spans.
func spansCmd(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	if len(args) != 1 || s.sink == nil {
		ts.Fatalf("usage: spans RE, after collector")
	}
	re := regexp.MustCompile("(?m)" + args[0])
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !re.MatchString(s.sink.Tree()); <-tick.C {
		if time.Now().After(end) {
			ts.Fatalf("never matched %s\n%s\n%s", args[0], s.sink.Tree(), lastWords(ts))
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs("spans"), []byte(s.sink.Tree()), 0o644))
	if wrong := s.sink.Wrong(); len(wrong) > 0 {
		ts.Fatalf("the collector refused spans: %q", wrong)
	}
}
