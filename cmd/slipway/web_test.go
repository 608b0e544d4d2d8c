package main

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/web"
	"github.com/slipway-gitops/slipway/tests/browser"
)

// asksDesk is the answer of a desk to one request.
func asksDesk(d *desk, method, target, host string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+host+target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// One browser of this host is let in, by a link that works once.
func TestDesk(t *testing.T) {
	const host = "127.0.0.1:8480"
	asked := 0
	d := newDesk(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte("[]"))
	}), host)
	for name, w := range map[string]*httptest.ResponseRecorder{
		"without the key":   asksDesk(d, "GET", "/", host),
		"with another key":  asksDesk(d, "GET", "/?key=x", host),
		"a static file":     asksDesk(d, "GET", "/static/x/style.css", host),
		"the API":           asksDesk(d, "GET", "/api/v1/sites", host),
		"by another name":   asksDesk(d, "GET", "/?key="+d.key, "evil.example.org:8480"),
		"with a wrong note": asksDesk(d, "GET", "/", host, "Cookie", d.cookie()+"=x"),
	} {
		if w.Code < 400 || len(w.Result().Cookies()) > 0 || asked > 0 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	w := asksDesk(d, "GET", "/?key="+d.key, host)
	if w.Code != 200 || len(w.Result().Cookies()) != 1 {
		t.Fatalf("the key: %d", w.Code)
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie %+v", c)
	}
	if again := asksDesk(d, "GET", "/?key="+d.key, host); again.Code != 403 || len(again.Result().Cookies()) > 0 {
		t.Errorf("the key again: %d", again.Code)
	}
	cookie := c.Name + "=" + c.Value
	if w := asksDesk(d, "GET", "/api/v1/sites", host, "Cookie", cookie); w.Code != 200 || asked != 1 {
		t.Errorf("with the cookie: %d", w.Code)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"a page of another site":   asksDesk(d, "GET", "/api/v1/sites", host, "Cookie", cookie, "Sec-Fetch-Site", "cross-site"),
		"a form of another site":   asksDesk(d, "POST", "/sites/berlin/do/pause", host, "Cookie", cookie, "Origin", "http://evil.example.org"),
		"a form of another port":   asksDesk(d, "POST", "/sites/berlin/do/pause", host, "Cookie", cookie, "Sec-Fetch-Site", "same-site"),
		"a form from nowhere":      asksDesk(d, "POST", "/sites/berlin/do/pause", host, "Cookie", cookie),
		"an order to the API":      asksDesk(d, "POST", "/api/v1/sites/berlin/pause", host, "Cookie", cookie, "Sec-Fetch-Site", "same-origin"),
		"a path with two meanings": asksDesk(d, "GET", "/api/v1/sites/%2e%2e%2fx", host, "Cookie", cookie),
	} {
		if w.Code < 400 || asked > 1 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("policy %q", policy)
	}
}

// A browser comes in by the link, once, and its forms are known as those of the page.
func TestBrowserAtTheDesk(t *testing.T) {
	b := browser.Open(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(http.NotFoundHandler(), l.Addr().String())
	d.pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><title>%s</title><link rel="icon" href="data:,"><form method="post"><button>Send</button></form>`, r.Method)
	})
	srv := &http.Server{Handler: d}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-ended
	})
	link := "http://" + l.Addr().String() + "/?key=" + d.key
	own, other := b.Window(t, browser.Screen{Width: 1280, Height: 900}), b.Window(t, browser.Screen{Width: 1280, Height: 900})
	own.Go(link)
	own.Until(`document.title === "GET"`)
	own.Click("button")
	own.Until(`document.title === "POST"`)
	if all := own.Complaints(); len(all) > 0 {
		t.Error(all)
	}
	other.Go(link)
	if got := other.Text("document.body.innerText"); !strings.Contains(got, "used already") {
		t.Errorf("the link again: %s", got)
	}
}

// readsNowhere are the commands that show something and have no page, each with the reason.
var readsNowhere = map[string]string{
	"diff": "it compares folders of this host", "render": "it reads a folder of this host", "schema": "it is of the program, and not of a site", "rules": "it is of the program, and not of a site",
	"version": "it is of the program, and not of a site", "sites": "it asks a repository from this host, and no daemon", "events": "each page shows what happens as it happens", "report": "it writes a page of its own",
	"erase-report": "it is a document for people elsewhere", "certificate": "it asks the nodes from this host", "ssh": "it logs in from this host",
	"discover": "it asks addresses from this host", "bmc": "it asks a BMC from this host, with credentials of this host", "context": "it is of this host and its user",
	"token": "it is of files of this host", "member": "it is of this host, and of records that others keep", "secret": "no page shows a secret", "site": "no page shows a key",
	"state": "it is of files of this host", "artifact": "it moves files of this host", "help": "it is of the program", "completion": "it is of the program",
}

// actsHere are the commands that write files or keep running here, or that act in another way than an order of the page.
var actsHere = []string{"adopt", "allocate", "compromise", "fmt", "grant", "image", "init", "login", "logout", "migrate", "ramdisk", "run", "web", "witness"}

// What the page shows, a command shows; and the other way round, or there is a reason.
func TestPageShowsWhatCommandsShow(t *testing.T) {
	root := (&app{}).command()
	root.InitDefaultHelpCmd()
	named := map[string]bool{}
	for _, r := range web.Reads() {
		words := strings.Fields(r.Command)
		if len(words) < 2 || words[0] != "slipway" {
			t.Errorf("%s names no command that shows the same, but %q", r.Page, r.Command)
			continue
		}
		if wrong := unknownWord((&app{}).command(), words[1:]); wrong != "" {
			t.Errorf("%s names %q, and there is no %s", r.Page, r.Command, wrong)
		}
		if strings.Contains(r.Page, "{node}") != strings.Contains(r.Command, "{node}") || strings.Contains(r.Page, "{number}") != strings.Contains(r.Command, "{number}") || strings.Contains(r.Page, "{commit}") != strings.Contains(r.Command, "{commit}") {
			t.Errorf("%s is about other things than %q", r.Page, r.Command)
		}
		named[words[1]] = true
	}
	for _, cmd := range root.Commands() {
		name := cmd.Name()
		isAct := slices.ContainsFunc(web.Acts, func(a web.Act) bool { return string(a.Verb) == name })
		places := 0
		for _, is := range []bool{named[name] || isAct, readsNowhere[name] != "", slices.Contains(actsHere, name)} {
			if is {
				places++
			}
		}
		switch {
		case cmd.Hidden || places == 1:
		case places == 0:
			t.Errorf("slipway %s has no page: let a view of engine/web name it, or say here why it needs none", name)
		default:
			t.Errorf("slipway %s is said here to have no page, and has one", name)
		}
	}
	for _, name := range slices.AppendSeq(slices.Clone(actsHere), maps.Keys(readsNowhere)) {
		if cmd, _, err := root.Find([]string{name}); name != "completion" && (err != nil || cmd.Name() != name) {
			t.Errorf("there is no command %s", name)
		}
	}
	logs, _, err := root.Find([]string{"logs"})
	if err != nil {
		t.Fatal(err)
	}
	for flag := range strings.SplitSeq(strings.Fields(logs.Use)[2], "|") { // each shows something else
		if !slices.ContainsFunc(web.Reads(), func(r web.Read) bool { return r.Command == "slipway logs {node} "+flag }) {
			t.Errorf("slipway logs %s has no page", flag)
		}
	}
}

// What the page can do, the commands can do; and the other way round, but for what needs files here.
func TestPageDoesWhatCommandsDo(t *testing.T) {
	elsewhere := []access.Verb{access.Artifacts, access.Export, access.SSH, access.Grant} // these read or write files of whoever calls; a grant needs a second look, away from a browser
	reads := []access.Verb{access.Read, access.Records, access.Logs, access.Files, access.Audit}
	root := (&app{}).command()
	var acts []string
	for _, a := range web.Acts {
		acts = append(acts, string(a.Verb))
		if cmd, _, err := root.Find([]string{string(a.Verb)}); err != nil || cmd.Name() != string(a.Verb) {
			t.Errorf("the page can %s, and no command does", a.Verb)
		}
	}
	for _, m := range access.Verbs {
		if slices.Contains(elsewhere, m.Verb) || slices.Contains(reads, m.Verb) {
			continue
		}
		if !slices.Contains(acts, string(m.Verb)) {
			t.Errorf("callers may %s, and the page cannot", m.Verb)
		}
	}
	if len(acts) != len(access.Verbs)-len(elsewhere)-len(reads) || site.Verb(acts[0]) != site.VerbApprove {
		t.Errorf("acts %v", acts)
	}
}
