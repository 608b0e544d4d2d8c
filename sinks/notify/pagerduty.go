package notify

import (
	"net/url"
	"strings"
	"time"
)

// routingKeyLength is the length of the key of an Events API v2 integration.
const routingKeyLength = 32

// pagerdutyPosts converts a message for PagerDuty's Events API v2, one request per event. One cause is one alert,
// which ends with the cause. A repeated event changes nothing, because PagerDuty finds the alert by its dedup_key.
func pagerdutyPosts(address *url.URL, k credential, m Message) ([]request, error) {
	if len(k.text) != routingKeyLength || strings.ContainsFunc(k.text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &keyError{k.name, "PagerDuty asks for the integration key of an Events API v2 integration, 32 characters: name its credential by --notify-credential"}
	}
	type payload struct {
		Summary   string         `json:"summary"`
		Source    string         `json:"source"`
		Severity  string         `json:"severity"`
		Timestamp time.Time      `json:"timestamp,omitzero"`
		Component string         `json:"component,omitempty"`
		Class     string         `json:"class,omitempty"`
		Details   map[string]any `json:"custom_details,omitempty"`
	}
	type event struct {
		RoutingKey string   `json:"routing_key"`
		Action     string   `json:"event_action"`
		DedupKey   string   `json:"dedup_key"`
		Payload    *payload `json:"payload,omitempty"`
		Client     string   `json:"client,omitempty"`
	}
	var posts []request
	for i := range m.Events {
		e := &m.Events[i]
		out := event{RoutingKey: k.text, Action: "resolve", DedupKey: dedupKey(m.Site, e.Cause)}
		if e.Event != EventResolved {
			out.Action, out.Client = "trigger", "slipway"
			out.Payload = &payload{Summary: short(m.Site+": "+e.line(), 1024), Source: m.Site, Severity: severity(e.Kind), Timestamp: e.Since.UTC(),
				Component: "slipway", Class: string(e.Kind),
				Details: map[string]any{"what": e.What, "do": e.Do, "count": e.Count, "nodes": e.Nodes, "revision": m.Revision}}
		}
		posts = append(posts, request{url: address, body: encode(out), causes: []string{e.Cause}})
	}
	return posts, nil
}

// dedupKey identifies an alert in PagerDuty, in at most 255 characters.
func dedupKey(site, cause string) string {
	return "slipway/" + short(site, 200) + "/" + cause
}
