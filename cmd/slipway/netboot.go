package main

import (
	"log/slog"
	"os"

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
		return usage("--netboot sends to machines, and --observe sends nothing: leave one of them out")
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
