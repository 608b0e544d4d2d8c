package present

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Sides is a machine as its BMC, Slipway's agent in memory, and its installed system report it. A
// side that was never seen has a zero time.
type Sides struct {
	BMC    time.Time `json:"bmc,omitzero"`
	Agent  time.Time `json:"agent,omitzero"`
	System time.Time `json:"system,omitzero"`
	Rows   []Sight   `json:"rows"`
}

// Sight is one thing of a machine, in the words of each side; empty where a side does not report
// it.
type Sight struct {
	// What is "model", "processors", "memory", "disk", "port" or "firmware". Name identifies the
	// thing on all sides: a serial number, a MAC address.
	What   string `json:"what"`
	Name   string `json:"name,omitempty"`
	BMC    string `json:"bmc,omitempty"`
	Agent  string `json:"agent,omitempty"`
	System string `json:"system,omitempty"`
	// Differs says where the sides differ; empty if they do not.
	Differs string `json:"differs,omitempty"`
}

// Seen returns how many sides were seen.
func (s Sides) Seen() (n int) {
	for _, t := range []time.Time{s.BMC, s.Agent, s.System} {
		if !t.IsZero() {
			n++
		}
	}
	return n
}

// CompareSides compares what each side reports of a machine. Something that a side does not report
// at all is no difference.
func CompareSides(c site.Closeup) Sides {
	b := sides{}
	if c.Inventory != nil {
		b.bmc, b.s.BMC = c.Inventory, c.Observed.Facets[site.FacetInventory].Seen
	}
	if a := c.Observed.Agent; a != nil && a.Inventory != nil {
		b.agent, b.s.Agent = a.Inventory, a.Seen
	}
	if c.Observed.Inside != nil {
		b.inside, b.s.System = c.Observed.Inside, c.Observed.Facets[site.FacetOS].Seen
	}
	if c.Observed.Links != nil {
		b.ports = c.Observed.Links.Ports
	}
	b.model()
	b.processors()
	b.memory()
	b.disks()
	b.nics()
	b.s.Rows = append([]Sight{}, b.s.Rows...)
	return b.s
}

// sides collects the rows.
type sides struct {
	bmc, agent *site.Inventory
	inside     *site.Inside
	ports      []item.Port
	s          Sides
}

func (b *sides) add(s Sight) {
	if s.BMC != "" || s.Agent != "" || s.System != "" {
		b.s.Rows = append(b.s.Rows, s)
	}
}

func (b *sides) model() {
	of := func(i *site.Inventory) (model, bios string) {
		if i == nil {
			return "", ""
		}
		return strings.TrimSpace(i.Manufacturer + " " + i.Model), i.BIOS
	}
	model, bios := Sight{What: "model"}, Sight{What: "firmware", Name: "BIOS"}
	model.BMC, bios.BMC = of(b.bmc)
	model.Agent, bios.Agent = of(b.agent)
	bios.Differs = unlike("version", bios.BMC, bios.Agent)
	b.add(model) // each side names manufacturers in its own way
	b.add(bios)
}

// unlike says that two texts differ, if both are reported.
func unlike(what, x, y string) string {
	if x == "" || y == "" || strings.EqualFold(strings.TrimSpace(x), strings.TrimSpace(y)) {
		return ""
	}
	return what
}

func (b *sides) processors() {
	of := func(i *site.Inventory) (text string, count, cores int) {
		if i == nil {
			return "", 0, 0
		}
		count = cmp.Or(len(i.CPUs), i.Processors)
		for _, p := range i.CPUs {
			cores += p.Cores
		}
		if count == 0 {
			return "", 0, 0
		}
		if text = fmt.Sprint(count); cores > 0 {
			text += fmt.Sprintf(" with %d cores", cores)
		}
		return text, count, cores
	}
	row := Sight{What: "processors"}
	var told, seen, toldCores, seenCores int
	row.BMC, told, toldCores = of(b.bmc)
	row.Agent, seen, seenCores = of(b.agent)
	switch {
	case told > 0 && seen > 0 && told != seen:
		row.Differs = "number"
	case toldCores > 0 && seenCores > 0 && toldCores != seenCores:
		row.Differs = "cores"
	}
	b.add(row)
}

// leastOfMemory allows for memory that the kernel and the firmware reserve.
const leastOfMemory = 0.9

func (b *sides) memory() {
	row, told := Sight{What: "memory"}, 0.0
	if b.bmc != nil {
		for _, d := range b.bmc.DIMMs {
			told += float64(d.Bytes) / (1 << 30)
		}
		told = cmp.Or(told, b.bmc.MemoryGiB)
	}
	text := func(gib float64) string {
		if gib == 0 {
			return ""
		}
		if told > 0 && (gib < leastOfMemory*told || gib > 1.01*told) {
			row.Differs = "size"
		}
		return fmt.Sprintf("%.1f GiB", gib)
	}
	row.BMC = text(told)
	if b.agent != nil {
		row.Agent = text(b.agent.MemoryGiB)
	}
	if b.inside != nil {
		row.System = text(float64(b.inside.MemoryBytes) / (1 << 30))
	}
	b.add(row)
}

// drive is a disk as one side reports it.
type drive struct {
	serial, model, firmware string
	bytes                   int64
}

func (d drive) String() string {
	return strings.Join(slices.DeleteFunc([]string{say.Size(d.bytes), d.model, d.firmware}, func(s string) bool { return s == "" }), ", ")
}

func drivesOf(i *site.Inventory) (all []drive, whole bool) {
	if i == nil || i.Drives == nil {
		return nil, false
	}
	for _, d := range i.Drives {
		all = append(all, drive{d.Serial, d.Model, d.Firmware, d.Bytes})
	}
	return all, !i.DrivesUnread && len(all) > 0
}

// disks compares disks by their serial numbers. A disk without one is listed, but not compared.
func (b *sides) disks() {
	bmc, bmcWhole := drivesOf(b.bmc)
	agent, agentWhole := drivesOf(b.agent)
	var system []drive
	systemWhole := b.inside != nil && b.inside.Disks != nil
	if b.inside != nil {
		for _, d := range b.inside.Disks {
			if d.Kind == "disk" {
				system = append(system, drive{d.Serial, d.Model, "", d.Bytes})
			}
		}
	}
	take := func(from *[]drive, serial string) (d drive, ok bool) {
		is := func(same func(a, b string) bool) int {
			return slices.IndexFunc(*from, func(d drive) bool { return serial != "" && d.serial != "" && same(d.serial, serial) })
		}
		i := is(strings.EqualFold)
		if i < 0 {
			i = is(plan.SameDisk)
		}
		if i < 0 {
			return d, false
		}
		d = (*from)[i]
		*from = slices.Delete(slices.Clone(*from), i, i+1)
		return d, true
	}
	var rows []Sight
	for _, from := range []*[]drive{&agent, &bmc, &system} { // the serial numbers of BMCs may lack their beginning
		for len(*from) > 0 {
			first := (*from)[0]
			row := Sight{What: "disk", Name: cmp.Or(first.serial, "without a serial number")}
			var seen []drive
			var missing []string
			for _, side := range []struct {
				list  *[]drive
				whole bool
				text  *string
				name  string
			}{{&bmc, bmcWhole, &row.BMC, "the BMC"}, {&agent, agentWhole, &row.Agent, "the agent"}, {&system, systemWhole, &row.System, "the system"}} {
				d, ok := take(side.list, first.serial)
				if !ok && side.list == from {
					d, ok = first, true
					*from = slices.Clone((*from)[1:])
				}
				switch {
				case ok:
					*side.text = d.String()
					seen = append(seen, d)
				case side.whole && first.serial != "":
					missing = append(missing, side.name)
				}
			}
			row.Differs = unlikeDrives(seen)
			if len(missing) > 0 {
				row.Differs = strings.TrimSuffix("not seen by "+strings.Join(missing, " and ")+"; "+row.Differs, "; ")
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(x, y Sight) int { return cmp.Compare(x.Name, y.Name) })
	for _, row := range rows {
		b.add(row)
	}
}

// unlikeDrives says how the sides that have seen a disk differ. It does not compare models: some
// sides put the manufacturer before them.
func unlikeDrives(seen []drive) string {
	var all []string
	for _, d := range seen[min(1, len(seen)):] {
		if f := seen[0]; f.bytes > 0 && d.bytes > 0 && (d.bytes < f.bytes-f.bytes/100 || d.bytes > f.bytes+f.bytes/100) {
			all = append(all, "size")
		}
		if why := unlike("firmware", seen[0].firmware, d.firmware); why != "" {
			all = append(all, why)
		}
	}
	return strings.Join(slices.Compact(all), ", ")
}

// nic is a port as one side reports it.
type nic struct {
	link, text string
	mbps       int
	neighbours []item.Neighbour
}

// neighbours describes what is at the other end of a cable.
func neighbours(all []item.Neighbour) (texts []string) {
	for _, n := range all {
		texts = append(texts, fmt.Sprintf("at %s port %s", cmp.Or(n.System, n.Chassis), n.Port))
	}
	return texts
}

// nics compares ports by their MAC addresses.
func (b *sides) nics() {
	bmc, agent, system := map[string]nic{}, map[string]nic{}, map[string]nic{}
	var order []string
	note := func(into map[string]nic, mac string, n nic) {
		if mac = strings.ToLower(mac); mac == "" {
			return
		}
		if !slices.Contains(order, mac) {
			order = append(order, mac)
		}
		into[mac] = n
	}
	from := func(i *site.Inventory, into map[string]nic) {
		if i == nil {
			return
		}
		for _, a := range i.NICs {
			for _, p := range a.Ports {
				for _, mac := range p.MACs {
					note(into, mac, nic{p.Link, words(append([]string{p.ID, p.Link, speed(p.Mbps)}, neighbours(p.Neighbours)...)...), p.Mbps, p.Neighbours})
				}
			}
		}
	}
	from(b.bmc, bmc)
	from(b.agent, agent)
	for _, p := range b.ports {
		text := []string{p.Name, p.Carrier, speed(p.Speed)}
		if p.Off {
			text[1] = "off"
		}
		text = append(text, neighbours(p.Neighbours)...)
		note(system, p.MAC, nic{p.Carrier, words(text...), p.Speed, p.Neighbours})
	}
	if b.inside != nil && len(b.ports) == 0 {
		for _, l := range b.inside.Links {
			if mac := strings.ToLower(l.MAC); slices.Contains(order, mac) { // a bridge has an address, but is no port
				note(system, mac, nic{l.State, words(l.Name, l.State), 0, nil})
			}
		}
	}
	slices.Sort(order)
	for _, mac := range order {
		b.add(b.port(mac, bmc, agent, system))
	}
}

// port compares what the three sides report of one port, by its MAC address.
func (b *sides) port(mac string, bmc, agent, system map[string]nic) Sight {
	x, told := bmc[mac]
	y, seen := agent[mac]
	z, inside := system[mac]
	row := Sight{What: "port", Name: mac, BMC: x.text, Agent: y.text, System: z.text}
	var missing, differs []string
	if !told && len(bmc) > 0 {
		missing = append(missing, "the BMC")
	}
	if !seen && len(agent) > 0 {
		missing = append(missing, "the agent")
	}
	if !inside && len(b.ports) > 0 {
		missing = append(missing, "the system")
	}
	if len(missing) > 0 {
		differs = append(differs, "not seen by "+strings.Join(missing, " and "))
	}
	links, speeds := []string{}, []int{}
	for _, n := range []nic{x, y, z} {
		if n.link == "up" || n.link == "down" {
			links = append(links, n.link)
		}
		if n.mbps > 0 && n.link != "down" {
			speeds = append(speeds, n.mbps)
		}
	}
	if len(slices.Compact(links)) > 1 {
		differs = append(differs, "link")
	}
	if len(slices.Compact(speeds)) > 1 {
		differs = append(differs, "speed")
	}
	if len(y.neighbours) > 0 && len(z.neighbours) > 0 && !slices.Equal(neighbours(y.neighbours), neighbours(z.neighbours)) {
		differs = append(differs, "neighbour")
	}
	row.Differs = strings.Join(differs, ", ")
	return row
}

func speed(mbps int) string {
	if mbps <= 0 {
		return ""
	}
	return fmt.Sprintf("%d Mb/s", mbps)
}

// words joins the non-empty texts.
func words(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), ", ")
}
