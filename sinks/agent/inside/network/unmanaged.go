package network

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// unmanagedState begins what nmcli(1) prints of a device that NetworkManager leaves alone (NMDeviceState).
const unmanagedState = "10 "

// leavesToIfupdown refuses a change of interfaces that NetworkManager leaves to ifupdown: its plugin does so by default
// with each interface that the files of ifupdown name (NetworkManager.conf(5), "ifupdown section"). It reads these files
// when it starts, so the profiles of a change could not be activated.
func (f *Facet) leavesToIfupdown(ctx context.Context, h *inside.Host, p *plan, m *machine) error {
	if p.manager != NetworkManager {
		return nil
	}
	named, err := ifupdownInterfaces(h)
	if err != nil {
		return err
	}
	var left []string
	for _, id := range p.all.names("ethernet") {
		if m.links[id] == nil || !slices.Contains(named, id) {
			continue
		}
		out, err := h.Exec(ctx, inside.Command{Path: "nmcli", Args: []string{"--get-values", "GENERAL.STATE", "device", "show", id}, Timeout: 10 * time.Second})
		if err == nil && out.Code == 0 && strings.HasPrefix(string(out.Out), unmanagedState) {
			left = append(left, id)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(
		"NetworkManager is enabled and leaves %s to ifupdown, which %s or a file that it includes asks for: nothing was changed. "+
			"At the machine's console, since it may lose its network meanwhile, remove %[1]s from these files and restart NetworkManager; "+
			"or disable NetworkManager and enable networking.service", strings.Join(left, ", "), interfacesFile)}
}

// ifupdownInterfaces are the interfaces that the files of ifupdown set up.
func ifupdownInterfaces(h *inside.Host) (names []string, err error) {
	paths, err := ifupdownFiles(h)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, _, err := readFile(h, path)
		if err != nil {
			return nil, err
		}
		for _, line := range logicalLines(string(text)) {
			words := strings.Fields(line)
			if len(words) > 1 && words[0] == "iface" {
				name, _, _ := strings.Cut(words[1], ":")
				names = append(names, name)
			}
		}
	}
	return names, nil
}
