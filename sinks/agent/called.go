package agent

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// called is a machine whose agent in the ramdisk has called. It has one connection, which carries one request at a
// time.
type called struct {
	conn       net.Conn
	in         *bufio.Reader
	address    string
	site, node string
	key        string // the SHA-256 of the agent's key, in hex
	lost       func() // removes it from the listener
	say        func(node, text string)
	asking     sync.Mutex
	closed     sync.Once

	// mu guards the fields below.
	mu          sync.Mutex
	term        uint64
	seenTerm    uint64
	disks       []item.Disk
	inventory   *site.Inventory
	is          driver.Installation
	did         driver.Installed
	credentials values
	supply      func(sha256 string) (io.ReadCloser, int64, error)
}

// Close closes the connection at once. It sends no TLS farewell, because an agent that does not read would delay
// it. The agent calls again until the boot is forgotten.
func (c *called) Close() error {
	var err error
	c.closed.Do(func() {
		conn := c.conn
		if t, ok := conn.(*tls.Conn); ok {
			conn = t.NetConn()
		}
		err = conn.Close()
	})
	return err
}

// Host implements driver.Agent.
func (c *called) Host() string {
	host, _, _ := net.SplitHostPort(c.address)
	return host
}

// Key implements driver.Agent.
func (c *called) Key() string { return c.key }

// Disks implements driver.Agent.
func (c *called) Disks() []item.Disk {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disks
}

// Inventory implements driver.Agent.
func (c *called) Inventory() *site.Inventory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inventory
}

// Name implements driver.Namer. The term goes with each request.
func (c *called) Name(_ string, term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = term
}

// Outranked implements driver.Namer by the highest term that the agent reported.
func (c *called) Outranked(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seenTerm > c.term {
		return &driver.LaterTermError{Term: c.seenTerm, Host: c.address}
	}
	return nil
}

// ask sends one request, bounded by lookTimeout. Any failure closes the connection, because the rest of the answer
// may still arrive.
func (c *called) ask(ctx context.Context, r wire.Request) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return c.request(ctx, r, exchange{})
}

// request sends one request and waits until the context ends. Its error is about the connection. The agent's own
// error is in the result.
func (c *called) request(ctx context.Context, r wire.Request, x exchange) (*wire.Result, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if err := driver.MayWrite(ctx); err != nil {
		return nil, err
	}
	end := context.AfterFunc(ctx, func() { c.Close() })
	r.Term = c.ownTerm()
	r.Version, r.Site, r.Node, r.Echo = wire.Version, c.site, c.node, rand.Text()
	result, err := c.exchange(r, x)
	if !end() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		c.lost()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("%w: the agent of %s at %s: %w", driver.ErrUnreachable, c.node, c.address, err)
	}
	c.noteTerm(result.Term)
	return result, nil
}

// ownTerm is the daemon's term.
func (c *called) ownTerm() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}

// noteTerm records the term that the agent reported.
func (c *called) noteTerm(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seenTerm = max(c.seenTerm, term)
}

// told is the error that a result reports.
func (c *called) told(r *wire.Result) error {
	if r.Error == nil {
		return nil
	}
	text := site.PrintableLines(r.Error.Text[:min(len(r.Error.Text), maxTold)])
	c.say(c.node, "Failed: "+text)
	switch r.Error.Class {
	case wire.Refused:
		return refused("%s", text)
	case wire.Busy:
		return fmt.Errorf("%w: %s", driver.ErrBusy, text)
	}
	return fmt.Errorf("the agent of %s: %s", c.node, text)
}

// maxTold bounds an agent's error text, in bytes.
const maxTold = 4096

// exchange sends a request and reads up to its result. A result with another request's echo is rejected, and so is
// a second result.
func (c *called) exchange(r wire.Request, x exchange) (*wire.Result, error) {
	if n := c.in.Buffered(); n > 0 {
		return nil, fmt.Errorf("it sent %d bytes that Slipway did not ask for", n)
	}
	if err := wire.Write(c.conn, r); err != nil {
		return nil, err
	}
	for {
		var f wire.Frame
		if err := wire.Read(c.in, &f); err != nil {
			return nil, err
		}
		switch {
		case f.Result != nil && f.Result.Echo != r.Echo && (f.Result.Echo != "" || f.Result.Error == nil): // the agent cannot echo a request that it could not read
			return nil, errors.New("its answer belongs to another request")
		case f.Result != nil:
			return f.Result, nil
		case f.Want != nil:
			if err := x.send(c.conn, *f.Want); err != nil {
				return nil, err
			}
		case f.Progress != nil:
			c.say(c.node, said(*f.Progress))
			if x.tell != nil {
				x.tell(*f.Progress)
			}
		}
	}
}

// Observe reports the machine's identity, its disks and a short inventory. The agent in the ramdisk serves no
// facet.
func (c *called) Observe(ctx context.Context, n *site.Node, _ []site.Facet) (site.Observed, error) {
	m, _, err := c.look(ctx)
	if err != nil {
		return site.Observed{}, err
	}
	i, is := inventory(m), identityFor(m, n.Machine())
	if n.Machine().MAC == "" {
		is.MAC = ""
	}
	return site.Observed{Identity: is, Facets: map[site.Facet]site.FacetState{}, Inventory: &site.Inventory{Manufacturer: i.Manufacturer, Model: i.Model, BIOS: i.BIOS, MemoryGiB: i.MemoryGiB}}, nil
}

// identityFor is the machine's identity. It uses the wanted MAC address if a port has it, and the wanted byte order
// of the UUID.
func identityFor(m *wire.Machine, want site.Identity) site.Identity {
	is := identity(*m)
	for _, p := range m.Ports {
		if mac := strings.ToLower(line(p.MAC)); is.MAC == "" || mac == want.MAC {
			is.MAC = mac
		}
	}
	is.Slot = want.Slot // not visible from inside
	if want.UUID != "" && strings.EqualFold(want.UUID, site.TurnedRound(is.UUID)) {
		is.UUID = strings.ToLower(want.UUID)
	}
	return is
}

// Inspect implements driver.Inspector.
func (c *called) Inspect(ctx context.Context, n *site.Node) (*site.Inventory, error) {
	m, pci, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	i := inventory(m)
	switch pci := pciIDs(pci); {
	case pci == nil || pci.Unread != "":
		i.Missing = append(i.Missing, "The devices on the PCI bus could not be read.")
	default:
		i.Devices = []site.PCIeDevice{}
		for _, id := range pci.IDs {
			i.Devices = append(i.Devices, site.PCIeDevice{Part: site.Part{ID: id}})
		}
	}
	return i, nil
}

// Identify implements driver.Identifier.
func (c *called) Identify(ctx context.Context, want site.Identity) (site.Identity, error) {
	m, _, err := c.look(ctx)
	if err != nil {
		return site.Identity{}, err
	}
	is := identityFor(m, want)
	is.Slot = ""
	return is, nil
}

// look asks for the machine's identity and the devices on its PCI bus.
func (c *called) look(ctx context.Context) (*wire.Machine, *item.PCI, error) {
	r, err := c.ask(ctx, wire.Request{Op: wire.OpObserve, Machine: true, PCI: &item.PCIProbe{}})
	if err == nil {
		err = c.told(r)
	}
	if err != nil {
		return nil, nil, err
	}
	if r.Machine == nil {
		return nil, nil, refused("the agent of %s at %s does not say which machine it is on", c.node, c.address)
	}
	disks := make([]item.Disk, 0, min(len(r.Machine.Disks), maxDisks))
	for _, d := range r.Machine.Disks[:min(len(r.Machine.Disks), maxDisks)] {
		disks = append(disks, plainDisk(d))
	}
	is := inventory(r.Machine)
	c.mu.Lock()
	c.disks, c.inventory = disks, is
	c.mu.Unlock()
	return r.Machine, r.System.PCI, nil
}

// maxPaths and maxHolds bound what is kept of one disk.
const (
	maxPaths = 64
	maxHolds = 512
)

// plainDisk is a disk as reported by an agent: normalized, printable and bounded.
func plainDisk(d item.Disk) item.Disk {
	d.Serial, d.WWN = item.NormalSerial(d.Serial), item.NormalWWN(d.WWN)
	for _, text := range []*string{&d.Name, &d.Model, &d.Firmware, &d.Kind, &d.PCI, &d.SCSI, &d.Unread} {
		*text = line(*text)
	}
	d.Paths = slices.Clone(d.Paths[:min(len(d.Paths), maxPaths)])
	for i := range d.Paths {
		d.Paths[i] = line(d.Paths[i])
	}
	d.Holds = slices.Clone(d.Holds[:min(len(d.Holds), maxHolds)])
	for i := range d.Holds {
		h := &d.Holds[i]
		for _, text := range []*string{&h.Kind, &h.UUID, &h.Label, &h.Name} {
			*text = line(*text)
		}
	}
	return d
}

// inventory is the machine's hardware, printable and bounded.
func inventory(m *wire.Machine) *site.Inventory {
	const mostPorts, mostProcessors = 128, 64
	i := &site.Inventory{
		Manufacturer: line(m.Manufacturer), Model: line(m.Product), BIOS: line(m.BIOS), MemoryGiB: float64(max(m.MemoryBytes, 0)>>20) / 1024,
		NICs: []site.NIC{}, Drives: []site.Drive{},
	}
	for _, p := range m.Processors[:min(len(m.Processors), mostProcessors)] {
		i.CPUs = append(i.CPUs, site.Processor{Part: site.Part{ID: line(p.ID), Model: line(p.Model)}, Cores: max(p.Cores, 0), Threads: max(p.Threads, 0)})
	}
	i.Processors = len(i.CPUs)
	for _, p := range m.Ports[:min(len(m.Ports), mostPorts)] {
		port := site.Port{ID: line(p.Name), MACs: []string{strings.ToLower(line(p.MAC))}, Mbps: max(p.Mbps, 0)}
		port.Neighbours = neighboursOf(p.Neighbours)
		if p.Carrier != nil {
			port.Link = map[bool]string{true: "up", false: "down"}[*p.Carrier]
		}
		i.NICs = append(i.NICs, site.NIC{Part: site.Part{ID: line(p.Name), Model: line(p.Driver)}, Ports: []site.Port{port}})
	}
	for _, d := range m.Disks[:min(len(m.Disks), maxDisks)] {
		media, protocol := map[string]string{"nvme": "SSD", "ssd": "SSD", "hdd": "HDD"}[d.Kind], ""
		if d.Kind == "nvme" {
			protocol = "NVMe"
		}
		i.Drives = append(i.Drives, site.Drive{Part: site.Part{ID: line(d.Name), Model: line(d.Model), Serial: line(d.Serial)}, Bytes: max(d.Bytes, 0), Media: media, Protocol: protocol, Firmware: line(d.Firmware)})
	}
	for _, text := range m.Unread[:min(len(m.Unread), 16)] {
		i.Missing = append(i.Missing, line(text))
	}
	i.DrivesUnread = len(m.Disks) > maxDisks || len(m.Unread) > 0
	return i
}
