package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// mostConsole is how much of a console is shown, in bytes.
const mostConsole = 256 << 10

// Console returns the end of what a node's machine wrote to its serial console.
// It uses a handle of its own: the worker's may be busy for minutes with the
// very boot that somebody wants to see.
func (e *Engine) Console(ctx context.Context, node string) ([]byte, error) {
	e.mu.Lock()
	w := e.workers[node]
	e.mu.Unlock()
	if w == nil {
		return nil, fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, node)
	}
	j := w.job()
	ep := Trusted(j.node, site.Manager, j.memory.Recorded)
	ctx, cancel := context.WithTimeout(ctx, driver.LongestLook)
	defer cancel()
	m, err := driver.Open(ctx, e.Drivers, w.loginsTo(ctx, j.node, site.Manager), ep)
	if err != nil {
		return nil, fmt.Errorf("console of %s: %w", node, err)
	}
	defer m.Close()
	c, ok := driver.As[driver.Consoler](m)
	if !ok {
		return nil, fmt.Errorf("%w: the console of %s is not kept: only those of virtual machines are", site.ErrRefused, node)
	}
	text, err := c.Console(ctx, mostConsole)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", site.ErrRefused, err)
	}
	if err != nil {
		return nil, fmt.Errorf("console of %s: %w", node, err)
	}
	return text, nil
}
