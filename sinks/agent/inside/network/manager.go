package network

import (
	"os"
	"path/filepath"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// These programs manage the network of a system.
const (
	Networkd       = "networkd"
	Netplan        = "netplan"
	NetworkManager = "networkmanager"
	Ifupdown       = "ifupdown"
)

// Manager is the system's network manager, by what is installed and enabled; empty if none is known. Netplan comes
// first, because it writes the configuration of others.
func Manager(h *inside.Host) string {
	switch {
	case anyFile(h, "/usr/sbin/netplan", "/usr/bin/netplan") && anyMatch(h, "/etc/netplan/*.yaml"):
		return Netplan
	case enabled(h, "NetworkManager.service"):
		return NetworkManager
	case enabled(h, "systemd-networkd.service"):
		return Networkd
	case enabled(h, "networking.service") || anyFile(h, "/usr/sbin/ifup", "/sbin/ifup") && anyFile(h, "/etc/network/interfaces"):
		return Ifupdown
	}
	return ""
}

// enabled reports whether a unit starts at boot, by its links.
func enabled(h *inside.Host, unit string) bool {
	return anyMatch(h, "/etc/systemd/system/*.wants/"+unit)
}

func anyFile(h *inside.Host, paths ...string) bool {
	for _, path := range paths {
		if _, err := os.Lstat(h.Path(path)); err == nil {
			return true
		}
	}
	return false
}

func anyMatch(h *inside.Host, pattern string) bool {
	found, err := filepath.Glob(h.Path(pattern))
	return err == nil && len(found) > 0
}
