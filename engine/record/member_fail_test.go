package record

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record/recordtest"
)

// started waits until a host sees that a member has started.
func (h *host) started(address string) {
	h.t.Helper()
	soon(h.t, address+" has started", func() error {
		list, err := h.Members(h.t.Context())
		if m, _ := find(list, address); err != nil || !m.Started {
			return fmt.Errorf("%+v %w", list, err)
		}
		return nil
	})
}

// No cluster is begun beside members that run: not by a host with an empty disk, not from a backup, and
// not where only the data of the member knows the others.
func TestFoundBesideRunningMembers(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	must(t, b.PutMessage(t.Context(), "precious", []byte(`1`)))
	lost := all[2]
	lost.down()
	known := lost.cluster.Peer.Others
	refused := func(name string, from Source) {
		t.Helper()
		if _, err := Found(t.Context(), lost.dir, lost.cluster, from, Options{NoSync: true}); err == nil || !strings.Contains(err.Error(), "runs, and a second cluster beside it would act for the same site") {
			t.Errorf("%s a second cluster was begun: %v", name, err)
		}
	}
	lost.cluster.Peer.Others = nil
	refused("with its data", Source{Replace: true, Older: true})
	lost.cluster.Peer.Others = known
	refused("from a backup", Source{Replace: true, Older: true})
	must(t, os.RemoveAll(lost.dir))
	refused("with an empty disk", Source{})
}

// A cluster that was begun by mistake ends nobody who may have a majority again, and nobody is told to
// move data away without a look at which cluster is the right one.
func TestMistakenClusterEndsNobody(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	must(t, b.PutMessage(t.Context(), "precious", []byte(`1`)))
	a := all[0]
	a.down()
	must(t, os.RemoveAll(a.dir))
	a.cluster.Peer.Others = nil // a folder that knows nobody
	_, err := Found(t.Context(), a.dir, a.cluster, Source{}, Options{NoSync: true})
	must(t, err)
	must(t, a.open())
	all[2].down()
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second) // several looks of etcd's own clock
	defer cancel()
	if err := all[1].UntilStopped(ctx); err != nil {
		t.Errorf("it has ended: %v", err)
	}
	list, err := all[1].Members(t.Context())
	must(t, err)
	if m, _ := find(list, a.address()); m.Trouble != otherCluster {
		t.Errorf("the mistaken one: %+v", m)
	}
	must(t, all[2].open())
	soon(t, "the two go on", func() error { return all[1].etcd.etcd.Server.LinearizableReadNotify(t.Context()) })
}

// A member all of whose others are of another cluster ends, and says what to make sure of first.
func TestGivenUpClusterEnds(t *testing.T) {
	t.Parallel()
	all, _, _ := grown(t)
	for _, h := range all[:2] {
		h.down()
	}
	all[2].down()
	for _, h := range all[:2] {
		must(t, os.RemoveAll(h.dir))
		h.cluster.Peer.Others = nil
		_, err := Found(t.Context(), h.dir, h.cluster, Source{}, Options{NoSync: true})
		must(t, err)
		must(t, h.open())
	}
	must(t, all[2].open())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := all[2].UntilStopped(ctx); err == nil || !strings.Contains(err.Error(), "first make sure which cluster is the right one") {
		t.Errorf("it goes on: %v", err)
	}
}

// A follower whose member fails stops following, and others see that the member does not answer.
func TestFollowerEndsWithItsMember(t *testing.T) {
	t.Parallel()
	all, _, _ := grown(t)
	f := all[1]
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	following, done := make(chan struct{}, 100), make(chan error, 1)
	go func() { done <- f.Lead(ctx, "berlin", "follower", func(Leader) { following <- struct{}{} }) }()
	<-following
	gone := make(chan struct{})
	go func() { defer close(gone); f.etcd.etcd.Server.Logger().Panic("wal: no space left on device") }() // as etcd does
	<-gone
	if err := <-done; err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("it follows with a failed member: %v", err)
	}
	list, err := all[0].Members(t.Context())
	must(t, err)
	if m, _ := find(list, f.address()); m.Trouble == "" {
		t.Errorf("it is said to answer: %+v", m)
	}
}

// Of two that wait and are needed, one that has started once and is gone keeps the other from voting.
func TestTwoDoNotVote(t *testing.T) {
	t.Parallel()
	all := hosts(t, 3)
	must(t, all[0].open())
	b, _ := all[0].lead()
	for _, h := range all[1:] {
		must(t, all[0].AddMember(t.Context(), h.address()))
	}
	first, second := all[1], all[2]
	if first.address() > second.address() {
		first, second = second, first
	}
	must(t, second.open())
	all[0].started(second.address())
	second.down()
	for i := range 20 {
		must(t, b.PutMessage(t.Context(), fmt.Sprint(i), []byte(`1`)))
	}
	must(t, first.open())
	all[0].started(first.address())
	all[0].stays(1)
	must(t, second.open())
	all[0].votes(3)
}

// One that waits and is gone does not keep one that runs from voting.
func TestLostOneThatWaitsBlocksNobody(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	var addresses []string
	for range 2 {
		addresses = append(addresses, recordtest.Free(t))
	}
	slices.Sort(addresses)
	var added []*host
	for _, address := range addresses {
		p := *all[0].cluster.Peer
		p.Others, p.Address = []string{all[0].address()}, address
		added = append(added, &host{t: t, dir: filepath.Join(t.TempDir(), "records"), cluster: Cluster{Prefix: "/slipway/sites/", Peer: &p}})
	}
	must(t, all[0].AddMember(t.Context(), added[0].address())) // waits: three vote
	must(t, added[0].open())
	all[0].started(added[0].address())
	added[0].down()
	if err := all[0].RemoveMember(t.Context(), all[1].address()); err == nil || !strings.Contains(err.Error(), "two members would be left") {
		t.Errorf("one that is gone takes a place: %v", err)
	}
	all[2].down()
	for i := range 20 {
		must(t, b.PutMessage(t.Context(), fmt.Sprint(i), []byte(`1`)))
	}
	must(t, all[0].ReplaceMember(t.Context(), all[2].address(), added[1].address()))
	must(t, added[1].open())
	soon(t, "the one that runs votes", func() error {
		list, err := all[0].Members(t.Context())
		if m, _ := find(list, added[1].address()); err != nil || !m.Votes {
			return fmt.Errorf("%+v %w", list, err)
		}
		return nil
	})
}

// A database at its quota takes writes again once its history is freed, also when most of it is in use.
func TestMemberAtItsQuota(t *testing.T) {
	t.Parallel()
	h := hosts(t, 1)[0]
	s, err := Open(t.Context(), h.dir, Options{NoSync: true, Cluster: &h.cluster, quota: 32 << 20})
	must(t, err)
	h.Store = s
	t.Cleanup(func() { s.Close() })
	b, term := h.lead()
	text := func() []byte {
		p := make([]byte, 33000)
		_, _ = rand.Read(p)
		j, _ := json.Marshal(p)
		return j
	}
	for i := range 500 {
		must(t, b.PutMessage(t.Context(), fmt.Sprintf("lasting%04d", i), text()))
	}
	for i := 0; err == nil && i < 1000; i++ {
		err = b.PutMessage(t.Context(), "changing", text())
	}
	if err == nil {
		t.Fatal("it never reaches its quota")
	}
	soon(t, "it is written to again", func() error {
		return errors.Join(b.PutMessage(t.Context(), "changing", text()), term.Renew(t.Context()))
	})
}

// The last survivor's records are exported, are kept when a cluster begins anew with them, and are what
// they were.
func TestLastSurvivor(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	must(t, b.PutMessage(t.Context(), "precious", []byte(`"kept"`)))
	last := all[2]
	soon(t, "the last has it", func() error { return last.etcd.etcd.Server.LinearizableReadNotify(t.Context()) })
	for _, h := range all {
		h.down()
	}
	var out bytes.Buffer
	sum, err := ExportSurvivor(t.Context(), last.dir, last.cluster, &out, Options{NoSync: true})
	must(t, err)
	if !slices.Equal(sum.Sites, []string{"berlin"}) || !strings.Contains(out.String(), "precious") {
		t.Errorf("it exported %+v", sum)
	}
	if _, err := Verify(bytes.NewReader(out.Bytes())); err != nil {
		t.Error(err)
	}
	if _, err := Import(t.Context(), last.dir, bytes.NewReader(out.Bytes()), true, Options{NoSync: true}); err == nil || !hasMember(last.dir) {
		t.Errorf("an import replaced the last member: %v", err)
	}
	killed := last.dir + ".member-killed"
	must(t, os.Mkdir(killed, 0o700))
	must(t, os.WriteFile(filepath.Join(killed, unfinished), nil, 0o600))
	done, err := Found(t.Context(), last.dir, last.cluster, Source{Export: bytes.NewReader(out.Bytes()), Site: "berlin", Older: true, Replace: true}, Options{NoSync: true})
	must(t, err)
	if !hasMember(done.Kept) {
		t.Errorf("the data from before is not in %q", done.Kept)
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("what a killed process has left is there")
	}
	must(t, last.open())
	again, _ := last.lead()
	snap, err := again.Load(t.Context())
	must(t, err)
	if snap.Paused == nil {
		t.Error("it is not paused")
	}
}

// Members give room back one after the other, and the one that orders the writes last.
func TestTurns(t *testing.T) {
	t.Parallel()
	all, _, _ := grown(t)
	for minute := range 3 {
		var those []bool
		for _, h := range all {
			those = append(those, h.etcd.isTurn(time.Unix(int64(minute)*60, 0)))
		}
		leads := slices.IndexFunc(all, func(h *host) bool { return h.etcd.etcd.Server.Leader() == h.etcd.etcd.Server.MemberID() })
		if n := len(slices.DeleteFunc(slices.Clone(those), func(is bool) bool { return !is })); n != 1 || those[leads] != (minute == 2) {
			t.Errorf("minute %d: %v, and %d leads", minute, those, leads)
		}
	}
}

// A member whose key cannot be read is not told to give its data away.
func TestUnreadableKeyOfMember(t *testing.T) {
	t.Parallel()
	h := hosts(t, 1)[0]
	h.cluster.Peer.Key = filepath.Join(t.TempDir(), "absent")
	if err := h.open(); err == nil || !strings.Contains(err.Error(), "cannot be used") || strings.Contains(err.Error(), "move") {
		t.Errorf("it said: %v", err)
	}
}
