package pullrequest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// These are the bounds of a wish.
const (
	// maxMessage is the maximum size in the outbox, in bytes.
	maxMessage = 63 << 10
	// maxWish is the maximum size without compression, in bytes.
	maxWish = 4 << 20
	// maxFormer bounds the superseded commits still to be reported, and maxCalled the remembered calls for people.
	maxFormer, maxCalled = 64, 100
	// maxMaybe bounds the remembered texts that may have been written.
	maxMaybe = 16
)

// wish is what to report on a proposal, and what must be remembered of earlier reports. What is behind a pointer is
// never changed, only replaced.
type wish struct {
	Number int `json:"number"`
	// Head is the commit with the check, Base the branch's commit that the check is about, and Verdict the last one
	// requested.
	Head    string        `json:"head,omitempty"`
	Base    string        `json:"base,omitempty"`
	Verdict forge.Verdict `json:"verdict,omitempty"`
	// Written is the number of checks written for Head.
	Written int `json:"written,omitempty"`
	// Touched says that Head may have a check.
	Touched bool `json:"touched,omitempty"`
	// Fresh says that no review of Head can be read yet.
	Fresh  bool `json:"fresh,omitempty"`
	Merged bool `json:"merged,omitempty"`

	// Last is the last requested check, without its notes. It is written again if Head has received another check.
	Last *forge.Check `json:"last,omitempty"`

	// These are the reports still to make; each is nil once it is made. Green is the check to write once people can
	// read the comment: merging the proposal destroys something, or the comment could not be written so far.
	Check   *forge.Check `json:"check,omitempty"`
	Green   *forge.Check `json:"green,omitempty"`
	Call    *site.Call   `json:"call,omitempty"`
	Comment *comment     `json:"comment,omitempty"`
	// Former are the commits that Head has replaced. Head is among them if it was taken back or merged.
	Former []string `json:"former,omitempty"`

	// Kept is the ID of the kept comment; 0 before it was written. Read is the Names of the readable comment about
	// Head.
	Kept int64  `json:"kept,omitempty"`
	Read string `json:"read,omitempty"`
	// Unsaid is why the last comment could not be written, if a person must solve that; empty once one was.
	Unsaid string `json:"unsaid,omitempty"`
	// Maybe are the digests of texts that were replaced before it was known whether they were written.
	Maybe []string `json:"maybe,omitempty"`
	// Called are the needs for which people were called.
	Called []string `json:"called,omitempty"`
	// Since is the time of the first pending request, and Changed that of the last.
	Since   time.Time `json:"since,omitzero"`
	Changed time.Time `json:"changed,omitzero"`

	begun bool // by this process
}

// comment is the text of the kept comment, and what it is about.
type comment struct {
	Text string `json:"text"`
	Head string `json:"head,omitempty"`
	Base string `json:"base,omitempty"`
	// Set is the digest of what merging the proposal approves; it may be empty.
	Set string `json:"set,omitempty"`
	// Names is the digest of everything that the text names as destroyed, including what no merge approves; empty
	// for nothing.
	Names string `json:"names,omitempty"`
}

// settled reports whether there is nothing to report.
func (w *wish) settled() bool {
	return w.Check == nil && w.Green == nil && w.Call == nil && w.Comment == nil && len(w.Former) == 0
}

// equal reports whether two wishes have the same reports and the same history.
func (w *wish) equal(o *wish) bool {
	same := *o
	same.begun = w.begun
	return reflect.DeepEqual(*w, same)
}

// begin makes the check say that the head is being planned. After a restart, the check for the same commits stays,
// because planning gives the same result. If only the branch has moved, the last check stays until there is a
// verdict: a forge limits the checks of a commit.
func (w *wish) begin(name string, p site.Proposal, base string) {
	again := !w.begun && w.Verdict != "" && w.Head == p.Head && w.Base == base
	moved := w.Check == nil && w.Verdict != "" && w.Head == p.Head && w.Base != base
	w.begun, w.Merged = true, false
	if again {
		return
	}
	w.at(p.Head, base)
	w.Green = nil
	if !moved {
		w.say(pending(name, p, base))
	}
}

// hasVerdict reports whether the head has a final verdict.
func (w *wish) hasVerdict() bool { return w.Verdict != "" && w.Verdict != forge.Pending }

// announce adds a review to the wish.
func (w *wish) announce(name string, v *site.Review) {
	was := w.Merged
	w.Merged = v.Proposal.State == site.ProposalMerged
	switch {
	case w.Merged && was:
	case w.Merged:
		w.land(name)
	default:
		w.at(v.Proposal.Head, v.Base)
		w.judge(name, v)
	}
	if v.Comment != "" {
		w.overtake()
		w.Comment = &comment{Text: v.Comment, Head: v.Proposal.Head, Base: v.Base, Set: v.Set, Names: names(v)}
	}
	w.Call = nil
	if v.Call != nil && !slices.Contains(w.Called, v.Call.Key) {
		c := *v.Call
		w.Call = &c
	}
}

// overtake records that the replaced comment may have been written.
func (w *wish) overtake() {
	if w.Comment == nil {
		return
	}
	all := append(slices.Clone(w.Maybe), forge.Kept{Body: w.Comment.Text}.Reading().Text)
	w.Maybe = all[max(0, len(all)-maxMaybe):]
}

// names is the digest of everything that a review names as destroyed.
func names(v *site.Review) string {
	if all := v.Destroys(); len(all) > 0 {
		return all.Digest()
	}
	return v.Set
}

// judge sets the check to the result of a review. If merging destroys something, the check succeeds only once
// people can read what. Until then a check that has succeeded before becomes pending. While comments cannot be
// written, the check says so.
func (w *wish) judge(name string, v *site.Review) {
	c, names := verdictOf(name, v), names(v)
	hidden := names != "" && w.Read != names
	w.Green = nil
	switch {
	case c.Verdict != forge.Success || v.Comment == "" || !hidden && w.Unsaid == "":
		w.say(c)
		return
	case w.Unsaid != "":
		w.say(muted(c, hidden, w.Unsaid))
	case w.Verdict == forge.Success:
		w.say(unread(name, v))
	}
	w.Green = &c
}

// mute makes the check say that the comment cannot be written, and why.
func (w *wish) mute(why string) {
	w.Unsaid = why
	if w.Merged {
		return
	}
	if w.Green == nil && w.Verdict == forge.Success {
		good := *cmp.Or(w.Check, w.Last)
		w.Green = &good
	}
	if w.Green != nil {
		w.say(muted(*w.Green, w.Comment.isUnread(w), why))
	}
}

// isUnread reports whether the comment names destruction that people could not read yet.
func (c *comment) isUnread(w *wish) bool { return c.Names != "" && c.Names != w.Read }

// at makes the wish about these commits. It drops the pending reports about another head.
func (w *wish) at(head, base string) {
	w.Base = base
	if w.Head == head {
		return
	}
	if w.Touched {
		former := append(slices.Clone(w.Former), w.Head)
		w.Former = former[max(0, len(former)-maxFormer):]
	}
	w.Head, w.Written, w.Touched, w.Fresh = head, 0, false, true
	w.overtake()
	w.Check, w.Last, w.Comment, w.Green = nil, nil, nil, nil
	w.Verdict, w.Read = "", ""
}

func (w *wish) say(c forge.Check) {
	last := c
	last.Notes = nil
	w.Check, w.Verdict, w.Last = &c, c.Verdict, &last
}

// land leaves the check as it is after a merge, unless the check promises a plan that never comes, or another
// proposal has the same commit.
func (w *wish) land(name string) {
	w.Green = nil
	if w.Touched {
		w.Former = append(slices.Clone(w.Former), w.Head)
	}
	switch {
	case w.Verdict != forge.Pending:
	case w.Touched:
		w.say(forge.Check{Commit: w.Head, Name: name, Verdict: forge.Superseded, Title: "merged before it was planned on " + short(w.Base)})
	default:
		w.Check, w.Verdict, w.Last = nil, "", nil
	}
}

// called records that people were called.
func (w *wish) called(key string) {
	all := append(slices.Clone(w.Called), key)
	w.Called = all[max(0, len(all)-maxCalled):]
}

// encode encodes a wish for the outbox. If it is too large, encode leaves out notes, which the comment also has.
func (w *wish) encode() []byte {
	for kept := *w; ; {
		value := pack(&kept)
		if len(value) <= maxMessage || !halve(&kept.Check) && !halve(&kept.Green) {
			return value
		}
	}
}

// halve leaves out half of a check's notes, and reports whether there were any.
func halve(of **forge.Check) bool {
	if *of == nil || len((*of).Notes) == 0 {
		return false
	}
	c := **of
	c.Notes = c.Notes[:len(c.Notes)/2]
	*of = &c
	return true
}

// compressors are reused, because each takes up to a megabyte.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func pack(w *wish) []byte {
	var b bytes.Buffer
	z := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	z.Reset(&b)
	enc := json.NewEncoder(z)
	enc.SetEscapeHTML(false)
	_ = errors.Join(enc.Encode(w), z.Close()) // plain values, into memory: cannot fail
	return b.Bytes()
}

// decode decodes a wish from the outbox. A pending check may have been written: the daemon may have ended right
// after.
func decode(value []byte) (*wish, error) {
	z, err := gzip.NewReader(bytes.NewReader(value))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxWish+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxWish {
		return nil, fmt.Errorf("it has more than %d bytes", maxWish)
	}
	var w wish
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, err
	}
	w.Touched = w.Touched || w.Check != nil
	return &w, nil
}
