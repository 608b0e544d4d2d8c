package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// request is one request for a page, on its way to the API.
type request struct {
	s          *Site
	r          *http.Request
	site, node string
	who        control.Identity
	// is is the answer of which who was read, and may what it may do, for an open page that asks again, see request.rights.
	is  []byte
	may string
	// whole leaves texts as long as they are: somebody is about to approve them.
	whole bool
	// files is where the forge shows those of the revision in force; empty where that is not known.
	files string
	// status is the site's, without nodes; nil where the caller may not see it. Nobody changes it.
	status *site.Status
	// verbs are what the caller may do with nodes, as far as that was asked.
	verbs map[string][]access.Verb
	// answers are all that the API was asked and has answered.
	answers maphash.Hash
}

// answer is an error that the API has answered.
type answer struct {
	status int
	Text   string `json:"error"`
	Kind   string `json:"kind"`
}

func (a *answer) Error() string { return a.Text }

// Status is the HTTP status.
func (a *answer) Status() int { return a.status }

// Follows says whether the daemon follows, and another one answers for the site.
func (a *answer) Follows() bool { return a.Kind == "follows" }

func asAnswer(err error) *answer {
	var a *answer
	if errors.As(err, &a) {
		return a
	}
	return &answer{status: http.StatusInternalServerError, Text: err.Error()}
}

// isDenied says whether the caller may not see something, which a page leaves out.
func isDenied(err error) bool {
	var a *answer
	return errors.As(err, &a) && (a.status == http.StatusForbidden || a.status == http.StatusNotFound)
}

// get asks the API for a value, by a path below its prefix.
func (q *request) get(path string, into any) error {
	return q.do(http.MethodGet, path, nil, into)
}

// errKnown is in place of an answer that is known without asking: what the API denies costs the caller much of what it may ask
// for, and an open page would try again and again.
var errKnown = &answer{status: http.StatusForbidden, Text: "you may not see this of the whole site"}

func (q *request) maySeeWhole() bool { return slices.Contains(q.who.Whole[q.site], access.Read) }

// ofNode is a path below the node of the page.
func (q *request) ofNode(what string) string {
	return q.ofSite("nodes/" + url.PathEscape(q.node) + what)
}

func (q *request) ofSite(what string) string { return "/sites/" + url.PathEscape(q.site) + "/" + what }

// known are the last answers to questions that many pages ask at the same time, by path, as they were read.
type known struct {
	mu  sync.Mutex
	all map[string]reading
}

// reading is an answer, which is read by whoever needs it first. Nobody changes its value.
type reading struct {
	sum   uint64
	value func() (any, error)
}

// of gives the last answer to a question if it is this one, or else has this one read.
func (k *known) of(path string, sum uint64, read func() (any, error)) func() (any, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.all[path]
	if r.value == nil || r.sum != sum {
		r = reading{sum, sync.OnceValues(read)}
	}
	if k.all == nil {
		k.all = map[string]reading{}
	}
	k.all[path] = r
	return r.value
}

// getShared is get for what pages of many people show of the whole site: an answer that is as the last one is not read once
// more. The value must not be changed.
func getShared[T any](q *request, path string) (value *T, err error) {
	body, err := q.answer(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	read := func() (any, error) {
		value := new(T)
		return value, q.read(body, value)
	}
	if !q.whole {
		read = q.s.known.of(path, maphash.Bytes(q.s.seed, body), read)
	}
	got, err := read()
	if err != nil {
		return nil, err
	}
	return got.(*T), nil
}

func (q *request) do(method, path string, body, into any) error {
	given, err := q.answer(method, path, body)
	if err != nil {
		return err
	}
	return q.read(given, into)
}

// read reads an answer, with texts that are as long as a page shows them.
func (q *request) read(given []byte, into any) error {
	if !q.whole {
		given = bounded(given, longest)
	}
	if err := json.Unmarshal(given, into); err != nil {
		return fmt.Errorf("read the answer of the API: %w", err)
	}
	return nil
}

// answer is what the API answers.
func (q *request) answer(method, path string, body any) ([]byte, error) {
	var text io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(b)
	}
	sub, err := inside(q.r.Context(), method, path, text)
	if err != nil {
		return nil, &answer{status: http.StatusNotFound, Text: "there is no such page"}
	}
	if body != nil {
		sub.Header.Set("Content-Type", "application/json")
	}
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	if !q.s.handle(w, sub) {
		return nil, &answer{status: http.StatusBadGateway, Text: "the daemon's answer was cut off"}
	}
	if w.status != http.StatusOK {
		a := &answer{status: w.status}
		if json.Unmarshal(w.body.Bytes(), a) != nil || a.Text == "" {
			a.Text = fmt.Sprintf("the daemon answered %d", w.status)
		}
		return nil, a
	}
	given := w.body.Bytes()
	q.answers.WriteString(path + "\n")
	q.answers.Write(given)
	return given, nil
}

// handle has the API answer, and is false where it broke off in the middle. A handler says that by a
// panic, which nobody else catches: there is no server around it here.
func (s *Site) handle(w http.ResponseWriter, r *http.Request) (whole bool) {
	defer func() {
		switch p := recover(); p {
		case nil, http.ErrAbortHandler:
		default:
			panic(p)
		}
	}()
	s.api.ServeHTTP(w, r)
	return true
}

// inside is a request to the API that was not sent: who asks is in its context.
func inside(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://slipway/api/v1"+path, body)
	if err == nil {
		r.RequestURI = r.URL.RequestURI()
		r.URL.Scheme, r.URL.Host = "", ""
	}
	return r, err
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// longest is how many bytes of one text a page shows.
const longest = 1500

// bounded is JSON whose strings have at most so many bytes each. What is cut says so.
func bounded(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		out = append(out, text[i])
		if text[i] != '"' {
			continue
		}
		from := i + 1
		end := from
		cut := 0 // where the last whole character within the bound ends
		for end < len(text) && text[end] != '"' {
			if end-from <= most && text[end]&0xc0 != 0x80 {
				cut = end
			}
			switch {
			case text[end] == '\\' && end+1 < len(text) && text[end+1] == 'u':
				end += 6
			case text[end] == '\\':
				end += 2
			default:
				end++
			}
		}
		end = min(end, len(text))
		if end-from > most {
			out = append(append(out, text[from:cut]...), " … (cut)"...)
		} else {
			out = append(out, text[from:end]...)
		}
		if end < len(text) {
			out = append(out, '"')
		}
		i = end
	}
	return out
}

// mayOnNode asks what the caller may do with the node of the page: it may be less than with others.
func (q *request) mayOnNode(p *Shell) error {
	verbs, err := q.allowed()
	switch {
	case isDenied(err):
		return nil // what the page asks for next says so
	case err != nil:
		return err
	}
	clear(p.May)
	for _, v := range verbs {
		p.May[string(v)] = true
	}
	return nil
}

// allowed are the verbs that the caller may use on the node of the request. They are asked for once.
func (q *request) allowed() ([]access.Verb, error) {
	if verbs, known := q.verbs[q.node]; known {
		return verbs, nil
	}
	var verbs []access.Verb
	if err := q.get(q.ofNode("/allowed"), &verbs); err != nil {
		return nil, err
	}
	if q.verbs == nil {
		q.verbs = map[string][]access.Verb{}
	}
	q.verbs[q.node] = verbs
	return verbs, nil
}

// closeup is what is recorded and observed of the node of the request, or errKnown where the caller is known not to see it:
// roles may be for some nodes, and what the API denies costs much.
func (q *request) closeup() (c *site.Closeup, err error) {
	if !slices.Contains(q.who.Whole[q.site], access.Records) {
		if !slices.Contains(q.who.Verbs[q.site], access.Records) {
			return nil, errKnown
		}
		if verbs, err := q.allowed(); err != nil {
			return nil, err
		} else if !slices.Contains(verbs, access.Records) {
			return nil, errKnown
		}
	}
	err = q.get(q.ofNode("/records"), &c)
	return c, err
}

// shell asks who asks, and for the status that every page of a site begins with.
func (q *request) shell(name, title string) (*Shell, error) {
	p := &Shell{Title: title, Name: name, Site: q.site, Node: q.node, Now: q.s.now(), May: map[string]bool{}, Whole: map[string]bool{}, Style: q.s.named("style.css"), Script: q.s.named("script.js"), Icon: q.s.named("icon.svg")}
	if err := q.get("/whoami", &q.who); err != nil {
		return nil, err
	}
	q.answers.Reset() // two who may do the same are shown the same
	p.Who, p.LoggedIn = q.who.String(), q.who.Kind == access.OIDC && control.SessionOf(q.r) != ""
	if err := q.get("/sites", &p.Sites); err != nil {
		return nil, err
	}
	p.Wall = q.r.URL.Query().Has("wall")
	if q.site == "" {
		return p, nil
	}
	q.site = named(q.site, p.Sites)
	p.Site, p.rights = q.site, rightsOf(q.who, q.site)
	if !slices.Contains(p.Sites, q.site) {
		return nil, &answer{status: http.StatusNotFound, Text: "this daemon has no site of that name"}
	}
	for _, v := range q.who.Verbs[q.site] {
		p.May[string(v)] = true
	}
	for _, v := range q.who.Whole[q.site] {
		p.Whole[string(v)] = true
	}
	if q.node != "" {
		if err := q.mayOnNode(p); err != nil {
			return nil, err
		}
	}
	if !p.May[string(access.Read)] {
		return nil, &answer{status: http.StatusForbidden, Text: q.who.String() + " may not read site " + q.site + ": ask for a line in the access file on the daemon's host"}
	}
	if q.maySeeWhole() { // and not somebody who may see some racks
		status, err := getShared[site.Status](q, q.ofSite("status"))
		if err != nil && !isDenied(err) {
			return nil, err
		}
		if p.Status = status; status != nil {
			q.status, q.files, p.Files = status, status.Files, status.Files
		}
	}
	return p, nil
}
