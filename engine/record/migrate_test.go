package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// shout rewrites every node's record, so that it can be seen how often.
var shout = migration{"nodes are shouted", func(_ context.Context, _ *Store, key string, value []byte) ([]clientv3.Op, error) {
	if !strings.Contains(key, "/nodes/") {
		return nil, nil
	}
	value, err := unseal(key, value)
	loud := strings.Replace(key, "/nodes/", "/loud/", 1)
	return []clientv3.Op{opSealed(loud, bytes.ToUpper(value)), clientv3.OpDelete(key)}, err
}}

var whisper = migration{"nodes are whispered", func(_ context.Context, _ *Store, key string, value []byte) ([]clientv3.Op, error) {
	if !strings.Contains(key, "/loud/") {
		return nil, nil
	}
	value, err := unseal(key, value)
	return []clientv3.Op{opSealed(key, bytes.ToLower(value))}, err
}}

// openWith opens records with more migrations than there are.
func openWith(ctx context.Context, dir string, more ...migration) (*Store, error) {
	return Open(ctx, dir, Options{NoSync: true, Tick: quick.Tick, migrations: slices.Concat(migrations, more)})
}

func (s *Store) get(t *testing.T, key string) string {
	t.Helper()
	got, err := s.kv.Get(t.Context(), key)
	must(t, err)
	if len(got.Kvs) == 0 {
		return ""
	}
	return string(got.Kvs[0].Value)
}

// version is that of records after so many migrations of a test.
func version(more int) string { return strconv.Itoa(Version + more) }

func TestMigrationsRunInOrder(t *testing.T) {
	if Version != 1+len(migrations) {
		t.Fatalf("version %d after %d migrations", Version, len(migrations))
	}
	s := open(t, t.TempDir())
	fill(t, s.Site("berlin"), 300) // more than one transaction
	must(t, s.Close())
	s, err := openWith(t.Context(), s.dir, shout)
	must(t, err)
	if v, n := s.get(t, versionKey), s.get(t, "/slipway/v1/berlin/loud/n00299"); v != version(1) || !strings.Contains(n, `"GENERATION":1`) {
		t.Errorf("version %s and %s", v, n)
	}
	if n := s.count(t, "/slipway/v1/berlin/nodes/"); n != 0 {
		t.Errorf("%d old records", n)
	}
	must(t, s.Close())
	refused(t, s.dir, "version "+version(1), "reads up to "+version(0))
	s, err = openWith(t.Context(), s.dir, shout, whisper)
	must(t, err)
	if v, n := s.get(t, versionKey), s.get(t, "/slipway/v1/berlin/loud/n00000"); v != version(2) || !strings.Contains(n, `"generation":1`) {
		t.Errorf("version %s and %s", v, n)
	}
	must(t, s.Close())
	s, err = openWith(t.Context(), t.TempDir(), shout, whisper)
	must(t, err)
	if v := s.get(t, versionKey); v != version(2) {
		t.Errorf("new records have version %s", v)
	}
	must(t, s.Close())
}

// TestInterruptedMigration holds that one that ended in the middle is done
// again as a whole at the next start.
func TestInterruptedMigration(t *testing.T) {
	s := open(t, t.TempDir())
	fill(t, s.Site("berlin"), 300)
	must(t, s.Close())
	power, left := errors.New("power cut"), 200
	interrupted := migration{"interrupted", func(_ context.Context, s *Store, key string, value []byte) ([]clientv3.Op, error) {
		if left--; left < 0 {
			return nil, power
		}
		return shout.change(t.Context(), s, key, value)
	}}
	for left = range 3 {
		left = 150 + 100*left
		if s, err := openWith(t.Context(), s.dir, interrupted); !errors.Is(err, power) || !strings.Contains(err.Error(), "from version "+version(0)+" to "+version(1)+" (interrupted)") {
			t.Fatalf("got %v %v", s, err)
		}
	}
	s, err := openWith(t.Context(), s.dir, shout)
	must(t, err)
	defer s.Close()
	if v, old, now := s.get(t, versionKey), s.count(t, "/slipway/v1/berlin/nodes/"), s.count(t, "/slipway/v1/berlin/loud/"); v != version(1) || old != 0 || now != 300 {
		t.Errorf("version %s, %d old and %d new records", v, old, now)
	}
}

// TestRecordsWithoutChecksums holds that records of version 1 are read, and
// have checksums from then on.
func TestRecordsWithoutChecksums(t *testing.T) {
	s := open(t, t.TempDir())
	fill(t, s.Site("berlin"), 300)
	want := load(t, s.Site("berlin"))
	must(t, s.everything(t.Context(), func(kv keyValue) error {
		_, err := s.kv.Put(t.Context(), kv.key, string(kv.value))
		return err
	}))
	_, err := s.kv.Put(t.Context(), versionKey, "1")
	must(t, err)
	for range 2 {
		var is Snapshot
		s, _, is = reopen(t, s, "berlin")
		same(t, "records", is, want)
	}
	if v, n := s.get(t, versionKey), s.get(t, "/slipway/v1/berlin/nodes/n00007"); v != version(0) || !strings.Contains(n, "}#") {
		t.Errorf("version %s and %s", v, n)
	}
}

// TestApprovalsOfBefore holds that what was approved before there was a ledger
// approves nothing, and that what was in flight goes on.
func TestApprovalsOfBefore(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	fill(t, b, 3)
	began := recorded(1)
	began.InFlight = &site.InFlight{Step: site.Step{Action: site.ActionInstall, Impact: site.ImpactDestructive}}
	must(t, b.PutNode(ctx, "n00001", began))
	restarts := recorded(2)
	restarts.InFlight = &site.InFlight{Step: site.Step{Action: site.ActionRestart, Impact: site.ImpactReboot}}
	must(t, b.PutNode(ctx, "n00002", restarts))
	must(t, b.PutProposed(ctx, Proposed{Number: 7, Shown: &Shown{Digest: "d"}, Named: &Named{Head: "h"}, Told: true}))
	must(t, b.put(ctx, "approvals/d1", map[string]string{"digest": "d1"}))
	_, err := s.kv.Put(ctx, versionKey, "2")
	must(t, err)
	for range 2 {
		var snap Snapshot
		s, _, snap = reopen(t, s, "berlin")
		if n := s.count(t, "/slipway/v1/berlin/approvals/"); n != 0 {
			t.Errorf("%d approvals are left", n)
		}
		if got := snap.Nodes["n00001"].Recorded; !got.InstallBegun() {
			t.Errorf("got %+v, want the installation under way", got.InFlight)
		}
		same(t, "restart", snap.Nodes["n00002"].Recorded, restarts)
		same(t, "proposals", snap.Proposed, []Proposed{{Number: 7, Told: true}})
	}
}

// TestManagerOfBefore holds that records in which the endpoint of a manager is called bmc
// are read as they were meant: no machine is new, and no session is forgotten.
func TestManagerOfBefore(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	fill(t, b, 3)
	must(t, b.Accept(ctx, site.Revision{ID: "r1"}, designOf(3)))
	met := recorded(1)
	met.Credentials = map[site.EndpointKind]site.CredentialUse{site.Manager: {URL: "redfish+https://192.0.2.1", Denied: "d", DeniedAt: day}}
	met.Had = &site.Reach{Manager: site.Endpoint{URL: "redfish+https://192.0.2.9"}}
	must(t, b.PutNode(ctx, "n00001", met))
	must(t, b.PutSessions(ctx, "n00001", Sessions{site.Manager: {{Term: 1, Endpoint: "redfish+https://192.0.2.1", ID: "/s/1"}}}))
	gone, large := recorded(2), nodeOfDesign(9)
	large.Labels["notes"] = strings.Repeat("x", maxValue) // in a file
	gone.Departed = &site.Departure{Revision: "r0", When: day, Node: large}
	must(t, b.PutNode(ctx, "n00009", gone))
	want := load(t, b)
	writeBefore(t, b)
	for range 2 {
		var got Snapshot
		s, b, got = reopen(t, s, "berlin")
		same(t, "records", got, want)
	}
	for _, key := range []string{"nodes/n00001", "sessions/n00001"} {
		if now := s.get(t, b.prefix+key); !strings.Contains(now, `"manager":`) || strings.Contains(now, `"bmc":`) {
			t.Errorf("%s is %s", key, now)
		}
	}
}

// writeBefore writes the records of a site as a program did that knew no manager.
func writeBefore(t *testing.T, b *Site) {
	t.Helper()
	ctx := t.Context()
	before := func(text []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`"manager":`), []byte(`"bmc":`)), []byte("endpoints.manager"), []byte("endpoints.bmc"))
	}
	file := func(digest string) string {
		text, err := b.readFile(t.Context(), digest)
		must(t, err)
		if digest, err = b.writeFile(t.Context(), before(text)); bytes.Equal(text, before(text)) {
			err = errors.New("a file without a manager")
		}
		must(t, err)
		return digest
	}
	must(t, b.store.everything(ctx, func(kv keyValue) error {
		if !strings.HasPrefix(kv.key, b.prefix) {
			return nil
		}
		text := before(kv.value)
		if digest, large := strings.CutPrefix(string(text), "@"); large {
			text = []byte("@" + file(digest))
		}
		if kv.key == b.prefix+"accepted" {
			text = bytes.ReplaceAll(text, []byte(b.used), []byte(file(b.used)))
		}
		return b.store.txn(ctx, []clientv3.Op{opSealed(kv.key, text)})
	}))
	_, err := b.store.kv.Put(ctx, versionKey, "4")
	must(t, err)
}

// A migration writes everything once more, for which there may be no room.
func TestMigrationMakesRoom(t *testing.T) {
	again := migration{"nodes are written again", func(_ context.Context, _ *Store, key string, value []byte) ([]clientv3.Op, error) {
		if !strings.Contains(key, "/nodes/") {
			return nil, nil
		}
		return []clientv3.Op{clientv3.OpPut(key, string(value))}, nil
	}}
	opts := Options{NoSync: true, Tick: quick.Tick, quota: 16 << 20}
	s, err := Open(t.Context(), t.TempDir(), opts)
	must(t, err)
	for i := range 90 { // 6 MiB
		r := recorded(i)
		r.Last.Reason = strings.Repeat("x", maxValue-1024)
		must(t, s.Site("berlin").PutNode(t.Context(), fmt.Sprintf("n%d", i), r))
	}
	must(t, s.Close())
	opts.migrations = slices.Concat(migrations, []migration{again, again, again, again})
	s, err = Open(t.Context(), s.dir, opts)
	must(t, err)
	defer s.Close()
	if n := len(load(t, s.Site("berlin")).Nodes); n != 90 {
		t.Errorf("%d nodes after the migration, want 90", n)
	}
}
