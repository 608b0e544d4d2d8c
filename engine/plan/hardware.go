package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// mostFindings is how many findings of one machine are reported.
const mostFindings = 32

// Hardware compares what a machine is made of with what the design expects. It
// skips what was not read, and what the design does not mention. Failing parts
// are findings too, without a place in the design.
func Hardware(n *site.Node, have *site.Inventory) []site.Finding {
	if have == nil || n.IsVirtual() {
		return nil
	}
	c := comparison{node: n, have: have}
	c.make()
	c.processors()
	c.counts()
	c.devices()
	c.disks()
	c.firmware()
	c.health()
	if more := len(c.found) - mostFindings; more > 0 {
		c.found = append(c.found[:mostFindings], site.Finding{Code: "hardware", Severity: site.SeverityWarning, Node: n.Name, Message: fmt.Sprintf("and %d more", more)})
	}
	return c.found
}

// comparison collects the findings of one machine.
type comparison struct {
	node  *site.Node
	have  *site.Inventory
	found []site.Finding
}

// find adds a finding at the origin of a designed value, or of what contains
// it.
func (c *comparison) find(code, where, format string, args ...any) {
	f := site.Finding{Code: code, Severity: site.SeverityWarning, Node: c.node.Name, Path: where, Message: fmt.Sprintf(format, args...)}
	at := site.Origin{}
	for p := where; p != "" && at.IsZero(); p = p[:max(strings.LastIndex(p, "."), 0)] {
		at = c.node.Origins.Of(p)
	}
	if !at.IsZero() {
		f.File, f.Line, f.Col = at.File.Value(), at.Line, at.Col
	}
	c.found = append(c.found, f)
}

func (c *comparison) make() {
	want := c.node.Hardware
	for _, x := range []struct{ what, want, have string }{
		{"manufacturer", want.Manufacturer, c.have.Manufacturer}, {"model", want.Model, c.have.Model},
	} {
		if x.want != "" && x.want != x.have {
			c.find("hardware-"+x.what, "hardware."+x.what, "its %s is %q, the design expects %q", x.what, x.have, x.want)
		}
	}
	memory := c.have.MemoryGiB
	if c.have.DIMMs != nil {
		memory = 0
		for _, d := range c.have.DIMMs {
			memory += float64(d.Bytes) / (1 << 30)
		}
	}
	if memory < float64(want.Memory)/(1<<30) {
		c.find("hardware-memory", "hardware.memory", "it has %g GiB of memory, the design expects at least %s", memory, want.Memory)
	}
}

func (c *comparison) processors() {
	want, sockets := c.node.Hardware, c.have.Processors
	if c.have.CPUs != nil {
		sockets = len(c.have.CPUs)
	}
	if sockets < want.Sockets {
		c.find("hardware-sockets", "hardware.sockets", "it has %s, the design expects at least %d", say.Count(sockets, "processor"), want.Sockets)
	}
	cores, threads := 0, 0
	for _, p := range c.have.CPUs {
		cores, threads = cores+p.Cores, threads+p.Threads
		if want.Architecture != "" && p.Architecture != "" && p.Architecture != want.Architecture {
			c.find("hardware-architecture", "hardware.architecture", "processor %s is %s, the design expects %s", called(p.Part), p.Architecture, want.Architecture)
		}
	}
	if want.CPUs > 0 && threads > 0 && want.CPUs != threads && want.CPUs != cores { // equal without multithreading
		c.find("hardware-cpus", "hardware.cpus", "it has %d logical processors, the design expects %d", threads, want.CPUs)
	}
}

// counts compares the number of parts of each kind.
func (c *comparison) counts() {
	want, have := c.node.Hardware, c.have
	for _, x := range []struct {
		field, what string
		want        *int
		read        bool
		have        int
	}{
		{"dimms", "memory module", want.DIMMs, have.DIMMs != nil, len(have.DIMMs)},
		{"drives", "drive", want.Drives, have.Drives != nil, len(have.Drives)},
		{"nics", "network adapter", want.NICs, have.NICs != nil, len(have.NICs)},
		{"supplies", "power supply unit", want.Supplies, have.Supplies != nil, len(have.Supplies)},
		{"gpus", "GPU", want.GPUs, have.GPUs != nil, len(have.GPUs)},
	} {
		if x.want == nil || !x.read || *x.want == x.have {
			continue
		}
		differs := fmt.Sprintf("%d missing", *x.want-x.have)
		if x.have > *x.want {
			differs = fmt.Sprintf("%d too many", x.have-*x.want)
		}
		c.find("hardware-"+x.field, "hardware."+x.field, "it has %s, the design expects %d: %s", say.Count(x.have, x.what), *x.want, differs)
	}
}

// devices looks for the devices that the design identifies by MAC address. A
// BMC reports nothing else to find one by.
func (c *comparison) devices() {
	if c.have.NICs == nil {
		return
	}
	there := map[string]bool{}
	for _, nic := range c.have.NICs {
		for _, p := range nic.Ports {
			for _, mac := range p.MACs {
				there[mac] = true
			}
		}
	}
	if len(there) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.node.Hardware.Devices)) {
		if mac := c.node.Hardware.Devices[name].MAC; mac != "" && !there[mac] {
			c.find("hardware-device", "hardware.devices."+name+".mac", "device %s is missing: no network adapter has the address %s", name, mac)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.node.Interfaces)) {
		if mac := c.node.Interfaces[name].MAC; mac != "" && !there[mac] {
			c.find("hardware-device", "interfaces."+name+".mac", "interface %s is missing: no network adapter has the address %s", name, mac)
		}
	}
}

// disks looks for a drive for each disk that the design finds by rule. Without
// one an installation would fail.
func (c *comparison) disks() {
	if c.have.Drives == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.node.Storage.Disks)) {
		m := c.node.Storage.Disks[name].Match
		if m != nil && !slices.ContainsFunc(c.have.Drives, func(d site.Drive) bool { return fits(*m, d) }) {
			c.find("hardware-disk", "storage.disks."+name+".match", "no drive fits disk %s (%s)", name, m)
		}
	}
}

// fits reports whether a drive may be the designed one. Values that the BMC
// does not report fit.
func fits(m site.DiskMatch, d site.Drive) bool {
	kind := ""
	switch {
	case d.Protocol == "PCIe": // says nothing of the medium
	case d.Protocol == "NVMe":
		kind = "nvme"
	case d.Media == "SSD" || d.Media == "HDD":
		kind = strings.ToLower(d.Media)
	}
	size := site.Size(d.Bytes)
	return (d.Model == "" || m.FitsModel(d.Model)) && (kind == "" || m.FitsKind(kind)) && (size == 0 || m.FitsSize(size))
}

// firmware compares versions. A component is identified by its ID or its name.
func (c *comparison) firmware() {
	if c.have.Firmware == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.node.Firmware)) {
		want, versions := c.node.Firmware[name].Version, []string{}
		for _, f := range c.have.Firmware {
			if f.ID == name || f.Name == name {
				versions = append(versions, f.Version)
			}
		}
		switch {
		case want == "" || slices.Contains(versions, want) && len(slices.Compact(versions)) == 1:
		case len(versions) == 0:
			c.find("hardware-firmware", "firmware."+name, "it has no firmware component %q, the design expects version %s of it", name, want)
		default:
			c.find("hardware-firmware", "firmware."+name+".version", "firmware %s is %s, the design expects %s", name, strings.Join(slices.Compact(versions), " and "), want)
		}
	}
}

// health reports failing parts.
func (c *comparison) health() {
	h := c.have
	tell := func(what string, p site.Part, failing bool) {
		switch {
		case p.IsUnwell():
			c.find("hardware-health", "", "%s %s is %s", what, called(p), strings.ToLower(p.Health))
		case failing:
			c.find("hardware-health", "", "%s %s predicts its own failure", what, called(p))
		}
	}
	for _, p := range slices.Concat(h.CPUs, h.GPUs) {
		tell("processor", p.Part, false)
	}
	for _, p := range h.DIMMs {
		tell("memory module", p.Part, false)
	}
	for _, p := range h.Drives {
		tell("drive", p.Part, p.Failing)
	}
	for _, p := range h.NICs {
		tell("network adapter", p.Part, false)
	}
	for _, p := range h.Supplies {
		tell("power supply", p.Part, false)
	}
}

// called returns a part's name for people.
func called(p site.Part) string {
	name := p.Name
	if name == "" {
		name = p.ID
	}
	if p.Serial != "" {
		name += " (serial " + p.Serial + ")"
	}
	return site.Printable(name)
}
