package network

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
	if m == nil || l.Kind != "ethernet" {
		return was
	}
	if old := m.byMAC(l.MAC); old != "" {
		id = old
	}
	if r := m.links[id]; r != nil {
		was.Down, was.LinkLocal = !r.up, inside.Text(addressMode(h, id)) == addressFromMAC
	}
	return was
}

// release frees interfaces that left the design from what the design gave them. It takes ports out of bonds and
// bridges that stay. systemd-networkd leaves an interface as it is once no file matches the interface. Before it has
// read its files again, it would put the port back.
func (a activation) release(ctx context.Context, p *plan) error {
	for _, id := range p.before.names("ethernet") {
		if _, stays := p.all[id]; stays { // also as a port that a bond or bridge of the design lists
			continue
		}
		master := p.before.master(id)
		_, masterStays := p.after[master]
		if is, err := os.Readlink(a.h.Path("/sys/class/net/" + id + "/master")); masterStays && err == nil && filepath.Base(is) == master {
			if err := a.f.run(ctx, a.h, "ip", "link", "set", "dev", id, "nomaster"); err != nil {
				return err
			}
		}
		if err := a.putBack(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// putBack has the kernel give link-local addresses to an interface again if it did so before the interface was in the
// design, and sets the interface down if it was down then. It does neither if somebody else uses the interface by now.
func (a activation) putBack(ctx context.Context, id string) error {
	var was prior
	e, _ := a.h.Owned.Entry(name, item.KindLinks+"."+id)
	if len(e.Before) > 0 {
		if err := json.Unmarshal(e.Before, &was); err != nil {
			return fmt.Errorf("the list of what Slipway made: %s: %w", id, err)
		}
	}
	if !was.Down && !was.LinkLocal || !a.f.until(ctx, 2*time.Second, func() bool { return a.unused(id) }) {
		return nil
	}
	if at := addressMode(a.h, id); was.LinkLocal && inside.Text(at) == noAddress {
		a.f.step(id + " gets a link-local address from the kernel")
		if err := writeKernel(at, addressFromMAC); err != nil {
			return fmt.Errorf("%s cannot get its link-local address back: %w", id, err)
		}
	}
	if was.Down { // only now, because the kernel has just given it an address
		return a.f.run(ctx, a.h, "ip", "link", "set", "dev", id, "down")
	}
	return nil
}

// unused reports whether systemd-networkd has left an interface alone and nobody uses it: it has no address and
// belongs to no other interface.
func (a activation) unused(id string) bool {
	m, err := a.f.tables.look(a.h)
	if err != nil || m.links[id] == nil {
		return false
	}
	r := m.links[id]
	upper, err := filepath.Glob(a.h.Path("/sys/class/net/" + id + "/upper_*"))
	state := strings.Split(inside.Text(a.h.Path("/run/systemd/netif/links/"+number(r.index))), "\n")
	return err == nil && len(upper) == 0 && slices.Contains(state, "ADMIN_STATE=unmanaged") &&
		len(r.Addresses)+len(r.hosts)+len(r.dynamic)+len(r.Routes) == 0
}
