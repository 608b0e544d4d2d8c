package lab_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// Every link leads to a resource that says where and what it is.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	b := beside(t, build(t, one(lab.Latency{}, isOn)))
	b.want(201, "POST", sessions, account)
	seen := map[string]bool{}
	var visit func(path string)
	var follow func(v any)
	visit = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		v := b.want(200, "GET", path, "")
		if v["@odata.id"] != path || v["@odata.type"] == nil || v["Name"] == nil {
			t.Errorf("%s calls itself %v, a %v", path, v["@odata.id"], v["@odata.type"])
		}
		if members, ok := v["Members"].([]any); ok && v["Members@odata.count"] != float64(len(members)) {
			t.Errorf("%s counts %v members", path, v["Members@odata.count"])
		}
		follow(v)
	}
	follow = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if id, ok := v["@odata.id"].(string); ok {
				visit(id)
			}
			for _, x := range v {
				follow(x)
			}
		case []any:
			for _, x := range v {
				follow(x)
			}
		}
	}
	visit("/redfish/v1/")
	for _, path := range []string{sys, media, sys + "/BootOptions/Boot0001", "/redfish/v1/Chassis/1", sessions + "/1"} {
		if !seen[path] {
			t.Errorf("no link leads to %s", path)
		}
	}
}

func TestSystemSaysWhatItIs(t *testing.T) {
	v := beside(t, build(t, one(lab.Latency{}))).system()
	for name, want := range map[string]any{
		"UUID": "5e1d0000-0000-4000-8000-000000000001", "SerialNumber": "LAB1", "Manufacturer": "Lab", "Model": "One",
		"SKU": "LAB-LAB1", "BiosVersion": "1.0.0", "PowerState": "Off",
	} {
		if v[name] != want {
			t.Errorf("%s = %v, want %v", name, v[name], want)
		}
	}
	memory, processors := v["MemorySummary"].(map[string]any), v["ProcessorSummary"].(map[string]any)
	if memory["TotalSystemMemoryGiB"] != 64.0 || processors["Count"] != 2.0 {
		t.Errorf("memory %v, processors %v", memory, processors)
	}
}

// Before a login there are the version, the root, and the login itself
// (DSP0266, Authentication).
func TestWhatNeedsNoLogin(t *testing.T) {
	b := beside(t, build(t, one(lab.Latency{})))
	none := "Authorization: "
	for path, want := range map[string]int{
		"/redfish": 200, "/redfish/v1": 200, "/redfish/v1/": 200, "/redfish/v1/odata": 200, "/redfish/v1/$metadata": 200,
		"/redfish/v1/Systems": 401, sys: 401, sessions: 401, "/redfish/v1/Nothing": 401,
	} {
		resp, _ := b.do("GET", path, "", none)
		if resp.StatusCode != want || (want == 401) != (resp.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s = %s, want %d", path, resp.Status, want)
		}
		if resp.Header.Get("OData-Version") != "4.0" {
			t.Errorf("%s has OData-Version %q", path, resp.Header.Get("OData-Version"))
		}
	}
	b.want(401, "POST", resetURI, `{"ResetType": "On"}`, none)
	b.want(401, "POST", sessions+"/1", account, none)
	b.want(201, "POST", sessions, account, none)
	b.want(201, "POST", sessions+"/Members", account, none)
}

func TestSessions(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	b.want(401, "POST", sessions, `{"UserName": "admin", "Password": "no"}`)
	if m.Counts().Denied != 1 {
		t.Errorf("%d denied logins", m.Counts().Denied)
	}
	resp, _ := b.do("POST", sessions, account)
	token, location := "X-Auth-Token: "+resp.Header.Get("X-Auth-Token"), resp.Header.Get("Location")
	if resp.StatusCode != 201 || len(token) < 30 || location != sessions+"/1" {
		t.Fatalf("login = %s %q %q", resp.Status, token, location)
	}
	b.want(200, "GET", sys, "", token)
	for range 15 {
		b.want(201, "POST", sessions, account)
	}
	b.want(503, "POST", sessions, account) // it has room for 16
	b.want(204, "DELETE", location, "", token)
	b.want(401, "GET", sys, "", token)
	b.want(404, "DELETE", location, "")
	if got := m.State().Sessions; got != 15 {
		t.Errorf("%d sessions, want 15", got)
	}
	resp, _ = b.do("POST", sessions, account)
	m.ForgetSessions()
	b.want(401, "GET", sys, "", "X-Auth-Token: "+resp.Header.Get("X-Auth-Token"))
}

func TestErrorsAreRedfishErrors(t *testing.T) {
	b := beside(t, build(t, one(lab.Latency{})))
	for _, c := range []struct {
		status                   int
		method, path, body, says string
	}{
		{404, "GET", sys + "/Nothing", "", "ResourceMissingAtURI"},
		{405, "DELETE", sys, "", "OperationNotAllowed"},
		{400, "PATCH", sys, "{", "MalformedJSON"},
		{400, "PATCH", sys, `{} {}`, "MalformedJSON"},
		{400, "PATCH", sys, `{"PowerState": "On"}`, "PropertyNotWritable"},
		{400, "PATCH", sys, `{"Bogus": "On"}`, "PropertyUnknown"},
		{400, "PATCH", sys, `{"Boot": {"BootSourceOverrideTarget": "Floppy"}}`, "PropertyValueNotInList"},
		{400, "PATCH", sys, `{"Boot": {"BootSourceOverrideMode": "Legacy"}}`, "PropertyValueNotInList"},
		{413, "PATCH", sys, `{"Boot": "` + strings.Repeat("x", 64<<10) + `"}`, "PayloadTooLarge"},
		{400, "POST", resetURI, `{"ResetType": "Nmi"}`, "ActionParameterValueNotInList"},
		{400, "POST", resetURI, `{}`, "ActionParameterMissing"},
		{400, "POST", media + "/Actions/VirtualMedia.InsertMedia", `{"Image": "nfs://x/y"}`, "ActionParameterValueFormatError"},
	} {
		v := b.want(c.status, c.method, c.path, c.body)
		e, _ := v["error"].(map[string]any)
		info, _ := e["@Message.ExtendedInfo"].([]any)
		if len(info) != 1 || !strings.HasSuffix(fmt.Sprint(info[0].(map[string]any)["MessageId"]), c.says) {
			t.Errorf("%s %s has the extended information %v, want %s", c.method, c.path, info, c.says)
		}
	}
	resp, _ := b.do("DELETE", sys, "")
	if got := resp.Header.Get("Allow"); got != "GET, PATCH, HEAD, OPTIONS" {
		t.Errorf("Allow = %q", got)
	}
	b.want(412, "GET", sys, "", "OData-Version: 5.0")
}

func TestETags(t *testing.T) {
	b := beside(t, build(t, one(lab.Latency{})))
	resp, _ := b.do("GET", sys, "")
	tag := resp.Header.Get("ETag")
	b.want(304, "GET", sys, "", "If-None-Match: "+tag)
	if head, v := b.do("HEAD", sys, ""); head.StatusCode != 200 || head.Header.Get("ETag") != tag || v != nil {
		t.Errorf("HEAD = %s %q %v", head.Status, head.Header.Get("ETag"), v)
	}
	pxe := `{"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}`
	b.want(200, "PATCH", sys, pxe, "If-Match: "+strings.TrimPrefix(tag, "W/"))
	b.want(412, "PATCH", sys, `{"Boot": {"BootSourceOverrideTarget": "Cd"}}`, "If-Match: "+tag) // it has changed
	b.want(200, "PATCH", sys, pxe, "If-Match: *")
	if got := b.system()["Boot"].(map[string]any)["BootSourceOverrideTarget"]; got != "Pxe" {
		t.Errorf("the target is %v", got)
	}
}

func TestBootOrderIsCheckedAsAWhole(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	for _, order := range []string{`["Boot0002", "Boot9999"]`, `["Boot0002", "Boot0002"]`, `[]`} {
		b.want(400, "PATCH", sys, `{"Boot": {"BootOrder": `+order+`, "BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}`)
	}
	if v := b.system()["Boot"].(map[string]any); v["BootSourceOverrideEnabled"] != "Disabled" || strings.Join(m.BootOrder(), ",") != "Hdd,Pxe" {
		t.Errorf("a refused change left %v", v)
	}
	b.want(200, "PATCH", sys, `{"Boot": {"BootOrder": ["Boot0002", "Boot0001"]}}`)
	if got := strings.Join(m.BootOrder(), ","); got != "Pxe,Hdd" {
		t.Errorf("boot order = %s", got)
	}
}

func TestVirtualMedia(t *testing.T) {
	b := beside(t, build(t, one(lab.Latency{})))
	if v := b.want(200, "GET", media, ""); v["Inserted"] != false || v["ConnectedVia"] != "NotConnected" || v["Image"] != nil {
		t.Errorf("an empty slot is %v", v)
	}
	b.insert("http://127.0.0.1:1/a.iso")
	b.want(409, "POST", media+"/Actions/VirtualMedia.InsertMedia", `{"Image": "http://127.0.0.1:1/b.iso"}`)
	if v := b.want(200, "GET", media, ""); v["Inserted"] != true || v["ConnectedVia"] != "URI" || v["Image"] != "http://127.0.0.1:1/a.iso" || v["ImageName"] != "a.iso" {
		t.Errorf("a slot with a medium is %v", v)
	}
	for range 2 {
		b.want(204, "POST", media+"/Actions/VirtualMedia.EjectMedia", "{}")
	}
	if v := b.want(200, "GET", media, ""); v["Inserted"] != false {
		t.Errorf("an ejected medium is %v", v)
	}
}

func TestCallLog(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	b, m := dial(t, f), f.Machine("n1")
	b.want(201, "POST", sessions, account)
	b.want(200, "GET", sys, "")
	b.want(404, "GET", "/redfish/v1/Nothing", "")
	b.reset("On")
	b.reset("ForceOff")
	calls := f.Calls()
	if len(calls) != 5 || f.CallCount() != 5 || f.FirstCall() != calls[0].When {
		t.Fatalf("calls are %+v", calls)
	}
	want := lab.Call{When: calls[3].When, Source: calls[0].Source, Machine: "n1", Method: "POST", Path: resetURI, Status: http.StatusNoContent, Reset: "On"}
	if calls[3] != want || !strings.HasPrefix(want.Source, "127.") || calls[2].Status != 404 {
		t.Errorf("calls are %+v", calls)
	}
	if calls[0].Write() || calls[1].Write() || !calls[3].Write() {
		t.Error("only a reset is a write here")
	}
	if c := m.Counts(); c.Writes != 2 || c.Requests != 5 || c.FirstWrite != calls[3].When || c.LastWrite != calls[4].When {
		t.Errorf("counts are %+v", c)
	}
}
