package network

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// prior is what Slipway remembers of an interface from before it was in the design.
type prior struct {
	Files []string `json:"files"` // files of others that were moved aside
	// Down reports that an ethernet interface was down. LinkLocal reports that the kernel gave it a link-local address
	// whenever it was up. Both are false if nobody looked.
	Down      bool `json:"down,omitempty"`
	LinkLocal bool `json:"linkLocal,omitempty"`
	// MTU is that of an ethernet interface, or of one that was There; 0 if nobody looked, or if a bond had given it its own.
	MTU int `json:"mtu,omitempty"`
	// There reports that a bond, bridge or VLAN existed and was not made anew, so it is not Slipway's to delete. Ports
	// and STP are its ports, and whether a bridge used the spanning tree protocol.
	There bool     `json:"there,omitempty"`
	Ports []string `json:"ports,omitempty"`
	STP   *bool    `json:"stp,omitempty"`
}

// The kernel's values of addr_gen_mode (include/uapi/linux/if_link.h).
const (
	addressFromMAC = "0"
	noAddress      = "1"
)

func addressMode(h *inside.Host, id string) string {
	return h.Path("/proc/sys/net/ipv6/conf/" + id + "/addr_gen_mode")
}

// priorOf is what to remember of an interface of the plan. The machine is nil on a system that does not run.
func (p *plan) priorOf(h *inside.Host, m *machine, id string) prior {
	was := prior{Files: p.aside}
	l := p.after[id]
	if m == nil {
		return was
	}
	if l.Kind != "ethernet" {
		if r := m.links[id]; r != nil && !r.mustBeMadeAnew(l) && p.manager != Ifupdown { // which deletes and creates all that it sets up
			was.There, was.MTU, was.Ports, was.STP = true, r.MTU, r.Members, r.spanningTree()
		}
		return was
	}
	if old := m.byMAC(l.MAC); old != "" {
		id = old
	}
	if r := m.links[id]; r != nil {
		was.Down, was.LinkLocal = !r.up, inside.Text(addressMode(h, id)) == addressFromMAC
		if master := m.links[m.master(id)]; master == nil || master.Kind != "bond" {
			was.MTU = r.MTU
		}
	}
	return was
}

// wasBefore is what Slipway remembers of an interface; nothing of one that is not in its list.
func (a activation) wasBefore(id string) (was prior, err error) {
	e, _ := a.h.Owned.Entry(name, item.KindLinks+"."+id)
	if len(e.Before) == 0 {
		return was, nil
	}
	if err := json.Unmarshal(e.Before, &was); err != nil {
		return was, fmt.Errorf("the list of what Slipway made: %s: %w", id, err)
	}
	return was, nil
}

// release frees interfaces that left the design from what the design gave them. It takes ports out of bonds and
// bridges that stay, and out of bonds also those that nobody designed. systemd-networkd leaves an interface as it is
// once no file matches the interface. Before it has read its files again, it would put the port back.
func (a activation) release(ctx context.Context, p *plan) error {
	var left []string
	for _, id := range p.before.names("ethernet") {
		if _, stays := p.all[id]; stays { // also as a port that a bond or bridge of the design lists
			continue
		}
		master := p.before.master(id)
		_, masterStays := p.after[master]
		if !masterStays {
			was, err := a.wasBefore(master)
			if err != nil {
				return err
			}
			masterStays = was.There && !slices.Contains(was.Ports, id)
		}
		if is, err := os.Readlink(a.h.Path("/sys/class/net/" + id + "/master")); masterStays && err == nil && filepath.Base(is) == master {
			if err := a.f.run(ctx, a.h, "ip", "link", "set", "dev", id, "nomaster"); err != nil {
				return err
			}
		}
		left = append(left, id)
	}
	for _, id := range p.after.names("bond") {
		for _, port := range readLink(a.h.Path("/sys/class/net/" + id)).Members {
			if slices.Contains(p.after[id].Members, port) || slices.Contains(left, port) {
				continue
			}
			if err := a.f.run(ctx, a.h, "ip", "link", "set", "dev", port, "nomaster"); err != nil {
				return err
			}
		}
	}
	return a.putBack(ctx, left)
}

// putBack has the kernel give link-local addresses to interfaces again if it did so before they were in the design,
// and sets interfaces down that were down then. It leaves an interface up if in doubt whether anybody uses it: an idle
// interface that is up harms nobody, and a used one that is down may cut the machine off.
func (a activation) putBack(ctx context.Context, left []string) error {
	were := map[string]prior{}
	for _, id := range left {
		was, err := a.wasBefore(id)
		if err != nil {
			return err
		}
		if was.Down || was.LinkLocal {
			were[id] = was
		}
	}
	if len(were) == 0 || !a.isSole(ctx) {
		return nil
	}
	for _, id := range a.stayIdle(ctx, slices.Sorted(maps.Keys(were))) {
		if at := addressMode(a.h, id); were[id].LinkLocal && inside.Text(at) == noAddress {
			a.f.step(id + " gets a link-local address from the kernel")
			if err := writeKernel(at, addressFromMAC); err != nil {
				return fmt.Errorf("%s cannot get its link-local address back: %w", id, err)
			}
		}
		if were[id].Down && a.isIdle(id) { // only now, because the kernel has just given it an address
			_ = a.f.run(ctx, a.h, "ip", "link", "set", "dev", id, "down") // on failure it stays up, which harms nobody
		}
	}
	return nil
}
