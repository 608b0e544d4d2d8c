package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// These times control when messages are sent.
const (
	gather      = 30 * time.Second // from noticing a cause to the first message, to collect its nodes
	digestEvery = time.Hour        // between two messages about more nodes with a cause
	overAfter   = 10 * time.Minute // a cause that stays away this long is resolved
	remindEvery = 24 * time.Hour
)

// maxAccount is the maximum size of an account's file, in bytes.
const maxAccount = 16 << 20

// account records what a channel was told, by the causes' keys.
type account map[string]*entry

// entry records what a channel was told about one cause.
type entry struct {
	Kind  Kind      `json:"kind"`
	What  string    `json:"what"`
	Do    string    `json:"do,omitempty"`
	Since time.Time `json:"since"`
	// First is when the cause was first noticed. Told is when the channel accepted the last message about it; zero
	// before the first. Gone is since when the cause is away.
	First time.Time `json:"first"`
	Told  time.Time `json:"told"`
	Gone  time.Time `json:"gone,omitzero"`
	// Nodes are the nodes in the messages so far.
	Nodes []string `json:"nodes,omitempty"`
}

// due updates the account with the present causes. It returns the events to send now, in a fixed order, and the
// time until the next one if nothing changes.
func (a *account) due(now time.Time, present map[string]cause, p Pace) ([]Event, time.Duration) {
	if *a == nil {
		*a = account{}
	}
	var events []Event
	next := now.Add(remindEvery)
	consider := func(at time.Time, e Event) {
		if !at.After(now) {
			events = append(events, e)
		} else if at.Before(next) {
			next = at
		}
	}
	for _, k := range slices.Sorted(maps.Keys(present)) {
		at, e := a.notice(now, k, present[k], p)
		consider(at, e)
	}
	for _, k := range slices.Sorted(maps.Keys(*a)) {
		if _, there := present[k]; there {
			continue
		}
		e := (*a)[k]
		if e.Told.IsZero() {
			delete(*a, k) // nobody was told
			continue
		}
		if e.Gone.IsZero() || e.Gone.After(now) {
			e.Gone = now
		}
		consider(e.Gone.Add(overAfter), e.event(k, EventResolved, nil))
	}
	return events, next.Sub(now)
}

// notice records that a cause is present. It returns the next event about the cause, and when to send it.
func (a account) notice(now time.Time, k string, c cause, p Pace) (time.Time, Event) {
	e := a[k]
	if e == nil {
		e = &entry{Kind: c.kind, First: now}
		a[k] = e
	}
	e.What, e.Do, e.Since, e.Gone = c.what, c.do, c.since, time.Time{}
	if e.Told.After(now) {
		e.Told = now // the clock was set back
	}
	more := 0
	for _, n := range c.nodes {
		if _, known := slices.BinarySearch(e.Nodes, n); !known {
			more++
		}
	}
	switch {
	case e.Told.IsZero():
		return e.firstDue(c), e.event(k, EventNew, c.nodes)
	case more > 0:
		event := e.event(k, EventMore, c.nodes)
		event.Added = more
		return e.Told.Add(p.More), event
	}
	return e.Told.Add(p.Remind), e.event(k, EventReminder, c.nodes)
}

// firstDue is when to send a cause first: once its nodes are collected and it has lasted. If its time is later than
// First, as after a change of the clock, First counts.
func (e *entry) firstDue(c cause) time.Time {
	begun, gathered := e.First, e.First.Add(gather)
	if c.since.Before(begun) {
		begun = c.since
	}
	if lasted := begun.Add(c.wait); lasted.After(gathered) {
		return lasted
	}
	return gathered
}

// event is an event about a cause. EventResolved has the nodes that the channel was told about.
func (e *entry) event(k string, kind EventKind, nodes []string) Event {
	if kind == EventResolved {
		nodes = e.Nodes
	}
	return Event{Event: kind, Cause: k, Kind: e.Kind, What: e.What, Do: e.Do, Since: e.Since, Count: len(nodes), first: e.First, all: nodes}
}

// told records accepted events.
func (a account) told(now time.Time, events []Event) {
	for _, e := range events {
		if e.Event == EventResolved {
			delete(a, e.Cause)
			continue
		}
		a[e.Cause].Told, a[e.Cause].Nodes = now, e.all
	}
}

// load reads what the channel was told before a restart. It ignores a file that it cannot parse, so people are told
// again.
func (t *teller) load() error {
	f, err := os.Open(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAccount))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &t.account); err != nil || !t.account.sound() {
		t.account = nil
		t.log.Warn("the list of sent notifications cannot be read; Slipway starts a new one", "file", t.file, "err", err)
	}
	return nil
}

// sound reports whether every entry exists, with its nodes in order.
func (a account) sound() bool {
	for _, e := range a {
		if e == nil || !slices.IsSorted(e.Nodes) {
			return false
		}
	}
	return true
}

// save stores what was told, atomically.
func (t *teller) save() error {
	kept := maps.Clone(t.account)
	maps.DeleteFunc(kept, func(_ string, e *entry) bool { return e.Told.IsZero() })
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return replace(t.file, text)
}

// replace writes a file so that a power failure leaves the old or the new content.
func replace(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
