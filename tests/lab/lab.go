// Package lab is a simulated fleet of physical machines: each has a BMC that
// speaks Redfish over HTTPS on its own loopback address, a disk, and, once
// something is installed, an operating system that answers SSH. It exists so
// that tests, benchmarks, the demo and rehearsals of a design run against
// machines that behave like real ones: power takes its time, a boot override
// clears with the boot, an inserted image is really fetched.
//
// Everything that looks random derives from the seed, so that the fleet's
// certificate authority and host keys can be written into a design.
package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Fleet is the running machines.
type Fleet struct {
	config   Config
	keys     keys
	machines map[string]*Machine // by name
	bmcs     map[string]*Machine // by BMC address
	systems  map[string]*Machine // by OS address
	images   map[string][]byte
	kinds    map[string]*personality // by name
	calls    callLog
	chance   atomic.Pointer[chance]
	moves    sync.Mutex // held while BMCs change places
	swaps    swaps
	shared   *tls.Certificate // that all BMCs show, nil for one each
	within   bool             // connections are made within the process
	reality  reality

	ctx     context.Context // ends with the fleet
	stop    context.CancelFunc
	ports   struct{ bmc, ssh, image int }
	closers []func() error
	work    sync.WaitGroup
}

// Start builds the machines and listens for them.
func Start(c Config) (*Fleet, error) {
	f, err := New(c)
	if err != nil {
		return nil, err
	}
	for _, listen := range []func() error{f.serveBMCs, f.serveSystems, f.serveImages} {
		if err := listen(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// New builds the machines without listening for them. Each is the
// http.Handler of its own BMC, so that a test can have one in a synctest
// bubble, where the machine's life takes no time.
func New(c Config) (*Fleet, error) {
	c.Speed = cmp.Or(c.Speed, 1)
	if err := c.check(); err != nil {
		return nil, err
	}
	f := &Fleet{config: c, keys: newKeys(c.Seed), machines: map[string]*Machine{}, bmcs: map[string]*Machine{}, systems: map[string]*Machine{}, kinds: map[string]*personality{}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.images = makeImages(c)
	if err := f.build(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.enclose()
	for _, m := range f.machines {
		m.begin()
	}
	return f, nil
}

// build builds the machines.
func (f *Fleet) build() error {
	c := f.config
	if err := f.reality.prepare(c); err != nil {
		return err
	}
	for _, mc := range c.Machines {
		kind, err := f.kind(mc)
		if err != nil {
			return fmt.Errorf("machine %q: %w", mc.Name, err)
		}
		m := newMachine(f, mc, kind)
		if mc.Real != nil {
			if m.computer, err = newComputer(f, mc); err != nil {
				return fmt.Errorf("machine %q: %w", mc.Name, err)
			}
		}
		f.machines[mc.Name] = m
		if mc.BMCAddr != "" {
			f.bmcs[mc.BMCAddr] = m
		}
		if mc.OSAddr != "" {
			f.systems[mc.OSAddr] = m
		}
	}
	return nil
}

// kind is the personality of a machine, which it shares with others.
func (f *Fleet) kind(c MachineConfig) (*personality, error) {
	enclosed := f.config.encloses(c)
	key := fmt.Sprintf("%s\x00%s\x00%s\x00%t%t%t%t%t", c.Personality, c.Capture, c.SystemID, c.HTTPBoot, c.NoMedia, enclosed, c.Real != nil, c.Real.bios())
	if p := f.kinds[key]; p != nil {
		return p, nil
	}
	p, err := kind(c, enclosed)
	f.kinds[key] = p
	return p, err
}

// Close ends every server, connection and machine. Nothing runs after it.
func (f *Fleet) Close() error {
	f.stop()
	var errs []error
	for _, c := range f.closers {
		errs = append(errs, c())
	}
	for _, m := range f.machines {
		m.end()
	}
	f.work.Wait()
	for _, m := range f.machines {
		if m.computer != nil {
			errs = append(errs, m.computer.close())
		}
	}
	return errors.Join(append(errs, f.reality.end())...)
}

// Machine is the machine of that name, nil if there is none.
func (f *Fleet) Machine(name string) *Machine { return f.machines[name] }

// Names lists the machines in the order in which they were configured.
func (f *Fleet) Names() []string {
	names := make([]string, len(f.config.Machines))
	for i, m := range f.config.Machines {
		names[i] = m.Name
	}
	return names
}

// CA is the certificate authority of the BMCs, as PEM.
func (f *Fleet) CA() []byte { return f.keys.caPEM() }

// HostKey is the public host key of a machine's installed system.
func (f *Fleet) HostKey(name string) string { return HostKey(f.config.Seed, name) }

// BMCPort, SSHPort and ImagePort are where the fleet listens.
func (f *Fleet) BMCPort() int   { return f.ports.bmc }
func (f *Fleet) SSHPort() int   { return f.ports.ssh }
func (f *Fleet) ImagePort() int { return f.ports.image }

// BMCURL is the URL of a machine's BMC, as it was configured.
func (f *Fleet) BMCURL(name string) string {
	m := f.machines[name]
	return fmt.Sprintf("redfish+https://%s:%d%s", m.head.config.BMCAddr, f.ports.bmc, or(m.kind.system, root))
}

// OSURL is a machine's os endpoint.
func (f *Fleet) OSURL(name string) string {
	return fmt.Sprintf("ssh://%s:%d", f.machines[name].config.OSAddr, f.ports.ssh)
}

// scaled is a duration of the model at the fleet's speed.
func (f *Fleet) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / f.config.Speed)
}

// sleep waits for a duration of the model, and says false when ctx or the
// fleet ended.
func (f *Fleet) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(f.scaled(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-f.ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// draw is a number in [0, 1) that the seed, a purpose and a count determine.
func (f *Fleet) draw(what string, n int) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "slipway lab draw\x00%s\x00%s\x00%d", f.config.Seed, what, n))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// count lets Close wait for the connections of an HTTP server.
func (f *Fleet) count(s *http.Server) *http.Server {
	s.ErrorLog = quiet
	s.ConnContext = remember
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			f.work.Add(1)
		case http.StateClosed, http.StateHijacked:
			f.work.Done()
		}
	}
	return s
}

// quiet drops what net/http would log of broken handshakes.
var quiet = log.New(io.Discard, "", 0)
