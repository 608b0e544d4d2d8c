package main

import (
	"context"
	"os"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// slipway keeps machines with the built daemon.
type slipway struct {
	bench
	dir    string
	daemon *rig.Daemon
}

func (s *slipway) enroll(ctx context.Context) (took time.Duration, err error) {
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return 0, err
	}
	if s.daemon, err = rig.Start(s.dir, siteFiles(s.fleet, s.machines, s.period), password); err != nil {
		return 0, err
	}
	_, err = s.daemon.InSync(ctx, len(s.machines))
	return time.Since(s.daemon.Begun), err
}

func (s *slipway) usage() (time.Duration, error) {
	cpu, _, err := s.daemon.Usage()
	return cpu, err
}

func (s *slipway) close(failed error) {
	if s.daemon != nil {
		s.daemon.Close(failed)
	}
}
