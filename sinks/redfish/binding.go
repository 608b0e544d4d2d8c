package redfish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stmcginnis/gofish"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// binding is what the requests of one step go over, from its first to its last,
// so that none reaches another machine that has come to the same address:
//
//   - With a session they carry its token, which no other BMC knows. Nothing
//     logs in while the step runs; when the session is gone the step ends with
//     driver.ErrInterrupted.
//   - Without sessions they go over one connection. When the BMC closes it, the
//     identity is read on the new one before anything else goes over it.
//   - A BMC that has no sessions and closes the connection after each answer
//     binds nothing. The identity is read right before each write, and what
//     destroys is refused unless the design accepts that.
//
// Every answer that carries the machine's identity is compared with the wanted
// one. Another machine ends the step; nothing is sent after that.
type binding struct {
	*machine
	want site.Identity
	// destroys says whether the step's writes may lose data.
	destroys bool
	in       *login
	conn     *connection // nil before the first request, and with a session
	// known is the system as it was when it was confirmed to be the wanted
	// machine, nil before.
	known object
	wrote int   // writes that were sent
	ended error // why nothing more is sent
}

// bind has the requests of a step go over one login. A handle that has read
// nothing yet logs in; one whose login was replaced since it read does not go on:
// what it read it would not read now.
func (m *machine) bind(ctx context.Context, want site.Identity, impact site.Impact) (release func(), err error) {
	l := m.client
	switch current := l.client.in.Load(); {
	case l.in == nil:
		err = l.enter(ctx)
	case l.in != current || l.in.over.Load():
		err = sessionOver(l.host)
	}
	if err != nil {
		return nil, err
	}
	b := &binding{machine: m, want: want, destroys: impact == site.ImpactDestructive, in: l.in}
	l.keeps.begin()
	l.bound = b
	return func() {
		l.bound = nil
		b.hangUp()
	}, nil
}

// read sends a read.
func (b *binding) read(ctx context.Context, call request) (*http.Response, error) {
	if b.ended != nil {
		return nil, b.ended
	}
	if !b.in.token && !b.client.keeps.nothing() {
		if resp, err := b.overOne(ctx, call); !errors.Is(err, errUnbound) {
			return resp, err
		}
	}
	return b.plainly(ctx, call)
}

// write sends a write, once. One that would go to another system of the same BMC
// ends the step: its links cannot be relied upon.
func (b *binding) write(ctx context.Context, call request) (resp *http.Response, err error) {
	switch {
	case b.ended != nil:
		return nil, b.ended
	case b.known == nil:
		return nil, refused("a write to %s was not sent: the identity of the machine was not read", b.client.host)
	}
	ctx = writesFor(ctx, b.path)
	counted := func(api *gofish.APIClient) (*http.Response, error) {
		resp, err := call(api)
		if stray := (*neighbourError)(nil); errors.As(err, &stray) {
			b.ended = fmt.Errorf("%w; %s", stray, b.written())
			return nil, b.ended
		}
		if !errors.Is(err, errGone) {
			b.wrote++
		}
		return resp, err
	}
	switch {
	case b.in.token:
		return b.overSession(ctx, counted)
	case !b.client.keeps.nothing():
		if resp, err = b.overOne(ctx, counted); !errors.Is(err, errUnbound) {
			return resp, err
		}
	}
	if err := b.mayUnbound(); err != nil {
		return nil, err
	}
	if err := b.identify(ctx, b.plainly); err != nil {
		return nil, err
	}
	return b.plainly(ctx, counted)
}

// plainly sends a request over whatever connection there is. On a BMC that keeps none
// it is a new one: one that was left may be about to be closed, which would be taken
// for a BMC that does not answer.
func (b *binding) plainly(ctx context.Context, call request) (*http.Response, error) {
	if b.client.keeps.nothing() {
		b.client.http.CloseIdleConnections()
	}
	resp, err := call(b.in.api.WithContext(ctx))
	if b.in.token && hasStatus(err, http.StatusUnauthorized) {
		b.in.over.Store(true)
		b.ended = sessionOver(b.client.host)
		return nil, b.ended
	}
	return resp, classify(err)
}

// overSession sends a write with the session's token. A BMC may answer 401 for
// want of a privilege too: when it does so to the next session as well, no
// further login helps.
func (b *binding) overSession(ctx context.Context, call request) (*http.Response, error) {
	resp, err := call(b.in.api.WithContext(ctx))
	if !hasStatus(err, http.StatusUnauthorized) {
		if err == nil {
			b.client.unwritten.Store(false)
		}
		return resp, classify(err)
	}
	b.in.over.Store(true)
	b.ended = sessionOver(b.client.host)
	if b.client.unwritten.Swap(true) {
		b.ended = refused("the BMC lets the account log in, and answers its writes as if it were not logged in: %s; give the account the privilege, or the endpoint another credential",
			strings.TrimPrefix(printable(err.Error()), driver.ErrDenied.Error()+": "))
	}
	return nil, b.ended
}

// mostConnections bounds how many connections one request is tried on whose
// predecessors ended before it was sent.
const mostConnections = 5

// overOne sends a request over the connection on which the identity was read.
// When that is gone, and nothing of the request was sent, a new one is made, and
// the identity is read on it first.
func (b *binding) overOne(ctx context.Context, call request) (*http.Response, error) {
	for range mostConnections {
		if b.client.keeps.nothing() {
			return nil, errUnbound
		}
		if b.conn == nil {
			conn, err := b.client.pin(b.in)
			if err != nil {
				return nil, err
			}
			b.conn = conn
		}
		err := b.confirm(ctx)
		if err == nil {
			var resp *http.Response
			if resp, err = call(b.conn.api.WithContext(ctx)); err == nil {
				return resp, nil
			}
		}
		if !errors.Is(err, errGone) {
			return nil, classify(err)
		}
		b.client.keeps.ended(b.conn.answers)
		b.hangUp()
	}
	b.ended = fmt.Errorf("%w: the BMC at %s closes its connections before a request can follow the machine's identity on the same connection; Slipway looks at the machine again first",
		driver.ErrInterrupted, b.client.host)
	return nil, b.ended
}

// confirm reads the identity on a connection on which it was not read yet. Before
// it was read at all there is nothing to compare.
func (b *binding) confirm(ctx context.Context) error {
	if b.known == nil || b.conn.confirmed {
		return nil
	}
	return b.identify(ctx, func(ctx context.Context, call request) (*http.Response, error) {
		return call(b.conn.api.WithContext(ctx))
	})
}

// identify reads the system, and ends the step when it is not the wanted
// machine's.
func (b *binding) identify(ctx context.Context, send func(context.Context, request) (*http.Response, error)) error {
	get := func(ctx context.Context, path string) (object, error) {
		resp, err := send(ctx, func(api *gofish.APIClient) (*http.Response, error) { return api.Get(path) })
		if err != nil {
			return nil, err
		}
		return decode(path, resp)
	}
	o, err := get(ctx, b.path)
	if err != nil {
		return err
	}
	got, err := b.identityWith(ctx, system{o}, b.want, get)
	if err != nil {
		return err
	}
	if !b.want.Matches(got) {
		return b.another(got)
	}
	if b.conn != nil {
		b.conn.confirmed = true
	}
	return nil
}

// identifyLast reads a MAC address that is wanted once more at the end of a step
// on a BMC that binds nothing: the system's own answers do not carry it, so that
// they may have been another's.
func (b *binding) identifyLast(ctx context.Context) error {
	if b.ended != nil || b.in.token || b.want.MAC == "" || !b.client.keeps.nothing() {
		return b.ended
	}
	return b.identify(ctx, b.plainly)
}

// confirmed notes that the system that was just read was found to be the wanted
// machine's. A MAC address was read after it, maybe over another connection.
func (b *binding) confirmed(s system) {
	b.known = s.object
	if b.conn != nil && b.want.MAC == "" {
		b.conn.confirmed = true
	}
}

// check compares an answer that carries the machine's identity with the wanted
// one. What such an answer does not tell (some BMCs forget it while a machine
// starts) contradicts nothing: what binds the write was read before.
func (b *binding) check(path string, o object) error {
	var got site.Identity
	switch {
	case b.known == nil:
		return nil
	case key(path) == key(b.path):
		got = b.machine.identity(system{o}, b.want)
	case key(path) == key(settingsOf(system{b.known})):
		got = site.Identity{UUID: b.machine.identity(system{o}, b.want).UUID, Serial: known(words(o, "SerialNumber"))}
		if read := (site.Identity{Serial: known(words(b.known, "SerialNumber"))}); read.Contradicts(got) {
			return b.another(got)
		}
		got.Serial = "" // the system's own, which the wanted one was compared with
	default:
		return nil
	}
	if b.want.Contradicts(got) {
		return b.another(got)
	}
	if b.conn != nil && b.want.MAC == "" && b.want.Matches(got) {
		b.conn.confirmed = true
	}
	return nil
}

// another ends the step because it is another machine that answers.
func (b *binding) another(got site.Identity) error {
	b.ended = refused("another machine answers at %s in the middle of the step, which is for %s: this is %s; %s",
		b.client.host, b.want.Full(), printable(got.Full()), b.written())
	return b.ended
}

// written says what the step has written before it was ended.
func (b *binding) written() string {
	if b.wrote > 0 {
		return fmt.Sprintf("nothing more was written, after %d writes to the machine of the step", b.wrote)
	}
	return "nothing was written"
}

// mayUnbound says why a write must not go to a BMC that binds nothing.
func (b *binding) mayUnbound() error {
	if !b.destroys || b.unbound {
		return nil
	}
	b.ended = refused("the BMC at %s has no sessions and closes the connection after each answer: Slipway cannot be sure that a write reaches the machine whose identity it read, "+
		"so it sends nothing that destroys data; switch on its session service or its persistent connections, or accept the risk in the design with endpoints.manager.unbound: %q",
		b.client.host, site.UnboundAccept)
	return b.ended
}

// hangUp ends the connection, if there is one.
func (b *binding) hangUp() {
	if b.conn != nil {
		b.conn.close()
		b.conn = nil
	}
}

// sessionOver is the end of a step whose session is gone.
func sessionOver(host string) error {
	return fmt.Errorf("%w: the session at the BMC at %s, over which the machine's identity was read, has ended; nothing was written since, and Slipway looks at the machine again first",
		driver.ErrInterrupted, host)
}

// errUnbound is the end of a request that no connection can be held for.
var errUnbound = errors.New("the BMC closes each connection after its first answer")

// errGone is the end of a request whose connection ended before anything of it
// was sent.
var errGone = errors.New("the connection is gone")

// connection is one connection to a BMC. It is dialled once; what would need another
// one fails with errGone. net/http sends by itself again only what it has sent
// nothing of, or a read; both would need another connection.
type connection struct {
	api       *gofish.APIClient
	transport *http.Transport
	answers   int
	// confirmed says whether the machine's identity was read on it.
	confirmed bool
}

// pin makes a client of a login whose requests all go over one connection.
func (c *client) pin(in *login) (*connection, error) {
	p := &connection{transport: c.wire.next.Clone()}
	dial := p.transport.DialContext
	var dialled atomic.Bool
	p.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialled.Swap(true) {
			return nil, errGone
		}
		return dial(ctx, network, address)
	}
	p.transport.MaxConnsPerHost, p.transport.IdleConnTimeout = 1, 0
	api, err := c.offline(in.config)
	if err != nil {
		return nil, err
	}
	api.HTTPClient = &http.Client{Transport: c.wire.over(p.transport, func(*http.Response, bool) {
		p.answers++
		c.keeps.answered(p.answers)
	})}
	p.api = api
	return p, nil
}

func (p *connection) close() { p.transport.CloseIdleConnections() }

// keeping is what was seen of how a BMC ends its connections.
type keeping struct {
	mu sync.Mutex
	// kept is set once a connection has carried a second answer.
	kept bool
	// short counts the connections in a row that ended with their first answer.
	short int
}

// mostShort is how many connections in a row have to end with their first answer
// for the BMC to be one that keeps none: one or two may be chance.
const mostShort = 3

// saw takes in an answer over a connection like any other.
func (k *keeping) saw(r *http.Response, reused bool) {
	switch {
	case reused:
		k.answered(2)
	case r.Close && r.StatusCode == http.StatusOK:
		k.ended(1)
	}
}

// answered takes in that a connection has carried so many answers.
func (k *keeping) answered(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n > 1 {
		k.kept, k.short = true, 0
	}
}

// ended takes in that the BMC has ended a connection after so many answers.
func (k *keeping) ended(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n == 1 {
		k.short = min(k.short+1, mostShort)
	}
}

// begin has a step try one connection again on a BMC that keeps none: its
// firmware may be another by now.
func (k *keeping) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.short = min(k.short, mostShort-1)
}

// nothing says whether the BMC keeps no connection for a second request.
func (k *keeping) nothing() bool { return k.binding() == site.BindingNone }

func (k *keeping) binding() site.Binding {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.short >= mostShort:
		return site.BindingNone
	case k.kept:
		return site.BindingConnection
	}
	return site.BindingUnknown
}
