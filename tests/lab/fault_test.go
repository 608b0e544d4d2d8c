package lab_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/tests/lab"
)

func TestBusyAsksToComeBack(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	m.SetFault(lab.Fault{Kind: lab.FaultBusy, RetryAfter: 7})
	resp, _ := b.do("GET", sys, "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "7" {
		t.Errorf("%s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	m.SetFault(lab.Fault{Kind: lab.FaultBusyDate, RetryAfter: 60})
	resp, _ = b.do("GET", sys, "")
	when, err := http.ParseTime(resp.Header.Get("Retry-After"))
	if left := time.Until(when); err != nil || left < 50*time.Second || left > time.Minute {
		t.Errorf("%s, Retry-After %q: %v", resp.Status, resp.Header.Get("Retry-After"), err)
	}
	m.ClearFault()
	b.want(200, "GET", sys, "")
}

func TestWrongUUID(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b := beside(t, f)
	right := b.system()
	f.Machine("n1").SetFault(lab.Fault{Kind: lab.FaultWrongUUID})
	if wrong := b.system(); wrong["UUID"] == right["UUID"] || wrong["SerialNumber"] == right["SerialNumber"] {
		t.Errorf("the machine says it is %v %v", wrong["UUID"], wrong["SerialNumber"])
	}
}

func TestNoEffectAcceptsEverything(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	m.SetFault(lab.Fault{Kind: lab.FaultNoEffect})
	b.reset("On")
	b.override("Once", "Pxe")
	b.want(200, "PATCH", sys, `{"Boot": {"BootOrder": ["Boot0003"]}}`)
	b.insert("http://127.0.0.1:1/a.iso")
	s := m.State()
	if v := b.system()["Boot"].(map[string]any); v["BootSourceOverrideEnabled"] != "Disabled" || s.Power != "Off" || s.Media != "" ||
		s.BootOrder[0] != "Hdd" || s.Counts.Resets != 0 || s.Counts.Writes != 4 {
		t.Errorf("the machine has %+v and %v", s, v)
	}
}

func TestPagesInsteadOfRedfish(t *testing.T) {
	f := build(t, one(lab.Latency{}))
	b, m := beside(t, f), f.Machine("n1")
	m.SetFault(lab.Fault{Kind: lab.FaultHTML})
	if resp, _ := b.do("GET", sys, ""); resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Errorf("html: %s %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	m.SetFault(lab.Fault{Kind: lab.FaultServerError})
	b.want(500, "GET", sys, "")
}

// A BMC that hangs takes the request and the client's patience; it notices
// when the client leaves.
func TestHang(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	b, m := dial(t, f), f.Machine("n1")
	m.SetFault(lab.Fault{Kind: lab.FaultHang})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", b.base+resetURI, strings.NewReader(`{"ResetType": "On"}`))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := b.http.Do(req)
		failed <- err
	}()
	eventually(t, "the request is there", func() bool { return m.Writes() == 1 })
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("a BMC that hangs answered")
	}
	eventually(t, "the call is over", func() bool { return f.CallCount() == 1 })
	if c := f.Calls()[0]; c.Status != 0 || m.Resets() != 0 {
		t.Errorf("the call has the status %d, %d resets", c.Status, m.Resets())
	}
}

// Faults of connections are met at once, also by a client that is connected.
func TestFaultsOfConnections(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	m := f.Machine("n1")
	for kind, says := range map[lab.FaultKind]string{
		lab.FaultExpired: "expired", lab.FaultOtherCert: "unknown authority", lab.FaultSelfSigned: "unknown authority", lab.FaultRefuse: "",
	} {
		b := dial(t, f)
		b.want(200, "GET", sys, "")
		m.SetFault(lab.Fault{Kind: kind})
		for range 2 {
			resp, err := b.http.Get(b.base + "/redfish")
			if err == nil {
				resp.Body.Close()
			}
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: got %v, want an error that says %q", kind, err, says)
			}
		}
		m.ClearFault()
		b.want(200, "GET", sys, "")
	}
}

// BMCs that change places: at an address another machine answers, with a
// certificate for it.
func TestSwap(t *testing.T) {
	c := one(lab.Latency{})
	other := c.Machines[0]
	other.Name, other.BMCAddr, other.OSAddr, other.Identity.UUID = "n2", "127.0.99.2", "", "5e1d0000-0000-4000-8000-0000000000ff"
	c.Machines = append(c.Machines, other)
	f := start(t, c)
	b := dial(t, f)
	was := b.system()["UUID"]
	for _, want := range []any{other.Identity.UUID, was, other.Identity.UUID} {
		f.Swap("n1", "n2")
		if got := b.system()["UUID"]; got != want {
			t.Errorf("%v answers, want %v", got, want)
		}
	}
	if f.Machine("n1").Counts().Requests != 2 || f.Machine("n2").Counts().Requests != 2 {
		t.Error("requests are counted at the wrong machine")
	}
}

// A plain BMC's system has the id that it is given.
func TestSystemIDs(t *testing.T) {
	for _, id := range []string{"system", "5e1d0000-0000-4000-8000-000000000001"} {
		f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.SystemID = id }))
		if v := beside(t, f).want(200, "GET", system(f), ""); v["Id"] != id {
			t.Errorf("the system is %v, want %s", v["Id"], id)
		}
		walk(t, beside(t, f))
	}
	for _, wrong := range []func(*lab.MachineConfig){
		func(c *lab.MachineConfig) { c.SystemID = "a/b" }, func(c *lab.MachineConfig) { c.SystemID, c.Personality = "x", "xcc" },
	} {
		if _, err := lab.New(one(lab.Latency{}, wrong)); err == nil {
			t.Error("a system's id that cannot be is taken")
		}
	}
}

func TestParseFault(t *testing.T) {
	for _, kind := range lab.FaultKinds {
		if f, err := lab.ParseFault(string(kind)); err != nil || f.Kind != kind {
			t.Errorf("%s: %+v, %v", kind, f, err)
		}
	}
	if f, err := lab.ParseFault("none"); err != nil || f != (lab.Fault{}) {
		t.Errorf("none: %+v, %v", f, err)
	}
	if _, err := lab.ParseFault("gremlins"); err == nil || !strings.Contains(err.Error(), "busy-date") {
		t.Errorf("gremlins: %v", err)
	}
}

// The seed decides which requests meet a fault, and about the share that was
// asked for does.
func TestFaultRateFollowsTheSeed(t *testing.T) {
	run := func(seed string) string {
		c := one(lab.Latency{})
		c.Seed = seed
		f := build(t, c)
		if err := f.SetFaultRate(0.2, lab.Fault{Kind: lab.FaultBusy}, lab.Fault{Kind: lab.FaultServerError}); err != nil {
			t.Fatal(err)
		}
		b, all := beside(t, f), ""
		for range 500 {
			resp, _ := b.do("GET", sys, "")
			all += fmt.Sprint(resp.StatusCode, " ")
		}
		return all
	}
	first := run("a")
	if busy, broken := strings.Count(first, "503"), strings.Count(first, "500"); busy < 25 || broken < 25 || busy+broken > 150 {
		t.Errorf("%d times busy and %d times broken in 500", busy, broken)
	}
	if first != run("a") || first == run("b") {
		t.Error("the faults do not follow the seed")
	}
	f := build(t, one(lab.Latency{}))
	for rate, kind := range map[float64]lab.FaultKind{0.1: lab.FaultExpired, 1.1: lab.FaultBusy} {
		if err := f.SetFaultRate(rate, lab.Fault{Kind: kind}); err == nil {
			t.Errorf("a rate of %v of %s is taken", rate, kind)
		}
	}
	if err := f.SetFaultRate(1); err != nil {
		t.Fatal(err)
	}
	beside(t, f).want(503, "GET", sys, "")
	if err := f.SetFaultRate(0); err != nil {
		t.Fatal(err)
	}
	beside(t, f).want(200, "GET", sys, "")
}

func TestImageServer(t *testing.T) {
	c := lab.Config{Seed: "test", Images: []lab.ImageConfig{{Name: "noise", Size: 1000}, {Name: "mine", Content: []byte("mine")}}}
	f := start(t, c)
	get := func(url string) (int, string) {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode == 200 && resp.ContentLength != int64(len(text)) {
			t.Errorf("%s: %d bytes of %d, %v", url, len(text), resp.ContentLength, err)
		}
		return resp.StatusCode, string(text)
	}
	base := strings.TrimSuffix(f.ImageURL("mine"), "mine/{node}/{generation}.iso")
	for path, want := range map[string]string{"mine.iso": "mine", "mine/n1/2.iso": "mine\nslipway-note " + `{"node":"n1","generation":2}`} {
		if status, text := get(base + path); status != 200 || text != want {
			t.Errorf("%s = %d %q, want %q", path, status, text, want)
		}
	}
	if _, text := get(base + "noise.iso"); len(text) != 1000 {
		t.Errorf("the image has %d bytes", len(text))
	}
	for _, path := range []string{"other.iso", "other/n1/2.iso", "mine/n1/two.iso", "mine/n1/2.img"} {
		if status, _ := get(base + path); status != 404 {
			t.Errorf("%s = %d", path, status)
		}
	}
}
