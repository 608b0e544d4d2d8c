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
	// longestWait is how long a change of the network waits for its proof if the connection was lost before the
	// helper reported a deadline.
	longestWait = 2 * time.Minute
	// leastWait is the minimum time for tries, in seconds. If a clock jumps, the helper may report less. The helper
	// refuses a late confirmation.
	leastWait  = 20
	tryEvery   = 2 * time.Second  // after a failed try
	tryBeside  = 10 * time.Second // after a try that still waits
	tryWithin  = time.Minute
	mostAtOnce = 6 // tries at once
)

// errSmallAlone reports that small packets arrive but packets of full size do not.
var errSmallAlone = errors.New("accepts a login, but packets of full size do not get through: the MTU may be larger than a switch on the way allows")

// outcome is the result of one try to confirm. done means that the helper answered yes or no.
type outcome struct {
	done bool
	err  error
	took time.Duration
}

// change is the change that waits to be confirmed. Once its name is known, Slipway asks the machine about that
// name: a parallel try may have confirmed the change, and then a look no longer reports it.
type change struct {
	mu   sync.Mutex
	name string
}

// learn returns the name. It takes the name from a result if it is still unknown.
func (c *change) learn(r *wire.Result) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name == "" {
		c.name = r.Unconfirmed
	}
	return c.name
}

// confirm proves that the machine is reachable with its new network. It opens a new connection to the endpoint (see
// wayIn) and confirms the change before the machine reverts it. New tries start beside waiting ones: a connection
// from before the revert may hang forever.
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
		if last == nil || errors.Is(o.err, errSmallAlone) && o.took >= tryBeside { // a short try was cut off by the deadline
			last = o.err
		}
	}
	if last == nil { // no try finished
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

// many is large enough to need packets of full size, even with the largest MTU.
var many = strings.Repeat("slipway ", 32<<10)

// confirmOver first looks with packets of full size. If a switch on the way drops large packets, a login works but
// nothing longer does.
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
		return true, fmt.Errorf("%w: no change of the network waits to be confirmed", errCut) // the caller looks and plans again
	}
	_, a, err = m.over(ctx, n, conn, wire.Request{Op: wire.OpConfirm, Node: n.Name, Confirm: name})
	if err != nil {
		return false, err
	}
	m.learn(a.result)
	err = m.classify(a.result)
	return !errors.Is(err, driver.ErrBusy), err
}

// over asks the helper over a connection. The report includes the system's addresses.
func (m *machine) over(ctx context.Context, n *site.Node, conn *connection, r wire.Request) (report []byte, a answer, err error) {
	r = m.named(r, conn.entry)
	report, a, err = conn.run(ctx, exchange{
		script:  addressesScript + "echo; " + markerScript + helperScript(m.helpers.known()),
		request: &r,
		accept:  func(report []byte) error { return m.isNode(n, report) },
	})
	if err == nil && a.result == nil {
		err = m.trouble(a)
	}
	return report, a, err
}
