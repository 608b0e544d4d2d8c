package lab_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

const (
	insertURI = media + "/Actions/VirtualMedia.InsertMedia"
	ejectURI  = media + "/Actions/VirtualMedia.EjectMedia"
	image     = `{"Image": "http://127.0.0.1:1/a.iso"}`
	once      = `{"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}`
)

// What faults answer to a request, after requests that they let pass.
func TestAnswersOfFaults(t *testing.T) {
	type request struct {
		status             int
		method, path, body string
		header             string
	}
	for kind, requests := range map[lab.FaultKind][]request{
		lab.FaultTooMany:              {{429, "GET", sys, "", ""}},
		lab.FaultGateway:              {{504, "GET", sys, "", ""}},
		lab.FaultForbidden:            {{403, "GET", sys, "", ""}},
		lab.FaultMissing:              {{404, "GET", sys, "", ""}},
		lab.FaultSessionLimit:         {{200, "GET", sys, "", ""}, {503, "POST", sessions, account, ""}},
		lab.FaultPrecondition:         {{200, "PATCH", sys, once, ""}, {412, "PATCH", sys, once, "If-Match: *"}, {412, "POST", resetURI, `{"ResetType": "On"}`, "If-Match: *"}},
		lab.FaultPreconditionRequired: {{428, "PATCH", sys, once, ""}, {200, "PATCH", sys, once, "If-Match: *"}},
		lab.FaultNotAcceptable:        {{406, "GET", sys, "", "Accept-Encoding: identity"}, {200, "GET", sys, "", "Accept-Encoding: gzip"}},
		lab.FaultRedirect:             {{308, "GET", sys, "", ""}, {200, "GET", sys + "/", "", ""}},
		lab.FaultSlash:                {{404, "GET", sys, "", ""}, {200, "GET", sys + "/", "", ""}},
		lab.FaultNoSlash:              {{404, "GET", sys + "/", "", ""}, {200, "GET", sys, "", ""}},
		lab.FaultNotReady:             {{200, "GET", sys, "", ""}, {503, "PATCH", sys, once, ""}},
		lab.FaultPOST:                 {{400, "PATCH", sys, once, ""}},
		lab.FaultState:                {{400, "POST", resetURI, `{"ResetType": "On"}`, ""}},
		lab.FaultAlready:              {{409, "POST", resetURI, `{"ResetType": "ForceOff"}`, ""}, {204, "POST", resetURI, `{"ResetType": "On"}`, ""}},
		lab.FaultNoRegistry:           {{404, "GET", "/redfish/v1/Registries/LabBiosAttributeRegistry/LabBiosAttributeRegistry.1.0.0", "", ""}},
		lab.FaultModeUnknown:          {{200, "PATCH", sys, once, ""}, {400, "PATCH", sys, `{"Boot": {"BootSourceOverrideMode": "UEFI"}}`, ""}},
		lab.FaultUnchangedRefused:     {{200, "PATCH", sys, once, ""}, {400, "PATCH", sys, once, ""}},
		lab.FaultFullBoot:             {{400, "PATCH", sys, once, ""}, {200, "PATCH", sys, strings.Replace(once, "}}", `, "BootSourceOverrideMode": "UEFI"}}`, 1), ""}},
		lab.FaultFutureState:          {{400, "PATCH", sys, once, ""}, {428, "PATCH", sys + "/SD", once, ""}, {200, "PATCH", sys + "/SD", once, "If-Match: *"}},
		lab.FaultInsertError:          {{500, "POST", insertURI, image, ""}, {409, "POST", insertURI, image, ""}},
		lab.FaultEjectHidden:          {{204, "POST", insertURI, image, ""}},
		lab.FaultTransferNeeded: {{400, "POST", insertURI, image, ""},
			{204, "POST", insertURI, strings.Replace(image, "}", `, "TransferProtocolType": "HTTP", "UserName": "u", "Password": "p"}`, 1), ""}},
		lab.FaultFlagsRefused: {{400, "POST", insertURI, strings.Replace(image, "}", `, "Inserted": true}`, 1), ""}, {204, "POST", insertURI, image, ""}},
		lab.FaultSlotWithout:  {{405, "POST", insertURI, image, ""}},
		lab.FaultNoExpand:     {{501, "GET", sys + "?$expand=.", "", ""}, {200, "GET", sys, "", ""}},
		lab.FaultNoBody:       {{204, "PATCH", sys, once, ""}},
		lab.FaultLicense:      {{200, "GET", media, "", ""}, {403, "POST", insertURI, image, ""}},
		lab.FaultEjectBody:    {{204, "POST", insertURI, image, ""}, {400, "POST", ejectURI, "", ""}, {204, "POST", ejectURI, "{}", ""}},
		lab.FaultFlagsNeeded:  {{400, "POST", insertURI, image, ""}, {204, "POST", insertURI, strings.Replace(image, "}", `, "Inserted": true, "WriteProtected": true}`, 1), ""}},
		lab.FaultQueryRefused: {{400, "POST", insertURI, strings.Replace(image, ".iso", ".iso?x=1", 1), ""}, {204, "POST", insertURI, image, ""}},
		lab.FaultClock:        {{400, "POST", insertURI, strings.Replace(image, "http:", "https:", 1), ""}, {204, "POST", insertURI, image, ""}},
		lab.FaultUsbCd:        {{400, "PATCH", sys, strings.Replace(once, "Pxe", "Cd", 1), ""}, {200, "PATCH", sys, strings.Replace(once, "Pxe", "UsbCd", 1), ""}},
		lab.FaultResetsHidden: {{200, "GET", sys + "/ResetActionInfo", "", ""}, {204, "POST", resetURI, `{"ResetType": "On"}`, ""}},
		lab.FaultSettingsElse: {{200, "GET", sys + "/SD", "", ""}, {405, "PATCH", sys + "/SD", once, ""}, {200, "PATCH", sys, once, ""}},
		lab.FaultBIOSNowhere:  {{200, "PATCH", sys + "/Bios", `{"Attributes": {"HyperThreading": "Disabled"}}`, ""}},
		lab.FaultETagEmpty:    {{412, "PATCH", sys, once, `If-Match: ""`}, {200, "PATCH", sys, once, ""}},
	} {
		t.Run(string(kind), func(t *testing.T) {
			f := build(t, one(lab.Latency{}))
			b, m := beside(t, f), f.Machine("n1")
			m.SetFault(lab.Fault{Kind: kind, RetryAfter: 1})
			for _, r := range requests {
				var header []string
				if r.header != "" {
					header = []string{r.header}
				}
				if r.status == 308 {
					b.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				}
				b.want(r.status, r.method, r.path, r.body, header...)
			}
		})
	}
}

// A fault that is met once is over then.
func TestFaultsThatHeal(t *testing.T) {
	for _, kind := range lab.FaultKinds {
		if lab.FaultText(kind) == "" {
			t.Errorf("nothing is said about %s", kind)
		}
	}
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	fault, err := lab.ParseFault("server-error:2")
	if err != nil {
		t.Fatal(err)
	}
	m.SetFault(fault)
	b.want(500, "GET", sys, "")
	b.want(500, "GET", sys, "")
	b.want(200, "GET", sys, "")
	m.SetFault(lab.Fault{Kind: lab.FaultInsertError, Times: 1})
	b.want(200, "GET", sys, "")
	b.want(500, "POST", insertURI, image)
	if v := b.want(200, "GET", media, ""); v["Inserted"] != true || m.State().Fault.Kind != lab.FaultNone {
		t.Errorf("the slot is %v, the fault %+v", v, m.State().Fault)
	}
	for _, s := range []string{"busy:0", "busy:x", "gremlins:1"} {
		if _, err := lab.ParseFault(s); err == nil {
			t.Errorf("%q is a fault", s)
		}
	}
}

// A BMC with room for few sessions.
func TestFewSessions(t *testing.T) {
	b := beside(t, build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.MaxSessions = 4 })))
	for range 4 {
		b.want(201, "POST", sessions, account)
	}
	b.want(503, "POST", sessions, account)
	b.want(204, "DELETE", sessions+"/1", "")
	b.want(201, "POST", sessions, account)
}

func TestFaultsOfSessions(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	login := func() string {
		resp, _ := b.do("POST", sessions, account)
		return "X-Auth-Token: " + resp.Header.Get("X-Auth-Token")
	}
	token := login()
	m.SetFault(lab.Fault{Kind: lab.FaultUnauthorized, Times: 1})
	b.want(401, "GET", sys, "", token)
	b.want(401, "GET", sys, "", token)
	b.want(200, "GET", sys, "", login())
	m.SetFault(lab.Fault{Kind: lab.FaultLogoutFails})
	b.want(500, "DELETE", sessions+"/2", "")
	if got := m.State().Sessions; got != 1 {
		t.Errorf("%d sessions", got)
	}
	m.SetFault(lab.Fault{Kind: lab.FaultLockout, Delay: site.Duration(time.Hour)})
	for range 3 {
		b.want(401, "POST", sessions, `{"UserName": "admin", "Password": "no"}`)
	}
	b.want(401, "POST", sessions, account)
	if c := m.Counts(); c.Lockouts != 1 || c.Denied != 4 {
		t.Errorf("the counts are %+v", c)
	}
}

func TestFaultsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := lab.New(one(lab.Latency{PowerOn: 30 * time.Second}, isOn))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, m := beside(t, f), f.Machine("n1")
		took := func(what string, want time.Duration, do func()) {
			t.Helper()
			began := time.Now()
			if do(); time.Since(began) != want {
				t.Errorf("%s took %s, want %s", what, time.Since(began), want)
			}
		}
		m.SetFault(lab.Fault{Kind: lab.FaultSlowLogin, Delay: site.Duration(12 * time.Second)})
		took("a login", 12*time.Second, func() { b.want(201, "POST", sessions, account) })
		m.SetFault(lab.Fault{Kind: lab.FaultOnConflict, Delay: site.Duration(time.Minute)})
		m.SetPower("off")
		b.want(409, "POST", resetURI, `{"ResetType": "On"}`)
		time.Sleep(time.Minute)
		b.reset("On")
		time.Sleep(31 * time.Second)
		m.SetFault(lab.Fault{Kind: lab.FaultResetLate, Delay: site.Duration(20 * time.Second)})
		b.reset("ForceOff")
		time.Sleep(19 * time.Second)
		if m.Power() != "On" {
			t.Errorf("before the delay it is %s", m.Power())
		}
		time.Sleep(3 * time.Second)
		if m.Power() != "Off" {
			t.Errorf("after the delay it is %s", m.Power())
		}
	})
}

func TestTasksOfFaults(t *testing.T) {
	for kind, want := range map[lab.FaultKind]string{lab.FaultTask: "Completed Off", lab.FaultTaskFails: "Exception On", lab.FaultNoLocation: " Off"} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, err := lab.New(one(lab.Latency{}, isOn))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				b, m := beside(t, f), f.Machine("n1")
				m.SetFault(lab.Fault{Kind: kind, Delay: site.Duration(10 * time.Second)})
				resp, v := b.do("POST", resetURI, `{"ResetType": "ForceOff"}`)
				if resp.StatusCode != 202 || v["TaskState"] != "Running" || m.Power() != "On" {
					t.Errorf("%s %v, the power is %s", resp.Status, v, m.Power())
				}
				time.Sleep(11 * time.Second)
				state := ""
				if at := resp.Header.Get("Location"); at != "" {
					state = fmt.Sprint(b.want(200, "GET", v["@odata.id"].(string), "")["TaskState"])
					b.want(map[string]int{"Completed": 204, "Exception": 500}[state], "GET", at, "")
				}
				if got := state + " " + m.Power(); got != want {
					t.Errorf("it ended %q, want %q", got, want)
				}
			})
		})
	}
	f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Personality = "idrac9" }))
	b, m := beside(t, f), f.Machine("n1")
	_, settings, _ := b.bios(f)
	m.SetFault(lab.Fault{Kind: lab.FaultTaskLate})
	resp, _ := b.do("PATCH", settings, `{"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}, "Attributes": {"LogicalProc": "Disabled"}}`)
	job := resp.Header.Get("Location")
	for range 3 {
		b.want(404, "GET", job, "")
	}
	b.want(200, "GET", job, "")
	m.SetFault(lab.Fault{Kind: lab.FaultTaskVanishes})
	b.want(200, "GET", job, "")
	m.SetPower("on")
	b.want(404, "GET", job, "")
}

func TestFaultsOfBoots(t *testing.T) {
	for kind, want := range map[lab.FaultKind]string{
		lab.FaultNone: "Disabled ", lab.FaultOverrideLost: "Disabled system", lab.FaultOverrideIgnored: "Disabled system", lab.FaultOverrideSticks: "Once ",
	} {
		f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.BootOrder = []string{"Hdd"} }))
		b, m := beside(t, f), f.Machine("n1")
		m.SetFault(lab.Fault{Kind: kind})
		b.insert("http://127.0.0.1:1/a.iso")
		b.override("Once", "Cd")
		m.SetPower("on")
		eventually(t, "the installer gives up", func() bool { return m.State().Runs != "installer" })
		if got := fmt.Sprintf("%v %s", b.system()["Boot"].(map[string]any)["BootSourceOverrideEnabled"], m.State().Runs); got != want {
			t.Errorf("%s: the override is %q, want %q", kind, got, want)
		}
	}
}

// What faults make of an override, from that and its mode: enabled, target and
// mode.
func TestFaultsOfOverrides(t *testing.T) {
	for kind, c := range map[lab.FaultKind]struct{ change, want string }{
		lab.FaultOnceUnlessSent: {`"BootSourceOverrideTarget": "Hdd"`, "Once Hdd UEFI"},
		lab.FaultModeFlips:      {`"BootSourceOverrideTarget": "Hdd"`, "Continuous Hdd Legacy"},
		lab.FaultPxeRenamed:     {`"BootSourceOverrideTarget": "Pxe"`, "Continuous UefiBootNext UEFI"},
	} {
		f := build(t, one(lab.Latency{}))
		b := beside(t, f)
		b.override("Continuous", "Cd")
		f.Machine("n1").SetFault(lab.Fault{Kind: kind})
		b.want(200, "PATCH", sys, `{"Boot": {`+c.change+`}}`)
		boot := b.system()["Boot"].(map[string]any)
		if got := fmt.Sprint(boot["BootSourceOverrideEnabled"], " ", boot["BootSourceOverrideTarget"], " ", boot["BootSourceOverrideMode"]); got != c.want {
			t.Errorf("%s: %s, want %s", kind, got, c.want)
		}
	}
}

// ETags that come back in one way only.
func TestFaultsOfETags(t *testing.T) {
	for kind, c := range map[lab.FaultKind]struct {
		shown      string
		back, want func(string) string
	}{
		lab.FaultETagWeak: {`W/"`, func(s string) string { return s }, func(s string) string { return strings.TrimPrefix(s, "W/") }},
		lab.FaultETagBare: {"", func(s string) string { return `"` + s + `"` }, func(s string) string { return s }},
		lab.FaultETagGzip: {`W/"`, func(s string) string { return s }, func(s string) string { return strings.Replace(s, "-gzip", "", 1) }},
	} {
		f := build(t, one(lab.Latency{}))
		b := beside(t, f)
		f.Machine("n1").SetFault(lab.Fault{Kind: kind})
		resp, v := b.do("GET", sys, "", "Accept-Encoding: gzip")
		tag := resp.Header.Get("ETag")
		if tag == "" || !strings.HasPrefix(tag, c.shown) || v["@odata.etag"] != tag || (kind == lab.FaultETagBare) == strings.Contains(tag, `"`) {
			t.Errorf("%s: the ETag is %s, and %v in the resource", kind, tag, v["@odata.etag"])
		}
		b.want(412, "PATCH", sys, once, "If-Match: "+c.back(tag), "Accept-Encoding: gzip")
		b.want(200, "PATCH", sys, once, "If-Match: "+c.want(tag))
	}
}

// Tasks that do not say how far they are.
func TestFaultsOfTaskStates(t *testing.T) {
	for kind, want := range map[lab.FaultKind]string{
		lab.FaultTaskNew: "New Starting Completed", lab.FaultTaskRunning: "Running Running Running",
	} {
		f := build(t, one(lab.Latency{}))
		b, m := beside(t, f), f.Machine("n1")
		m.SetFault(lab.Fault{Kind: lab.FaultTask})
		_, v := b.do("PATCH", sys, once)
		eventually(t, "the change is made", func() bool {
			return b.system()["Boot"].(map[string]any)["BootSourceOverrideTarget"] == "Pxe"
		})
		m.SetFault(lab.Fault{Kind: kind})
		var states []string
		for range 3 {
			states = append(states, fmt.Sprint(b.want(200, "GET", v["@odata.id"].(string), "")["TaskState"]))
		}
		if got := strings.Join(states, " "); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

func TestFaultsOfMedia(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	actions := func() string { return fmt.Sprint(b.want(200, "GET", media, "")["Actions"]) }
	m.SetFault(lab.Fault{Kind: lab.FaultEjectHidden})
	if strings.Contains(actions(), "Eject") {
		t.Errorf("an empty slot has %s", actions())
	}
	b.want(204, "POST", insertURI, image)
	if !strings.Contains(actions(), "Eject") {
		t.Errorf("a full slot has %s", actions())
	}
	m.SetFault(lab.Fault{Kind: lab.FaultStaleInserted, Times: 1})
	b.want(204, "POST", ejectURI, "{}")
	if v := b.want(200, "GET", media, ""); v["Inserted"] != true || m.State().Media != "" {
		t.Errorf("after an eject the slot shows %v", v)
	}
	b.want(204, "POST", ejectURI, "{}")
	if v := b.want(200, "GET", media, ""); v["Inserted"] != false {
		t.Errorf("after another it shows %v", v)
	}
	m.SetFault(lab.Fault{Kind: lab.FaultNotMapped})
	b.want(204, "POST", insertURI, image)
	b.override("Once", "Cd")
	m.SetPower("on")
	if s := m.State(); s.Runs != "system" || s.Counts.Installers != 0 {
		t.Errorf("a medium that is not mapped boots: %+v", s)
	}
}

func TestFaultsOfIdentity(t *testing.T) {
	f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Identity.UUID = "01020304-0506-0708-090a-0b0c0d0e0f10" }))
	b, m := beside(t, f), f.Machine("n1")
	for kind, want := range map[lab.FaultKind]string{
		lab.FaultUUIDSwap: "04030201-0605-0807-090a-0b0c0d0e0f10", lab.FaultUUIDUpper: "01020304-0506-0708-090A-0B0C0D0E0F10",
	} {
		m.SetFault(lab.Fault{Kind: kind})
		if got := b.system()["UUID"]; got != want {
			t.Errorf("%s: %v, want %s", kind, got, want)
		}
	}
	m.SetFault(lab.Fault{Kind: lab.FaultTwoSystems})
	members := b.want(200, "GET", "/redfish/v1/Systems", "")["Members"].([]any)
	first := b.want(200, "GET", members[0].(map[string]any)["@odata.id"].(string), "")
	if len(members) != 2 || first["UUID"] == b.system()["UUID"] {
		t.Errorf("the systems are %v", members)
	}
	m.SetFault(lab.Fault{Kind: lab.FaultGarbled})
	if v := b.system(); v["ProcessorSummary"].(map[string]any)["Count"] != "N/A" || v["PowerState"] != "Off" {
		t.Errorf("a garbled system is %v", v)
	}
	m.SetFault(lab.Fault{Kind: lab.FaultInfoObject})
	if v := b.want(404, "GET", sys+"/Nothing", ""); !strings.Contains(fmt.Sprint(v), "@Message.ExtendedInfo:map[") {
		t.Errorf("the error is %v", v)
	}
}

// An answer that breaks off is no answer, however much of it came.
func TestBrokenAnswers(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	b, m := dial(t, f), f.Machine("n1")
	m.SetFault(lab.Fault{Kind: lab.FaultDrip, Delay: site.Duration(10 * time.Millisecond)})
	b.want(200, "GET", sys, "")
	m.SetFault(lab.Fault{Kind: lab.FaultTruncated})
	req, err := http.NewRequest("GET", b.base+sys, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("admin", "pw")
	resp, err := b.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var n int
	for buf := make([]byte, 4096); err == nil; {
		var k int
		k, err = resp.Body.Read(buf)
		n += k
	}
	if err.Error() != "unexpected EOF" || n == 0 || int64(n) >= resp.ContentLength {
		t.Errorf("%d of %d bytes came, then %v", n, resp.ContentLength, err)
	}
}
