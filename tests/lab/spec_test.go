package lab_test

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// TestSpecification is what the plain personality claims of DSP0266 (Redfish
// Specification 1.18), a clause each.
func TestSpecification(t *testing.T) {
	const none = "Authorization: "
	for clause, check := range map[string]func(t *testing.T, b *bmc){
		"6.1 the version is at /redfish": func(t *testing.T, b *bmc) {
			if v := b.want(200, "GET", "/redfish", "", none); len(v) != 1 || v["v1"] != "/redfish/v1/" {
				t.Errorf("got %v", v)
			}
		},
		"6.2 the root is there with and without a slash": func(t *testing.T, b *bmc) {
			b.want(200, "GET", "/redfish/v1", "", none)
			b.want(200, "GET", "/redfish/v1/", "", none)
		},
		"7.1 PUT, and what a resource does not allow, are refused with Allow": func(t *testing.T, b *bmc) {
			for method, path := range map[string]string{"PUT": sys, "DELETE": sys, "POST": sys, "PATCH": sessions} {
				if resp, _ := b.do(method, path, "{}"); resp.StatusCode != 405 || !strings.Contains(resp.Header.Get("Allow"), "GET") {
					t.Errorf("%s %s = %s, Allow %q", method, path, resp.Status, resp.Header.Get("Allow"))
				}
			}
		},
		"7.2 a HEAD is a GET without a body": func(t *testing.T, b *bmc) {
			get, _ := b.do("GET", sys, "")
			head, v := b.do("HEAD", sys, "")
			for _, name := range []string{"ETag", "Content-Type", "Content-Length", "Link", "Allow", "OData-Version", "Cache-Control"} {
				if head.Header.Get(name) == "" || head.Header.Get(name) != get.Header.Get(name) {
					t.Errorf("%s is %q and %q", name, get.Header.Get(name), head.Header.Get(name))
				}
			}
			if head.StatusCode != 200 || v != nil {
				t.Errorf("%s %v", head.Status, v)
			}
		},
		"7.3 query parameters that are not supported are 501, unknown ones ignored": func(t *testing.T, b *bmc) {
			b.want(501, "GET", sys+"?$filter=x", "")
			b.want(200, "GET", sys+"?other=x", "")
		},
		"7.3 the features that the root declares are there": func(t *testing.T, b *bmc) {
			f := b.want(200, "GET", "/redfish/v1/", "")["ProtocolFeaturesSupported"].(map[string]any)
			expand := f["ExpandQuery"].(map[string]any)
			for query, declared := range map[string]any{
				"$select=Name": f["SelectQuery"], "$filter=Name": f["FilterQuery"], "$expand=.": expand["NoLinks"], "$expand=~": expand["Links"],
				"$expand=*": expand["ExpandAll"], "$expand=.($levels=2)": expand["Levels"],
			} {
				if resp, _ := b.do("GET", sys+"?"+query, ""); (resp.StatusCode == 200) != (declared == true) {
					t.Errorf("%s = %s, declared as %v", query, resp.Status, declared)
				}
			}
		},
		"7.5 an account has an ETag": func(t *testing.T, b *bmc) {
			if resp, _ := b.do("GET", "/redfish/v1/AccountService/Accounts/1", ""); resp.Header.Get("ETag") == "" {
				t.Error("it has none")
			}
		},
		"6.5 a read of what is known is 304, a change of what is not current 412": func(t *testing.T, b *bmc) {
			resp, _ := b.do("GET", sys, "")
			tag := resp.Header.Get("ETag")
			b.want(304, "GET", sys, "", "If-None-Match: "+tag)
			b.want(200, "PATCH", sys, once, "If-Match: "+tag)
			b.want(412, "PATCH", sys, once, "If-Match: "+tag)
		},
		"7.7 a PATCH of nothing, of annotations only, of what is unknown or fixed is refused": func(t *testing.T, b *bmc) {
			for _, change := range []string{`{}`, `{"@odata.id": "x"}`, `{"Bogus": 1}`, `{"PowerState": "On"}`, `{"Boot": 1}`, `[]`, `{`} {
				b.want(400, "PATCH", sys, change)
			}
		},
		"7.10 a POST to a collection and to its Members makes a member, and says where": func(t *testing.T, b *bmc) {
			for _, at := range []string{sessions, sessions + "/Members"} {
				resp, v := b.do("POST", at, account, none)
				if resp.StatusCode != 201 || resp.Header.Get("Location") != v["@odata.id"] || resp.Header.Get("X-Auth-Token") == "" {
					t.Errorf("%s = %s, %v", at, resp.Status, resp.Header)
				}
			}
		},
		"8.1 answers have their headers": func(t *testing.T, b *bmc) {
			resp, _ := b.do("GET", sys, "")
			for name, want := range map[string]string{
				"Content-Type": "application/json; charset=utf-8", "OData-Version": "4.0", "Cache-Control": "no-cache", "Allow": "GET, PATCH, HEAD, OPTIONS",
				"Link": "<http://redfish.dmtf.org/schemas/v1/ComputerSystem.v1_22_0.json>; rel=describedby",
			} {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			if resp.Header.Get("Server") == "" {
				t.Error("there is no Server")
			}
		},
		"8.2 OData-Version 4.0 is taken, others are 412": func(t *testing.T, b *bmc) {
			b.want(200, "GET", sys, "", "OData-Version: 4.0")
			b.want(412, "GET", sys, "", "OData-Version: 4.1")
		},
		"8.3 a body that is not JSON is 415": func(t *testing.T, b *bmc) {
			b.want(415, "PATCH", sys, once, "Content-Type: text/plain")
			b.want(200, "PATCH", sys, once, "Content-Type: application/json; charset=utf-8")
		},
		"8.4 the metadata document includes every schema that is used": func(t *testing.T, b *bmc) {
			resp, _ := b.do("GET", "/redfish/v1/$metadata", "", none)
			if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/xml") {
				t.Errorf("%s %s", resp.Status, resp.Header.Get("Content-Type"))
			}
			namespaces := includes(t, b)
			for path, v := range walk(t, b) {
				kind := strings.TrimPrefix(v["@odata.type"].(string), "#")
				if ns := kind[:strings.LastIndexByte(kind, '.')]; !namespaces[ns] {
					t.Errorf("%s is a %s, which is not included", path, ns)
				}
			}
		},
		"8.4 the service document lists the root's links": func(t *testing.T, b *bmc) {
			v := b.want(200, "GET", "/redfish/v1/odata", "", none)
			if text := fmt.Sprint(v["value"]); v["@odata.context"] != "/redfish/v1/$metadata" || !strings.Contains(text, "/redfish/v1/Systems") {
				t.Errorf("got %v", v)
			}
		},
		"9.6 errors have extended information": func(t *testing.T, b *bmc) {
			e := b.want(404, "GET", sys+"/Nothing", "")["error"].(map[string]any)
			info := e["@Message.ExtendedInfo"].([]any)[0].(map[string]any)
			for _, name := range []string{"@odata.type", "MessageId", "Message", "MessageArgs", "MessageSeverity", "Resolution"} {
				if info[name] == nil {
					t.Errorf("there is no %s in %v", name, info)
				}
			}
			if e["code"] == nil || e["message"] == nil {
				t.Errorf("the error is %v", e)
			}
		},
		"9.5 resources have what every resource has": func(t *testing.T, b *bmc) {
			for path, v := range walk(t, b) {
				for _, name := range []string{"@odata.id", "@odata.type", "Name"} {
					if v[name] == nil {
						t.Errorf("%s has no %s", path, name)
					}
				}
				if v["Members"] == nil && v["Id"] == nil {
					t.Errorf("%s has no Id", path)
				}
			}
		},
		"12.2 a task is said where it is": func(t *testing.T, b *bmc) {
			if v := b.want(200, "GET", "/redfish/v1/TaskService", ""); v["Tasks"] == nil {
				t.Errorf("got %v", v)
			}
		},
		"13.2 what needs no login, and what does": func(t *testing.T, b *bmc) {
			b.want(200, "GET", "/redfish/v1/", "", none)
			if resp, _ := b.do("GET", sys, "", none); resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %v", resp.Status, resp.Header)
			}
		},
		"13.3 basic authentication and sessions": func(t *testing.T, b *bmc) {
			b.want(200, "GET", sys, "")
			resp, _ := b.do("POST", sessions, account, none)
			token := "X-Auth-Token: " + resp.Header.Get("X-Auth-Token")
			b.want(200, "GET", sys, "", token)
			b.want(204, "DELETE", resp.Header.Get("Location"), "", token)
			b.want(401, "GET", sys, "", token)
		},
	} {
		t.Run(clause, func(t *testing.T) { check(t, beside(t, build(t, one(lab.Latency{})))) })
	}
}

// includes are the namespaces of the metadata document.
func includes(t *testing.T, b *bmc) map[string]bool {
	t.Helper()
	req, err := http.NewRequest("GET", b.base+"/redfish/v1/$metadata", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var document struct {
		Reference []struct {
			Include []struct {
				Namespace string `xml:",attr"`
			}
		}
	}
	if err := xml.NewDecoder(resp.Body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, r := range document.Reference {
		for _, i := range r.Include {
			all[i.Namespace] = true
		}
	}
	return all
}
