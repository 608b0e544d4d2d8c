package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/lease"
)

// A member answers over HTTP from memory, also while its disk hangs. It takes part if a read of its own
// includes what was just written to the log. etcd reads that way for others at one path only, whose
// answer does not matter here.
const partPath = etcdserver.DowngradeEnabledPath

// otherCluster is the trouble of a member that was begun anew.
const otherCluster = "it is of another cluster, which was begun later or earlier"

// look asks every member how it is, this one too. all is what the log says of them.
func (s *Store) look(ctx context.Context, all []Member) {
	var asking sync.WaitGroup
	var noMajority, noDisk error
	asking.Go(func() { noMajority = s.etcd.writeNothing(ctx) })
	asking.Go(func() { noDisk = s.tryDisk(ctx) })
	asking.Wait()
	for i := range all {
		switch m := &all[i]; {
		case m.Here && noDisk != nil:
			m.Trouble = noDisk.Error()
		case !m.Here && m.Started:
			asking.Go(func() { s.etcd.lookAt(ctx, s.shared.Peer, m, noMajority == nil) })
		}
	}
	asking.Wait()
}

// lookAt asks another member how it is.
func (m *member) lookAt(ctx context.Context, p *Peer, other *Member, majority bool) {
	other.Trouble = m.trouble(ctx, p, other.Address)
	other.OtherCluster = other.Trouble == otherCluster
	switch {
	case other.Trouble != "":
	case !majority:
		other.Unknown = true
	default:
		if err := p.takesPart(ctx, other.Address); err != nil {
			other.Trouble = fmt.Sprintf("it runs, but takes no part in what is written: its disk hangs, it is cut off from the others, or it is still catching up: %v", err)
		}
	}
}

// trouble is why another member does not answer as one of this cluster.
func (m *member) trouble(ctx context.Context, p *Peer, address string) string {
	switch _, cluster, err := p.ask(ctx, address); {
	case err != nil:
		return err.Error()
	case cluster != m.etcd.Server.Cluster().ID().String():
		return otherCluster
	}
	return ""
}

// takesPart fails if a member does not read what is written now in time.
func (p *Peer) takesPart(ctx context.Context, address string) error {
	_, err := p.get(ctx, address, partPath, func(body io.Reader) error {
		_, err := io.Copy(io.Discard, io.LimitReader(body, 1<<10))
		return err
	})
	return err
}

// noLease is never the ID of a lease: none is granted.
const noLease = 1

// writeNothing has an entry written to the log that changes nothing. It succeeds if a majority and this
// member have it in time. Every member has to write it to its disk, and one whose disk hangs takes no part
// from then on. etcd accepts the end of a lease also at its quota.
func (m *member) writeNothing(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, askLimit, errSlow)
	defer cancel()
	_, err := m.etcd.Server.LeaseRevoke(ctx, &etcdserverpb.LeaseRevokeRequest{ID: noLease})
	if errors.Is(err, lease.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// diskFile is written to see whether the disk answers.
const diskFile = "disk-check"

// tryDisk fails if a small write to the disk of this member does not end in time. A write that hangs
// keeps its goroutine, and no other is begun meanwhile.
func (s *Store) tryDisk(ctx context.Context) error {
	hung := fmt.Errorf("its disk has not ended a small write within %s: see to the disk of %s", askLimit, s.dir)
	ctx, cancel := context.WithTimeoutCause(ctx, askLimit, hung)
	defer cancel()
	select {
	case s.trying <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.trying }()
		done <- s.writeNow(filepath.Join(s.dir, diskFile))
	}()
	select {
	case err := <-done:
		return explain(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writeNow writes the time into a file, and returns once the disk has it.
func (s *Store) writeNow(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(time.Now().UTC().Format(time.RFC3339) + "\n")
	return errors.Join(err, s.syncFile(f), f.Close())
}

// ClusterID names the etcd that the daemons of the site form; empty without members.
func (s *Store) ClusterID() string {
	if s.shared == nil || s.shared.Peer == nil {
		return ""
	}
	return s.etcd.etcd.Server.Cluster().ID().String()
}

// OtherClusters are addresses at which members of another cluster run although this one's folder or log
// names them: somebody has begun a second cluster for the site.
func (s *Store) OtherClusters(ctx context.Context) []string {
	if s.shared == nil || s.shared.Peer == nil {
		return nil
	}
	p := s.shared.Peer
	named := slices.Clone(p.Others)
	for _, m := range s.etcd.members() {
		if !m.Here {
			named = append(named, m.Address)
		}
	}
	slices.Sort(named)
	named = slices.Compact(named)
	is := make([]bool, len(named))
	var asking sync.WaitGroup
	for i, address := range named {
		asking.Go(func() { is[i] = s.etcd.trouble(ctx, p, address) == otherCluster })
	}
	asking.Wait()
	var those []string
	for i, address := range named {
		if is[i] {
			those = append(those, address)
		}
	}
	return those
}

// get asks a member for a path of its, and reads the answer. It returns of which cluster the member is.
func (p *Peer) get(ctx context.Context, other, path string, read func(io.Reader) error) (cluster string, err error) {
	client, err := p.client()
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, peerURL(other)+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it answered %s", resp.Status)
	}
	return resp.Header.Get("X-Etcd-Cluster-ID"), read(resp.Body)
}
