package redfish

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// plug is a BMC whose machine changes its power as resets say.
type plug struct {
	*bmc
	mu     sync.Mutex
	power  string
	system map[string]any
	// reset says how a reset is answered; 0 takes it.
	reset func(kind string) (int, string)
	asked []string
}

func newPlug(t *testing.T, power string) *plug {
	p := &plug{bmc: newBMC(t), power: power, reset: func(string) (int, string) { return 0, "" }}
	if err := json.Unmarshal([]byte(healthySystem), &p.system); err != nil {
		t.Fatal(err)
	}
	p.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.system["PowerState"] = p.power
		body, _ := json.Marshal(p.system)
		text(string(body))(w, r)
	})
	p.answer(resetRequest, func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var body struct{ ResetType string }
		json.NewDecoder(r.Body).Decode(&body)
		p.asked = append(p.asked, body.ResetType)
		if code, says := p.reset(body.ResetType); code != 0 {
			status(code, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"`+says+`","Message":"no"}]}}`)(w, r)
			return
		}
		switch body.ResetType {
		case "On", "ForceOn":
			p.power = "On"
		case "ForceOff", "GracefulShutdown":
			p.power = "Off"
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return p
}

func (p *plug) listInline(kinds ...string) {
	p.system["Actions"].(map[string]any)["#ComputerSystem.Reset"].(map[string]any)["ResetType@Redfish.AllowableValues"] = kinds
}

// describe has the system say where its resets are described.
func (p *plug) describe(info any) {
	p.system["Actions"].(map[string]any)["#ComputerSystem.Reset"].(map[string]any)["@Redfish.ActionInfo"] = info
}

func (p *plug) take(t *testing.T, a site.Action, change ...func(*site.Step)) error {
	t.Helper()
	step := site.Step{Machine: site.Identity{UUID: uuid}, Action: a}
	for _, c := range change {
		c(&step)
	}
	return open(t, p.endpoint()).Apply(t.Context(), step, &site.Node{}, drivertest.Permitted)
}

func (p *plug) wants(t *testing.T, power string, asked ...string) {
	t.Helper()
	if p.power != power || !slices.Equal(p.asked, asked) {
		t.Errorf("the machine is %s after %v, want %s after %v", p.power, p.asked, power, asked)
	}
}

func TestQuirkResetsInActionInfo(t *testing.T) {
	const info = `{"Parameters":[{"Name":"Other","AllowableValues":["On"]},{"Name":"ResetType","AllowableValues":["ForceOff","ForceOn"]}]}`
	for name, c := range map[string]struct {
		info  any
		takes http.HandlerFunc
		is    error
		asked []string
	}{
		"as a path":      {"/redfish/v1/Systems/1/ResetActionInfo", text(info), nil, []string{"ForceOn"}},
		"as a reference": {map[string]string{"@odata.id": "/redfish/v1/Systems/1/ResetActionInfo"}, text(info), nil, []string{"ForceOn"}},
		"missing":        {"/redfish/v1/Systems/1/ResetActionInfo", status(404, ""), nil, []string{"On"}},
		"garbled":        {17, text(`{"Parameters":{"Name":7}}`), nil, []string{"On"}},
		"not now":        {"/redfish/v1/Systems/1/ResetActionInfo", status(503, ""), driver.ErrBusy, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlug(t, "Off")
			p.describe(c.info)
			p.answer("GET /redfish/v1/Systems/1/ResetActionInfo", c.takes)
			if err := p.take(t, site.ActionPowerOn); !errors.Is(err, c.is) {
				t.Errorf("got %v", err)
			}
			if !slices.Equal(p.asked, c.asked) {
				t.Errorf("asked for %v, want %v", p.asked, c.asked)
			}
		})
	}
}

// What is listed with the action goes before what is described elsewhere.
func TestInlineResetsNeedNoFurtherRequest(t *testing.T) {
	p := newPlug(t, "Off")
	p.listInline("On", "ForceOff")
	p.describe("/redfish/v1/Systems/1/ResetActionInfo")
	if err := p.take(t, site.ActionPowerOn); err != nil || p.count("GET /redfish/v1/Systems/1/ResetActionInfo") != 0 {
		t.Errorf("got %v", err)
	}
	p.wants(t, "On", "On")
}

func TestQuirkForceOnInsteadOfOn(t *testing.T) {
	p := newPlug(t, "Off")
	p.listInline("ForceOn", "ForceOff", "PushPowerButton")
	if err := p.take(t, site.ActionPowerOn); err != nil {
		t.Error(err)
	}
	p.wants(t, "On", "ForceOn")
}

func TestQuirkOnIsRefusedForAMinute(t *testing.T) {
	for maker, tries := range map[string]int{"Dell Inc.": 5, "HPE": 1} {
		p := newPlug(t, "Off")
		p.system["Manufacturer"] = maker
		p.reset = func(string) (int, string) {
			if len(p.asked) < 5 {
				return 409, "IDRAC.2.9.ActionParameterValueConflict"
			}
			return 0, ""
		}
		if err := p.take(t, site.ActionPowerOn); (err == nil) != (tries == 5) || err != nil && !errors.Is(err, driver.ErrBusy) {
			t.Errorf("%s: got %v", maker, err)
		}
		if len(p.asked) != tries {
			t.Errorf("%s: asked %d times, want %d", maker, len(p.asked), tries)
		}
	}
	p := newPlug(t, "Off")
	p.system["Manufacturer"] = "Dell Inc."
	p.reset = func(string) (int, string) { return 409, "X" }
	if err := p.take(t, site.ActionPowerOn); !errors.Is(err, driver.ErrBusy) || len(p.asked) != slowPowerOnTries {
		t.Errorf("for ever: got %v after %d tries", err, len(p.asked))
	}
}

// A refusal that only says "already so" is success, whatever its status.
func TestQuirkAlreadySo(t *testing.T) {
	for _, code := range []int{400, 409, 412, 500, 503} {
		p := newPlug(t, "On")
		p.reset = func(string) (int, string) { p.power = "Off"; return code, "IDRAC.2.8.PSU501" }
		if err := p.take(t, site.ActionPowerOff); err != nil {
			t.Errorf("%d: got %v", code, err)
		}
		p.wants(t, "Off", "GracefulShutdown")
	}
}

// ForceRestart is never relied on: some BMCs accept it and do nothing.
func TestQuirkForceRestartWithoutEffect(t *testing.T) {
	p := newPlug(t, "On")
	if err := p.take(t, site.ActionRestart); err != nil {
		t.Error(err)
	}
	p.wants(t, "On", "GracefulShutdown", "On")
	p = newPlug(t, "On")
	if err := p.take(t, site.ActionRestart, func(s *site.Step) { s.Force = true }); err != nil {
		t.Error(err)
	}
	p.wants(t, "On", "ForceOff", "On")
	p = newPlug(t, "Off") // broken off in the middle, and taken up again
	if err := p.take(t, site.ActionRestart, func(s *site.Step) { s.Resumed = true }); err != nil {
		t.Error(err)
	}
	p.wants(t, "On", "On")
}

// Vendors' ways to say "not now" are retried by the engine, and never cut the
// power of a system that only could not be asked yet.
func TestQuirkNotNow(t *testing.T) {
	for id, code := range map[string]int{
		"IDRAC.2.8.SYS518": 400, "iLO.2.14.InvalidOperationForSystemState": 400, "iLO.2.14.UnableToModifyDuringSystemPOST": 400,
		"Base.1.8.ServiceTemporarilyUnavailable": 400, "Base.1.12.1.ResourceInStandby": 400, "SYS518": 500,
	} {
		p := newPlug(t, "On")
		p.reset = func(string) (int, string) { return code, id }
		if err := p.take(t, site.ActionPowerOff); !errors.Is(err, driver.ErrBusy) || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: got %v", id, err)
		}
		p.wants(t, "On", "GracefulShutdown")
	}
}

// A system that cannot be shut down is switched off.
func TestShutdownThatIsNotTaken(t *testing.T) {
	p := newPlug(t, "On")
	p.listInline("On", "ForceOff")
	if err := p.take(t, site.ActionPowerOff); err != nil {
		t.Error(err)
	}
	p.wants(t, "Off", "ForceOff")
	p = newPlug(t, "On")
	p.reset = func(kind string) (int, string) {
		if kind == "GracefulShutdown" {
			return 400, "Base.1.8.ActionParameterNotSupported"
		}
		return 0, ""
	}
	if err := p.take(t, site.ActionPowerOff); err != nil {
		t.Error(err)
	}
	p.wants(t, "Off", "GracefulShutdown", "ForceOff")
}

// A machine that takes a request and does nothing is told as such, before the engine
// ends the step: off by shutdown and by force, then on.
func TestTheDriverEndsAStepByItself(t *testing.T) {
	o := New(Options{}).opts
	if longest := o.Grace + 2*o.Settle; longest+time.Minute > driver.LongestStep {
		t.Errorf("a restart may wait for %s, and a step has %s", longest, driver.LongestStep)
	}
}

// Whoever looks is told that a system shuts down, and that a machine is to be off.
func TestWaitForShutdownIsTold(t *testing.T) {
	for force, want := range map[bool][]string{false: {"its system to shut down 50ms", "over"}, true: {"the machine to be off 200ms", "over"}} {
		p := newPlug(t, "On")
		var told []string
		ctx := driver.ShowWaits(t.Context(), func(w *driver.Wait) {
			if w == nil {
				told = append(told, "over")
				return
			}
			told = append(told, w.For+" "+w.Limit.String())
		})
		step := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionPowerOff, Force: force}
		if err := open(t, p.endpoint()).Apply(ctx, step, &site.Node{}, drivertest.Permitted); err != nil {
			t.Error(err)
		}
		if !slices.Equal(told, want) {
			t.Errorf("with force %t: told %q, want %q", force, told, want)
		}
	}
}
