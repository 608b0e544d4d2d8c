package start

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/hardware"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/links"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// listenAgain is the pause between two looks for neighbours.
const listenAgain = time.Minute

// neighbours are what the other ends of the machine's cables announce by LLDP. The agent listens all the time, so
// that a look need not wait.
type neighbours struct {
	mu     sync.Mutex
	byPort map[string][]item.Neighbour
}

// listen listens until the context ends.
func (n *neighbours) listen(ctx context.Context, h *inside.Host) {
	for ctx.Err() == nil {
		var names []string
		for _, p := range hardware.Machine(h).Ports {
			names = append(names, p.Name)
		}
		if seen, err := links.Look(ctx, h, item.LinkProbes{Ports: names, Listen: item.MaxListen}); err == nil {
			n.take(seen.Ports)
		}
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// take keeps what was heard. A port without a link has no neighbour.
func (n *neighbours) take(ports []item.Port) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byPort == nil {
		n.byPort = map[string][]item.Neighbour{}
	}
	for _, p := range ports {
		if len(p.Neighbours) > 0 || p.Carrier == "down" {
			n.byPort[p.Name] = p.Neighbours
		}
	}
}

// in adds the neighbours to a machine's ports.
func (n *neighbours) in(m wire.Machine) wire.Machine {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range m.Ports {
		m.Ports[i].Neighbours = n.byPort[m.Ports[i].Name]
	}
	return m
}
