package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The places of the settings of a machine in these tests.
const (
	biosPath     = "/redfish/v1/Systems/1/Bios"
	settingsPath = "/redfish/v1/Systems/1/Bios/Settings"
	queuePath    = "/redfish/v1/Managers/1/Oem/Dell/Jobs"
	registryPath = "/redfish/v1/registries/bios.json"
)

// settings is a BMC whose machine has settings that take effect at a boot.
type settings struct {
	*plug
	current, pending map[string]any
	registry         map[string]any
	// place is where changes are put; empty for the resource itself.
	place string
	times []string
	// mirrors: what waits is shown with all else.
	mirrors bool
	// early: what waits is shown as if it were current.
	early bool
	// queue is Dell's, with its jobs; nil for none.
	queue []map[string]any
	// write answers a PATCH; nil, or 0, takes it.
	write  func(headers http.Header, body map[string]any) (int, string)
	bodies []map[string]any
	// boot takes over what waits; nil takes all.
	boot func()
}

// attr is one entry of a registry.
func attr(name, kind string, more map[string]any) map[string]any {
	a := map[string]any{"AttributeName": name, "Type": kind, "ReadOnly": false}
	maps.Copy(a, more)
	return a
}

// enum is an attribute with values.
func enum(name string, values ...string) map[string]any {
	var all []map[string]any
	for _, v := range values {
		all = append(all, map[string]any{"ValueName": v, "ValueDisplayName": "Shown " + v})
	}
	return attr(name, "Enumeration", map[string]any{"Value": all})
}

func newSettings(t *testing.T, manufacturer string, current map[string]any, attributes ...map[string]any) *settings {
	s := &settings{plug: newPlug(t, "On"), current: current, pending: map[string]any{}, place: settingsPath,
		registry: map[string]any{"RegistryEntries": map[string]any{"Attributes": attributes}}}
	s.system["Manufacturer"], s.system["Bios"] = manufacturer, map[string]any{"@odata.id": biosPath}
	s.system["Links"] = map[string]any{"ManagedBy": []any{map[string]any{"@odata.id": "/redfish/v1/Managers/1"}}}
	s.reset = func(kind string) (int, string) {
		if kind == "On" {
			s.booted()
		}
		return 0, ""
	}
	s.show("GET "+biosPath, s.bios)
	s.show("GET "+settingsPath, func() any { return map[string]any{"Attributes": s.waiting(), "@odata.etag": `W/"1"`} })
	s.show("GET "+registryPath, func() any { return s.registry })
	s.answer("GET /redfish/v1/Registries", text(`{"Members":[{"@odata.id":"/redfish/v1/Registries/Base"},{"@odata.id":"/redfish/v1/Registries/BiosAttributeRegistry.v1_0_0"}]}`))
	s.answer("GET /redfish/v1/Registries/BiosAttributeRegistry.v1_0_0", text(`{"Location":[{"Language":"ja","Uri":"/ja"},{"Language":"en","Uri":"`+registryPath+`"}]}`))
	s.answer("PATCH "+settingsPath, s.patch)
	s.answer("PATCH "+biosPath, s.patch)
	return s
}

// show answers a request with what a function makes.
func (s *settings) show(request string, what func() any) {
	s.answer(request, func(w http.ResponseWriter, r *http.Request) {
		s.plug.mu.Lock()
		body, _ := json.Marshal(what())
		s.plug.mu.Unlock()
		text(string(body))(w, r)
	})
}

func (s *settings) bios() any {
	shown := maps.Clone(s.current)
	if s.early {
		maps.Copy(shown, s.pending)
	}
	o := map[string]any{"AttributeRegistry": "BiosAttributeRegistry.v1_0_3", "Attributes": shown}
	if s.place != "" {
		o["@Redfish.Settings"] = map[string]any{"SettingsObject": map[string]any{"@odata.id": s.place}, "SupportedApplyTimes": s.times}
	}
	return o
}

func (s *settings) waiting() any {
	if !s.mirrors {
		return s.pending
	}
	all := maps.Clone(s.current)
	maps.Copy(all, s.pending)
	return all
}

func (s *settings) patch(w http.ResponseWriter, r *http.Request) {
	s.plug.mu.Lock()
	defer s.plug.mu.Unlock()
	var body map[string]any
	json.NewDecoder(r.Body).Decode(&body)
	s.bodies = append(s.bodies, body)
	if s.write != nil {
		if code, says := s.write(r.Header, body); code != 0 {
			status(code, says)(w, r)
			return
		}
	}
	maps.Copy(s.pending, body["Attributes"].(map[string]any))
	w.WriteHeader(http.StatusAccepted) // without a Location
}

func (s *settings) booted() {
	if s.boot != nil {
		s.boot()
		return
	}
	s.takeOver()
}

func (s *settings) takeOver() {
	maps.Copy(s.current, s.pending)
	clear(s.pending)
}

// sent are the attributes of the last write.
func (s *settings) sent() map[string]any {
	if len(s.bodies) == 0 {
		return nil
	}
	return s.bodies[len(s.bodies)-1]["Attributes"].(map[string]any)
}

// withQueue has settings take effect by a job, as on an iDRAC: made by a write
// with an apply time, gone from the list for the first reads.
func (s *settings) withQueue(late int) *settings {
	s.queue, s.times = []map[string]any{}, []string{"OnReset"}
	s.write = func(_ http.Header, body map[string]any) (int, string) {
		for _, j := range s.queue {
			if j["JobState"] == "Scheduled" {
				return 400, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"IDRAC.2.7.SYS011","Message":"Pending configuration values are already committed"}]}}`
			}
		}
		if body["@Redfish.SettingsApplyTime"] != nil {
			s.addJob("Scheduled")
		}
		return 0, ""
	}
	s.show("GET "+queuePath, func() any {
		if late--; late > 0 && len(s.queue) > 0 {
			return map[string]any{"Members": []any{map[string]any{"@odata.id": queuePath + "/JID_0"}}} // not found yet
		}
		return map[string]any{"Members": s.queue}
	})
	s.boot = func() {
		for _, j := range s.queue {
			j["JobState"] = "Completed"
		}
		s.takeOver()
	}
	return s
}

func (s *settings) addJob(state string) map[string]any {
	id := fmt.Sprintf("JID_%d", len(s.queue)+1)
	j := map[string]any{"@odata.id": queuePath + "/" + id, "Id": id, "JobType": "BIOSConfiguration", "Name": "Configure: BIOS.Setup.1-1", "JobState": state, "Message": "as it went"}
	s.queue = append(s.queue, j)
	s.answer("DELETE "+queuePath+"/"+id, func(w http.ResponseWriter, _ *http.Request) {
		s.plug.mu.Lock()
		defer s.plug.mu.Unlock()
		s.queue = slices.DeleteFunc(s.queue, func(q map[string]any) bool { return q["Id"] == id })
		w.WriteHeader(http.StatusNoContent)
	})
	return j
}

func (s *settings) look(t *testing.T, m *machine, b site.BIOS) sight {
	t.Helper()
	n := &site.Node{BIOS: b}
	seen, err := m.Observe(t.Context(), n, []site.Facet{site.FacetBIOS})
	if err != nil {
		t.Fatal(err)
	}
	st, ok := seen.Facets[site.FacetBIOS]
	if !ok {
		t.Fatal("the settings were not seen")
	}
	return sightOf(st, n)
}

// sight is what was seen of settings, and what a design means by it.
type sight struct {
	site.FacetState
	Want, From, Unresolved site.Values
}

func sightOf(st site.FacetState, n *site.Node) sight {
	r := st.Resolve(n, site.FacetBIOS)
	return sight{st, r.Want, r.From, r.Unresolved}
}

// set takes the step that has settings wait, restart the one that boots.
func (s *settings) set(t *testing.T, m *machine, b site.BIOS) error {
	t.Helper()
	step := site.Step{Machine: site.Identity{UUID: uuid}, Facet: site.FacetBIOS, Action: site.ActionBIOS}
	return m.Apply(t.Context(), step, &site.Node{BIOS: b}, drivertest.Permitted)
}

func (s *settings) restart(t *testing.T, m *machine, b site.BIOS, change ...func(*site.Step)) error {
	t.Helper()
	step := site.Step{Machine: site.Identity{UUID: uuid}, Facet: site.FacetPower, Action: site.ActionRestart, Changes: []site.Change{{Field: "bios.any"}}}
	for _, c := range change {
		c(&step)
	}
	return m.Apply(t.Context(), step, &site.Node{BIOS: b}, drivertest.Permitted)
}

var (
	yes, no = true, false
	noSMT   = site.BIOS{SMT: &no}
)

// asked is a design of attributes.
func asked(attributes map[string]any) site.BIOS { return site.BIOS{Attributes: attributes} }

// follows makes the settings as designed, and returns how often it took.
func (s *settings) follows(t *testing.T, m *machine, b site.BIOS) {
	t.Helper()
	if err := s.set(t, m, b); err != nil {
		t.Fatal(err)
	}
	if st := s.look(t, m, b); !waits(st) {
		t.Fatalf("nothing waits for a boot: %+v", st)
	}
	if err := s.restart(t, m, b); err != nil {
		t.Fatal(err)
	}
	if st := s.look(t, m, b); !maps.Equal(only(st.Have, st.Want), st.Want) || len(st.Pending) > 0 {
		t.Fatalf("after the boot it has %v, pending %v, want %v", st.Have, st.Pending, st.Want)
	}
}

func waits(st sight) bool {
	for name, want := range st.Want {
		if st.Have[name] != want && st.Pending[name] != want {
			return false
		}
	}
	return len(st.Pending) > 0
}

// only is what some values have of the fields of others.
func only(of, fields site.Values) site.Values {
	some := site.Values{}
	for name := range fields {
		some[name] = of[name]
	}
	return some
}

func acme(t *testing.T) *settings {
	return newSettings(t, "Acme", map[string]any{"Mode": "Slow", "Count": 3, "Quiet": false, "Title": "x", "Fixed": "A"},
		enum("Mode", "Slow", "Fast"), attr("Count", "Integer", map[string]any{"LowerBound": 1, "UpperBound": 8, "ScalarIncrement": 1}),
		attr("Quiet", "Boolean", nil), attr("Title", "String", map[string]any{"MinLength": 0, "MaxLength": 4, "ValueExpression": "^[a-z]*$"}),
		attr("Fixed", "String", map[string]any{"Readonly": true}), attr("Secret", "Password", nil), enum("Hidden", "On", "Off"))
}

// The settings of a machine of an unknown maker are set by its own names.
func TestAttributesOfUnknownVendor(t *testing.T) {
	s := acme(t)
	m := open(t, s.endpoint())
	s.follows(t, m, asked(map[string]any{"Mode": "Fast", "Count": 5.0, "Quiet": true, "Title": "abc"}))
	if got := fmt.Sprint(s.sent()); got != "map[Count:5 Mode:Fast Quiet:true Title:abc]" {
		t.Errorf("sent %s", got)
	}
	if _, ok := s.sent()["Count"].(float64); !ok || s.sent()["Quiet"] != true {
		t.Errorf("sent %#v, want a number and a truth value", s.sent())
	}
}

// What the design asks for and the machine cannot have is said of each, and
// nothing is written.
func TestUnresolved(t *testing.T) {
	s := acme(t)
	m := open(t, s.endpoint())
	for _, c := range []struct {
		design site.BIOS
		field  string
		says   string
	}{
		{noSMT, "smt", `no names of settings are known for machines of "Acme"`},
		{asked(map[string]any{"mode": "Fast"}), "attributes.mode", "no attribute of this name; it has Mode"},
		{asked(map[string]any{"Titel": "x"}), "attributes.Titel", "no attribute of this name"},
		{asked(map[string]any{"Mode": "Quick"}), "attributes.Mode", `"Quick" is not one of its values: Slow, Fast`},
		{asked(map[string]any{"Count": 9.0}), "attributes.Count", "9 is not within 1 to 8"},
		{asked(map[string]any{"Count": "many"}), "attributes.Count", "not a whole number"},
		{asked(map[string]any{"Quiet": "no"}), "attributes.Quiet", "neither true nor false"},
		{asked(map[string]any{"Title": "abcde"}), "attributes.Title", "it has 5 letters, and may have 0 to 4"},
		{asked(map[string]any{"Title": "A"}), "attributes.Title", "does not match"},
		{asked(map[string]any{"Fixed": "B"}), "attributes.Fixed", "it is read-only"},
		{asked(map[string]any{"Secret": "x"}), "attributes.Secret", "it is a password"},
		{asked(map[string]any{"Hidden": "On"}), "attributes.Hidden", "the machine does not show Hidden"},
	} {
		st := s.look(t, m, c.design)
		if got := st.Unresolved[c.field]; len(st.Unresolved) != 1 || !strings.Contains(got, c.says) {
			t.Errorf("%s: got %v, want %q", c.field, st.Unresolved, c.says)
		}
		if err := s.set(t, m, c.design); !errors.Is(err, driver.ErrRefused) || len(s.bodies) > 0 {
			t.Errorf("%s: got %v after %d writes", c.field, err, len(s.bodies))
		}
	}
}

// A machine without settings is no machine whose settings are as designed.
func TestNoSettingsAtAll(t *testing.T) {
	s := acme(t)
	delete(s.system, "Bios")
	m := open(t, s.endpoint())
	st := s.look(t, m, site.BIOS{SMT: &yes, Attributes: map[string]any{"Mode": "Fast"}})
	if len(st.Unresolved) != 2 || !strings.Contains(st.Unresolved["smt"], "shows no settings") {
		t.Errorf("got %v", st.Unresolved)
	}
}

func TestSettingsAlreadySo(t *testing.T) {
	s := acme(t)
	m := open(t, s.endpoint())
	same := asked(map[string]any{"Mode": "Shown Slow", "Count": int64(3), "Fixed": "A"}) // by what people are shown
	st := s.look(t, m, same)
	if len(st.Unresolved) > 0 || st.Want["Mode"] != "Slow" || st.From["Mode"] != "attributes.Mode" {
		t.Errorf("got %+v", st)
	}
	if err := errors.Join(s.set(t, m, same), s.restart(t, m, same)); err != nil || len(s.bodies) > 0 || len(s.plug.asked) > 0 {
		t.Errorf("got %v, %d writes, resets %v", err, len(s.bodies), s.plug.asked)
	}
}

// A look takes at most two requests, and the registry is read once for all
// machines of a kind.
func TestLookAtSettingsIsTwoRequests(t *testing.T) {
	for _, vendor := range []string{"Acme", "Dell Inc.", "HPE"} {
		s := newSettings(t, vendor, map[string]any{"Mode": "Slow"}, enum("Mode", "Slow", "Fast")).withQueue(0)
		d := New(fast)
		var registryReads int
		for range 3 {
			m := openWith(t, d, s.endpoint())
			design := asked(map[string]any{"Mode": "Slow"})
			s.look(t, m, design)
			registryReads += countOf(s.bmc.took(), "GET "+registryPath)
			s.look(t, m, design)
			if got := slices.DeleteFunc(s.bmc.took(), func(a string) bool { return a == "GET /redfish/v1/Systems/1" }); len(got) > 2 {
				t.Errorf("%s: a look took %v", vendor, got)
			}
		}
		if registryReads != 1 {
			t.Errorf("%s: the registry was read %d times for 3 machines", vendor, registryReads)
		}
	}
}

func countOf(all []string, one string) int {
	n := 0
	for _, a := range all {
		if a == one {
			n++
		}
	}
	return n
}

func openWith(t *testing.T, d *Driver, e site.Endpoint) *machine {
	t.Helper()
	m, err := d.Open(t.Context(), e, secret.New("admin", "hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m.(*machine)
}
