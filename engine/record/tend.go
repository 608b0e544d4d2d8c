package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

const (
	// tendEvery is how often a member looks for members to promote, and for unused room.
	tendEvery = 2 * time.Second
	// shrinkTurn is how long it is one member's turn to give room back. A database is not read or
	// written meanwhile, so no two do it at once.
	shrinkTurn = time.Minute
)

// tend promotes members that have caught up, gives unused room of the database back, and reports
// others that are of another cluster, for as long as the member runs.
func (m *member) tend(p *Peer, dir string, log *slog.Logger) {
	told := ""
	for every := time.NewTicker(tendEvery); ; {
		select {
		case <-m.ctx.Done():
			every.Stop()
			return
		case <-every.C:
		}
		if err := m.promote(p); err != nil {
			log.Warn("a member was not promoted", "err", err)
		}
		m.shrink(log)
		told = m.reportOthers(p, dir, told, log)
	}
}

// reportOthers reports members that are of another cluster by now, while this one has no leader:
// people have begun anew, or by mistake a second time. It ends the member only if all others are of
// another cluster: then none of its own can exist.
func (m *member) reportOthers(p *Peer, dir, told string, log *slog.Logger) string {
	if m.etcd.Server.Leader() != 0 {
		return ""
	}
	var others []string
	own := false // another member of this one's cluster may exist
	for _, is := range m.members() {
		switch {
		case is.Here:
		case m.trouble(m.ctx, p, is.Address) == otherCluster:
			others = append(others, is.Address)
		default:
			own = true
		}
	}
	if len(others) == 0 {
		return ""
	}
	err := fmt.Errorf("the member %s has no majority, and %s of another cluster, which was begun later or earlier: first make sure which cluster is the right one. "+
		"If it is this one, stop the other, move its `records` away and have its members replaced here. If it is the other, stop this member, move %s away, run `slipway member add %s` on the host that leads unless it is listed, and start again",
		p.Address, areOf(others), dir, p.Address)
	if !own {
		m.fail(foreign{err})
	} else if err.Error() != told {
		log.Error("there are two clusters", "err", err)
	}
	return err.Error()
}

// areOf names members, with their verb.
func areOf(addresses []string) string {
	if len(addresses) == 1 {
		return addresses[0] + " is"
	}
	text := addresses[0]
	for _, a := range addresses[1:] {
		text += " and " + a
	}
	return text + " are"
}

// promote lets members vote, as many as are to and only if all these run and have caught up now. Only
// the member that orders the writes does it: it knows all writes. They are promoted one after the
// other, so an even number votes for that moment, and for longer only if one is lost in it.
func (m *member) promote(p *Peer) error {
	if m.etcd.Server.Leader() != m.etcd.Server.MemberID() {
		return nil
	}
	all := m.members()
	voters, waiting := count(all)
	if promotable(voters, waiting) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, changeLimit)
	defer cancel()
	ready, err := m.caughtUp(ctx, p, all)
	if err != nil {
		return err
	}
	for _, is := range ready[:promotable(voters, len(ready))] {
		if _, err := m.client.MemberPromote(ctx, is.id); err != nil {
			return fmt.Errorf("%s: %w", is.Address, err)
		}
	}
	return nil
}

// caughtUp are the members that wait to vote, run, and have all that was written until now. What etcd
// itself knows of a member's progress it also knows of one that has been lost since.
func (m *member) caughtUp(ctx context.Context, p *Peer, all []Member) ([]Member, error) {
	client, err := p.client()
	if err != nil {
		return nil, err
	}
	client.Timeout = changeLimit
	defer client.CloseIdleConnections()
	answers := make([]bool, len(all))
	var asking sync.WaitGroup
	for i, is := range all {
		if !is.Votes && is.Started {
			asking.Go(func() { answers[i] = m.trouble(ctx, p, is.Address) == "" })
		}
	}
	asking.Wait()
	// A hash reads the whole database, so it is asked for only where those that answer are enough.
	number := 0
	for _, is := range answers {
		if is {
			number++
		}
	}
	voters, _ := count(all)
	if promotable(voters, number) == 0 {
		return nil, nil
	}
	revision := m.etcd.Server.KV().Rev()
	ready := make([]bool, len(all))
	for i, is := range all {
		if answers[i] {
			asking.Go(func() {
				// A hash of all until a revision is answered by those that have it.
				_, err := etcdserver.HashByRev(ctx, m.etcd.Server.Cluster().ID(), client, peerURL(is.Address), revision)
				ready[i] = err == nil
			})
		}
	}
	asking.Wait()
	var those []Member
	for i, is := range all {
		if ready[i] {
			those = append(those, is)
		}
	}
	return those, nil
}

// shrink gives room back to the file system when most of the database is unused: what counts for the
// quota is the file, and each member has its own. At the quota it frees what there is.
func (m *member) shrink(log *slog.Logger) {
	b := m.etcd.Server.Backend()
	size, free := b.Size(), b.Size()-b.SizeInUse()
	if full := m.alarms(); len(full) > 0 {
		if err := m.makeRoom(full); err != nil {
			log.Warn("the records still refuse to grow", "err", err)
		}
	} else if size > freeToDefrag<<20 && free > size/2 && m.isTurn(time.Now()) {
		if err := b.Defrag(); err != nil {
			log.Warn("the records were not compacted", "err", err)
		}
	}
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

// makeRoom gives back all room that is unused. The member that orders the writes first frees the
// history, which nobody reads, and ends the alarms once there is room.
func (m *member) makeRoom(full []*etcdserverpb.AlarmMember) error {
	ctx, cancel := context.WithTimeout(m.ctx, changeLimit)
	defer cancel()
	server := m.etcd.Server
	leads := server.Leader() == server.MemberID()
	if leads {
		if _, err := m.client.Compact(ctx, server.KV().Rev(), clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
	}
	b, quota := server.Backend(), server.Cfg.QuotaBackendBytes
	b.ForceCommit() // counts what was freed
	if b.Size()-b.SizeInUse() > quota/50 {
		if err := b.Defrag(); err != nil {
			return err
		}
	}
	if !leads || b.Size() > quota-quota/50 {
		return nil
	}
	ctx, cancel = context.WithTimeout(m.ctx, changeLimit) // a large database takes its time
	defer cancel()
	for _, a := range full {
		if _, err := m.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.MemberID, Alarm: a.Alarm}); err != nil {
			return err
		}
	}
	return nil
}

// isTurn reports whether it is this member's turn to give room back: one after the other has it, and
// the one that orders the writes is the last.
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
