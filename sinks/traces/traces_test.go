package traces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/collector"
)

// troubles are what people were told.
type troubles struct {
	mu   sync.Mutex
	told []string // "" for nothing wrong any more
}

func (p *troubles) tell(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if last := len(p.told) - 1; last >= 0 && p.told[last] == text || last < 0 && text == "" {
		return // as the engine does
	}
	p.told = append(p.told, text)
}

func (p *troubles) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// exporter is one to a collector without a network.
func exporter(t *testing.T, c *collector.Collector) (*Exporter, *troubles) {
	t.Helper()
	p := &troubles{}
	x, err := New(Config{Site: "lab", Version: "1.2", URL: "https://collector.example.org", Problem: p.tell, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	x.client.Transport = c.Transport()
	return x, p
}

// running runs an exporter in virtual time. stop ends it and says how long that took.
func running(t *testing.T, c *collector.Collector, f func(x *Exporter, p *troubles, stop func() time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x, p := exporter(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); x.Run(ctx) }()
		f(x, p, func() time.Duration {
			began := time.Now()
			cancel()
			<-ended
			return time.Since(began)
		})
		cancel()
		<-ended
		if wrong := c.Wrong(); len(wrong) > 0 {
			t.Errorf("the collector says: %q", wrong)
		}
	})
}

// step is a part that differs from others by its number.
func step(n int) site.TracePart {
	from := time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC)
	return site.TracePart{Kind: site.TraceStep, Revision: site.Revision{ID: "c1"}, Rollout: from.Add(-time.Hour), Node: "n1",
		Span: site.Span{From: from, To: from.Add(time.Minute)}, Outcome: "ok", Action: site.ActionPackages, Facet: site.FacetPackages, Driver: "ssh", Attempt: 1}
}

func pass(d time.Duration) {
	time.Sleep(d) // in a bubble
	synctest.Wait()
}

func TestATraceOfARevision(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(from, to time.Duration) site.Span { return site.Span{From: began.Add(from), To: began.Add(to)} }
	rev := site.Revision{ID: "4f9c2f6a6a0f", Subject: "compute: newer nginx", When: began.Add(-time.Minute)}
	rollout := began.Add(4 * time.Second)
	parts := []site.TracePart{
		{Kind: site.TraceFetch, Revision: rev, Span: at(0, time.Second), Outcome: "ok"},
		{Kind: site.TraceEvaluate, Revision: rev, Span: at(time.Second, 3*time.Second), Outcome: "ok"},
		{Kind: site.TracePlan, Revision: rev, Span: at(3*time.Second, 4*time.Second), Outcome: "ok", Nodes: 12},
		{Kind: site.TraceRevision, Revision: rev, Span: at(0, 5*time.Second), Outcome: "in force"},
		{Kind: site.TraceStep, Revision: rev, Rollout: rollout, Node: "n1", Span: at(10*time.Second, 20*time.Second), Outcome: "busy", Failed: true, Why: "the package manager is locked",
			Action: site.ActionPackages, Facet: site.FacetPackages, Driver: "ssh", Impact: site.ImpactInterrupts, Attempt: 1},
		{Kind: site.TraceWait, Revision: rev, Rollout: rollout, Node: "n1", Span: at(20*time.Second, 25*time.Second), Outcome: "over", State: site.Retrying, Gate: "the package manager is locked"},
		{Kind: site.TraceStep, Revision: rev, Rollout: rollout, Node: "n1", Span: at(25*time.Second, 40*time.Second), Outcome: "ok",
			Action: site.ActionPackages, Facet: site.FacetPackages, Driver: "ssh", Impact: site.ImpactInterrupts, Attempt: 2, Resumed: true},
		{Kind: site.TraceNode, Revision: rev, Rollout: rollout, Node: "n1", Span: at(10*time.Second, 41*time.Second), Outcome: "in-sync"},
		{Kind: site.TraceRollout, Revision: rev, Rollout: rollout, Span: at(4*time.Second, 41*time.Second), Outcome: "converged", Nodes: 1, Done: 1},
		{Kind: site.TraceStep, Revision: rev, Node: "n2", Span: at(time.Hour, time.Hour+time.Second), Outcome: "ok", Action: site.ActionPowerOn, Facet: site.FacetPower, Driver: "redfish", Impact: site.ImpactOnline, Attempt: 1},
	}
	want := `revision 5s trace=ID committed="2026-03-01T11:59:00Z" outcome="in force" revision="4f9c2f6a6a0f" site="lab" subject="compute: newer nginx"
  fetch 1s outcome="ok" revision="4f9c2f6a6a0f" site="lab"
  evaluate 2s outcome="ok" revision="4f9c2f6a6a0f" site="lab"
  plan 1s nodes="12" outcome="ok" revision="4f9c2f6a6a0f" site="lab"
  rollout 37s nodes="1" nodes.done="1" nodes.failed="0" outcome="converged" revision="4f9c2f6a6a0f" rollout="2026-03-01T12:00:04Z" site="lab"
  node n1 31s node="n1" outcome="in-sync" revision="4f9c2f6a6a0f" rollout="2026-03-01T12:00:04Z" site="lab"
    step install-packages 10s action="install-packages" attempt="1" driver="ssh" facet="packages" impact="interrupts" node="n1" outcome="busy" resumed="false" revision="4f9c2f6a6a0f" rollout="2026-03-01T12:00:04Z" site="lab" why="the package manager is locked" FAILED
    wait retrying 5s gate="the package manager is locked" node="n1" outcome="over" person="false" revision="4f9c2f6a6a0f" rollout="2026-03-01T12:00:04Z" site="lab" state="retrying"
    step install-packages 15s action="install-packages" attempt="2" driver="ssh" facet="packages" impact="interrupts" node="n1" outcome="ok" resumed="true" revision="4f9c2f6a6a0f" rollout="2026-03-01T12:00:04Z" site="lab"
  step power-on 1s action="power-on" attempt="1" driver="redfish" facet="power" impact="online" node="n2" outcome="ok" resumed="false" revision="4f9c2f6a6a0f" site="lab"
`
	// The second daemon does not know of the first: the trace is the same, however its parts are divided.
	c := &collector.Collector{}
	for i, half := range [][]site.TracePart{parts[:5], parts[5:]} {
		running(t, c, func(x *Exporter, p *troubles, stop func() time.Duration) {
			for _, part := range half {
				x.Trace(part)
			}
			pass(2 * gather)
			if n := x.Numbers(); n != (Numbers{Sent: int64(len(half))}) {
				t.Errorf("daemon %d: %+v", i, n)
			}
			if told := p.all(); len(told) > 0 {
				t.Errorf("told %q", told)
			}
		})
	}
	id := c.Spans()[0].Trace
	if got := strings.ReplaceAll(c.Tree(), id, "ID"); got != want {
		t.Errorf("the trace is\n%s\nwant\n%s", got, want)
	}
	if other := fmt.Sprintf("%x", traceOf("other", rev.ID)); other == id {
		t.Error("two sites share a trace")
	}
}

func TestUnkindCollectors(t *testing.T) {
	for name, c := range map[string]struct {
		moods  []collector.Mood
		after  time.Duration // until the spans are there, at least
		within time.Duration
		got    int // how often a span comes
		n      Numbers
		told   string // in what people are told; empty for nothing
	}{
		"one hiccup":        {moods: []collector.Mood{collector.Away}, after: 5 * time.Second, within: 8 * time.Second, got: 1, n: Numbers{Sent: 3}},
		"away for a while":  {moods: []collector.Mood{collector.Away, collector.Away, collector.Away}, after: 30 * time.Second, within: time.Minute, got: 1, n: Numbers{Sent: 3}, told: "unexpected EOF"},
		"cut after taking":  {moods: []collector.Mood{collector.Cut}, after: 0, within: 8 * time.Second, got: 2, n: Numbers{Sent: 3}},
		"slow":              {moods: []collector.Mood{collector.Slow(9 * time.Second)}, after: 9 * time.Second, within: 12 * time.Second, got: 1, n: Numbers{Sent: 3}},
		"far too slow":      {moods: []collector.Mood{collector.Slow(time.Hour), collector.Slow(time.Hour)}, after: 30 * time.Second, within: time.Minute, got: 1, n: Numbers{Sent: 3}, told: "deadline exceeded"},
		"asks for patience": {moods: []collector.Mood{collector.Answer(429, "slow down", "Retry-After", "120"), collector.Answer(429, "slow down", "Retry-After", "120")}, after: 240 * time.Second, within: 250 * time.Second, got: 1, n: Numbers{Sent: 3}, told: "answers 429 Too Many Requests: slow down"},
		"asks for a year":   {moods: []collector.Mood{collector.Answer(503, "", "Retry-After", "31536000")}, after: time.Hour, within: time.Hour + 10*time.Second, got: 1, n: Numbers{Sent: 3}},
		"asks for nonsense": {moods: []collector.Mood{collector.Answer(503, "", "Retry-After", "-5")}, after: 5 * time.Second, within: 10 * time.Second, got: 1, n: Numbers{Sent: 3}},
		"refuses":           {moods: []collector.Mood{collector.Answer(400, "bad data")}, within: time.Minute, n: Numbers{Refused: 3}, told: "answers 400 Bad Request: bad data"},
		"wants a login":     {moods: []collector.Mood{collector.Answer(401, "who are you\x1b[2J")}, within: time.Minute, n: Numbers{Refused: 3}, told: `answers 401 Unauthorized: who are you\u001b[2J`},
		"is broken":         {moods: []collector.Mood{collector.Answer(500, strings.Repeat("x", 1<<20))}, within: time.Minute, n: Numbers{Refused: 3}, told: "answers 500 Internal Server Error: xxx"},
		"redirects":         {moods: []collector.Mood{collector.Answer(307, "", "Location", "https://evil.example.org/")}, within: time.Minute, n: Numbers{Refused: 3}, told: "sends requests elsewhere (307): give --traces the address"},
		"is another page":   {moods: []collector.Mood{collector.Answer(200, "<html>", "Content-Type", "text/html")}, within: time.Minute, n: Numbers{Refused: 3}, told: "which is not the answer of a collector"},
		"lies in its form":  {moods: []collector.Mood{collector.Answer(200, "\xff\xff", "Content-Type", "application/x-protobuf")}, within: time.Minute, n: Numbers{Refused: 3}, told: "which is not the answer of a collector"},
		"says nothing":      {moods: []collector.Mood{collector.Answer(200, "")}, within: time.Minute, n: Numbers{Sent: 3}},
		"takes a part":      {moods: []collector.Mood{collector.Partly(2, "too old")}, within: time.Minute, got: 1, n: Numbers{Sent: 1, Refused: 2}, told: "refused 2 of 3 spans: too old"},
		"refuses too many":  {moods: []collector.Mood{collector.Partly(1<<62, "no")}, within: time.Minute, got: 1, n: Numbers{Refused: 3}, told: "refused 3 of 3 spans: no"},
	} {
		t.Run(name, func(t *testing.T) {
			sink := &collector.Collector{}
			sink.Next(c.moods...)
			running(t, sink, func(x *Exporter, p *troubles, _ func() time.Duration) {
				began := time.Now()
				for i := range 3 {
					x.Trace(step(i))
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("taking spans took %s", took)
				}
				settled := func() bool { n := x.Numbers(); return n.Sent+n.Refused == 3 }
				for !settled() && time.Since(began) < 2*time.Hour {
					pass(time.Second)
				}
				if took := time.Since(began); took < c.after || took > c.within {
					t.Errorf("after %s, want %s to %s", took, c.after, c.within)
				}
				pass(10 * time.Minute)
				if n := x.Numbers(); n != c.n {
					t.Errorf("%+v, want %+v", n, c.n)
				}
				if got := len(sink.Spans()); got != 3*c.got {
					t.Errorf("%d spans came, want %d", got, 3*c.got)
				}
				if lines := strings.Count(sink.Tree(), "\n"); c.got > 0 && lines != 3 {
					t.Errorf("%d different spans came", lines)
				}
				told := p.all()
				if c.told == "" && len(told) > 0 || c.told != "" && (len(told) == 0 || !strings.Contains(told[0], c.told)) {
					t.Errorf("told %q, want %q", told, c.told)
				}
				for _, text := range told {
					if len(text) > 300 {
						t.Errorf("told %d bytes", len(text))
					}
				}
				// Afterwards all is well again, and said to be.
				x.Trace(step(9))
				pass(10 * time.Minute)
				if told = p.all(); c.told != "" && (len(told) != 2 || told[1] != "") {
					t.Errorf("in the end told %q", told)
				}
			})
		})
	}
}

// A collector that is away for hours costs bounded memory and a bounded number of requests. The newest spans are kept.
func TestACollectorIsAwayForHours(t *testing.T) {
	c := &collector.Collector{}
	c.Always(collector.Away)
	running(t, c, func(x *Exporter, p *troubles, _ func() time.Duration) {
		const long, most = 4000, 18_000
		for i := range long {
			part := step(i)
			part.Gate = strings.Repeat("long ", 1000)
			x.Trace(part)
		}
		pass(time.Minute)
		if n := x.Numbers(); n.Dropped == 0 || x.queue.bytes > maxWaitingBytes {
			t.Errorf("%+v of %d bytes", n, x.queue.bytes)
		}
		for i := long; i < most; i++ {
			x.Trace(step(i))
		}
		pass(2 * time.Hour)
		n := x.Numbers()
		if n.Waiting == 0 || n.Waiting > maxWaiting || x.queue.bytes > maxWaitingBytes || n.Sent != 0 || n.Dropped+int64(n.Waiting)+maxBatch < most {
			t.Errorf("%+v", n)
		}
		if got := len(c.Requests()); got < 25 || got > 40 {
			t.Errorf("%d requests in two hours", got)
		}
		if told := p.all(); len(told) != 1 {
			t.Errorf("told %q", told)
		}
		c.Always(nil)
		pass(10 * time.Minute)
		last := step(most - 1).From
		if !slices.ContainsFunc(c.Spans(), func(s collector.Span) bool { return s.From.Equal(last) }) {
			t.Error("the newest span is lost")
		}
		if n := x.Numbers(); n.Waiting != 0 || n.Sent+n.Dropped != most {
			t.Errorf("in the end %+v", n)
		}
		if told := p.all(); len(told) != 2 || told[1] != "" {
			t.Errorf("told %q", told)
		}
	})
}

// What a daemon leaves is sent at its end, if the collector takes it at once.
func TestTheEndOfADaemon(t *testing.T) {
	for name, c := range map[string]struct {
		always collector.Mood
		sent   int
	}{
		"kind": {nil, maxBatch + 5}, "away": {collector.Away, 0}, "hangs": {collector.Slow(time.Hour), 0},
	} {
		t.Run(name, func(t *testing.T) {
			sink := &collector.Collector{}
			sink.Always(c.always)
			running(t, sink, func(x *Exporter, _ *troubles, stop func() time.Duration) {
				pass(time.Hour)
				for i := range maxBatch + 5 {
					x.Trace(step(i))
				}
				if took := stop(); took > lastChance {
					t.Errorf("the end took %s", took)
				}
				if n := x.Numbers(); n.Sent != int64(c.sent) || n.Waiting != maxBatch+5-c.sent || len(sink.Spans()) != c.sent {
					t.Errorf("%+v, and %d came", n, len(sink.Spans()))
				}
			})
		})
	}
}

type oneSecret struct{ v secret.Value }

func (o oneSecret) Get(r secret.Request) (secret.Value, error) {
	if r.Use != secret.Traces || r.Host != "collector.example.org" || r.Port != 443 {
		return secret.Value{}, fmt.Errorf("asked for %+v", r)
	}
	if o.v.IsZero() {
		return o.v, errors.New("there is no such file")
	}
	return o.v, nil
}

func TestCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		user, secret  string
		header, value string
		err           string
	}{
		"token":    {secret: "s3cr3t-token", header: "Authorization", value: "Bearer s3cr3t-token"},
		"password": {user: "ann", secret: "s3cr3t-token", header: "Authorization", value: "Basic YW5uOnMzY3IzdC10b2tlbg=="},
		"header":   {secret: "x-honeycomb-team: s3cr3t-token", header: "X-Honeycomb-Team", value: "s3cr3t-token"},
		"spaces":   {secret: "s3cr3t token", err: "a bearer token has no spaces"},
		"a key":    {secret: "-----BEGIN OPENSSH PRIVATE KEY-----\ns3cr3t\n-----END OPENSSH PRIVATE KEY-----\n", err: "private key"},
		"none":     {err: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			sink, told := &collector.Collector{}, &troubles{}
			sink.Next(func(w http.ResponseWriter, r *http.Request, _ func()) { // as servers that repeat what they got
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, r.Header)
			})
			x, err := New(Config{Site: "lab", URL: "https://collector.example.org", Credential: "otlp", Secrets: oneSecret{secret.New(c.user, c.secret)}, Problem: told.tell, Log: slog.New(slog.DiscardHandler)})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "s3cr3t") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			x.client.Transport = sink.Transport()
			_, err = x.post(t.Context(), oneSpan(step(1)))
			if err == nil || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "YW5u") {
				t.Errorf("got %v", err)
			}
			if got := sink.Requests()[0].Header.Get(c.header); got != c.value {
				t.Errorf("%s is %q", c.header, got)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"https://c.example.org":                 "https://c.example.org/v1/traces",
		"https://c.example.org:4318/":           "https://c.example.org:4318/v1/traces",
		"https://c.example.org/api/v2/traces":   "https://c.example.org/api/v2/traces",
		"http://127.0.0.1:4318":                 "http://127.0.0.1:4318/v1/traces",
		"http://[::1]:4318":                     "http://[::1]:4318/v1/traces",
		"http://c.example.org:4318":             "read and changed on the way",
		"https://ann:pw@c.example.org":          "a password in it",
		"https://c.example.org/v1/traces?key=x": "a query",
		"grpc://127.0.0.1:4317":                 "use https://",
		"c.example.org:4318":                    "not a URL",
		"":                                      "not a URL",
	} {
		u, err := Address(address)
		got := fmt.Sprint(err)
		if err == nil {
			got = u.String()
		}
		if !strings.Contains(got, want) || strings.Contains(got, "pw@") {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// Texts of others are sent as one printable line of bounded length, without what looks like a secret.
func TestTextsAreClean(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[31mred\x1b[0m\nnext": `\u001b[31mred\u001b[0m next`,
		"a\u202eb":                 `a\u202eb`,
		"cannot read https://ann:hunter22@img.example.org/x":    "cannot read https://img.example.org/x",
		"cannot read https://bot:p@ss-w0rd@img.example.org/x":   "cannot read https://img.example.org/x",
		"cannot read https://bot:pa/ss@img.example.org/x":       "cannot read https://img.example.org/x",
		"GET https://img.example.org/x?a=1&access_token=abc&b":  "GET https://img.example.org/x?a=1&access_token=[redacted]&b",
		"sent Authorization: Bearer abc.def-1":                  "sent Authorization: Bearer[redacted]",
		"cannot read https://ann@img.example.org/x":             "cannot read https://img.example.org/x",
		"token=ghp_0123456789abcdefghijklmnopqrstuvwxyz":        "token=***",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA":             "***",
		"wrong BMC password or locked account (credential bmc)": "wrong BMC password or locked account (credential bmc)",
		"\xff\xfe": `\u00ff\u00fe`,
	} {
		if got := clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	hostile := strings.Repeat("\u202e<script>\x00", 20_000)
	p := site.TracePart{Kind: site.TraceWait, Revision: site.Revision{ID: hostile, Subject: hostile}, Node: hostile, Why: hostile, Gate: hostile, Release: hostile, Outcome: hostile,
		State: site.State(hostile), Failed: true, Span: site.Span{From: time.Unix(1, 0), To: time.Unix(2, 0)}}
	sink := &collector.Collector{}
	x, _ := exporter(t, sink)
	if _, err := x.post(t.Context(), oneSpan(p)); err != nil {
		t.Fatal(err)
	}
	s := sink.Spans()[0]
	for key, value := range s.Attributes {
		if len(value) > maxText || !utf8.ValidString(value) || strings.ContainsAny(value, "\u202e\x00") {
			t.Errorf("%s is %d bytes: %q", key, len(value), value)
		}
	}
	if len(s.Name) > maxText {
		t.Errorf("the name is %d bytes", len(s.Name))
	}
}

// What a part costs the engine, which has its lock meanwhile: the collector is away, and the queue gets full.
func BenchmarkTrace(b *testing.B) {
	x, err := New(Config{Site: "lab", URL: "https://collector.example.org", Problem: func(error) {}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	part := step(1)
	part.Gate = "it waits for the canaries (storage-1) to be in-sync for 5s"
	for b.Loop() {
		x.Trace(part)
	}
}

// A secret behind a long one, cut or not, does not come forward when the long one is redacted.
func TestSecretsBehindLongOnes(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	for _, long := range []int{400, 960, 1000, mostCleaned - 60, mostCleaned - 30, mostCleaned} {
		if is := clean("bearer " + strings.Repeat("x", long) + " and " + secret + " end"); strings.Contains(is, "ghp_") {
			t.Errorf("%d: %q", long, is)
		}
	}
}
