package lab_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// TestSpecification is what the plain personality claims of DSP0266 (Redfish
// Specification), a clause each, by its title.
func TestSpecification(t *testing.T) {
	const none = "Authorization: "
	for clause, check := range map[string]func(t *testing.T, b *bmc){
		"Redfish-defined URIs: the version is at /redfish": func(t *testing.T, b *bmc) {
			if v := b.want(200, "GET", "/redfish", "", none); len(v) != 1 || v["v1"] != "/redfish/v1/" {
				t.Errorf("got %v", v)
			}
		},
		"Redfish-defined URIs: the root is there with and without a slash": func(t *testing.T, b *bmc) {
			b.want(200, "GET", "/redfish/v1", "", none)
			b.want(200, "GET", "/redfish/v1/", "", none)
		},
		"HTTP methods: PUT, and what a resource does not allow, are refused with Allow": func(t *testing.T, b *bmc) {
			for method, path := range map[string]string{"PUT": sys, "DELETE": sys, "POST": sys, "PATCH": sessions} {
				if resp, _ := b.do(method, path, "{}"); resp.StatusCode != 405 || !strings.Contains(resp.Header.Get("Allow"), "GET") {
					t.Errorf("%s %s = %s, Allow %q", method, path, resp.Status, resp.Header.Get("Allow"))
				}
			}
		},
		"HEAD: a HEAD is a GET without a body": func(t *testing.T, b *bmc) {
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
		"Query parameters: query parameters that are not supported are 501, unknown ones ignored": func(t *testing.T, b *bmc) {
			b.want(501, "GET", sys+"?$filter=x", "")
			b.want(200, "GET", sys+"?other=x", "")
		},
		"Query parameters: the features that the root declares are there": func(t *testing.T, b *bmc) {
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
		"ETags: an account has an ETag": func(t *testing.T, b *bmc) {
			if resp, _ := b.do("GET", "/redfish/v1/AccountService/Accounts/1", ""); resp.Header.Get("ETag") == "" {
				t.Error("it has none")
			}
		},
		"ETags: a read of what is known is 304, a change of what is not current 412": func(t *testing.T, b *bmc) {
			resp, _ := b.do("GET", sys, "")
			tag := resp.Header.Get("ETag")
			b.want(304, "GET", sys, "", "If-None-Match: "+tag)
			b.want(200, "PATCH", sys, once, "If-Match: "+tag)
			b.want(412, "PATCH", sys, once, "If-Match: "+tag)
		},
		"PATCH (update): a PATCH of nothing, of annotations only, of what is unknown or fixed is refused": func(t *testing.T, b *bmc) {
			for _, change := range []string{`{}`, `{"@odata.id": "x"}`, `{"Bogus": 1}`, `{"PowerState": "On"}`, `{"Boot": 1}`, `[]`, `{`} {
				b.want(400, "PATCH", sys, change)
			}
		},
		"POST (create): a POST to a collection and to its Members makes a member, and says where": func(t *testing.T, b *bmc) {
			for _, at := range []string{sessions, sessions + "/Members"} {
				resp, v := b.do("POST", at, account, none)
				if resp.StatusCode != 201 || resp.Header.Get("Location") != v["@odata.id"] || resp.Header.Get("X-Auth-Token") == "" {
					t.Errorf("%s = %s, %v", at, resp.Status, resp.Header)
				}
			}
		},
		"Response headers: answers have their headers": func(t *testing.T, b *bmc) {
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
		"Request headers: OData-Version 4.0 is taken, others are 412": func(t *testing.T, b *bmc) {
			b.want(200, "GET", sys, "", "OData-Version: 4.0")
			b.want(412, "GET", sys, "", "OData-Version: 4.1")
		},
		"Request headers: a body that is not JSON is 415": func(t *testing.T, b *bmc) {
			b.want(415, "PATCH", sys, once, "Content-Type: text/plain")
			b.want(200, "PATCH", sys, once, "Content-Type: application/json; charset=utf-8")
		},
		"OData metadata document: the metadata document includes every schema that is used": func(t *testing.T, b *bmc) {
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
		"OData service document: the service document lists the root's links": func(t *testing.T, b *bmc) {
			v := b.want(200, "GET", "/redfish/v1/odata", "", none)
			if text := fmt.Sprint(v["value"]); v["@odata.context"] != "/redfish/v1/$metadata" || !strings.Contains(text, "/redfish/v1/Systems") {
				t.Errorf("got %v", v)
			}
		},
		"Error responses: errors have extended information": func(t *testing.T, b *bmc) {
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
		"Common properties: resources have what every resource has": func(t *testing.T, b *bmc) {
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
		"Authentication: what needs no login, and what does": func(t *testing.T, b *bmc) {
			b.want(200, "GET", "/redfish/v1/", "", none)
			if resp, _ := b.do("GET", sys, "", none); resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %v", resp.Status, resp.Header)
			}
		},
		"Sessions: basic authentication and sessions": func(t *testing.T, b *bmc) {
			b.want(200, "GET", sys, "")
			resp, _ := b.do("POST", sessions, account, none)
			token := "X-Auth-Token: " + resp.Header.Get("X-Auth-Token")
			b.want(200, "GET", sys, "", token)
			b.want(204, "DELETE", resp.Header.Get("Location"), "", token)
			b.want(401, "GET", sys, "", token)
		},
		"Query parameters: a value for one that takes none is 400": func(t *testing.T, b *bmc) {
			b.want(400, "GET", sessions+"?only=x", "")
			b.want(200, "GET", sessions+"?only", "")
		},
		"ETags: header and @odata.etag are one, stay without a change and go with one": func(t *testing.T, b *bmc) {
			at := b.newAccount("u", "ReadOnly")
			resp, v := b.do("GET", at, "")
			tag := resp.Header.Get("ETag")
			if again, _ := b.do("GET", at, ""); tag == "" || v["@odata.etag"] != tag || again.Header.Get("ETag") != tag {
				t.Errorf("the ETag is %q, %v in the resource, %q then", tag, v["@odata.etag"], again.Header.Get("ETag"))
			}
			b.want(200, "PATCH", at, `{"RoleId": "Operator"}`, "If-Match: "+tag)
			if now, _ := b.do("GET", at, ""); now.Header.Get("ETag") == tag {
				t.Error("it stays with a change")
			}
			b.want(412, "PATCH", at, `{"RoleId": "ReadOnly"}`, "If-Match: "+tag)
			if v := b.want(200, "GET", at, ""); v["RoleId"] != "Operator" {
				t.Errorf("a change that was refused made it %v", v["RoleId"])
			}
		},
		"ETags: of changes at once that hold one ETag, one is made": func(t *testing.T, b *bmc) {
			at := b.newAccount("u", "ReadOnly")
			resp, _ := b.do("GET", at, "")
			made := make(chan int)
			for range 8 {
				go func() {
					resp, _ := b.do("PATCH", at, `{"RoleId": "Operator"}`, "If-Match: "+resp.Header.Get("ETag"))
					made <- resp.StatusCode
				}()
			}
			count := map[int]int{}
			for range 8 {
				count[<-made]++
			}
			if count[200] != 1 || count[412] != 7 {
				t.Errorf("the answers are %v", count)
			}
		},
		"PATCH (update): what can be changed is, and what cannot is said": func(t *testing.T, b *bmc) {
			at := b.newAccount("u", "ReadOnly")
			v := b.want(200, "PATCH", at, `{"RoleId": "Operator", "BogusProp": "x"}`)
			if info := fmt.Sprint(v["@Message.ExtendedInfo"]); v["RoleId"] != "Operator" || v["@odata.id"] != at || !strings.Contains(info, "BogusProp") {
				t.Errorf("got %v", v)
			}
			if v := b.want(400, "PATCH", at, `{"BogusProp": "x", "Id": "2"}`); !strings.Contains(fmt.Sprint(v), "BogusProp") || !strings.Contains(fmt.Sprint(v), "PropertyNotWritable") {
				t.Errorf("got %v", v)
			}
			if v := b.want(400, "PATCH", at, `{"@odata.id": "x"}`); !strings.Contains(fmt.Sprint(v), ".NoOperation") {
				t.Errorf("got %v", v)
			}
		},
		"PATCH on array properties: null takes out, an empty object leaves, the rest is cut off": func(t *testing.T, b *bmc) {
			const at = "/redfish/v1/Managers/1/NetworkProtocol"
			for _, step := range []struct{ given, want string }{
				{`["a", "b"]`, "[a b]"}, {`[null, "b"]`, "[b]"}, {`["a", "b"]`, "[a b]"}, {`[{}, "d"]`, "[a d]"}, {`["b"]`, "[b]"}, {`[]`, "[]"},
			} {
				v := b.want(200, "PATCH", at, `{"NTP": {"NTPServers": `+step.given+`}}`)
				if got := fmt.Sprint(v["NTP"].(map[string]any)["NTPServers"]); got != step.want {
					t.Errorf("%s makes %s, want %s", step.given, got, step.want)
				}
			}
			b.want(400, "PATCH", at, `{"NTP": {"NTPServers": [7]}}`)
			b.want(400, "PATCH", at, `{"NTP": {"Bogus": 1}}`)
			if v := b.want(200, "PATCH", at, `{"NTP": {"ProtocolEnabled": false}}`); v["NTP"].(map[string]any)["ProtocolEnabled"] != false {
				t.Errorf("got %v", v["NTP"])
			}
		},
		"Asynchronous operations: a task has a monitor": func(t *testing.T, b *bmc) {
			m := b.fleet.Machine("n1")
			m.SetFault(lab.Fault{Kind: lab.FaultTask, Delay: site.Duration(time.Hour), Times: 1})
			resp, v := b.do("PATCH", sys, once)
			monitor := resp.Header.Get("Location")
			if resp.StatusCode != 202 || v["TaskMonitor"] != monitor || v["@odata.id"] == monitor {
				t.Fatalf("%s, at %s: %v", resp.Status, monitor, v)
			}
			if resp, v := b.do("GET", monitor, ""); resp.StatusCode != 202 || resp.Header.Get("Location") != monitor || v["TaskState"] != "Running" {
				t.Errorf("%s %v", resp.Status, v)
			}
			m.SetFault(lab.Fault{Kind: lab.FaultTask, Times: 1})
			resp, _ = b.do("PATCH", sys, once)
			eventually(t, "the task has ended", func() bool {
				end, _ := b.do("GET", resp.Header.Get("Location"), "")
				return end.StatusCode == 204
			})
			b.want(404, "GET", monitor+"0", "")
		},
		"Password change required: a login says so, and nothing else goes before": func(t *testing.T, b *bmc) {
			at := b.newAccount("u", "Operator")
			b.want(200, "PATCH", at, `{"PasswordChangeRequired": true}`)
			resp, v := b.do("POST", sessions, `{"UserName": "u", "Password": "secret"}`, none)
			token := "X-Auth-Token: " + resp.Header.Get("X-Auth-Token")
			if resp.StatusCode != 201 || !strings.Contains(fmt.Sprint(v["@Message.ExtendedInfo"]), ".PasswordChangeRequired") {
				t.Errorf("%s %v", resp.Status, v)
			}
			if v := b.want(403, "GET", sessions, "", token); !strings.Contains(fmt.Sprint(v), ".PasswordChangeRequired") {
				t.Errorf("got %v", v)
			}
			b.want(403, "PATCH", sys, once, token)
			b.want(200, "GET", at, "", token)
			if v := b.want(200, "PATCH", at, `{"Password": "another"}`, token); v["PasswordChangeRequired"] != false {
				t.Errorf("it is %v", v["PasswordChangeRequired"])
			}
			b.want(200, "PATCH", sys, once, token)
		},
		"Eventing: a subscriber is sent what the log has to say": func(t *testing.T, b *bmc) {
			const service, subscriptions = "/redfish/v1/EventService", "/redfish/v1/EventService/Subscriptions"
			events := make(chan map[string]any, 8)
			listener := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				var v map[string]any
				if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
					t.Error(err)
				}
				events <- v
			}))
			defer listener.Close()
			for _, wrong := range []string{`{}`, `{"Destination": "` + listener.URL + `", "Protocol": "FTP"}`, `{"Destination": "here", "Protocol": "Redfish"}`,
				`{"Destination": "` + listener.URL + `", "Protocol": "Redfish", "Bogus": 1}`} {
				b.want(400, "POST", subscriptions, wrong)
			}
			resp, v := b.do("POST", subscriptions, `{"Destination": "`+listener.URL+`", "Protocol": "Redfish", "Context": "mine"}`)
			at := resp.Header.Get("Location")
			if resp.StatusCode != 201 || v["@odata.id"] != at || v["Context"] != "mine" {
				t.Fatalf("%s %v", resp.Status, v)
			}
			b.want(204, "POST", service+"/Actions/EventService.SubmitTestEvent", `{"MessageId": "Base.1.18.Success"}`)
			first := <-events
			b.fleet.Machine("n1").Log("Warning", "It is warm.")
			second := <-events
			if first["Context"] != "mine" || first["Id"] == second["Id"] || !strings.Contains(fmt.Sprint(second["Events"]), "It is warm.") {
				t.Errorf("the events are %v and %v", first, second)
			}
			b.want(204, "DELETE", at, "")
			b.want(404, "GET", at, "")
		},
		"Certificates: the one that is presented can be read and replaced": func(t *testing.T, b *bmc) {
			const at = "/redfish/v1/Managers/1/NetworkProtocol/HTTPS/Certificates/1"
			const action = "/redfish/v1/CertificateService/Actions/CertificateService.ReplaceCertificate"
			v := b.want(200, "GET", at, "")
			if block, _ := pem.Decode([]byte(v["CertificateString"].(string))); block == nil || block.Type != "CERTIFICATE" {
				t.Errorf("it is %v", v["CertificateString"])
			}
			chain, fingerprint := certificate(t)
			body, err := json.Marshal(map[string]any{"CertificateString": chain, "CertificateType": "PEM", "CertificateUri": map[string]string{"@odata.id": at}})
			if err != nil {
				t.Fatal(err)
			}
			b.want(400, "POST", action, `{"CertificateString": "x", "CertificateType": "PEM", "CertificateUri": {"@odata.id": "`+at+`"}}`)
			b.want(400, "POST", action, `{}`)
			b.want(204, "POST", action, string(body))
			if v := b.want(200, "GET", at, ""); v["Fingerprint"] != fingerprint {
				t.Errorf("it is %v, want %s", v["Fingerprint"], fingerprint)
			}
		},
		"Schema and registry files: every kind of resource has its file, and messages are said where": func(t *testing.T, b *bmc) {
			files := fmt.Sprint(b.want(200, "GET", "/redfish/v1/JsonSchemas", "")["Members"])
			for path, v := range walk(t, b) {
				kind := strings.TrimPrefix(v["@odata.type"].(string), "#")
				if id := kind[:strings.LastIndexByte(kind, '.')]; !strings.HasSuffix(id, "Collection") && !strings.Contains(files, "/"+id+"]") {
					t.Errorf("%s is a %s, which has no file", path, kind)
				}
			}
			v := b.want(200, "GET", b.want(200, "GET", "/redfish/v1/Registries/Base", "")["Location"].([]any)[0].(map[string]any)["Uri"].(string), "")
			if _, ok := v["Messages"].(map[string]any)["PropertyUnknown"]; !ok || v["RegistryPrefix"] != "Base" {
				t.Errorf("the registry is %v", v)
			}
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

// newAccount makes an account with the password "secret", and gives its path.
func (b *bmc) newAccount(user, role string) string {
	b.t.Helper()
	resp, v := b.do("POST", "/redfish/v1/AccountService/Accounts", fmt.Sprintf(`{"UserName": %q, "Password": "secret", "RoleId": %q}`, user, role))
	if resp.StatusCode != 201 {
		b.t.Fatalf("%s %v", resp.Status, v)
	}
	return resp.Header.Get("Location")
}

// certificate makes a certificate, with its key, and its fingerprint.
func certificate(t *testing.T) (chain, fingerprint string) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for kind, block := range map[string][]byte{"CERTIFICATE": der, "PRIVATE KEY": secret} {
		if err := pem.Encode(&text, &pem.Block{Type: kind, Bytes: block}); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256(der)
	return text.String(), strings.ReplaceAll(fmt.Sprintf("% x", sum), " ", ":")
}

// Who speaks plain HTTP to a BMC is told where HTTPS is (DSP0266, HTTP
// redirect).
func TestPlainHTTPIsRedirected(t *testing.T) {
	b := dial(t, start(t, one(lab.Latency{})))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, method := range []string{"GET", "POST"} {
		req, err := http.NewRequest(method, strings.Replace(b.base, "https", "http", 1)+sessions, strings.NewReader(account))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 308 || resp.Header.Get("Location") != b.base+sessions {
			t.Errorf("%s = %s, Location %q", method, resp.Status, resp.Header.Get("Location"))
		}
	}
}
