package record

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// shrinkTurn is how long it is one member's turn to give room back while there is no hurry.
	shrinkTurn = time.Minute
	// queueTicks is for how many looks members at the quota wait until all that need room are in the queue.
	queueTicks = 2
	// headTicks is after how many looks the first in the queue is passed over: it takes longer than the
	// largest database does.
	headTicks = 60
)

// room gives unused room of a member's database back to the file system. What counts for the quota is
// the file, and each member has its own. A database is neither read nor written meanwhile, so members do it one
// after the other, and the one that orders the writes last.
//
// At the quota etcd accepts no write, and says so by an alarm of the member whose file is full. The alarms, which
// all members know in the same way, are the queue: who needs room adds its own, the first in it gives room back
// and ends its alarm, and with the last alarm writes are accepted again.
type room struct {
	m   *member
	log *slog.Logger

	ticks int    // looks since the alarm was first seen
	head  uint64 // the first in the queue, and for how many looks
	since int
}

// tend is one look.
func (r *room) tend(p *Peer) {
	full := r.m.alarms()
	if len(full) == 0 {
		r.ticks, r.head, r.since = 0, 0, 0
		r.shrink()
		return
	}
	ctx, cancel := context.WithTimeout(r.m.ctx, changeLimit)
	defer cancel()
	if err := r.makeRoom(ctx, p, full); err != nil {
		r.log.Warn("the records still refuse to grow", "err", err)
	}
	r.ticks++
}

// shrink gives room back when most of the database is unused.
func (r *room) shrink() {
	b := r.m.etcd.Server.Backend()
	size, free := b.Size(), b.Size()-b.SizeInUse()
	if size > freeToDefrag<<20 && free > size/2 && r.m.isTurn(time.Now()) {
		if err := r.defragment(); err != nil {
			r.log.Warn("the records were not compacted", "err", err)
		}
	}
}

// defragment says that it begins and ends, because the member does not answer meanwhile.
func (r *room) defragment() error {
	b := r.m.etcd.Server.Backend()
	r.log.Info("this member gives unused room of its records back and does not answer meanwhile; the members do it one after the other", "bytes", b.Size(), "unused", b.Size()-b.SizeInUse())
	if err := b.Defrag(); err != nil {
		return err
	}
	r.log.Info("this member has given unused room of its records back", "bytes", b.Size())
	return nil
}

// alarms are those of members whose database has reached its quota. Until they are disarmed etcd
// accepts no write, also no renewal of a term.
func (m *member) alarms() (full []*etcdserverpb.AlarmMember) {
	for _, a := range m.etcd.Server.Alarms() {
		if a.Alarm == etcdserverpb.AlarmType_NOSPACE {
			full = append(full, a)
		}
	}
	return full
}

// makeRoom does what the member's place in the queue asks for. The member that orders the writes first frees the
// history, which nobody reads, and passes over a member that is gone.
func (r *room) makeRoom(ctx context.Context, p *Peer, full []*etcdserverpb.AlarmMember) error {
	server := r.m.etcd.Server
	own, leads := uint64(server.MemberID()), server.Leader() == server.MemberID()
	if leads {
		if _, err := r.m.client.Compact(ctx, server.KV().Rev(), clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
	}
	server.Backend().ForceCommit() // counts what was freed
	queue := inLine(full, uint64(server.Leader()))
	switch head := queue[0]; {
	case len(r.m.members()) > 1 && r.ticks < queueTicks:
		if slices.Contains(queue, own) || !r.isNearQuota() {
			return nil
		}
		_, err := server.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: own, Alarm: etcdserverpb.AlarmType_NOSPACE})
		return err
	case head == own:
		return r.giveBack(own)
	case leads && r.isGone(ctx, p, head):
		r.log.Warn("a member that was to give room back does not answer, and is passed over")
		return r.m.disarm(ctx, head)
	}
	return nil
}

// inLine are the members with an alarm, in the order in which they give room back.
func inLine(full []*etcdserverpb.AlarmMember, leader uint64) (queue []uint64) {
	for _, a := range full {
		queue = append(queue, a.MemberID)
	}
	slices.SortFunc(queue, func(a, b uint64) int {
		switch {
		case a == leader:
			return 1
		case b == leader:
			return -1
		}
		return cmp.Compare(a, b)
	})
	return queue
}

// isNearQuota reports whether the next writes would fill the database. How much of it is unused is known only once
// the history is freed, which each member does in its own time.
func (r *room) isNearQuota() bool {
	quota := r.m.etcd.Server.Cfg.QuotaBackendBytes
	return r.m.etcd.Server.Backend().Size() > quota-quota/10
}

// giveBack ends the member's alarm once its database is below the quota. It stays while the records themselves are
// too large.
func (r *room) giveBack(own uint64) error {
	b, quota := r.m.etcd.Server.Backend(), r.m.etcd.Server.Cfg.QuotaBackendBytes
	if b.Size()-b.SizeInUse() > quota/50 {
		if err := r.defragment(); err != nil {
			return err
		}
	}
	if b.Size() > quota-quota/50 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.m.ctx, changeLimit) // only now: a large database takes its time
	defer cancel()
	return r.m.disarm(ctx, own)
}

func (m *member) disarm(ctx context.Context, id uint64) error {
	_, err := m.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: id, Alarm: etcdserverpb.AlarmType_NOSPACE})
	return err
}

// isGone reports whether the first in the queue will not give room back: it is no member, does not answer, or is
// the first for too long.
func (r *room) isGone(ctx context.Context, p *Peer, head uint64) bool {
	if r.head != head {
		r.head, r.since = head, r.ticks
	}
	all := r.m.members()
	i := slices.IndexFunc(all, func(m Member) bool { return m.id == head })
	return i < 0 || r.ticks-r.since > headTicks || r.m.trouble(ctx, p, all[i].Address) != ""
}

// isTurn reports whether it is this member's turn to give room back while there is no hurry: one after the other
// has it, and the one that orders the writes is the last.
func (m *member) isTurn(now time.Time) bool {
	all := m.members()
	slices.SortStableFunc(all, func(a, b Member) int {
		switch {
		case a.Leads == b.Leads:
			return 0
		case a.Leads:
			return 1
		}
		return -1
	})
	turn := int(now.Unix()/int64(shrinkTurn/time.Second)) % max(1, len(all))
	return turn < len(all) && all[turn].Here
}
