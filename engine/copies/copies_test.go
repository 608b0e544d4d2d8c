package copies

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
)

// What is added on the leader is on every daemon, byte for byte, and each says who has it.
func TestEveryDaemonGetsWhatIsAdded(t *testing.T) {
	b := newBoard()
	one, two, three := b.node(t, "one", 0), b.node(t, "two", 0), b.node(t, "three", 0)
	one.leads()
	round(one, two, three)
	content := bytesOf(300_000)
	digest := one.add("debian12.iso", content)
	round(one, two, three)
	for _, n := range []*node{one, two, three} {
		if !n.has(digest) || !bytes.Equal(n.content(digest), content) {
			t.Fatalf("%s lacks it", n.Host)
		}
		l, err := n.Keeper().Listing(t.Context())
		must(t, err)
		if c := l.Files[0].Copies; len(l.Files) != 1 || l.Files[0].Name != "debian12.iso" || len(c.On) != 3 || c.Of != 3 || !c.Kept {
			t.Errorf("%s lists %+v %+v", n.Host, l.Files, c)
		}
	}
	if notes := one.Notes(); notes != nil {
		t.Errorf("notes: %q", notes)
	}
}

// What is in a store and was not added while a daemon led is not spread: it may have been collected long ago. Once
// the design names it, it is.
func TestAFileThatNobodyRecordedStaysWhereItIs(t *testing.T) {
	b := newBoard()
	one, two := b.node(t, "one", 0), b.node(t, "two", 0)
	i, err := one.Files.AddFile(t.Context(), strings.NewReader("left over"), 0, "", "old.iso", nil)
	must(t, err)
	one.leads()
	round(one, two)
	if two.has(i.SHA256) || !one.has(i.SHA256) {
		t.Error("it was spread or removed")
	}
	one.needed[i.SHA256] = true
	round(one, two)
	if !two.has(i.SHA256) {
		t.Error("it is named and not copied")
	}
}

// A leader gets what it lacks from a follower, also a file that only the design names and no record yet, before it
// asks the design's server.
func TestALeaderFetchesFromAnotherDaemonFirst(t *testing.T) {
	b := newBoard()
	one, two := b.node(t, "one", 0), b.node(t, "two", 0)
	content := bytesOf(100_000)
	i, err := two.Files.AddFile(t.Context(), bytes.NewReader(content), 0, "", "x.iso", nil)
	must(t, err)
	one.leads()
	one.needed[i.SHA256] = true
	round(two, one)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- one.Files.Run(ctx) }()
	one.Files.Want([]artifact.File{{SHA256: i.SHA256, URL: "http://127.0.0.1:1/x.iso", For: "image x"}})
	for range one.Files.Changes() {
		if one.Files.State(i.SHA256).Ready {
			break
		}
		if why := one.Files.State(i.SHA256).Why; why != "" {
			t.Fatal(why)
		}
	}
	cancel()
	must(t, <-done)
	if !bytes.Equal(one.content(i.SHA256), content) {
		t.Error("it is another file")
	}
	round(one, two)
	if l, _ := one.Keeper().Listing(t.Context()); l.Files[0].Name != "x.iso" || !l.Files[0].Copies.Kept {
		t.Errorf("listed as %+v", l.Files[0])
	}
}

// If nobody that runs has it, and its server fails too, the sentence says who has it and does not answer.
func TestTheHostThatIsDownIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := view{own: "one", isDaemon: func(string) bool { return true }}
		digest := strings.Repeat("a", 64)
		s := record.Shelves{
			Artifacts: map[string]record.Artifact{digest: {SHA256: digest, Name: "x", Size: 3}},
			Holders:   map[string]record.Holder{"two": {Host: "host two", Address: "127.0.0.1:9", Has: map[string]bool{digest: true}}},
		}
		v.take(s, time.Now())
		f := artifact.File{SHA256: digest, For: "image x"}
		if all := v.With(f); len(all) != 1 || all[0].Copy.From != "host two" || all[0].Copy.Size != 3 || v.Silent(digest) != nil {
			t.Errorf("one that was just seen: %+v", all)
		}
		for range 30 { // its record does not change, and its clock says nothing
			time.Sleep(syncEvery)
			v.take(s, time.Now())
		}
		if all := v.With(f); all != nil || !slices.Equal(v.Silent(digest), []string{"host two"}) {
			t.Errorf("one that is silent: %+v %v", all, v.Silent(digest))
		}
		if len(v.keys()) != 0 {
			t.Error("its key is accepted")
		}
		h := s.Holders["two"]
		h.Beat, h.Time = 7, time.Now().Add(-100*24*time.Hour)
		s.Holders["two"] = h
		v.take(s, time.Now())
		if len(v.With(f)) != 1 {
			t.Error("one with a wrong clock is not asked")
		}
		time.Sleep(silentAfter)
		if v.With(f) != nil || len(v.keys()) != 0 {
			t.Error("what was read long ago is believed")
		}
	})
}

// What no running daemon has waits for no other download, and the list does not say that it does.
func TestWhatNoRunningDaemonHas(t *testing.T) {
	b := newBoard()
	digest := digestOf(bytesOf(1000))
	b.shelves.Artifacts[digest] = record.Artifact{SHA256: digest, Name: "x.iso", Size: 1000}
	b.shelves.Holders["off"] = record.Holder{Name: "off", Host: "host off", Has: map[string]bool{digest: true}} // gives none
	n := b.node(t, "n", 0)
	n.sync(t.Context())
	l, err := n.Keeper().Listing(t.Context())
	must(t, err)
	if got := l.Wanted[digest]; got.Why != "no running daemon gives it" || !got.Retry.IsZero() {
		t.Errorf("it says %+v", got)
	}
}

// A daemon that is off for a moment keeps its records, although its clock is years behind: with them the site would
// forget what only that daemon has. Those of one that has been off for long by both clocks are deleted.
func TestAClockIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		wrote, seen time.Duration // how long ago
		gone        bool
	}{
		"clock behind":     {wrote: 10 * 365 * 24 * time.Hour, seen: 2 * silentAfter},
		"off for two days": {wrote: 2 * 24 * time.Hour, seen: 2 * 24 * time.Hour},
		"off for months":   {wrote: 60 * 24 * time.Hour, seen: 2 * 24 * time.Hour, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard()
			digest := digestOf(nil)
			b.shelves.Artifacts[digest] = record.Artifact{SHA256: digest, Name: "x.iso"}
			b.shelves.Holders["off"] = record.Holder{Name: "off", Time: time.Now().Add(-c.wrote), Has: map[string]bool{digest: true}}
			n := b.node(t, "n", 0)
			n.leads()
			n.sync(t.Context())
			seen := n.view.beats["off"]
			seen.at = seen.at.Add(-c.seen)
			n.view.beats["off"] = seen
			n.sync(t.Context())
			n.sync(t.Context())
			_, holds := b.shelves.Holders["off"]
			if _, is := b.shelves.Artifacts[digest]; is == c.gone || holds == c.gone {
				t.Errorf("the daemon is recorded: %v, its artifact: %v", holds, is)
			}
		})
	}
}

// Artifacts are in the order in which they are copied and shown: needed ones first, then by name.
func TestOrderOfArtifacts(t *testing.T) {
	s := record.Shelves{Artifacts: map[string]record.Artifact{}}
	for i, a := range []record.Artifact{{Name: "b"}, {Name: "d", Needed: true}, {Name: "a"}, {Name: "c", Needed: true}} {
		a.SHA256 = fmt.Sprintf("%064x", i)
		s.Artifacts[a.SHA256] = a
	}
	var names string
	for _, a := range live(s) {
		names += a.Name
	}
	if names != "cdab" {
		t.Errorf("in the order %s", names)
	}
}

// A host that is lost right after a file was added there: the next one that leads says where it is, and gets it when
// that host is back.
func TestTheOnlyCopyIsOnAHostThatIsLost(t *testing.T) {
	_, one, two := pair(t)
	two.sync(t.Context())
	digest := one.add("x.iso", bytesOf(1000)) // and nothing more from this host
	two.leads()
	two.sync(t.Context())
	if notes := strings.Join(two.Notes(), ""); !strings.Contains(notes, "fewer than two running daemons have 1 artifact, and the loss of one host could lose the only copy: x.iso (on host one)") {
		t.Errorf("notes: %s", notes)
	}
	two.needed[digest] = true
	round(one, two)
	if !two.has(digest) {
		t.Error("it is not copied when the host is back")
	}
}

// What the design in force needs is not removed to make room on a daemon that follows, and what nobody needs does not
// push it out.
func TestRoomOnAFollower(t *testing.T) {
	b := newBoard()
	one, small := b.node(t, "one", 0), b.node(t, "small", 25_000)
	one.leads()
	first := one.add("first.iso", bytesOf(10_000))
	one.needed[first] = true
	spare := one.add("spare.iso", bytesOf(10_000))
	round(one, small)
	if !small.has(first) || !small.has(spare) {
		t.Fatal("both fit")
	}
	second := one.add("second.iso", bytesOf(10_000))
	one.needed[second] = true
	round(one, small)
	if !small.has(first) || !small.has(second) || small.has(spare) {
		t.Error("what is needed has no room")
	}
	third := one.add("third.iso", bytesOf(10_000))
	one.needed[third] = true
	round(one, small, one)
	if !small.has(first) || !small.has(second) || small.has(third) {
		t.Error("needed files push each other out")
	}
	if err := one.Problem(); err == nil || !strings.Contains(err.Error(), "host small: ") || !strings.Contains(err.Error(), "third.iso is not copied: 10 kB more do not fit into the artifact store") {
		t.Errorf("the leader says %v", err)
	}
	notes := strings.Join(one.Notes(), " ")
	if !strings.Contains(notes, "third.iso (on host one)") || !strings.Contains(notes, "spare.iso (on host one)") {
		t.Errorf("notes: %s", notes)
	}
}

// A copy that breaks off goes on where it was, and is whole only once its digest is right.
func TestACopyGoesOn(t *testing.T) {
	content := bytesOf(400_000)
	digest := digestOf(content)
	var ranges []string
	b := newBoard()
	b.liar(t, "a", digest, func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", strconv.Quote(digest))
		if len(ranges) == 1 {
			w.Header().Set("Content-Length", "400000")
			w.Write(content[:100_000])
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	n, a := b.lacks(t, digest, len(content))
	n.copy(t.Context(), a)
	if n.has(digest) {
		t.Fatal("half a file is there")
	}
	l, err := n.Keeper().Listing(t.Context())
	must(t, err)
	if s := l.Wanted[digest]; s.Name != "x.iso" || s.Why == "" || len(s.Copies.On) != 1 || s.Copies.Of != 1 {
		t.Errorf("listed as %+v", s)
	}
	n.copy(t.Context(), a)
	if !bytes.Equal(n.content(digest), content) || !slices.Equal(ranges, []string{"", "bytes=100000-"}) {
		t.Errorf("asked for %q", ranges)
	}
}

// A full disk is said, and the rest goes on.
func TestOneThatFailsStopsNoOther(t *testing.T) {
	b := newBoard()
	one, small := b.node(t, "one", 0), b.node(t, "small", 5000)
	one.leads()
	large, little := one.add("a-large.iso", bytesOf(10_000)), one.add("little.iso", bytesOf(1000))
	one.needed[large], one.needed[little] = true, true
	round(one, small)
	if small.has(large) || !small.has(little) {
		t.Error("the large one stops the little one")
	}
	if err := small.Problem(); err == nil || !strings.HasPrefix(err.Error(), "this host: a-large.iso is not copied: ") {
		t.Errorf("it says %v", err)
	}
}

// What runs as a daemon does copies by itself, one file after the other, and ends with its context.
func TestRun(t *testing.T) {
	b := newBoard()
	b.told = make(chan struct{}, 1)
	one := b.node(t, "one", 0)
	one.leads()
	var all []string
	for i := range 5 {
		all = append(all, one.add(fmt.Sprint(i, ".iso"), bytesOf(50_000)))
	}
	one.sync(t.Context())
	two := b.node(t, "two", 0)
	two.Listen = ""
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); two.Run(ctx) }()
	go func() {
		for wait(ctx, time.Minute, b.told) { // the one that gives learns who asks
			one.sync(ctx)
		}
	}()
	for range two.Files.Changes() {
		if !slices.ContainsFunc(all, func(digest string) bool { return !two.has(digest) }) {
			break
		}
	}
	cancel()
	<-done
}
