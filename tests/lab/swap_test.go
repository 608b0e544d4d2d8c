package lab_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// two is a fleet of the machines n1 and n2, each with a BMC.
func two(change ...func(*lab.MachineConfig)) lab.Config {
	c := one(lab.Latency{}, change...)
	other := c.Machines[0]
	other.Name, other.BMCAddr, other.OSAddr, other.Identity.UUID = "n2", "127.71.0.2", "", "5e1d0000-0000-4000-8000-0000000000ff"
	c.Machines = append(c.Machines, other)
	return c
}

// answered is who answers, by requests that are sent one after the other; ""
// where none came.
func answered(t *testing.T, b *bmc, method string, n int) (names []string) {
	t.Helper()
	for range n {
		before := len(b.fleet.Calls())
		var body string
		path := sys
		if method == http.MethodPost {
			path, body = resetURI, `{"ResetType": "On"}`
		}
		req, err := http.NewRequest(method, b.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("admin", "pw")
		resp, err := b.http.Do(req)
		if err != nil {
			names = append(names, "")
			continue
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		calls := b.fleet.Calls()
		names = append(names, calls[len(calls)-1].Machine)
		if len(calls) == before {
			t.Fatal("an answer and no call")
		}
	}
	return names
}

// Addresses are swapped at the request that was named, and connections become
// what was asked for.
func TestSwapBefore(t *testing.T) {
	for name, c := range map[string]struct {
		lines lab.Lines
		keep  bool // the client keeps its connection
		want  string
		// resets are those that the machines have carried out.
		resets [2]int
	}{
		"stay, kept":     {lab.LinesStay, true, "n1 n1 n1 n1", [2]int{1, 0}},
		"stay, new ones": {lab.LinesStay, false, "n1 n1 n2 n2", [2]int{1, 1}},
		"close":          {lab.LinesClose, true, "n1 n1 n2 n2", [2]int{1, 1}},
		"cut":            {lab.LinesCut, true, "n1 n1  n2", [2]int{1, 1}},
		"lost":           {lab.LinesLost, true, "n1 n1  n2", [2]int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, two())
			b := dial(t, f)
			b.http.Transport.(*http.Transport).DisableKeepAlives = !c.keep
			f.SwapBefore(3, "n1", "n2", c.lines)
			if got := strings.Join(answered(t, b, http.MethodPost, 4), " "); got != c.want {
				t.Errorf("%q answered, want %q", got, c.want)
			}
			if got := [2]int{f.Machine("n1").Resets(), f.Machine("n2").Resets()}; got != c.resets {
				t.Errorf("resets %v, want %v", got, c.resets)
			}
			f.SwapBefore(1, "n1", "n2", lab.LinesStay)
			f.SwapBefore(1, "n1", "n2", lab.LinesStay)
			f.SwapBefore(1, "n1", "n2", lab.LinesStay)
			b.http.CloseIdleConnections()
			if got := answered(t, b, http.MethodGet, 1)[0]; got != "n1" {
				t.Errorf("%s answers after an even number of swaps", got)
			}
		})
	}
}

// The request whose answer is lost is carried out, the one that is cut is not.
func TestSwapInTheMiddleOfARequest(t *testing.T) {
	for lines, want := range map[lab.Lines]int{lab.LinesCut: 0, lab.LinesLost: 1} {
		f := start(t, two())
		f.SwapBefore(1, "n1", "n2", lines)
		if got := answered(t, dial(t, f), http.MethodPost, 1); got[0] != "" || f.Machine("n1").Resets() != want {
			t.Errorf("%s: %q answered, %d resets, want none and %d", lines, got, f.Machine("n1").Resets(), want)
		}
	}
}

// A BMC that closes its connections has none for a second request, however it
// says so.
func TestClosings(t *testing.T) {
	for _, how := range lab.Closings {
		f := start(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Closes = how }))
		b := dial(t, f)
		for range 3 {
			resp, v := b.do("GET", sys, "")
			if resp.StatusCode != 200 || v["Id"] != "1" {
				t.Fatalf("%s: got %s %v", how, resp.Status, v)
			}
			if announced := resp.Close; announced != (how != lab.ClosesSilently) {
				t.Errorf("%s: the end of the connection is announced: %t", how, announced)
			}
		}
		sources := map[string]bool{}
		for _, c := range f.Calls() {
			sources[c.Source] = true
		}
		if len(sources) != 3 {
			t.Errorf("%s: %d connections for three requests", how, len(sources))
		}
	}
}

// Sessions keep the context of their login where they are to, and a BMC without
// sessions has none.
func TestSessionContextAndNone(t *testing.T) {
	const login = `{"UserName": "admin", "Password": "pw", "Context": "here"}`
	for name, c := range map[string]struct {
		change func(*lab.MachineConfig)
		login  int
		want   any
	}{
		"plain":         {func(*lab.MachineConfig) {}, 201, nil},
		"kept":          {func(c *lab.MachineConfig) { c.SessionContext = true }, 201, "here"},
		"an older one":  {func(c *lab.MachineConfig) { c.Personality = "xcc" }, 400, nil},
		"no sessions":   {func(c *lab.MachineConfig) { c.BasicOnly = true }, 404, nil},
		"an older kept": {func(c *lab.MachineConfig) { c.Personality, c.SessionContext = "xcc", true }, 201, "here"},
	} {
		t.Run(name, func(t *testing.T) {
			b := beside(t, build(t, one(lab.Latency{}, c.change)))
			made := b.want(c.login, "POST", sessions, login)
			if made["Context"] != c.want && c.login == 201 {
				t.Errorf("the session is %v", made)
			}
			root := b.want(200, "GET", "/redfish/v1/", "")
			if has := root["SessionService"] != nil; has != (c.login != 404) {
				t.Errorf("the root is %v", root)
			}
		})
	}
}

// nodes is an enclosure of n1 and n2 behind one BMC.
func nodes(change ...func(*lab.MachineConfig)) lab.Config {
	c := one(lab.Latency{}, func(c *lab.MachineConfig) { c.SystemID = "Node1" })
	other := c.Machines[0]
	other.Name, other.SystemID, other.Behind, other.BMCAddr, other.OSAddr = "n2", "Node2", "n1", "", ""
	other.Identity.UUID = "5e1d0000-0000-4000-8000-0000000000ff"
	c.Machines = append(c.Machines, other)
	for i := range c.Machines {
		for _, f := range change {
			f(&c.Machines[i])
		}
	}
	return c
}

// The machines of an enclosure have a system, a chassis and media each, and one
// BMC with one kind of session.
func TestEnclosure(t *testing.T) {
	f := build(t, nodes())
	b := beside(t, f)
	token, _ := b.do("POST", sessions, account)
	auth := "X-Auth-Token: " + token.Header.Get("X-Auth-Token")
	for path, n := range map[string]int{"/redfish/v1/Systems": 2, "/redfish/v1/Chassis": 2, "/redfish/v1/Managers": 1} {
		if v := b.want(200, "GET", path, "", auth); len(v["Members"].([]any)) != n {
			t.Errorf("%s lists %v", path, v["Members"])
		}
	}
	two := "/redfish/v1/Systems/Node2"
	if v := b.want(200, "GET", two, "", auth); v["UUID"] != "5e1d0000-0000-4000-8000-0000000000ff" {
		t.Errorf("Node2 is %v", v["UUID"])
	}
	b.want(204, "POST", two+"/VirtualMedia/1/Actions/VirtualMedia.InsertMedia", `{"Image": "http://127.0.0.1:1/a.iso"}`, auth)
	b.want(204, "POST", two+"/Actions/ComputerSystem.Reset", `{"ResetType": "On"}`, auth)
	one, other := f.Machine("n1").State(), f.Machine("n2").State()
	if one.Counts.Resets != 0 || one.Media != "" || other.Counts.Resets != 1 || other.Media == "" {
		t.Errorf("n1 is %+v\nn2 is %+v", one, other)
	}
	f.Machine("n1").ForgetSessions()
	b.want(401, "GET", two, "", auth)
	if len(walk(t, b)) < 40 {
		t.Error("the enclosure has few resources")
	}
}

func TestEnclosuresThatCannotBe(t *testing.T) {
	for says, wrong := range map[string]func(*lab.MachineConfig){
		"no machine \"n9\"":      func(c *lab.MachineConfig) { c.Behind = "n9" },
		"has no BMC address":     func(c *lab.MachineConfig) { c.BMCAddr = "127.71.0.2" },
		"has no system id":       func(c *lab.MachineConfig) { c.SystemID = "" },
		"has the id \"Node1\"":   func(c *lab.MachineConfig) { c.SystemID = "Node1" },
		"closes its connections": func(c *lab.MachineConfig) { c.Closes = "never" },
	} {
		c := nodes()
		wrong(&c.Machines[1])
		if _, err := lab.New(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %q", err, says)
		}
	}
}

// In a bubble a fleet is reached within the process, with a certificate that all
// of it shares.
func TestWithin(t *testing.T) {
	shown := factoryCertificate(t)
	synctest.Test(t, func(t *testing.T) {
		f, err := lab.New(two())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.Share(shown)
		tr := &http.Transport{DialContext: f.Within(), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer tr.CloseIdleConnections()
		b := &bmc{t, "https://127.71.0.2:443", &http.Client{Transport: tr}, f}
		f.SwapBefore(2, "n1", "n2", lab.LinesCut)
		began := time.Now()
		if got := strings.Join(answered(t, b, http.MethodGet, 3), " "); got != "n2 n1 n1" { // a read is sent once more
			t.Errorf("%q answered", got)
		}
		if time.Since(began) != 0 {
			t.Error("it took time")
		}
	})
}

// factoryCertificate is one that all BMCs of a kind have.
func factoryCertificate(t *testing.T) *tls.Certificate {
	t.Helper()
	f := build(t, one(lab.Latency{}))
	return f.Machine("n1").Certificate()
}
