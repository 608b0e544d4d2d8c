package start

import (
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/base"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/config"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/hardware"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/install"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/kernel"
	netfacet "github.com/slipway-gitops/slipway/sinks/agent/inside/network"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/packages"
)

// installer installs systems for the daemon. The programs for disks come from the boot medium, or from the daemon
// after a network boot.
func installer(overNetwork bool) *install.Installer {
	bring := (&medium{wait: mediumWithin, every: lookLater}).programs
	if overNetwork {
		bring = sentPrograms
	}
	return &install.Installer{
		Machine: hardware.Machine, Source: openImage, Programs: bring,
		Facets: map[string]inside.Facet{"base": base.New(), "network": netfacet.New(), "packages": packages.New(), "config": config.New(), "kernel": kernel.New()},
	}
}
