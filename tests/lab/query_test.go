package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/lab"
)

func TestQueries(t *testing.T) {
	b := beside(t, build(t, one(lab.Latency{})))
	const memory, chassis = sys + "/Memory", "/redfish/v1/Chassis/1"
	for query, status := range map[string]int{
		sys + "?$select=PowerState": 200, sys + "?ignored=1": 200, sys + "?$filter=x": 501, sys + "?$nothing": 501, sys + "?$top=1": 400,
		memory + "?$top=x": 400, memory + "?$skip=-1": 400, sys + "?only": 400, "/redfish/v1/Systems?only=x": 400, sys + "?$expand=x": 400, sys + "?$expand=.($levels=x)": 400, sys + "?$expand=.($levels=2)": 200,
		sys + "?$expand=*": 200, sys + "?$expand=~": 200, sys + "?$select=,": 400,
	} {
		b.want(status, "GET", query, "")
	}
	if v := b.want(200, "GET", sys+"?$select=PowerState,Boot/BootOrder", ""); len(v) != 4 || len(v["Boot"].(map[string]any)) != 1 || v["@odata.id"] == nil {
		t.Errorf("selected is %v", v)
	}
	if v := b.want(200, "GET", memory+"?$skip=1&$top=5", ""); len(v["Members"].([]any)) != 1 || v["Members@odata.count"] != 2.0 {
		t.Errorf("the page is %v", v)
	}
	first := func(query string) map[string]any {
		return b.want(200, "GET", memory+query, "")["Members"].([]any)[0].(map[string]any)
	}
	if first("")["CapacityMiB"] != nil || first("?$expand=.")["CapacityMiB"] != 32768.0 {
		t.Errorf("expanded is %v", first("?$expand=."))
	}
	if v := b.want(200, "GET", chassis+"?$expand=.", ""); v["PowerSubsystem"].(map[string]any)["Name"] == nil || len(v["Links"].(map[string]any)["ManagedBy"].([]any)[0].(map[string]any)) != 1 {
		t.Errorf("expanded without links is %v", v)
	}
	if v := b.want(200, "GET", chassis+"?$expand=~", ""); v["PowerSubsystem"].(map[string]any)["Name"] != nil || v["Links"].(map[string]any)["ManagedBy"].([]any)[0].(map[string]any)["Name"] == nil {
		t.Errorf("expanded links are %v", v)
	}
	if v := b.want(200, "GET", "/redfish/v1/Systems?only", ""); v["PowerState"] == nil {
		t.Errorf("the only system is %v", v)
	}
	resp, _ := b.do("GET", sys+"?$select=PowerState", "")
	if resp.Header.Get("ETag") != "" {
		t.Error("a selection has the ETag of the whole")
	}
}

// Who may do what (DSP0266, Redfish service privilege model).
func TestPrivileges(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b := beside(t, f)
	const accounts = "/redfish/v1/AccountService/Accounts"
	token := map[string]string{"Administrator": ""}
	for _, role := range []string{"Operator", "ReadOnly"} {
		resp, _ := b.do("POST", accounts, fmt.Sprintf(`{"UserName": %q, "Password": "secret", "RoleId": %[1]q}`, role))
		if resp.StatusCode != 201 || !strings.HasPrefix(resp.Header.Get("Location"), accounts+"/") {
			t.Fatal(resp.Status, resp.Header)
		}
		resp, _ = b.do("POST", sessions, fmt.Sprintf(`{"UserName": %q, "Password": "secret"}`, role), "Authorization: ")
		token[role] = "X-Auth-Token: " + resp.Header.Get("X-Auth-Token")
	}
	for _, c := range []struct {
		role               string
		status             int
		method, path, body string
	}{
		{"ReadOnly", 200, "GET", sys, ""}, {"ReadOnly", 403, "PATCH", sys, once}, {"ReadOnly", 403, "POST", resetURI, `{"ResetType": "On"}`},
		{"ReadOnly", 403, "GET", accounts + "/1", ""}, {"ReadOnly", 200, "GET", accounts + "/3", ""}, {"ReadOnly", 403, "PATCH", accounts + "/3", `{"RoleId": "Administrator"}`},
		{"ReadOnly", 200, "PATCH", accounts + "/3", `{"Password": "other"}`}, {"ReadOnly", 403, "DELETE", accounts + "/2", ""},
		{"Operator", 200, "PATCH", sys, once}, {"Operator", 403, "POST", "/redfish/v1/Managers/1/Actions/Manager.Reset", `{}`}, {"Operator", 403, "POST", accounts, `{}`},
		{"Operator", 403, "DELETE", sessions + "/2", ""}, {"ReadOnly", 204, "DELETE", sessions + "/2", ""}, {"Operator", 204, "POST", insertURI, image},
	} {
		b.want(c.status, c.method, c.path, c.body, token[c.role])
	}
	b.want(400, "POST", accounts, `{"UserName": "x", "Password": "secret", "RoleId": "King"}`)
	b.want(400, "POST", accounts, `{"UserName": "Operator", "Password": "secret", "RoleId": "ReadOnly"}`)
	b.want(204, "DELETE", accounts+"/2", "")
	b.want(401, "GET", sys, "", token["Operator"])
}

// Where accounts are in slots, one is put into an empty slot and taken out of
// it again.
func TestAccountsInSlots(t *testing.T) {
	f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Personality = "idrac9" }))
	b := beside(t, f)
	const accounts = "/redfish/v1/AccountService/Accounts"
	if v := b.want(200, "GET", accounts, ""); len(v["Members"].([]any)) != 16 {
		t.Errorf("the accounts are %v", v)
	}
	b.want(405, "POST", accounts, `{"UserName": "x", "Password": "secret", "RoleId": "Operator"}`)
	b.want(200, "PATCH", accounts+"/3", `{"UserName": "x", "Password": "secret", "RoleId": "Operator", "Enabled": true}`)
	b.want(201, "POST", sessions, `{"UserName": "x", "Password": "secret"}`)
	b.want(405, "DELETE", accounts+"/3", "")
	b.want(200, "PATCH", accounts+"/3", `{"UserName": "", "Enabled": false}`)
	b.want(401, "POST", sessions, `{"UserName": "x", "Password": "secret"}`)
}
