package control

import (
	"bytes"
	"cmp"
	"context"
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
	"strconv"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	// answerTimeout is how long a client waits for a whole answer.
	answerTimeout = time.Minute
	// maxAnswer is the largest answer, in bytes: enough for what is known of
	// 20,000 nodes.
	maxAnswer = 256 << 20
	// watchEvery is how often a watching client asks.
	watchEvery = time.Second
)

// Client asks a daemon.
type Client struct {
	socket string                                // empty with remote
	site   string                                // that is asked about where a path names none; empty for the daemon's only one
	base   string                                // the URL before all paths
	token  string                                // of a program; empty for none
	login  func(context.Context) (string, error) // gives the token of a person; nil for none
	remote bool
	broken error // why nothing can be asked
	http   http.Client
}

// Dial makes a client for a socket; it connects when it is first used.
func Dial(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, base: "http://slipway", http: http.Client{
		Transport: &http.Transport{DialContext: dial, ExpectContinueTimeout: time.Second},
		Timeout:   answerTimeout,
	}}
}

// ForSite has what is asked about no site by its path, such as artifacts, be about one.
func (c *Client) ForSite(name string) *Client {
	c.site = name
	return c
}

// Close ends the client's connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Handler passes requests of the API on to the daemon, with what the client shows there. Nothing of what
// identifies the one who asks the handler is passed on.
func (c *Client) Handler() http.Handler {
	to, _ := url.Parse(c.base) // every base was checked
	return &httputil.ReverseProxy{
		Transport: c.http.Transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = to.Host
			kept := http.Header{}
			for _, name := range passedHeaders {
				if v := r.In.Header.Get(name); v != "" {
					kept.Set(name, v)
				}
			}
			if token, err := c.bearer(r.In.Context()); err == nil && token != "" { // or the daemon says what is missing
				kept.Set("Authorization", "Bearer "+token)
			}
			r.Out.Header = kept
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // the answer says it
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			json.NewEncoder(w).Encode(failure{Text: c.explain(&url.Error{Op: "ask", URL: c.base, Err: err}).Error()})
		},
	}
}

// Report is a site's status and plan.
func (c *Client) Report(ctx context.Context, siteName string) (site.Report, error) {
	var r site.Report
	_, err := c.get(ctx, ofSitePath(siteName, "report"), "", &r)
	return r, err
}

// Chart is a site's last rollout over time.
func (c *Client) Chart(ctx context.Context, siteName string) (site.RolloutChart, error) {
	var chart site.RolloutChart
	_, err := c.get(ctx, ofSitePath(siteName, "rollout/chart"), "", &chart)
	return chart, err
}

// Verification is what the last looks show of a site's surroundings.
func (c *Client) Verification(ctx context.Context, siteName string) (site.Verification, error) {
	var v site.Verification
	_, err := c.get(ctx, ofSitePath(siteName, "verification"), "", &v)
	return v, err
}

// Verify has nodes looked at now: those named, those of a role, or all of the site without either.
func (c *Client) Verify(ctx context.Context, siteName string, nodes []string, role string) (site.VerificationRun, error) {
	var run site.VerificationRun
	err := c.post(ctx, ofSitePath(siteName, "verification"), verifyBody{nodes, role, len(nodes) == 0 && role == ""}, &run)
	return run, err
}

// Known is what the daemon knows of a site beside its design.
func (c *Client) Known(ctx context.Context, siteName string) (site.Known, error) {
	var k site.Known
	_, err := c.get(ctx, ofSitePath(siteName, "known"), "", &k)
	return k, err
}

// Design is the design of a site in force, without its nodes.
func (c *Client) Design(ctx context.Context, siteName string) (*site.Site, error) {
	var s site.Site
	_, err := c.get(ctx, ofSitePath(siteName, "design"), "", &s)
	return &s, err
}

// Events are the latest events with a Seq above after.
func (c *Client) Events(ctx context.Context, siteName string, after uint64) ([]site.Event, error) {
	var all []site.Event
	err := c.pages(ctx, ofSitePath(siteName, "events?"), after, func(next func(into any) error) (uint64, int, error) {
		var events []site.Event
		err := next(&events)
		all = append(all, events...)
		return lastSeq(events), len(events), err
	})
	return all, err
}

func lastSeq(events []site.Event) uint64 {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq
}

// Audit are the attempts to do something that have a Seq above after, and a text.
func (c *Client) Audit(ctx context.Context, siteName string, after uint64, text string) ([]site.AuditEntry, error) {
	var all []site.AuditEntry
	err := c.pages(ctx, ofSitePath(siteName, "audit?")+url.Values{"q": {text}}.Encode(), after, func(next func(into any) error) (uint64, int, error) {
		var entries []site.AuditEntry
		err := next(&entries)
		all = append(all, entries...)
		if len(entries) == 0 {
			return 0, 0, err
		}
		return entries[len(entries)-1].Seq, len(entries), err
	})
	return all, err
}

// pages asks for entries after one until there are no more.
func (c *Client) pages(ctx context.Context, path string, after uint64, take func(next func(into any) error) (last uint64, n int, err error)) error {
	for {
		last, n, err := take(func(into any) error {
			_, err := c.get(ctx, path+"&after="+strconv.FormatUint(after, 10)+"&limit="+strconv.Itoa(mostEvents), "", into)
			return err
		})
		if err != nil || n == 0 {
			return err // a page is short also where entries were dropped while it was read
		}
		after = last
	}
}

// History are the last events of a node, or of the site without one.
func (c *Client) History(ctx context.Context, siteName, node string) ([]site.Event, error) {
	return c.FindHistory(ctx, siteName, node, "")
}

// FindHistory are those of History that have a text.
func (c *Client) FindHistory(ctx context.Context, siteName, node, text string) ([]site.Event, error) {
	var events []site.Event
	query := "?" + url.Values{"q": {text}}.Encode()
	if node != "" {
		err := c.ofNode(ctx, siteName, node, "/history"+query, &events)
		return events, err
	}
	_, err := c.get(ctx, ofSitePath(siteName, "history")+query, "", &events)
	return events, err
}

// Incidents are those that the daemon knows and that have a text, latest first.
func (c *Client) Incidents(ctx context.Context, siteName, text string) ([]site.IncidentState, error) {
	var all []site.IncidentState
	_, err := c.get(ctx, ofSitePath(siteName, "incidents?")+url.Values{"q": {text}}.Encode(), "", &all)
	return all, err
}

// Closeup is all that is known of one node, with its inventory.
func (c *Client) Closeup(ctx context.Context, siteName, node string) (site.Closeup, error) {
	var closeup site.Closeup
	err := c.ofNode(ctx, siteName, node, "/records", &closeup)
	return closeup, err
}

// Node is the status of one node, with its part of the plan.
func (c *Client) Node(ctx context.Context, siteName, node string) (NodeDetail, error) {
	var d NodeDetail
	err := c.ofNode(ctx, siteName, node, "", &d)
	return d, err
}

// File is what is in a file of a node's system, by its key ("files./etc/motd"), as far
// as it may be shown.
func (c *Client) File(ctx context.Context, siteName, node, key string) (item.Content, error) {
	var content item.Content
	err := c.ofNode(ctx, siteName, node, "/file?"+url.Values{"key": {key}}.Encode(), &content)
	return content, err
}

// Console is the last of what a node's machine wrote to its serial console.
func (c *Client) Console(ctx context.Context, siteName, node string) ([]byte, error) {
	var text []byte
	err := c.ofNode(ctx, siteName, node, "/console", &text)
	return text, err
}

// Said is the last of what the agent in the memory of a node's machine has said.
func (c *Client) Said(ctx context.Context, siteName, node string) ([]site.Said, error) {
	var lines []site.Said
	err := c.ofNode(ctx, siteName, node, "/agent-log", &lines)
	return lines, err
}

// MachineLog is the end of the own log of a node's machine, as it was last read.
func (c *Client) MachineLog(ctx context.Context, siteName, node string) (site.MachineLog, error) {
	var log site.MachineLog
	err := c.ofNode(ctx, siteName, node, "/machine-log", &log)
	return log, err
}

// WhoAmI is who the daemon takes the client for.
func (c *Client) WhoAmI(ctx context.Context) (Identity, error) {
	var is Identity
	_, err := c.get(ctx, "/whoami", "", &is)
	return is, err
}

// Access is what the design in force says about who may do what.
func (c *Client) Access(ctx context.Context, siteName string) (site.AccessReport, error) {
	var r site.AccessReport
	_, err := c.get(ctx, ofSitePath(siteName, "access"), "", &r)
	return r, err
}

// ofSitePath is a path of a site, or of the daemon's only one without a name.
func ofSitePath(siteName, what string) string {
	return "/sites/" + url.PathEscape(cmp.Or(siteName, onlySite)) + "/" + what
}

func ofNodePath(siteName, node, what string) string {
	return ofSitePath(siteName, "nodes/") + url.PathEscape(node) + what
}

// Follow calls show with every event with a Seq above after, noticed within a
// second, until the context ends or the daemon is gone.
func (c *Client) Follow(ctx context.Context, siteName string, after uint64, show func(site.Event)) error {
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	for last := after; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		events, err := c.Events(ctx, siteName, last)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		for _, e := range events {
			show(e)
		}
		if n := len(events); n > 0 {
			last = events[n-1].Seq
		}
	}
}

// Do has the daemon carry out an order. It is recorded as the caller's, whatever its By says.
func (c *Client) Do(ctx context.Context, siteName string, o site.Order) (string, error) {
	var d done
	err := c.atNode(ctx, siteName, o.Node, func(siteName string) error {
		return c.post(ctx, ofSitePath(siteName, string(o.Verb)), bodyOf(o), &d)
	})
	return d.Done, err
}

// post sends a value and reads the answer.
func (c *Client) post(ctx context.Context, path string, value, into any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	req, err := c.request(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	_, err = c.do(req, into)
	return err
}

// bodyOf is an order as its route takes it. One of these that take no node is for all.
func bodyOf(o site.Order) any {
	target := allOrOne{o.Node, o.Node == ""}
	switch o.Verb {
	case site.VerbApprove:
		return approveBody{o.Digest, o.Node, o.Shown, o.Reason}
	case site.VerbDisapprove:
		return disapproveBody{o.Digest, o.Node, o.Reason}
	case site.VerbGrant:
		return grantBody{o.Digest, o.Reason}
	case site.VerbTakeOver:
		return takeOverBody{o.Reason}
	case site.VerbRelease:
		return releaseBody{target, o.Incident}
	case site.VerbIncident:
		if o.End {
			return incidentBody{End: o.Digest, Reason: o.Reason}
		}
		return incidentBody{o.Incident, o.Nodes, o.CompromisedSince, o.Reason, o.DryRun, o.Digest, ""}
	case site.VerbPause:
		return pauseBody{withReason{target, o.Reason}, o.Until}
	case site.VerbQuarantine:
		return withReason{target, o.Reason}
	}
	return target
}

// CertifyLogin has the daemon sign a certificate for the calling process's user, whatever its By says.
func (c *Client) CertifyLogin(ctx context.Context, siteName string, r site.SSHRequest) (site.SSHGrant, error) {
	var g site.SSHGrant
	err := c.atNode(ctx, siteName, r.Node, func(siteName string) error {
		return c.post(ctx, ofNodePath(siteName, r.Node, "/ssh"), sshBody{r.Account, r.Key, r.Life}, &g)
	})
	return g, err
}

// Watch calls show with the report as it is and after each change, which is
// noticed within a second, until the context ends. A daemon that goes away after
// it has answered is waited for, since it may be restarting: away is called once,
// and show when it answers again.
func (c *Client) Watch(ctx context.Context, siteName string, show func(site.Report), away func(error)) error {
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	for tag, seen, gone := "", false, false; ; {
		var r site.Report
		now, err := c.get(ctx, ofSitePath(siteName, "report"), tag, &r)
		switch {
		case ctx.Err() != nil:
			return nil
		case (errors.Is(err, ErrNoDaemon) || errors.Is(err, ErrUnreachable)) && seen:
			if !gone {
				away(err)
			}
			now, gone = "", true
		case err != nil:
			return err
		case now != tag:
			show(r)
			seen, gone = true, false
		}
		tag = now
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// Look is a site's report and its tag. With the tag of the report that the caller has it says that the report is not
// changed, and gives none.
func (c *Client) Look(ctx context.Context, siteName, tag string) (r site.Report, now string, changed bool, err error) {
	now, err = c.get(ctx, ofSitePath(siteName, "report"), tag, &r)
	return r, now, now != tag, err
}

// get asks for a value. With the tag of the value that the caller has it
// leaves into alone when that is still the same.
func (c *Client) get(ctx context.Context, path, tag string, into any) (string, error) {
	req, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	return c.do(req, into)
}

// request is one for a path below the prefix, with its query.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	token, err := c.bearer(ctx)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+prefix+path, body)
	if err == nil && token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if err == nil && c.site != "" {
		req.Header.Set(siteHeader, c.site)
	}
	return req, err
}

// bearer is the token that is shown; empty for none.
func (c *Client) bearer(ctx context.Context) (string, error) {
	if c.login == nil {
		return c.token, nil
	}
	return c.login(ctx)
}

// do sends a request, reads the answer and returns its tag.
func (c *Client) do(req *http.Request, into any) (tag string, err error) {
	return c.doWith(&c.http, req, into)
}

func (c *Client) doWith(client *http.Client, req *http.Request, into any) (tag string, err error) {
	resp, err := c.send(client, req)
	if err != nil {
		return "", c.explain(err)
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	switch resp.StatusCode {
	case http.StatusNotModified:
	case http.StatusOK:
		if err := dec.Decode(into); err != nil {
			return "", fmt.Errorf("read the daemon's answer: %w", err)
		}
	default:
		return "", c.failure(resp, dec)
	}
	return resp.Header.Get("ETag"), nil
}

// failure is the error that the daemon answered.
func (c *Client) failure(resp *http.Response, dec *json.Decoder) error {
	f := &failure{}
	if dec.Decode(f) != nil || f.Text == "" {
		return fmt.Errorf("the daemon on %s answers %s to %s: it may be of another version: restart it, or use its own program",
			cmp.Or(c.socket, c.base), resp.Status, resp.Request.URL.Path)
	}
	return f
}

// explain says what to do when there is no answer.
func (c *Client) explain(err error) error {
	switch {
	case c.remote:
		return c.explainRemote(err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w listens on %s: start one with `slipway run`, or say where its state directory is", ErrNoDaemon, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the daemon's socket %s is not open to you: run this as root, as the daemon's user or as a member of the group in the daemon's --socket-group", c.socket)
	}
	return fmt.Errorf("ask the daemon on %s: %w", c.socket, err)
}
