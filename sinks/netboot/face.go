package netboot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slipway-gitops/slipway/engine/site"
)

// face is an interface of this host and what is served on it.
type face struct {
	*Service
	name   string
	served []*served
	kick   chan struct{} // requests an immediate probe

	mu   sync.Mutex
	open map[bool]opened // by whether it is of IPv6, so that what happens to one version of IP leaves the other alone

	busy    map[string]bool // clients whose request is being answered
	rates   map[string]*rate.Limiter
	all     *rate.Limiter
	pending chan struct{}
}

// opened is what is open on an interface for one version of IP.
type opened struct {
	port *port        // nil while it is not open
	at   []netip.Addr // where files are served
	stop func()
}

// attempt is the last try to open the sockets of a version of IP.
type attempt struct {
	is6    bool
	failed error
	when   time.Time
}

// run serves an interface as the design in force says.
func (f *face) run(ctx context.Context) {
	last := []*attempt{{is6: false}, {is6: true}}
	defer func() {
		for _, one := range last {
			f.close(one.is6)
		}
	}()
	var before state
	said := ""
	for {
		now := f.look()
		changed := !now.same(before)
		before = now
		all := f.networks(now)
		for _, one := range last {
			f.keep(ctx, one, now, all, changed)
		}
		says := ""
		for _, one := range f.served {
			f.config.Problem("dhcp "+one.name, one.problem(time.Now()))
			says += one.status(f.arms, time.Now()).Line() + "\n"
		}
		if says != said {
			said = says
			f.config.Changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

// keep opens and closes the sockets of one version of IP as the design and the interface now say.
func (f *face) keep(ctx context.Context, last *attempt, now state, all networks, changed bool) {
	wanted := all.wanted(last.is6)
	isCurrent := f.current(last.is6, now.index, wanted)
	switch {
	case isCurrent && !changed:
		return
	case isCurrent:
	case len(wanted) == 0:
		f.close(last.is6)
	case changed || time.Since(last.when) >= openEvery:
		f.close(last.is6)
		last.failed, last.when = f.openAll(ctx, last.is6, wanted), time.Now()
	}
	f.take(all, last)
}

// state is what determines the service on an interface.
type state struct {
	design    *site.Site
	why       error
	index     int
	addresses []netip.Prefix
}

func (f *face) look() state {
	var s state
	s.design, s.why = f.config.Design()
	s.index, s.addresses = addressesOf(f.name)
	return s
}

func (s state) same(o state) bool {
	return s.design == o.design && fmt.Sprint(s.why) == fmt.Sprint(o.why) && s.index == o.index && slices.Equal(s.addresses, o.addresses)
}

// networks are the interface's networks to serve, in the order of the flags.
type networks []struct {
	n   *network
	err error
}

func (f *face) networks(s state) networks {
	all := make(networks, len(f.served))
	local := map[bool]string{} // by whether it is of IPv6
	for i, one := range f.served {
		if s.why != nil {
			all[i].err = s.why
			continue
		}
		n, err := networkOf(s.design, one.name, s.addresses)
		if d := s.design.Networks[one.name]; d != nil && d.Boot.DHCP != "" && s.index == 0 {
			err = fmt.Errorf("there is no interface %s on this host: correct --netboot, or bring it up", f.name)
		}
		switch {
		case err != nil:
			n = nil
		case !n.relay.IsValid() && local[n.is6()] != "":
			n, err = nil, fmt.Errorf("the network %s is on this interface too, and a DHCP request does not name its network: serve only one of them, or give each its own interface", local[n.is6()])
		case !n.relay.IsValid():
			local[n.is6()] = one.name
		}
		all[i].n, all[i].err = n, err
	}
	return all
}

// wanted are the networks of a version of IP to be served.
func (all networks) wanted(is6 bool) []*network {
	var wanted []*network
	for _, one := range all {
		if one.n != nil && one.n.is6() == is6 {
			wanted = append(wanted, one.n)
		}
	}
	return wanted
}

// serversOf are this host's addresses in some networks.
func serversOf(all []*network) []netip.Addr {
	var servers []netip.Addr
	for _, n := range all {
		if !slices.Contains(servers, n.server) {
			servers = append(servers, n.server)
		}
	}
	slices.SortFunc(servers, netip.Addr.Compare)
	return servers
}

// take applies the networks of a version of IP, or the reason why none is served, and what cannot be served at all.
func (f *face) take(all networks, last *attempt) {
	for i, one := range f.served {
		switch n, err := all[i].n, all[i].err; {
		case n == nil:
			one.set(nil, err)
		case n.is6() != last.is6:
		case last.failed != nil:
			one.set(nil, last.failed)
		default:
			one.set(n, nil)
		}
	}
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// addressesOf returns an interface's index, 0 if there is none, and its addresses.
func addressesOf(name string) (index int, found []netip.Prefix) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return 0, nil
	}
	all, err := iface.Addrs()
	if err != nil {
		return 0, nil
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			found = append(found, p)
		}
	}
	// The system lists those of IPv6 in no stable order.
	slices.SortStableFunc(found, func(a, b netip.Prefix) int {
		if a.Addr().Is4() && b.Addr().Is4() {
			return 0
		}
		return a.Addr().Compare(b.Addr())
	})
	return iface.Index, found
}

// current reports whether the open sockets of a version of IP match the interface's current state.
func (f *face) current(is6 bool, index int, wanted []*network) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := f.open[is6]
	if len(wanted) == 0 || is.port == nil {
		return len(wanted) == 0 && is.port == nil
	}
	return is.port.iface.Index == index && slices.Equal(is.at, serversOf(wanted)) && is.port.announces == slices.ContainsFunc(wanted, (*network).isAnnounced)
}

// close closes the sockets of a version of IP, and waits until all answers are done.
func (f *face) close(is6 bool) {
	if was := f.replace(is6, opened{}); was.stop != nil {
		was.stop()
	}
}

// replace notes what is open now, and returns what was before.
func (f *face) replace(is6 bool, now opened) (was opened) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, f.open[is6] = f.open[is6], now
	return was
}

// ports are the open ports of an interface.
func (f *face) ports() []*port {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*port
	for _, is := range f.open {
		if is.port != nil {
			all = append(all, is.port)
		}
	}
	return all
}

// openAll opens the ports of an interface for networks of one version of IP, and answers requests.
func (f *face) openAll(ctx context.Context, is6 bool, wanted []*network) error {
	p, err := openPort(f.name, is6, slices.ContainsFunc(wanted, (*network).isAnnounced))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running, announcing sync.WaitGroup
	stop := func() {
		cancel()
		announcing.Wait() // it says goodbye
		p.Close()
		running.Wait()
	}
	servers := serversOf(wanted)
	for _, a := range servers {
		conn, err := openUDP(f.name, a, tftpPort)
		if err != nil {
			stop()
			return missing(fmt.Sprintf("UDP port %d (TFTP) on %s", tftpPort, f.name), err)
		}
		running.Go(func() { newTFTP(conn, f.arms, f.config.Log).run(ctx) })
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp"+version(a), netip.AddrPortFrom(a, httpPort).String())
		if err != nil {
			stop()
			return missing(fmt.Sprintf("TCP port %d (HTTP) on %s", httpPort, f.name), err)
		}
		running.Go(func() { serveHTTP(ctx, l, f.arms, f.config.Log) })
	}
	r := &responder{networks: f.served, duid: duidOf(p.iface.HardwareAddr), arms: f.arms, records: f.config.Leases, log: f.config.Log, inUse: func(ctx context.Context, n *network, a netip.Addr) bool {
		return !f.config.NoConflictProbe && p.inUse(ctx, n, a, neighbour)
	}}
	asked := make(chan asks, 16)
	running.Go(func() { p.listen(f.foreign, asked) })
	if is6 {
		running.Go(func() { f.read(ctx, p.receive6, r.parse6(p.send6)) })
	} else {
		running.Go(func() { f.read(ctx, receive(p.dhcp), r.parse(p.send, serverPort)) })
		running.Go(func() { f.read(ctx, receive(p.pxe), r.parse(p.send, pxePort)) })
	}
	if p.announces {
		announcing.Go(func() { f.announce(ctx, p, asked) })
	}
	f.replace(is6, opened{p, servers, stop})
	f.config.Log.Info("dhcp listens", "interface", f.name, "version", version(servers[0]))
	return nil
}

// foreign records that another server was heard on the interface.
func (f *face) foreign(server netip.Addr) {
	for _, one := range f.served {
		if n := one.network(); n != nil && n.probes() && n.is6() == server.Is6() && one.foreign(server, time.Now()) {
			f.config.Log.Warn("another dhcp server answers", "network", one.name, "interface", f.name, "server", server.String())
		}
	}
}

// read answers the requests of a port until it is closed.
func (f *face) read(ctx context.Context, receive receiver, parse parser) {
	var answering sync.WaitGroup
	defer answering.Wait()
	buf := make([]byte, maxPacket+1)
	for {
		n, from, to, err := receive(buf)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if !f.all.Allow() {
			continue
		}
		q, err := parse(slices.Clone(buf[:n]), from, to)
		if err != nil {
			f.config.Log.Debug("dhcp packet ignored", "interface", f.name, "from", from.Addr().String(), "err", site.Printable(err.Error()))
			continue
		}
		if !f.enter(q.client) {
			continue
		}
		answering.Go(func() {
			if err := f.answer(ctx, q); err != nil {
				f.config.Log.Debug("dhcp answer not sent", "interface", f.name, "client", q.client, "err", err)
			}
		})
	}
}

// answer answers an admitted request. It admits the client's next request before sending the answer, because the
// client sends it immediately.
func (f *face) answer(ctx context.Context, q question) error {
	defer func() { <-f.pending }()
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	send := q.answer(ctx)
	f.leave(q.client)
	if send == nil {
		return nil
	}
	return send()
}

// enter reports whether a request may be answered now. Each client may have one request at a time and a limited
// rate. The total is limited too.
func (f *face) enter(client string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[client] {
		return false
	}
	l := f.rates[client]
	if l == nil {
		if len(f.rates) >= maxClients {
			clear(f.rates)
		}
		l = rate.NewLimiter(perClient, burst)
		f.rates[client] = l
	}
	if !l.Allow() {
		return false
	}
	select {
	case f.pending <- struct{}{}:
		f.busy[client] = true
		return true
	default:
		return false
	}
}

// leave admits a client's next request.
func (f *face) leave(client string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, client)
}

// probe looks for other servers, before serving anything and then periodically.
func (f *face) probe(ctx context.Context) {
	for {
		var asked []*network
		for _, one := range f.served {
			if n := one.network(); n != nil && n.probes() {
				asked = append(asked, n)
			}
		}
		if ports := f.ports(); len(ports) > 0 && len(asked) > 0 {
			sent := map[bool]bool{} // by whether it is of IPv6
			for range 2 {           // the first may be lost
				for _, p := range ports {
					if p.discover() == nil {
						sent[p.is6()] = true
					}
				}
				if !sleep(ctx, probeAnswer/2) {
					return
				}
			}
			asked = slices.DeleteFunc(asked, func(n *network) bool { return !sent[n.is6()] })
			for _, one := range f.served {
				one.probed(asked)
			}
		}
		// Probe at once after an interface came up or the design changed, but not otherwise.
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-f.kick:
				waiting = !slices.ContainsFunc(f.served, (*served).unchecked)
			case <-time.After(f.config.ProbeEvery):
				waiting = false
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
