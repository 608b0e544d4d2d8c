package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/secret"
)

// service is a double of a service. It takes what the service's documentation
// says that it takes, and nothing else.
type service struct {
	*httptest.Server
	check func(r *http.Request, body []byte) (answer string, err error)
	ok    int // the status of what is taken

	mu     sync.Mutex
	next   []int // statuses of the next answers, whatever was sent
	asks   string
	taken  [][]byte
	wrong  []string // why something was not taken
	posted int
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posted++
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if len(s.next) > 0 {
		status := s.next[0]
		s.next = s.next[1:]
		if s.asks != "" {
			w.Header().Set("Retry-After", s.asks)
		}
		http.Error(w, "no: "+string(body)+r.URL.String(), status) // as the services that repeat what they got
		return
	}
	if kind := r.Header.Get("Content-Type"); r.Method != http.MethodPost || !strings.HasPrefix(kind, "application/json") {
		err = fmt.Errorf("%s of %s", r.Method, kind)
	}
	answer := ""
	if err == nil {
		answer, err = s.check(r, body)
	}
	if err != nil {
		s.wrong = append(s.wrong, err.Error())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.taken = append(s.taken, body)
	w.WriteHeader(s.ok)
	io.WriteString(w, answer)
}

// strict reads JSON in which every field is known.
func strict(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

const (
	slackPath  = "/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"
	teamsPath  = "/workflows/0123456789abcdef/triggers/manual/paths/invoke?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=Abc-123_secret"
	routingKey = "0123456789abcdef0123456789abcdef"
)

// slackBare is a control character that Slack would take for its own.
var slackBare = regexp.MustCompile(`[<>]|&($|[^algt]|a[^m]|[lg][^t])`)

// takesSlack is https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks.
func takesSlack(r *http.Request, body []byte) (string, error) {
	type text struct{ Type, Text string }
	var m struct {
		Text   string
		Blocks []struct {
			Type string
			Text *text
		}
	}
	if err := strict(body, &m); err != nil {
		return "", fmt.Errorf("invalid_payload: %w", err)
	}
	texts := []string{m.Text}
	for _, b := range m.Blocks {
		if b.Type != "section" || b.Text == nil || b.Text.Type != "mrkdwn" && b.Text.Type != "plain_text" || b.Text.Text == "" || utf8.RuneCountInString(b.Text.Text) > 3000 {
			return "", fmt.Errorf("invalid_blocks: %+v", b)
		}
		texts = append(texts, b.Text.Text)
	}
	if r.URL.RequestURI() != slackPath {
		return "", fmt.Errorf("invalid_token: %s", r.URL.RequestURI())
	}
	for _, t := range texts {
		if slackBare.MatchString(t) {
			return "", fmt.Errorf("not escaped: %q", t)
		}
	}
	if m.Text == "" || utf8.RuneCountInString(m.Text) > 40_000 || len(m.Blocks) > 50 {
		return "", fmt.Errorf("no_text, or %d blocks", len(m.Blocks))
	}
	return "ok", nil
}

// takesTeams is https://learn.microsoft.com/connectors/teams (28 KB, each character
// counted as two bytes) and the schema of Adaptive Cards 1.4.
func takesTeams(r *http.Request, body []byte) (string, error) {
	var m struct {
		Type        string
		Attachments []struct {
			ContentType string
			ContentURL  *string
			Content     struct {
				Schema        string `json:"$schema"`
				Type, Version string
				Body          []struct {
					Type      string
					Separator bool
					Inlines   []struct{ Type, Text, Weight string }
				}
			}
		}
	}
	if err := strict(body, &m); err != nil {
		return "", err
	}
	if r.URL.RequestURI() != teamsPath {
		return "", errors.New("DirectApiAuthorizationRequired")
	}
	if 2*utf8.RuneCount(body) > 28<<10 {
		return "", fmt.Errorf("413: %d bytes", len(body))
	}
	if m.Type != "message" || len(m.Attachments) != 1 || m.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" || m.Attachments[0].ContentURL != nil {
		return "", fmt.Errorf("not a message with an Adaptive Card: %.200s", body)
	}
	c := m.Attachments[0].Content
	if c.Type != "AdaptiveCard" || c.Version != "1.4" || len(c.Body) == 0 || c.Schema != "http://adaptivecards.io/schemas/adaptive-card.json" {
		return "", fmt.Errorf("not an Adaptive Card: %.200s", body)
	}
	for _, b := range c.Body {
		if b.Type != "RichTextBlock" || len(b.Inlines) == 0 {
			return "", fmt.Errorf("not a block: %+v", b)
		}
		for _, i := range b.Inlines {
			if i.Type != "TextRun" || i.Text == "" || i.Weight != "" && i.Weight != "Bolder" {
				return "", fmt.Errorf("not a run: %+v", i)
			}
		}
	}
	return "", nil
}

// takesPagerDuty is https://developer.pagerduty.com/docs/send-alert-event.
func takesPagerDuty(r *http.Request, body []byte) (string, error) {
	var m struct {
		RoutingKey string `json:"routing_key"`
		Action     string `json:"event_action"`
		DedupKey   string `json:"dedup_key"`
		Client     string
		Payload    *struct {
			Summary, Source, Severity, Timestamp, Component, Class string
			Details                                                map[string]any `json:"custom_details"`
		}
	}
	if err := strict(body, &m); err != nil {
		return "", err
	}
	switch p := m.Payload; {
	case r.URL.Path != "/v2/enqueue" || len(body) > 512<<10:
		return "", fmt.Errorf("%s, %d bytes", r.URL.Path, len(body))
	case m.RoutingKey != routingKey:
		return "", errors.New("routing_key")
	case m.DedupKey == "" || len(m.DedupKey) > 255:
		return "", fmt.Errorf("dedup_key %q", m.DedupKey)
	case m.Action == "resolve":
	case m.Action != "trigger" || p == nil:
		return "", fmt.Errorf("event_action %q", m.Action)
	case p.Summary == "" || len(p.Summary) > 1024 || p.Source == "" || !slices.Contains([]string{"critical", "error", "warning", "info"}, p.Severity):
		return "", fmt.Errorf("payload %+v", p)
	case p.Timestamp != "":
		if _, err := time.Parse(time.RFC3339, p.Timestamp); err != nil {
			return "", err
		}
	}
	return `{"status":"success","message":"Event processed","dedup_key":"` + m.DedupKey + `"}`, nil
}

// takesAlertmanager is api/v2/openapi.yaml of Alertmanager, and what its
// validation of alerts asks for.
func takesAlertmanager(r *http.Request, body []byte) (string, error) {
	var alerts []struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
		GeneratorURL        string
	}
	if err := strict(body, &alerts); err != nil {
		return "", err
	}
	if strings.TrimPrefix(r.URL.Path, "/prefix") != "/api/v2/alerts" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return "", fmt.Errorf("%s by %q", r.URL.Path, r.Header.Get("Authorization"))
	}
	for _, a := range alerts {
		switch {
		case a.Labels["alertname"] == "" || a.StartsAt.IsZero() || a.EndsAt.Before(a.StartsAt) || a.StartsAt.After(time.Now().Add(time.Minute)):
			return "", fmt.Errorf("alert %+v", a)
		}
		for name := range a.Labels {
			if !regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`).MatchString(name) {
				return "", fmt.Errorf("label %q", name)
			}
		}
	}
	return "", nil
}

// oneKey gives one credential for whatever is asked.
type oneKey struct{ user, text string }

func (k *oneKey) Get(secret.Request) (secret.Value, error) { return secret.New(k.user, k.text), nil }

// services are the doubles by the form that they take, with the address and the
// secret that a person would give.
var services = map[string]struct {
	check        func(*http.Request, []byte) (string, error)
	ok           int
	path, secret string // the secret begins with the server's URL where it begins with /
}{
	"slack":        {takesSlack, 200, "", slackPath},
	"teams":        {takesTeams, 202, "", teamsPath},
	"pagerduty":    {takesPagerDuty, 202, "/v2/enqueue", routingKey},
	"alertmanager": {takesAlertmanager, 200, "/prefix/", canary},
}

func serveDouble(t *testing.T, form string) (*service, *Webhook) {
	t.Helper()
	d := services[form]
	s := &service{check: d.check, ok: d.ok}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	text := d.secret
	if strings.HasPrefix(text, "/") {
		text = s.URL + text
	}
	w, err := NewWebhook(s.URL+d.path, "chat", form, &oneKey{text: text})
	if err != nil {
		t.Fatal(err)
	}
	return s, w
}

// eachService runs a test for each form but Slipway's own.
func eachService(t *testing.T, f func(t *testing.T, form string, s *service, w *Webhook)) {
	for form := range services {
		t.Run(form, func(t *testing.T) {
			s, w := serveDouble(t, form)
			f(t, form, s, w)
		})
	}
}

// events are so many of every kind, with foreign text at its worst.
func worstEvents(n int) []Event {
	var all []Event
	for i := range n {
		all = append(all, Event{Event: []EventKind{EventNew, EventMore, EventReminder, EventResolved}[i%4], Cause: fmt.Sprintf("%016x", i),
			Kind: []Kind{Stalled, Held, Approval, Halted, Problem}[i%5], What: printable(strings.Repeat("<!channel> & [x](http://x) ☃ \x00", 60)),
			Do: "slipway why n1", Since: time.Now().Add(-time.Hour), Count: 30, all: many(30)})
	}
	return all
}

func TestServicesTakeEveryMessage(t *testing.T) {
	eachService(t, func(t *testing.T, form string, s *service, w *Webhook) {
		for _, events := range [][]Event{worstEvents(1), worstEvents(4), worstEvents(60), message().Events} {
			m := newMessage("example", "abcd", time.Now(), events)
			if err := w.Send(t.Context(), m); err != nil {
				t.Errorf("%d events: %v", len(events), err)
			}
		}
		for _, wrong := range s.wrong {
			t.Error(wrong)
		}
		all := string(bytes.Join(s.taken, nil))
		if !strings.Contains(all, "slipway why n1") {
			t.Error("nobody is told what to do")
		}
		if form == "pagerduty" && len(s.taken) != 1+4+60+1 {
			t.Errorf("%d events", len(s.taken))
		}
		if (form == "slack" || form == "teams") && !strings.Contains(all, "more: slipway status") {
			t.Error("what was left out is not told")
		}
	})
}

// What repeats a request in its answer does not bring a secret to the log.
func TestServicesRefusals(t *testing.T) {
	for _, c := range []struct {
		status  int
		settled bool
		again   bool // a request is sent at the next try
	}{{400, true, true}, {413, true, true}, {403, false, false}, {404, false, false}, {410, false, false}, {429, false, true}, {408, false, true}, {500, false, true}, {503, false, true}} {
		eachService(t, func(t *testing.T, _ string, s *service, w *Webhook) {
			s.next, s.asks = []int{c.status}, "77"
			err := w.Send(t.Context(), message())
			var u *undelivered
			if !errors.As(err, &u) || u.after != wantAfter(c.settled) || (len(u.settled) == 1) != c.settled {
				t.Fatalf("%d: %#v", c.status, err)
			}
			for _, known := range []string{canary, routingKey, "XXXXXXXX", "Abc-123_secret"} {
				if strings.Contains(err.Error(), known) {
					t.Errorf("%d: the secret is in %v", c.status, err)
				}
			}
			err = w.Send(t.Context(), message())
			if c.again && (err != nil || s.posted != 2) || !c.again && (err == nil || s.posted != 1 || !strings.Contains(err.Error(), "unless the credential changes")) {
				t.Errorf("%d: after %d requests: %v", c.status, s.posted, err)
			}
		})
	}
}

// wantAfter is the time that the service asked for, which matters where there is a
// next try.
func wantAfter(settled bool) time.Duration {
	if settled {
		return 0
	}
	return 77 * time.Second
}

// A service that refused a credential is asked again once it is another.
func TestAnotherCredentialIsTriedAtOnce(t *testing.T) {
	s, w := serveDouble(t, "slack")
	s.next = []int{404}
	if err := w.Send(t.Context(), message()); err == nil {
		t.Fatal("taken")
	}
	w.secrets.(*oneKey).text = s.URL + slackPath + "?new"
	if err := w.Send(t.Context(), message()); err == nil || s.posted != 2 {
		t.Errorf("after %d requests: %v", s.posted, err)
	}
}

func TestRetryAfterIsUnderstood(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-5": 0, "x": 0, "99999999": time.Hour, "1e3": 0,
		time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):     0,
		time.Now().Add(30 * time.Hour).UTC().Format(http.TimeFormat): time.Hour,
	} {
		if got := retryAfter(header); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

// What PagerDuty calls an incident begins and ends by one key, and what it has
// taken is not sent again when the next event fails.
func TestPagerDutyResolvesWhatItWasTold(t *testing.T) {
	s, w := serveDouble(t, "pagerduty")
	events := worstEvents(2)
	s.next = nil
	if err := w.Send(t.Context(), newMessage("example", "", time.Now(), events)); err != nil {
		t.Fatal(err)
	}
	events[0].Event = EventResolved
	if err := w.Send(t.Context(), newMessage("example", "", time.Now(), events[:1])); err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, body := range s.taken {
		var e struct {
			Action string `json:"event_action"`
			Key    string `json:"dedup_key"`
		}
		if err := json.Unmarshal(body, &e); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, e.Action+" "+e.Key)
	}
	want := []string{"trigger slipway/example/0000000000000000", "trigger slipway/example/0000000000000001", "resolve slipway/example/0000000000000000"}
	if !slices.Equal(sent, want) {
		t.Errorf("sent %q", sent)
	}
	if !strings.Contains(string(s.taken[0]), `"severity":"error"`) || strings.Contains(w.url.String(), routingKey) {
		t.Errorf("sent %s", s.taken[0])
	}
}

func TestSlackShowsTextAsItIs(t *testing.T) {
	for text, want := range map[string]string{
		"a & b":                    "a &amp; b",
		"<!here>":                  "&lt;!here&gt;",
		strings.Repeat("☃", 40):    strings.Repeat("☃", 19) + "…",
		strings.Repeat("<", 10):    strings.Repeat("&lt;", 4) + "…",
		"exactly nineteen ch":      "exactly nineteen ch",
		"twenty characters ab":     "twenty characters a…",
		"&amp;":                    "&amp;amp;",
		"\xff":                     "\ufffd",
		strings.Repeat("x", 1<<20): strings.Repeat("x", 19) + "…",
	} {
		if got := slackEscape(text, 20); got != want {
			t.Errorf("%.30q: %q, want %q", text, got, want)
		}
	}
}

func TestCredentialsThatAFormCannotUse(t *testing.T) {
	for _, c := range []struct{ form, secret, want string }{
		{"slack", "https://evil.example/services/" + canary, "on the host of --notify-webhook"},
		{"slack", "http://hooks.example/services/" + canary, "on the host of --notify-webhook"},
		{"slack", "https://hooks.example:8443/services/" + canary, "on the host of --notify-webhook"},
		{"slack", "https://u:p@hooks.example/services/" + canary, "on the host of --notify-webhook"},
		{"teams", canary, "as the service shows it"},
		{"pagerduty", canary, "32 characters"},
		{"pagerduty", "", "32 characters"},
		{"alertmanager", canary + " x", "username: NAME"},
		{"smoke", canary, `no form "smoke": --notify-form takes one of alertmanager, pagerduty, slack, slipway, teams`},
	} {
		_, err := NewWebhook("https://hooks.example/", "chat", c.form, &oneKey{text: c.secret})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v, want %q", c.form, err, c.want)
		}
	}
	if _, err := NewWebhook("https://hooks.example", "chat", "slack", &oneKey{text: "https://hooks.example:443/services/x"}); err != nil {
		t.Error(err)
	}
}
