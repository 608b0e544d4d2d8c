package record

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
)

// tendEvery is how often a member looks for members to promote, and for unused room.
const tendEvery = 2 * time.Second

// tend promotes members that have caught up, gives unused room of the database back, and reports
// others that are of another cluster, for as long as the member runs.
func (m *member) tend(p *Peer, dir string, log *slog.Logger) {
	told, room := "", &room{m: m, log: log}
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
		if err := m.whileOpen(func() error { room.tend(p); return nil }); err != nil {
			log.Debug("no room was given back", "err", err)
		}
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
	err := fmt.Errorf("the member %s has no majority, and another cluster, which was begun later or earlier, runs at %s: first make sure which cluster is the right one. "+
		"If it is this one, stop the other, move its `records` away and have its members replaced here. If it is the other, stop this member, move %s away, run `slipway member add %s` on the host that leads unless it is listed, and start again",
		p.Address, strings.Join(others, ", "), dir, p.Address)
	if !own {
		m.fail(foreign{err})
	} else if err.Error() != told {
		log.Error("there are two clusters", "err", err)
	}
	return err.Error()
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
			asking.Go(func() { answers[i] = m.trouble(ctx, p, is.Address) == "" && p.takesPart(ctx, is.Address) == nil })
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
