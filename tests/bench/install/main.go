// Command install measures the parts of an installation, each beside what one would use
// without Slipway, in turn in one run. It runs as root and prints one line a figure.
//
//	install/serve-ratio         bytes per CPU second of the artifact server over those of nginx,
//	                            64 clients, one file, plain HTTP
//	install/serve-tls-ratio     the same with TLS 1.3 on both sides
//	install/dhcp-rate           complete DHCP exchanges a second over those of dnsmasq
//	install/boot-storm-1000     seconds in which 1,000 machines that start at once have an address and a
//	                            part of the ramdisk, from a daemon that has armed all of them
//	install/boot-storm-1000-peak  the most memory that this daemon has had since its start
//	install/write-cpu-per-gib   CPU time of writing the image of a disk over that of `zstd -dc | sha256sum`
//	install/uki-mib             the size of the ramdisk's image
//
// What serves is a process of its own that runs the code of the daemon, so that what it takes
// is measured apart from those that ask it. DHCP is measured between two network namespaces.
package main

import (
	"fmt"
	"os"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// parts are what this program does as a process of its own, by its first argument.
var parts = map[string]func(args []string) error{
	"artifacts": serveArtifacts,
	"netboot":   serveNetwork,
	"site":      keepSite,
	"exchange":  exchangeAll,
	"storm":     bootAll,
	"write":     writeImage,
}

func main() {
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		if err := parts[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	rig.Main(
		rig.Bench{Name: "serve", Run: serve},
		rig.Bench{Name: "dhcp", Run: dhcp},
		rig.Bench{Name: "storm", Run: storm},
		rig.Bench{Name: "write", Run: write},
		rig.Bench{Name: "uki", Run: uki},
	)
}
