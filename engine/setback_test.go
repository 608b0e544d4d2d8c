package engine_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Two daemons on copied records do not both act: the one with the higher term
// goes on, also where it is the copy.
func TestDaemonsOnCopiedRecords(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := &board{}
		w.anchor = b
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		second := &world{t: w.t, fleet: w.fleet, source: w.source, dir: copyOf(w.t, w.dir), told: &teller{}, anchor: b}
		if err := os.WriteFile(second.dir+".key", readFile(w.t, w.dir+".key"), 0o400); err != nil {
			t.Fatal(err)
		}
		second.up() // beside the first
		w.after(2 * time.Minute)
		w.want("a", site.Blocked)
		w.reason("a", "another daemon acts for this site")
		for _, x := range []*world{second, w} {
			digest := x.engine.Report().Status.Approve
			_, _ = x.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Digest: digest, By: "ann"})
		}
		w.after(20 * time.Minute)
		w.installs("a", 1)
		second.want("a", site.InSync)
		second.down()
	}, "a")
}

// A daemon that does not act for the site tells so whoever approves something on
// it, takes an approval back, or pauses: the other one would know nothing of that.
func TestOrdersToTheDaemonThatDoesNotAct(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := &board{}
		w.anchor = b
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		digest := w.engine.Report().Status.Approve
		w.do(site.Order{Verb: site.VerbPause})
		w.approve()
		second := &world{t: w.t, fleet: w.fleet, source: w.source, dir: copyOf(w.t, w.dir), told: &teller{}, anchor: b}
		if err := os.WriteFile(second.dir+".key", readFile(w.t, w.dir+".key"), 0o400); err != nil {
			t.Fatal(err)
		}
		second.up()
		w.after(3 * time.Second) // the first has not noticed yet
		for _, o := range []site.Order{
			{Verb: site.VerbDisapprove, Digest: digest}, {Verb: site.VerbDisapprove, Node: "a"},
			{Verb: site.VerbApprove, Digest: digest}, {Verb: site.VerbApprove, Node: "a"},
		} {
			o.By = "ann"
			said, err := w.engine.Do(w.t.Context(), o)
			if !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "another daemon acts for this site") {
				t.Errorf("%s %s%s: %q %v", o.Verb, o.Digest, o.Node, said, err)
			}
		}
		for _, verb := range []site.Verb{site.VerbPause, site.VerbQuarantine} {
			said, err := w.engine.Do(w.t.Context(), site.Order{Verb: verb, Node: "a", By: "ann"})
			if err != nil || !strings.Contains(said, "another daemon acts for this site") {
				t.Errorf("%s: %q %v", verb, said, err)
			}
		}
		if _, err := second.engine.Do(w.t.Context(), site.Order{Verb: site.VerbDisapprove, Digest: digest, By: "ann"}); err != nil {
			t.Errorf("the daemon that acts: %v", err)
		}
		second.down()
	}, "a")
}

// Records that were rolled back install nothing a second time, and nothing else
// either, until a person says that nobody else acts.
func TestRecordsThatWereRolledBack(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.anchor = &board{}
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		w.down()
		before := copyOf(t, w.dir)
		for range 3 {
			w.up()
			w.after(10 * time.Minute)
			w.down()
		}
		w.installs("a", 1)
		w.setBack(before)
		w.fleet.Machine("a").SetPower("off")
		for range 5 { // each start begins a higher term
			w.up()
			w.after(20 * time.Minute)
			w.want("a", site.Blocked)
			w.reason("a", "records are out of date")
			w.down()
		}
		w.up()
		w.after(10 * time.Minute)
		w.installs("a", 1)
		if got := w.fleet.Machine("a").Power(); got != "off" {
			t.Errorf("a is %s", got)
		}
		w.do(site.Order{Verb: site.VerbTakeOver, Reason: "restored"})
		w.after(20 * time.Minute)
		w.installs("a", 1) // the approval of before has ended
		if got := w.node("a"); got.State == site.InSync || !got.Person {
			t.Errorf("a is %s (%s)", got.State, got.Reason)
		}
		w.down()
		w.up()
		w.after(5 * time.Minute)
		if p := w.node("a"); strings.Contains(p.Reason, "another daemon") {
			t.Errorf("after a restart: %s", p.Reason)
		}
	}, "a")
}

// Records that were set back while one daemon ran, as by a snapshot of its disk,
// have its claim. What was published of its approvals tells.
func TestRecordsThatWereSetBackWithinOneTerm(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.anchor = &board{}
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		before := copyOf(t, w.dir)
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		w.crash()
		w.setBack(before)
		w.fleet.Machine("a").SetDisk(&site.Marker{})
		w.up()
		w.after(time.Hour)
		w.reason("a", "this daemon's records are out of date")
		w.installs("a", 1)
		w.do(site.Order{Verb: site.VerbTakeOver, Reason: "restored"})
		w.after(time.Hour)
		w.installs("a", 1)
		if got := w.node("a"); got.State != site.Blocked || !strings.Contains(got.Reason, "waits for approval") {
			t.Errorf("a is %s (%s)", got.State, got.Reason)
		}
	}, "a")
}

// Records that were set back into an installation do not resume it on a machine that
// has ended it: the ledger is the same, and the status branch has it as installed.
func TestRecordsThatWereSetBackIntoAnInstallation(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.anchor = &board{}
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		for w.fleet.Machine("a").Counts().Installs == 0 {
			w.after(10 * time.Millisecond)
		}
		before := copyOf(t, w.dir)
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		w.crash()
		w.setBack(before)
		w.fleet.Machine("a").SetPower("off") // so that its system tells nothing
		w.up()
		w.after(time.Hour)
		w.reason("a", "has generation 1 of a as installed")
		w.installs("a", 1)
	}, "a")
}

// What was published is compared with the records before anything takes its place,
// also when it could not be read at the start.
func TestRecordsThatWereSetBackWhileGitIsAway(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, 15 * time.Second, 25 * time.Second, time.Minute, 10 * time.Minute} {
		inBubble(t, usual, func(w *world) {
			b := &board{}
			w.anchor = b
			w.commit(w.installed(1))
			w.up()
			w.after(2 * time.Minute)
			w.approve()
			before := copyOf(t, w.dir)
			w.after(20 * time.Minute)
			w.want("a", site.InSync)
			w.crash()
			w.setBack(before)
			w.fleet.Machine("a").SetDisk(&site.Marker{})
			b.set(context.DeadlineExceeded)
			w.up()
			w.after(away)
			b.set(nil)
			w.after(time.Hour)
			w.reason("a", "this daemon's records are out of date")
			w.installs("a", 1)
		}, "a")
	}
}

// Records that were set back are older than what was done also when the approval
// that was used in truth has expired in them.
func TestRecordsThatWereSetBackWithAnExpiredApproval(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.anchor = &board{}
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		before := copyOf(t, w.dir)
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		w.crash()
		w.setBack(before)
		w.fleet.Machine("a").SetDisk(&site.Marker{})
		time.Sleep(8 * 24 * time.Hour)
		for range 2 { // the first start records that the approval has ended
			w.up()
			w.after(time.Hour)
			w.reason("a", "this daemon's records are out of date")
			w.down()
		}
		w.up()
		w.after(time.Hour)
		for _, o := range []site.Order{{Verb: site.VerbApprove, Digest: strings.Repeat("0", site.DigestDigits)}, {Verb: site.VerbDisapprove, Node: "a"}} {
			o.By = "ann"
			if _, err := w.engine.Do(w.t.Context(), o); err == nil || !strings.Contains(err.Error(), "does not act for the site") {
				t.Errorf("%s: %v", o.Verb, err)
			}
		}
		w.installs("a", 1)
	}, "a")
}

// A take-over ends an installation too that had used its approval in the records:
// nobody here knows how it went on, and what has come since.
func TestTakeOverResumesNoInstallation(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.anchor = &board{}
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		for !w.used("a") {
			time.Sleep(time.Second)
		}
		before := copyOf(t, w.dir)
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		w.installs("a", 1)
		w.down()
		w.up()
		w.after(5 * time.Minute)
		w.down()
		w.setBack(before)
		w.fleet.Machine("a").SetDisk(&site.Marker{})
		w.up()
		w.after(20 * time.Minute)
		w.reason("a", "this daemon's records are out of date") // which outlasts that another daemon acts
		w.do(site.Order{Verb: site.VerbTakeOver, Reason: "restored"})
		w.after(time.Hour)
		w.installs("a", 1)
		w.reason("a", "waits for approval")
		w.approve()
		w.after(time.Hour)
		w.installs("a", 2)
		w.want("a", site.InSync)
	}, "a")
}

// Without a status branch the systems on the machines tell that the records were
// set back: a marker has a signature that nobody else can make.
func TestSignedMarkerTellsThatRecordsWereSetBack(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		later := site.Marker{Site: "test", Node: "a", Machine: w.fleet.Machine("a").Identity(), Generation: 2, Image: "d1", Attempt: 2, Term: 9}
		later.Token, _ = w.key().Token(later)
		forged := later
		forged.Term = 10
		w.fleet.Machine("a").SetDisk(&forged)
		w.commit(w.installed(2))
		w.after(10 * time.Minute)
		w.reason("a", "waits for approval")
		w.fleet.Machine("a").SetDisk(&later)
		w.after(10 * time.Minute)
		w.reason("a", "proves that this site installed generation 2 in term 9, and the records know of generation 1")
		order := site.Order{Verb: site.VerbApprove, Digest: w.engine.Report().Status.Approve, By: "ann"}
		if _, err := w.engine.Do(w.t.Context(), order); !errors.Is(err, site.ErrRefused) {
			t.Errorf("approved although the daemon does not act for the site: %v", err)
		}
		w.after(20 * time.Minute)
		w.installs("a", 1)
		w.do(site.Order{Verb: site.VerbTakeOver, Reason: "restored"})
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		w.installs("a", 1)
		if n := w.node("a"); n.Generation != 2 {
			t.Errorf("a has generation %d", n.Generation)
		}
	}, "a")
}
