package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// Source is the records that a cluster begins with.
type Source struct {
	// Export is read once, from its beginning; nil for no records.
	Export io.Reader
	// Site is the name of the only site in it.
	Site string
	// Replace is set if it takes the place of records that are there.
	Replace bool
	// Older is set if something may have been done since the export: then approvals end and the site
	// is paused, as with Import.
	Older bool
}

// Founded is what Found has done.
type Founded struct {
	Summary
	// Kept is where the records that were replaced are now; "" if there were none.
	Kept string
}

// Found begins an etcd of members with the first one, in the state directory dir. The directory must
// be absent or empty, unless records there are to be replaced, which happens in one step at the end; they
// are kept beside it. No process may hold the directory, and no other member that is known may run: two
// clusters would act for one site.
func Found(ctx context.Context, dir string, c Cluster, from Source, opts Options) (Founded, error) {
	opts.Cluster, opts.found = &c, true
	done, err := foundIn(ctx, filepath.Clean(dir), from, opts)
	if err != nil {
		return Founded{}, fmt.Errorf("begin a cluster in %s: %w", dir, err)
	}
	return done, nil
}

// unfinished is a file in a directory that is not in use yet.
const unfinished = "unfinished"

func foundIn(ctx context.Context, dir string, from Source, opts Options) (Founded, error) {
	release, err := claim(dir, from.Replace)
	if err != nil {
		return Founded{}, err
	}
	defer release()
	if err := noneRuns(ctx, knownOthers(dir, opts.Cluster.Peer)); err != nil {
		return Founded{}, err
	}
	if err := clearUnfinished(dir); err != nil {
		return Founded{}, err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".member-*")
	if err != nil {
		return Founded{}, explain(err)
	}
	mark := filepath.Join(fresh, unfinished)
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return Founded{}, explain(err)
	}
	sum, err := foundFrom(ctx, fresh, from, opts)
	if err != nil {
		return Founded{}, errors.Join(err, os.RemoveAll(fresh))
	}
	if err := os.Remove(mark); err != nil {
		return Founded{}, explain(err)
	}
	if err := exchange(fresh, dir); err != nil {
		return Founded{}, errors.Join(err, os.RemoveAll(fresh))
	}
	kept, err := keepReplaced(fresh, dir)
	return Founded{sum, kept}, err
}

// keepReplaced gives the records that were replaced a name that people recognize. Those of a lost cluster may be
// the newest that are left.
func keepReplaced(replaced, dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(replaced, "etcd")); err != nil && !hasMember(replaced) {
		return "", os.RemoveAll(replaced)
	}
	name := dir + ".before-" + time.Now().UTC().Format("20060102-150405")
	if err := os.Rename(replaced, name); err != nil {
		return "", fmt.Errorf("the cluster has begun; the records from before are in %s: %w", replaced, err)
	}
	return name, nil
}

// clearUnfinished removes what a process has left that was killed while it began a cluster.
func clearUnfinished(dir string) error {
	left, err := filepath.Glob(dir + ".member-*/" + unfinished)
	for _, mark := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Dir(mark)))
	}
	return err
}

// knownOthers are the members that the folder names, and those in the data of a member that is to be
// replaced. Data that cannot be read names none.
func knownOthers(dir string, p *Peer) []string {
	others := slices.Clone(p.Others)
	_ = readDatabase(dir, func(tx *bbolt.Tx) error {
		members := tx.Bucket([]byte("members"))
		if members == nil {
			return nil
		}
		return members.ForEach(func(_, value []byte) error {
			var m peerMember
			if err := json.Unmarshal(value, &m); err != nil {
				return err
			}
			for _, u := range m.PeerURLs {
				others = append(others, strings.TrimPrefix(u, "https://"))
			}
			return nil
		})
	})
	slices.Sort(others)
	return slices.DeleteFunc(slices.Compact(others), func(other string) bool { return other == p.Address })
}

// noneRuns refuses while somebody listens at the address of another member. Whether that is one that
// would answer is not asked: one with a wrong clock or a new authority is one, too.
func noneRuns(ctx context.Context, others []string) error {
	runs := make([]bool, len(others))
	var asking sync.WaitGroup
	for i, other := range others {
		asking.Go(func() {
			c, err := (&net.Dialer{Timeout: askLimit}).DialContext(ctx, "tcp", other)
			if runs[i] = err == nil; err == nil {
				c.Close()
			}
		})
	}
	asking.Wait()
	for i, other := range others {
		if runs[i] {
			return fmt.Errorf("the member %s runs, and a second cluster beside it would act for the same site: if most members are there, run `slipway member replace` on the host that leads to take this one back; if most are lost for good, stop all others first", other)
		}
	}
	return nil
}

// foundFrom begins a cluster in a new directory, with the records of an export.
func foundFrom(ctx context.Context, dir string, from Source, opts Options) (Summary, error) {
	s, err := Open(ctx, dir, opts)
	if err != nil {
		return Summary{}, err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("etcd does not become ready"))
	defer cancel()
	if err := s.etcd.serves(ctx); err != nil || from.Export == nil {
		return Summary{}, err
	}
	s.shared.below(url.PathEscape(from.Site))
	s.kv = s.shared.raw
	if err := s.noteWhereabouts(); err != nil {
		return Summary{}, err
	}
	return s.fill(ctx, from.Export, from.Older, opts)
}

// openPeer opens records in an etcd whose member this process is.
func (s *Store) openPeer(ctx context.Context, opts Options) error {
	if err := checkAddress(opts.Cluster.Peer.Address); err != nil {
		return err
	}
	s.shared = opts.Cluster.shared()
	s.steps = opts.steps()
	var m *member
	err := s.checkDirectory()
	if err == nil {
		m, err = s.startPeer(ctx, opts)
	}
	if err != nil {
		s.shared = nil // nothing to close
		return err
	}
	s.etcd, s.shared.client = m, m.client
	return nil
}

// UntilStopped returns when the context ends, which is no error, or when the member of this process
// cannot continue.
func (s *Store) UntilStopped(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.etcd.ctx.Done():
		return s.stopped()
	}
}
