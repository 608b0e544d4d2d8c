// Package links looks at a system's network links from inside: its ports, the other ends of their cables, and
// whether peers on its networks answer. It changes nothing, and always ends in time.
package links

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// longest bounds a look, in addition to the time for listening.
const longest = 12 * time.Second

// Look looks at all links at once.
func Look(ctx context.Context, h *inside.Host, asked item.LinkProbes) (*item.LinksSeen, error) {
	if !h.Live || h.Root != "/" {
		return nil, fmt.Errorf("the system does not run")
	}
	listening := time.Duration(min(max(asked.Listen, 0), item.MaxListen)) * time.Second
	ctx, cancel := context.WithTimeout(ctx, longest+listening)
	defer cancel()
	ports, err := readPorts(h, asked.Ports)
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	var reached []item.Reached
	all.Go(func() { reached = reach(ctx, asked.Targets) })
	hear(ctx, h, ports, asked.Ports, listening)
	all.Wait()
	seen := &item.LinksSeen{Reached: reached}
	for _, p := range ports {
		seen.Ports = append(seen.Ports, p.Port)
	}
	return seen, nil
}

// hear adds the neighbours that lldpd or systemd-networkd have heard. It listens on those requested ports that have
// none.
func hear(ctx context.Context, h *inside.Host, ports []*port, asked []string, listening time.Duration) {
	silent := func() (left []*port) {
		for _, p := range ports {
			if slices.Contains(asked, p.Name) && p.Carrier == "up" && len(p.Neighbours) == 0 {
				left = append(left, p)
			}
		}
		return left
	}
	for _, p := range ports {
		p.Neighbours = fromNetworkd(h, p.index)
	}
	if len(silent()) == 0 {
		return
	}
	heard := fromLLDPD(ctx, h)
	for _, p := range silent() {
		p.Neighbours = heard[p.Name]
	}
	if left := silent(); len(left) > 0 && listening > 0 {
		listen(ctx, left, listening)
	}
}
