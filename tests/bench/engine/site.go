package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// seed is what the fleet's keys and certificates derive from.
const seed = "bench"

// nodesPerFile is how a large site is split.
const nodesPerFile = 100

// rollout is the pace of a bench site.
type rollout struct{ poll, observe, report string }

// address is the loopback address of machine i.
func address(i int) string { return fmt.Sprintf("127.90.%d.%d", i/250, i%250+1) }

func nodeName(i int) string { return fmt.Sprintf("n%05d", i) }

func identity(i int) site.Identity {
	return site.Identity{UUID: fmt.Sprintf("5e1d0000-0000-4000-8000-%012d", i), Serial: fmt.Sprintf("BENCH%05d", i)}
}

// machines is a fleet of n machines.
func machines(n int, power string) []lab.MachineConfig {
	all := make([]lab.MachineConfig, n)
	for i := range all {
		now := power
		if i == 0 {
			now = "on" // the node of role base, which the others need
		}
		all[i] = lab.MachineConfig{
			Name: nodeName(i), BMCAddr: address(i), Identity: identity(i), Username: "admin", Password: "bench",
			Manufacturer: "Lab", Model: "Bench", Power: now, BootOrder: []string{"Hdd", "Pxe"}, MemoryGiB: 64, Processors: 2,
		}
	}
	return all
}

// writeSite writes a site of n nodes for a fleet whose BMCs listen on port. It
// has all that a step can wait for: the first node is what the others need,
// there are canaries, bounds and a window. Nothing of it makes a node wait.
func writeSite(dir string, n, port int, power string, r rollout) error {
	files := map[string]string{
		"cue.mod/module.cue": "module: \"bench.example/site\"\nlanguage: version: \"v0.17.0\"\n",
		"site.cue":           siteFile(n, port, r),
	}
	for from := 0; from < n; from += nodesPerFile {
		files[fmt.Sprintf("nodes-%03d.cue", from/nodesPerFile)] = nodesFile(from, min(from+nodesPerFile, n), power)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func siteFile(n, port int, r rollout) string {
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
	endpoints: bmc: trust: ca: """
%s
		"""
}
nodes: [string]: schema.#Layer
nodes: [string]: {
	addresses: _
	endpoints: bmc: url: "redfish+https://\(addresses.bmc):%d/redfish/v1/Systems/1"
}
`, r.poll, r.observe, r.report, indent(string(lab.CAPEM(seed))), port)
}

func indent(pem string) string {
	return "\t\t" + strings.ReplaceAll(strings.TrimSpace(pem), "\n", "\n\t\t")
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
			nodeName(i), profiles, power, id.UUID, id.Serial, address(i))
	}
	b.WriteString("}\n")
	return b.String()
}

// git runs git in a folder.
func git(dir string, args ...string) error {
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=bench", "-c", "user.email=bench@example.org"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
