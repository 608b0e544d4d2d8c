package notify

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Form is how a webhook's receiver wants its messages.
type Form string

// The forms.
const (
	Plain        Form = "slipway"      // the message as it is, signed
	Slack        Form = "slack"        // an incoming webhook of Slack
	Teams        Form = "teams"        // a workflow of Microsoft Teams, "when a webhook request is received"
	PagerDuty    Form = "pagerduty"    // PagerDuty, Events API v2
	Alertmanager Form = "alertmanager" // Prometheus Alertmanager, API v2
)

// shape is what is otherwise in a form.
type shape struct {
	// bodies are what is posted, one after the other, of a message.
	bodies func(m Message, secret string) []any
	// path is where, below an address that has none.
	path string
	// address is the part of the address that the credential holds, which is the
	// secret of these receivers: whoever has it can post.
	address bool
	// needed says that nothing can be posted without a credential.
	needed bool
	// authorize puts the credential into a request; nil for none.
	authorize func(r *http.Request, user, secret string)
}

var shapes = map[Form]shape{
	Slack:        {bodies: slackBodies, address: true},
	Teams:        {bodies: teamsBodies, address: true},
	PagerDuty:    {bodies: pagerDutyBodies, path: "/v2/enqueue", needed: true},
	Alertmanager: {bodies: alertmanagerBodies, path: "/api/v2/alerts", authorize: authorize},
}

// Forms are the names of all forms.
func Forms() []string {
	names := []string{string(Plain)}
	for _, f := range slices.Sorted(maps.Keys(shapes)) {
		names = append(names, string(f))
	}
	return names
}

// at is where a message goes: the receiver's own path below an address without
// one, or with the rest of the address that the credential holds.
func (s shape) at(u *url.URL, secret string) (*url.URL, error) {
	if s.address && secret != "" {
		return u.Parse(strings.TrimRight(u.Path, "/") + "/" + strings.TrimLeft(secret, "/"))
	}
	if s.path != "" && strings.Trim(u.Path, "/") == "" {
		return u.Parse(s.path)
	}
	return u, nil
}

// authorize logs in with a user's password, or else with a token.
func authorize(r *http.Request, user, secret string) {
	switch {
	case secret == "":
	case user != "":
		r.SetBasicAuth(user, secret)
	default:
		r.Header.Set("Authorization", "Bearer "+secret)
	}
}

// Bounds of the receivers.
const (
	slackText     = 3000           // characters of a section's text (Slack, Block Kit, section)
	slackBlocks   = 50             // of a message (Slack, Block Kit)
	teamsSize     = 28 << 10       // bytes of a message (Microsoft, Create Incoming Webhooks)
	pagerSummary  = 1024           // characters (PagerDuty, PD-CEF)
	alertText     = 4 << 10        // bytes of an annotation, ours
	teamsOverhead = 4 << 10        // left for what is around the lines
	firingLasts   = 25 * time.Hour // reminders come every 24 hours
)

// slackBodies is a section for each event. The three characters that have a
// meaning of their own are escaped (Slack, Formatting text for app surfaces), so
// that no text mentions anybody or makes a link.
func slackBodies(m Message, _ string) []any {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	var blocks []any
	for i := range m.Events {
		if rest := len(m.Events) - i; len(blocks) == slackBlocks-1 && rest > 1 {
			blocks = append(blocks, slackSection(fmt.Sprintf("and %d more: `slipway status`", rest)))
			break
		}
		e := &m.Events[i]
		text := mark[markOf(e)] + " *" + escape.Replace(m.Site) + "*: " + escape.Replace(short(e.line(), slackText/2))
		if e.Do != "" && e.Event != EventResolved {
			text += "\n" + escape.Replace(short(e.Do, slackText/4))
		}
		blocks = append(blocks, slackSection(text))
	}
	return []any{map[string]any{"text": escape.Replace(m.Summary), "blocks": blocks}}
}

func slackSection(text string) any {
	return map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": text}}
}

// mark is what people see of an event at a glance.
var mark = map[string]string{"resolved": ":white_check_mark:", "waits": ":raised_hand:", "wrong": ":red_circle:"}

// markOf is the kind of mark.
func markOf(e *Event) string {
	switch {
	case e.Event == EventResolved:
		return "resolved"
	case e.Kind == Approval || e.Kind == Held:
		return "waits"
	}
	return "wrong"
}

// teamsBodies is an Adaptive Card with a text for each event. A text block of a
// card takes some Markdown, which is escaped.
func teamsBodies(m Message, _ string) []any {
	block := func(text, colour string) any {
		return map[string]any{"type": "TextBlock", "text": text, "wrap": true, "color": colour}
	}
	colours := map[string]string{"resolved": "good", "waits": "warning", "wrong": "attention"}
	lines, size := []any{map[string]any{"type": "TextBlock", "text": markdown(m.Site), "wrap": true, "weight": "bolder", "size": "medium"}}, 0
	for i := range m.Events {
		e := &m.Events[i]
		text := markdown(e.line())
		if e.Do != "" && e.Event != EventResolved {
			text += "\n\n" + markdown(e.Do)
		}
		if size += 2*len(text) + 100; size > teamsSize-teamsOverhead {
			lines = append(lines, block(fmt.Sprintf("and %d more: slipway status", len(m.Events)-i), "default"))
			break
		}
		lines = append(lines, block(text, colours[markOf(e)]))
	}
	card := map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": lines}
	return []any{map[string]any{"type": "message", "attachments": []any{
		map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card}}}}
}

// markdown is a text as Markdown shows it unchanged.
func markdown(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("\\`*_{}[]()<>#+-!|~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// pagerDutyBodies is an event for each cause: what is told again is the same
// incident, by its key, and what is resolved ends it. The secret is the
// integration's routing key.
func pagerDutyBodies(m Message, secret string) []any {
	var all []any
	for i := range m.Events {
		e := &m.Events[i]
		body := map[string]any{"routing_key": secret, "event_action": "trigger", "dedup_key": "slipway/" + m.Site + "/" + e.Cause}
		if e.Event == EventResolved {
			body["event_action"] = "resolve"
		} else {
			body["client"] = "Slipway"
			body["payload"] = map[string]any{
				"summary": short(m.Site+": "+e.line(), pagerSummary), "source": m.Site, "severity": severity(e), "class": e.Kind, "timestamp": m.When,
				"custom_details": map[string]any{"what": e.What, "do": e.Do, "nodes": e.Nodes, "count": e.Count, "revision": m.Revision},
			}
		}
		all = append(all, body)
	}
	return all
}

// severity is how bad a cause is, in words that PagerDuty has too.
func severity(e *Event) string {
	if markOf(e) == "waits" {
		return "warning"
	}
	return "error"
}

// alertmanagerBodies are the alerts of a message. What labels say stays the same as
// long as the cause lasts, so that it is one alert. One that nobody ends, because
// this daemon is gone, ends by itself.
func alertmanagerBodies(m Message, _ string) []any {
	alerts := make([]any, 0, len(m.Events))
	for i := range m.Events {
		e := &m.Events[i]
		alert := map[string]any{
			"labels":      map[string]string{"alertname": "SlipwayNeedsAPerson", "site": m.Site, "kind": string(e.Kind), "cause": e.Cause, "severity": severity(e)},
			"annotations": map[string]string{"summary": short(m.Site+": "+e.line(), alertText), "description": short(e.What, alertText), "do": short(e.Do, alertText), "nodes": strings.Join(e.Nodes, ", ")},
			"endsAt":      m.When.Add(firingLasts),
		}
		if e.Event == EventResolved {
			alert["endsAt"] = m.When
		}
		begins := m.When.Add(-time.Second) // before its end
		if !e.Since.IsZero() && e.Since.Before(begins) {
			begins = e.Since
		}
		alert["startsAt"] = begins
		alerts = append(alerts, alert)
	}
	return []any{alerts}
}
