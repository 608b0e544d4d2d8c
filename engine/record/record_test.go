package record

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap/zapcore"

	"github.com/slipway-gitops/slipway/engine/site"
)

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// quick are the records of a test that waits for them in real time: etcd is ready
// some ticks after its start.
var quick = Options{NoSync: true, Tick: 10 * time.Millisecond}

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, quick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// reopen closes the records and loads a site anew.
func reopen(t testing.TB, s *Store, name string) (*Store, *Site, Snapshot) {
	t.Helper()
	must(t, s.Close())
	s = open(t, s.dir)
	b := s.Site(name)
	return s, b, load(t, b)
}

func load(t testing.TB, s *Site) Snapshot {
	t.Helper()
	snap, err := s.Load(t.Context())
	must(t, err)
	return snap
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same fails unless two values are equal; origins and times are compared as
// their types say.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b site.Origin) bool { return a == b })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// designOf makes a design of nodes as layers give it: many origins each.
func designOf(nodes int) *site.Site {
	d := &site.Site{
		Name: "berlin", SchemaVersion: "v0", Nodes: map[string]*site.Node{},
		Rollout: site.Rollout{MaxUnavailable: "25%", PollEvery: site.Duration(time.Minute)},
		Images:  map[string]*site.Image{"debian": {URL: "http://198.51.100.1/d.iso", SHA256: strings.Repeat("ab", 32)}},
		Origins: site.OriginsByPath(map[string]site.Origin{"images.debian.url": site.At("images.cue", 3, 9, "site")}),
	}
	for i := range nodes {
		n := nodeOfDesign(i)
		d.Nodes[n.Name] = n
	}
	return d
}

func nodeOfDesign(i int) *site.Node {
	n := &site.Node{
		Name: fmt.Sprintf("n%05d", i), Role: "compute", Rack: fmt.Sprintf("r%03d", i/40), Profiles: []string{"base", "compute"},
		Labels:   map[string]string{"zone": "a", "tier": "gold"},
		Identity: site.Identity{UUID: fmt.Sprintf("4c4c4544-0000-0000-0000-%012d", i), Serial: fmt.Sprintf("S%d", i)},
		Endpoints: map[site.EndpointKind]site.Endpoint{
			site.Manager: {URL: fmt.Sprintf("redfish+https://192.0.2.%d/redfish/v1/Systems/1", i%250), Credential: "bmc", Trust: site.Trust{Fingerprint: "sha256:" + strings.Repeat("0f", 32)}},
			site.OS:      {URL: fmt.Sprintf("ssh://198.51.100.%d", i%250), Credential: "os"},
		},
		Power: "on", Boot: site.Boot{Order: []string{"Hdd", "Pxe"}}, Image: "debian", Generation: 1,
		Place: site.At("nodes.cue", i+1, 2, "node/x"),
	}
	origins := map[string]site.Origin{}
	for _, path := range []string{"role", "rack", "labels.zone", "labels.tier", "identity.uuid", "identity.serial", "endpoints.manager.url",
		"endpoints.manager.credential", "endpoints.os.url", "endpoints.os.credential", "power", "boot.order", "image", "generation"} {
		origins[path] = site.At("profiles/base.cue", len(path), 3, "profile/base")
	}
	n.Origins = site.OriginsByPath(origins)
	return n
}

func observation(i int, seen time.Time) site.Observed {
	state := func(v site.Values) site.FacetState {
		return site.FacetState{Have: v, Seen: seen, Driver: "redfish"}
	}
	return site.Observed{
		Identity: site.Identity{UUID: fmt.Sprintf("4c4c4544-0000-0000-0000-%012d", i), Serial: fmt.Sprintf("S%d", i)},
		Facets: map[site.Facet]site.FacetState{
			site.FacetPower:  state(site.Values{"state": "on"}),
			site.FacetBoot:   state(site.Values{"order": "Hdd,Pxe", "override": "none"}),
			site.FacetHealth: state(site.Values{"status": "OK"}),
			site.FacetOS:     state(site.Values{"release": "Debian 12", "kernel": "6.1.0-18-amd64", "boot": "7e1"}),
		},
		Inventory: &site.Inventory{Manufacturer: "Contoso", Model: "3500RX", Processors: 2, MemoryGiB: 96},
		Inside: &site.Inside{
			BootedAt: time.Date(2026, 11, 22, 15, 46, 0, 0, time.UTC), MemoryBytes: 96 << 30, FailedUnits: []string{},
			Links: []site.NetDevice{{Name: "eth0", Addresses: []string{"10.1.0.11/24"}}}, Mounts: []site.Mount{{Path: "/", Used: 95}},
		},
	}
}

func recorded(generation int) site.Recorded {
	return site.Recorded{
		Adopted:   &site.Adoption{Machine: site.Identity{Serial: "S1"}, When: day, Manager: "redfish+https://192.0.2.1"},
		Installed: &site.Installation{Generation: generation, Image: strings.Repeat("ab", 32), Since: day, Proven: true},
		Last:      site.Shown{State: site.InSync, Reason: "as designed", Since: day},
	}
}

func TestEverythingComesBack(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	snap := load(t, b)
	same(t, "empty", snap, Snapshot{Nodes: map[string]site.Memory{}, Accounts: map[string]site.Account{}, History: site.History{}, Sessions: map[string]Sessions{}})

	ctx, design := t.Context(), designOf(3)
	rev := site.Revision{ID: "abc", Subject: "power off n1", Author: "Anna", When: day}
	hold := &site.Hold{By: "anna", Reason: "rack move", Since: day, Until: day.Add(time.Hour)}
	account, book := accountOf("n1"), Book{Records: "r1", Began: day, Blank: true}
	removal := Removal{Node: "gone", When: time.Now().UTC().Round(0)}
	inFlight := recorded(1)
	inFlight.InFlight = &site.InFlight{Since: day, Revision: "abc", Step: site.Step{
		Node: "a/b ü", Facet: site.FacetPower, Action: site.ActionPowerOff, Impact: site.ImpactReboot, Expect: site.Duration(time.Minute),
		Changes: []site.Change{{Field: "state", Have: "on", Want: "off", Origin: site.At("nodes.cue", 4, 3, "node/n1")}},
	}}
	must(t, b.Accept(ctx, rev, design))
	must(t, b.PutNode(ctx, "n00001", recorded(1)))
	must(t, b.PutNode(ctx, "a/b ü", inFlight))
	must(t, b.PutNode(ctx, "gone", recorded(1)))
	b.Observe("n00001", observation(1, day))
	b.Observe("gone", observation(2, day))
	must(t, b.Flush(ctx))
	must(t, b.DeleteNode(ctx, "gone"))
	must(t, b.Removed(ctx, removal))
	must(t, b.PutBook(ctx, book))
	must(t, b.PutAccounts(ctx, map[string]site.Account{"n1": account, "a/b ü": {Closed: 3}}))
	must(t, b.Pause(ctx, hold))
	given := site.Delivered{Since: day, Given: []site.Delivery{{Secret: "credential bmc", Version: "k.v", To: site.ToBMC, Machine: "UUID 1", When: day, Seen: day.Add(time.Second)}}}
	must(t, b.PutDelivered(ctx, "a/b ü", given))
	must(t, b.PutDelivered(ctx, "gone", given))
	must(t, b.ForgetDelivered(ctx, "gone"))

	s, b, snap = reopen(t, s, "berlin")
	accepted := snap.Accepted
	snap.Accepted = nil
	same(t, "snapshot", snap, Snapshot{
		Nodes: map[string]site.Memory{
			"n00001": {Recorded: recorded(1), Observed: observation(1, day)},
			"a/b ü":  {Recorded: inFlight},
		},
		Delivered: map[string]site.Delivered{"a/b ü": given},
		Book:      book, Accounts: map[string]site.Account{"n1": account, "a/b ü": {Closed: 3}}, Paused: hold, Removals: []Removal{removal}, History: site.History{}, Sessions: map[string]Sessions{},
	})
	same(t, "design", accepted.Design, design)
	same(t, "revision", accepted.Revision, rev)
	if accepted.SchemaVersion != "v0" || time.Since(accepted.When) > time.Hour {
		t.Errorf("accepted with schema %q at %v", accepted.SchemaVersion, accepted.When)
	}

	must(t, b.Pause(t.Context(), nil))
	if s, _, snap = reopen(t, s, "berlin"); snap.Paused != nil {
		t.Errorf("resumed, and still paused: %v", snap.Paused)
	}
	other := load(t, s.Site("berli"))
	same(t, "another site", other, Snapshot{Nodes: map[string]site.Memory{}, Accounts: map[string]site.Account{}, History: site.History{}, Sessions: map[string]Sessions{}})
}

func TestClosed(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	must(t, s.Close())
	must(t, s.Close())
	if err := b.PutNode(t.Context(), "n1", recorded(1)); !errors.Is(err, errClosed) {
		t.Errorf("got %v, want that the records are closed", err)
	}
}

func TestOldRemovalsAreForgotten(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	now := time.Now().UTC().Round(0)
	young := Removal{Node: "young", When: now.Add(-23 * time.Hour)}
	must(t, b.Removed(t.Context(), Removal{Node: "old", When: now.Add(-25 * time.Hour)}))
	must(t, b.Removed(t.Context(), young))
	for range 2 {
		same(t, "removals", load(t, b).Removals, []Removal{young})
	}
	if n := s.count(t, "/slipway/v1/berlin/removals/"); n != 1 {
		t.Errorf("%d removals are kept, want 1", n)
	}
}

func (s *Store) count(t testing.TB, prefix string) int {
	t.Helper()
	got, err := s.kv.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	must(t, err)
	return int(got.Count)
}

// revision counts the transactions that wrote something.
func (s *Store) revision(t testing.TB) int64 {
	t.Helper()
	got, err := s.kv.Get(t.Context(), versionKey)
	must(t, err)
	return got.Header.Revision
}

func TestOnlyChangesAreWritten(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	wrote := func(do func()) int64 {
		before := s.revision(t)
		do()
		return s.revision(t) - before
	}
	put := func(g int) func() { return func() { must(t, b.PutNode(ctx, "n1", recorded(g))) } }
	look := func(from, to int, seen time.Time) func() {
		return func() {
			for i := from; i < to; i++ {
				b.Observe(fmt.Sprintf("n%05d", i), observation(i, seen))
			}
			must(t, b.Flush(ctx))
		}
	}
	must(t, b.Accept(ctx, site.Revision{ID: "abc"}, designOf(600)))
	for i, c := range []struct {
		do   func()
		want int64
	}{
		{put(1), 1},
		{put(1), 0},
		{put(2), 1},
		{look(0, 600, day), 5 + 2},              // five transactions of contents, two records of ages
		{look(0, 0, day), 0},                    // nothing was looked at
		{look(0, 600, day), 0},                  // nothing new
		{look(0, 600, day.Add(time.Minute)), 2}, // seen again: ages only
		{look(0, 1, day.Add(time.Hour)), 1},     // one of them
	} {
		if got := wrote(c.do); got != c.want {
			t.Errorf("step %d wrote %d times, want %d", i, got, c.want)
		}
	}

	s, b, snap := reopen(t, s, "berlin")
	same(t, "one", snap.Nodes["n00599"].Observed, observation(599, day.Add(time.Minute)))
	for i, c := range []struct {
		do   func()
		want int64
	}{{put(2), 0}, {look(0, 600, day.Add(2*time.Hour)), 2}} {
		if got := wrote(c.do); got != c.want {
			t.Errorf("step %d after a restart wrote %d times, want %d", i, got, c.want)
		}
	}
	for i := range 200 {
		must(t, b.DeleteNode(ctx, fmt.Sprintf("n%05d", i)))
	}
	must(t, b.Flush(ctx))
	if n := s.count(t, "/slipway/v1/berlin/seen/"); n != 1 {
		t.Errorf("%d records of ages for 400 nodes, want 1", n)
	}
}

// TestFlushAfterAnError holds that what could not be written is written later,
// also when it has changed back meanwhile.
func TestFlushAfterAnError(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	must(t, b.PutNode(ctx, "n1", recorded(1)))
	b.Observe("n1", observation(1, day))
	must(t, b.Flush(ctx))
	gone, cancel := contextCanceled(t)
	defer cancel()
	b.Observe("n1", observation(2, day))
	if b.Flush(gone) == nil || b.PutNode(gone, "n1", recorded(2)) == nil {
		t.Fatal("writing without time succeeded")
	}
	b.Observe("n1", observation(1, day))
	before := s.revision(t)
	must(t, b.Flush(ctx))
	must(t, b.PutNode(ctx, "n1", recorded(1)))
	if n := s.revision(t) - before; n < 2 {
		t.Errorf("wrote %d times after the error, want every doubtful record again", n)
	}
	_, _, snap := reopen(t, s, "berlin")
	same(t, "node", snap.Nodes["n1"], site.Memory{Recorded: recorded(1), Observed: observation(1, day)})
}

func TestObservationOfARemovedNode(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	must(t, b.DeleteNode(ctx, "n1"))
	b.Observe("n1", observation(1, day)) // its worker ends a moment later
	must(t, b.Flush(ctx))
	_, b, snap := reopen(t, s, "berlin")
	same(t, "nodes", snap.Nodes, map[string]site.Memory{})
	if n := b.store.count(t, "/slipway/v1/berlin/observed/"); n != 0 {
		t.Errorf("%d observations of removed nodes are kept", n)
	}
}

func TestDesignFiles(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	other := s.Site("berlin.x")
	must(t, other.Accept(ctx, site.Revision{ID: "x"}, designOf(1)))
	for i := 1; i <= 3; i++ {
		must(t, b.Accept(ctx, site.Revision{ID: fmt.Sprint(i)}, designOf(i)))
	}
	must(t, b.Accept(ctx, site.Revision{ID: "4"}, designOf(3))) // same design, other commit
	if n := len(files(t, s)); n != 2 {
		t.Errorf("%d files, want one for each site", n)
	}
	for _, leftover := range []string{"berlin.tmp123", "berlin." + strings.Repeat("0", 64) + fileSuffix, "unrelated"} {
		must(t, os.WriteFile(filepath.Join(s.files(), leftover), nil, 0o600))
	}
	s, b, snap := reopen(t, s, "berlin")
	if snap.Accepted.Revision.ID != "4" || len(snap.Accepted.Design.Nodes) != 3 {
		t.Errorf("got revision %s", snap.Accepted.Revision.ID)
	}
	if got := files(t, s); len(got) != 3 || !slices.Contains(got, "unrelated") {
		t.Errorf("files after a sweep: %v", got)
	}
	must(t, b.Accept(ctx, site.Revision{ID: "5"}, designOf(4)))
	if n := len(files(t, s)); n != 3 {
		t.Errorf("%d files, want 3", n)
	}
}

func files(t testing.TB, s *Store) []string {
	t.Helper()
	all, err := os.ReadDir(s.files())
	must(t, err)
	var names []string
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

func TestLargeValuesAreFiles(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	n := nodeOfDesign(1)
	n.Endpoints[site.Manager] = site.Endpoint{URL: "redfish+https://192.0.2.1", Trust: site.Trust{CA: strings.Repeat("certificate ", 10_000)}}
	large := site.Recorded{Departed: &site.Departure{Revision: "abc", When: day, Node: n}}
	must(t, b.PutNode(ctx, "n1", large))
	o := observation(1, day)
	o.Facets[site.FacetOS] = site.FacetState{Have: site.Values{"release": strings.Repeat("x", maxValue)}, Seen: day}
	b.Observe("n1", o)
	must(t, b.Flush(ctx))
	many := map[string]site.Account{}
	for i := range 5000 {
		many[fmt.Sprintf("n%d", i)] = site.Account{Closed: i}
	}
	wide := accountOf("n1")
	wide.Entries[0].Note = strings.Repeat("x", maxValue)
	many["n1"] = wide
	must(t, b.PutAccounts(ctx, many))
	got, err := s.kv.Get(ctx, "/slipway/", clientv3.WithPrefix())
	must(t, err)
	for _, kv := range got.Kvs {
		if len(kv.Value) > 64<<10 {
			t.Errorf("%s has %d bytes", kv.Key, len(kv.Value))
		}
	}

	before := s.revision(t)
	s, b, snap := reopen(t, s, "berlin")
	must(t, b.PutNode(ctx, "n1", large))
	if s.revision(t) != before {
		t.Error("an unchanged large record was written again")
	}
	if n.Origins == nil {
		t.Error("PutNode changed what it was given")
	}
	n.Origins = nil
	same(t, "node", snap.Nodes["n1"], site.Memory{Recorded: large, Observed: o})
	same(t, "accounts", snap.Accounts, many)
}

// TestTimeInABubble runs the records in a bubble through half a day.
func TestTimeInABubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), dir, Options{NoSync: true})
		must(t, err)
		b := s.Site("berlin")
		for i := range 12 {
			must(t, b.PutNode(t.Context(), "n1", recorded(i)))
			b.Observe("n1", observation(i, time.Now()))
			must(t, b.Flush(t.Context()))
			time.Sleep(time.Hour)
		}
		if _, err := s.kv.Get(t.Context(), versionKey, clientv3.WithRev(2)); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("got %v for an old revision, want that it is compacted", err)
		}
		must(t, s.Close())
	})
	snap := load(t, open(t, dir).Site("berlin"))
	same(t, "node", snap.Nodes["n1"].Recorded, recorded(11))
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	s, err := Open(t.Context(), t.TempDir(), Options{NoSync: true, Tick: quick.Tick, Log: slog.New(slog.NewTextHandler(&out, nil))})
	must(t, err)
	must(t, s.Site("berlin").PutNode(t.Context(), "n1", recorded(1)))
	must(t, s.Close())
	if out.Len() > 0 {
		t.Errorf("nothing happened, and the log says %s", &out)
	}
}

// A new database that is slow to be written is no error.
func TestEarlyVersionIsNotLogged(t *testing.T) {
	var out bytes.Buffer
	log := bridge{slog.New(slog.NewTextHandler(&out, nil))}
	for message, logged := range map[string]bool{tooEarly: false, "failed to write": true} {
		out.Reset()
		must(t, log.Write(zapcore.Entry{Level: zapcore.ErrorLevel, Message: message}, nil))
		if (out.Len() > 0) != logged {
			t.Errorf("%q: the log says %q", message, &out)
		}
	}
}

func TestManyNodesAreLoaded(t *testing.T) {
	const nodes = 5000
	s := open(t, t.TempDir())
	fill(t, s.Site("berlin"), nodes)
	must(t, s.Close())
	s = open(t, s.dir)
	snap := load(t, s.Site("berlin"))
	if len(snap.Nodes) != nodes || len(snap.Accepted.Design.Nodes) != nodes {
		t.Fatalf("got %d nodes and %d designed ones", len(snap.Nodes), len(snap.Accepted.Design.Nodes))
	}
	if names := slices.Sorted(maps.Keys(snap.Nodes)); names[0] != "n00000" {
		t.Errorf("first node %s", names[0])
	}
}

func fill(t testing.TB, b *Site, nodes int) {
	t.Helper()
	must(t, b.Accept(t.Context(), site.Revision{ID: "abc"}, designOf(nodes)))
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		must(t, b.PutNode(t.Context(), name, recorded(1)))
		b.Observe(name, observation(i, day))
	}
	must(t, b.Flush(t.Context()))
}

func BenchmarkLoad5000(b *testing.B) {
	s := open(b, b.TempDir())
	fill(b, s.Site("berlin"), 5000)
	b.ReportAllocs()
	for b.Loop() {
		if snap := load(b, s.Site("berlin")); len(snap.Nodes) != 5000 {
			b.Fatal(errors.New("nodes are missing"))
		}
	}
}
