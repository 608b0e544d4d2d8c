package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const (
	// longestWait is how long a change of the network waits for its proof where the
	// connection was lost before the helper could say.
	longestWait = 2 * time.Minute
	// leastWait is how long, in seconds, it is tried at least: a clock that jumps has the
	// helper tell of less, and to confirm too late is refused.
	leastWait  = 20
	tryEvery   = 2 * time.Second  // after one that failed
	tryBeside  = 10 * time.Second // after one that waits
	tryWithin  = time.Minute
	mostAtOnce = 6 // at once
)

// errSmallAlone is how a machine behaves whose packets are too large for a switch.
var errSmallAlone = errors.New("accepts a login, but packets of full size do not get through: the MTU may be larger than a switch on the way allows")

// outcome is how one try to confirm ended; it is done when the helper says yes or no.
type outcome struct {
	done bool
	err  error
	took time.Duration
}

// change is the change that waits. Once its name is known the machine is asked about that one: a
// look finds no more of it, and a try beside may have confirmed it.
type change struct {
	mu   sync.Mutex
	name string
}

// learn gives the name, which a result may tell.
func (c *change) learn(r *wire.Result) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name == "" {
		c.name = r.Unconfirmed
	}
	return c.name
}

// confirm proves that the machine can be reached with its new network, by a new
// connection to where its endpoint leads (see wayIn), and ends the wait of the change. It
// has until the change is reverted. Tries begin beside those that wait: a connection from before the
// network was set back may hang for good.
func (m *machine) confirm(ctx context.Context, n *site.Node, r *wire.Result) error {
	var waiting change
	wait, when := longestWait, ""
	if r != nil {
		waiting.learn(r)
		wait = time.Duration(min(max(r.Deadline, leastWait), 3600)) * time.Second
		when = " at " + time.Now().Add(wait).UTC().Format("15:04:05Z")
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	over := driver.Waiting(ctx, "a new connection with the new network", wait)
	defer over()
	way, outcomes := m.wayIn(ctx, n), make(chan outcome, mostAtOnce)
	try := func() {
		ctx, cancel := context.WithTimeout(ctx, tryWithin)
		defer cancel()
		begun := time.Now()
		done, err := m.confirmBy(ctx, n, way, &waiting)
		outcomes <- outcome{done, err, time.Since(begun)}
	}
	var last error
	next := time.NewTimer(0)
	defer next.Stop()
	tries := 0
	for ctx.Err() == nil {
		select {
		case <-next.C:
			if tries < mostAtOnce {
				tries++
				go try()
			}
			next.Reset(tryBeside)
		case o := <-outcomes:
			if o.done {
				return o.err
			}
			tries--
			last = o.err
			next.Reset(tryEvery)
		case <-ctx.Done():
		}
	}
	for ; tries > 0; tries-- {
		o := <-outcomes
		if o.done {
			return o.err
		}
		if last == nil || errors.Is(o.err, errSmallAlone) && o.took >= tryBeside { // a short one was cut off by the end
			last = o.err
		}
	}
	if last == nil { // nothing was tried to its end
		last = ctx.Err()
	}
	return fmt.Errorf("%w: the network of %s was changed, and no new connection to %s succeeded: the machine sets it back by itself%s; %w",
		driver.ErrUnreachable, n.Name, strings.Join(way.addresses, " or "), when, last)
}

// confirmBy tries all addresses at once, and confirms over the first that answers and proves
// the way in.
func (m *machine) confirmBy(ctx context.Context, n *site.Node, way wayIn, waiting *change) (done bool, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type dialled struct {
		address string
		conn    *connection
		err     error
	}
	all := make(chan dialled, len(way.addresses))
	for _, address := range way.addresses {
		go func() {
			conn, err := connect(ctx, m.client.Through(address))
			all <- dialled{address, conn, err}
		}()
	}
	var errs error
	for i := range way.addresses {
		d := <-all
		if d.err != nil {
			errs = errors.Join(errs, d.err)
			continue
		}
		done, err := m.confirmOver(ctx, n, way, d.address, d.conn, waiting)
		d.conn.Close()
		if done || ctx.Err() != nil {
			go func() {
				for range len(way.addresses) - i - 1 {
					if late := <-all; late.conn != nil {
						late.conn.Close()
					}
				}
			}()
			return done, err
		}
		errs = errors.Join(errs, err)
	}
	return false, errs
}

// many is so much that it takes packets of full size, also where they are as large as the
// largest that there are.
var many = strings.Repeat("slipway ", 32<<10)

// confirmOver looks first, over packets of full size: with an MTU that a switch on the way
// drops, a login works and nothing that is longer.
func (m *machine) confirmOver(ctx context.Context, n *site.Node, way wayIn, address string, conn *connection, waiting *change) (done bool, _ error) {
	look := m.observeRequest(n, []site.Facet{site.FacetNetwork})
	look.Echo = many
	report, a, err := m.over(ctx, n, conn, look)
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("%s %w", address, errSmallAlone)
	case err != nil:
		return false, err
	case a.result.Echo != many:
		return false, fmt.Errorf("%s answers, but data that is sent to it comes back damaged or cut off", address)
	case way.leadsElsewhere(address, report):
		return false, fmt.Errorf("%s answers, but Slipway logs in at %s, which the system still has and which does not answer", address, way.host)
	}
	name := waiting.learn(a.result)
	switch {
	case name == "" && a.result.Busy != "":
		return false, errors.New(a.result.Busy)
	case name == "":
		return true, fmt.Errorf("%w: no change of the network waits to be confirmed", errCut) // looked at and planned again
	}
	_, a, err = m.over(ctx, n, conn, wire.Request{Op: wire.OpConfirm, Node: n.Name, Confirm: name})
	if err != nil {
		return false, err
	}
	m.learn(a.result)
	err = m.classify(a.result)
	return !errors.Is(err, driver.ErrBusy), err
}

// over asks the helper over a connection. The report has the system's addresses.
func (m *machine) over(ctx context.Context, n *site.Node, conn *connection, r wire.Request) (report []byte, a answer, err error) {
	r = m.named(r, conn.entry)
	report, a, err = conn.run(ctx, exchange{
		script:  addressesScript + "echo; " + markerScript + helperScript(m.helpers.digests()),
		request: &r,
		accept:  func(report []byte) error { return m.isNode(n, report) },
	})
	if err == nil && a.result == nil {
		err = m.trouble(a)
	}
	return report, a, err
}
