package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record/recordtest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// host is a host with a member and its state directory.
type host struct {
	t       *testing.T
	dir     string
	cluster Cluster
	*Store
}

// hosts are hosts that know each other's addresses. The first one has begun a cluster.
func hosts(t *testing.T, n int) []*host {
	t.Helper()
	ca, cert, key := recordtest.Certificates(t)
	var all []*host
	var addresses []string
	for range n {
		addresses = append(addresses, recordtest.Free(t))
	}
	for i := range n {
		others := slices.Delete(slices.Clone(addresses), i, i+1)
		all = append(all, &host{t: t, dir: filepath.Join(t.TempDir(), "records"), cluster: Cluster{Prefix: "/slipway/sites/", Peer: &Peer{Address: addresses[i], Others: others, Cert: cert, Key: key, CA: ca}}})
	}
	_, err := Found(t.Context(), all[0].dir, all[0].cluster, Source{}, Options{NoSync: true})
	must(t, err)
	return all
}

func (h *host) address() string { return h.cluster.Peer.Address }

func (h *host) open() error {
	s, err := Open(h.t.Context(), h.dir, Options{NoSync: true, Cluster: &h.cluster})
	if err != nil {
		return err
	}
	h.Store = s
	h.t.Cleanup(func() { s.Close() })
	return nil
}

// down ends the host's process.
func (h *host) down() {
	h.Close()
	h.Store = nil
}

// lead has the host lead the site.
func (h *host) lead() (*Site, *Term) {
	h.t.Helper()
	must(h.t, h.Lead(h.t.Context(), "berlin", h.address(), func(Leader) {}))
	b := h.Site("berlin")
	term, err := b.Acquire(h.t.Context(), h.address(), 0)
	must(h.t, err)
	keep(h.t, term)
	return b, term
}

// soon waits until a check passes.
func soon(t *testing.T, what string, check func() error) {
	t.Helper()
	eventually(t, func() error {
		if err := check(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// stays holds that so many members vote, as a host sees it, for as long as another one would take to be promoted.
func (h *host) stays(n int) {
	h.t.Helper()
	enough := time.After(3 * tendEvery)
	for tick := time.NewTicker(tendEvery / 10); ; {
		if is := h.Voters(); is != n {
			h.t.Fatalf("%d vote, not %d", is, n)
		}
		select {
		case <-enough:
			return
		case <-tick.C:
		}
	}
}

// votes waits until so many members vote as a host sees it, and all of them answer it.
func (h *host) votes(n int) {
	h.t.Helper()
	soon(h.t, fmt.Sprint(n, " members vote"), func() error {
		all, err := h.Members(h.t.Context())
		if err != nil {
			return err
		}
		voters, _ := count(all)
		if voters != n || slices.ContainsFunc(all, func(m Member) bool { return m.Trouble != "" }) {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
}

// grown are three hosts that form a cluster, the first of which leads.
func grown(t *testing.T) ([]*host, *Site, *Term) {
	t.Helper()
	all := hosts(t, 3)
	must(t, all[0].open())
	b, term := all[0].lead()
	must(t, b.PutMessage(t.Context(), "early", []byte(`"before the others"`)))
	for _, h := range all[1:] {
		must(t, all[0].AddMember(t.Context(), h.address()))
	}
	must(t, all[1].open())
	slices.Reverse(all[2].cluster.Peer.Others) // it asks one that has itself joined before it was started
	must(t, all[2].open())
	all[0].votes(3)
	return all, b, term
}

// A cluster grows from one member to three. The second does not vote before the third has started:
// of two members both are needed.
func TestOneMemberGrowsToThree(t *testing.T) {
	t.Parallel()
	all := hosts(t, 3)
	must(t, all[0].open())
	must(t, all[0].AddMember(t.Context(), all[1].address()))
	if err := all[0].AddMember(t.Context(), all[1].address()); err == nil || !strings.Contains(err.Error(), "is a member already") {
		t.Errorf("it was added twice: %v", err)
	}
	if err := all[2].open(); err == nil || !strings.Contains(err.Error(), "is not a member: run `slipway member add") {
		t.Errorf("one that was not added: %v", err)
	}
	must(t, all[1].open())
	soon(t, "the second has started", func() error {
		list, err := all[1].Members(t.Context())
		if m, _ := find(list, all[1].address()); err != nil || !m.Started || !m.Here {
			return fmt.Errorf("%+v %w", list, err)
		}
		return nil
	})
	all[0].stays(1)
	must(t, all[0].AddMember(t.Context(), all[2].address()))
	must(t, all[2].open())
	for _, h := range all {
		h.votes(3)
	}
	if err := all[0].RemoveMember(t.Context(), all[2].address()); err == nil || !strings.Contains(err.Error(), "two members would be left") {
		t.Errorf("two members are left: %v", err)
	}
}

// A member whose disk is lost does not start with an empty one: it would have forgotten what it had
// agreed to. Replaced by a person it gets everything from the others and votes again.
func TestLostDiskRejoins(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	lost := all[2]
	lost.down()
	must(t, os.RemoveAll(lost.dir))
	must(t, b.PutMessage(t.Context(), "meanwhile", []byte(`"written by two"`)))
	if err := lost.open(); err == nil || !strings.Contains(err.Error(), "has lost its data: run `slipway member replace "+lost.address()) {
		t.Fatalf("it started with an empty disk: %v", err)
	}
	must(t, all[0].ReplaceMember(t.Context(), lost.address(), lost.address()))
	must(t, lost.open())
	lost.votes(3)
	lost.shared.below("berlin")
	lost.kv = lost.shared.raw
	messages, err := lost.Site("berlin").Messages(t.Context())
	must(t, err)
	if len(messages) != 2 {
		t.Errorf("it has %v", messages)
	}
	lost.down()
	must(t, lost.open()) // what it got from the others passes the checks of a start
	lost.votes(3)
	all[1].down()
	must(t, b.PutMessage(t.Context(), "with it", []byte(`"a majority with the new member"`)))
}

// Without a majority nothing is written, and the error says what is missing. With one again, what was
// not written can be.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	all[1].down()
	must(t, b.PutMessage(t.Context(), "two of three", []byte(`1`)))
	all[2].down()
	err := b.PutMessage(t.Context(), "one of three", []byte(`2`))
	if err == nil || !strings.Contains(err.Error(), "a majority of its members must run and be reachable from here") {
		t.Errorf("one of three wrote: %v", err)
	}
	if _, err := b.Messages(t.Context()); err == nil {
		t.Error("one of three reads as if it knew")
	}
	if err := all[0].AddMember(t.Context(), recordtest.Free(t)); err == nil || !strings.Contains(err.Error(), "a majority of the members must run") {
		t.Errorf("one of three adds a member: %v", err)
	}
	list, err := all[0].Members(t.Context())
	must(t, err)
	if silent := slices.DeleteFunc(list, func(m Member) bool { return m.Trouble == "" }); len(silent) != 2 {
		t.Errorf("these do not answer: %+v", silent)
	}
	must(t, all[1].open())
	soon(t, "two of three write", func() error { return b.PutMessage(t.Context(), "two again", []byte(`3`)) })
	all[0].down()
	must(t, all[0].open()) // a member with data starts while only one other runs
	soon(t, "it takes part again", func() error { return all[0].etcd.etcd.Server.LinearizableReadNotify(t.Context()) })
}

// A member that was removed ends, says so, and leads nothing.
func TestRemovedMemberEnds(t *testing.T) {
	t.Parallel()
	all, _, _ := grown(t)
	fourth := &host{t: t, dir: filepath.Join(t.TempDir(), "records"), cluster: all[0].cluster}
	peer := *all[0].cluster.Peer
	peer.Others, peer.Address, peer.Witness = []string{peer.Address}, recordtest.Free(t), true
	fourth.cluster.Peer = &peer
	must(t, all[0].AddMember(t.Context(), fourth.address()))
	must(t, fourth.open())
	soon(t, "a fourth waits", func() error {
		list, err := all[0].Members(t.Context())
		if m, _ := find(list, fourth.address()); err != nil || !m.Started || m.Votes || !m.Witness {
			return fmt.Errorf("%+v %w", list, err)
		}
		return nil
	})
	must(t, all[0].RemoveMember(t.Context(), all[1].address())) // the fourth takes its place
	all[0].votes(3)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("it did not end"))
	defer cancel()
	if err := all[1].UntilStopped(ctx); err == nil || !strings.Contains(err.Error(), "the others have removed or replaced it") {
		t.Errorf("the removed member: %v, %v", err, context.Cause(ctx))
	}
	if err := all[1].Lead(t.Context(), "berlin", "a removed one", func(Leader) {}); err == nil || !strings.Contains(err.Error(), "removed or replaced") {
		t.Errorf("the removed member follows: %v", err)
	}
}

// The records of a single host become those of a cluster as they are; from an older copy they are
// made harmless.
func TestFoundWithRecords(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "records")
	single, err := Open(t.Context(), dir, Options{NoSync: true})
	must(t, err)
	b := single.Site("berlin")
	must(t, b.Accept(t.Context(), site.Revision{ID: "abc"}, &site.Site{Name: "berlin", Nodes: map[string]*site.Node{"n1": {Name: "n1"}}}))
	must(t, b.PutMessage(t.Context(), "large", large()))
	var backup bytes.Buffer
	_, err = single.Export(t.Context(), &backup)
	must(t, err)
	single.Close()
	first := hosts(t, 1)[0]
	if err := (&host{t: t, dir: dir, cluster: first.cluster}).open(); err == nil || !strings.Contains(err.Error(), "`slipway member init`") {
		t.Errorf("records of a single host with --join: %v", err)
	}
	for _, older := range []bool{false, true} {
		h := hosts(t, 1)[0]
		if !older {
			h.dir = dir
		}
		sum, err := Found(t.Context(), h.dir, h.cluster, Source{Export: bytes.NewReader(backup.Bytes()), Site: "berlin", Older: older, Replace: true}, Options{NoSync: true})
		must(t, err)
		if sum.Records == 0 || !slices.Equal(sum.Sites, []string{"berlin"}) {
			t.Errorf("it moved %+v", sum)
		}
		if _, err := Open(t.Context(), h.dir, Options{NoSync: true}); err == nil || !strings.Contains(err.Error(), "start with --join") {
			t.Errorf("without --join: %v", err)
		}
		must(t, h.open())
		b, _ := h.lead()
		snap, err := b.Load(t.Context())
		must(t, err)
		messages, err := b.Messages(t.Context())
		must(t, err)
		if snap.Accepted == nil || snap.Accepted.Revision.ID != "abc" || (snap.Paused != nil) != older || (len(messages) == 0) != older {
			t.Errorf("older %t: %+v, paused %v, %d messages", older, snap.Accepted, snap.Paused, len(messages))
		}
		if !older && !bytes.Equal(messages["large"], large()) {
			t.Error("the large value is not what it was")
		}
		h.down()
	}
}

// A member joins by the names that the others have published, and takes its own place only if nobody has
// started there.
func TestJoins(t *testing.T) {
	t.Parallel()
	p := &Peer{Address: "10.0.0.3:2380", Witness: true}
	all := []peerMember{{[]string{"https://10.0.0.1:2380"}, "daemon 10.0.0.1:2380"}, {[]string{"https://10.0.0.2:2380"}, ""}, {[]string{"https://10.0.0.3:2380"}, "not started 2"}}
	list, err := p.joins(all)
	must(t, err)
	if want := "daemon 10.0.0.1:2380=https://10.0.0.1:2380,not started 1=https://10.0.0.2:2380,witness 10.0.0.3:2380=https://10.0.0.3:2380"; list != want {
		t.Errorf("it joins %s", list)
	}
	all[2].Name = "daemon 10.0.0.3:2380"
	if _, err := p.joins(all); err == nil || !strings.Contains(err.Error(), "has lost its data") {
		t.Errorf("it takes the place of one that has started: %v", err)
	}
	if _, err := p.joins(all[:2]); err == nil || !strings.Contains(err.Error(), "is not a member") {
		t.Errorf("it joins without being asked: %v", err)
	}
}

// Only an odd number of members votes, and never two.
func TestPromotable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ voters, waiting, want int }{
		{1, 0, 0}, {1, 1, 0}, {1, 2, 2}, {1, 3, 2}, {2, 0, 0}, {2, 1, 1}, {2, 2, 1}, {3, 0, 0}, {3, 1, 0}, {3, 2, 2}, {4, 0, 0}, {4, 1, 1},
	} {
		if got := promotable(c.voters, c.waiting); got != c.want {
			t.Errorf("%d vote and %d wait: %d are to vote, not %d", c.voters, c.waiting, got, c.want)
		}
	}
}

// Members are reached by addresses, and only by such as others can use.
func TestAddressOfMember(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "10.0.0.1", "host:2380", "0.0.0.0:2380", "[::]:2380", "10.0.0.1:0", "10.0.0.1:02380", "https://10.0.0.1:2380", "[fe80::1%eth0]:2380", "[::1]:65536"} {
		if checkAddress(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, good := range []string{"10.0.0.1:2380", "[2001:db8::1]:2380"} {
		if err := checkAddress(good); err != nil {
			t.Error(err)
		}
	}
}
