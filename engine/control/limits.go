package control

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slipway-gitops/slipway/engine/access"
)

// Limits bound what callers may ask of a listener. Zero is no limit.
type Limits struct {
	// Rate is how many requests a caller may make in a second, after Burst of them at once.
	Rate  float64
	Burst int
	// UnknownRate and UnknownBurst are those of an address from which nobody was known yet.
	UnknownRate  float64
	UnknownBurst int
	// LoginRate and LoginBurst are those of an address from which browsers log in.
	LoginRate  float64
	LoginBurst int
	// Requests are those under way, of all callers and of one; Streams likewise.
	Requests, RequestsOfOne int
	Streams, StreamsOfOne   int
	// Connections are those that are open, of all addresses and of one.
	Connections, ConnectionsOfOne int
	// AnswerBytes are those of answers that are being sent, all together.
	AnswerBytes int64
}

// NetworkLimits are those of the listener on the network.
var NetworkLimits = Limits{
	Rate: 50, Burst: 200, UnknownRate: 1, UnknownBurst: 20, LoginRate: 2, LoginBurst: 100,
	Requests: 128, RequestsOfOne: 16, Streams: 1200, StreamsOfOne: 64,
	Connections: 2048, ConnectionsOfOne: 256, AnswerBytes: 256 << 20,
}

// mostCallers are those whose rate is kept in mind, and so many networks; the longest unused one is forgotten first.
const mostCallers = 4096

// limits count what callers do.
type limits struct {
	Limits

	mu      sync.Mutex
	callers map[string]*usage // of those that are known
	// networks are those from which nobody was known: however many there are, no caller is forgotten.
	networks map[string]*usage
	requests int
	streams  int
	bytes    int64
	sending  map[*byte]int // how often bodies are being sent, by their first byte
}

// usage is what one caller does.
type usage struct {
	rate              *rate.Limiter
	requests, streams int
	bytes             int64
	last              time.Time
}

func newLimits(l Limits) *limits {
	return &limits{Limits: l, callers: map[string]*usage{}, networks: map[string]*usage{}, sending: map[*byte]int{}}
}

// begin lets a call begin, or says why not; free is called when it has ended.
func (l *limits) begin(c access.Caller, stream bool) (free func(), err error) {
	who := string(c.Kind) + " " + c.Name
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(l.callers, who, l.Rate, l.Burst)
	if u.rate != nil && !u.rate.Allow() {
		return nil, fmt.Errorf("%w: more than %v requests a second: slow down", ErrTooMany, l.Rate)
	}
	all, own, most, mostOwn := &l.requests, &u.requests, l.Requests, l.RequestsOfOne
	if stream {
		all, own, most, mostOwn = &l.streams, &u.streams, l.Streams, l.StreamsOfOne
	}
	if most > 0 && *all >= most || mostOwn > 0 && *own >= mostOwn {
		return nil, fmt.Errorf("%w: %d are under way, %d of them yours: try again when some have ended", ErrTooMany, *all, *own)
	}
	*all++
	*own++
	return sync.OnceFunc(func() { l.give(all, own) }), nil
}

func (l *limits) give(all, own *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*all--
	*own--
}

// send counts an answer that is about to be sent, or says that there are too many; sent is called when
// it was. A slow client holds its answer in memory: at most a quarter of all, unless it is a single one.
// The same bytes for many are counted once.
func (l *limits) send(c access.Caller, body []byte) (sent func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, n := l.of(l.callers, string(c.Kind)+" "+c.Name, l.Rate, l.Burst), int64(len(body))
	more := n
	if l.sending[&body[0]] > 0 {
		more = 0
	}
	switch {
	case l.AnswerBytes > 0 && u.bytes > 0 && u.bytes+n > l.AnswerBytes/4:
		return nil, fmt.Errorf("%w: answers of %d MB are being sent to you already: try again when some have arrived", ErrTooMany, u.bytes>>20)
	case l.AnswerBytes > 0 && l.bytes > 0 && l.bytes+more > l.AnswerBytes:
		return nil, fmt.Errorf("%w: answers of %d MB are being sent already: try again when some have arrived", ErrTooMany, l.bytes>>20)
	}
	u.bytes += n
	l.bytes += more
	l.sending[&body[0]]++
	return sync.OnceFunc(func() { l.hasSent(u, body) }), nil
}

func (l *limits) hasSent(u *usage, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u.bytes -= int64(len(body))
	if l.sending[&body[0]]--; l.sending[&body[0]] == 0 {
		delete(l.sending, &body[0])
		l.bytes -= int64(len(body))
	}
}

// What a request costs of a caller's rate beside one.
const (
	consoleCost = 24 // it opens a session at a machine
	planCost    = 24 // it evaluates a commit
	actCost     = 9  // it is written to the records twice
	deniedCost  = 24 // nobody needs many of these
)

// charge has a caller wait longer for its next requests.
func (l *limits) charge(c access.Caller, cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.of(l.callers, string(c.Kind)+" "+c.Name, l.Rate, l.Burst); u.rate != nil {
		u.rate.ReserveN(time.Now(), min(cost, l.Burst))
	}
}

// mayRecordNobody says whether what was denied to nobody in particular may be recorded now: anybody in
// the network can make the daemon write that.
func (l *limits) mayRecordNobody() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(l.callers, "nobody", l.UnknownRate, l.UnknownBurst)
	return u.rate == nil || u.rate.Allow()
}

// unknown counts a request from an address that showed nothing valid.
func (l *limits) unknown(from netip.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	network := networkOf(from)
	if u := l.of(l.networks, network.String(), l.UnknownRate, l.UnknownBurst); u.rate != nil && !u.rate.Allow() {
		return fmt.Errorf("%w: too many requests from %s without a valid certificate or token: wait a minute", ErrTooMany, network)
	}
	return nil
}

// login counts a request of a browser that logs in, which shows nothing yet. There may be many people behind one
// address.
func (l *limits) login(from netip.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	network := networkOf(from)
	if u := l.of(l.networks, "login "+network.String(), l.LoginRate, l.LoginBurst); u.rate != nil && !u.rate.Allow() {
		return fmt.Errorf("%w: too many logins from %s: wait a minute", ErrTooMany, network)
	}
	return nil
}

// of is the usage of a caller or network. It is called with the lock held.
func (l *limits) of(all map[string]*usage, who string, perSecond float64, burst int) *usage {
	u := all[who]
	if u == nil {
		makeRoom(all)
		u = &usage{}
		if perSecond > 0 {
			u.rate = rate.NewLimiter(rate.Limit(perSecond), burst)
		}
		all[who] = u
	}
	u.last = time.Now()
	return u
}

// networkOf is what one host has: an address, or with IPv6 the 64 bits before those that it chooses.
func networkOf(from netip.Addr) netip.Prefix {
	from = from.Unmap()
	bits := 32
	if from.Is6() {
		bits = 64
	}
	network, _ := from.Prefix(bits)
	return network
}

// makeRoom forgets who was not heard of for the longest time, of those who do nothing now.
func makeRoom(all map[string]*usage) {
	if len(all) < mostCallers {
		return
	}
	oldest := ""
	for who, u := range all {
		if u.requests+u.streams == 0 && u.bytes == 0 && (oldest == "" || u.last.Before(all[oldest].last)) {
			oldest = who
		}
	}
	delete(all, oldest)
}
