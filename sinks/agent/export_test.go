package agent

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// WithTools sends the programs for disks of a medium, and no files.
func WithTools(medium string, open func(sha256 string) (io.ReadCloser, int64, error)) func(wire.Want) (io.ReadCloser, wire.Blob) {
	return withTools(medium, suppliedTo(nil, open), open)
}

// ShortenLooks bounds looks otherwise for a test.
func ShortenLooks(t *testing.T, d time.Duration) {
	was := lookTimeout
	lookTimeout = d
	t.Cleanup(func() { lookTimeout = was })
}

// Confirm confirms a change of a machine's network, of which no helper has told.
func Confirm(ctx context.Context, m driver.Machine, n *site.Node) error {
	return m.(*machine).confirm(ctx, n, nil)
}
