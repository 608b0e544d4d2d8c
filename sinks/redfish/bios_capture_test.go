package redfish

import (
	"compress/gzip"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
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
	s.place = settings["SettingsObject"].(map[string]any)["@odata.id"].(string)
	waiting := read(s.place)["Attributes"].(map[string]any)
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

// resourcesOf is what a BMC answered, by path in lower case without a slash at
// the end. Where there are no captures the test is left out, and fails in CI.
func resourcesOf(t testing.TB, file string) map[string]json.RawMessage {
	t.Helper()
	dir := os.Getenv("SLIPWAY_CAPTURES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "captures")
	}
	f, err := os.Open(filepath.Join(dir, file+".json.gz"))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("captures have to be there in CI: %v", err)
		}
		t.Skipf("no captures of real machines here; SLIPWAY_CAPTURES says where they are: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all, folded = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	for path, body := range all {
		folded[strings.ToLower(strings.TrimRight(path, "/"))] = body
	}
	return folded
}

// Every intent becomes an attribute and a value of the machine's own registry.
func TestCapturedIntents(t *testing.T) {
	for file, c := range map[string]struct {
		system string
		offers map[string]string
	}{
		"dell-r750-idrac9": {"/redfish/v1/Systems/System.Embedded.1", map[string]string{
			"smt=true": "LogicalProc Enabled", "smt=false": "LogicalProc Disabled",
			"virtualization=true": "ProcVirtualization Enabled", "virtualization=false": "ProcVirtualization Disabled",
			"iommu=true": "ProcVirtualization Enabled", "iommu=false": "ProcVirtualization Disabled",
			"sriov=true": "SriovGlobalEnable Enabled", "sriov=false": "SriovGlobalEnable Disabled",
			"turbo=true": "ProcTurboMode Enabled", "turbo=false": "ProcTurboMode Disabled",
			"secureBoot=true": "SecureBoot Enabled", "secureBoot=false": "SecureBoot Disabled",
			"tpm=true": "TpmSecurity On", "tpm=false": "TpmSecurity Off",
			"profile=performance": "SysProfile PerfOptimized", "profile=balanced": "SysProfile PerfPerWattOptimizedDapc",
		}},
		"hpe-dl385g10plus-ilo5": {"/redfish/v1/Systems/1", map[string]string{
			"smt=true": "ProcSMT Enabled", "smt=false": "ProcSMT Disabled",
			"iommu=true": "ProcAmdIoVt Enabled", "iommu=false": "ProcAmdIoVt Disabled",
			"sriov=true": "Sriov Enabled", "sriov=false": "Sriov Disabled",
			"turbo=true": "ProcAMDBoost Enabled", "turbo=false": "ProcAMDBoost Disabled",
			"tpm=true": "TpmVisibility Visible", "tpm=false": "TpmVisibility Hidden",
			"profile=performance": "WorkloadProfile GeneralThroughputCompute", "profile=balanced": "WorkloadProfile GeneralPowerEfficientCompute",
		}},
		"lenovo-sr670v2-xcc": {"/redfish/v1/Systems/1", map[string]string{
			"smt=true": "Processors_HyperThreading Enabled", "smt=false": "Processors_HyperThreading Disabled",
			"virtualization=true": "Processors_IntelVirtualizationTechnology Enabled", "virtualization=false": "Processors_IntelVirtualizationTechnology Disabled",
			"iommu=true": "DevicesandIOPorts_IntelVTforDirectedIOVTd Enabled", "iommu=false": "DevicesandIOPorts_IntelVTforDirectedIOVTd Disabled",
			"sriov=true": "DevicesandIOPorts_SRIOV Enabled", "sriov=false": "DevicesandIOPorts_SRIOV Disabled",
			"turbo=true": "Processors_TurboMode Enabled", "turbo=false": "Processors_TurboMode Disabled",
			"secureBoot=true": "SecureBootConfiguration_SecureBootSetting Enabled", "secureBoot=false": "SecureBootConfiguration_SecureBootSetting Disabled",
			"profile=performance": "OperatingModes_ChooseOperatingMode MaximumPerformance", "profile=balanced": "OperatingModes_ChooseOperatingMode Efficiency_FavorPerformance",
			"profile=powersave": "OperatingModes_ChooseOperatingMode MinimalPower",
		}},
	} {
		t.Run(file, func(t *testing.T) {
			s := realSettings(t, file, c.system)
			m := open(t, s.endpoint())
			st := s.look(t, m, noSMT)
			got := map[string]string{}
			for asked, v := range st.Offers {
				for name, value := range v {
					got[asked] = name + " " + value
					if settingTextOf(s.current[name]) != st.Have[name] {
						t.Errorf("%s is %v, and shown as %q", name, s.current[name], st.Have[name])
					}
				}
			}
			if !maps.Equal(got, c.offers) {
				t.Errorf("got %v, want %v", got, c.offers)
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
