package control

import (
	"fmt"
	"sync"
)

// mostConsoles is how many consoles are read at once. Machines and hypervisors have a handful of
// sessions, and the daemon's own work needs them.
const mostConsoles = 4

// consoles are those that are being read.
type consoles struct {
	mu   sync.Mutex
	open map[string]bool // by site and node
}

// begin lets the console of a node be read, by one caller at a time.
func (c *consoles) begin(key string) (free func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key] || len(c.open) >= mostConsoles {
		return nil, fmt.Errorf("%w: this console is being read already, or %d others are: try again in some seconds", ErrTooMany, mostConsoles)
	}
	if c.open == nil {
		c.open = map[string]bool{}
	}
	c.open[key] = true
	return func() { c.end(key) }, nil
}

func (c *consoles) end(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, key)
}

// console is the last of what the machine of the node in the path wrote to its console.
func (c *call) console() (any, error) {
	c.limits.charge(c.caller, consoleCost)
	free, err := c.consoles.begin(c.site + " " + c.node)
	if err != nil {
		return nil, err
	}
	defer free()
	return c.daemon.Console(c.r.Context(), c.site, c.node)
}
