package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// of are the resources of a kind that links lead to.
func of(all map[string]map[string]any, kind string) map[string]map[string]any {
	found := map[string]map[string]any{}
	for path, v := range all {
		if t, _ := v["@odata.type"].(string); strings.HasPrefix(t, "#"+kind+".") {
			found[path] = v
		}
	}
	return found
}

// A machine has what its configuration says, whatever its BMC calls it.
func TestPartsOfPersonalities(t *testing.T) {
	kinds(t, lab.Latency{}, func(t *testing.T, f *lab.Fleet, b *bmc) {
		all := walk(t, b)
		memory, modules := 0.0, 0
		for _, v := range of(all, "Memory") {
			if mib, _ := v["CapacityMiB"].(float64); mib > 0 {
				memory, modules = memory+mib, modules+1
			}
		}
		if memory != 512<<10 || modules != 8 {
			t.Errorf("there are %d modules with %v MiB", modules, memory)
		}
		for kind, want := range map[string]int{"Processor": 2, "Drive": 3, "NetworkAdapter": 1, "PCIeDevice": 1, "SoftwareInventory": 5} {
			if got := len(of(all, kind)); got != want {
				t.Errorf("there are %d of %s, want %d", got, kind, want)
			}
		}
		macs := fmt.Sprint(of(all, "EthernetInterface"))
		if !strings.Contains(macs, "02:00:00:00:00:01") || !strings.Contains(macs, "02:00:00:00:00:02") {
			t.Errorf("the interfaces are %s", macs)
		}
		supplies := len(of(all, "PowerSupply"))
		for _, v := range of(all, "Power") {
			supplies = max(supplies, len(v["PowerSupplies"].([]any)))
		}
		if supplies != 2 {
			t.Errorf("there are %d power supplies", supplies)
		}
	}, func(c *lab.MachineConfig) {
		c.MemoryGiB, c.Parts = 512, lab.Parts{Drives: 3, MACs: []string{"02:00:00:00:00:01", "02:00:00:00:00:02"}}
	})
}

// Parts within a resource are numbered as their paths are, storage has its volumes,
// and machines a light by which they are found.
func TestDetailsOfPersonalities(t *testing.T) {
	kinds(t, lab.Latency{}, func(t *testing.T, f *lab.Fleet, b *bmc) {
		all := walk(t, b)
		for _, kind := range []string{"Power", "Thermal", "Storage"} {
			for _, v := range of(all, kind) {
				for _, list := range v {
					parts, _ := list.([]any)
					for _, p := range parts {
						p, _ := p.(map[string]any)
						if at, _ := p["@odata.id"].(string); p["MemberId"] != nil && !strings.HasSuffix(at, "/"+p["MemberId"].(string)) {
							t.Errorf("%s has the MemberId %v", at, p["MemberId"])
						}
					}
				}
			}
		}
		for at, v := range of(all, "ComputerSystem") {
			if v["Boot"] != nil && v["UUID"] != nil && v["IndicatorLED"] == nil && v["LocationIndicatorActive"] == nil {
				t.Errorf("%s has no light", at)
			}
		}
		storages, volumes := of(all, "Storage"), of(all, "Volume")
		for at, v := range storages {
			if v["Volumes"] == nil && f.Machine("n1").State().Personality != "ilo5" {
				t.Errorf("%s has no volumes", at)
			}
		}
		if want := map[string]int{"plain": 2, "idrac9": 2}[f.Machine("n1").State().Personality]; len(volumes) != want {
			t.Errorf("there are %d volumes, want %d", len(volumes), want)
		}
	})
}

// A BMC says which apply times a change of the BIOS may name, and a window that
// it is to wait for has a beginning and an end.
func TestApplyTimes(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b := beside(t, f)
	_, settings, _ := b.bios(f)
	when, _ := b.want(200, "GET", settings, "")["@Redfish.SettingsApplyTime"].(map[string]any)
	if fmt.Sprint(when["ApplyTime@Redfish.AllowableValues"]) != "[OnReset]" || when["ApplyTime"] != "OnReset" {
		t.Errorf("the apply times are %v", when)
	}
	f = build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Personality = "idrac9" }))
	b = beside(t, f)
	_, settings, _ = b.bios(f)
	const change = `{"Attributes": {"LogicalProc": "Disabled"}, "@Redfish.SettingsApplyTime": {"ApplyTime": "AtMaintenanceWindowStart"%s}}`
	if v := b.want(400, "PATCH", settings, fmt.Sprintf(change, "")); !strings.Contains(fmt.Sprint(v), "MaintenanceWindowStartTime") {
		t.Errorf("without a window the answer is %v", v)
	}
	ok(t, b, "PATCH", settings, fmt.Sprintf(change, `, "MaintenanceWindowStartTime": "2031-01-01T00:00:00Z", "MaintenanceWindowDurationInSeconds": 600`))
}

// What is taken out is not there, or a place that is empty.
func TestPartsThatAreMissing(t *testing.T) {
	f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Parts.Missing = []string{"drive2"} }))
	b, m := beside(t, f), f.Machine("n1")
	m.SetHealth("dimm1_1", "Absent")
	m.SetHealth("psu2", "Critical")
	all := walk(t, b)
	if drives, modules := len(of(all, "Drive")), len(of(all, "Memory")); drives != 1 || modules != 1 {
		t.Errorf("there are %d drives and %d modules", drives, modules)
	}
	if v := all[sys]["Status"].(map[string]any); v["HealthRollup"] != "Critical" {
		t.Errorf("the machine is %v", v)
	}
	m.SetHealth("psu2", "OK")
	if v := b.system()["Status"].(map[string]any); v["HealthRollup"] != "OK" {
		t.Errorf("the healed machine is %v", v)
	}
}

func TestEventLog(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	const log = sys + "/LogServices/SEL"
	for i := range 70 {
		m.Log("Warning", fmt.Sprintf("Event %d.", i))
	}
	entries := b.want(200, "GET", log+"/Entries", "")["Members"].([]any)
	first := entries[0].(map[string]any)
	if len(entries) != 64 || first["Message"] != "Event 69." || first["Severity"] != "Warning" {
		t.Errorf("%d entries, the first is %v", len(entries), first)
	}
	b.want(200, "GET", first["@odata.id"].(string), "")
	b.want(204, "POST", log+"/Actions/LogService.ClearLog", "{}")
	if v := b.want(200, "GET", log+"/Entries", ""); len(v["Members"].([]any)) != 0 {
		t.Errorf("a cleared log has %v", v)
	}
}
