// Package copies keeps the artifact stores of a site's daemons alike. What the site's artifacts are, and which
// daemon has which, is in the records that the daemons share. Each daemon copies what it lacks from another one
// that has it, by digest, and verifies it as it arrives.
//
// Who may give and get copies is in the records too: each daemon makes a key when it starts, writes the digest of
// its public part there, and trusts those that the others have written. So nobody is trusted who could not say in
// the same records which file is to be installed, and no key is kept on a disk.
package copies

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
)

const (
	// syncEvery is how often the records are read, and what has changed here is written.
	syncEvery = 5 * time.Second
	// beatEvery is how often a daemon writes that it runs where nothing else has changed.
	beatEvery = 30 * time.Second
	// silentAfter is how long a daemon may not have written to count as one that runs. A daemon that has not read the
	// records for as long gives and gets nothing: it may have been removed.
	silentAfter = 90 * time.Second
	// forgottenAfter is after how long a silent daemon's record is deleted, and that of a collected artifact: a daemon
	// that was cut off meanwhile may have it without a record of that.
	forgottenAfter = 30 * 24 * time.Hour
	// forgottenSeen is how long the daemon that leads must have seen such a daemon silent itself.
	forgottenSeen = 24 * time.Hour
)

// Records are the records as every daemon reads them and writes of itself (record.Copies).
type Records interface {
	Read(ctx context.Context) (record.Shelves, error)
	// Tell writes what this daemon says of itself, and which artifacts it has now and has no more.
	Tell(ctx context.Context, h record.Holder, has, lacks []string) error
	// IsDaemon reports whether a holder of this name may be one of the site's daemons.
	IsDaemon(name string) bool
}

// Catalogue is what the daemon that leads writes (record.Site).
type Catalogue interface {
	PutArtifacts(ctx context.Context, all ...record.Artifact) error
	DropArtifacts(ctx context.Context, digests ...string) error
	DropHolders(ctx context.Context, names ...string) error
}

// Config says who a daemon is to the others.
type Config struct {
	// Name and Host are as in record.Holder.
	Name, Host string
	// Listen is the address at which the others get copies, IP:PORT or :PORT; empty to give none.
	Listen string
	// Reach returns the address of this host as the others see it, where Listen has none.
	Reach   func() (string, error)
	Records Records
	Files   *artifact.Service
	Log     *slog.Logger
}

// Service is a daemon's part. Run does the work.
type Service struct {
	Config
	identity identity
	view     view
	role     role
	copying  copying
	door     listening
	again    *rate.Limiter // bounds reads for unknown keys
	poked    chan struct{} // a value has the records read at once
	due      chan struct{} // a value has the copier look at once

	// turn is held while the store and the records are compared, and while an artifact is added, so that neither acts
	// on what the other has changed.
	turn sync.Mutex
}

// New makes the daemon's part, with a new key.
func New(c Config) (*Service, error) {
	id, err := newIdentity()
	if err != nil {
		return nil, err
	}
	s := &Service{Config: c, identity: id, again: rate.NewLimiter(1, 1), poked: make(chan struct{}, 1), due: make(chan struct{}, 1)}
	s.view.own, s.view.key, s.view.isDaemon = c.Name, id.key, c.Records.IsDaemon
	c.Files.CopyFrom(s.client(), &s.view)
	return s, nil
}

// Run gives and gets copies until the context ends.
func (s *Service) Run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { s.serve(ctx) })
	parts.Go(func() { s.keepSynced(ctx) })
	parts.Go(func() { s.keepCopying(ctx) })
	parts.Wait()
}

func (s *Service) keepSynced(ctx context.Context) {
	for {
		s.sync(ctx)
		signal(s.due)
		if !wait(ctx, syncEvery, s.poked) {
			return
		}
	}
}

// wait waits for d, or until it is poked. It returns false if the context ended meanwhile.
func wait(ctx context.Context, d time.Duration, poked <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-poked:
	case <-t.C:
	}
	return true
}

// Poke has the store and the records compared at once.
func (s *Service) Poke() { signal(s.poked) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
