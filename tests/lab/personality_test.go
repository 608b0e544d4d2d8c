package lab_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// kinds runs a test on a machine of each personality.
func kinds(t *testing.T, l lab.Latency, test func(t *testing.T, f *lab.Fleet, b *bmc), change ...func(*lab.MachineConfig)) {
	t.Helper()
	for _, name := range lab.Personalities {
		t.Run(name, func(t *testing.T) {
			f := build(t, one(l, append(change, func(c *lab.MachineConfig) { c.Personality = name })...))
			test(t, f, beside(t, f))
		})
	}
}

// system is the path of n1's system.
func system(f *lab.Fleet) string {
	url := f.BMCURL("n1")
	return url[strings.Index(url, "/redfish/v1"):]
}

// walk reads all that links lead to, and gives it by path.
func walk(t *testing.T, b *bmc) map[string]map[string]any {
	t.Helper()
	return walkFrom(t, b, "/redfish/v1/")
}

// walkFrom reads what links lead to from a path on; links that lead nowhere
// are an error only from the root.
func walkFrom(t *testing.T, b *bmc, from string) map[string]map[string]any {
	t.Helper()
	seen := map[string]map[string]any{}
	var visit func(path string)
	var follow func(v any)
	visit = func(path string) {
		if seen[path] != nil {
			return
		}
		if from != "/redfish/v1/" {
			if resp, v := b.do("GET", path, ""); resp.StatusCode == 200 {
				seen[path] = v
				follow(v)
			}
			return
		}
		seen[path] = b.want(200, "GET", path, "")
		follow(seen[path])
	}
	follow = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if id, ok := v["@odata.id"].(string); ok {
				path, _, _ := strings.Cut(id, "#")
				visit(path)
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
	visit(from)
	return seen
}

// Every link of every personality leads to a resource that says where and
// what it is.
func TestEveryLinkOfEveryPersonality(t *testing.T) {
	kinds(t, lab.Latency{}, func(t *testing.T, f *lab.Fleet, b *bmc) {
		b.want(201, "POST", sessions, account)
		all := walk(t, b)
		for path, v := range all {
			if id, _ := v["@odata.id"].(string); !strings.EqualFold(strings.TrimRight(id, "/"), strings.TrimRight(path, "/")) || v["@odata.type"] == nil || v["Name"] == nil {
				t.Errorf("%s calls itself %v, a %v", path, v["@odata.id"], v["@odata.type"])
			}
			if members, ok := v["Members"].([]any); ok && v["Members@odata.count"] != float64(len(members)) {
				t.Errorf("%s counts %v members", path, v["Members@odata.count"])
			}
		}
		if all[system(f)] == nil || all[sessions+"/1"] == nil {
			t.Error("no link leads to the system, or to the session")
		}
	}, isOn)
}

// What a personality lists is what it takes, and nothing else.
func TestResetsOfPersonalities(t *testing.T) {
	want := map[string]string{
		"plain":  "On ForceOff GracefulShutdown GracefulRestart ForceRestart ForceOn PowerCycle",
		"idrac9": "On ForceOff ForceRestart GracefulRestart GracefulShutdown PushPowerButton Nmi PowerCycle",
		"ilo5":   "On ForceOff GracefulShutdown ForceRestart Nmi PushPowerButton GracefulRestart",
		"xcc":    "On Nmi GracefulShutdown GracefulRestart ForceOn ForceOff ForceRestart",
	}
	kinds(t, lab.Latency{}, func(t *testing.T, f *lab.Fleet, b *bmc) {
		sys := system(f)
		action := b.want(200, "GET", sys, "")["Actions"].(map[string]any)["#ComputerSystem.Reset"].(map[string]any)
		var listed []string
		for _, kind := range action["ResetType@Redfish.AllowableValues"].([]any) {
			listed = append(listed, kind.(string))
			resp, _ := b.do("POST", action["target"].(string), `{"ResetType": "`+kind.(string)+`"}`)
			if resp.StatusCode != 204 && resp.StatusCode != 200 && resp.StatusCode != 409 && resp.StatusCode != 400 {
				t.Errorf("%s: %s", kind, resp.Status)
			}
		}
		if got := strings.Join(listed, " "); got != want[f.Machine("n1").State().Personality] {
			t.Errorf("it lists %s", got)
		}
		b.want(400, "POST", action["target"].(string), `{"ResetType": "Suspend"}`)
	})
}

// ETags are weak, strong or not there, and a change needs the right one.
func TestETagsOfPersonalities(t *testing.T) {
	kinds(t, lab.Latency{}, func(t *testing.T, f *lab.Fleet, b *bmc) {
		resp, v := b.do("GET", system(f), "")
		tag := resp.Header.Get("ETag")
		switch name := f.Machine("n1").State().Personality; {
		case name == "idrac9" && tag != "", name == "xcc" && !strings.HasPrefix(tag, `"`), (name == "plain" || name == "ilo5") && !strings.HasPrefix(tag, `W/"`):
			t.Errorf("the ETag is %s", tag)
		}
		if in, ok := v["@odata.etag"]; ok && in != tag {
			t.Errorf("the resource has the ETag %v, the header %s", in, tag)
		}
		if tag != "" {
			b.want(412, "PATCH", system(f), `{"Boot": {"BootSourceOverrideEnabled": "Disabled"}}`, `If-Match: "no"`)
			b.want(200, "PATCH", system(f), `{"Boot": {"BootSourceOverrideEnabled": "Disabled"}}`, "If-Match: "+tag)
		}
	})
}

// Media are inserted and ejected as the personality has it: by actions at one
// of its slots, or by PATCH where there are none.
func TestMediaOfPersonalities(t *testing.T) {
	slots := map[string]string{
		"plain": media, "idrac9": "/redfish/v1/Systems/System.Embedded.1/VirtualMedia/1", "ilo5": "/redfish/v1/Managers/1/VirtualMedia/2",
		"xcc": "/redfish/v1/Systems/1/VirtualMedia/EXT1",
	}
	done := map[string]int{"plain": 204, "idrac9": 204, "ilo5": 200} // an iLO says so
	const image = `{"Image": "http://127.0.0.1:1/a.iso"}`
	kinds(t, lab.Latency{}, func(t *testing.T, f *lab.Fleet, b *bmc) {
		name := f.Machine("n1").State().Personality
		at := slots[name]
		if name == "xcc" {
			b.want(404, "POST", at+"/Actions/VirtualMedia.InsertMedia", image)
			b.want(200, "PATCH", at, image)
			if v := b.want(200, "GET", "/redfish/v1/Managers/1/VirtualMedia/EXT1", ""); v["Inserted"] != true {
				t.Errorf("the same slot at the manager is %v", v)
			}
			b.want(200, "PATCH", at, `{"Image": null}`)
		} else {
			b.want(done[name], "POST", at+"/Actions/VirtualMedia.InsertMedia", image)
			if v := b.want(200, "GET", at, ""); v["Inserted"] != true || v["Image"] != "http://127.0.0.1:1/a.iso" {
				t.Errorf("the slot is %v", v)
			}
			b.want(405, "PATCH", at, image)
			b.want(done[name], "POST", at+"/Actions/VirtualMedia.EjectMedia", "{}")
		}
		if v := b.want(200, "GET", at, ""); v["Inserted"] != false || f.Machine("n1").State().Media != "" {
			t.Errorf("after the eject the slot is %v", v)
		}
	})
}

// A change of the boot order at the settings object waits for the next boot.
func TestBootOrderOfTheSettingsObject(t *testing.T) {
	f := build(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Personality = "xcc" }))
	b, m := beside(t, f), f.Machine("n1")
	const pending = "/redfish/v1/Systems/1/Pending"
	order := b.want(200, "GET", pending, "")["Boot"].(map[string]any)["BootOrder"].([]any)
	b.want(200, "PATCH", pending, `{"Boot": {"BootOrder": ["`+order[1].(string)+`", "`+order[0].(string)+`"]}}`)
	if got := strings.Join(m.BootOrder(), ","); got != "Hdd,Pxe" {
		t.Errorf("before the boot the order is %s", got)
	}
	m.SetPower("on")
	if got := strings.Join(m.BootOrder(), ","); got != "Pxe,Hdd" {
		t.Errorf("after the boot the order is %s", got)
	}
	b.want(400, "PATCH", "/redfish/v1/Systems/1", `{"Boot": {"BootSourceOverrideEnabled": "Continuous"}}`)
}

// What a forced restart makes of a machine that is off.
func TestRestartOfWhatIsOff(t *testing.T) {
	kinds(t, lab.Latency{}, func(t *testing.T, f *lab.Fleet, b *bmc) {
		m := f.Machine("n1")
		want, power := 409, "Off"
		if m.State().Personality == "plain" {
			want, power = 204, "On"
		}
		b.want(want, "POST", system(f)+"/Actions/ComputerSystem.Reset", `{"ResetType": "ForceRestart"}`)
		eventually(t, "the machine is "+power, func() bool { return m.Power() == power })
	})
}

// Bad logins lock an account, or block their sender, after as many and for as
// long as the vendor's do; an iLO takes its time instead.
func TestLockoutsOfPersonalities(t *testing.T) {
	const accounts, bad = "/redfish/v1/AccountService", `{"UserName": "admin", "Password": "wrong"}`
	for name, c := range map[string]struct {
		tries, shown int
		wait         time.Duration
	}{"plain": {}, "ilo5": {}, "idrac9": {3, 0, time.Minute}, "xcc": {5, 5, time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, err := lab.New(one(lab.Latency{Tails: true}, func(c *lab.MachineConfig) { c.Personality = name }))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				b := beside(t, f)
				if v := b.want(200, "GET", accounts, ""); v["AccountLockoutThreshold"] != float64(c.shown) {
					t.Errorf("the threshold is %v, want %d", v["AccountLockoutThreshold"], c.shown)
				}
				began := time.Now()
				for range 6 {
					b.want(401, "POST", sessions, bad, "Authorization: ")
				}
				if took := time.Since(began); (took == 50*time.Second) != (name == "ilo5") {
					t.Errorf("six bad logins took %s", took)
				}
				if got := f.Machine("n1").Counts().Lockouts > 0; got != (c.tries > 0) {
					t.Errorf("a lockout: %v", got)
				}
				if c.tries == 0 {
					b.want(201, "POST", sessions, account, "Authorization: ")
					return
				}
				b.want(401, "POST", sessions, account, "Authorization: ")
				time.Sleep(c.wait + time.Second)
				b.want(201, "POST", sessions, account, "Authorization: ")
			})
		})
	}
}

// The answers of a vendor's BMCs vary around the fleet's latency, with some
// that take many times as long; a page of a log always does.
func TestTails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := lab.New(one(lab.Latency{GET: 100 * time.Millisecond, Tails: true}, func(c *lab.MachineConfig) { c.Personality = "idrac9" }))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := beside(t, f)
		const at, log = "/redfish/v1/Systems/System.Embedded.1", "/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Sel/Entries"
		took := func(path string) time.Duration {
			began := time.Now()
			b.want(200, "GET", path, "")
			return time.Since(began)
		}
		var all []time.Duration
		for range 400 {
			all = append(all, took(at))
		}
		slices.Sort(all)
		if median, last := all[200], all[399]; median < 80*time.Millisecond || median > 125*time.Millisecond || last < 3*median {
			t.Errorf("the median is %s, the longest %s", median, last)
		}
		if d := took(log); d < time.Second {
			t.Errorf("a page of the log takes %s", d)
		}
	})
}

// A task's monitor is where the vendor has it, and what reading it does.
func TestMonitorsOfPersonalities(t *testing.T) {
	kinds(t, lab.Latency{}, func(t *testing.T, f *lab.Fleet, b *bmc) {
		m := f.Machine("n1")
		m.SetFault(lab.Fault{Kind: lab.FaultTask, Times: 1})
		resp, v := b.do("PATCH", system(f), once)
		at, task := resp.Header.Get("Location"), v["@odata.id"].(string)
		name := m.State().Personality
		if strings.Contains(at, "/TaskMonitors/") != (name != "idrac9") {
			t.Errorf("the answer leads to %s", at)
		}
		eventually(t, "the task has ended", func() bool { return b.want(200, "GET", task, "")["TaskState"] == "Completed" })
		b.do("GET", at, "")
		if resp, _ := b.do("GET", task, ""); (resp.StatusCode == 404) != (name == "xcc") {
			t.Errorf("after its monitor was read the task is %s", resp.Status)
		}
	})
}

func TestUnknownPersonality(t *testing.T) {
	_, err := lab.New(one(lab.Latency{}, func(c *lab.MachineConfig) { c.Personality = "toaster" }))
	if err == nil || !strings.Contains(err.Error(), `there is no personality "toaster"; there are: [plain idrac9 ilo5 xcc]`) {
		t.Error(err)
	}
}
