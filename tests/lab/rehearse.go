package lab

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Account is what a machine's BMC and system let in.
type Account struct {
	Username, Password string
	AuthorizedKeys     []string
}

// Rehearse makes the fleet that a design describes: a machine for each node,
// with its identity, at its endpoints' addresses. account gives what an
// endpoint's credential opens. All BMCs, and all systems, must be on one port.
func Rehearse(s *site.Site, account func(site.Endpoint) (Account, error)) (Config, error) {
	var c Config
	for _, name := range s.NodeNames() {
		m, err := rehearseNode(&c, s.Nodes[name], account)
		if err != nil {
			return c, fmt.Errorf("node %s: %w", name, err)
		}
		c.Machines = append(c.Machines, m)
	}
	return c, rehearseImages(&c, s)
}

func rehearseNode(c *Config, n *site.Node, account func(site.Endpoint) (Account, error)) (MachineConfig, error) {
	hw := n.Hardware
	m := MachineConfig{
		Name: n.Name, Identity: n.Identity, BootOrder: []string{"Hdd", "Pxe"},
		Manufacturer: cmp.Or(hw.Manufacturer, "Lab"), Model: cmp.Or(hw.Model, "Simulated"),
		MemoryGiB: cmp.Or(int(hw.Memory>>30), 64), Processors: cmp.Or(hw.Sockets, 1),
	}
	bmc, err := place(n.Endpoints[site.Manager].URL, &c.BMCPort)
	if err != nil {
		return m, err
	}
	a, err := account(n.Endpoints[site.Manager])
	if err != nil {
		return m, err
	}
	m.BMCAddr, m.Username, m.Password = bmc, a.Username, a.Password
	system, ok := n.Endpoints[site.OS]
	if !ok {
		return m, nil
	}
	if m.OSAddr, err = place(system.URL, &c.SSHPort); err != nil {
		return m, err
	}
	for _, f := range site.InsideFacets {
		for _, i := range n.Items(f) {
			if m.Inside == nil {
				m.Inside = map[string]map[string]map[string]string{}
			}
			if m.Inside[string(f)] == nil {
				m.Inside[string(f)] = map[string]map[string]string{}
			}
			m.Inside[string(f)][i.Key] = i.Fields
		}
	}
	a, err = account(system)
	m.AuthorizedKeys = a.AuthorizedKeys
	return m, err
}

// place reads an endpoint's address, and holds all of them to one port.
func place(endpoint string, port *int) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	p, err := strconv.Atoi(u.Port())
	switch {
	case err != nil:
		return "", fmt.Errorf("the lab needs a port in %s", endpoint)
	case !loopback(u.Hostname()):
		return "", fmt.Errorf("the lab can only be at loopback addresses, not at %s", endpoint)
	case *port != 0 && *port != p:
		return "", fmt.Errorf("the lab has one port for all of a kind, %d, and %s has another", *port, endpoint)
	}
	*port = p
	return u.Hostname(), nil
}

// rehearseImages serves the design's images that are at a loopback address.
func rehearseImages(c *Config, s *site.Site) error {
	for _, name := range slices.Sorted(maps.Keys(s.Images)) {
		image := s.Images[name].URL
		u, err := url.Parse(image)
		if err != nil || !loopback(u.Hostname()) {
			continue
		}
		addr, err := place(image, &c.ImagePort)
		if err == nil && c.ImageAddr != "" && c.ImageAddr != addr {
			err = fmt.Errorf("the lab has one address for all images, %s, and %s has another", c.ImageAddr, image)
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		c.ImageAddr = addr
		c.Images = append(c.Images, ImageConfig{Name: name})
	}
	return nil
}

// Calm gives every machine the power and boot order that its design wants.
// What is on the disks was there before Slipway: no generation is installed.
func (c *Config) Calm(s *site.Site) {
	for i := range c.Machines {
		m := &c.Machines[i]
		n := s.Nodes[m.Name]
		m.Power = cmp.Or(n.Power, "on")
		if len(n.Boot.Order) > 0 {
			m.BootOrder = n.Boot.Order
		}
	}
}

// Empty takes machines' power, and everything from their disks.
func (c *Config) Empty(names ...string) error {
	for _, name := range names {
		i := slices.IndexFunc(c.Machines, func(m MachineConfig) bool { return m.Name == name })
		if i < 0 {
			return fmt.Errorf("there is no machine %q to be blank", name)
		}
		m := &c.Machines[i]
		m.Power, m.Blank, m.Marker = "off", true, nil
	}
	return nil
}
