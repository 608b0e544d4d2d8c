package openid

import (
	"context"
	"sync"
	"time"
)

// discovery keeps the description of an issuer. One that is old counts until there is a newer one, so that an issuer
// that goes away disturbs nobody whose token its last keys have signed.
type discovery struct {
	mu      sync.Mutex
	last    *described
	err     error         // of the last try, where there is no description
	until   time.Time     // before that nothing is fetched
	running chan struct{} // is closed when the fetch under way has ended; nil for none
}

// get gives the description. It waits only where there is none.
func (d *discovery) get(ctx context.Context, fetch func() (*described, error)) (*described, error) {
	for {
		last, running, err := d.look(fetch)
		if running == nil {
			return last, err
		}
		select {
		case <-running:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// look gives what is known, or what to wait for.
func (d *discovery) look(fetch func() (*described, error)) (*described, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().Before(d.until) {
		return d.last, nil, d.err
	}
	if d.running == nil {
		d.running = make(chan struct{})
		go func() {
			found, err := fetch()
			d.end(found, err)
		}()
	}
	if d.last != nil {
		return d.last, nil, nil
	}
	return nil, d.running, nil
}

func (d *discovery) end(found *described, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = time.Now().Add(keepIssuer)
	switch {
	case err == nil:
		d.last, d.err = found, nil
	case d.last == nil:
		d.err = err
		fallthrough
	default:
		d.until = time.Now().Add(retryIssuer)
	}
	close(d.running)
	d.running = nil
}

// forget has the issuer asked again at once.
func (d *discovery) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = time.Time{}
}
