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
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Config is a fleet to start.
type Config struct {
	Seed string `json:"seed"`
	// Ports of all BMCs, of all systems' SSH, and of the image server; 0 lets
	// the kernel choose.
	BMCPort   int `json:"bmcPort,omitempty"`
	SSHPort   int `json:"sshPort,omitempty"`
	ImagePort int `json:"imagePort,omitempty"`
	// ImageAddr is the image server's loopback address, 127.0.0.1 by default.
	ImageAddr string  `json:"imageAddr,omitempty"`
	Latency   Latency `json:"latency,omitzero"`
	// Speed divides every latency and duration; 0 means 1.
	Speed    float64         `json:"speed,omitempty"`
	Machines []MachineConfig `json:"machines"`
	Images   []ImageConfig   `json:"images,omitempty"`
}

// Latency is how long things take at speed 1. Zero takes no time.
type Latency struct {
	GET   time.Duration `json:"get,omitempty"`   // until a read is answered
	Write time.Duration `json:"write,omitempty"` // until any other request is
	// PowerOn is from an accepted On to PowerState On, PowerOff from a
	// shutdown or the end of an installer to PowerState Off.
	PowerOn  time.Duration `json:"powerOn,omitempty"`
	PowerOff time.Duration `json:"powerOff,omitempty"`
	Boot     time.Duration `json:"boot,omitempty"`    // from PowerState On to the system answering
	Install  time.Duration `json:"install,omitempty"` // from the fetched image to the written disk
}

// Usual are the latencies of common rack servers, boots included.
var Usual = Latency{
	GET: 200 * time.Millisecond, Write: 500 * time.Millisecond,
	PowerOn: 30 * time.Second, PowerOff: 20 * time.Second, Boot: 90 * time.Second, Install: 5 * time.Minute,
}

// MachineConfig is one machine as it stands in the rack.
type MachineConfig struct {
	Name         string        `json:"name"`
	BMCAddr      string        `json:"bmcAddr"` // 127.x.y.z
	OSAddr       string        `json:"osAddr,omitempty"`
	Identity     site.Identity `json:"identity"`
	Username     string        `json:"username"`
	Password     string        `json:"password"`
	Manufacturer string        `json:"manufacturer,omitempty"`
	Model        string        `json:"model,omitempty"`
	MemoryGiB    int           `json:"memoryGiB,omitempty"`
	Processors   int           `json:"processors,omitempty"`
	// Power is "on" or "off"; a machine that starts on has booted long ago.
	Power     string   `json:"power,omitempty"`
	BootOrder []string `json:"bootOrder,omitempty"` // Hdd, Pxe by default
	// Blank is a machine with nothing on its disk.
	Blank bool `json:"blank,omitempty"`
	// Marker is what the installed system says of its installation.
	Marker *site.Marker `json:"marker,omitempty"`
	// AuthorizedKeys and Password open the installed system for Username.
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
}

// Fleet is the running machines.
type Fleet struct {
	config   Config
	keys     keys
	machines map[string]*Machine // by name
	bmcs     map[string]*Machine // by BMC address
	systems  map[string]*Machine // by OS address
	images   map[string][]byte
	calls    callLog

	ctx     context.Context // ends with the fleet
	stop    context.CancelFunc
	bmc     *http.Server
	web     *http.Server
	ports   struct{ bmc, ssh, image int }
	closers []func() error
	work    sync.WaitGroup
}

// Start builds the machines and listens for them.
func Start(c Config) (*Fleet, error) {
	if c.Speed == 0 {
		c.Speed = 1
	}
	f := &Fleet{config: c, keys: newKeys(c.Seed), machines: map[string]*Machine{}, bmcs: map[string]*Machine{}, systems: map[string]*Machine{}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.calls.begin()
	f.images = makeImages(c)
	for _, mc := range c.Machines {
		if err := f.add(mc); err != nil {
			return nil, err
		}
	}
	for _, listen := range []func() error{f.serveBMCs, f.serveSystems, f.serveImages} {
		if err := listen(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	for _, m := range f.machines {
		m.begin()
	}
	return f, nil
}

func (f *Fleet) add(c MachineConfig) error {
	c.Identity.UUID = strings.ToLower(c.Identity.UUID)
	m := newMachine(f, c)
	switch {
	case c.Name == "" || f.machines[c.Name] != nil:
		return fmt.Errorf("machine %q: a name is needed, once", c.Name)
	case !loopback(c.BMCAddr) || f.bmcs[c.BMCAddr] != nil:
		return fmt.Errorf("machine %s: the BMC address %q is not a loopback address of its own", c.Name, c.BMCAddr)
	case c.OSAddr != "" && (!loopback(c.OSAddr) || f.systems[c.OSAddr] != nil):
		return fmt.Errorf("machine %s: the OS address %q is not a loopback address of its own", c.Name, c.OSAddr)
	}
	f.machines[c.Name], f.bmcs[c.BMCAddr] = m, m
	if c.OSAddr != "" {
		f.systems[c.OSAddr] = m
	}
	return nil
}

func loopback(addr string) bool {
	ip := net.ParseIP(addr)
	return ip != nil && ip.To4() != nil && ip.IsLoopback()
}

// Close ends every server, connection and machine.
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
	return errors.Join(errs...)
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

// BMCURL is a machine's bmc endpoint.
func (f *Fleet) BMCURL(name string) string {
	return fmt.Sprintf("redfish+https://%s:%d/redfish/v1/Systems/1", f.machines[name].config.BMCAddr, f.ports.bmc)
}

// OSURL is a machine's os endpoint.
func (f *Fleet) OSURL(name string) string {
	return fmt.Sprintf("ssh://%s:%d", f.machines[name].config.OSAddr, f.ports.ssh)
}

// listen opens a port for all loopback addresses at once: the socket is bound
// to the loopback interface, so nothing can come from outside.
func (f *Fleet) listen(port int) (net.Listener, int, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo") }); cerr != nil {
			return cerr
		}
		if err != nil {
			return fmt.Errorf("bind to the loopback interface: %w", err)
		}
		return nil
	}}
	l, err := lc.Listen(f.ctx, "tcp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		return nil, 0, err
	}
	return l, l.Addr().(*net.TCPAddr).Port, nil
}

// at finds whose address a connection came to.
func at(machines map[string]*Machine, a net.Addr) *Machine {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return nil
	}
	return machines[host]
}

// scaled is a duration of the model at the fleet's speed.
func (f *Fleet) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / f.config.Speed)
}

// sleep waits for a duration of the model, and says false when ctx ended.
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

// quiet drops what net/http would log of broken handshakes.
var quiet = log.New(discard{}, "", 0)

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func orDefault[T comparable](v, otherwise T) T { return cmp.Or(v, otherwise) }
