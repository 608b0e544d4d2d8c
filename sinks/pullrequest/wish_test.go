package pullrequest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The largest wish, of text that cannot be compressed much, has room in the
// records with the comment whole.
func TestLargestWish(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 6))
	noise := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteRune(rune(' ' + dice.IntN(0x7f-' ')))
		}
		return b.String()
	}
	v := review(1, "head1", "base1")
	v.Comment = noise(60_000)
	v.Call = &site.Call{Key: "halted", Text: noise(1000)}
	for n := range 2 * maxNotes {
		v.Findings = append(v.Findings, site.Finding{File: "n1.cue", Line: n + 1, Severity: site.SeverityWarning, Message: noise(1100)})
	}
	var w wish
	w.announce("slipway/berlin", &v)
	value := w.encode()
	if len(value) > maxMessage {
		t.Errorf("it has %d bytes", len(value))
	}
	got, err := decode(value)
	if err != nil || got.Comment.Text != v.Comment || got.Call.Text != v.Call.Text {
		t.Errorf("it comes back as another, %v", err)
	}
	if len(w.Check.Notes) != maxNotes || len(got.Check.Notes) >= maxNotes {
		t.Errorf("%d notes are told, %d kept", len(w.Check.Notes), len(got.Check.Notes))
	}
}

func TestWishComesBack(t *testing.T) {
	for _, set := range []string{"", "0123456789abcdef"} {
		w := wish{Number: 3, Former: []string{"a"}, Called: []string{"halted"}, Since: time.Now().UTC(), Changed: time.Now().UTC(), Kept: 7}
		v := review(3, "head1", "base1")
		v.Comment, v.Set = "<b>&amp; ü", set
		v.Call = &site.Call{Key: "stalled", Text: "n1"}
		w.announce("slipway/berlin", &v)
		got, err := decode(w.encode())
		w.Touched = w.Check != nil // nobody knows
		if diff := cmp.Diff(&w, got, cmp.AllowUnexported(wish{}), cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// What is kept is forgotten where it cannot be read, and told anew.
func TestUnreadable(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.stop()
		other := wish{Number: 8}
		d.box = map[string][]byte{"wish/1": []byte("{}"), "wish/2": {0x1f, 0x8b}, "wish/7": other.encode(), "heard": []byte("1")}
		d.up()
		d.announce(review(1, "head1", "base1"))
		d.after(time.Minute)
		d.did("check head1 success", "comment 1 plan")
		if string(d.box["heard"]) != "1" {
			t.Error("what is not ours was changed")
		}
	})
}

func TestFormerHeadsAreBounded(t *testing.T) {
	var w wish
	for n := range 10 * maxFormer {
		w.at(fmt.Sprint(n), "base1")
		w.say(forge.Check{Commit: fmt.Sprint(n)})
		w.Touched = true
	}
	if len(w.Former) != maxFormer || w.Former[maxFormer-1] != fmt.Sprint(10*maxFormer-2) {
		t.Errorf("%d wait, the last is %s", len(w.Former), w.Former[len(w.Former)-1])
	}
}

func FuzzDecode(f *testing.F) {
	w := wish{Number: 1, Former: []string{"a"}}
	f.Add(w.encode())
	f.Add([]byte("{}"))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, value []byte) {
		w, err := decode(value)
		if err != nil {
			return
		}
		if again, err := decode(w.encode()); err != nil || again.Number != w.Number {
			t.Errorf("%+v comes back as %+v, %v", w, again, err)
		}
	})
}
