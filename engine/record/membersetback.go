package record

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// A member whose disk was set back, by a snapshot of a virtual machine or an image, has forgotten what it
// had agreed to. With each start a member therefore publishes, in its name, how much of the log its disk
// had then. The others keep that, and at its next start it asks them before it takes part.
//
// What it gets after its start it writes into the log every few seconds. etcd lets a member vote as soon as it has
// started, so it finds that only once it has taken part (keepMark). As long as the member leads that did when it was
// set back, it finds that sooner (isLostLog).
const (
	fromMark = " from "
	// marksBelow has a key for each member, by its ID, with the last entry of the log that its disk has.
	marksBelow = "/slipway/members/"
	markEvery  = 10 * time.Second
)

// fromOf is how much of the log a member had at its last start, as its name says; 0 if it does not.
func fromOf(name string) uint64 {
	_, text, _ := strings.Cut(name, fromMark)
	n, _ := strconv.ParseUint(text, 10, 64) // 0 for what is no number
	return n
}

// diskState is what the data of a stopped member says. All is zero before it has first taken part.
type diskState struct {
	id    uint64 // of the member: no other member of any cluster has it
	index uint64 // the last entry of the log that the database has
	etcd  string // the version that all members had when it ran last
}

func (p *Peer) onDisk(dir string) (has diskState, err error) {
	err = readDatabase(dir, func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte("meta")); b != nil {
			if v := b.Get([]byte("consistent_index")); len(v) == 8 {
				has.index = binary.BigEndian.Uint64(v)
			}
		}
		if b := tx.Bucket([]byte("cluster")); b != nil {
			has.etcd = string(b.Get([]byte("clusterVersion")))
		}
		members := tx.Bucket([]byte("members"))
		if members == nil {
			return nil
		}
		return members.ForEach(func(key, value []byte) error {
			var m peerMember
			if err := json.Unmarshal(value, &m); err != nil {
				return err
			}
			if slices.Contains(m.PeerURLs, peerURL(p.Address)) {
				has.id, err = strconv.ParseUint(string(key), 16, 64)
				return err
			}
			return nil
		})
	})
	return has, err
}

// checkEtcd refuses data that a newer etcd has written: etcd would end, and says nothing of what to do.
func (p *Peer) checkEtcd(has diskState, data string) error {
	theirs, own := etcdversion.V3_6, etcdversion.V3_6
	if theirs.Set(has.etcd) != nil || own.Set(etcdversion.Version) != nil || !own.LessThan(theirs) {
		return nil
	}
	return foreign{fmt.Errorf("the member %s has data of a newer slipway, whose etcd is %s, and this one's is %s: install the newer slipway on this host again; the data in %s is not touched", p.Address, has.etcd, etcdversion.Version, data)}
}

// checkSetBack asks the other members whether this one's data is older than it was at its last start.
// Others that do not answer cannot tell, and are not waited for: all may be starting now.
func (p *Peer) checkSetBack(ctx context.Context, has diskState, dir, data string) error {
	if has.id == 0 {
		return nil
	}
	others := knownOthers(dir, p)
	had := make([]uint64, len(others))
	var asking sync.WaitGroup
	for i, other := range others {
		asking.Go(func() {
			all, _, err := p.ask(ctx, other)
			for _, m := range all {
				if err == nil && m.ID == has.id {
					had[i] = fromOf(m.Name)
				}
			}
		})
	}
	asking.Wait()
	for i, other := range others {
		if had[i] > has.index {
			return p.setBack(data, fmt.Errorf("it ends at entry %d of the log, and %s knows that it had %d", has.index, other, had[i]))
		}
	}
	return nil
}

// setBack says what to do with a member whose disk was set back.
func (p *Peer) setBack(data string, why error) error {
	return foreign{fmt.Errorf("the disk of the member %s was set back, or its data is a copy: %w. It has forgotten what it had agreed to, and could lose writes that were confirmed: move %s away, run `slipway member replace %s` on the host that leads, and start again",
		p.Address, why, data, p.Address)}
}

// isLostLog reports whether etcd has ended because its leader knows of entries that this member had and
// does not have any more (raft, raftLog.commitTo).
func isLostLog(err error) bool { return strings.Contains(err.Error(), "Was the raft log corrupted") }

// keepMark has the member end if it has written before that its disk has more of the log than it had at its start,
// and from then on writes how much it has.
func (m *member) keepMark(p *Peer, has diskState, data string, log *slog.Logger) {
	key := marksBelow + m.etcd.Server.MemberID().String()
	checked, every := false, time.NewTicker(markEvery)
	defer every.Stop()
	for {
		if !checked {
			had, err := m.readMark(key)
			switch {
			case err != nil:
				log.Debug("what this member had is not known yet", "err", err)
			case had > has.index && has.id != 0:
				m.fail(p.setBack(data, fmt.Errorf("it ended at entry %d of the log when it was started, and had written that it has %d", has.index, had)))
				return
			}
			checked = err == nil
		}
		if checked {
			if err := m.writeMark(key); err != nil {
				log.Debug("what this member has was not written", "err", err)
			}
		}
		select {
		case <-m.ctx.Done():
			return
		case <-every.C:
		}
	}
}

func (m *member) readMark(key string) (uint64, error) {
	ctx, cancel := context.WithTimeout(m.ctx, changeLimit)
	defer cancel()
	got, err := m.client.Get(ctx, key)
	if err != nil || len(got.Kvs) == 0 {
		return 0, err
	}
	return strconv.ParseUint(string(got.Kvs[0].Value), 10, 64)
}

// writeMark writes what the disk has for sure: the index is read before the database is written to the disk.
func (m *member) writeMark(key string) error {
	ctx, cancel := context.WithTimeout(m.ctx, changeLimit)
	defer cancel()
	var index uint64
	if err := m.whileOpen(func() error {
		b := m.etcd.Server.Backend()
		index, _ = schema.ReadConsistentIndex(b.ReadTx())
		b.ForceCommit()
		return nil
	}); err != nil {
		return err
	}
	_, err := m.client.Put(ctx, key, strconv.FormatUint(index, 10))
	return err
}

// whileOpen runs what uses the database itself. etcd may be closing it, and using a closed one panics.
func (m *member) whileOpen(use func() error) error {
	if m.ending.Load() {
		return errClosed
	}
	if err := guarded(use); err != nil {
		return fmt.Errorf("use the database: %w", err)
	}
	return nil
}
