package rig

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// Seed is what the fleet's keys and certificates derive from.
const Seed = "bench"

// Password opens every BMC.
const Password = "bench"

// nodesPerFile is how a large site is split.
const nodesPerFile = 100

// Pace is how often the daemon of a site looks and tells.
type Pace struct{ Poll, Observe, Report string }

// address is the loopback address of machine i.
func address(i int) string { return fmt.Sprintf("127.90.%d.%d", i/250, i%250+1) }

// NodeName is the name of node i.
func NodeName(i int) string { return fmt.Sprintf("n%05d", i) }

func identity(i int) site.Identity {
	return site.Identity{UUID: fmt.Sprintf("5e1d0000-0000-4000-8000-%012d", i), Serial: fmt.Sprintf("BENCH%05d", i)}
}

// Machines is a fleet of n machines.
func Machines(n int, power string) []lab.MachineConfig {
	all := make([]lab.MachineConfig, n)
	for i := range all {
		now := power
		if i == 0 {
			now = "on" // the node of role base, which the others need
		}
		all[i] = lab.MachineConfig{
			Name: NodeName(i), BMCAddr: address(i), Identity: identity(i), Username: "admin", Password: Password,
			Manufacturer: "Lab", Model: "Bench", Power: now, BootOrder: []string{"Hdd", "Pxe"}, MemoryGiB: 64, Processors: 2,
		}
	}
	return all
}

// Site is a site of n nodes for a fleet whose BMCs listen on port. It has
// all that a step can wait for: the first node is what the others need, there
// are canaries, bounds and a window. Nothing of it makes a node wait.
func Site(n, port int, power string, p Pace) map[string]string {
	files := map[string]string{
		"cue.mod/module.cue": "module: \"bench.example/site\"\nlanguage: version: \"v0.17.0\"\n",
		"site.cue":           siteFile(n, port, p),
	}
	for from := 0; from < n; from += nodesPerFile {
		files[fmt.Sprintf("nodes-%03d.cue", from/nodesPerFile)] = nodesFile(from, min(from+nodesPerFile, n), power)
	}
	return files
}

func siteFile(n, port int, p Pace) string {
	return fmt.Sprintf(`package bench

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {rollout: {maxUnavailable: "100%%", pollEvery: %q, observeEvery: %q, reportEvery: %q, firstContact: "repair"
	canaries: {nodes: roles: ["base"], count: 1, soak: "1s"}
	budget: "1h"
}}
windows: [string]: schema.#Window
windows: always: {cron: "0 * * * *", length: "2h"}
networks: [string]: schema.#Network
networks: bmc: cidr: "127.90.0.0/16"
roles: [string]: schema.#Role
roles: base: {phases: ["up"], maxUnavailable: "1"}
roles: worker: {phases: ["up"], needs: up: base: {phase: "up", quorum: "all"}, maxUnavailable: "100%%"}
racks: [string]: schema.#Rack
racks: r1: maxUnavailable: "100%%"
credentials: [string]: schema.#Credential
credentials: bmc: {}
profiles: [string]: schema.#Profile
profiles: base: role: "base"
profiles: worker: {
	role: "worker"
	rack: "r1"
	windows: {online: "always", reboot: "always", destructive: "always"}
	boot: order: ["Hdd", "Pxe"]
	endpoints: manager: trust: ca: """
%s
		"""
}
nodes: [string]: schema.#Layer
nodes: [string]: {
	addresses: _
	endpoints: manager: url: "redfish+https://\(addresses.bmc):%d/redfish/v1/Systems/1"
}
`, p.Poll, p.Observe, p.Report, Text(string(lab.CAPEM(Seed))), port)
}

func nodesFile(from, to int, power string) string {
	var b strings.Builder
	b.WriteString("package bench\n\nnodes: {\n")
	for i := from; i < to; i++ {
		id := identity(i)
		profiles := `"worker"`
		if i == 0 {
			profiles = `"worker", "base"`
		}
		fmt.Fprintf(&b, "\t%s: {\n\t\tprofiles: [%s]\n\t\tpower: %q\n\t\tidentity: {uuid: %q, serial: %q}\n\t\taddresses: bmc: %q\n\t}\n",
			NodeName(i), profiles, power, id.UUID, id.Serial, address(i))
	}
	b.WriteString("}\n")
	return b.String()
}
