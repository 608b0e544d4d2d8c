package site

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
)

// StyleVirtual is the style of a node whose machine is virtual.
const StyleVirtual = "virtual"

// IsVirtual reports whether the node's machine is virtual.
func (n *Node) IsVirtual() bool { return n.Style == StyleVirtual }

// Virtual is what a virtual machine is made of, and where it runs.
type Virtual struct {
	CPUs   int  `json:"cpus,omitempty"`
	Memory Size `json:"memory,omitempty"`
	// Machine is "q35" (the default) or "pc".
	Machine string `json:"machine,omitempty"`
	// Firmware is "bios" (the default) or "uefi".
	Firmware   string `json:"firmware,omitempty"`
	SecureBoot bool   `json:"secureBoot,omitempty"`
	// TPM adds an emulated TPM 2.0.
	TPM bool `json:"tpm,omitempty"`
	// Watchdog is what the watchdog does when it expires: "reset", "poweroff",
	// "pause", or empty for no watchdog.
	Watchdog string                 `json:"watchdog,omitempty"`
	Disks    map[string]VirtualDisk `json:"disks,omitempty"`
	// Interfaces are by kernel name.
	Interfaces map[string]VirtualInterface `json:"interfaces,omitempty"`
	// Autostart is nil or true if the machine starts with its hypervisor.
	Autostart *bool `json:"autostart,omitempty"`
	// Erase says what happens to the disks when the machine is zeroized:
	// "delete" (the default), or "wipe", which overwrites them first.
	Erase string `json:"erase,omitempty"`
	// Hypervisor is the hypervisor that the design asks for; empty for any.
	Hypervisor string `json:"hypervisor,omitempty"`
	// Host is where the machine is placed; zero before that.
	Host Host `json:"host,omitzero"`
}

// VirtualDisk is a disk of a virtual machine.
type VirtualDisk struct {
	Size Size `json:"size"`
	// Pool is the storage pool of the hypervisor, "default" by default.
	Pool string `json:"pool,omitempty"`
	// Format is "qcow2" (the default) or "raw".
	Format string `json:"format,omitempty"`
	// Bus is "virtio" (the default), "scsi" or "sata".
	Bus string `json:"bus,omitempty"`
	// Image says how an installation puts the node's image on this disk: as an
	// "overlay" over the hypervisor's copy, or as a "copy". It is empty for a
	// data disk, which no installation touches.
	Image string `json:"image,omitempty"`
}

// VirtualInterface is a network interface of a virtual machine.
type VirtualInterface struct {
	// Bridge is the bridge of the hypervisor that it is plugged into.
	Bridge string `json:"bridge"`
	// Model is "virtio" (the default), "e1000e" or "rtl8139".
	Model string `json:"model,omitempty"`
	// MAC is the interface's address in lower case.
	MAC string `json:"mac,omitempty"`
}

// Host is what a virtual machine gets from the hypervisor that it is placed on.
type Host struct {
	// Hypervisor is the hypervisor's name in the design.
	Hypervisor string `json:"hypervisor"`
	// Accelerator is "kvm" or "emulation".
	Accelerator string `json:"accelerator"`
}

// Placed is a virtual machine that has a place, with its requirements.
type Placed struct {
	Role    string  `json:"role,omitempty"`
	Virtual Virtual `json:"virtual"`
	// Unmade means that nothing of the machine was made yet. It keeps its place
	// unless the design asks for another.
	Unmade bool `json:"unmade,omitempty"`
}

// Hypervisor is a host of virtual machines.
type Hypervisor struct {
	Description string `json:"description,omitempty"`
	// URL is how libvirt is reached, without a domain: libvirt+unix:///system,
	// libvirt+tls://192.0.2.21/system, libvirt+ssh://root@192.0.2.21/system.
	URL        string `json:"url"`
	Credential string `json:"credential,omitempty"`
	Trust      Trust  `json:"trust,omitzero"`
	// Node is the design's node that is the hypervisor; empty for none.
	Node string `json:"node,omitempty"`
	// Rack is the hypervisor's rack; empty means the rack of its Node.
	Rack string `json:"rack,omitempty"`
	// CPUs, Memory and Pools limit what all its virtual machines may have
	// together; 0 for no limit.
	CPUs   int             `json:"cpus,omitempty"`
	Memory Size            `json:"memory,omitempty"`
	Pools  map[string]Size `json:"pools,omitempty"`
	// Accelerator is "kvm" (the default) or "emulation", which needs no
	// processor support and is slow.
	Accelerator string `json:"accelerator,omitempty"`
	// Drained prevents new machines from being placed here.
	Drained bool `json:"drained,omitempty"`
}

// Placement is how the nodes of a role are placed on hypervisors.
type Placement struct {
	// Spread is what the nodes are spread over: "hypervisor" (the default),
	// "rack", "domain" (of racks) or "none". It is a preference: where it
	// cannot be met, they are spread as evenly as possible.
	Spread string `json:"spread,omitempty"`
	// Apart are roles whose nodes may not be on the same hypervisor. A role's
	// own name separates its nodes.
	Apart []string `json:"apart,omitempty"`
	// Near are roles of which a node must be on the same hypervisor.
	Near []string `json:"near,omitempty"`
}

// machines is the name space of the UUIDs of virtual machines (RFC 9562,
// section 5.5: any UUID can be one).
var machines = [16]byte{0x7c, 0x1f, 0x5a, 0x40, 0x3a, 0x0e, 0x4c, 0x0d, 0x9a, 0x52, 0x61, 0x6c, 0x69, 0x70, 0x77, 0x61}

// MachineUUID returns the UUID of a site's virtual machine: a version 5 UUID
// made from the names of the site and of the node, so it never changes.
func MachineUUID(site, node string) string {
	h := sha1.New()
	h.Write(machines[:])
	h.Write([]byte(site + "/" + node))
	sum := h.Sum(nil)[:16]
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	text := hex.EncodeToString(sum)
	return fmt.Sprintf("%s-%s-%s-%s-%s", text[:8], text[8:12], text[12:16], text[16:20], text[20:])
}

// MachineMAC returns the MAC address of a virtual machine's interface, made
// from the three names. Its first bytes are those of QEMU's machines, which
// mark it as locally administered.
func MachineMAC(site, node, name string) string {
	sum := sha256.Sum256([]byte(site + "/" + node + "/" + name))
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
}

// Derive fills in what follows from the names of the site and the node for a
// virtual machine.
func (n *Node) Derive(site string) {
	if !n.IsVirtual() {
		return
	}
	n.Identity = Identity{UUID: MachineUUID(site, n.Name)}
	n.Virtual.Interfaces = maps.Clone(n.Virtual.Interfaces) // nodes may share the map
	for name, i := range n.Virtual.Interfaces {
		if i.MAC == "" {
			i.MAC = MachineMAC(site, n.Name, name)
			n.Virtual.Interfaces[name] = i
		}
	}
}

// Endpoint returns the endpoint of one of the hypervisor's virtual machines.
func (h *Hypervisor) Endpoint(site, node string) Endpoint {
	u, err := url.Parse(h.URL)
	if err != nil {
		return Endpoint{URL: h.URL, Credential: h.Credential, Trust: h.Trust}
	}
	q := u.Query()
	q.Set("domain", node)
	q.Set("site", site)
	u.RawQuery = q.Encode()
	return Endpoint{URL: u.String(), Credential: h.Credential, Trust: h.Trust}
}

// ImageDisk returns the name of the disk that the node's image is put on; empty
// for none.
func (v *Virtual) ImageDisk() string {
	for name, d := range v.Disks {
		if d.Image != "" {
			return name
		}
	}
	return ""
}
