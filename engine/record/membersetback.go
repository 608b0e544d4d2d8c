package record

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.etcd.io/bbolt"
	etcdversion "go.etcd.io/etcd/api/v3/version"
)

// A member whose disk was set back, by a snapshot of a virtual machine or an image, has forgotten what it
// had agreed to. With each start a member therefore publishes, in its name, how much of the log its disk
// had then. The others keep that, and at its next start it asks them before it takes part.
//
// What it got after its last start only etcd's leader of then knows, in memory: as long as that one leads,
// it has a member that was set back end (isLostLog).
const fromMark = " from "

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
