package agent

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// called is a machine whose agent has called from memory: one connection, on which one request
// at a time is asked.
type called struct {
	conn       net.Conn
	in         *bufio.Reader
	address    string
	site, node string
	lost       func() // forgets it
	mu         sync.Mutex
	closed     sync.Once
}

// Close ends the connection. The agent calls again until the boot is forgotten.
func (c *called) Close() error {
	var err error
	c.closed.Do(func() { err = c.conn.Close() })
	return err
}

// ask asks one thing. Whatever goes wrong ends the connection, since nobody knows what of the
// answer is still to come.
func (c *called) ask(ctx context.Context, r wire.Request) (*wire.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	end := context.AfterFunc(ctx, func() { c.Close() })
	r.Version, r.Site, r.Node = wire.Version, c.site, c.node
	result, err := c.exchange(r)
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
	if e := result.Error; e != nil {
		if e.Class == wire.Refused {
			return nil, refused("%s", site.Printable(e.Text))
		}
		return nil, fmt.Errorf("the agent of %s: %s", c.node, site.Printable(e.Text))
	}
	return result, nil
}

func (c *called) exchange(r wire.Request) (*wire.Result, error) {
	if err := wire.Write(c.conn, r); err != nil {
		return nil, err
	}
	for {
		var f wire.Frame
		if err := wire.Read(c.in, &f); err != nil {
			return nil, err
		}
		if f.Result != nil {
			return f.Result, nil
		}
	}
}

// Observe tells the machine's identity and, in brief, what it is made of. The agent in memory
// serves no facet.
func (c *called) Observe(ctx context.Context, n *site.Node, _ []site.Facet) (site.Observed, error) {
	m, _, err := c.look(ctx)
	if err != nil {
		return site.Observed{}, err
	}
	i := inventory(m)
	return site.Observed{Identity: identity(*m), Facets: map[site.Facet]site.FacetState{}, Inventory: &site.Inventory{Manufacturer: i.Manufacturer, Model: i.Model, BIOS: i.BIOS, MemoryGiB: i.MemoryGiB}}, nil
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
	is := identity(*m)
	for _, p := range m.Ports {
		if mac := strings.ToLower(line(p.MAC)); is.MAC == "" || mac == want.MAC {
			is.MAC = mac
		}
	}
	return is, nil
}

// Apply refuses every step: the agent in memory looks only.
func (c *called) Apply(_ context.Context, step site.Step, _ *site.Node, _ driver.Permit) error {
	return refused("the agent in memory does not do %s: it only looks at the machine", step.Action)
}

// look asks what the machine is, and which devices are on its PCI bus.
func (c *called) look(ctx context.Context) (*wire.Machine, *item.PCI, error) {
	r, err := c.ask(ctx, wire.Request{Op: wire.OpObserve, Machine: true, PCI: &item.PCIProbe{}})
	if err != nil {
		return nil, nil, err
	}
	if r.Machine == nil {
		return nil, nil, refused("the agent of %s at %s does not tell what the machine is", c.node, c.address)
	}
	return r.Machine, r.System.PCI, nil
}

// inventory is what a machine is made of, printable and within bounds.
func inventory(m *wire.Machine) *site.Inventory {
	const mostPorts = 128
	i := &site.Inventory{
		Manufacturer: line(m.Manufacturer), Model: line(m.Product), BIOS: line(m.BIOS), MemoryGiB: float64(max(m.MemoryBytes, 0)>>20) / 1024,
		NICs: []site.NIC{}, Drives: []site.Drive{},
	}
	for _, p := range m.Ports[:min(len(m.Ports), mostPorts)] {
		port := site.Port{ID: line(p.Name), MACs: []string{strings.ToLower(line(p.MAC))}, Mbps: max(p.Mbps, 0)}
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
		i.Drives = append(i.Drives, site.Drive{Part: site.Part{ID: line(d.Name), Model: line(d.Model), Serial: line(d.Serial)}, Bytes: max(d.Bytes, 0), Media: media, Protocol: protocol})
	}
	for _, text := range m.Unread[:min(len(m.Unread), 16)] {
		i.Missing = append(i.Missing, line(text))
	}
	i.DrivesUnread = len(m.Disks) > maxDisks || len(m.Unread) > 0
	return i
}
