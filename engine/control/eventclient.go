package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Bounds on a stream of events as its client reads it.
const (
	silence   = 3 * heartbeat // after which a connection counts as dead
	maxStream = 1 << 20       // bytes of a line
)

// Hearing is told what a stream of events says.
type Hearing struct {
	// Opened is called once, when the daemon has begun: whatever happens from now on is heard.
	Opened func()
	// Event is called with each event.
	Event func(site.Event)
	// Gap is called when events between the last one and the next are not kept any more.
	Gap func()
}

// Stream tells what happens at a site as it happens, after the event with a Seq; all from now on for 0. It ends with an
// error when the connection does, also when nothing is heard for as long as three heartbeats take.
func (c *Client) Stream(ctx context.Context, siteName string, after uint64, h Hearing) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alive := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer alive.Stop()
	req, err := c.request(ctx, http.MethodGet, ofSitePath(siteName, "events")+"?after="+strconv.FormatUint(after, 10), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	endless := http.Client{Transport: c.http.Transport, CheckRedirect: c.http.CheckRedirect}
	resp, err := c.send(&endless, req)
	if err != nil {
		return c.explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c.failure(resp, json.NewDecoder(resp.Body))
	}
	h.Opened()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxStream)
	for kind := ""; lines.Scan(); {
		alive.Reset(silence)
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "data":
			if err := h.hear(kind, value); err != nil {
				return err
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errors.Join(c.gone(), lines.Err())
}

var errSilent = fmt.Errorf("%w: nothing was heard for %s", ErrUnreachable, silence)

// hear passes on one event.
func (h Hearing) hear(kind, data string) error {
	if kind == "gap" {
		h.Gap()
		return nil
	}
	var e site.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("read the daemon's event: %w", err)
	}
	h.Event(e)
	return nil
}

// gone is the error of a daemon whose connection has ended.
func (c *Client) gone() error {
	if c.remote {
		return fmt.Errorf("%w: %s", ErrUnreachable, c.base)
	}
	return fmt.Errorf("%w answers on %s", ErrNoDaemon, c.socket)
}
