package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-gitops/slipway/schema"
)

const (
	packageName  = "bench"
	nodesPerFile = 100
	// perRack is how many nodes a rack has.
	perRack = 20
)

// style is a way to say what nodes have in common.
type style struct {
	name string
	// common declares it, in CUE; node is the beginning of a node that has it.
	common, node string
}

// styles are the ways in which people write sites: nodes that name profiles,
// and nodes that are unified with definitions.
var styles = []style{
	{"named", "profiles: general: {\n" + general + "}\nprofiles: compute: {\n\tparents: [\"general\"]\n" + compute + "}\n",
		"{\n\tprofiles: [\"compute\"]\n"},
	{"unified", "#General: {\n\tschema.#Layer\n" + general + "}\n#Compute: {\n\t#General\n\tprofiles: [\"all\"]\n" + compute + "}\nprofiles: all: {}\n",
		"#Compute & {\n"},
}

// general and compute are what the nodes have in common: half of a node's 65
// values. The other half is what a machine has of its own, as an inventory
// lists it: names and serial numbers, addresses, keys, the MAC addresses and
// switch ports of its interfaces, and which disks are in it.
const (
	general = `	power: "on"
	boot: {order: ["Hdd", "Pxe"], mode: "uefi"}
	image: "debian12"
	primaryNetwork: "os"
	endpoints: manager: credential: "bmc"
	hardware: {
		architecture: "amd64"
		memory:       "256GiB"
		sockets:      2
		cpus:         64
		devices: {
			"port-1": {kind: "nic", rate: "25Gb/s"}
			"port-2": {kind: "nic", rate: "25Gb/s"}
			system: {kind: "disk", size: "480GB"}
			"data-1": {kind: "disk", size: "4TB"}
			"data-2": {kind: "disk", size: "4TB"}
		}
		cpuSets: guests: "2-31"
		hugepages: guests: {size: "1GiB", count: 64}
	}
	interfaces: {
		eno1: {device: "port-1", link: "data"}
		eno2: {device: "port-2", link: "data"}
	}
	bonds: bond0: {members: ["eno1", "eno2"], link: "data", networks: ["os"]}
	storage: bootDisk: "system"
	system: time: zone: "UTC"
`
	compute = `	role: "compute"
	labels: tier: "a"
	bios: virtualization: true
	kernel: parameters: isolcpus: "{hardware.cpuSets.guests}"
`
)

func siteFile(s style) string {
	return "package " + packageName + `

import "github.com/slipway-gitops/slipway/schema"

site:                  schema.#Site
networks: [string]:    schema.#Network
links: [string]:       schema.#Link
racks: [string]:       schema.#Rack
roles: [string]:       schema.#Role
images: [string]:      schema.#Image
credentials: [string]: schema.#Credential
profiles: [string]:    schema.#Profile
nodes: [string]:       schema.#Layer

site: description: "generated"
roles: compute: {}
credentials: {bmc: {}, os: {}}
networks: {
	bmc: cidr: "10.0.0.0/12"
	os: {cidr: "10.32.0.0/12", dns: {domain: "example.org", servers: ["10.32.0.53"]}}
}
links: data: {
	networks: ["os"]
	rate: "25Gb/s"
	bonding: {mode: "802.3ad", lacpRate: "fast", hashPolicy: "layer3+4", monitor: "100ms", minLinks: 1}
}
images: debian12: {
	url:    "https://images.example.org/debian12.iso"
	sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
}
` + s.common
}

// nodesFile is the name of the file with the i-th hundred of nodes.
func nodesFile(i int) string { return fmt.Sprintf("nodes-%03d.cue", i) }

func nodesText(s style, from, to int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n", packageName)
	for i := from; i < to; i++ {
		if i%perRack == 0 {
			fmt.Fprintf(&b, "\nracks: r%03d: switches: {\"leaf-1\": {}, \"leaf-2\": {}}\n", i/perRack)
		}
		host := fmt.Sprintf("%d.%d", 1+i/200, 1+i%200)
		mac := fmt.Sprintf("%02x:%02x:%02x", i>>16, i>>8&0xff, i&0xff)
		fmt.Fprintf(&b, "\nnodes: \"compute-%05d\": %s", i, s.node)
		fmt.Fprintf(&b, `	rack: "r%03d"
	labels: {slot: "%d", asset: "A-%05d"}
	identity: {uuid: "5e1d0000-0000-4000-8000-%012d", serial: "S%05d"}
	addresses: {bmc: "10.0.%s", os: "10.32.%s"}
	endpoints: {
		manager: {url: "redfish+https://10.0.%s/redfish/v1/Systems/1", trust: fingerprint: "sha256:%064x"}
		os: {
			url: "ssh://10.32.%s"
			trust: hostKeys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI%043d"]
		}
	}
	hardware: devices: {
		"port-1": mac: "52:54:00:%s"
		"port-2": mac: "52:54:01:%s"
		system: path: "/dev/disk/by-id/wwn-0x5000000%09x"
		"data-1": path: "/dev/disk/by-id/wwn-0x5000001%09x"
		"data-2": path: "/dev/disk/by-id/wwn-0x5000002%09x"
	}
	interfaces: {
		eno1: {switch: "leaf-1", port: "Ethernet1/%d"}
		eno2: {switch: "leaf-2", port: "Ethernet1/%d"}
	}
	storage: disks: system: partitions: {
		efi: {number: 1, size: "512MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}
		root: {number: 2, size: "%dGiB", filesystem: {type: "ext4", mount: "/"}}
	}
	storage: disks: system: device: "system"
}
`, i/perRack, i%perRack, i, i, i, host, host, host, i, host, i, mac, mac, i, i, i, i%perRack+1, i%perRack+1, 40+i%8)
	}
	return b.String()
}

// writeSite writes a site of n nodes, with the schema beside it for the cue
// command.
func writeSite(dir string, s style, n int) error {
	files := map[string]string{
		"cue.mod/module.cue": "module: \"bench.example/site\"\nlanguage: version: \"v0.17.0\"\n",
		"site.cue":           siteFile(s),
	}
	for from := 0; from < n; from += nodesPerFile {
		files[nodesFile(from/nodesPerFile)] = nodesText(s, from, min(from+nodesPerFile, n))
	}
	names, err := fs.Glob(schema.Files, "*.cue")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(schema.Files, name)
		if err != nil {
			return err
		}
		files["cue.mod/pkg/"+schema.Path+"/"+name] = string(text)
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
