package lab_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// bios finds n1's settings, their settings object and registry, as a client
// does.
func (b *bmc) bios(f *lab.Fleet) (now, settings string, registry map[string]any) {
	b.t.Helper()
	now = b.want(200, "GET", system(f), "")["Bios"].(map[string]any)["@odata.id"].(string)
	v := b.want(200, "GET", now, "")
	settings = v["@Redfish.Settings"].(map[string]any)["SettingsObject"].(map[string]any)["@odata.id"].(string)
	for _, m := range b.want(200, "GET", "/redfish/v1/Registries", "")["Members"].([]any) {
		_, file := b.do("GET", m.(map[string]any)["@odata.id"].(string), "")
		places, _ := file["Location"].([]any)
		if len(places) == 0 {
			continue
		}
		where, _ := places[0].(map[string]any)["Uri"].(string)
		if resp, _ := b.do("GET", where, ""); where == "" || resp.StatusCode != 200 {
			continue
		}
		if registry = b.want(200, "GET", where, ""); registry["Id"] == v["AttributeRegistry"] {
			return now, settings, registry
		}
	}
	b.t.Fatalf("there is no registry %v", v["AttributeRegistry"])
	return
}

// attribute is a setting that is in force.
func (b *bmc) attribute(path, name string) any {
	b.t.Helper()
	return b.want(200, "GET", path, "")["Attributes"].(map[string]any)[name]
}

// smt is what the personalities call the same setting.
var smt = map[string]string{"plain": "HyperThreading", "idrac9": "LogicalProc", "ilo5": "ProcSMT", "xcc": "Processors_HyperThreading"}

// Every attribute is in the registry, with a value that it allows.
func TestRegistryDescribesTheAttributes(t *testing.T) {
	kinds(t, lab.Latency{}, func(t *testing.T, f *lab.Fleet, b *bmc) {
		now, _, registry := b.bios(f)
		described := map[string]map[string]any{}
		for _, a := range registry["RegistryEntries"].(map[string]any)["Attributes"].([]any) {
			described[a.(map[string]any)["AttributeName"].(string)] = a.(map[string]any)
		}
		for name, v := range b.want(200, "GET", now, "")["Attributes"].(map[string]any) {
			a := described[name]
			if a == nil {
				t.Errorf("%s is not in the registry", name)
				continue
			}
			if a["Type"] == "Enumeration" && !strings.Contains(fmt.Sprint(a["Value"]), fmt.Sprintf("ValueName:%v]", v)) {
				t.Errorf("%s = %v is not among %v", name, v, a["Value"])
			}
		}
	})
}

// A change waits for a boot, and is in force when its POST is done.
func TestSettingsAreAppliedByABoot(t *testing.T) {
	for _, name := range lab.Personalities {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, err := lab.New(one(lab.Latency{Boot: time.Minute}, func(c *lab.MachineConfig) { c.Personality, c.BIOS = name, map[string]any{smt[name]: "Disabled"} }))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				b, m := beside(t, f), f.Machine("n1")
				now, settings, _ := b.bios(f)
				if got := b.attribute(now, smt[name]); got != "Disabled" {
					t.Fatalf("it starts with %v", got)
				}
				when := ""
				if name == "idrac9" {
					when = `"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}, `
				}
				resp, _ := b.do("PATCH", settings, fmt.Sprintf(`{%s"Attributes": {"%s": "Enabled"}}`, when, smt[name]))
				if resp.StatusCode != 200 && resp.StatusCode != 202 {
					t.Fatal(resp.Status)
				}
				if now, next := b.attribute(now, smt[name]), b.attribute(settings, smt[name]); now != "Disabled" || next != "Enabled" {
					t.Errorf("before the boot it is %v and will be %v", now, next)
				}
				m.SetPower("on")
				time.Sleep(29 * time.Second)
				if got := b.attribute(now, smt[name]); got != "Disabled" {
					t.Errorf("in POST it is %v", got)
				}
				time.Sleep(2 * time.Second)
				if got := b.attribute(now, smt[name]); got != "Enabled" {
					t.Errorf("after POST it is %v", got)
				}
				if got := b.attribute(settings, smt[name]); name == "idrac9" && got != nil {
					t.Errorf("after POST %v waits", got)
				}
			})
		})
	}
}

// An iDRAC applies nothing that no job carries, and takes nothing while one
// does.
func TestJobsOfAnIDRAC(t *testing.T) {
	f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Personality = "idrac9" }))
	b, m := beside(t, f), f.Machine("n1")
	now, settings, _ := b.bios(f)
	const change = `{"Attributes": {"LogicalProc": "Disabled"}}`
	const jobs = "/redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/Jobs"
	b.want(200, "PATCH", settings, change)
	m.SetPower("on")
	if got := b.attribute(now, "LogicalProc"); got != "Enabled" {
		t.Errorf("without a job it is %v", got)
	}
	resp, _ := b.do("POST", jobs, `{"TargetSettingsURI": "`+settings+`"}`)
	job := resp.Header.Get("Location")
	if v := b.want(200, "GET", job, ""); v["JobState"] != "Scheduled" {
		t.Errorf("the job is %v", v)
	}
	if v := b.want(400, "PATCH", settings, change); !strings.Contains(fmt.Sprint(v), "SYS011") {
		t.Errorf("a second change: %v", v)
	}
	m.SetPower("off")
	m.SetPower("on")
	if v, got := b.want(200, "GET", job, ""), b.attribute(now, "LogicalProc"); v["JobState"] != "Completed" || got != "Disabled" {
		t.Errorf("the job is %v, the attribute %v", v, got)
	}
	resp, v := b.do("PATCH", settings, `{"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}, "Attributes": {"LogicalProc": "Enabled"}}`)
	task := resp.Header.Get("Location")
	if resp.StatusCode != 202 || v["TaskState"] != "Pending" || b.want(200, "GET", task, "")["TaskState"] != "Pending" {
		t.Errorf("with an apply time: %s, %v", resp.Status, v)
	}
	b.want(204, "DELETE", strings.Replace(task, "TaskService/Tasks", "JobService/Jobs", 1), "")
	m.SetPower("off")
	m.SetPower("on")
	if got := b.attribute(now, "LogicalProc"); got != "Disabled" {
		t.Errorf("after its job was deleted it is %v", got)
	}
}

// What a registry does not allow is refused, with the reason.
func TestSettingsThatAreRefused(t *testing.T) {
	b := beside(t, build(t, one(lab.Latency{})))
	for change, says := range map[string]string{
		`{"Attributes": {"Nothing": 1}}`:                                               "PropertyUnknown",
		`{"Attributes": {"SystemSerialNumber": "x"}}`:                                  "PropertyNotWritable",
		`{"Attributes": {"HyperThreading": "Maybe"}}`:                                  "PropertyValueNotInList",
		`{"Attributes": {"HyperThreading": true}}`:                                     "PropertyValueTypeError",
		`{"Attributes": {"PatrolScrubHours": 25}}`:                                     "PropertyValueOutOfRange",
		`{"Attributes": {"PatrolScrubHours": "24"}}`:                                   "PropertyValueTypeError",
		`{"Attributes": {"PatrolScrubHours": 1.5}}`:                                    "PropertyValueTypeError",
		`{"Attributes": {"QuietBoot": 1}}`:                                             "PropertyValueTypeError",
		`{"Attributes": {"AssetTag": "` + strings.Repeat("x", 33) + `"}}`:              "PropertyValueFormatError",
		`{"Attributes": {"HttpBootDevice": "Nic2"}}`:                                   "PropertyNotWritable",
		`{"Attributes": {}, "@Redfish.SettingsApplyTime": {"ApplyTime": "Immediate"}}`: "PropertyValueNotInList",
		`{}`: "EmptyJSON",
	} {
		if v := b.want(400, "PATCH", sys+"/Bios/Settings", change); !strings.Contains(fmt.Sprint(v), says) {
			t.Errorf("%s: %v, want %s", change, v, says)
		}
	}
	b.want(405, "PATCH", sys+"/Bios", `{"Attributes": {"AssetTag": "x"}}`)
}

// A setting that another makes available needs a boot between the two.
func TestSettingsThatNeedTwoBoots(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	const settings, second = sys + "/Bios/Settings", `{"Attributes": {"HttpBootDevice": "Nic2"}}`
	b.want(200, "PATCH", settings, `{"Attributes": {"HttpBoot": "Enabled"}}`)
	b.want(400, "PATCH", settings, second)
	m.SetPower("on")
	b.want(200, "PATCH", settings, second)
	b.want(204, "POST", sys+"/Bios/Actions/Bios.ResetBios", "{}")
	m.SetPower("off")
	m.SetPower("on")
	if got := b.attribute(sys+"/Bios", "HttpBoot"); got != "Disabled" {
		t.Errorf("after a reset of the settings it is %v", got)
	}
}

func TestFaultsOfSettings(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	const change = `{"Attributes": {"HyperThreading": "Disabled"}}`
	m.SetFault(lab.Fault{Kind: lab.FaultPendingShown})
	b.want(200, "PATCH", sys+"/Bios/Settings", change)
	if got := b.attribute(sys+"/Bios", "HyperThreading"); got != "Disabled" {
		t.Errorf("a pending value is not shown: %v", got)
	}
	m.SetFault(lab.Fault{Kind: lab.FaultBIOSDropped})
	m.SetPower("on")
	if got := b.attribute(sys+"/Bios", "HyperThreading"); got != "Enabled" {
		t.Errorf("a dropped value is %v", got)
	}
	if text, err := json.Marshal(b.want(200, "GET", sys+"/Bios/Settings", "")["Attributes"]); string(text) != "{}" {
		t.Errorf("%s waits: %v", text, err)
	}
}
