package control

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Bounds on reading consoles. Machines and hypervisors have a handful of sessions, and the daemon's own work needs them.
const (
	mostConsoles = 4           // are read at once
	consoleEvery = time.Second // for how long what was read is given to whoever asks again: no console is read more often
)

// consoles are those that are being read, or were just now. However many ask for one, it is read once for all of them.
type consoles struct {
	mu   sync.Mutex
	open map[string]*reading // by site and node
}

// reading is what is read of a console. It is forgotten soon after: nobody's console stays in memory.
type reading struct {
	done    chan struct{} // closed once text and err are there
	text    []byte
	err     error
	waiting int           // who waits for it; it ends when nobody does
	left    bool          // nobody does
	gone    chan struct{} // closed once it is forgotten
	stop    context.CancelFunc
}

// join gives the reading of a console, and says whether it has just begun for this caller, who leaves it in any case. One
// that everybody has left has to end first, so that no machine has two.
func (c *consoles) join(ctx context.Context, key string, read func(context.Context) ([]byte, error)) (r *reading, begun bool, err error) {
	for {
		entered := false
		if r, begun, entered, err = c.enter(ctx, key, read); err != nil || entered {
			return r, begun, err
		}
		select {
		case <-r.gone:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

func (c *consoles) enter(ctx context.Context, key string, read func(context.Context) ([]byte, error)) (r *reading, begun, entered bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.open[key]; r != nil {
		if !r.left {
			r.waiting++
		}
		return r, false, !r.left, nil
	}
	if len(c.open) >= mostConsoles {
		return nil, false, false, fmt.Errorf("%w: %d other consoles are being read: try again in some seconds", ErrTooMany, mostConsoles)
	}
	if c.open == nil {
		c.open = map[string]*reading{}
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), orderTimeout)
	r = &reading{done: make(chan struct{}), gone: make(chan struct{}), waiting: 1, stop: stop}
	c.open[key] = r
	go c.run(ctx, key, r, read)
	return r, true, true, nil
}

// run reads a console, and keeps what was read for a moment.
func (c *consoles) run(ctx context.Context, key string, r *reading, read func(context.Context) ([]byte, error)) {
	defer r.stop()
	func() {
		defer close(r.done)
		defer func() {
			if why := recover(); why != nil {
				r.err = fmt.Errorf("the daemon failed to read the console: %v", why)
			}
		}()
		r.text, r.err = read(ctx)
	}()
	select {
	case <-ctx.Done(): // nobody waits any more
	case <-time.After(consoleEvery):
	}
	c.forget(key, r)
}

func (c *consoles) forget(key string, r *reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, key)
	close(r.gone)
}

// leave ends a reading that nobody waits for any more.
func (c *consoles) leave(key string, r *reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.waiting--
	select {
	case <-r.done:
		return
	default:
	}
	if r.waiting == 0 {
		r.left = true
		r.stop()
	}
}

// console is the last of what the machine of the node in the path wrote to its console, as it is now or was a moment ago.
func (c *call) console() (any, error) {
	key := c.site + " " + c.node
	r, begun, err := c.consoles.join(c.r.Context(), key, func(ctx context.Context) ([]byte, error) { return c.daemon.Console(ctx, c.site, c.node) })
	if err != nil {
		c.limits.charge(c.caller, consoleCost)
		return nil, err
	}
	defer c.consoles.leave(key, r)
	if begun {
		c.limits.charge(c.caller, consoleCost)
	}
	select {
	case <-r.done:
		return r.text, r.err
	case <-c.r.Context().Done():
		return nil, context.Cause(c.r.Context())
	}
}
