package lab_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/captures"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// A machine that is made from a capture shows it, and lives: its power, boot
// settings, media and firmware settings change as the capture says they can.
func TestCaptures(t *testing.T) {
	for _, file := range captures.Files(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Capture = file }))
			b := beside(t, f)
			if !strings.Contains(system(f), "/Systems/") { // it let nobody see its systems
				b.want(200, "GET", "/redfish/v1", "")
				return
			}
			live(t, f, b)
		})
	}
}

// live takes a machine through its life by what its resources say of
// themselves.
func live(t *testing.T, f *lab.Fleet, b *bmc) {
	m, at := f.Machine("n1"), system(f)
	v := b.want(200, "GET", at, "")
	if v["UUID"] != "5e1d0000-0000-4000-8000-000000000001" || v["PowerState"] != "Off" {
		t.Errorf("the machine is %v, %v", v["UUID"], v["PowerState"])
	}
	boot := v["Boot"].(map[string]any)
	order := boot["BootOrder"].([]any)
	if len(order) > 1 {
		ok(t, b, "PATCH", at, fmt.Sprintf(`{"Boot": {"BootOrder": [%q, %q]}}`, order[1], order[0]))
		if got := b.want(200, "GET", at, "")["Boot"].(map[string]any)["BootOrder"]; fmt.Sprint(got) != fmt.Sprint([]any{order[1], order[0]}) {
			t.Errorf("the boot order is %v", got)
		}
	}
	b.want(400, "PATCH", at, `{"Boot": {"BootSourceOverrideTarget": "Toaster"}}`)
	ok(t, b, "PATCH", at, `{"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}`)
	reset := v["Actions"].(map[string]any)["#ComputerSystem.Reset"].(map[string]any)["target"].(string)
	ok(t, b, "POST", reset, `{"ResetType": "On"}`)
	eventually(t, "the power is on", func() bool { return m.Power() == "On" })
	after := b.want(200, "GET", at, "")
	if got := after["Boot"].(map[string]any)["BootSourceOverrideEnabled"]; got != "Disabled" || after["PowerState"] != "On" {
		t.Errorf("after the boot the override is %v, the power %v", got, after["PowerState"])
	}
	b.want(400, "POST", reset, `{"ResetType": "Explode"}`)
	insertAndEject(t, f, b)
	settings(t, f, b)
}

// ok sends a request that is to succeed.
func ok(t *testing.T, b *bmc, method, path, body string) {
	t.Helper()
	if resp, v := b.do(method, path, body); resp.StatusCode/100 != 2 {
		t.Errorf("%s %s %s = %s: %v", method, path, body, resp.Status, v)
	}
}

// insertAndEject uses the first slot that can take a medium.
func insertAndEject(t *testing.T, f *lab.Fleet, b *bmc) {
	const image = `{"Image": "http://127.0.0.1:1/a.iso"}`
	for at, v := range of(walkFrom(t, b, system(f)), "VirtualMedia") {
		if v["Inserted"] != false {
			continue
		}
		insert, target := "PATCH", at
		if a, ok := v["Actions"].(map[string]any); ok && a["#VirtualMedia.InsertMedia"] != nil {
			insert, target = "POST", a["#VirtualMedia.InsertMedia"].(map[string]any)["target"].(string)
		}
		ok(t, b, insert, target, image)
		full := b.want(200, "GET", at, "")
		if full["Inserted"] != true || f.Machine("n1").State().Media == "" {
			t.Errorf("the slot is %v", full)
		}
		if insert == "PATCH" {
			ok(t, b, "PATCH", at, `{"Image": null}`)
		} else {
			ok(t, b, "POST", full["Actions"].(map[string]any)["#VirtualMedia.EjectMedia"].(map[string]any)["target"].(string), `{}`)
		}
		if v := b.want(200, "GET", at, ""); v["Inserted"] != false {
			t.Errorf("the ejected slot is %v", v)
		}
		return
	}
	t.Error("there is no slot for media")
}

// settings changes the first choice of the registry that can be changed.
func settings(t *testing.T, f *lab.Fleet, b *bmc) {
	m := f.Machine("n1")
	now, settings, registry := b.bios(f)
	values := b.want(200, "GET", now, "")["Attributes"].(map[string]any)
	for _, a := range registry["RegistryEntries"].(map[string]any)["Attributes"].([]any) {
		a := a.(map[string]any)
		name, choices := a["AttributeName"].(string), a["Value"]
		if a["Type"] != "Enumeration" || a["ReadOnly"] == true || values[name] == nil {
			continue
		}
		for _, c := range choices.([]any) {
			other := c.(map[string]any)["ValueName"]
			change := fmt.Sprintf(`"Attributes": {%q: %q}`, name, other)
			resp, _ := b.do("PATCH", settings, `{`+change+`, "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}`)
			if other == values[name] || resp.StatusCode == 400 {
				m.SetPower("off")
				m.SetPower("on")
				continue
			}
			if got := b.attribute(now, name); got != values[name] {
				t.Errorf("before a boot %s is %v", name, got)
			}
			m.SetPower("off")
			m.SetPower("on")
			if got := b.attribute(now, name); got != other {
				t.Errorf("after a boot %s is %v, want %v", name, got, other)
			}
			return
		}
	}
	t.Error("no attribute could be changed")
}

// What a BMC refused when it was captured it refuses again.
func TestCaptureOfRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "capture.json")
	text := `{"/redfish/v1": {"@odata.type": "#ServiceRoot.v1_0_0.ServiceRoot"},
		"/redfish/v1/Chassis": {"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.InsufficientPrivilege"}]}},
		"/redfish/v1/Systems": {"error": {"code": "Base.1.8.GeneralError"}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := beside(t, build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Capture = file })))
	b.want(200, "GET", "/redfish/v1", "")
	b.want(403, "GET", "/redfish/v1/Chassis", "")
	b.want(404, "GET", "/redfish/v1/Systems", "")
}

// A capture of a vendor that nobody has heard of is served as well; what is in
// its resources decides.
func TestCaptureOfAnUnknownVendor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "capture.json")
	text := `{
		"/redfish/v1/": {"@odata.id": "/redfish/v1/", "@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot", "Name": "Root", "Systems": {"@odata.id": "/redfish/v1/Systems"}, "Managers": {"@odata.id": "/redfish/v1/Managers"}, "Registries": {"@odata.id": "/redfish/v1/Registries"}},
		"/redfish/v1/Systems": {"@odata.id": "/redfish/v1/Systems", "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection", "Members": [{"@odata.id": "/redfish/v1/Systems/Board"}, {"@odata.id": "/redfish/v1/Systems/Self/"}]},
		"/redfish/v1/Systems/Board": {"@odata.id": "/redfish/v1/Systems/Board", "@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem", "UUID": "0"},
		"/redfish/v1/Systems/Self": {"@odata.id": "/redfish/v1/Systems/Self", "@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem", "UUID": "ABCD", "SerialNumber": "S", "PowerState": "On", "Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/Self"}]},
			"Boot": {"BootOrder": ["Boot0000", "Boot0001"], "BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe"]}, "Bios": {"@odata.id": "/redfish/v1/Systems/Self/Bios"},
			"Actions": {"#ComputerSystem.Reset": {"target": "/redfish/v1/Systems/Self/Actions/ComputerSystem.Reset", "@Redfish.ActionInfo": "/redfish/v1/Systems/Self/ResetActionInfo"}}},
		"/redfish/v1/Systems/Self/ResetActionInfo": {"@odata.type": "#ActionInfo.v1_0_0.ActionInfo", "Parameters": [{"Name": "ResetType", "AllowableValues": ["On", "ForceOff"]}]},
		"/redfish/v1/Systems/Self/Bios": {"@odata.type": "#Bios.v1_0_0.Bios", "AttributeRegistry": "R.1", "Attributes": {"A": "x"}, "@Redfish.Settings": {"SettingsObject": {"@odata.id": "/redfish/v1/Systems/Self/Bios/SD"}}},
		"/redfish/v1/Systems/Self/Bios/SD": {"@odata.type": "#Bios.v1_0_0.Bios", "Attributes": {}},
		"/redfish/v1/Registries": {"@odata.type": "#MessageRegistryFileCollection.MessageRegistryFileCollection", "Members": [{"@odata.id": "/redfish/v1/Registries/R.1"}]},
		"/redfish/v1/Registries/R.1": {"@odata.type": "#MessageRegistryFile.v1_0_0.MessageRegistryFile", "Location": [{"Uri": "/redfish/v1/R.json"}]},
		"/redfish/v1/R.json": {"@odata.type": "#AttributeRegistry.v1_0_0.AttributeRegistry", "Id": "R.1", "RegistryEntries": {"Attributes": [{"AttributeName": "A", "Type": "Enumeration", "Value": [{"ValueName": "x"}, {"ValueName": "y"}]}]}},
		"/redfish/v1/Managers": {"@odata.type": "#ManagerCollection.ManagerCollection", "Members": [{"@odata.id": "/redfish/v1/Managers/Self"}]},
		"/redfish/v1/Managers/Self": {"@odata.type": "#Manager.v1_0_0.Manager", "VirtualMedia": {"@odata.id": "/redfish/v1/Managers/Self/VirtualMedia"}},
		"/redfish/v1/Managers/Self/VirtualMedia": {"@odata.type": "#VirtualMediaCollection.VirtualMediaCollection", "Members": [{"@odata.id": "/redfish/v1/Managers/Self/VirtualMedia/CD1"}]},
		"/redfish/v1/Managers/Self/VirtualMedia/CD1": {"@odata.type": "#VirtualMedia.v1_0_0.VirtualMedia", "Inserted": false, "Image": "", "Actions": {"#VirtualMedia.InsertMedia": {"target": "/redfish/v1/Managers/Self/VirtualMedia/CD1/Actions/VirtualMedia.InsertMedia"}}}
	}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Capture = file }))
	live(t, f, beside(t, f))
	f = build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Capture, c.Identity.UUID = file, "" }))
	if v := beside(t, f).want(200, "GET", "/redfish/v1/Systems/Self", ""); v["UUID"] != "abcd" {
		t.Errorf("without an identity of its own it is %v", v["UUID"])
	}

	// One that shows what people are shown of a value takes that, and not the name.
	text = strings.NewReplacer(`"ValueName": "x"`, `"ValueName": "0", "ValueDisplayName": "x"`, `"ValueName": "y"`, `"ValueName": "1", "ValueDisplayName": "y"`).Replace(text)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := beside(t, build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Capture = file })))
	b.want(400, "PATCH", "/redfish/v1/Systems/Self/Bios/SD", `{"Attributes": {"A": "1"}}`)
	if resp, v := b.do("PATCH", "/redfish/v1/Systems/Self/Bios/SD", `{"Attributes": {"A": "y"}}`); resp.StatusCode >= 300 {
		t.Errorf("got %s: %v", resp.Status, v)
	}
}

// boards is a capture of a BMC with systems of these ids and resources; what is
// left out of a resource it does not have.
func boards(t *testing.T, systems map[string]string, more ...string) string {
	t.Helper()
	all := []string{`"/redfish/v1": {"@odata.type": "#ServiceRoot.v1_0_0.ServiceRoot", "Systems": {"@odata.id": "/redfish/v1/Systems"}}`}
	var members []string
	for _, id := range slices.Sorted(maps.Keys(systems)) {
		at := "/redfish/v1/Systems/" + id
		members = append(members, fmt.Sprintf(`{"@odata.id": %q}`, at))
		all = append(all, fmt.Sprintf(`"%[1]s": {"@odata.id": "%[1]s", "@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem", "UUID": "uuid-%[2]s", "SerialNumber": "S-%[2]s",
			"Actions": {"#ComputerSystem.Reset": {"target": "%[1]s/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": ["On", "ForceOff"]}}%[3]s}`, at, id, systems[id]))
	}
	all = append(all, fmt.Sprintf(`"/redfish/v1/Systems": {"@odata.type": "#ComputerSystemCollection.ComputerSystemCollection", "Members": [%s]}`, strings.Join(members, ",")))
	text := "{" + strings.Join(append(all, more...), ",\n") + "}"
	file := filepath.Join(t.TempDir(), "capture.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A boot override is where the capture has it: in the settings object of the system,
// or nowhere.
func TestCaptureOfOverrides(t *testing.T) {
	const at, pending = "/redfish/v1/Systems/a", "/redfish/v1/Systems/a/SD"
	const once = `{"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}`
	boot := func(b *bmc, at string) map[string]any {
		v, _ := b.want(200, "GET", at, "")["Boot"].(map[string]any)
		return v
	}
	serve := func(system string, more ...string) *bmc {
		file := boards(t, map[string]string{"a": system}, more...)
		return beside(t, build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Capture = file })))
	}

	b := serve(`, "Boot": {"BootOrder": ["Boot0001"]}, "@Redfish.Settings": {"SettingsObject": {"@odata.id": "`+pending+`"}}`,
		`"`+pending+`": {"@odata.id": "`+pending+`", "@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem", "Boot": {"BootSourceOverrideEnabled": "Disabled",
			"BootSourceOverrideTarget": "None", "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe"]}}`)
	if got := boot(b, pending); got["BootSourceOverrideEnabled"] != "Disabled" || got["BootSourceOverrideTarget@Redfish.AllowableValues"] == nil || got["BootOrder"] != nil {
		t.Errorf("the settings object has %v", got)
	}
	b.want(400, "PATCH", pending, `{"Boot": {"BootSourceOverrideTarget": "Hdd"}}`)
	b.want(400, "PATCH", pending, `{"Boot": {"BootSourceOverrideMode": "UEFI"}}`)
	b.want(400, "PATCH", at, once)
	ok(t, b, "PATCH", pending, once)
	if got := boot(b, pending); got["BootSourceOverrideEnabled"] != "Once" || got["BootSourceOverrideTarget"] != "Pxe" {
		t.Errorf("the override is %v", got)
	}
	if got := boot(b, at); len(got) != 1 {
		t.Errorf("the system has %v", got)
	}

	b = serve(`, "Boot": {"BootOrder": ["Boot0001"]}`)
	if got := boot(b, at); len(got) != 1 {
		t.Errorf("without an override it has %v", got)
	}
	b.want(400, "PATCH", at, once)
	if v := serve("").want(200, "GET", at, ""); v["Boot"] != nil {
		t.Errorf("without boot settings it has %v", v["Boot"])
	}
}

// Each system of a capture is a machine, behind the one BMC.
func TestCaptureOfSeveralSystems(t *testing.T) {
	file := boards(t, map[string]string{"a": "", "b": "", "c": ""})
	if ids, err := lab.CapturedSystems(file); err != nil || fmt.Sprint(ids) != "[a b c]" {
		t.Errorf("got %v, %v", ids, err)
	}
	c := one(lab.Latency{}, func(c *lab.MachineConfig) { c.Capture, c.SystemID, c.Identity.UUID = file, "a", "" })
	for _, id := range []string{"b", "c"} {
		m := c.Machines[0]
		m.Name, m.SystemID, m.Behind, m.BMCAddr, m.OSAddr = id, id, "n1", "", ""
		c.Machines = append(c.Machines, m)
	}
	f := build(t, c)
	b := beside(t, f)
	if v := b.want(200, "GET", "/redfish/v1/Systems", ""); len(v["Members"].([]any)) != 3 {
		t.Errorf("the systems are %v", v["Members"])
	}
	ok(t, b, "POST", "/redfish/v1/Systems/b/Actions/ComputerSystem.Reset", `{"ResetType": "On"}`)
	eventually(t, "b is on", func() bool { return f.Machine("b").Power() == "On" })
	for id, power := range map[string]string{"a": "Off", "b": "On", "c": "Off"} {
		if v := b.want(200, "GET", "/redfish/v1/Systems/"+id, ""); v["PowerState"] != power || v["UUID"] != "uuid-"+id {
			t.Errorf("%s is %v, %v, want %s", id, v["UUID"], v["PowerState"], power)
		}
	}
	c.Machines[2].SystemID = "d"
	if _, err := lab.New(c); err == nil || !strings.Contains(err.Error(), `no system "d"`) {
		t.Errorf("got %v", err)
	}
	c.Machines[2].Capture = ""
	if _, err := lab.New(c); err == nil || !strings.Contains(err.Error(), "has another BMC") {
		t.Errorf("got %v", err)
	}
}

func TestCapturesThatCannotBeServed(t *testing.T) {
	for text, says := range map[string]string{"[]": "not a JSON object of resources", "{}": "no service root", "\x1f\x8b": "EOF", `{"/redfish/v1": 7}`: "no service root"} {
		file := filepath.Join(t.TempDir(), "capture")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := lab.New(one(lab.Latency{}, func(c *lab.MachineConfig) { c.Capture = file })); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
	_, err := lab.New(one(lab.Latency{}, func(c *lab.MachineConfig) { c.Capture, c.Personality = "x", "xcc" }))
	if err == nil || !strings.Contains(err.Error(), "not both") {
		t.Error(err)
	}
}
