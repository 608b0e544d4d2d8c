package main

import (
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/sinks/netboot"
)

// netbootFlags say on which interfaces DHCP and boot files are served. What is
// served is in the design.
type netbootFlags struct {
	text   string
	listen []netboot.Listen
}

func (f *netbootFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.text, "netboot", os.Getenv("SLIPWAY_NETBOOT"), "serve DHCP and network boot, as `INTERFACE=NETWORK[,...]`, in networks whose design has boot.dhcp (SLIPWAY_NETBOOT); none without it")
}

// check reads the flag.
func (f *netbootFlags) check(observe bool) (err error) {
	if f.text == "" {
		return nil
	}
	if observe {
		return usage("--netboot sends to machines, and --observe sends nothing: remove one of them")
	}
	if f.listen, err = netboot.ParseListen(f.text); err != nil {
		return usage("--netboot: %v", err)
	}
	return nil
}

// open makes the service; nil without the flag.
func (f *netbootFlags) open(e *engine.Engine, records *record.Site, log *slog.Logger) *netboot.Service {
	if len(f.listen) == 0 {
		return nil
	}
	return netboot.New(netboot.Config{Listen: f.listen, Design: e.InForce, Leases: records, Ready: e.Ready(), Problem: e.Problem, Changed: e.Touch, Log: log})
}

// agentBoots start the agent over the network: they are the engine's NetBoots.
type agentBoots struct {
	*netboot.Service
	// image is the file that machines start, and none says why there is none.
	image string
	none  error
}

// Serving implements engine.NetBoots.
func (b *agentBoots) Serving(networks []string) (string, error) {
	if b.none != nil {
		return "", b.none
	}
	host, err := b.Service.Serving(networks)
	if err != nil {
		return "", err
	}
	return host.String(), nil
}

// Arm implements engine.NetBoots.
func (b *agentBoots) Arm(boot engine.NetBoot) error {
	if b.none != nil {
		return b.none
	}
	if len(boot.MACs) == 0 {
		return errors.New("no port of " + boot.Node + " has a known MAC address, so Slipway would not recognize its firmware in the network")
	}
	return b.Service.Arm(netboot.Boot{
		Node: boot.Node, ID: boot.ID, MACs: boot.MACs, UUID: strings.ToLower(boot.UUID), Words: boot.Words, Until: boot.Until,
		Files: map[netboot.Firmware]string{netboot.UEFIAMD64: b.image},
	})
}
