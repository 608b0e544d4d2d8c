package control

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Front is the Daemon of a host that keeps several sites, each in a process of its own. It finds out who asks, and passes
// each request on to the site's process, which says what the caller may do, does it and keeps the audit log. So nothing of a
// site is in the process that all sites share.
type Front struct {
	Daemon // nil: everything that it does not have itself is passed on
	// Processes are those of the sites, by the names of the sites.
	Processes func() []Process
	Log       *slog.Logger

	once      sync.Once
	transport *http.Transport
	granted   shared[map[string]granted]
}

// Process is the daemon of one site, in a process of its own.
type Process struct {
	Site string
	// Socket is where it answers the host's daemon: ServeBehind.
	Socket string
	// Away says why it cannot answer now; nil if it may.
	Away error
}

// ErrAway is wrapped by errors of requests to a site whose process does not answer.
var ErrAway = errors.New("does not answer")

// Times of requests to the processes of sites.
const (
	passTimeout  = orderTimeout + 5*time.Second // of an answer: the process says first that it takes too long
	grantTimeout = time.Second
	grantEvery   = time.Second // how old what a site's design grants may be where it only decides who is known
)

// Names of headers between the two processes.
const (
	callerHeader = "Slipway-Caller" // who asks, in JSON and base64
	reportHeader = "Slipway-Report" // how old a report may be: "recent", or a time
	siteHeader   = "Slipway-Site"   // of a request whose path names no site
)

// passedHeaders are those of a request that are passed on with it.
var passedHeaders = []string{"Accept", "Content-Type", "If-None-Match", "Last-Event-ID"}

// Sites implements Daemon.
func (f *Front) Sites() (names []string) {
	for _, p := range f.Processes() {
		names = append(names, p.Site)
	}
	return names
}

func (f *Front) process(name string) Process {
	for _, p := range f.Processes() {
		if p.Site == name {
			return p
		}
	}
	return Process{Site: name, Away: errors.New("there is no such site")}
}

// roundTripper reaches a process by the name of its site, which is the host of a URL.
func (f *Front) roundTripper() *http.Transport {
	f.once.Do(func() {
		f.granted.every = grantEvery
		f.transport = &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: idleTimeout, DisableCompression: true,
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				p := f.process(strings.TrimSuffix(address, ":80"))
				if p.Away != nil {
					return nil, p.Away
				}
				c, err := (&net.Dialer{Timeout: grantTimeout}).DialContext(ctx, "unix", p.Socket)
				if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
					return nil, errors.New("it is starting, and does not listen yet")
				}
				return c, err
			}}
	})
	return f.transport
}

// granted is what people have approved of the access of a site's design, and what the design in force would grant.
type granted struct {
	Approved site.GrantedState `json:"approved"`
	InForce  site.Granted      `json:"inForce"`
}

// Access implements Daemon with what the process has said at most a second ago. It decides who is known at all and what
// callers are told of their rights; what they may do the process itself decides.
func (f *Front) Access(siteName string) (approved site.GrantedState, inForce site.Granted, err error) {
	f.roundTripper()
	all, err := f.granted.recent(context.Background(), "", f.askGranted)
	if err != nil {
		return approved, inForce, err
	}
	g, known := all.value[siteName]
	if !known {
		return approved, inForce, fmt.Errorf("site %s %w", siteName, ErrAway)
	}
	return g.Approved, g.InForce, nil
}

// askGranted asks all processes at the same time. Those that do not answer are left out.
func (f *Front) askGranted() (map[string]granted, error) {
	all := f.Processes()
	each := make([]*granted, len(all))
	var asking sync.WaitGroup
	for i, p := range all {
		if p.Away != nil { // also one whose name nobody has checked
			continue
		}
		asking.Go(func() {
			var g granted
			if err := f.ask(http.MethodGet, p.Site, "/granted", nil, &g); err == nil {
				each[i] = &g
			}
		})
	}
	asking.Wait()
	known := map[string]granted{}
	for i, p := range all {
		if each[i] != nil {
			known[p.Site] = *each[i]
		}
	}
	return known, nil
}

// ask asks a process for something that is between the two.
func (f *Front) ask(method, siteName, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), grantTimeout)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+siteName+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := f.roundTripper().RoundTrip(req)
	if err != nil {
		return fmt.Errorf("site %s %w: %w", siteName, ErrAway, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("site %s %w in order: %s", siteName, ErrAway, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// AddAudit implements Daemon for attempts that were rejected here: the process of the site records them.
func (f *Front) AddAudit(_ context.Context, siteName string, e site.AuditEntry) (site.AuditEntry, error) {
	err := f.ask(http.MethodPost, siteName, "/denied", e, &e)
	return e, err
}

// Get asks the process of a site for a page that is not of the API, such as its metrics. The path may have a query.
func (f *Front) Get(ctx context.Context, siteName, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+siteName+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return f.roundTripper().RoundTrip(req)
}

// pass has the process of the call's site answer.
func (f *Front) pass(c *call) {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	w, r := c.w, c.r
	switch {
	case c.wantsStream(), c.route.endless:
		rc := http.NewResponseController(c.w)
		if err := rc.SetReadDeadline(time.Time{}); err != nil { // a client that leaves is to be noticed
			fail(c.w, err)
			return
		}
		w = &patientWriter{ResponseWriter: c.w}
		if r.ContentLength != 0 {
			r = r.Clone(ctx)
			r.Body = body{&patientReader{c.w, c.r.Body}, c.r.Body}
		}
		if c.wantsStream() {
			go c.whileKnown(ctx, cancel)
		}
	default:
		ctx, cancel = context.WithTimeout(ctx, passTimeout)
		defer cancel()
	}
	proxy := httputil.ReverseProxy{
		Transport: f.roundTripper(), FlushInterval: -1,
		Rewrite:  func(p *httputil.ProxyRequest) { c.rewrite(p) },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // the answer says it
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if p := f.process(c.site); p.Away != nil {
				err = p.Away
			}
			fail(w, fmt.Errorf("site %s %w: %w", c.site, ErrAway, err))
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// body is that of a request.
type body struct {
	io.Reader
	io.Closer
}

// rewrite makes the request to the process. Of what identifies the caller here nothing is passed on but who it is.
func (c *call) rewrite(p *httputil.ProxyRequest) {
	p.SetURL(&url.URL{Scheme: "http", Host: c.site})
	p.Out.Host = c.site
	kept := http.Header{}
	for _, name := range passedHeaders {
		if v := p.In.Header.Get(name); v != "" {
			kept.Set(name, v)
		}
	}
	who, _ := json.Marshal(c.caller) // texts alone
	kept.Set(callerHeader, base64.StdEncoding.EncodeToString(who))
	if one, _ := c.r.Context().Value(oneReportKey{}).(*oneReport); one != nil && one.recent {
		kept.Set(reportHeader, "recent")
	} else if one != nil && !one.since.IsZero() {
		kept.Set(reportHeader, one.since.UTC().Format(time.RFC3339Nano))
	}
	p.Out.Header = kept
}

// whileKnown ends a stream when its caller is not known any more as who it was.
func (c *call) whileKnown(ctx context.Context, cancel func()) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if c.identifyAgain() != nil {
				cancel()
				return
			}
		}
	}
}
