package control

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/access"
)

const referenceHead = `# The API

This page is the reference of the API of a daemon. How to set it up, and who may do what, is in
[Open the API to other hosts](api-access.md). Tests make this page and the OpenAPI description from the table of routes that the daemon
serves, and hold its answers against them.

The API is HTTP with JSON. It is the same on the unix socket in the state directory and, with ` + "`slipway run --api`" + `, over HTTPS:

    curl --cert ana.crt --key ana.key --cacert ca.pem https://slipway.example.org:8443/api/v1/sites/-/status
    curl --header "Authorization: Bearer $TOKEN" --cacert ca.pem https://slipway.example.org:8443/api/v1/whoami
    curl --unix-socket /var/lib/slipway/control.sock http://slipway/api/v1/sites

All fields of all answers are in the OpenAPI description at ` + "`/api/v1/openapi.json`" + `.

## Rules

- The version is in the path. Within it fields and routes are added, and none is removed or gets another meaning. Ignore fields that
  you do not know.
- In a path, the site ` + "`-`" + ` is the only site of the daemon. Names are written as they are: a path with escapes is refused.
- A body is one JSON object, with ` + "`Content-Type: application/json`" + `. A field that the route does not know is an error.
- An order without a node is refused. For all nodes of the site, say ` + "`\"all\": true`" + `.
- Answers have an ETag. With ` + "`If-None-Match`" + ` an answer that is the same is 304, without a body.
- Lists that can be long come in pages: ask again with ` + "`after`" + `.
- Nothing waits for a slow client, and each caller has a [share](api-access.md#limits). Who is told 429 waits for the time in ` + "`Retry-After`" + `.

## Errors

An error is ` + "`{\"error\": \"a sentence\", \"kind\": \"…\"}`" + `:

| kind | status | means |
|---|---|---|
`

// meanings are the kinds of errors in words.
var meanings = map[string]string{
	"not-authenticated": "neither a valid certificate nor a valid token was shown",
	"access-file-wrong": "nobody may use the API with a login, because the access file on the daemon's host is wrong: the daemon's log says what; a login stays good",
	"issuer-away":       "the token cannot be verified, because the issuer of OpenID Connect does not answer: later, or show a certificate",
	"denied":            "the caller is known, and may not do this",
	"bad-request":       "the request is not understood, and nothing was done",
	"too-many-requests": "the caller asks too much, or too many ask: later",
	"not-found":         "there is no such site, node or route",
	"which-site":        "the daemon manages several sites, and the request names none; nothing was done. The answer lists them",
	"away":              "the process of the site does not answer: it starts, or has ended, as the sentence says. Other sites of the daemon are not concerned",
	"follows":           "this daemon follows, and another one answers for the site; nothing was done. Callers who prove who they are read which",
	"refused":           "the order does not fit what is so now, as the sentence says; nothing was done",
	"mismatch":          "the file has another digest",
	"not-fetched":       "the server of the file refuses it",
	"no-room":           "the artifact store is full",
}

// reference is docs/api.md.
func reference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, k := range kinds {
		if meanings[k.name] == "" {
			t.Errorf("nothing says what the error %q means", k.name)
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", k.name, k.status, meanings[k.name])
	}
	b.WriteString("| none | 500 | an error of the daemon |\n\n## Verbs\n\nA caller needs the verb of a route. The verbs in bold are for persons only: no token ever has them.\n\n| verb | allows to |\n|---|---|\n")
	for _, m := range access.Verbs {
		name := "`" + string(m.Verb) + "`"
		if m.ForPersons {
			name = "**" + name + "**"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, m.Allows)
	}
	b.WriteString("\n## Routes\n\nAll paths begin with `" + prefix + "`.\n\n| route | verb | for |\n|---|---|---|\n")
	for _, rt := range routes() {
		verb := "none"
		if rt.verb != "" {
			verb = "`" + string(rt.verb) + "`"
		}
		where := map[scope]string{ofSite: "the site", ofNode: "the node", ofSome: "what the caller may read", ofOrder: "what the body names", ofCaller: "every known caller"}[rt.scope]
		fmt.Fprintf(&b, "| [`%s %s`](#%s) | %s | %s |\n", rt.method, rt.path, anchor(&rt), verb, where)
	}
	comments := commentsOf(t)
	for _, rt := range routes() {
		fmt.Fprintf(&b, "\n### %s %s\n\n%s\n", rt.method, rt.path, rt.about)
		if len(rt.query) > 0 {
			b.WriteString("\n| query | is |\n|---|---|\n")
			for _, q := range rt.query {
				fmt.Fprintf(&b, "| `%s` | %s, such as `%s` |\n", q.name, q.about, q.example)
			}
		}
		if rt.body != nil {
			b.WriteString("\n| field of the body | is |\n|---|---|\n")
			bodyFields(&b, comments, reflect.TypeOf(rt.body))
		}
		gives := "bytes"
		if rt.gives != nil {
			gives = "`" + nameOf(reflect.TypeOf(rt.gives)) + "`"
		}
		fmt.Fprintf(&b, "\nGives %s.\n", gives)
	}
	b.WriteString(referenceTail)
	return b.String()
}

const referenceTail = `
## Events as they happen

With ` + "`Accept: text/event-stream`" + `, ` + "`GET /sites/{site}/events`" + ` sends [server-sent events](https://html.spec.whatwg.org/multipage/server-sent-events.html)
from now on. Each has the ` + "`seq`" + ` of the event as its id, its kind as its type, and the event as JSON.

    id: 1774958400000123
    event: state
    data: {"seq":1774958400000123,"when":"2026-03-31T12:00:00Z","node":"compute-5","kind":"state","text":"in-sync"}

- After an interruption, send the last id as ` + "`Last-Event-ID`" + ` (browsers do so by themselves). The stream goes on with the next event.
- If events in between are no longer kept, an event of the type ` + "`gap`" + ` comes in their place. Read the status again then.
- A line that begins with a colon comes every 15 s when nothing happens. When none comes, the connection is lost.
- A client that lags more than 4096 events behind is sent a ` + "`gap`" + ` too. One that reads nothing for 10 s is cut off, and resumes.
- The stream ends when the caller loses its right, within 15 s.
`

func anchor(rt *route) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(rt.method+" "+rt.path))
}

func nameOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "base64"
		}
		return "[]" + nameOf(t.Elem())
	case reflect.Map:
		return "object"
	}
	if t.Name() == "string" {
		return "string"
	}
	return strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
}

func bodyFields(b *strings.Builder, comments map[string]string, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			bodyFields(b, comments, f.Type)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		about := comments[t.Name()+"."+f.Name]
		if about == "" {
			about = "the " + name
		}
		about = strings.TrimSuffix(strings.TrimPrefix(about, f.Name+" is "), ".")
		if options == "" {
			about += "; required"
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, about)
	}
}
