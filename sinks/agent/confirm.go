package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const (
	// longestWait is how long a change of the network waits for its proof where the
	// connection was lost before the helper could say.
	longestWait = 2 * time.Minute
	// leastWait is how long, in seconds, it is tried at least: a clock that jumps has the
	// helper tell of less, and to confirm too late is refused.
	leastWait = 20
	tryEvery  = 2 * time.Second
	maxTried  = 8 // addresses at once
)

// confirm proves that the machine can be reached with its new network, by a new
// connection to one of its addresses, and ends the wait of the change. It has until
// the change is reverted.
func (m *machine) confirm(ctx context.Context, n *site.Node, r *wire.Result) error {
	request := wire.Request{Op: wire.OpConfirm, Node: n.Name}
	wait := longestWait
	if r != nil {
		request.Confirm = r.Unconfirmed
		wait = time.Duration(min(max(r.Deadline, leastWait), 3600)) * time.Second
	}
	until := time.Now().Add(wait)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	over := driver.Waiting(ctx, "a new connection with the new network", wait)
	defer over()
	addresses := m.addresses(n)
	var last error
	for {
		done, err := m.confirmAt(ctx, n, addresses, request)
		if done {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: the network of %s was changed, and no new connection to %s succeeded: the machine sets it back by itself at %s; %w",
				driver.ErrUnreachable, n.Name, strings.Join(addresses, " or "), until.UTC().Format("15:04:05Z"), last)
		case <-time.After(tryEvery):
		}
	}
}

// confirmAt tries all addresses at once, and confirms over the first that answers. It
// is done when the helper says yes or no.
func (m *machine) confirmAt(ctx context.Context, n *site.Node, addresses []string, request wire.Request) (done bool, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type dialled struct {
		conn *connection
		err  error
	}
	all := make(chan dialled)
	for _, address := range addresses {
		go func() {
			conn, err := connect(ctx, m.client.Through(address))
			select {
			case all <- dialled{conn, err}:
			case <-ctx.Done():
				if conn != nil {
					conn.Close()
				}
			}
		}()
	}
	var errs error
	for range addresses {
		d := <-all
		if d.err != nil {
			errs = errors.Join(errs, d.err)
			continue
		}
		defer d.conn.Close()
		return m.confirmOver(ctx, n, d.conn, request)
	}
	return false, errs
}

// many is so much that it takes packets of full size, also where they are as large as the
// largest that there are.
var many = strings.Repeat("slipway ", 32<<10)

// confirmOver looks first, over packets of full size: with an MTU that a switch on the way
// drops, a login works and nothing that is longer.
func (m *machine) confirmOver(ctx context.Context, n *site.Node, conn *connection, request wire.Request) (done bool, _ error) {
	look := m.observeRequest(n, []site.Facet{site.FacetNetwork})
	look.Echo = many
	a, err := m.over(ctx, n, conn, look)
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("%s accepts a login, but packets of full size do not get there and back: the MTU may be larger than that of a switch on the way", conn.address)
	case err != nil:
		return false, err
	case a.result.Echo != many:
		return false, fmt.Errorf("what was sent to %s did not come back whole", conn.address)
	case request.Confirm == "" && a.result.Busy != "":
		return false, errors.New(a.result.Busy)
	case request.Confirm == "" && a.result.Unconfirmed == "":
		return true, fmt.Errorf("%w: no change of the network waits to be confirmed", errCut) // looked at and planned again
	case request.Confirm == "":
		request.Confirm = a.result.Unconfirmed
	}
	a, err = m.over(ctx, n, conn, request)
	if err != nil {
		return false, err
	}
	m.learn(a.result)
	err = m.classify(a.result)
	return !errors.Is(err, driver.ErrBusy), err
}

// over asks the helper over a connection.
func (m *machine) over(ctx context.Context, n *site.Node, conn *connection, r wire.Request) (answer, error) {
	r = m.named(r)
	_, a, err := conn.run(ctx, exchange{
		script:  markerScript + helperScript(m.helpers.digests()),
		request: &r,
		accept:  func(report []byte) error { return m.isNode(n, report) },
	})
	if err == nil && a.result == nil {
		err = m.trouble(a)
	}
	return a, err
}

// addresses are where the machine may be reached: by its endpoint, and by the
// addresses that are designed.
func (m *machine) addresses(n *site.Node) []string {
	all := []string{m.client.Address()}
	_, port, _ := net.SplitHostPort(m.client.Address())
	for _, i := range n.Items(site.FacetNetwork) {
		var l item.Link
		if item.Kind(i.Key) != item.KindLinks || json.Unmarshal(i.Body, &l) != nil {
			continue
		}
		for _, text := range l.Addresses {
			if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().IsLinkLocalUnicast() {
				all = append(all, net.JoinHostPort(p.Addr().String(), port))
			}
		}
	}
	slices.Sort(all[1:])
	all = slices.Compact(all)
	return all[:min(len(all), maxTried)]
}
