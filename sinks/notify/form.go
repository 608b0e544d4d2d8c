package notify

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Own is the form of docs/notifications.md, for receivers written for Slipway.
const Own = "slipway"

// form is the form of a service's messages.
type form struct {
	// posts are the requests for a message, in order. The error says what the credential or the address lacks.
	posts func(address *url.URL, k credential, m Message) ([]request, error)
	// malformed reports whether a status refuses only this message. final reports whether it refuses the address or
	// the credential.
	malformed, final func(status int) bool
	pace             Pace // zero for that of people
}

// request is one request, with the causes of its events.
type request struct {
	url    *url.URL
	header http.Header // in addition to the usual ones
	body   []byte
	causes []string
}

var forms = map[string]form{
	Own:            {posts: ownPosts, malformed: never, final: never},
	"slack":        {posts: slackPosts, malformed: isMalformed, final: isFinal},
	"teams":        {posts: teamsPosts, malformed: isMalformed, final: isFinal},
	"pagerduty":    {posts: pagerdutyPosts, malformed: isMalformed, final: isFinal},
	"alertmanager": {posts: alertmanagerPosts, malformed: isMalformed, final: isFinal, pace: alertmanagerPace},
}

// Forms are the names of the forms of a webhook.
func Forms() []string { return slices.Sorted(maps.Keys(forms)) }

func never(int) bool { return false }

func isMalformed(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

func isFinal(status int) bool {
	return status/100 == 4 && !isMalformed(status) && status != http.StatusRequestTimeout && status != http.StatusTooEarly &&
		status != http.StatusTooManyRequests
}

// credential is a credential as a form uses it.
type credential struct{ name, user, text string }

// hide removes the secret from foreign text. If the secret is an address, hide also removes its parts.
func (k credential) hide(text string) string {
	secrets := []string{k.text}
	if u, err := url.Parse(k.text); err == nil && u.Host != "" {
		secrets = append(secrets, u.RequestURI(), u.RawQuery, u.Path)
		secrets = append(secrets, strings.Split(u.Path, "/")...)
		for _, values := range u.Query() {
			secrets = append(secrets, values...)
		}
	}
	for _, s := range secrets {
		if s == k.text && s != "" || len(s) >= shortestSecret {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
	}
	return text
}

// shortestSecret is the minimum length of a hidden part of an address, in bytes. Shorter parts are words.
const shortestSecret = 8

func ownPosts(address *url.URL, k credential, m Message) ([]request, error) {
	body := m.body()
	header := http.Header{"Content-Type": {"application/json"}}
	if k.text != "" {
		header.Set(signatureHeader, sign(k.text, body))
	}
	return []request{{url: address, header: header, body: body, causes: m.causes()}}, nil
}

// causes are the causes of the message's events.
func (m *Message) causes() []string {
	var all []string
	for i := range m.Events {
		all = append(all, m.Events[i].Cause)
	}
	return all
}

// secretAddress is the address from the credential, for services whose address itself is the secret. It must have
// the host and port of the address on the command line, for which the credential was requested.
func secretAddress(address *url.URL, k credential) (*url.URL, error) {
	if k.text == "" {
		return address, nil
	}
	u, err := url.Parse(k.text)
	if err != nil || u.User != nil || u.Scheme != address.Scheme || !strings.EqualFold(u.Hostname(), address.Hostname()) || portOf(u) != portOf(address) {
		return nil, &keyError{k.name, "it must be the address of the webhook as the service shows it, on the host of --notify-webhook"}
	}
	return u, nil
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// keyError reports a credential that a form cannot use.
type keyError struct{ name, what string }

func (e *keyError) Error() string {
	if e.name == "" {
		return e.what
	}
	return "credential \"" + e.name + "\": " + e.what
}

// severity is the severity of a kind of cause, in PagerDuty's words.
func severity(k Kind) string {
	switch k {
	case Problem:
		return "critical"
	case Held, Approval:
		return "warning"
	}
	return "error"
}

// encode encodes a value as JSON.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and times
	}
	return b
}
