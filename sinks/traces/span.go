package traces

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/site"
)

// maxText is how many bytes of a text are sent.
const maxText = 500

// sampled is the flag of a span that is recorded (W3C Trace Context, trace-flags).
const sampled = 1

func spansOf(siteName string, parts []*site.TracePart) []*tracepb.Span {
	spans := make([]*tracepb.Span, len(parts))
	for i, p := range parts {
		spans[i] = spanOf(siteName, *p)
	}
	return spans
}

// spanOf returns the span of a part of the work on a revision. All IDs follow from what the span is about, so that a
// daemon that is restarted goes on in the same trace, and a span that is sent twice is the same.
func spanOf(siteName string, p site.TracePart) *tracepb.Span {
	trace := traceOf(siteName, p.Revision.ID)
	s := &tracepb.Span{
		TraceId: trace, SpanId: idOf(trace, p), Name: clean(nameOf(p)), Kind: tracepb.Span_SPAN_KIND_INTERNAL, Flags: sampled,
		StartTimeUnixNano: nanos(p.From), EndTimeUnixNano: max(nanos(p.From), nanos(p.To)), Attributes: attributes(p),
	}
	if parent, has := parentOf(p); has {
		s.ParentSpanId = idOf(trace, parent)
	}
	if p.Failed {
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: clean(p.Why)}
	}
	return s
}

// traceOf is the ID of the trace of a revision.
func traceOf(siteName, revision string) []byte {
	sum := sha256.Sum256([]byte("slipway trace\x00" + siteName + "\x00" + revision))
	return sum[:16]
}

// idOf is the ID of a span. There is one for a revision, and for a rollout and each node in it.
func idOf(trace []byte, p site.TracePart) []byte {
	var from int64
	switch p.Kind {
	case site.TraceRevision, site.TraceRollout, site.TraceNode:
	default:
		from = p.From.UnixNano()
	}
	var rollout int64
	if !p.Rollout.IsZero() {
		rollout = p.Rollout.UnixNano()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%x\x00%s\x00%d\x00%s\x00%d\x00%s", trace, p.Kind, rollout, p.Node, from, p.Action))
	return sum[:8]
}

// parentOf is what a part belongs to, as far as its ID needs it. A node belongs to the revision, which is sent at once:
// the span of a rollout comes at its end, hours later perhaps.
func parentOf(p site.TracePart) (parent site.TracePart, has bool) {
	switch {
	case p.Kind == site.TraceRevision:
		return parent, false
	case p.Rollout.IsZero() || p.Kind == site.TraceRollout || p.Kind == site.TraceNode:
		return site.TracePart{Kind: site.TraceRevision}, true
	}
	return site.TracePart{Kind: site.TraceNode, Rollout: p.Rollout, Node: p.Node}, true
}

// nameOf is the name of a span. The rows of a trace are read by it, so a node has its own.
func nameOf(p site.TracePart) string {
	switch p.Kind {
	case site.TraceNode:
		return "node " + p.Node
	case site.TraceWait:
		return "wait " + string(p.State)
	case site.TraceStep:
		return "step " + string(p.Action)
	}
	return string(p.Kind)
}

// attributes are what a span says. docs/traces.md lists them.
func attributes(p site.TracePart) []*commonpb.KeyValue {
	all := []*commonpb.KeyValue{text("slipway.revision", p.Revision.ID), text("slipway.outcome", p.Outcome)}
	add := func(key, value string) {
		if value != "" {
			all = append(all, text(key, value))
		}
	}
	add("slipway.node", p.Node)
	add("slipway.why", p.Why)
	if !p.Rollout.IsZero() {
		add("slipway.rollout", p.Rollout.UTC().Format(time.RFC3339))
	}
	switch p.Kind {
	case site.TraceRevision:
		add("slipway.subject", p.Revision.Subject)
		if !p.Revision.When.IsZero() {
			add("slipway.committed", p.Revision.When.UTC().Format(time.RFC3339))
		}
	case site.TracePlan:
		all = append(all, number("slipway.nodes", p.Nodes))
	case site.TraceRollout:
		all = append(all, number("slipway.nodes", p.Nodes), number("slipway.nodes.done", p.Done), number("slipway.nodes.failed", p.Lost))
	case site.TraceWait:
		add("slipway.state", string(p.State))
		add("slipway.gate", p.Gate)
		add("slipway.release", p.Release)
		all = append(all, flag("slipway.person", p.Person))
	case site.TraceStep:
		add("slipway.action", string(p.Action))
		add("slipway.facet", string(p.Facet))
		add("slipway.driver", p.Driver)
		add("slipway.impact", p.Impact.String())
		all = append(all, number("slipway.attempt", p.Attempt), flag("slipway.resumed", p.Resumed))
	}
	return all
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: clean(value)}}}
}

func number(key string, value int) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(value)}}}
}

func flag(key string, value bool) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: value}}}
}

// nanos is a time of OTLP, which knows none before 1970.
func nanos(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

// userinfo matches what may precede the host in a URL, also with a password that has "/" or "@", and granted what gives
// access otherwise. Both must stay private.
var (
	userinfo = regexp.MustCompile(`://\S*@`)
	granted  = regexp.MustCompile(`(?i)(bearer|basic) +\S+|([?&][^=&\s]*(token|key|secret|password|signature|sig)=)[^&\s]+`)
)

// mostCleaned bounds the work with a text, in bytes. A secret that is cut here has no longer the form that gives it
// away, and comes forward as others are redacted: the last word of a cut text is dropped.
const mostCleaned = 64 << 10

// clean makes a text fit to send: one printable line of bounded length without secrets.
func clean(s string) string {
	if len(s) > mostCleaned {
		s = s[:mostCleaned]
		s = s[:strings.LastIndexByte(s, ' ')+1] + "…"
	}
	s = granted.ReplaceAllString(userinfo.ReplaceAllString(s, "://"), "$1$2[redacted]")
	s = cleartext.Discreet(site.Finding{Message: s}).Message
	return printable(s, maxText)
}

// printable makes foreign text one printable line of so many bytes.
func printable(s string, bytes int) string { return short(site.Printable(s), bytes) }

// short cuts a text to so many bytes. A cut text ends with an ellipsis.
func short(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes-len("…")], "") + "…"
}
