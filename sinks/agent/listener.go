package agent

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These are the bounds on agents that call.
const (
	greetTimeout = 10 * time.Second // until an agent speaks TLS
	helloTimeout = 20 * time.Second // until it has identified itself
	maxCalls     = 256              // unidentified calls at once
	maxCallsFrom = 16               // of them from one address
	maxReason    = 2000             // bytes of a refusal
)

// Boot is one boot of a machine into the ramdisk, after which its agent may call once.
type Boot = driver.Boot

// Listener takes the calls of agents in ramdisks. Slipway writes nothing to a machine before its agent proves two
// things: it belongs to the expected boot, by token or by network, and its identity fits the node.
type Listener struct {
	site   string
	config *tls.Config
	now    func() time.Time
	calls  *calls
	tell   func(node, text string)
	say    func(node, text string)
	// changed is called after an agent connected or was lost.
	changed func()

	// mu guards the fields below.
	mu    sync.Mutex
	boots map[[sha256.Size]byte]*boot // by the digest of the token; the token itself is not kept
}

// boot is a Boot and its progress.
type boot struct {
	Boot
	key    string // of the agent that has used the token; empty before
	agent  *called
	change chan struct{} // closed when agent changes
	// refused is why the last agent that called for this boot was refused.
	refused string
}

// ListenerOptions configure a Listener.
type ListenerOptions struct {
	Site string
	// Certificate is the daemon's, followed by the certificate of its authority. Agents know the digest of the
	// authority's certificate.
	Certificate tls.Certificate
	// GetCertificate replaces Certificate if the certificate depends on the address that an agent calls.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Changed is called after an agent connected or was lost. It may be nil, and must not call the listener.
	Changed func()
	// Tell receives log messages about a node's agent. The node is empty if unknown. Tell may be nil.
	Tell func(node, text string)
	// Say receives what agents report about their work. It may be nil, and must return at once.
	Say func(node, text string)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// NewListener makes a listener that expects nobody.
func NewListener(o ListenerOptions) *Listener {
	l := &Listener{
		site: o.Site, now: o.Now, tell: o.Tell, calls: &calls{}, boots: map[[sha256.Size]byte]*boot{},
		// An agent presents its own key. TLS only verifies that the agent has that key.
		config:  &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{o.Certificate}, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true},
		changed: o.Changed, say: o.Say,
	}
	if l.say == nil {
		l.say = func(string, string) {}
	}
	if o.GetCertificate != nil {
		l.config.Certificates, l.config.GetCertificate = nil, o.GetCertificate
	}
	if l.changed == nil {
		l.changed = func() {}
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.tell == nil {
		l.tell = func(string, string) {}
	}
	return l
}

// Expect makes the token of a boot. It ends the node's earlier boot and that agent's connection.
func (l *Listener) Expect(b Boot) (token string, err error) {
	b.Machine = b.Machine.Own()
	if !b.Machine.Known() && len(b.MACs) == 0 {
		return "", fmt.Errorf("start an agent on %s: the design gives its machine no UUID, serial number or MAC address, so that no agent could be told from that of another machine", b.Node)
	}
	token = strings.ToLower(rand.Text())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(b.Node)
	l.boots[sha256.Sum256([]byte(token))] = &boot{Boot: b, change: make(chan struct{})}
	return token, nil
}

// Recall expects the agent of a boot that an earlier process expected. token is the digest of the boot's token. key
// is the digest of the key that used the token, zero for none. Recall does nothing if that boot is already
// expected.
func (l *Listener) Recall(b Boot, token, key [sha256.Size]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.boots[token] != nil {
		return
	}
	l.forget(b.Node)
	b.Machine = b.Machine.Own()
	is := &boot{Boot: b, change: make(chan struct{})}
	if key != ([sha256.Size]byte{}) {
		is.key = string(key[:])
	}
	l.boots[token] = is
}

// Forget ends a node's token and its agent's connection.
func (l *Listener) Forget(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(node)
}

// forget is Forget. The caller holds the lock.
func (l *Listener) forget(node string) {
	for digest, b := range l.boots {
		if b.Node == node {
			delete(l.boots, digest)
			b.set(nil)
		}
	}
}

// set replaces the agent of a boot and closes the old one. The caller holds the lock.
func (b *boot) set(a *called) {
	if b.agent != nil {
		b.agent.Close()
	}
	b.agent = a
	close(b.change)
	b.change = make(chan struct{})
}

// Refused says why the last agent that called for a node's boot was refused.
func (l *Listener) Refused(node string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.boots {
		if b.Node == node {
			return b.refused
		}
	}
	return ""
}

// Connected is the connected agent of a node; nil for none.
func (l *Listener) Connected(node string) driver.Agent {
	if a, _ := l.agentOf(node); a != nil {
		return a
	}
	return nil
}

// Agent waits for the agent of a node, until the context ends.
func (l *Listener) Agent(ctx context.Context, node string) (driver.Machine, error) {
	for {
		a, change := l.agentOf(node)
		switch {
		case change == nil:
			return nil, refused("no agent is expected on %s", node)
		case a != nil:
			return a, nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: no agent has called for %s: %w", driver.ErrUnreachable, node, ctx.Err())
		}
	}
}

func (l *Listener) agentOf(node string) (*called, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.boots {
		if b.Node == node {
			return b.agent, b.change
		}
	}
	return nil, nil
}

// Serve takes calls until the context ends. It then closes all connections.
func (l *Listener) Serve(ctx context.Context, on net.Listener) error {
	defer context.AfterFunc(ctx, func() { on.Close() })()
	var wait sync.WaitGroup
	defer l.closeAll()
	defer wait.Wait()
	for {
		conn, err := on.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // too many open files, or a connection that is already gone
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		leave, ok := l.calls.enter(conn)
		if !ok {
			conn.Close() // the agent calls again
			continue
		}
		wait.Go(func() {
			defer leave()
			l.take(ctx, conn)
		})
	}
}

// calls are the open calls that have not identified themselves. One address cannot use all of them with silent
// connections. If many addresses together use all of them, the oldest call of the busiest address makes room for a
// new call.
type calls struct {
	mu  sync.Mutex
	all []*call // oldest first
}

type call struct {
	net.Conn
	from netip.Addr // the zero value for all connections without an address
}

// enter records a call. It returns a function that removes the call.
func (c *calls) enter(conn net.Conn) (leave func(), ok bool) {
	is := &call{Conn: conn}
	if a, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		is.from = a.Addr().Unmap().WithZone("")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	from := map[netip.Addr]int{}
	for _, o := range c.all {
		from[o.from]++
	}
	if from[is.from] >= maxCallsFrom {
		return nil, false
	}
	if len(c.all) >= maxCalls {
		most := 0
		for i, o := range c.all {
			if from[o.from] > from[c.all[most].from] {
				most = i
			}
		}
		c.all[most].Close()
		c.all = slices.Delete(c.all, most, most+1)
	}
	c.all = append(c.all, is)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = slices.DeleteFunc(c.all, func(o *call) bool { return o == is })
	}, true
}

func (l *Listener) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.boots {
		if b.agent != nil {
			b.set(nil)
		}
	}
}

// take identifies a caller, and keeps the connection of an expected agent.
func (l *Listener) take(ctx context.Context, raw net.Conn) {
	if t, ok := raw.(*net.TCPConn); ok { // a machine that loses power does not close its connection
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: alive, Interval: alive, Count: 4})
	}
	conn := tls.Server(raw, l.config)
	kept := false
	defer func() {
		if !kept {
			conn.Close()
		}
	}()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if conn.SetDeadline(time.Now().Add(greetTimeout)) != nil || conn.HandshakeContext(ctx) != nil || conn.SetDeadline(time.Now().Add(helloTimeout)) != nil {
		return // usually a port scanner
	}
	in := bufio.NewReader(conn)
	var hello wire.Hello
	if err := wire.ReadAtMost(in, &hello, wire.MaxHello); err != nil {
		return
	}
	digest := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
	a := &called{conn: conn, in: in, address: conn.RemoteAddr().String(), site: l.site, key: hex.EncodeToString(digest[:])}
	b, why := l.admit(hello, string(digest[:]), a)
	node := ""
	if b != nil {
		node = b.Node
	}
	if why != "" {
		l.tell(node, "Refused an agent at "+a.address+": "+why)
		_ = wire.Write(conn, wire.Welcome{Version: wire.Version, Refused: why[:min(len(why), maxReason)]}) // ignore a peer that hung up
		return
	}
	if err := errors.Join(wire.Write(conn, wire.Welcome{Version: wire.Version, Site: l.site, Node: node}), conn.SetDeadline(time.Time{})); err != nil {
		return
	}
	for _, text := range hello.Said[:min(len(hello.Said), wire.MaxSaid)] {
		l.say(node, "console: "+brief(text))
	}
	kept = l.keep(b, string(digest[:]), a)
	if kept {
		l.changed()
		l.tell(node, "An agent at "+a.address+" is connected: "+identity(hello.Machine).Full())
	}
}

// admit checks a caller. It binds the token to the caller's key. That key may call again, since connections get
// lost. A machine that was booted over the network has no token. Its boot is bound to the key of the first agent
// that calls from the expected networks and fits the node.
func (l *Listener) admit(h wire.Hello, key string, a *called) (b *boot, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b = l.boots[sha256.Sum256([]byte(h.Token))]
	if h.Token == "" {
		b = l.withoutToken(identity(h.Machine), h.Machine.Ports)
	}
	switch {
	case b == nil && h.Token == "":
		return nil, "No boot over the network waits for this machine. Slipway may have stopped waiting, or the design has another UUID, serial number or MAC address. Start the machine again through Slipway."
	case b == nil:
		return nil, "No boot waits for this token. It may have ended, or Slipway has started the machine again with another one. Start the machine again through Slipway."
	}
	a.node, a.say = b.Node, l.say
	if why = l.unfit(b, h, key, a.Host()); why != "" {
		b.refused = fmt.Sprintf("an agent at %s was refused: %s", a.Host(), why)
		return b, why
	}
	b.key = key
	return b, ""
}

// withoutToken finds the network boot of a machine; nil for none. The caller holds the lock.
func (l *Listener) withoutToken(is site.Identity, ports []wire.Port) *boot {
	for _, b := range l.boots {
		if len(b.From) > 0 && misfit(b.Boot, is, ports) == "" {
			return b
		}
	}
	return nil
}

// unfit says why an agent is refused for a boot; empty if it is accepted. The caller holds the lock.
func (l *Listener) unfit(b *boot, h wire.Hello, key, host string) string {
	is := identity(h.Machine)
	wrong := misfit(b.Boot, is, h.Machine.Ports)
	switch {
	case h.Version != wire.Version:
		return fmt.Sprintf("The agent speaks version %d of the protocol, and the daemon speaks %d. Build the ramdisk again with the daemon's release (`slipway ramdisk build`).", h.Version, wire.Version)
	case b.key == "" && !b.Until.IsZero() && l.now().After(b.Until):
		return fmt.Sprintf("The token for %s has ended at %s. Start the machine again through Slipway.", b.Node, b.Until.Format(time.RFC3339))
	case h.Token == "" && !isIn(host, b.From):
		return fmt.Sprintf("%s is started over the network, and its agent has to call from there: %s is not in %s. Nothing may translate addresses between the two.", b.Node, host, listed(b.From))
	case wrong != "":
		for _, other := range l.boots {
			if other != b && misfit(other.Boot, is, h.Machine.Ports) == "" {
				return fmt.Sprintf("The token is for %s, and this machine is %s. Something has mixed up what the two were started with; check their BMC addresses in the design.", b.Node, other.Node)
			}
		}
		return fmt.Sprintf("The token is for %s, and this is another machine: %s. Check the BMC address of %s in the design, or name the machine that it is now.", b.Node, wrong, b.Node)
	case b.key != "" && b.key != key && h.Token == "":
		return fmt.Sprintf("Another agent has called as %s before, in this boot. Start the machine again through Slipway. If nobody has restarted it meanwhile, somebody in its network pretends to be it.", b.Node)
	case b.key != "" && b.key != key:
		return fmt.Sprintf("The token for %s was used before, by another agent. Start the machine again through Slipway. If nobody has restarted it meanwhile, somebody else has the token.", b.Node)
	}
	return ""
}

// isIn reports whether a host is in one of the networks.
func isIn(host string, networks []netip.Prefix) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a.Unmap()) })
}

func listed(networks []netip.Prefix) string {
	var all []string
	for _, n := range networks {
		all = append(all, n.String())
	}
	return strings.Join(all, ", ")
}

// keep makes an admitted agent the agent of its node.
func (l *Listener) keep(b *boot, key string, a *called) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(slices.Collect(maps.Values(l.boots)), b) || b.key != key {
		return false // forgotten in the meantime
	}
	a.lost = func() { l.drop(b, a) }
	b.set(a)
	return true
}

// drop forgets an agent whose connection has ended.
func (l *Listener) drop(b *boot, a *called) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.agent == a {
		b.set(nil)
		l.changed()
		l.say(b.Node, "The connection to the agent at "+a.address+" is lost.")
	}
}

// misfit says why a machine is not the machine of a boot; empty if it is. The machine must have every identifier
// that the node is known by, with the same value.
func misfit(b Boot, is site.Identity, ports []wire.Port) string {
	has := func(mac string) bool {
		return slices.ContainsFunc(ports, func(p wire.Port) bool { return strings.EqualFold(p.MAC, mac) })
	}
	var all []string
	for _, mac := range ports {
		all = append(all, line(mac.MAC))
	}
	said := func(s string) string { return cmp.Or(s, "none") }
	switch {
	case b.Machine.UUID != "" && !strings.EqualFold(b.Machine.UUID, is.UUID) && !strings.EqualFold(b.Machine.UUID, site.TurnedRound(is.UUID)):
		return fmt.Sprintf("its UUID is %s, and that of %s is %s", said(is.UUID), b.Node, b.Machine.UUID)
	case b.Machine.Serial != "" && b.Machine.Serial != is.Serial:
		return fmt.Sprintf("its serial number is %s, and that of %s is %s", said(is.Serial), b.Node, b.Machine.Serial)
	case b.Machine.MAC != "" && !has(b.Machine.MAC):
		return fmt.Sprintf("it has no port with the MAC address %s of %s, but %s", b.Machine.MAC, b.Node, said(strings.Join(all, ", ")))
	case len(b.MACs) > 0 && !slices.ContainsFunc(b.MACs, has):
		return fmt.Sprintf("it has no port with one of the MAC addresses of %s (%s), but %s", b.Node, strings.Join(b.MACs, ", "), said(strings.Join(all, ", ")))
	}
	return ""
}

// identity is a machine's identity as its agent reports it.
func identity(m wire.Machine) site.Identity {
	return site.Identity{UUID: strings.ToLower(line(m.UUID)), Serial: line(m.Serial)}.Own()
}
