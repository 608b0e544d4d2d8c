// Package web is the page of Slipway: HTML that shows what the API of a daemon says, and forms that ask
// it to act.
//
// It is a client of the API: each page asks it with the context of its own request, so that who may see
// and do what, the audit log and the limits are decided there and nowhere here. Pages are rendered on
// the server and can be read without a script. The script keeps an open page up to date, and moves
// through tables by keys.
//
// Everything that is shown goes through Page.write, which bounds it and makes it printable: names,
// reasons and messages come from machines, from designs and from people.
package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"hash/maphash"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

//go:embed static pages
var files embed.FS

// Site is what pages are made for.
type Site struct {
	api     http.Handler
	mux     *http.ServeMux
	pages   map[string]*template.Template
	assets  map[string]asset // by path
	live    hub
	rows    rows
	known   known
	shared  shared
	packers packers
	now     func() time.Time
	seed    maphash.Seed
}

// New makes the pages of an API. The handler must be reached only by requests of a caller that the API
// knows by their context, or by whom the API's own handler stands for.
func New(api http.Handler) *Site {
	s := &Site{api: api, assets: assets(), packers: newPackers(), now: time.Now, seed: maphash.MakeSeed()}
	s.pages = templates(s)
	s.live.site = s
	s.mux = http.NewServeMux()
	for path := range s.assets {
		s.mux.HandleFunc("GET "+path, s.asset)
	}
	s.mux.HandleFunc("GET /{$}", s.home)
	for _, v := range views {
		s.mux.HandleFunc("GET "+v.path, func(w http.ResponseWriter, r *http.Request) { s.view(w, r, v) })
	}
	s.mux.HandleFunc("GET /sites/{site}/live", s.follow)
	s.mux.HandleFunc("GET /sites/{site}/do/{verb}", s.ask)
	s.mux.HandleFunc("POST /sites/{site}/do/{verb}", s.act)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &answer{status: http.StatusNotFound, Text: "there is no such page"})
	})
	return s
}

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Login shows the page on which persons log in. It asks the API nothing, which does not know who is there.
func (s *Site) Login(w http.ResponseWriter, r *http.Request, n control.LoginNotice) {
	page := s.bare(r, "login", "Log in")
	page.Site, page.LoggedIn = "", false
	page.Content = n
	s.write(w, r, "login", page, n.Status)
}

// view is one page of a site.
type view struct {
	path, name, title string
	// command shows the same, with "{node}", "{number}" and "{commit}" for those of the page.
	command string
	// load gives what the page shows, and the paths below /api/v1 that it came from.
	load func(*request) (any, []string, error)
	// costly says that the page asks a machine: it is not loaded by a link on another site.
	costly bool
	// every is how often an open page is made anew where no event tells of what it shows; 0 for a page whose events tell.
	every time.Duration
}

// commandOf is the command that shows what a page does, by its request.
func (v view) commandOf(r *http.Request) string {
	return strings.NewReplacer("{node}", r.PathValue("node"), "{number}", r.PathValue("number"), "{commit}", r.PathValue("commit")).Replace(v.command)
}

// Read is a page of a site, and the command that shows the same.
type Read struct{ Page, Command string }

// Reads are all pages of a site.
func Reads() (all []Read) {
	for _, v := range views {
		all = append(all, Read{v.path, v.command})
	}
	return all
}

// views are the pages of a site.
var views = []view{
	{path: "/sites/{site}", name: "overview", title: "Overview", command: "slipway status", load: overview},
	{path: "/sites/{site}/nodes", name: "nodes", title: "Nodes", command: "slipway status --all", load: nodes},
	{path: "/sites/{site}/nodes/{node}", name: "node", title: "Node", command: "slipway why {node}", load: node},
	{path: "/sites/{site}/nodes/{node}/design", name: "design", title: "Design", command: "slipway explain {node}", load: nodeDesign},
	{path: "/sites/{site}/nodes/{node}/inventory", name: "inventory", title: "Inventory", command: "slipway inventory {node}", load: inventory},
	{path: "/sites/{site}/nodes/{node}/history", name: "history", title: "History", command: "slipway history {node}", load: history},
	{path: "/sites/{site}/nodes/{node}/console", name: "console", title: "Console", command: "slipway logs {node} --console", load: console, costly: true, every: readEvery},
	{path: "/sites/{site}/nodes/{node}/agent-log", name: "agentlog", title: "Agent log", command: "slipway logs {node} --agent", load: agentLog},
	{path: "/sites/{site}/nodes/{node}/machine-log", name: "machinelog", title: "Machine log", command: "slipway logs {node} --machine", load: machineLog},
	{path: "/sites/{site}/racks", name: "racks", title: "Racks", command: "slipway racks", load: racks},
	{path: "/sites/{site}/rollout", name: "rollout", title: "Rollout", command: "slipway rollout", load: rollout},
	{path: "/sites/{site}/network", name: "network", title: "Network and links", command: "slipway explain NODE interfaces", load: network},
	{path: "/sites/{site}/proposals", name: "proposals", title: "Pull requests", command: "slipway proposals", load: proposals},
	{path: "/sites/{site}/proposals/{number}", name: "proposal", title: "Pull request", command: "slipway proposals {number}", load: proposal},
	{path: "/sites/{site}/commits", name: "commits", title: "Branches", command: "slipway commits", load: commits, every: listEvery},
	{path: "/sites/{site}/commits/{commit}", name: "commit", title: "Plan of a commit", command: "slipway commits {commit}", load: commit, costly: true, every: planEvery},
	{path: "/sites/{site}/plan", name: "plan", title: "Plan", command: "slipway plan", load: sitePlan},
	{path: "/sites/{site}/findings", name: "findings", title: "Findings", command: "slipway check", load: findings},
	{path: "/sites/{site}/approvals", name: "approvals", title: "Approvals", command: "slipway approve", load: approvals},
	{path: "/sites/{site}/incidents", name: "incidents", title: "Incidents", command: "slipway incident", load: incidents},
	{path: "/sites/{site}/verify", name: "verify", title: "Verify", command: "slipway verify", load: verify},
	{path: "/sites/{site}/history", name: "history", title: "History", command: "slipway history", load: history},
	{path: "/sites/{site}/audit", name: "audit", title: "Audit log", command: "slipway audit", load: audit},
}

// Shell is what every page has around its own content.
type Shell struct {
	Title, Name string
	Site, Node  string
	Sites       []string
	Who         string
	LoggedIn    bool            // by a browser, which can log out
	May         map[string]bool // verbs that the caller may use on anything of the site
	Whole       map[string]bool // verbs that the caller may use on the whole site
	JSON        []string        // where the page came from
	Command     string          // that shows the same; empty for a page of no view
	Live        string          // where changes of the page come from; empty for a page that does not change
	Wall        bool
	Now         time.Time
	Status      *site.Status // without nodes; nil where it is not known
	Files       string       // where the forge shows those of the revision in force; empty where that is not known
	Style       string
	Script      string
	Icon        string
	Content     any
	answers     uint64 // equal for equal answers of the API to equal questions; 0 where none was loaded
	address     string // of the page, with its query
	rights      string // of the caller, as rightsOf
	open        bool   // somebody has the page open, and its script counts times
}

// view serves one page.
func (s *Site) view(w http.ResponseWriter, r *http.Request, v view) {
	page, err := s.shell(r.WithContext(control.WithRecentReport(r.Context())), v)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, r, v.name, page, http.StatusOK)
}

// shell loads a page from one report, which is in the context of its request.
func (s *Site) shell(r *http.Request, v view) (*Shell, error) {
	q := &request{s: s, r: r, site: r.PathValue("site"), node: r.PathValue("node")}
	q.answers.SetSeed(s.seed)
	page, err := q.shell(v.name, v.title)
	if err != nil {
		return nil, err
	}
	if v.costly && !isFromHere(r) {
		page.Content = untouched{}
		return page, nil
	}
	content, from, err := v.load(q)
	if err != nil {
		return nil, err
	}
	page.Command = v.commandOf(r)
	page.Content, page.answers, page.address = content, q.answers.Sum64(), r.URL.RequestURI()
	for _, path := range from {
		page.JSON = append(page.JSON, "/api/v1"+path)
	}
	if !v.costly || v.every > 0 {
		page.Live = "/sites/" + q.site + "/live?" + url.Values{"page": {r.URL.RequestURI()}}.Encode()
	}
	return page, nil
}

// untouched is the content of a page that asks a machine, before somebody here has asked for it.
type untouched struct{}

// isFromHere says whether a request comes from a page of this host, or from an address that its user typed.
func isFromHere(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	return from == "" || from == "none" || from == "same-origin"
}

// isFromOwnPage says whether a browser asks for a page of this host here, or for an address that its user typed.
func isFromOwnPage(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	return from == "none" || from == "same-origin"
}

// home leads to the only site, or lists all of them.
func (s *Site) home(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(control.WithRecentReport(r.Context()))
	q := &request{s: s, r: r}
	page, err := q.shell("sites", "Sites")
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if len(page.Sites) == 1 {
		http.Redirect(w, r, "/sites/"+page.Sites[0], http.StatusFound)
		return
	}
	page.Content, page.JSON = q.siteLines(page.Sites), []string{"/api/v1/sites"}
	s.write(w, r, "sites", page, http.StatusOK)
}

const (
	mostAsked = 8               // sites that are asked at the same time
	siteWait  = 3 * time.Second // how long the list of sites waits for one that does not answer
)

// siteLine is a site in the list of sites.
type siteLine struct {
	Name     string
	Overview overviewPage
	Err      string
}

// siteLines are the lines of sites. One that does not answer delays no other.
func (q *request) siteLines(names []string) []siteLine {
	all, free := make([]siteLine, len(names)), make(chan struct{}, mostAsked)
	var asking sync.WaitGroup
	for i, name := range names {
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			ctx, cancel := context.WithTimeout(q.r.Context(), siteWait)
			defer cancel()
			all[i].Name = name
			o, _, err := overview(&request{s: q.s, r: q.r.WithContext(ctx), site: name, who: q.who})
			if err != nil {
				all[i].Err = err.Error()
				return
			}
			all[i].Overview = o.(overviewPage)
		})
	}
	asking.Wait()
	return all
}

// fail shows an error as a page that says what to do.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, err error) {
	a := asAnswer(err)
	page := s.bare(r, "error", "Not shown")
	page.Content = a
	s.write(w, r, "error", page, a.status)
}

// bare is a page about which the API was not asked.
func (s *Site) bare(r *http.Request, name, title string) *Shell {
	page := &Shell{Title: title, Name: name, Now: s.now(), Style: s.named("style.css"), Script: s.named("script.js"), Icon: s.named("icon.svg"), LoggedIn: control.SessionOf(r) != ""}
	if name := r.PathValue("site"); site.Printable(name) == name && len(name) < 64 {
		page.Site = name
	}
	return page
}

// write renders a page, and makes it printable.
func (s *Site) write(w http.ResponseWriter, r *http.Request, name string, page *Shell, status int) {
	text, err := s.render(name, "page", page)
	if err != nil {
		http.Error(w, "this page could not be made: "+site.Printable(err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if isFromOwnPage(r) { // or whoever counts the bytes of an answer could find out what is in it, by searches
		text = s.packers.pack(w, r, text)
	}
	w.WriteHeader(status)
	w.Write(text)
}

func (s *Site) render(name, part string, page *Shell) ([]byte, error) {
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, part, page); err != nil {
		return nil, err
	}
	return []byte(site.PrintableLines(b.String())), nil
}

// asset is a file that pages load. Its address has its digest, so it can be kept for ever.
type asset struct {
	kind         string
	text, packed []byte
}

func assets() map[string]asset {
	all := map[string]asset{}
	packer := gzip.NewWriter(nil)
	for _, name := range []string{"style.css", "script.js", "icon.svg"} {
		text, _ := files.ReadFile("static/" + name)
		kind := map[string]string{"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}[name[strings.LastIndexByte(name, '.')+1:]]
		if name == "style.css" {
			text = slices.Concat(text, []byte(present.ElevationStyle), []byte(present.MergingStyle), []byte(present.GanttStyle))
		}
		sum := sha256.Sum256(text)
		all["/static/"+hex.EncodeToString(sum[:6])+"/"+name] = asset{kind, text, packed(packer, text)}
	}
	return all
}

// named is the address of an asset.
func (s *Site) named(name string) string {
	for path := range s.assets {
		if strings.HasSuffix(path, "/"+name) {
			return path
		}
	}
	return ""
}

func (s *Site) asset(w http.ResponseWriter, r *http.Request) {
	a := s.assets[r.URL.Path]
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	w.Header().Set("Vary", "Accept-Encoding")
	if takesGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(a.packed)
		return
	}
	w.Write(a.text)
}
