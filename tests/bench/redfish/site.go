package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// nodesPerFile is how a large site is split.
const nodesPerFile = 100

// address is the loopback address of machine i.
func address(i int) string { return fmt.Sprintf("127.91.%d.%d", i/250, i%250+1) }

func identity(i int) site.Identity {
	return site.Identity{UUID: fmt.Sprintf("5e1d0000-0000-4000-8000-%012d", i), Serial: fmt.Sprintf("BENCH%05d", i)}
}

// machines are n machines of all personalities in turn that are on.
func machines(n int) []lab.MachineConfig {
	all := make([]lab.MachineConfig, n)
	for i := range all {
		all[i] = lab.MachineConfig{
			Name: fmt.Sprintf("n%05d", i), Personality: lab.Personalities[i%len(lab.Personalities)], BMCAddr: address(i),
			Identity: identity(i), Username: user, Password: password, Power: "on", MemoryGiB: 64, Processors: 2,
		}
	}
	return all
}

// siteFiles are a site that wants the machines as they are, and looks at each
// once a period.
func siteFiles(fleet *lab.Fleet, all []lab.MachineConfig, period time.Duration) map[string]string {
	files := map[string]string{
		"cue.mod/module.cue": "module: \"bench.example/site\"\nlanguage: version: \"v0.17.0\"\n",
		"site.cue": fmt.Sprintf(`package bench

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {rollout: observeEvery: %q}
roles: worker: {}
racks: r1: {}
credentials: bmc: {}
profiles: worker: {
	role: "worker"
	rack: "r1"
	power: "on"
	inspect: "never"
	endpoints: manager: trust: ca: """
%s
		"""
}
`, period, rig.Text(string(fleet.CA()))),
	}
	for from := 0; from < len(all); from += nodesPerFile {
		files[fmt.Sprintf("nodes-%03d.cue", from/nodesPerFile)] = nodesFile(fleet, all[from:min(from+nodesPerFile, len(all))])
	}
	return files
}

func nodesFile(fleet *lab.Fleet, some []lab.MachineConfig) string {
	var b strings.Builder
	b.WriteString("package bench\n\nnodes: {\n")
	for _, m := range some {
		fmt.Fprintf(&b, "\t%s: {profiles: [\"worker\"], identity: {uuid: %q, serial: %q}, endpoints: manager: url: %q}\n",
			m.Name, m.Identity.UUID, m.Identity.Serial, fleet.BMCURL(m.Name))
	}
	b.WriteString("}\n")
	return b.String()
}
