package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// The bounds of a capture. A large machine has some 2,000 resources, and gives
// one in 0.2 to 0.4 s.
const (
	captureRequests = 3000
	captureBytes    = 64 << 20
	captureTime     = 30 * time.Minute
	// captureEntries is how many entries of a log are read: their form is of
	// interest, and not their number.
	captureEntries = 10
	// captureSilence is how many requests in a row may go unanswered.
	captureSilence = 3
)

// crawl reads all resources that lead from one to another, none twice. What
// there is a lot of, and says little, comes last.
type crawl struct {
	machine     *machine
	bounds      driver.Bounds
	seen        map[string]bool // by key
	next, late  []string
	out         map[string]json.RawMessage
	failed, mum int
}

// Capture implements driver.Capturer.
func (m *machine) Capture(ctx context.Context, b driver.Bounds, told driver.Told) (driver.Capture, error) {
	t, off := m.tapped()
	defer off()
	c := &crawl{machine: m, bounds: bounded(b), seen: map[string]bool{}, out: map[string]json.RawMessage{}}
	reading, cancel := context.WithTimeout(ctx, c.bounds.Time)
	defer cancel()
	c.add("/redfish")
	c.add("/redfish/v1")
	why, err := c.all(reading, t, told)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return driver.Capture{}, err
	}
	told("replacing what identifies the machine", len(c.out), len(c.out))
	resources, err := redacted(c.out, m.own())
	return driver.Capture{Resources: resources, Left: len(c.next) + len(c.late), Why: why, Failed: c.failed}, err
}

func bounded(b driver.Bounds) driver.Bounds {
	return driver.Bounds{
		Requests: cmp.Or(b.Requests, captureRequests), Bytes: cmp.Or(b.Bytes, captureBytes), Time: cmp.Or(b.Time, captureTime),
	}
}

// own is what the handle itself knows and nobody else is to: where the BMC is,
// and how to log in to it.
func (m *machine) own() []string {
	host, _, _ := strings.Cut(m.client.host, ":")
	return []string{m.client.host, host, m.client.value.Username(), m.client.value.Reveal(), m.client.session()}
}

// all reads until there is nothing more or a bound is met, and says which.
func (c *crawl) all(ctx context.Context, t *tap, told driver.Told) (why string, err error) {
	for len(c.next)+len(c.late) > 0 {
		switch {
		case t.requests >= c.bounds.Requests:
			return fmt.Sprintf("%d requests were made", t.requests), nil
		case t.bytes >= c.bounds.Bytes:
			return fmt.Sprintf("%d MiB were read", t.bytes>>20), nil
		case ctx.Err() != nil:
			return fmt.Sprintf("it took %s", c.bounds.Time), nil
		case c.mum >= captureSilence:
			return "the BMC no longer answers", nil
		}
		told("reading", len(c.out), len(c.out)+len(c.next)+len(c.late))
		if err := c.step(ctx); err != nil {
			return "", err
		}
	}
	return "", nil
}

// step reads one resource. What cannot be read is left out; a login that is
// refused ends it all.
func (c *crawl) step(ctx context.Context) error {
	if len(c.next) == 0 {
		c.next, c.late = c.late, nil
	}
	path := c.next[0]
	c.next = c.next[1:]
	o, err := c.machine.client.get(ctx, path)
	if err != nil {
		c.failed++
		if errors.Is(err, driver.ErrUnreachable) {
			c.mum++
		}
		if errors.Is(err, driver.ErrDenied) && len(c.out) < 3 {
			return err
		}
		return nil
	}
	c.mum = 0
	if o, err = trimmed(path, o); err != nil {
		return err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	c.out[path] = text
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	c.follow(v)
	return nil
}

// trimmed is a resource without most entries of a log, and without the
// sessions of others, whose ids may name people.
func trimmed(path string, o object) (object, error) {
	keep := -1
	switch last := strings.ToLower(path[strings.LastIndexByte(path, '/')+1:]); {
	case last == "sessions":
		keep = 0
	case last == "entries" || strings.Contains(at[string](o, "@odata.type"), "LogEntryCollection"):
		keep = captureEntries
	}
	list := at[[]json.RawMessage](o, "Members")
	if keep < 0 || len(list) <= keep {
		return o, nil
	}
	short, err := json.Marshal(list[:keep])
	o = maps.Clone(o)
	o["Members"] = short
	o["Members@odata.count"] = fmt.Append(nil, keep)
	delete(o, "Members@odata.nextLink")
	return o, err
}

// follow takes up what a resource leads to.
func (c *crawl) follow(v any) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			c.follow(inner)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if path, ok := v[name].(string); ok && slices.Contains(leading, name) {
				c.add(path)
				continue
			}
			c.follow(v[name])
		}
	}
}

// leading are the properties that lead on; Uri is where the file of a registry
// is.
var leading = []string{"@odata.id", "Members@odata.nextLink", "@Redfish.ActionInfo", "Uri"}

// Where a capture does not go: what is the same everywhere, others' sessions,
// what is no resource, and task monitors, of which reading one may delete its
// task.
var avoided = []string{"/jsonschemas", "$metadata", "/sessions/", "monitor", "/odata"}

// lately are what there is a lot of.
var lately = []string{"/logservices", "/telemetryservice", "/entries", "/certificates", "/secureboot"}

// add takes up a path, once.
func (c *crawl) add(path string) {
	path, _, _ = strings.Cut(path, "#")
	path = strings.TrimRight(path, "/")
	key := strings.ToLower(path)
	has := func(part string) bool { return strings.Contains(key, part) }
	if !strings.HasPrefix(key, "/redfish") || c.seen[key] || slices.ContainsFunc(avoided, has) {
		return
	}
	c.seen[key] = true
	if slices.ContainsFunc(lately, has) {
		c.late = append(c.late, path)
		return
	}
	c.next = append(c.next, path)
}
