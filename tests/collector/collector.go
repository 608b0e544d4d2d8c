// Package collector is a double of a collector of OpenTelemetry: it takes traces over OTLP/HTTP, holds them to the
// protocol, and can be as unkind as real ones.
package collector

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that was taken.
type Span struct {
	Trace, ID, Parent string // in hex; no parent for the root
	Name              string
	From, To          time.Time
	Failed            bool
	// Attributes are its own, and those of its resource.
	Attributes map[string]string
}

// Mood is how one request is answered. take takes its spans.
type Mood func(w http.ResponseWriter, r *http.Request, take func())

// Collector takes traces. The zero value is kind.
type Collector struct {
	mu       sync.Mutex
	moods    []Mood
	always   Mood
	spans    []Span
	wrong    []string
	requests []*http.Request
}

// Next has the next requests answered so.
func (c *Collector) Next(moods ...Mood) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moods = append(c.moods, moods...)
}

// Always has all further requests answered so; nil for kindly.
func (c *Collector) Always(m Mood) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.always = m
}

// Answer refuses a request with a status, headers by name and value, and a text.
func Answer(status int, text string, header ...string) Mood {
	return func(w http.ResponseWriter, _ *http.Request, _ func()) {
		for pair := range slices.Chunk(header, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

// Partly takes all spans and says that it refused some.
func Partly(rejected int64, why string) Mood {
	return func(w http.ResponseWriter, _ *http.Request, take func()) {
		take()
		answer(w, &collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: why}})
	}
}

// Cut takes the spans and ends the connection without an answer.
func Cut(_ http.ResponseWriter, _ *http.Request, take func()) {
	take()
	panic(http.ErrAbortHandler)
}

// Away does not take the spans and ends the connection.
func Away(http.ResponseWriter, *http.Request, func()) { panic(http.ErrAbortHandler) }

// Slow answers after a time.
func Slow(by time.Duration) Mood {
	return func(w http.ResponseWriter, r *http.Request, take func()) {
		select {
		case <-time.After(by):
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
		take()
		answer(w, &collectorpb.ExportTraceServiceResponse{})
	}
}

func answer(w http.ResponseWriter, m proto.Message) {
	body, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(body)
}

// ServeHTTP takes spans as OTLP/HTTP says, or refuses them, and notes what was wrong with them.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	spans, err := read(r)
	mood := c.noteRequest(r, err)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case mood != nil:
		mood(w, r, func() { c.take(spans) })
	default:
		c.take(spans)
		answer(w, &collectorpb.ExportTraceServiceResponse{})
	}
}

// noteRequest notes a request, and returns the mood to answer it in; nil for a kind one.
func (c *Collector) noteRequest(r *http.Request, wrong error) (m Mood) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	if wrong != nil {
		c.wrong = append(c.wrong, wrong.Error())
	}
	if len(c.moods) == 0 {
		return c.always
	}
	m, c.moods = c.moods[0], c.moods[1:]
	return m
}

func (c *Collector) take(spans []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
}

// read is what a request holds. Its errors are about the protocol.
func read(r *http.Request) (spans []Span, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return nil, fmt.Errorf("%s %s of %q", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	var all collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	for _, of := range all.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				if err := check(s); err != nil {
					return nil, err
				}
				x := Span{Trace: hex(s.TraceId), ID: hex(s.SpanId), Parent: hex(s.ParentSpanId), Name: s.Name,
					From: time.Unix(0, int64(s.StartTimeUnixNano)).UTC(), To: time.Unix(0, int64(s.EndTimeUnixNano)).UTC(),
					Failed: s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR, Attributes: map[string]string{}}
				for _, a := range slices.Concat(of.Resource.Attributes, s.Attributes) {
					x.Attributes[a.Key] = inWords(a.Value)
				}
				spans = append(spans, x)
			}
		}
	}
	if len(spans) == 0 {
		return nil, errors.New("a request without spans")
	}
	return spans, nil
}

func hex(id []byte) string { return fmt.Sprintf("%x", id) }

// check holds a span to the protocol (opentelemetry/proto/trace/v1/trace.proto).
func check(s *tracepb.Span) error {
	none := func(id []byte) bool { return !slices.ContainsFunc(id, func(b byte) bool { return b != 0 }) }
	seen := map[string]bool{}
	for _, a := range s.Attributes {
		if a.Key == "" || seen[a.Key] || a.Value.GetValue() == nil {
			return fmt.Errorf("attribute %q of %s is empty, or twice", a.Key, s.Name)
		}
		seen[a.Key] = true
	}
	switch {
	case len(s.TraceId) != 16 || none(s.TraceId) || len(s.SpanId) != 8 || none(s.SpanId):
		return fmt.Errorf("%s has the IDs %x and %x", s.Name, s.TraceId, s.SpanId)
	case len(s.ParentSpanId) != 0 && len(s.ParentSpanId) != 8 || bytes.Equal(s.ParentSpanId, s.SpanId):
		return fmt.Errorf("%s has the parent %x", s.Name, s.ParentSpanId)
	case s.Name == "" || s.StartTimeUnixNano == 0 || s.EndTimeUnixNano < s.StartTimeUnixNano:
		return fmt.Errorf("%q is from %d to %d", s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano)
	}
	return nil
}

func inWords(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *commonpb.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	}
	return fmt.Sprintf("%v", v)
}

// Spans returns the spans that were taken, in the order of their arrival.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Wrong returns what was wrong with requests.
func (c *Collector) Wrong() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.wrong)
}

// Requests returns the requests so far, without their bodies.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Tree writes the traces that were taken as people see them, each span under its parent. One whose parent did not come
// is marked "(no parent)". A span that came twice is there once.
func (c *Collector) Tree() string {
	spans, known := map[string]Span{}, map[string]bool{}
	for _, s := range c.Spans() {
		spans[s.Trace+s.ID], known[s.Trace+s.ID] = s, true
	}
	under := map[string][]Span{}
	for _, s := range spans {
		at := s.Trace + s.Parent
		if s.Parent != "" && !known[at] || s.Parent == "" {
			at = ""
		}
		under[at] = append(under[at], s)
	}
	var b strings.Builder
	var write func(at, indent string)
	write = func(at, indent string) {
		slices.SortFunc(under[at], func(a, b Span) int {
			return cmp.Or(strings.Compare(a.Trace, b.Trace), a.From.Compare(b.From), b.To.Compare(a.To), strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
		})
		for _, s := range under[at] {
			fmt.Fprintf(&b, "%s%s %s", indent, s.Name, s.To.Sub(s.From).Round(time.Millisecond))
			if at == "" && s.Parent == "" {
				fmt.Fprintf(&b, " trace=%s", s.Trace)
			} else if at == "" {
				b.WriteString(" (no parent)")
			}
			for _, key := range slices.Sorted(keys(s.Attributes)) {
				fmt.Fprintf(&b, " %s=%q", strings.TrimPrefix(key, "slipway."), s.Attributes[key])
			}
			if s.Failed {
				b.WriteString(" FAILED")
			}
			b.WriteString("\n")
			write(s.Trace+s.ID, indent+"  ")
		}
	}
	write("", "")
	return b.String()
}

// keys are the keys of attributes without those of each resource.
func keys(of map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range of {
			if !strings.HasPrefix(key, "service.") && !yield(key) {
				return
			}
		}
	}
}

// Transport answers requests without a network, so that tests can run in virtual time.
func (c *Collector) Transport() http.RoundTripper { return transport{c} }

type transport struct{ c *Collector }

func (t transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			if cause != http.ErrAbortHandler {
				panic(cause)
			}
			resp, err = nil, cmp.Or(r.Context().Err(), io.ErrUnexpectedEOF)
		}
	}()
	w := httptest.NewRecorder()
	t.c.ServeHTTP(w, r)
	return w.Result(), nil
}
