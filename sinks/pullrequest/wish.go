package pullrequest

import (
	"bytes"
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

// Bounds on a wish.
const (
	// maxMessage is how large one is in the outbox, in bytes.
	maxMessage = 63 << 10
	// maxWish is how large one is by itself, in bytes.
	maxWish = 4 << 20
	// maxFormer is how many commits wait to be told that they were superseded,
	// maxCalled of how many needs it is known that people were called.
	maxFormer, maxCalled = 64, 100
	// maxMaybe is of how many texts it is remembered that they may be there.
	maxMaybe = 16
)

// wish is what is to be told of a proposal, and what has to be known of what
// was told. What is behind a pointer is never changed, only replaced.
type wish struct {
	Number int `json:"number"`
	// Head is the commit that the check is of, Base what of the branch it is
	// about, and Verdict the last one that was asked for.
	Head    string        `json:"head,omitempty"`
	Base    string        `json:"base,omitempty"`
	Verdict forge.Verdict `json:"verdict,omitempty"`
	// Written is how many checks were written of Head.
	Written int `json:"written,omitempty"`
	// Touched says that something may have been said of Head.
	Touched bool `json:"touched,omitempty"`
	// Fresh says that nobody could read a review of Head yet.
	Fresh  bool `json:"fresh,omitempty"`
	Merged bool `json:"merged,omitempty"`

	// Last is the check that was asked for last, without its notes: it is said
	// again when something else was said of Head.
	Last *forge.Check `json:"last,omitempty"`

	// What is to be told; each is nil once it was. Green is the check that is said
	// once people can read the comment: what it lets them merge destroys something.
	Check   *forge.Check `json:"check,omitempty"`
	Green   *forge.Check `json:"green,omitempty"`
	Call    *site.Call   `json:"call,omitempty"`
	Comment *comment     `json:"comment,omitempty"`
	// Former are commits whose place Head has taken; and Head where it was
	// taken back, or merged.
	Former []string `json:"former,omitempty"`

	// Kept is the number of the comment that is kept, 0 before it was written;
	// Read the Names of what people can read in it about Head.
	Kept int64  `json:"kept,omitempty"`
	Read string `json:"read,omitempty"`
	// Maybe are the digests of texts that another took the place of before it was
	// known that they were written; they may have been.
	Maybe []string `json:"maybe,omitempty"`
	// Called are the needs that people were called for.
	Called []string `json:"called,omitempty"`
	// Since is when the first of what is to be told was asked for, Changed when
	// the last was.
	Since   time.Time `json:"since,omitzero"`
	Changed time.Time `json:"changed,omitzero"`

	begun bool // by this process
}

// comment is the text of the comment that is kept, and what it is about.
type comment struct {
	Text string `json:"text"`
	Head string `json:"head,omitempty"`
	Base string `json:"base,omitempty"`
	// Set is the digest of what merging the proposal approves; it may be empty.
	Set string `json:"set,omitempty"`
	// Names is the digest of all that the text names as destroyed, also of what no
	// merge approves; empty for nothing.
	Names string `json:"names,omitempty"`
}

// settled says whether nothing is to be told.
func (w *wish) settled() bool {
	return w.Check == nil && w.Green == nil && w.Call == nil && w.Comment == nil && len(w.Former) == 0
}

// equal says whether the same is to be told, and is known.
func (w *wish) equal(o *wish) bool {
	same := *o
	same.begun = w.begun
	return reflect.DeepEqual(*w, same)
}

// begin has the check say that the head is being planned. After a restart what
// was said of the same commits stands: the same comes of them. And where the
// branch alone has moved the last check stands until there is a verdict: a forge
// takes so many checks of a commit and no more.
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

// hasVerdict says whether it is known how the head stands.
func (w *wish) hasVerdict() bool { return w.Verdict != "" && w.Verdict != forge.Pending }

// announce has a review told.
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

// overtake notes that the comment that was to be written may have been.
func (w *wish) overtake() {
	if w.Comment == nil {
		return
	}
	all := append(slices.Clone(w.Maybe), forge.Kept{Body: w.Comment.Text}.Reading().Text)
	w.Maybe = all[max(0, len(all)-maxMaybe):]
}

// names is the digest of all that a review names as destroyed.
func names(v *site.Review) string {
	if all := v.Destroys(); len(all) > 0 {
		return all.Digest()
	}
	return v.Set
}

// judge has the check say how a review came out. Where merging destroys something
// the check is good only once people can read what: until then one that was good
// before is pending.
func (w *wish) judge(name string, v *site.Review) {
	c, names := verdictOf(name, v), names(v)
	w.Green = nil
	switch {
	case c.Verdict != forge.Success || names == "" || v.Comment == "" || w.Read == names:
		w.say(c)
		return
	case w.Verdict == forge.Success:
		w.say(unread(name, v))
	}
	w.Green = &c
}

// at has the wish be about commits. What was to be told of another head is not
// told any more.
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

// land leaves the check as it is, unless it promises a plan that never comes, or
// another proposal has the commit, too.
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

// called notes that people were called.
func (w *wish) called(key string) {
	all := append(slices.Clone(w.Called), key)
	w.Called = all[max(0, len(all)-maxCalled):]
}

// encode is a wish as it is kept. What does not fit is left out of the notes,
// which the comment has too.
func (w *wish) encode() []byte {
	for kept := *w; ; {
		value := pack(&kept)
		if len(value) <= maxMessage || !halve(&kept.Check) && !halve(&kept.Green) {
			return value
		}
	}
}

// halve leaves out half of a check's notes, and says whether there were any.
func halve(of **forge.Check) bool {
	if *of == nil || len((*of).Notes) == 0 {
		return false
	}
	c := **of
	c.Notes = c.Notes[:len(c.Notes)/2]
	*of = &c
	return true
}

// Those that compress are kept: each takes up to a megabyte.
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

// decode is the wish that was kept. What had not been told may have been: the
// daemon may have ended right after.
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
