package notify

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
)

// alertmanagerPace is the pace of repeating lasting causes. Alertmanager keeps its alerts only in memory, and ends
// those that nobody repeats.
var alertmanagerPace = Pace{More: time.Minute, Remind: time.Minute}

// alertLasts is when an alert without repetition ends. It is longer than overAfter, so that a cause that comes and
// goes stays one alert.
const alertLasts = overAfter + 5*time.Minute

// alertNames are the names of alerts by the kind of their cause.
var alertNames = map[Kind]string{
	Stalled: "SlipwayNodesStalled", Held: "SlipwayNodesHeld", Approval: "SlipwayApprovalWaits",
	Halted: "SlipwayRolloutHalted", Problem: "SlipwaySiteProblem",
}

// alertmanagerPosts converts a message for Alertmanager's API v2. A credential with a user name logs in with it;
// one without is a bearer token. Alertmanager identifies an alert by its labels, which stay the same as long as its
// cause.
func alertmanagerPosts(address *url.URL, k credential, m Message) ([]request, error) {
	type alert struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		StartsAt    time.Time         `json:"startsAt"`
		EndsAt      time.Time         `json:"endsAt"`
	}
	alerts := make([]alert, 0, len(m.Events))
	for i := range m.Events {
		e := &m.Events[i]
		a := alert{
			Labels: map[string]string{"alertname": alertNames[e.Kind], "site": m.Site, "kind": string(e.Kind), "cause": e.Cause,
				"severity": severity(e.Kind)},
			Annotations: map[string]string{"summary": short(m.Site+": "+e.line(), maxSummary), "description": e.What},
			StartsAt:    e.Since.UTC(), EndsAt: m.When.Add(alertLasts),
		}
		if e.Since.IsZero() || e.Since.After(m.When) {
			a.StartsAt = m.When // the clock was set back
		}
		if e.Do != "" {
			a.Annotations["do"] = e.Do
		}
		if len(e.Nodes) > 0 {
			a.Annotations["nodes"] = fmt.Sprintf("%d: %s", e.Count, say.Some(e.all, maxMention))
		}
		if e.Event == EventResolved {
			a.EndsAt = m.When
		}
		alerts = append(alerts, a)
	}
	header := http.Header{}
	switch {
	case k.text == "":
	case k.user != "":
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(k.user+":"+k.text)))
	case strings.ContainsAny(k.text, " \t"):
		return nil, &keyError{k.name, "a bearer token has no spaces: a password needs its user name, in the line \"username: NAME\""}
	default:
		header.Set("Authorization", "Bearer "+k.text)
	}
	return []request{{url: address.JoinPath("api/v2/alerts"), header: header, body: encode(alerts), causes: m.causes()}}, nil
}
