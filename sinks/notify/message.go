package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
)

// MessageVersion is the version of a message's JSON form.
const MessageVersion = 1

// These are the bounds of a message.
const (
	maxNames   = 20  // of nodes in an event
	maxMention = 3   // of nodes in the summary
	maxSummary = 500 // bytes
)

// Message is one message to a channel. docs/notifications.md describes its JSON form.
type Message struct {
	Version int `json:"version"`
	// ID stays the same when a message is repeated.
	ID   string    `json:"id"`
	Site string    `json:"site"`
	When time.Time `json:"when"`
	// Revision is the revision in force; empty before the first.
	Revision string `json:"revision,omitempty"`
	// Summary is the whole message in one short line.
	Summary string  `json:"summary"`
	Events  []Event `json:"events"`
}

// EventKind says what has happened to a cause.
type EventKind string

// These are the kinds of event.
const (
	EventNew      EventKind = "new"
	EventMore     EventKind = "more"     // more nodes have a reported cause
	EventReminder EventKind = "reminder" // a reported cause lasts
	EventResolved EventKind = "resolved"
)

// Event is one thing to report.
type Event struct {
	Event EventKind `json:"event"`
	// Cause identifies the cause. Receivers can group messages by it.
	Cause string `json:"cause"`
	Kind  Kind   `json:"kind"`
	// What says what is wrong, in the words of the first node. Do says what to do, or where to look.
	What  string    `json:"what"`
	Do    string    `json:"do,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Count is the number of nodes with the cause. Added is how many of them are new, and Nodes are the first of
	// them all. A cause of the site as a whole has none.
	Count int      `json:"count,omitempty"`
	Added int      `json:"added,omitempty"`
	Nodes []string `json:"nodes,omitempty"`

	first time.Time // when the cause was noticed
	all   []string  // every node
}

func newMessage(site, revision string, now time.Time, events []Event) Message {
	h := sha256.New()
	lines := make([]string, len(events))
	for i := range events {
		e := &events[i]
		e.Nodes = e.all[:min(len(e.all), maxNames)]
		lines[i] = e.line()
		fmt.Fprintln(h, site, e.Event, e.Cause, e.first.UnixNano(), e.all)
	}
	return Message{
		Version: MessageVersion, ID: hex.EncodeToString(h.Sum(nil)[:16]), Site: site, When: now.UTC(), Revision: revision,
		Summary: short(site+": "+strings.Join(lines, "; "), maxSummary), Events: events,
	}
}

// body is the message as sent.
func (m Message) body() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers and times
	}
	return b
}

// line is the event in one line.
func (e *Event) line() string {
	line := e.subject() + e.What
	if len(e.all) > 1 {
		line += " (" + say.Some(e.all, maxMention) + ")"
	}
	switch e.Event {
	case EventMore:
		return fmt.Sprintf("%d more, %s", e.Added, line)
	case EventReminder:
		return "still " + line
	case EventResolved:
		return "resolved: " + line
	}
	return line
}

// subject says what or who has the cause.
func (e *Event) subject() string {
	switch e.Kind {
	case Halted:
		return "the rollout has halted: "
	case Problem:
		return "the site has a problem: "
	}
	does := map[Kind][2]string{Stalled: {"is stalled", "are stalled"}, Held: {"waits for a person", "wait for a person"}, Approval: {"waits for approval", "wait for approval"}}[e.Kind]
	if len(e.all) == 1 {
		return e.all[0] + " " + does[0] + ": "
	}
	if e.Kind == Approval {
		return fmt.Sprintf("%d nodes %s, such as ", len(e.all), does[1])
	}
	return fmt.Sprintf("%d nodes %s, same cause: ", len(e.all), does[1])
}
