package redfish

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/captures"
)

// realSettings is the settings of a captured machine, with their registry, behind
// a BMC that takes changes.
func realSettings(t *testing.T, file, system string) *settings {
	t.Helper()
	all := resourcesOf(t, file)
	read := func(path string) (o map[string]any) {
		if err := json.Unmarshal(all[strings.ToLower(strings.TrimRight(path, "/"))], &o); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return o
	}
	real := read(system)
	bios := read(real["Bios"].(map[string]any)["@odata.id"].(string))
	s := newSettings(t, real["Manufacturer"].(string), bios["Attributes"].(map[string]any))
	maps.Copy(s.system, map[string]any{"Model": real["Model"], "BiosVersion": real["BiosVersion"]})
	// All that leads to the registry is the machine's own.
	delete(s.bmc.answers, "GET /redfish/v1/Registries")
	delete(s.bmc.answers, "GET /redfish/v1/Registries/BiosAttributeRegistry.v1_0_0")
	for path, body := range all {
		if strings.HasPrefix(path, "/redfish/v1/registr") || strings.Contains(path, "registries") || strings.HasSuffix(path, "/biosregistry") {
			s.folded("GET "+path, text(string(body)))
		}
	}
	if queued := s.system["Manufacturer"] == "Dell Inc."; queued {
		s.withQueue(0)
	}
	settings := bios["@Redfish.Settings"].(map[string]any)
	object := settings["SettingsObject"].(map[string]any)
	waiting := read(object["@odata.id"].(string))["Attributes"].(map[string]any)
	// Here the system has the path of the others'.
	s.place = strings.Replace(object["@odata.id"].(string), system, "/redfish/v1/Systems/1", 1)
	object["@odata.id"] = s.place
	s.mirrors = len(waiting) == len(s.current)
	s.show("GET "+biosPath, func() any {
		bios["Attributes"] = s.current
		return bios
	})
	s.show("GET "+s.place, func() any { return map[string]any{"Attributes": s.waiting()} })
	s.answer("PATCH "+s.place, s.patch)
	return s
}

// folded answers a request whose path a BMC takes in any case.
func (s *settings) folded(request string, h http.HandlerFunc) {
	s.bmc.mu.Lock()
	defer s.bmc.mu.Unlock()
	if s.bmc.fold == nil {
		s.bmc.fold = map[string]http.HandlerFunc{}
	}
	s.bmc.fold[strings.ToLower(request)] = h
}

// resourcesOf is what a BMC answered, by path in lower case.
func resourcesOf(t testing.TB, file string) map[string]json.RawMessage {
	t.Helper()
	folded := map[string]json.RawMessage{}
	for path, body := range captures.Read(t, file) {
		folded[strings.ToLower(path)] = body
	}
	return folded
}

// capturedIntents is what intents come to on captured machines: those that are
// Enabled and Disabled there, and the others.
var capturedIntents = map[string]struct {
	system   string
	switches map[string]string
	others   map[string]string
}{
	"dell-r750-idrac9": {
		system: "/redfish/v1/Systems/System.Embedded.1",
		switches: map[string]string{
			"smt": "LogicalProc", "virtualization": "ProcVirtualization", "iommu": "ProcVirtualization", "sriov": "SriovGlobalEnable",
			"turbo": "ProcTurboMode", "secureBoot": "SecureBoot",
		},
		others: map[string]string{
			"tpm=true": "TpmSecurity On", "tpm=false": "TpmSecurity Off",
			"profile=performance": "SysProfile PerfOptimized", "profile=balanced": "SysProfile PerfPerWattOptimizedDapc",
		},
	},
	"hpe-dl385g10plus-ilo5": {
		system:   "/redfish/v1/Systems/1",
		switches: map[string]string{"smt": "ProcSMT", "iommu": "ProcAmdIoVt", "sriov": "Sriov", "turbo": "ProcAMDBoost"},
		others: map[string]string{
			"tpm=true": "TpmVisibility Visible", "tpm=false": "TpmVisibility Hidden",
			"profile=performance": "WorkloadProfile GeneralThroughputCompute", "profile=balanced": "WorkloadProfile GeneralPowerEfficientCompute",
		},
	},
	"lenovo-sr670v2-xcc": {
		system: "/redfish/v1/Systems/1",
		switches: map[string]string{
			"smt": "Processors_HyperThreading", "virtualization": "Processors_IntelVirtualizationTechnology",
			"iommu": "DevicesandIOPorts_IntelVTforDirectedIOVTd", "sriov": "DevicesandIOPorts_SRIOV", "turbo": "Processors_TurboMode",
			"secureBoot": "SecureBootConfiguration_SecureBootSetting",
		},
		others: map[string]string{
			"profile=performance": "OperatingModes_ChooseOperatingMode MaximumPerformance",
			"profile=balanced":    "OperatingModes_ChooseOperatingMode Efficiency_FavorPerformance",
			"profile=powersave":   "OperatingModes_ChooseOperatingMode MinimalPower",
		},
	},
}

// Every intent becomes an attribute and a value of the machine's own registry.
func TestCapturedIntents(t *testing.T) {
	for file, c := range capturedIntents {
		t.Run(file, func(t *testing.T) {
			want := maps.Clone(c.others)
			for intent, attribute := range c.switches {
				want[intent+"=true"], want[intent+"=false"] = attribute+" Enabled", attribute+" Disabled"
			}
			s := realSettings(t, file, c.system)
			m := open(t, s.endpoint())
			st := s.look(t, m, noSMT)
			got := map[string]string{}
			for _, intent := range bios.Intents() {
				name, values := st.Settings().Meets(intent)
				for _, v := range values {
					got[intent+"="+v] = name + " " + st.Settings().Resolve(map[string]string{intent: v}).Want[name]
				}
				if name != "" && settingTextOf(s.current[name]) != st.Have[name] {
					t.Errorf("%s is %v, and shown as %q", name, s.current[name], st.Have[name])
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			s.follows(t, m, site.BIOS{SMT: &no, SRIOV: &no})
			if len(s.sent()) != 2 {
				t.Errorf("sent %v", s.sent())
			}
		})
	}
}

func settingTextOf(v any) string {
	raw, _ := json.Marshal(v)
	return settingText(raw)
}
