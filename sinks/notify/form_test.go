package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// received is what a receiver got of a message.
type received struct {
	path, authorization string
	body                map[string]any
	list                []any
	size                int
}

// receive sends a message in a form to a receiver that answers so, and gives what
// that got.
func receive(t *testing.T, form Form, credential string, m Message, status int) (all []received, err error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		got := received{path: r.URL.Path, authorization: r.Header.Get("Authorization"), size: len(text)}
		var body any
		if err != nil || json.Unmarshal(text, &body) != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s %v: %s", r.Method, r.Header, text)
		}
		if r.Header.Get(signatureHeader) != "" {
			t.Error("it is signed with what is a key here")
		}
		got.body, _ = body.(map[string]any)
		got.list, _ = body.([]any)
		all = append(all, got)
		w.WriteHeader(status)
		io.WriteString(w, "you sent "+canary)
	}))
	defer s.Close()
	w, err := NewWebhook(s.URL, form, credential, keys{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	return all, w.Send(t.Context(), m)
}

// told is a message of everything that can be told, with text that means something
// to some receiver.
func told(n int) Message {
	since := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	var events []Event
	for i := range n {
		kind := []Kind{Stalled, Held, Approval, Halted, Problem}[i%5]
		events = append(events, Event{Event: EventNew, Cause: fmt.Sprintf("c%d", i), Kind: kind, Since: since, first: since, Count: 1, all: []string{"n1"},
			What: "<!channel> & [click](https://example.org) *bold* `x`" + strings.Repeat(" long", 400), Do: "slipway why n1"})
	}
	events = append(events, Event{Event: EventResolved, Cause: "gone", Kind: Stalled, What: "denied", first: since, all: []string{"n2"}})
	return newMessage("example", "abcd", since.Add(time.Hour), events)
}

// at is what is at a path in JSON.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Slack, Block Kit: at most 50 blocks, 3000 characters in a section; the secret of
// an incoming webhook is the rest of its address.
func TestSlack(t *testing.T) {
	for _, n := range []int{1, 5, 80} {
		all, err := receive(t, Slack, "pager", told(n), http.StatusOK)
		if err != nil || len(all) != 1 || all[0].path != "/"+canary {
			t.Fatalf("%v: %+v", err, all)
		}
		blocks, _ := all[0].body["blocks"].([]any)
		if want := min(n+1, slackBlocks); len(blocks) != want {
			t.Errorf("%d blocks of %d events, want %d", len(blocks), n+1, want)
		}
		for _, b := range blocks {
			said, _ := at(b, "text", "text").(string)
			if at(b, "type") != "section" || at(b, "text", "type") != "mrkdwn" || said == "" || utf8.RuneCountInString(said) > slackText {
				t.Errorf("a block that Slack refuses: %s", text(t, b))
			}
			if strings.Contains(said, "<!channel>") {
				t.Errorf("it calls everybody: %s", said)
			}
		}
		if s, _ := all[0].body["text"].(string); !strings.HasPrefix(s, "example: ") || strings.Contains(s, "<") {
			t.Errorf("the summary is %q", s)
		}
		if n == 80 && !strings.Contains(text(t, blocks[slackBlocks-1]), "and 32 more") {
			t.Errorf("it does not say that there is more: %s", text(t, blocks[slackBlocks-1]))
		}
	}
}

// Microsoft Teams: an Adaptive Card of at most 28 KB.
func TestTeams(t *testing.T) {
	for _, n := range []int{1, 80} {
		all, err := receive(t, Teams, "pager", told(n), http.StatusAccepted)
		if err != nil || len(all) != 1 || all[0].size > teamsSize {
			t.Fatalf("%v: %d posts of %d", err, len(all), all[0].size)
		}
		attached := at(all[0].body, "attachments", 0)
		card := at(attached, "content")
		if at(all[0].body, "type") != "message" || at(attached, "contentType") != "application/vnd.microsoft.card.adaptive" ||
			at(card, "type") != "AdaptiveCard" || at(card, "version") == nil {
			t.Errorf("no card: %.300s", text(t, all[0].body))
		}
		body, _ := at(card, "body").([]any)
		for _, b := range body {
			if said, _ := at(b, "text").(string); at(b, "type") != "TextBlock" || said == "" || strings.Contains(said, " [click](") {
				t.Errorf("a block with a link: %s", text(t, b))
			}
		}
		if last := text(t, body[len(body)-1]); n == 80 && !strings.Contains(last, "more: slipway status") {
			t.Errorf("it does not say that there is more: %s", last)
		}
	}
}

// PagerDuty, Events API v2: an event each, with the key of the integration in it and
// nowhere else.
func TestPagerDuty(t *testing.T) {
	all, err := receive(t, PagerDuty, "pager", told(5), http.StatusAccepted)
	if err != nil || len(all) != 6 {
		t.Fatalf("%v: %d posts", err, len(all))
	}
	for i, got := range all {
		key, _ := got.body["dedup_key"].(string)
		if got.path != "/v2/enqueue" || got.body["routing_key"] != canary || !strings.HasPrefix(key, "slipway/example/") || len(key) > 255 {
			t.Errorf("%s %s", got.path, text(t, got.body))
		}
		delete(got.body, "routing_key")
		if strings.Contains(text(t, got.body), canary) {
			t.Error("the key is in the text")
		}
		if i == 5 {
			if got.body["event_action"] != "resolve" {
				t.Errorf("it is not resolved: %s", text(t, got.body))
			}
			continue
		}
		summary, _ := at(got.body, "payload", "summary").(string)
		severity, _ := at(got.body, "payload", "severity").(string)
		if got.body["event_action"] != "trigger" || summary == "" || utf8.RuneCountInString(summary) > pagerSummary || at(got.body, "payload", "source") != "example" ||
			!strings.Contains(" critical error warning info ", " "+severity+" ") {
			t.Errorf("PagerDuty refuses %s", text(t, got.body))
		}
	}
	if _, err := NewWebhook("https://events.example.org", PagerDuty, "", keys{}); err == nil || !strings.Contains(err.Error(), "--notify-credential") {
		t.Errorf("without a key: %v", err)
	}
}

// Alertmanager: one alert as long as the cause lasts, and its end.
func TestAlertmanager(t *testing.T) {
	all, err := receive(t, Alertmanager, "pager", told(5), http.StatusOK)
	if err != nil || len(all) != 1 || all[0].path != "/api/v2/alerts" || all[0].authorization != "Bearer "+canary || len(all[0].list) != 6 {
		t.Fatalf("%v: %+v", err, all)
	}
	for i, a := range all[0].list {
		begins, err1 := time.Parse(time.RFC3339, fmt.Sprint(at(a, "startsAt")))
		ends, err2 := time.Parse(time.RFC3339, fmt.Sprint(at(a, "endsAt")))
		if err1 != nil || err2 != nil || !begins.Before(ends) || (i == 5) != ends.Equal(told(1).When) {
			t.Errorf("from %v to %v", at(a, "startsAt"), at(a, "endsAt"))
		}
		labels, _ := at(a, "labels").(map[string]any)
		for name, value := range labels {
			if value == "" || strings.Contains(fmt.Sprint(value), "n1") {
				t.Errorf("the label %s is %q", name, value)
			}
		}
	}
}

// What a receiver refuses is told without the key that it may repeat.
func TestFormThatIsNotTaken(t *testing.T) {
	for _, form := range []Form{Slack, Teams, PagerDuty, Alertmanager} {
		all, err := receive(t, form, "pager", told(3), http.StatusTooManyRequests)
		if err == nil || !strings.Contains(err.Error(), "429") || strings.Contains(err.Error(), canary) || len(all) != 1 {
			t.Errorf("%s: %v, after %d posts", form, err, len(all))
		}
	}
	if _, err := NewWebhook("https://hooks.example.org", "irc", "", keys{}); err == nil || !strings.Contains(err.Error(), "alertmanager, pagerduty, slack, teams") {
		t.Errorf("a form that is none: %v", err)
	}
}

// The rest of an address never leads to another host.
func TestRestOfAnAddressStaysOnItsHost(t *testing.T) {
	for rest, want := range map[string]string{
		"services/T1/B1/x": "https://hooks.example.org/services/T1/B1/x", "//evil.example/x": "https://hooks.example.org/evil.example/x",
		"../../x": "https://hooks.example.org/x", "https://evil.example": "https://hooks.example.org/https://evil.example",
		"workflows/1?sig=2": "https://hooks.example.org/workflows/1?sig=2",
	} {
		u, err := shapes[Slack].at(&url.URL{Scheme: "https", Host: "hooks.example.org"}, rest)
		if err != nil || u.String() != want {
			t.Errorf("%s: %v %v, want %s", rest, u, err, want)
		}
	}
}

// A real Alertmanager has one alert of a cause that is told twice, and none when
// it is resolved.
func TestRealAlertmanager(t *testing.T) {
	program, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("prometheus-alertmanager is not installed: run make setup")
		}
		t.Skip("prometheus-alertmanager is not installed: run make setup")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(config, []byte("route: {receiver: none}\nreceivers: [{name: none}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := free(t)
	run := exec.Command(program, "--config.file="+config, "--storage.path="+dir, "--web.listen-address="+address, "--cluster.listen-address=")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		run.Process.Kill()
		run.Wait()
	})
	w, err := NewWebhook("http://"+address, Alertmanager, "", keys{})
	if err != nil {
		t.Fatal(err)
	}
	e := Event{Event: EventNew, Cause: "c1", Kind: Stalled, What: "denied", Do: "slipway why a", Since: time.Now().Add(-time.Hour), all: []string{"a"}}
	send := func(kind EventKind) error {
		e.Event = kind
		return w.Send(t.Context(), newMessage("example", "abcd", time.Now(), []Event{e}))
	}
	ready := time.NewTicker(50 * time.Millisecond)
	defer ready.Stop()
	for end := time.Now().Add(time.Minute); send(EventNew) != nil; <-ready.C {
		if time.Now().After(end) {
			t.Fatal("it does not start")
		}
	}
	for _, c := range []struct {
		kind EventKind
		want int
	}{{EventReminder, 1}, {EventResolved, 0}} {
		if err := send(c.kind); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get("http://" + address + "/api/v2/alerts?active=true")
		if err != nil {
			t.Fatal(err)
		}
		var alerts []map[string]any
		err = json.NewDecoder(resp.Body).Decode(&alerts)
		resp.Body.Close()
		if err != nil || len(alerts) != c.want {
			t.Errorf("after %s there are %d alerts, want %d: %v %v", c.kind, len(alerts), c.want, alerts, err)
		}
	}
}

// free is an address of this host that nobody uses.
func free(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	return strings.TrimPrefix(s.URL, "http://")
}
