package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

const xccRefusal = `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.12.PropertyUnknown","Message":"The property @Redfish.SettingsApplyTime is not in the list of valid properties for the resource."}]}}`

func dell(t *testing.T) *settings {
	return newSettings(t, "Dell Inc.", map[string]any{"LogicalProc": "Enabled", "AssetTag": ""},
		enum("LogicalProc", "Enabled", "Disabled"), attr("AssetTag", "String", nil)).withQueue(0)
}

// XCC lists OnReset and refuses to be told so; others of which that is not known
// are told once.
func TestQuirkApplyTimeRefused(t *testing.T) {
	for vendor, writes := range map[string]int{"Lenovo": 1, "Acme": 2} {
		s := newSettings(t, vendor, map[string]any{"Mode": "Slow", "More": "No"}, enum("Mode", "Slow", "Fast"), enum("More", "No", "Yes"))
		s.times = []string{"OnReset"}
		s.write = func(_ http.Header, body map[string]any) (int, string) {
			if body["@Redfish.SettingsApplyTime"] != nil {
				return 400, xccRefusal
			}
			return 0, ""
		}
		m := open(t, s.endpoint())
		s.follows(t, m, asked(map[string]any{"Mode": "Fast"}))
		if len(s.bodies) != writes {
			t.Errorf("%s: %d writes, want %d", vendor, len(s.bodies), writes)
		}
		s.follows(t, m, asked(map[string]any{"More": "Yes"}))
		if len(s.bodies) != writes+1 {
			t.Errorf("%s: %d writes in all, want one more", vendor, len(s.bodies))
		}
	}
}

// An iDRAC makes a job only when it is told an apply time.
func TestQuirkApplyTimeMakesTheJob(t *testing.T) {
	s := dell(t)
	s.follows(t, open(t, s.endpoint()), noSMT)
	if got := fmt.Sprint(s.bodies[0]["@Redfish.SettingsApplyTime"]); got != "map[ApplyTime:OnReset]" || s.current["LogicalProc"] != "Disabled" {
		t.Errorf("told %s, and it is %v", got, s.current)
	}
	s = dell(t)
	s.times = nil // so that none is told
	if err := s.set(t, open(t, s.endpoint()), noSMT); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v, want a refusal for there is no job", err)
	}
}

// An iDRAC shows what waits as if it were so; it is not, until the job has ended.
func TestQuirkPendingShownAsCurrent(t *testing.T) {
	s := dell(t)
	s.early = true
	m := open(t, s.endpoint())
	if err := s.set(t, m, noSMT); err != nil {
		t.Fatal(err)
	}
	st := s.look(t, m, noSMT)
	if st.Have["LogicalProc"] != "?" || st.Pending["LogicalProc"] != "Disabled" || st.Busy != "" {
		t.Errorf("got have %v, pending %v, busy %q", st.Have, st.Pending, st.Busy)
	}
	s.queue[0]["JobState"] = "Running"
	clear(s.pending)
	s.current["LogicalProc"] = "Disabled"
	if st := s.look(t, m, noSMT); !strings.Contains(st.Busy, "JID_1 is changing settings") {
		t.Errorf("got %+v", st)
	}
	s.queue[0]["JobState"] = "Completed"
	if st := s.look(t, m, noSMT); st.Have["LogicalProc"] != "Disabled" || len(st.Pending) > 0 || st.Busy != "" {
		t.Errorf("got %+v", st)
	}
}

// What waits without a job never takes effect, so that it is no reason to boot.
func TestQuirkPendingWithoutJob(t *testing.T) {
	s := dell(t)
	s.pending["LogicalProc"] = "Disabled"
	if st := s.look(t, open(t, s.endpoint()), noSMT); len(st.Pending) > 0 {
		t.Errorf("got %v", st.Pending)
	}
}

// A BMC has one job for a target. One that waits for a boot is taken back, and
// what others left there does not become part of ours.
func TestQuirkOneConfigJob(t *testing.T) {
	s := dell(t)
	s.pending["AssetTag"], s.pending["LogicalProc"] = "theirs", "Enabled"
	s.addJob("Scheduled")
	cleared := false
	s.show("GET "+settingsPath, func() any {
		return map[string]any{"Attributes": s.waiting(), "Actions": map[string]any{"Oem": map[string]any{
			"DellManager.v1_0_0#DellManager.ClearPending": map[string]any{"target": "/clear"}}}}
	})
	s.answer("POST /clear", func(w http.ResponseWriter, _ *http.Request) {
		s.plug.mu.Lock()
		defer s.plug.mu.Unlock()
		cleared = true
		clear(s.pending)
		w.WriteHeader(http.StatusNoContent)
	})
	m := open(t, s.endpoint())
	if err := s.set(t, m, noSMT); err != nil || !cleared || fmt.Sprint(s.pending) != "map[LogicalProc:Disabled]" {
		t.Fatalf("got %v, pending %v", err, s.pending)
	}
	s.answer("DELETE "+queuePath+"/JID_1", status(403, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"IDRAC.2.7.LC052","Message":"lockdown"}]}}`))
	err := s.set(t, m, site.BIOS{SMT: &yes})
	if err != nil || len(s.bodies) != 1 {
		// It waits to be disabled, which is to be taken back.
		if !errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "lockdown") {
			t.Errorf("got %v", err)
		}
	} else {
		t.Error("a job that cannot be taken back was overwritten")
	}
	s.queue[0]["JobState"] = "Running"
	if err := s.set(t, m, site.BIOS{SMT: &yes}); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("got %v while a job runs", err)
	}
}

// A job that was just made is not found for a few seconds.
func TestQuirkNewJobNotFound(t *testing.T) {
	s := dell(t).withQueue(5)
	s.follows(t, open(t, s.endpoint()), noSMT)
}

// "Completed with Errors" is a failure.
func TestQuirkCompletedWithErrors(t *testing.T) {
	for _, state := range []string{"CompletedWithErrors", "Completed with Errors", "Failed"} {
		s := dell(t)
		s.boot = func() { clear(s.pending); s.queue[0]["JobState"] = state }
		m := open(t, s.endpoint())
		if err := s.set(t, m, noSMT); err != nil {
			t.Fatal(err)
		}
		err := s.restart(t, m, noSMT)
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "JID_1 ended as") || !strings.Contains(err.Error(), "as it went") {
			t.Errorf("%s: got %v", state, err)
		}
	}
}

// Jobs are purged; the values prove what was done.
func TestQuirkPurgedJobs(t *testing.T) {
	s := dell(t)
	s.boot = func() { s.queue = nil; s.takeOver() }
	s.follows(t, open(t, s.endpoint()), noSMT)
	s.boot = func() { s.queue = nil; clear(s.pending) } // nothing was done
	m := open(t, s.endpoint())
	back := site.BIOS{SMT: &yes}
	if err := errors.Join(s.set(t, m, back), s.restart(t, m, back)); err != nil {
		t.Fatal(err)
	}
	if st := s.look(t, m, back); st.Have["LogicalProc"] != "Disabled" {
		t.Errorf("got %v", st.Have)
	}
}

// The settings object is where the machine says.
func TestQuirkSettingsObject(t *testing.T) {
	for vendor, place := range map[string]string{
		"Dell Inc.": settingsPath, "HPE": "/redfish/v1/systems/1/bios/settings/", "Lenovo": biosPath + "/Pending", "Supermicro": biosPath + "/SD",
	} {
		s := newSettings(t, vendor, map[string]any{"Mode": "Slow"}, enum("Mode", "Slow", "Fast"))
		if vendor == "Dell Inc." {
			s.withQueue(0)
		}
		s.place = place
		s.show("GET "+place, func() any { return map[string]any{"Attributes": s.pending} })
		s.answer("PATCH "+place, s.patch)
		s.follows(t, open(t, s.endpoint()), asked(map[string]any{"Mode": "Fast"}))
	}
}

// Some advertise settings without saying where: the resource itself takes them,
// and cannot show what waits.
func TestQuirkNoSettingsObject(t *testing.T) {
	s := acme(t)
	s.place = ""
	fast := asked(map[string]any{"Mode": "Fast"})
	s.follows(t, open(t, s.endpoint()), fast)
	s.boot = func() { clear(s.pending) } // it takes nothing over
	m := open(t, s.endpoint())
	slow := asked(map[string]any{"Mode": "Slow"})
	if err := errors.Join(s.set(t, m, slow), s.restart(t, m, slow)); err != nil {
		t.Fatal(err)
	}
	if st := s.look(t, m, slow); st.Have["Mode"] != "Fast" || len(st.Pending) > 0 {
		t.Errorf("got %+v: a boot without effect is not a boot to come", st)
	}
}

// AMI has a settings object only while something waits, and takes no write
// without a condition.
func TestQuirkSettingsObjectNotThereYet(t *testing.T) {
	s := acme(t)
	s.answer("GET "+settingsPath, func(w http.ResponseWriter, r *http.Request) {
		s.plug.mu.Lock()
		body, _ := json.Marshal(map[string]any{"Attributes": s.pending})
		none := len(s.pending) == 0
		s.plug.mu.Unlock()
		if none {
			http.NotFound(w, r)
			return
		}
		text(string(body))(w, r)
	})
	s.write = func(h http.Header, _ map[string]any) (int, string) {
		if h.Get("If-Match") == "" {
			return http.StatusPreconditionRequired, `{}`
		}
		return 0, ""
	}
	s.follows(t, open(t, s.endpoint()), asked(map[string]any{"Mode": "Fast"}))
}

// A BMC may know its own ETag only in another form.
func TestQuirkSettingsETag(t *testing.T) {
	for _, taken := range []string{`W/"1"`, `"1"`, ""} {
		s := acme(t)
		s.write = func(h http.Header, _ map[string]any) (int, string) {
			if h.Get("If-Match") != taken {
				return http.StatusPreconditionFailed, `{}`
			}
			return 0, ""
		}
		s.follows(t, open(t, s.endpoint()), asked(map[string]any{"Mode": "Fast"}))
	}
}

// What waits and is as it is already does not wait.
func TestQuirkPendingMirrorsAll(t *testing.T) {
	s := acme(t)
	s.mirrors = true
	fast := asked(map[string]any{"Mode": "Fast", "Count": 3.0})
	m := open(t, s.endpoint())
	if st := s.look(t, m, fast); len(st.Pending) > 0 {
		t.Errorf("%v waits for a boot", st.Pending)
	}
	s.follows(t, m, fast)
	if len(s.sent()) != 1 {
		t.Errorf("sent %v, want what differs", s.sent())
	}
}

// What waits cannot be dropped everywhere; it is written over with what is.
func TestQuirkPendingCannotBeCleared(t *testing.T) {
	s := acme(t)
	s.pending["Mode"] = "Fast"
	m := open(t, s.endpoint())
	slow := asked(map[string]any{"Mode": "Slow"})
	if st := s.look(t, m, slow); st.Pending["Mode"] != "Fast" || st.Have["Mode"] != "Slow" {
		t.Errorf("got %+v", st)
	}
	if err := s.set(t, m, slow); err != nil || s.pending["Mode"] != "Slow" {
		t.Errorf("got %v, and %v waits", err, s.pending)
	}
}

// Supermicro's names end in a number that each build of a BIOS has another of.
func TestQuirkSuffixedAttributes(t *testing.T) {
	for _, suffix := range []string{"_0047", "#00F7", "__F27F"} {
		s := newSettings(t, "Supermicro", map[string]any{"SR_IOVSupport" + suffix: "Disabled", "SR_IOVSupportOther": "x", "Boot" + suffix: "EFI"},
			enum("SR_IOVSupport"+suffix, "Disabled", "Enabled"), enum("Boot"+suffix, "EFI", "Legacy"))
		m := open(t, s.endpoint())
		s.follows(t, m, site.BIOS{SRIOV: &yes, Attributes: map[string]any{"Boot": "Legacy"}})
		if want := map[string]any{"SR_IOVSupport" + suffix: "Enabled", "Boot" + suffix: "Legacy"}; !maps.Equal(s.sent(), want) {
			t.Errorf("sent %v, want %v", s.sent(), want)
		}
	}
	s := newSettings(t, "Supermicro", map[string]any{"SR_IOVSupport_0047": "Enabled", "SR_IOVSupport_0048": "Enabled"})
	st := s.look(t, open(t, s.endpoint()), site.BIOS{SRIOV: &yes})
	if !strings.Contains(st.Unresolved["sriov"], "SR_IOVSupport_0047 and SR_IOVSupport_0048") {
		t.Errorf("got %v", st.Unresolved)
	}
}

// Vendors call the same value Enable and Enabled, and show one name for another.
func TestQuirkValueNames(t *testing.T) {
	shown := enum("VTdSupport", "0", "1")
	shown["Value"] = []map[string]any{{"ValueName": "0", "ValueDisplayName": "Disabled"}, {"ValueName": "1", "ValueDisplayName": "Enabled"}}
	threads := enum("Hyper_Threading_ALL__F27F", "0", "1")
	threads["Value"] = []map[string]any{{"ValueName": "0", "ValueDisplayName": "Enable"}, {"ValueName": "1", "ValueDisplayName": "Disable"}}
	opposite := enum("ProcessorHyperThreadingDisable", "0", "1")
	opposite["Value"] = []map[string]any{{"ValueName": "0", "ValueDisplayName": "Enabled"}, {"ValueName": "1", "ValueDisplayName": "Disabled"}}
	for name, c := range map[string]struct {
		vendor string
		has    map[string]any
		attr   map[string]any
		design site.BIOS
		sent   any
	}{
		"Enable":                 {"Supermicro", map[string]any{"SecurityDeviceSupport": "Disable"}, enum("SecurityDeviceSupport", "Disable", "Enable"), site.BIOS{TPM: &yes}, "Enable"},
		"by number, shown names": {"NVIDIA", map[string]any{"VTdSupport": 0}, shown, site.BIOS{IOMMU: &yes}, 1.0},
		"named for the opposite": {"Intel Corporation", map[string]any{"ProcessorHyperThreadingDisable": 0}, opposite, noSMT, 1.0},
		"what people are shown":  {"Supermicro", map[string]any{"Hyper_Threading_ALL__F27F": "Enable"}, threads, noSMT, "Disable"},
		"a truth value":          {"Supermicro", map[string]any{"SecureBootEnable_0001": false}, attr("SecureBootEnable_0001", "Boolean", nil), site.BIOS{SecureBoot: &yes}, true},
		"without a registry":     {"Dell Inc.", map[string]any{"LogicalProc": "Enabled"}, enum("Other", "x"), noSMT, "Disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSettings(t, c.vendor, c.has, c.attr)
			if c.vendor == "Dell Inc." {
				s.withQueue(0)
			}
			s.follows(t, open(t, s.endpoint()), c.design)
			for _, v := range s.sent() {
				if v != c.sent {
					t.Errorf("sent %#v, want %#v", v, c.sent)
				}
			}
		})
	}
	s := newSettings(t, "Intel Corporation", map[string]any{"ProcessorHyperThreadingDisable": 1}, attr("ProcessorHyperThreadingDisable", "Integer", nil))
	if st := s.look(t, open(t, s.endpoint()), noSMT); st.Unresolved["smt"] == "" {
		t.Error("a number whose sense nobody tells was taken for a switch")
	}
}

// Dell writes "Readonly", and -1 where there is no bound.
func TestQuirkRegistrySpelling(t *testing.T) {
	a := readAttribute(decoded(t, `{"Type":"Integer","Readonly":true,"LowerBound":-1,"UpperBound":100}`))
	if !a.ReadOnly || a.Lower != nil || a.Upper == nil || *a.Upper != 100 {
		t.Errorf("got %+v", a)
	}
}

func decoded(t *testing.T, text string) (o object) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// depends is a rule of a registry.
func depends(on, is, value, property, about string, to any) map[string]any {
	return map[string]any{"Dependency": map[string]any{"MapToAttribute": about, "MapToProperty": property, "MapToValue": to,
		"MapFrom": []any{map[string]any{"MapFromAttribute": on, "MapFromProperty": "CurrentValue", "MapFromCondition": is, "MapFromValue": value}}}}
}

// A profile locks what belongs to it. What the profile brings about is not sent,
// and what contradicts it is said before anything is written.
func TestQuirkSettingLockedByAnother(t *testing.T) {
	s := newSettings(t, "Dell Inc.", map[string]any{"SysProfile": "Custom", "ProcTurboMode": "Disabled"},
		enum("SysProfile", "Custom", "PerfOptimized"), enum("ProcTurboMode", "Enabled", "Disabled")).withQueue(0)
	s.registry["RegistryEntries"].(map[string]any)["Dependencies"] = []any{
		depends("SysProfile", "NEQ", "Custom", "ReadOnly", "ProcTurboMode", true),
		depends("SysProfile", "EQU", "PerfOptimized", "CurrentValue", "ProcTurboMode", "Enabled"),
	}
	s.boot = func() {
		s.queue[len(s.queue)-1]["JobState"] = "Completed"
		if s.takeOver(); s.current["SysProfile"] == "PerfOptimized" {
			s.current["ProcTurboMode"] = "Enabled"
		}
	}
	m := open(t, s.endpoint())
	st := s.look(t, m, site.BIOS{Profile: "performance", Turbo: &no})
	if got := st.Unresolved["turbo"]; !strings.Contains(got, "SysProfile is PerfOptimized") {
		t.Errorf("got %v", st.Unresolved)
	}
	s.follows(t, m, site.BIOS{Profile: "performance", Turbo: &yes})
	if len(s.sent()) != 1 {
		t.Errorf("sent %v, want the profile alone", s.sent())
	}
	// With the profile they can be set together again.
	s.follows(t, m, site.BIOS{Turbo: &no, Attributes: map[string]any{"SysProfile": "Custom"}})
}

// What can be set only after another has taken effect takes a second boot.
func TestQuirkTwoBoots(t *testing.T) {
	for name, both := range map[string]bool{"refused together": true, "not shown before": false} {
		t.Run(name, func(t *testing.T) {
			s := newSettings(t, "Supermicro", map[string]any{"HTTPBoot": "Disabled"}, enum("HTTPBoot", "Disabled", "Enabled"), enum("HTTPBootNIC", "None", "NIC1"))
			s.registry["RegistryEntries"].(map[string]any)["Dependencies"] = []any{depends("HTTPBoot", "EQU", "Disabled", "GrayOut", "HTTPBootNIC", true)}
			if both {
				s.current["HTTPBootNIC"] = "None"
			}
			s.write = func(_ http.Header, body map[string]any) (int, string) {
				if body["Attributes"].(map[string]any)["HTTPBootNIC"] != nil && s.current["HTTPBoot"] == "Disabled" {
					return 400, `{}`
				}
				return 0, ""
			}
			s.boot = func() {
				s.takeOver()
				if s.current["HTTPBootNIC"] == nil {
					s.current["HTTPBootNIC"] = "None"
				}
			}
			m := open(t, s.endpoint())
			design := asked(map[string]any{"HTTPBoot": "Enabled", "HTTPBootNIC": "NIC1"})
			if st := s.look(t, m, design); len(st.Unresolved) > 0 {
				t.Fatal(st.Unresolved)
			}
			if err := errors.Join(s.set(t, m, design), s.restart(t, m, design)); err != nil {
				t.Fatal(err)
			}
			if st := s.look(t, m, design); st.Have["HTTPBoot"] != "Enabled" || st.Have["HTTPBootNIC"] != "None" || len(st.Unresolved) > 0 {
				t.Fatalf("after one boot: %+v", st)
			}
			s.follows(t, m, design)
		})
	}
}

// A boot that was begun before is waited for, not repeated.
func TestBootForSettingsIsJoined(t *testing.T) {
	s := dell(t)
	m := open(t, s.endpoint())
	if err := s.set(t, m, noSMT); err != nil {
		t.Fatal(err)
	}
	looks := 0
	s.show("GET "+biosPath, func() any {
		if looks++; looks == 4 {
			s.boot()
		}
		return s.bios()
	})
	if err := s.restart(t, m, noSMT, func(st *site.Step) { st.Resumed = true }); err != nil || len(s.plug.asked) > 0 {
		t.Errorf("got %v after resets %v", err, s.plug.asked)
	}
}

// A task says why a setting was not taken; its monitor is never read, for XCC
// deletes what is read there.
func TestQuirkTaskMonitorDeletesTask(t *testing.T) {
	for name, location := range map[string]string{"in the body": "", "by the location": "/redfish/v1/TaskService/Tasks/7"} {
		t.Run(name, func(t *testing.T) {
			s := acme(t)
			s.answer("PATCH "+settingsPath, func(w http.ResponseWriter, r *http.Request) {
				body := `{}`
				w.Header().Set("Location", "/redfish/v1/TaskService/TaskMonitors/7")
				if location != "" {
					w.Header().Set("Location", location)
				} else {
					body = `{"@odata.type":"#Task.v1_5_1.Task","@odata.id":"/redfish/v1/TaskService/Tasks/7"}`
				}
				status(http.StatusAccepted, body)(w, r)
			})
			s.answer("GET /redfish/v1/TaskService/Tasks/7", text(`{"Id":"7","TaskState":"Exception","Messages":[{"MessageId":"X.1","Message":"no room"}]}`))
			m := open(t, s.endpoint())
			err := s.set(t, m, asked(map[string]any{"Mode": "Fast"}))
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "task 7 ended as Exception: X.1: no room") {
				t.Errorf("got %v", err)
			}
			if slices.ContainsFunc(s.bmc.took(), func(a string) bool { return strings.Contains(a, "TaskMonitors") }) {
				t.Error("the task's monitor was read")
			}
		})
	}
	s := acme(t) // one that is beside its task, which nothing else names
	s.answer("PATCH "+settingsPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/redfish/v1/TaskService/Tasks/7/Monitor")
		status(http.StatusAccepted, `{}`)(w, r)
	})
	err := s.set(t, open(t, s.endpoint()), asked(map[string]any{"Mode": "Fast"}))
	if n := s.bmc.count("GET /redfish/v1/TaskService/Tasks/7/Monitor"); n > 0 || !strings.Contains(fmt.Sprint(err), "there is no effect") {
		t.Errorf("the monitor was read %d times: %v", n, err)
	}
}

// What has not ended is no failure, by whatever name, and one that never ends
// keeps nobody from seeing that the settings are in effect.
func TestQuirkTaskStates(t *testing.T) {
	for _, state := range []string{"New", "Starting", "Pending", "Running", "Completed"} {
		s := acme(t)
		s.answer("PATCH "+settingsPath, status(http.StatusAccepted, `{"@odata.type":"#Task.v1_5_1.Task","@odata.id":"/redfish/v1/TaskService/Tasks/7"}`))
		read := 0
		s.show("GET /redfish/v1/TaskService/Tasks/7", func() any {
			if read++; read == 3 {
				s.pending["Mode"] = "Fast"
			}
			return map[string]any{"Id": "7", "TaskState": state}
		})
		s.follows(t, open(t, s.endpoint()), asked(map[string]any{"Mode": "Fast"}))
	}
}

// An accepted write is no effect.
func TestAcceptedSettingsWithoutEffect(t *testing.T) {
	s := acme(t)
	s.answer("PATCH "+settingsPath, status(http.StatusAccepted, ""))
	err := s.set(t, open(t, s.endpoint()), asked(map[string]any{"Mode": "Fast"}))
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "there is no effect") {
		t.Errorf("got %v", err)
	}
}

// A registry that another machine's BMC garbled does not stop this one.
func TestGarbledRegistryOfAnother(t *testing.T) {
	bad, good := dell(t), dell(t)
	bad.answer("GET "+registryPath, text(`{"RegistryEntries":{"Attributes":[{"AttributeName":"LogicalProc","Type":"Enumeration","Value":[{"ValueName":"Purple"}]}]}}`))
	d := New(fast)
	if st := bad.look(t, openWith(t, d, bad.endpoint()), noSMT); st.Unresolved["smt"] == "" {
		t.Errorf("got %+v", st)
	}
	if st := good.look(t, openWith(t, d, good.endpoint()), noSMT); st.Want["LogicalProc"] != "Disabled" || len(st.Unresolved) > 0 {
		t.Errorf("got %+v", st)
	}
}

// A queue has up to 256 jobs on several pages, and the one that matters may be on
// any of them.
func TestQuirkQueueOfSeveralPages(t *testing.T) {
	s := dell(t)
	s.addJob("Scheduled")
	s.pending["LogicalProc"] = "Disabled"
	s.current["LogicalProc"] = "Disabled" // as an iDRAC shows it meanwhile
	s.answer("GET "+queuePath, func(w http.ResponseWriter, r *http.Request) {
		s.plug.mu.Lock()
		defer s.plug.mu.Unlock()
		page := map[string]any{"Members": []any{map[string]any{"Id": "JID_0", "JobType": "FirmwareUpdate", "JobState": "Completed"}}, "Members@odata.nextLink": queuePath + "?$skip=1"}
		if strings.Contains(r.URL.RawQuery, "skip") {
			page = map[string]any{"Members": s.queue}
		}
		json.NewEncoder(w).Encode(page)
	})
	if st := s.look(t, open(t, s.endpoint()), noSMT); st.Have["LogicalProc"] == "Disabled" || st.Pending["LogicalProc"] != "Disabled" {
		t.Errorf("what waits for its job is shown as %v, pending %v", st.Have, st.Pending)
	}
}
