package lab_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// quick is a model in which everything takes a moment.
var quick = lab.Latency{PowerOn: 40 * time.Millisecond, PowerOff: 40 * time.Millisecond, Boot: 40 * time.Millisecond, Install: 40 * time.Millisecond}

func start(t *testing.T, l lab.Latency, change ...func(*lab.MachineConfig)) *lab.Fleet {
	t.Helper()
	c := lab.MachineConfig{Name: "n1", BMCAddr: "127.71.0.1", OSAddr: "127.72.0.1", Username: "admin", Password: "pw",
		Identity: site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001", Serial: "LAB1"}, Manufacturer: "Lab", Model: "One", MemoryGiB: 64, Processors: 2}
	for _, f := range change {
		f(&c)
	}
	fleet, err := lab.Start(lab.Config{Seed: "test", Latency: l, Machines: []lab.MachineConfig{c}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	return fleet
}

// bmc is a plain client of one BMC that verifies its certificate.
type bmc struct {
	t    *testing.T
	base string
	http *http.Client
}

func dial(t *testing.T, f *lab.Fleet) *bmc {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(f.CA())
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(tr.CloseIdleConnections)
	base := strings.TrimSuffix(strings.TrimPrefix(f.BMCURL("n1"), "redfish+"), "/redfish/v1/Systems/1")
	return &bmc{t, base, &http.Client{Transport: tr, Timeout: 10 * time.Second}}
}

func (b *bmc) do(method, path, body string) (*http.Response, map[string]any) {
	b.t.Helper()
	req, err := http.NewRequest(method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.SetBasicAuth("admin", "pw")
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	var v map[string]any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &v); err != nil {
			b.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return resp, v
}

func (b *bmc) want(status int, method, path, body string) map[string]any {
	b.t.Helper()
	resp, v := b.do(method, path, body)
	if resp.StatusCode != status {
		b.t.Errorf("%s %s = %s, want %d: %v", method, path, resp.Status, status, v)
	}
	return v
}

const sys = "/redfish/v1/Systems/1"

func (b *bmc) reset(kind string) {
	b.t.Helper()
	b.want(204, "POST", sys+"/Actions/ComputerSystem.Reset", fmt.Sprintf(`{"ResetType": %q}`, kind))
}

// eventually waits for a condition that a timer of the lab brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

func TestPowerPassesThroughTransitions(t *testing.T) {
	f := start(t, lab.Latency{PowerOn: time.Hour})
	b, m := dial(t, f), f.Machine("n1")
	b.reset("On")
	if got := b.want(200, "GET", sys, "")["PowerState"]; got != "PoweringOn" {
		t.Errorf("PowerState = %v, want PoweringOn", got)
	}
	b.reset("On") // already under way: accepted and not counted
	b.want(409, "POST", sys+"/Actions/ComputerSystem.Reset", `{"ResetType": "GracefulShutdown"}`)
	if got := m.Resets(); got != 1 {
		t.Errorf("%d resets, want 1", got)
	}
	b.want(400, "POST", sys+"/Actions/ComputerSystem.Reset", `{"ResetType": "Nmi"}`)
}

func TestOverrideOnceClearsWithTheBoot(t *testing.T) {
	f := start(t, quick)
	b, m := dial(t, f), f.Machine("n1")
	b.want(200, "PATCH", sys, `{"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}`)
	b.reset("On")
	eventually(t, "on", func() bool { return m.Power() == "On" })
	boot := b.want(200, "GET", sys, "")["Boot"].(map[string]any)
	if boot["BootSourceOverrideEnabled"] != "Disabled" || boot["BootSourceOverrideTarget"] != "None" {
		t.Errorf("override after the boot is %v %v", boot["BootSourceOverrideEnabled"], boot["BootSourceOverrideTarget"])
	}
}

func TestBootOrderIsCheckedAsAWhole(t *testing.T) {
	f := start(t, quick)
	b, m := dial(t, f), f.Machine("n1")
	b.want(400, "PATCH", sys, `{"Boot": {"BootOrder": ["Boot0002", "Boot9999"]}}`)
	b.want(200, "PATCH", sys, `{"Boot": {"BootOrder": ["Boot0002", "Boot0001"]}}`)
	if got := strings.Join(m.BootOrder(), ","); got != "Pxe,Hdd" {
		t.Errorf("boot order = %s", got)
	}
}

func TestImageIsReallyFetchedAndInstalled(t *testing.T) {
	f := start(t, quick, func(c *lab.MachineConfig) { c.Blank = true })
	b, m := dial(t, f), f.Machine("n1")
	url := strings.NewReplacer("{node}", "n1", "{generation}", "3").Replace(f.ImageURL("debian12"))
	media := "/redfish/v1/Managers/1/VirtualMedia/1"
	b.want(204, "POST", media+"/Actions/VirtualMedia.InsertMedia", fmt.Sprintf(`{"Image": %q}`, url))
	b.want(409, "POST", media+"/Actions/VirtualMedia.InsertMedia", fmt.Sprintf(`{"Image": %q}`, url))
	b.want(200, "PATCH", sys, `{"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Cd"}}`)
	b.reset("On")
	eventually(t, "installed and off", func() bool { return m.Installs() == 1 && m.Power() == "Off" })
	if got, want := m.DiskDigest(), f.ImageSHA256("debian12"); got != want || want != lab.ImageSHA256("test", "debian12") {
		t.Errorf("disk digest = %s, want %s", got, want)
	}
	b.want(204, "POST", media+"/Actions/VirtualMedia.EjectMedia", "{}")
	b.reset("On")
	out := run(t, f, "cat /etc/slipway/marker.json")
	var marker site.Marker
	if err := json.Unmarshal([]byte(out), &marker); err != nil || marker.Generation != 3 || marker.Node != "n1" {
		t.Errorf("marker = %s, %v", out, err)
	}
}

func TestImageThatCannotBeFetchedLeavesTheDisk(t *testing.T) {
	f := start(t, quick)
	b, m := dial(t, f), f.Machine("n1")
	b.want(204, "POST", "/redfish/v1/Managers/1/VirtualMedia/1/Actions/VirtualMedia.InsertMedia", `{"Image": "http://127.0.0.1:1/none.iso"}`)
	b.want(200, "PATCH", sys, `{"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Cd"}}`)
	b.reset("On")
	eventually(t, "halted", func() bool { return m.Power() == "On" && m.State().Runs == "" })
	if m.Installs() != 0 || m.DiskDigest() != "factory" {
		t.Errorf("state is %+v", m.State())
	}
}

// run waits for the system and runs a script on it.
func run(t *testing.T, f *lab.Fleet, script string) string {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(f.HostKey("n1")))
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ClientConfig{User: "admin", Auth: []ssh.AuthMethod{ssh.Password("pw")}, HostKeyCallback: ssh.FixedHostKey(key), Timeout: 5 * time.Second}
	var c *ssh.Client
	eventually(t, "ssh answers", func() bool {
		c, err = ssh.Dial("tcp", strings.TrimPrefix(f.OSURL("n1"), "ssh://"), config)
		return err == nil
	})
	defer c.Close()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Output(script)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestSystemAnswersOnceItIsUp(t *testing.T) {
	f := start(t, quick, func(c *lab.MachineConfig) { c.Power = "on" })
	got := run(t, f, "echo --marker; cat /etc/slipway/marker.json 2>/dev/null; echo --kernel\nuname -r")
	if got != "--marker\n--kernel\n6.1.0-lab\n" {
		t.Errorf("output is %q", got)
	}
	before := run(t, f, "cat /proc/sys/kernel/random/boot_id")
	f.Machine("n1").SetPower("off")
	f.Machine("n1").SetPower("on")
	if after := run(t, f, "cat /proc/sys/kernel/random/boot_id"); after == before {
		t.Error("the boot id is the same after a boot")
	}
}

func TestSessions(t *testing.T) {
	f := start(t, quick)
	b := dial(t, f)
	b.want(401, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "no"}`)
	resp, _ := b.do("POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "pw"}`)
	token, location := resp.Header.Get("X-Auth-Token"), resp.Header.Get("Location")
	if resp.StatusCode != 201 || token == "" || location == "" {
		t.Fatalf("login = %s %q %q", resp.Status, token, location)
	}
	for range 15 {
		b.want(201, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "pw"}`)
	}
	b.want(503, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "pw"}`)
	b.want(204, "DELETE", location, "")
	if got := f.Machine("n1").State().Sessions; got != 15 {
		t.Errorf("%d sessions, want 15", got)
	}
}

func TestErrorsAreRedfishErrors(t *testing.T) {
	f := start(t, quick)
	b := dial(t, f)
	for _, c := range []struct {
		status             int
		method, path, body string
	}{{404, "GET", sys + "/Nothing", ""}, {405, "DELETE", sys, ""}, {400, "PATCH", sys, "{"}} {
		v := b.want(c.status, c.method, c.path, c.body)
		e, _ := v["error"].(map[string]any)
		info, _ := e["@Message.ExtendedInfo"].([]any)
		if len(info) != 1 {
			t.Errorf("%s %s has no extended information: %v", c.method, c.path, v)
		}
	}
	resp, _ := b.do("DELETE", sys, "")
	if got := resp.Header.Get("Allow"); !strings.Contains(got, "PATCH") {
		t.Errorf("Allow = %q", got)
	}
	resp, err := b.http.Get(b.base + sys)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("without credentials: %s", resp.Status)
	}
}

func TestFaults(t *testing.T) {
	f := start(t, quick)
	m := f.Machine("n1")
	set := func(kind lab.FaultKind) *bmc {
		m.SetFault(lab.Fault{Kind: kind, RetryAfter: 7})
		return dial(t, f)
	}
	resp, _ := set(lab.FaultBusy).do("GET", sys, "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "7" {
		t.Errorf("busy: %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	if got := set(lab.FaultWrongUUID).want(200, "GET", sys, "")["UUID"]; got == "5e1d0000-0000-4000-8000-000000000001" {
		t.Error("wrong-uuid gives the right one")
	}
	set(lab.FaultNoEffect).reset("On")
	if got := m.Power(); got != "Off" || m.Resets() != 0 {
		t.Errorf("no-effect: power %s, %d resets", got, m.Resets())
	}
	for _, kind := range []lab.FaultKind{lab.FaultExpired, lab.FaultOtherCert, lab.FaultRefuse} {
		if _, err := set(kind).http.Get(set(kind).base + "/redfish"); err == nil {
			t.Errorf("%s: the connection succeeded", kind)
		}
	}
	html, err := set(lab.FaultHTML).http.Get(dial(t, f).base + "/redfish")
	if err != nil {
		t.Fatal(err)
	}
	defer html.Body.Close()
	if text, _ := io.ReadAll(html.Body); !bytes.Contains(text, []byte("<html>")) {
		t.Errorf("html: %s", text)
	}
	m.ClearFault()
	dial(t, f).want(200, "GET", sys, "")
}

func TestCallLog(t *testing.T) {
	f := start(t, quick)
	b := dial(t, f)
	b.want(201, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "pw"}`)
	b.want(200, "GET", sys, "")
	b.reset("On")
	calls := f.Calls()
	if len(calls) != 3 || calls[0].Write() || calls[1].Write() || !calls[2].Write() || calls[2].Machine != "n1" || calls[2].Status != 204 {
		t.Errorf("calls are %+v", calls)
	}
	if got := f.Machine("n1").Writes(); got != 1 {
		t.Errorf("%d writes, want 1", got)
	}
}

func TestKeysFollowTheSeed(t *testing.T) {
	if bytes.Equal(lab.CAPEM("a"), lab.CAPEM("b")) {
		t.Error("the authority does not follow the seed")
	}
	if lab.HostKey("a", "n1") == lab.HostKey("a", "n2") || lab.HostKey("a", "n1") == lab.HostKey("b", "n1") {
		t.Error("host keys do not follow seed and name")
	}
}
