package redfish_test

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/redfish"
)

// The paths of the two nodes of an enclosure, of which the tests use the first.
const (
	ownPath       = "/redfish/v1/Systems/1"
	neighbourPath = "/redfish/v1/Systems/2"
)

var ownIdentity = site.Identity{UUID: "3d1c0000-0000-4000-8000-0000000000a1"}

// neighbours is the BMC of two nodes that may mistake one for the other: node 1
// says who it is, and its links lead to where the test wants them to. The BMC
// resolves "..", and does not tell upper case from lower.
type neighbours struct {
	*httptest.Server
	// settings, reset, media and session are where node 1's links and the login's
	// session lead; empty for node 1's own and for an ordinary session.
	settings, reset, media, session string

	mu     sync.Mutex
	power  string
	boot   fields
	writes []string
}

type fields = map[string]any

func ref(path string) fields { return fields{"@odata.id": path} }

func newNeighbours(t *testing.T) *neighbours {
	n := &neighbours{power: "Off", boot: fields{
		"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None",
		"BootSourceOverrideMode": "UEFI", "HttpBootUri": "",
		"BootSourceOverrideTarget@Redfish.AllowableValues": []string{"None", "UefiHttp", "Cd", "Hdd"},
	}}
	n.Server = httptest.NewTLSServer(n)
	t.Cleanup(n.Close)
	return n
}

func (n *neighbours) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := path.Clean(r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	switch answer, ok := n.resources()[at]; {
	case r.Method == http.MethodPost && strings.HasSuffix(at, "/Sessions"):
		w.Header().Set("X-Auth-Token", "t")
		w.Header().Set("Location", cmp.Or(n.session, "/redfish/v1/SessionService/Sessions/1"))
		w.WriteHeader(http.StatusCreated)
	case r.Method != http.MethodGet:
		n.written(at, r)
		w.WriteHeader(http.StatusNoContent)
	case ok:
		json.NewEncoder(w).Encode(answer)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// written carries a write out and notes it.
func (n *neighbours) written(at string, r *http.Request) {
	n.writes = append(n.writes, r.Method+" "+at)
	var body struct{ Boot fields }
	json.NewDecoder(r.Body).Decode(&body)
	for k, v := range body.Boot {
		n.boot[k] = v
	}
	if strings.HasSuffix(strings.ToLower(at), "computersystem.reset") {
		n.power, n.boot["BootSourceOverrideEnabled"] = "On", "Disabled"
	}
}

// resources are what the BMC has to read.
func (n *neighbours) resources() map[string]fields {
	all := map[string]fields{
		"/redfish/v1":         {"Links": fields{"Sessions": ref("/redfish/v1/SessionService/Sessions")}},
		"/redfish/v1/Systems": {"Members": []fields{ref(ownPath), ref(neighbourPath)}},
		ownPath:               n.system(ownPath, ownIdentity.UUID, n.settings, n.reset, n.media),
		neighbourPath:         n.system(neighbourPath, "3d1c0000-0000-4000-8000-0000000000a2", "", "", ""),
	}
	for _, system := range []string{ownPath, neighbourPath} {
		drive := system + "/VirtualMedia/1"
		all[system+"/Settings"] = fields{"@odata.id": system + "/Settings", "Boot": n.boot}
		all[system+"/VirtualMedia"] = fields{"Members": []fields{ref(drive)}}
		all[drive] = fields{"@odata.id": drive, "MediaTypes": []string{"CD"}, "Inserted": false,
			"Actions": fields{"#VirtualMedia.InsertMedia": fields{"target": drive + "/Actions/VirtualMedia.InsertMedia"}}}
	}
	return all
}

// system is a node whose links are its own where they are empty.
func (n *neighbours) system(at, uuid, settings, reset, media string) fields {
	return fields{"UUID": uuid, "PowerState": n.power, "Boot": n.boot,
		"VirtualMedia":      ref(cmp.Or(media, at+"/VirtualMedia")),
		"@Redfish.Settings": fields{"SettingsObject": ref(cmp.Or(settings, at+"/Settings"))},
		"Actions": fields{"#ComputerSystem.Reset": fields{
			"target": cmp.Or(reset, at+"/Actions/ComputerSystem.Reset"), "ResetType@Redfish.AllowableValues": []string{"On", "ForceOff"},
		}}}
}

// apply takes a step of node 1, logs out, and gives what was written.
func (n *neighbours) apply(t *testing.T, step site.Step, installBy string) (writes []string, err error) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.Certificate().Raw})
	e := site.Endpoint{URL: "redfish+" + n.URL + ownPath, Trust: site.Trust{CA: string(ca)}}
	m, err := redfish.New(patience).Open(t.Context(), e, secret.New("admin", "pw"))
	if err != nil {
		t.Fatal(err)
	}
	step.Node, step.Machine = "a", ownIdentity
	node := &site.Node{Name: "a", Identity: ownIdentity, Boot: site.Boot{InstallBy: installBy}}
	err = m.Apply(t.Context(), step, node, drivertest.Permitted)
	m.Close() // which may fail, where the session is none
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.writes, err
}

func toNeighbour(write string) bool {
	return strings.Contains(strings.ToLower(write), strings.ToLower(neighbourPath))
}

// A step for one machine writes nothing to the resources of another behind the
// same BMC, whichever link leads there.
func TestNothingIsWrittenToANeighbour(t *testing.T) {
	install := site.Step{Facet: site.FacetImage, Action: site.ActionInstall, Impact: site.ImpactDestructive, Generation: 1,
		Image: &site.Image{URL: "https://images.example/installer.iso", SHA256: "d1"}}
	settings, reset, media := neighbourPath+"/Settings", neighbourPath+"/Actions/ComputerSystem.Reset", neighbourPath+"/VirtualMedia"
	for name, c := range map[string]struct {
		settings, reset, media string
		installBy              string
		leadsTo, written       string
	}{
		"settings":           {settings: settings, installBy: "http", leadsTo: settings, written: "; nothing was written"},
		"reset":              {reset: reset, installBy: "http", leadsTo: reset, written: "; nothing more was written, after "},
		"settings and reset": {settings: settings, reset: reset, installBy: "http", leadsTo: settings, written: "; nothing was written"},
		"virtual media":      {media: media, leadsTo: media + "/1/Actions/VirtualMedia.InsertMedia"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNeighbours(t)
			n.settings, n.reset, n.media = c.settings, c.reset, c.media
			writes, err := n.apply(t, install, c.installBy)
			if slices.ContainsFunc(writes, toNeighbour) {
				t.Errorf("written were %v", writes)
			}
			says := "the BMC's answer for " + ownPath + " links to " + c.leadsTo + ", which belongs to another system"
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), c.written) {
				t.Errorf("got %v, want a refusal that says %q and %q", err, says, c.written)
			}
		})
	}
}

// A link to a neighbour is known in whatever way it is spelled, and so is one to
// the machine itself.
func TestSpellingsOfALinkToANeighbour(t *testing.T) {
	const action = "/Actions/ComputerSystem.Reset"
	absolute := errors.New("an absolute URL")
	for link, is := range map[string]error{
		ownPath + action:       nil,
		ownPath + action + "/": nil,
		"/redfish/v1/systems/1/actions/ComputerSystem.reset": nil,
		"/redfish/v1/Systems/%31" + action:                   nil,
		"/redfish/v1//Systems//1/" + action:                  nil,
		"/redfish/v1/Managers/1" + action:                    nil,
		neighbourPath:                                        driver.ErrRefused,
		neighbourPath + action + "/":                         driver.ErrRefused,
		neighbourPath + action + "?of=" + ownPath:            driver.ErrRefused,
		"/redfish/v1/SYSTEMS/2" + action:                     driver.ErrRefused,
		"/redfish/v1/Systems/%32" + action:                   driver.ErrRefused,
		"/redfish/v1/%53ystems%2F2" + action:                 driver.ErrRefused,
		"/redfish/v1/Systems/1%3F" + action:                  driver.ErrRefused,
		"/redfish/v1/Systems/11" + action:                    driver.ErrRefused,
		"//redfish/v1//Systems//2" + action:                  driver.ErrRefused,
		ownPath + "/../2" + action:                           driver.ErrRefused,
		ownPath + "/%2e%2E/2" + action:                       driver.ErrRefused,
		"/redfish/v1/Managers/1/../../Systems/2" + action:    driver.ErrRefused,
		neighbourPath + "/../1" + action:                     driver.ErrRefused,
		"https://HOST" + neighbourPath + action:              absolute,
		"//HOST" + neighbourPath + action:                    driver.ErrRefused,
	} {
		n := newNeighbours(t)
		n.reset = strings.Replace(link, "HOST", n.Listener.Addr().String(), 1)
		writes, err := n.apply(t, site.Step{Facet: site.FacetPower, Action: site.ActionPowerOn}, "")
		switch {
		case slices.ContainsFunc(writes, toNeighbour):
			t.Errorf("%s: written were %v", link, writes)
		case is == nil && (err != nil || n.power != "On"):
			t.Errorf("%s: got %v, and the machine is %s", link, err, n.power)
		case is != nil && (err == nil || n.power != "Off"):
			t.Errorf("%s: got %v, and the machine is %s", link, err, n.power)
		case is == driver.ErrRefused && !errors.Is(err, is):
			t.Errorf("%s: got %v, want a refusal", link, err)
		}
	}
}

// What the BMC calls a session is not deleted where it is a system.
func TestSessionThatIsASystem(t *testing.T) {
	n := newNeighbours(t)
	n.session = neighbourPath
	writes, err := n.apply(t, site.Step{Facet: site.FacetPower, Action: site.ActionPowerOn}, "")
	if want := []string{"POST " + ownPath + "/Actions/ComputerSystem.Reset"}; err != nil || !slices.Equal(writes, want) {
		t.Errorf("got %v, and written were %v, want %v", err, writes, want)
	}
}
