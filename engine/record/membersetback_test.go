package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// snapshot copies the disk of a host that is down. setBack puts such a copy in its place.
func (h *host) snapshot() (dir string) {
	h.t.Helper()
	dir = filepath.Join(h.t.TempDir(), "records")
	must(h.t, os.CopyFS(dir, os.DirFS(h.dir)))
	return dir
}

func (h *host) setBack(dir string) {
	h.t.Helper()
	must(h.t, os.RemoveAll(h.dir))
	must(h.t, os.CopyFS(h.dir, os.DirFS(dir)))
}

// A member whose disk was set back to before its last start does not start: it would be part of a majority with what
// it has forgotten. Its data as it was starts, and so does one that was only away.
func TestDiskSetBackBeforeLastStart(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	h := all[1]
	h.down()
	before := h.snapshot()
	for i := range 50 {
		must(t, b.PutMessage(t.Context(), fmt.Sprint("without it ", i), []byte(`1`)))
	}
	must(t, h.open()) // it was away, and gets the rest
	must(t, h.etcd.settle(t.Context(), h.etcd.etcd.Server.LinearizableReadNotify))
	must(t, b.PutMessage(t.Context(), "agreed", []byte(`1`)))
	all[0].votes(3)
	h.down()
	has, err := h.cluster.Peer.onDisk(h.dir)
	must(t, err)
	must(t, h.open())
	soon(t, "the others know from where it started", func() error {
		for _, other := range []*host{all[0], all[2]} {
			list, _, err := h.cluster.Peer.ask(t.Context(), other.address())
			must(t, err)
			known := uint64(0)
			for _, m := range list {
				if m.PeerURLs[0] == peerURL(h.address()) {
					known = fromOf(m.Name)
				}
			}
			if known != has.index {
				return fmt.Errorf("%d, not %d", known, has.index)
			}
		}
		return nil
	})
	h.down()
	now := h.snapshot()
	h.setBack(before)
	all[2].down() // one that knows is enough
	if err := h.open(); err == nil || !strings.Contains(err.Error(), "was set back, or its data is a copy: it ends at entry ") || !strings.Contains(err.Error(), "run `slipway member replace "+h.address()) {
		t.Fatalf("it starts with what it has forgotten: %v", err)
	}
	h.setBack(now)
	must(t, h.open())
	must(t, b.PutMessage(t.Context(), "with it", []byte(`1`)))
	must(t, all[2].open())
	all[0].votes(3)
}

// One that was set back to within its last start is ended by the leader that knows what it had, with the same advice.
func TestDiskSetBackWithinLastStart(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	a, h := all[0], all[1]
	orders(all, a)
	h.down()
	before := h.snapshot()
	must(t, h.open())
	for i := range 50 {
		must(t, b.PutMessage(t.Context(), fmt.Sprint("agreed ", i), []byte(`1`)))
	}
	must(t, h.etcd.settle(t.Context(), h.etcd.etcd.Server.LinearizableReadNotify)) // it has them
	h.down()
	h.setBack(before)
	must(t, h.open())
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("it did not end"))
	defer cancel()
	if err := h.UntilStopped(ctx); err == nil || !strings.Contains(err.Error(), "was set back, or its data is a copy") || !strings.Contains(err.Error(), "run `slipway member replace "+h.address()) {
		t.Errorf("it goes on: %v, %v", err, context.Cause(ctx))
	}
}

// orders has one of several hosts order the writes.
func orders(all []*host, h *host) {
	h.t.Helper()
	soon(h.t, "it orders the writes", func() error {
		for _, other := range all {
			s, to := other.etcd.etcd.Server, h.etcd.etcd.Server.MemberID()
			if s.Leader() != s.MemberID() {
				continue
			}
			return s.MoveLeader(h.t.Context(), uint64(s.MemberID()), uint64(to))
		}
		return errors.New("none does")
	})
}

// One that ordered the writes when it was set back finds, once it has started, that it had written more: no other knows
// what it had.
func TestDiskSetBackOfTheOneThatOrders(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	a, h := all[0], all[1]
	h.down()
	before := h.snapshot()
	had, err := h.cluster.Peer.onDisk(before)
	must(t, err)
	must(t, h.open())
	must(t, h.etcd.settle(t.Context(), h.etcd.etcd.Server.LinearizableReadNotify))
	orders(all, h)
	for i := range 50 {
		must(t, b.PutMessage(t.Context(), fmt.Sprint("agreed ", i), []byte(`1`)))
	}
	soon(t, "it has written how much it has", func() error {
		is, err := a.etcd.readMark(marksBelow + h.etcd.etcd.Server.MemberID().String())
		if err != nil || is < had.index+50 {
			return fmt.Errorf("%d after %d: %w", is, had.index, err)
		}
		return nil
	})
	h.down()
	soon(t, "another one orders", func() error { return b.PutMessage(t.Context(), "without it", []byte(`1`)) })
	two := []*host{a, all[2]}
	orders(two, a) // it hands that over when it ends, and the one after it knows what it had; the next one does not
	orders(two, all[2])
	h.setBack(before)
	must(t, h.open())
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("it did not end"))
	defer cancel()
	if err := h.UntilStopped(ctx); err == nil || !strings.Contains(err.Error(), "and had written that it has") || !strings.Contains(err.Error(), "run `slipway member replace "+h.address()) {
		t.Errorf("it goes on: %v, %v", err, context.Cause(ctx))
	}
}

// A member that is closed while it writes how much it has ends nothing else.
func TestMarkOfClosedMember(t *testing.T) {
	t.Parallel()
	h := hosts(t, 1)[0]
	must(t, h.open())
	must(t, h.etcd.serves(t.Context()))
	m := h.etcd
	must(t, m.writeMark(marksBelow+"test"))
	h.down()
	m.ending.Store(false) // as if it had looked before
	if err := m.writeMark(marksBelow + "test"); err == nil {
		t.Error("it wrote into a closed member")
	}
}
