package judge

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// lease is how long a controller waits before it takes the term of one that is silent, and longestWrite how long a
	// request may still take effect after its sender is gone (docs/controllers.md).
	lease        = 9 * time.Second
	longestWrite = 15 * time.Second
)

// Verdict is what the judge found. Without anything in Broken, all promises were kept.
type Verdict struct {
	Broken []string
	// How much was looked at. Installations are their starts, and Continued how many of these repeated one that an
	// earlier controller had begun. UsedForNothing are approvals that were used, and nothing was started. Ended are those that
	// a controller ended, and said so, because a clock was set back or the machine has more disks than were approved.
	Terms, Changes, Installations, Continued, Approvals, UsedForNothing, Ended, StatusCommits int
	// Takeovers are those after the faults of a controller that led. WentOn is how the site went on after faults that
	// let the controller lead on, or not.
	Takeovers, WentOn []Takeover
}

// Takeover is how a site went on after a fault.
type Takeover struct {
	Fault string
	At    time.Time
	// Led is from the fault to the next term, Wrote to the first change of a machine in it. Of WentOn, Wrote is
	// to the first change at all.
	Led, Wrote time.Duration
}

// Judge holds a history to what is promised of several controllers:
//
//   - no request that changes a machine is accepted from a controller before its term or after it;
//   - an installation is started at most once for each approval that was used, and never without one; a later controller
//     may repeat the start with a medium of its own while the machine was not started from its disk since;
//   - after a term that was not ended in order, no installation is started before the session of its
//     controller was ended on the machine or its last write must have taken effect;
//   - an approval that a daemon confirmed is recorded, and it is there until it was used;
//   - no update of the status branch leaves out a commit that was on it.
func Judge(h History) Verdict {
	c := court{history: h}
	c.checkHistory()
	c.readTerms()
	c.readLedger()
	c.readSessions()
	c.checkChanges()
	c.checkInstallations()
	c.checkApprovals()
	c.checkBranch()
	c.takeovers()
	return c.verdict
}

// court is the state of one judgement.
type court struct {
	history   History
	verdict   Verdict
	terms     []term
	approvals map[string][]*approval // of each node, in the order in which they were opened
	sessions  map[string][]session   // of each machine
	learned   map[string]bool        // machines of which a controller has learned of more disks
}

func (c *court) broken(format string, args ...any) {
	c.verdict.Broken = append(c.verdict.Broken, fmt.Sprintf(format, args...))
}

// checkHistory makes sure that no write of a record is missing: each transaction has the next revision.
func (c *court) checkHistory() {
	if len(c.history.Writes) == 0 || len(c.history.Calls) == 0 {
		c.broken("the history is empty: %d writes of records, %d calls", len(c.history.Writes), len(c.history.Calls))
		return
	}
	last := c.history.Writes[0].Revision
	for _, w := range c.history.Writes {
		if w.Revision > last+1 || w.Revision < last {
			c.broken("revisions %d to %d of the records are not in the history, so nothing is known of them", last+1, w.Revision-1)
		}
		last = w.Revision
	}
}

// term is a time in which one controller may act. It ends when the next one begins, or when it was released.
type term struct {
	number   uint64
	holder   string
	address  string // of the holder's member
	began    time.Time
	released time.Time // zero if its controller did not end it in order
}

// readTerms reads who led when.
func (c *court) readTerms() {
	for _, w := range c.history.Writes {
		if !strings.HasSuffix(w.Key, "/term") {
			continue
		}
		var now struct {
			Term     uint64 `json:"term"`
			Holder   string `json:"holder"`
			Released bool   `json:"released"`
		}
		if !c.decode(w, &now) {
			continue
		}
		var last term
		if n := len(c.terms); n > 0 {
			last = c.terms[n-1]
		}
		address := c.addressOf(now.Holder, w.At)
		switch {
		case address == "":
			c.broken("revision %d: %s holds term %d, and no such process was started", w.Revision, now.Holder, now.Term)
		case now.Term < last.number:
			c.broken("revision %d: term %d follows term %d", w.Revision, now.Term, last.number)
		case now.Term == last.number && now.Holder != last.holder:
			c.broken("revision %d: %s and %s both hold term %d", w.Revision, last.holder, now.Holder, now.Term)
		case now.Term == last.number && !last.released.IsZero():
			c.broken("revision %d: term %d goes on after it was released", w.Revision, now.Term)
		case now.Term == last.number && now.Released:
			c.terms[len(c.terms)-1].released = w.At
		case now.Term > last.number && w.At.Before(last.began):
			c.broken("revision %d: term %d began before term %d", w.Revision, now.Term, last.number)
		case now.Term > last.number:
			c.terms = append(c.terms, term{number: now.Term, holder: now.Holder, address: address, began: w.At})
		}
	}
	c.verdict.Terms = len(c.terms)
}

// addressOf is the member whose process had a number at a time: "host, process 123".
func (c *court) addressOf(holder string, at time.Time) (address string) {
	_, number, _ := strings.Cut(holder, ", process ")
	pid, err := strconv.Atoi(number)
	for _, e := range c.history.Events {
		if err == nil && e.Kind == Started && e.PID == pid && !e.At.After(at) {
			address = e.Address
		}
	}
	return address
}

// decode reads a sealed value: JSON, "#", and eight digits.
func (c *court) decode(w Write, into any) bool {
	if w.Deleted {
		c.broken("revision %d: %s was deleted", w.Revision, w.Key)
		return false
	}
	if w.At.IsZero() {
		c.broken("revision %d: nobody knows when %s was written", w.Revision, w.Key)
		return false
	}
	at := strings.LastIndexByte(w.Value, '#')
	if at < 0 {
		c.broken("revision %d: %s is not sealed", w.Revision, w.Key)
		return false
	}
	if err := json.Unmarshal([]byte(w.Value[:at]), into); err != nil {
		c.broken("revision %d: %s: %v", w.Revision, w.Key, err)
		return false
	}
	return true
}

// indexAt is the place of the term of a moment, -1 before the first.
func (c *court) indexAt(at time.Time) int {
	i := slices.IndexFunc(c.terms, func(t term) bool { return t.began.After(at) })
	if i < 0 {
		i = len(c.terms)
	}
	return i - 1
}

// termAt is the term of a moment, nil before the first.
func (c *court) termAt(at time.Time) *term {
	if i := c.indexAt(at); i >= 0 {
		return &c.terms[i]
	}
	return nil
}

// isChange reports whether a call asked for a change of the machine, and was accepted.
func (c Call) isChange() bool {
	return c.Method != "GET" && c.Method != "HEAD" && !strings.Contains(c.Path, "/Sessions") && c.isAccepted()
}

func (c Call) isAccepted() bool { return c.Status/100 == 2 }

func (c Call) host() string {
	host, _, _ := net.SplitHostPort(c.Source)
	return host
}

// checkChanges holds every change of a machine to the term of the controller that asked for it.
func (c *court) checkChanges() {
	for _, x := range c.history.Calls {
		if !x.isChange() {
			continue
		}
		c.verdict.Changes++
		words := fmt.Sprintf("%s %s to %s, asked by %s at %s", x.Method, x.Path, x.Machine, x.host(), clock(x.When))
		switch t := c.termAt(x.When); {
		case t == nil:
			c.broken("%s: no term had begun", words)
		case t.address != x.host():
			c.broken("%s: %s held term %d since %s", words, t.address, t.number, clock(t.began))
		case !t.released.IsZero() && x.When.After(t.released):
			c.broken("%s: term %d was released at %s", words, t.number, clock(t.released))
		}
	}
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05.000") }

// takeovers measures how long nobody acted after a fault.
func (c *court) takeovers() {
	for _, e := range c.history.Events {
		if e.Kind == Fault && e.GoesOn {
			c.wentOn(e)
		}
		if e.Kind != Fault || !e.Leads {
			continue
		}
		i := slices.IndexFunc(c.terms, func(t term) bool { return t.began.After(e.At) })
		if i < 0 {
			c.broken("nobody led after the fault %s at %s", e.What, clock(e.At))
			continue
		}
		next := c.terms[i]
		var first time.Time
		for _, x := range c.byArrival() {
			if first.IsZero() && x.isChange() && x.host() == next.address && !x.When.Before(next.began) {
				first = x.When
			}
		}
		if first.IsZero() {
			c.broken("nobody changed a machine after the fault %s at %s", e.What, clock(e.At))
			continue
		}
		c.verdict.Takeovers = append(c.verdict.Takeovers, Takeover{e.What, e.At, next.began.Sub(e.At), first.Sub(e.At)})
	}
}

// wentOn measures how long no machine was changed after a fault. Whether it may be is looked at elsewhere.
func (c *court) wentOn(e Event) {
	for _, x := range c.byArrival() {
		if x.isChange() && x.When.After(e.At) {
			c.verdict.WentOn = append(c.verdict.WentOn, Takeover{Fault: e.What, At: e.At, Wrote: x.When.Sub(e.At)})
			return
		}
	}
	c.broken("nobody changed a machine after the fault %s at %s", e.What, clock(e.At))
}
