package libvirt

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/site"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// full is a machine with all that a design can ask for.
func full() *site.Node {
	never := false
	n := &site.Node{Name: "vm-1", Style: site.StyleVirtual, Boot: site.Boot{Order: []string{"Hdd", "Pxe"}}, Virtual: site.Virtual{
		CPUs: 4, Memory: 8 << 30, Firmware: "uefi", SecureBoot: true, TPM: true, Watchdog: "reset", Autostart: &never,
		Disks: map[string]site.VirtualDisk{
			"root": {Size: 20 << 30, Image: "overlay"}, "data": {Size: 1e9, Format: "raw", Pool: "fast"}, "old": {Size: 1 << 30, Bus: "scsi"},
		},
		Interfaces: map[string]site.VirtualInterface{"eth0": {Bridge: "br0"}, "eth1.5": {Bridge: "br1", Model: "e1000e"}},
		Host:       site.Host{Hypervisor: "hv-1", Accelerator: "kvm"},
	}}
	n.Derive("lab")
	return n
}

// whole is a definition with its disks.
func whole(d *libvirtxml.Domain, n *site.Node) *libvirtxml.Domain {
	d = shape(d, n, "")
	m := &machine{site: "lab", name: n.Name}
	for _, name := range []string{"data", "old", "root"} {
		if want, ok := n.Virtual.Disks[name]; ok {
			shapeDisk(d, n, m.volume(name, want), want)
		}
	}
	withOwner(d, owner{Site: "lab", Node: n.Name})
	return d
}

func TestDefinitionsAsWritten(t *testing.T) {
	small := designed("vm-1")
	small.Virtual.Machine = "pc"
	reshaped := full()
	reshaped.Virtual.CPUs, reshaped.Virtual.SecureBoot, reshaped.Virtual.TPM, reshaped.Virtual.Watchdog = 2, false, false, ""
	reshaped.Virtual.Interfaces = map[string]site.VirtualInterface{"eth0": {Bridge: "br9", MAC: "52:54:00:00:00:09"}, "eth2": {Bridge: "br0", MAC: "52:54:00:00:00:02"}}
	reshaped.Virtual.Host.Accelerator = "emulation"
	for name, d := range map[string]*libvirtxml.Domain{
		"full": whole(nil, full()), "small": whole(nil, small), "reshaped": shape(asPersonHasIt(t, whole(nil, full())), reshaped, ""),
		"other machine": shape(asPersonHasIt(t, whole(nil, full())), small, ""),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".xml")
			got := marshalled(d) + "\n"
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A machine of another kind has its disks on SCSI on virtio still, as the drive
// of its seed is.
func TestAnotherKindKeepsVirtioSCSI(t *testing.T) {
	n := designed("vm-1")
	d := shape(nil, n, "")
	insert(d, volume{Pool: "default", Name: "seed.iso"})
	n.Virtual.Machine = "pc"
	var models []string
	for _, c := range shape(d, n, "").Devices.Controllers {
		if c.Type == "scsi" {
			models = append(models, c.Model)
		}
	}
	if diff := cmp.Diff([]string{"virtio-scsi"}, models); diff != "" {
		t.Error(diff)
	}
}

// asPersonHasIt is a definition after a person has added to it.
func asPersonHasIt(t *testing.T, d *libvirtxml.Domain) *libvirtxml.Domain {
	text := marshalled(d)
	for old, more := range map[string]string{
		"</devices>":  `<graphics type="vnc" passwd="pw"/><interface type="network"><mac address="52:54:00:aa:aa:aa"/><source network="default"/></interface></devices>`,
		"</metadata>": `<a:note xmlns:a="https://example.org/a">of a person</a:note></metadata>`,
		"</uuid>":     `</uuid><title>The one in the corner</title>`,
	} {
		text = strings.Replace(text, old, more, 1)
	}
	d, err := parseDomain(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What was made as designed is read as designed, and shaping it again changes
// nothing.
func TestDefinitionsAreReadAsDesigned(t *testing.T) {
	n := full()
	d, err := parseDomain(marshalled(whole(nil, n)))
	if err != nil {
		t.Fatal(err)
	}
	before := marshalled(d)
	if diff := cmp.Diff(before, marshalled(shape(d, n, ""))); diff != "" {
		t.Errorf("shaped again: %s", diff)
	}
	have := described(d, n)
	have["autostart"] = "false" // which is no part of the definition
	if diff := cmp.Diff(n.Want(site.FacetDefinition), have); diff != "" {
		t.Errorf("read: %s", diff)
	}
	if got := bootOrder(d); got != "Hdd,Pxe" {
		t.Errorf("the boot order is %s", got)
	}
}

// Whatever a hypervisor sends as a definition, reading it ends, and says so
// when it makes no sense.
func FuzzDefinition(f *testing.F) {
	f.Add(marshalled(whole(nil, full())))
	f.Add("<domain/>")
	f.Add(`<domain><devices><interface><alias name="ua-net-_"/></interface><disk><boot order="1"/></disk></devices></domain>`)
	f.Add(strings.Repeat("<domain>", 1000))
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDomain(text)
		if err != nil {
			return
		}
		n := full()
		described(d, n)
		bootOrder(d)
		shape(d, n, "")
		marshalled(d)
	})
}

func TestAliases(t *testing.T) {
	for _, name := range []string{"eth0", "enp1s0.5", "a_b", "ü", "A-9"} {
		a := alias(aliasInterface, name)
		if got := aliased(aliasInterface, &libvirtxml.DomainAlias{Name: a}); got != name {
			t.Errorf("%s becomes %s, which is read as %s", name, a, got)
		}
	}
	if got := aliased(aliasInterface, &libvirtxml.DomainAlias{Name: "net0"}); got != "" {
		t.Errorf("libvirt's own alias is read as %s", got)
	}
}
