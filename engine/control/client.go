package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
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

// Client asks a daemon. It is a Daemon itself, elsewhere.
type Client struct {
	socket string
	http   http.Client
}

// Dial makes a client for a socket; it connects when it is first used.
func Dial(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: http.Client{
		Transport: &http.Transport{DialContext: dial, ExpectContinueTimeout: time.Second},
		Timeout:   answerTimeout,
	}}
}

// Close ends the client's connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Report is a site's status and plan.
func (c *Client) Report(siteName string) (site.Report, error) {
	var r site.Report
	_, err := c.get(context.Background(), "report", siteName, "", &r)
	return r, err
}

// Known is what the daemon knows of a site beside its design.
func (c *Client) Known(siteName string) (site.Known, error) {
	var k site.Known
	_, err := c.get(context.Background(), "known", siteName, "", &k)
	return k, err
}

// Events are the latest events with a Seq above after.
func (c *Client) Events(siteName string, after uint64) ([]site.Event, error) {
	var events []site.Event
	_, err := c.ask(context.Background(), "events", url.Values{"site": {siteName}, "after": {strconv.FormatUint(after, 10)}}, "", &events)
	return events, err
}

// History are the last events of a node, or of the site without one.
func (c *Client) History(ctx context.Context, siteName, node string) ([]site.Event, error) {
	var events []site.Event
	_, err := c.ask(ctx, "history", url.Values{"site": {siteName}, "node": {node}}, "", &events)
	return events, err
}

// Closeup is all that is known of one node, with its inventory.
func (c *Client) Closeup(ctx context.Context, siteName, node string) (site.Closeup, error) {
	var closeup site.Closeup
	_, err := c.ask(ctx, "node", url.Values{"site": {siteName}, "node": {node}}, "", &closeup)
	return closeup, err
}

// File is what is in a file of a node's system, by its key ("files./etc/motd"), as far
// as it may be shown.
func (c *Client) File(ctx context.Context, siteName, node, key string) (item.Content, error) {
	var content item.Content
	_, err := c.ask(ctx, "file", url.Values{"site": {siteName}, "node": {node}, "key": {key}}, "", &content)
	return content, err
}

// Console is the last of what a node's machine wrote to its serial console.
func (c *Client) Console(ctx context.Context, siteName, node string) ([]byte, error) {
	var text []byte
	_, err := c.ask(ctx, "console", url.Values{"site": {siteName}, "node": {node}}, "", &text)
	return text, err
}

// Said is the last of what the agent in the memory of a node's machine has said.
func (c *Client) Said(ctx context.Context, siteName, node string) ([]site.Said, error) {
	var lines []site.Said
	_, err := c.ask(ctx, "said", url.Values{"site": {siteName}, "node": {node}}, "", &lines)
	return lines, err
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
		events, err := c.Events(siteName, last)
		if err != nil {
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

// Do has the daemon carry out an order. It is recorded as the calling process's
// user's, whatever its By says.
func (c *Client) Do(ctx context.Context, siteName string, o site.Order) (string, error) {
	var d done
	err := c.post(ctx, "order", siteName, o, &d)
	return d.Done, err
}

// CertifyLogin has the daemon sign a certificate for the calling process's user, whatever
// its By says.
func (c *Client) CertifyLogin(ctx context.Context, siteName string, r site.SSHRequest) (site.SSHGrant, error) {
	var g site.SSHGrant
	err := c.post(ctx, "ssh", siteName, r, &g)
	return g, err
}

func (c *Client) post(ctx context.Context, what, siteName string, value, into any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	req, err := c.request(ctx, http.MethodPost, what, url.Values{"site": {siteName}}, bytes.NewReader(body))
	if err != nil {
		return err
	}
	_, err = c.do(req, into)
	return err
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
		now, err := c.get(ctx, "report", siteName, tag, &r)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrNoDaemon) && seen:
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

// get asks for a value. With the tag of the value that the caller has it
// leaves into alone when that is still the same.
func (c *Client) get(ctx context.Context, what, siteName, tag string, into any) (string, error) {
	return c.ask(ctx, what, url.Values{"site": {siteName}}, tag, into)
}

func (c *Client) ask(ctx context.Context, what string, query url.Values, tag string, into any) (string, error) {
	req, err := c.request(ctx, http.MethodGet, what, query, nil)
	if err != nil {
		return "", err
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	return c.do(req, into)
}

func (c *Client) request(ctx context.Context, method, what string, query url.Values, body io.Reader) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, method, "http://slipway/v1/"+what+"?"+query.Encode(), body)
}

// do sends a request, reads the answer and returns its tag.
func (c *Client) do(req *http.Request, into any) (tag string, err error) {
	return c.doWith(&c.http, req, into)
}

func (c *Client) doWith(client *http.Client, req *http.Request, into any) (tag string, err error) {
	resp, err := client.Do(req)
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
			c.socket, resp.Status, resp.Request.URL.Path)
	}
	return f
}

// explain says what to do when there is no answer.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w listens on %s: start one with `slipway run`, or say where its state directory is", ErrNoDaemon, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the daemon's socket %s is not open to you: run this as root, as the daemon's user or as a member of the group in the daemon's --socket-group", c.socket)
	}
	return fmt.Errorf("ask the daemon on %s: %w", c.socket, err)
}
