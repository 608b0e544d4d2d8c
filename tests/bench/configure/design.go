package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// design is the site of the hosts: the state of state.go in a profile, and one node
// for each host with its host key.
func design(hosts []*host, bmcPort int, public string) (map[string]string, error) {
	var nodes strings.Builder
	nodes.WriteString("package bench\n\nnodes: {\n")
	for i, h := range hosts {
		key, err := os.ReadFile(filepath.Join(h.root, "etc/ssh/ssh_host_ed25519_key.pub"))
		if err != nil {
			return nil, err
		}
		m := rig.Machines(i+1, "on")[i]
		fmt.Fprintf(&nodes, "\t%q: {profiles: [\"host\"], identity: {uuid: %q, serial: %q}, addresses: {bmc: %q, os: %q}, endpoints: os: trust: hostKeys: [%q]}\n",
			h.name, m.Identity.UUID, m.Identity.Serial, m.BMCAddr, h.address, strings.Join(strings.Fields(string(key))[:2], " "))
	}
	nodes.WriteString("}\n")
	return map[string]string{
		"cue.mod/module.cue": "module: \"bench.example/site\"\nlanguage: version: \"v0.17.0\"\n",
		"site.cue":           siteFile(bmcPort, public),
		"nodes.cue":          nodes.String(),
	}, nil
}

func siteFile(bmcPort int, public string) string {
	var system bytes.Buffer
	for i := range files {
		fmt.Fprintf(&system, "\t\tfiles: %q: content: %q\n", filePath(i), fileText(i))
	}
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		fmt.Fprintf(&system, "\t\tsysctl: %q: %q\n", name, value)
	}
	for i := range users {
		fmt.Fprintf(&system, "\t\tusers: %s: {shell: \"/bin/bash\", keys: [%q]}\n", user(i), public)
	}
	for i := range 3 {
		fmt.Fprintf(&system, "\t\tunits: %q: {content: %q, enabled: true, state: \"running\"}\n", unit(i), unitText)
	}
	for _, p := range packages {
		fmt.Fprintf(&system, "\t\tpackages: %q: {}\n", p)
	}
	return fmt.Sprintf(`package bench

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {rollout: {maxUnavailable: "100%%", pollEvery: "5s", observeEvery: "5m", reportEvery: "5s", firstContact: "repair"}}
networks: [string]: schema.#Network
networks: bmc: cidr: "127.90.0.0/16"
networks: os: cidr: "10.77.0.0/16"
racks: [string]: schema.#Rack
racks: r1: {}
roles: [string]: schema.#Role
roles: host: {}
credentials: [string]: schema.#Credential
credentials: bmc: {}
credentials: os: {}
profiles: [string]: schema.#Profile
profiles: host: {
	role: "host"
	rack: "r1"
	endpoints: manager: {credential: "bmc", trust: ca: """
%s
		"""}
	endpoints: os: credential: "os"
	system: {
%s	}
}
nodes: [string]: schema.#Layer
nodes: [string]: {
	addresses: _
	endpoints: manager: url: "redfish+https://\(addresses.bmc):%d/redfish/v1/Systems/1"
	endpoints: os: url: "ssh://\(addresses.os)"
}
`, rig.Text(string(lab.CAPEM(rig.Seed))), system.String(), bmcPort)
}
