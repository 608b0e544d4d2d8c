package libvirt

import (
	"os"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A machine with UEFI, secure boot and disks on two buses starts, and without
// secure boot again; what it is then does not differ from what was asked.
func TestFirmware(t *testing.T) {
	if _, err := os.Stat("/usr/share/OVMF"); err != nil {
		const why = "ovmf is not installed: run make setup"
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	r := startReal(t, "/system")
	r.pool(t, "fast")
	m, n := r.open(t, New(quick), "vm-1"), full()
	n.Virtual.Host.Accelerator, n.Virtual.TPM, n.Virtual.Memory, n.Virtual.CPUs = "emulation", false, 256<<20, 1
	n.Virtual.Interfaces["eth1.5"] = site.VirtualInterface{Bridge: "br0", Model: "e1000e"}
	n.Derive("lab")
	for _, secure := range []bool{true, false} {
		n.Virtual.SecureBoot = secure
		must(t, m, n, site.FacetDefinition, site.ActionDefine)
		must(t, m, n, site.FacetDisks, site.ActionDisks)
		must(t, m, n, site.FacetPower, site.ActionPowerOn)
		settled(t, m, n, site.FacetDefinition, site.FacetDisks)
		before := len(r.Writes())
		must(t, m, n, site.FacetDefinition, site.ActionDefine)
		must(t, m, n, site.FacetDisks, site.ActionDisks)
		if writes := r.Writes()[before:]; len(writes) > 0 {
			t.Errorf("a second time writes %v", writes)
		}
		off := stepOf(n, site.FacetPower, site.ActionPowerOff)
		off.Force = true
		if err := m.Apply(t.Context(), off, n, drivertest.Permitted); err != nil {
			t.Fatal(err)
		}
	}
}

// What a hypervisor does not have is said with what it needs.
func TestWhatIsMissing(t *testing.T) {
	r := startReal(t, "/system")
	n := designed("vm-1")
	m := r.open(t, New(quick), "vm-1")
	n.Virtual.Disks["data"] = site.VirtualDisk{Size: 1 << 20, Pool: "tank"}
	if err := m.Apply(t.Context(), stepOf(n, site.FacetDefinition, site.ActionDefine), n, drivertest.Permitted); err == nil || !strings.Contains(err.Error(), `no storage pool "tank"`) {
		t.Errorf("without the pool: %v", err)
	}
	n = designed("vm-1")
	must(t, m, n, site.FacetDefinition, site.ActionDefine)
	n.Virtual.Interfaces["eth0"] = site.VirtualInterface{Bridge: "br-nowhere"}
	n.Derive("lab")
	must(t, m, n, site.FacetDefinition, site.ActionDefine)
	if err := m.Apply(t.Context(), stepOf(n, site.FacetPower, site.ActionPowerOn), n, drivertest.Permitted); err == nil || !strings.Contains(err.Error(), "br-nowhere") {
		t.Errorf("without the bridge: %v", err)
	}
}
