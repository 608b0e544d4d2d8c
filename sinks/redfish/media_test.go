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
	"github.com/slipway-gitops/slipway/engine/site"
)

// bay is a virtual media slot with habits.
type bay struct {
	path  string
	shows map[string]any
	// takes says what is wrong with an insertion; 0 takes it.
	takes func(body map[string]any) (int, string)
	// ejects says how an ejection is answered; 0 ejects.
	ejects func(body map[string]any) (int, string)
	stale  bool // Inserted stays true
	got    []map[string]any
}

// rig is a machine with boot settings and slots.
type rig struct {
	*plug
	bays []*bay
	// overrides are the boot settings that were sent.
	overrides []map[string]any
	// boots says what is wrong with boot settings; 0 takes them.
	boots func(boot map[string]any) (int, string)
}

func newRig(t *testing.T, maker string, bays ...*bay) *rig {
	r := &rig{plug: newPlug(t, "Off"), bays: bays, boots: func(map[string]any) (int, string) { return 0, "" }}
	r.system["Manufacturer"] = maker
	r.system["VirtualMedia"] = map[string]any{"@odata.id": "/vm"}
	r.answer("GET /vm", text(members(bays)))
	for _, b := range bays {
		r.serveBay(b)
	}
	r.answer("PATCH /redfish/v1/Systems/1", r.patchBoot(func() map[string]any { return r.system["Boot"].(map[string]any) }))
	return r
}

func members(bays []*bay) string {
	var refs []string
	for _, b := range bays {
		refs = append(refs, fmt.Sprintf(`{"@odata.id":%q}`, b.path))
	}
	return `{"Members":[` + strings.Join(refs, ",") + `]}`
}

// patchBoot takes boot settings into what they are of.
func (r *rig) patchBoot(into func() map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		var body struct{ Boot map[string]any }
		json.NewDecoder(req.Body).Decode(&body)
		r.overrides = append(r.overrides, body.Boot)
		if code, id := r.boots(body.Boot); code != 0 {
			refuse(w, code, id)
			return
		}
		maps.Copy(into(), body.Boot)
		w.WriteHeader(http.StatusNoContent)
	}
}

func refuse(w http.ResponseWriter, code int, id string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error":{"@Message.ExtendedInfo":[{"MessageId":%q}]}}`, id)
}

// newBay is a slot with both actions that takes everything.
func newBay(path string) *bay {
	yes := func(map[string]any) (int, string) { return 0, "" }
	return &bay{path: path, takes: yes, ejects: yes, shows: map[string]any{
		"MediaTypes": []string{"CD", "DVD"}, "Inserted": false, "ConnectedVia": "NotConnected", "Image": nil,
		"Actions": map[string]any{
			"#VirtualMedia.InsertMedia": map[string]any{"target": path + "/insert"},
			"#VirtualMedia.EjectMedia":  map[string]any{"target": path + "/eject"},
		},
	}}
}

func (b *bay) drop(action string) *bay {
	delete(b.shows["Actions"].(map[string]any), "#VirtualMedia."+action)
	return b
}

func (r *rig) serveBay(b *bay) {
	r.answer("GET "+b.path, func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		body, _ := json.Marshal(b.shows)
		text(string(body))(w, req)
	})
	change := func(eject func(map[string]any) bool) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			r.mu.Lock()
			defer r.mu.Unlock()
			var body map[string]any
			json.NewDecoder(req.Body).Decode(&body)
			b.got = append(b.got, body)
			answer := b.takes
			if eject(body) {
				answer = b.ejects
			}
			if code, id := answer(body); code != 0 {
				refuse(w, code, id)
				return
			}
			b.set(body, eject(body))
			w.WriteHeader(http.StatusNoContent)
		}
	}
	r.answer("POST "+b.path+"/insert", change(func(map[string]any) bool { return false }))
	r.answer("POST "+b.path+"/eject", change(func(map[string]any) bool { return true }))
	r.answer("PATCH "+b.path, change(func(body map[string]any) bool { return body["Image"] == nil }))
}

func (b *bay) set(body map[string]any, eject bool) {
	b.shows["Inserted"], b.shows["Image"], b.shows["ConnectedVia"] = true, body["Image"], "URI"
	if eject {
		b.shows["Inserted"], b.shows["Image"], b.shows["ConnectedVia"] = b.stale, nil, "NotConnected"
	}
}

const image = "http://192.0.2.9/n1.iso"

func (r *rig) install(t *testing.T) error {
	return r.take(t, site.ActionInstall, func(s *site.Step) { s.Image = &site.Image{URL: image} })
}

func (r *rig) installs(t *testing.T, in *bay) {
	t.Helper()
	if err := r.install(t); err != nil {
		t.Error(err)
	}
	if in.shows["Image"] != image || in.shows["Inserted"] != true || r.power != "On" {
		t.Errorf("the machine is %s with %v", r.power, in.shows)
	}
}

func TestQuirkSlotsWithoutInsertMedia(t *testing.T) {
	console, dvd := newBay("/vm/1").drop("InsertMedia"), newBay("/vm/2")
	dvd.shows["MediaTypes"] = []string{"DVD"}
	newRig(t, "Cisco Systems Inc.", console, dvd).installs(t, dvd)
}

// A slot that is shown and cannot be read leaves the others; a collection that
// is, those of the manager.
func TestUnreadableSlot(t *testing.T) {
	of := newBay("/vm/2")
	managed := newRig(t, "Maker", of)
	managed.answer("GET /vm", status(404, ""))
	managed.system["Links"] = map[string]any{"ManagedBy": []any{map[string]any{"@odata.id": "/m"}}}
	managed.answer("GET /m", text(`{"VirtualMedia":{"@odata.id":"/m/vm"}}`))
	managed.answer("GET /m/vm", text(members(managed.bays)))
	managed.installs(t, of)
	broken, good := newBay("/vm/1"), newBay("/vm/2")
	r := newRig(t, "Maker", broken, good)
	r.answer("GET /vm/1", status(404, ""))
	r.installs(t, good)
}

// Who says so boots from what is set and inserted.
func TestPowerOnAsSet(t *testing.T) {
	drive := newBay("/vm/1")
	r := newRig(t, "Maker", drive)
	drive.set(map[string]any{"Image": image}, false)
	maps.Copy(r.system["Boot"].(map[string]any), map[string]any{"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Cd"})
	if err := r.take(t, site.ActionPowerOn, func(s *site.Step) { s.AsSet = true }); err != nil || r.power != "On" {
		t.Fatal(err)
	}
	if len(drive.got)+len(r.overrides) > 0 {
		t.Errorf("the drive was asked for %v, the boot for %v", drive.got, r.overrides)
	}
}

// What an installation that was broken off has left is taken out of every drive,
// also where another medium is in one that comes before it.
func TestEveryDriveIsEmptied(t *testing.T) {
	for name, action := range map[string]site.Action{"power on": site.ActionPowerOn, "install": site.ActionInstall} {
		first, second := newBay("/vm/1"), newBay("/vm/2")
		r := newRig(t, "Maker", first, second)
		first.set(map[string]any{"Image": "http://192.0.2.9/tools.iso"}, false)
		second.set(map[string]any{"Image": image}, false)
		if err := r.take(t, action, func(s *site.Step) { s.Image = &site.Image{URL: image} }); err != nil || r.power != "On" {
			t.Fatalf("%s: %v", name, err)
		}
		if in := second.shows["Inserted"]; in != false {
			t.Errorf("%s: the second drive holds %v", name, second.shows["Image"])
		}
		if in := first.shows["Image"]; (in == image) != (action == site.ActionInstall) || in == "http://192.0.2.9/tools.iso" {
			t.Errorf("%s: the first drive holds %v", name, in)
		}
	}
}

// What is inserted at a manager of several machines may be booted by each of them.
func TestQuirkManagersSlotsAreShared(t *testing.T) {
	for other, refused := range map[string]bool{
		`{"Boot":{"BootSourceOverrideTarget@Redfish.AllowableValues":["Pxe","UsbCd"]}}`: true,
		`{"Boot":{"BootSourceOverrideTarget@Redfish.AllowableValues":["Pxe"]}}`:         false,
		`{"SystemType":"Physical"}`: false, // the baseboard of GPUs
	} {
		drive := newBay("/vm/1")
		r := newRig(t, "Maker", drive)
		delete(r.system, "VirtualMedia")
		r.system["Links"] = map[string]any{"ManagedBy": []any{map[string]any{"@odata.id": "/m"}}}
		r.answer("GET /m", text(`{"VirtualMedia":{"@odata.id":"/vm"},"Links":{"ManagerForServers":[{"@odata.id":"/redfish/v1/Systems/1"},{"@odata.id":"/redfish/v1/Systems/2"}]}}`))
		r.answer("GET /redfish/v1/Systems/2", text(other))
		err := r.install(t)
		if refused != errors.Is(err, errors.ErrUnsupported) || refused && (len(drive.got) > 0 || !strings.Contains(err.Error(), "/redfish/v1/Systems/2")) || !refused && err != nil {
			t.Errorf("%s: got %v with %v", other, err, drive.got)
		}
	}
}

// What is inserted at a manager that serves another machine only is not this
// machine's, whatever that one boots from.
func TestManagerOfANeighbour(t *testing.T) {
	drive := newBay("/vm/1")
	r := newRig(t, "Maker", drive)
	delete(r.system, "VirtualMedia")
	r.system["Links"] = map[string]any{"ManagedBy": []any{map[string]any{"@odata.id": "/redfish/v1/Managers/2"}}}
	r.answer("GET /redfish/v1/Managers/2", text(`{"VirtualMedia":{"@odata.id":"/vm"},"Links":{"ManagerForServers":[{"@odata.id":"/redfish/v1/Systems/2"}]}}`))
	err := r.install(t)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "serves /redfish/v1/Systems/2 instead") || len(drive.got) > 0 {
		t.Errorf("got %v with %v", err, drive.got)
	}
}

func TestQuirkMediaTypesNull(t *testing.T) {
	floppy, any := newBay("/vm/1"), newBay("/vm/2")
	floppy.shows["MediaTypes"], any.shows["MediaTypes"] = []string{"Floppy", "USBStick"}, nil
	newRig(t, "GIGABYTE", floppy, any).installs(t, any)
}

func TestQuirkNextSlot(t *testing.T) {
	for _, code := range []int{400, 404, 405, 501} {
		first, second := newBay("/vm/1"), newBay("/vm/2")
		first.takes = func(map[string]any) (int, string) { return code, "Base.1.8.GeneralError" }
		newRig(t, "OpenBMC", first, second).installs(t, second)
	}
	// What another slot cannot mend is told.
	first, second := newBay("/vm/1"), newBay("/vm/2")
	first.takes = func(map[string]any) (int, string) { return 403, "Base.1.8.InsufficientPrivilege" }
	if err := newRig(t, "OpenBMC", first, second).install(t); !errors.Is(err, driver.ErrRefused) || len(second.got) != 0 {
		t.Errorf("got %v", err)
	}
	// What was refused is not waited for.
	drive := newBay("/vm/1")
	drive.takes = func(map[string]any) (int, string) { return 503, "Base.1.8.ServiceTemporarilyUnavailable" }
	r := newRig(t, "OpenBMC", drive)
	if err := r.install(t); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("got %v", err)
	}
	if n := r.count("GET /vm/1"); n > 3 {
		t.Errorf("the drive was read %d times", n)
	}
}

func TestQuirkFirstSlotOnly(t *testing.T) {
	for model, wants := range map[string]int{"PowerEdge R770": 0, "PowerEdge R750": 1} {
		first, second := newBay("/vm/1"), newBay("/vm/2")
		second.set(map[string]any{"Image": "http://192.0.2.9/other.iso"}, false)
		r := newRig(t, "Dell Inc.", first, second)
		r.system["Model"] = model
		r.system["Links"] = map[string]any{"ManagedBy": []any{map[string]any{"@odata.id": "/m"}}}
		r.answer("GET /m", text(`{"FirmwareVersion":"6.00.30.00"}`))
		r.installs(t, []*bay{first, second}[wants])
	}
}

func TestQuirkManagersSlotsWhereTheSystemHasNone(t *testing.T) {
	b := newBay("/vm/1")
	r := newRig(t, "HPE", b)
	delete(r.system, "VirtualMedia")
	r.system["Links"] = map[string]any{"ManagedBy": []any{map[string]any{"@odata.id": "/m"}}}
	r.answer("GET /m", text(`{"FirmwareVersion":"iLO 5 v2.72","VirtualMedia":{"@odata.id":"/vm"}}`))
	r.installs(t, b)
}

func TestQuirkInsertByPatch(t *testing.T) {
	b := newBay("/vm/1")
	delete(b.shows, "Actions")
	b.set(map[string]any{"Image": "http://192.0.2.9/old.iso"}, false)
	r := newRig(t, "Lenovo", b)
	r.installs(t, b)
	if len(b.got) != 2 || b.got[0]["Image"] != nil || b.got[1]["Image"] != image || b.got[1]["Inserted"] != true || b.got[1]["WriteProtected"] != true {
		t.Errorf("got %v", b.got)
	}
	b.ejects = func(body map[string]any) (int, string) {
		if _, ok := body["Inserted"]; ok {
			return 400, "Base.1.8.PropertyNotWritable"
		}
		return 0, ""
	}
	r.power = "Off"
	if err := r.take(t, site.ActionFinishInstall); err != nil || b.shows["Inserted"] != false {
		t.Errorf("got %v with %v", err, b.shows)
	}
}

func TestQuirkInsertParameters(t *testing.T) {
	lacks := func(names ...string) func(map[string]any) (int, string) {
		return func(body map[string]any) (int, string) {
			for _, n := range names {
				if body[n] == nil {
					return 400, "Base.1.8.ActionParameterMissing"
				}
			}
			return 0, ""
		}
	}
	dislikes := func(id string) func(map[string]any) (int, string) {
		return func(body map[string]any) (int, string) {
			if body["Inserted"] != nil || body["WriteProtected"] != nil {
				return 400, id
			}
			return 0, ""
		}
	}
	for name, c := range map[string]struct {
		maker string
		takes func(map[string]any) (int, string)
		tries int
	}{
		"wants the transfer":             {"Acme", lacks("TransferProtocolType", "TransferMethod"), 2},
		"wants the transfer and a login": {"Nokia", lacks("TransferProtocolType", "TransferMethod", "UserName", "Password"), 3},
		"wants no flags":                 {"Acme", dislikes("Base.1.8.PropertyNotWritable"), 2},
		"wants no flags, says little":    {"Acme", dislikes("Base.1.8.GeneralError"), 2},
		"wants flags":                    {"Acme", lacks("Inserted", "WriteProtected"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBay("/vm/1")
			b.takes = c.takes
			newRig(t, c.maker, b).installs(t, b)
			if len(b.got) != c.tries {
				t.Errorf("it took %d tries: %v", len(b.got), b.got)
			}
			if p := b.got[len(b.got)-1]["TransferProtocolType"]; p != nil && p != "HTTP" {
				t.Errorf("the transfer is by %v", p)
			}
		})
	}
	b := newBay("/vm/1") // by its model it is known not to want the flags
	b.takes = dislikes("Base.1.8.PropertyNotWritable")
	r := newRig(t, "Supermicro", b)
	r.system["Model"] = "X11DPU"
	r.installs(t, b)
	if len(b.got) != 1 {
		t.Errorf("it took %v", b.got)
	}
	b = newBay("/vm/1") // nothing helps: it ends
	b.takes = func(map[string]any) (int, string) { return 400, "Base.1.8.ActionParameterMissing" }
	if err := newRig(t, "Acme", b).install(t); !errors.Is(err, driver.ErrRefused) || len(b.got) > 6 {
		t.Errorf("got %v after %d tries", err, len(b.got))
	}
}

// What was ejected may be shown as inserted for ever.
func TestQuirkStaleInserted(t *testing.T) {
	b := newBay("/vm/1")
	b.stale = true
	b.set(map[string]any{"Image": "http://192.0.2.9/old.iso"}, false)
	r := newRig(t, "Dell Inc.", b)
	r.installs(t, b)
	r.power = "Off"
	if err := r.take(t, site.ActionFinishInstall); err != nil || b.shows["Image"] != nil || r.power != "On" {
		t.Errorf("got %v with %v", err, b.shows)
	}
}

// A slot may hold what it does not show, and says so when it is filled.
func TestQuirkInsertedUnseen(t *testing.T) {
	b := newBay("/vm/1")
	full := true
	b.takes = func(map[string]any) (int, string) { return map[bool]int{true: 409}[full], "Base.1.8.ResourceInUse" }
	b.ejects = func(map[string]any) (int, string) { full = false; return 0, "" }
	newRig(t, "Acme", b).installs(t, b)
	b = newBay("/vm/1")
	b.takes = func(map[string]any) (int, string) { return 409, "Base.1.8.ResourceInUse" }
	if err := newRig(t, "Acme", b).install(t); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("for ever: got %v", err)
	}
}

func TestQuirkEjectMediaAppearsWithTheMedium(t *testing.T) {
	b := newBay("/vm/1").drop("EjectMedia")
	appears := func() {
		b.shows["Actions"].(map[string]any)["#VirtualMedia.EjectMedia"] = map[string]any{"target": "/vm/1/eject"}
	}
	b.takes = func(map[string]any) (int, string) { appears(); return 0, "" }
	r := newRig(t, "Supermicro", b)
	r.system["Boot"].(map[string]any)["BootSourceOverrideTarget@Redfish.AllowableValues"] = []string{"None", "Pxe", "Cd", "UsbCd", "Hdd"}
	r.installs(t, b)
	r.power = "Off"
	if err := r.take(t, site.ActionFinishInstall); err != nil || b.shows["Inserted"] != false {
		t.Errorf("got %v with %v", err, b.shows)
	}
	// Somebody else puts one in, after the slot was read.
	b, full := newBay("/vm/1").drop("EjectMedia"), true
	b.takes = func(map[string]any) (int, string) {
		appears()
		return map[bool]int{true: 409}[full], "Base.1.8.ResourceInUse"
	}
	b.ejects = func(map[string]any) (int, string) { full = false; return 0, "" }
	newRig(t, "Supermicro", b).installs(t, b)
}

func TestQuirkEjectWithEmptyBody(t *testing.T) {
	b := newBay("/vm/1")
	b.ejects = func(body map[string]any) (int, string) {
		if body == nil {
			return 400, "iLO.2.14.UnsupportedOperation"
		}
		return 0, ""
	}
	b.set(map[string]any{"Image": "http://192.0.2.9/old.iso"}, false)
	newRig(t, "HPE", b).installs(t, b)
}

// A running system is not robbed of its medium.
func TestQuirkMediaAreEjectedWhileOff(t *testing.T) {
	b := newBay("/vm/1")
	b.set(map[string]any{"Image": "http://192.0.2.9/old.iso"}, false)
	r := newRig(t, "Acme", b)
	r.power = "On"
	ejectedWhile := ""
	b.ejects = func(map[string]any) (int, string) { ejectedWhile = r.power; return 0, "" }
	r.installs(t, b)
	if ejectedWhile != "Off" {
		t.Errorf("the medium was ejected while the machine was %s", ejectedWhile)
	}
}

func TestQuirkLicense(t *testing.T) {
	b := newBay("/vm/1")
	b.takes = func(map[string]any) (int, string) { return 403, "iLO.2.14.LicenseKeyRequired" }
	r := newRig(t, "HPE", b)
	if err := r.install(t); !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "installBy") {
		t.Errorf("got %v", err)
	}
	r.system["Boot"].(map[string]any)["HttpBootUri"] = nil
	if err := r.install(t); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "boot.installBy") {
		t.Errorf("with HTTP boot: got %v", err)
	}
}

func TestQuirkVirtualCDIsUsbCd(t *testing.T) {
	for model, want := range map[string]string{"SYS-821GE-TNHR": "UsbCd", "ARS-111GL-NHR": "Cd"} {
		b := newBay("/vm/1")
		r := newRig(t, "Supermicro", b)
		r.system["Model"] = model
		r.system["Boot"].(map[string]any)["BootSourceOverrideTarget@Redfish.AllowableValues"] = []string{"None", "Pxe", "Cd", "UsbCd", "Hdd"}
		r.installs(t, b)
		if got := r.overrides[0]["BootSourceOverrideTarget"]; got != want {
			t.Errorf("%s boots from %v, want %s", model, got, want)
		}
	}
}

func fields(boot map[string]any) string {
	var names []string
	for n := range boot {
		names = append(names, strings.TrimPrefix(n, "BootSourceOverride"))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestQuirkOverrideForms(t *testing.T) {
	const bad = "Base.1.8.PropertyUnknown"
	for name, c := range map[string]struct {
		maker, model string
		was          map[string]any
		boots        func(string) bool // takes these fields
		want         []string
	}{
		"usual":                     {"Acme", "", nil, func(string) bool { return true }, []string{"Enabled Target"}},
		"full triple, by name":      {"ASRockRack", "", nil, func(f string) bool { return f == "Enabled Mode Target" }, []string{"Enabled Mode Target"}},
		"full triple, by answer":    {"Acme", "", nil, func(f string) bool { return f == "Enabled Mode Target" }, []string{"Enabled Target", "Enabled Mode Target"}},
		"no Mode on X10":            {"Supermicro", "X10DRT-P", nil, func(f string) bool { return f == "Enabled Target" }, []string{"Enabled Target"}},
		"minimal on DL160":          {"HPE", "ProLiant DL160 Gen10", nil, func(f string) bool { return f == "Enabled Target" }, []string{"Enabled Target"}},
		"unchanged Enabled refused": {"Acme", "", map[string]any{"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}, func(f string) bool { return f == "Target" }, []string{"Enabled Target", "Enabled Mode Target", "Target"}},
		"Enabled always":            {"Supermicro", "X13", map[string]any{"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}, func(f string) bool { return strings.HasPrefix(f, "Enabled") }, []string{"Enabled Mode Target"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBay("/vm/1")
			r := newRig(t, c.maker, b)
			r.system["Model"] = c.model
			boot := r.system["Boot"].(map[string]any)
			boot["BootSourceOverrideMode"] = "UEFI"
			maps.Copy(boot, c.was)
			r.boots = func(boot map[string]any) (int, string) {
				if !c.boots(fields(boot)) {
					return 400, bad
				}
				return 0, ""
			}
			r.installs(t, b)
			var got []string
			for _, o := range r.overrides {
				got = append(got, fields(o))
				if m := o["BootSourceOverrideMode"]; m != nil && m != "UEFI" {
					t.Errorf("the mode is %v", m)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("sent %q, want %q", got, c.want)
			}
		})
	}
}

// Supermicro shows an override to Pxe as UefiBootNext in UEFI mode, and refuses
// to be told that.
func TestQuirkPxeIsBootNext(t *testing.T) {
	for maker, taken := range map[string]bool{"Supermicro": true, "Acme": false} {
		r := newRig(t, maker)
		boot := r.system["Boot"].(map[string]any)
		r.boots = func(sent map[string]any) (int, string) {
			if sent["BootSourceOverrideTarget"] == "UefiBootNext" {
				return 400, "Base.1.8.PropertyValueNotInList"
			}
			sent["BootSourceOverrideTarget"] = "UefiBootNext"
			return 0, ""
		}
		err := open(t, r.endpoint()).BootOnce(t.Context(), site.Identity{UUID: uuid}, "Pxe")
		if (err == nil) != taken || boot["BootSourceOverrideEnabled"] != "Once" {
			t.Errorf("%s: got %v, boots %v", maker, err, boot)
		}
	}
}

// Some fall back to legacy BIOS when they are given a target without a mode, and
// some have no mode at all.
func TestQuirkModeFlipsWithTheTarget(t *testing.T) {
	for name, mode := range map[string]any{"flips": "UEFI", "has none": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBay("/vm/1")
			r := newRig(t, "Supermicro", b)
			boot := r.system["Boot"].(map[string]any)
			if mode != nil {
				boot["BootSourceOverrideMode"] = mode
			}
			r.boots = func(sent map[string]any) (int, string) {
				_, told := sent["BootSourceOverrideMode"]
				if mode == nil && told {
					return 400, "Base.1.8.PropertyUnknown"
				}
				if mode != nil && !told {
					boot["BootSourceOverrideMode"] = "Legacy"
				}
				return 0, ""
			}
			r.installs(t, b)
			if boot["BootSourceOverrideMode"] != mode || len(r.overrides) != 1 {
				t.Errorf("it boots %v after %v", boot, r.overrides)
			}
		})
	}
}

// An iDRAC10 refuses an action that is sent with a condition.
func TestQuirkActionsWithoutCondition(t *testing.T) {
	b := newBay("/vm/1")
	r := newRig(t, "Dell Inc.", b)
	r.system["@odata.etag"], b.shows["@odata.etag"] = `"7"`, `"8"`
	for _, action := range []string{resetRequest, "POST /vm/1/insert"} {
		take := r.answers[action]
		r.answer(action, func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("If-Match") != "" {
				status(http.StatusPreconditionFailed, "")(w, req)
				return
			}
			take(w, req)
		})
	}
	r.installs(t, b)
}

// A designed mode is sent with the override.
func TestBootModeOfTheDesign(t *testing.T) {
	b := newBay("/vm/1")
	r := newRig(t, "Acme", b)
	step := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionInstall, Image: &site.Image{URL: image}}
	n := &site.Node{Boot: site.Boot{Mode: "uefi"}}
	if err := open(t, r.endpoint()).Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	if got := r.overrides[0]["BootSourceOverrideMode"]; got != "UEFI" {
		t.Errorf("sent the mode %v", got)
	}
}

// During POST the boot cannot be set; the engine comes again, and no other form
// is tried.
func TestQuirkBootIsLockedDuringPOST(t *testing.T) {
	r := newRig(t, "HPE", newBay("/vm/1"))
	r.boots = func(map[string]any) (int, string) { return 400, "iLO.2.14.UnableToModifyDuringSystemPOST" }
	if err := r.install(t); !errors.Is(err, driver.ErrBusy) || len(r.overrides) != 1 {
		t.Errorf("got %v after %v", err, r.overrides)
	}
}

func TestQuirkBootInSettingsObject(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]any
		serves   bool
		there    bool // the override is set at the settings object
	}{
		"that has it":     {map[string]any{"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled"}, true, true},
		"without boot":    {nil, true, false},
		"with order only": {map[string]any{"BootOrder": []string{"Boot0003"}}, true, false},
		"that is missing": {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBay("/vm/1")
			r := newRig(t, "AMI", b)
			r.system["@Redfish.Settings"] = map[string]any{"SettingsObject": map[string]any{"@odata.id": "/redfish/v1/Systems/1/SD"}}
			next := maps.Clone(c.settings)
			if next == nil {
				next = map[string]any{}
			}
			if c.serves {
				r.answer("GET /redfish/v1/Systems/1/SD", func(w http.ResponseWriter, req *http.Request) {
					body, _ := json.Marshal(map[string]any{"Boot": next, "@odata.etag": `"7"`})
					text(string(body))(w, req)
				})
			}
			take := r.patchBoot(func() map[string]any { return next })
			r.answer("PATCH /redfish/v1/Systems/1/SD", func(w http.ResponseWriter, req *http.Request) {
				if req.Header.Get("If-Match") != `"7"` {
					status(http.StatusPreconditionRequired, "")(w, req)
					return
				}
				take(w, req)
			})
			if c.there {
				r.answer("PATCH /redfish/v1/Systems/1", status(400, `{"error":{"code":"Ami.1.0.OperationSupportedInFutureStateURI"}}`))
			}
			r.installs(t, b)
			if got := next["BootSourceOverrideTarget"] == "Cd"; got != c.there {
				t.Errorf("the settings object has %v", next)
			}
		})
	}
}

// A boot order that waits for the next boot is the order already.
func TestQuirkBootOrderIsPending(t *testing.T) {
	r := newRig(t, "Lenovo")
	r.system["@Redfish.Settings"] = map[string]any{"SettingsObject": map[string]any{"@odata.id": "/redfish/v1/Systems/1/Pending"}}
	next := map[string]any{"BootOrder": []string{"Boot0001", "Boot0002", "Boot0003", "Boot0004"}}
	r.answer("GET /redfish/v1/Systems/1/Pending", func(w http.ResponseWriter, req *http.Request) {
		body, _ := json.Marshal(map[string]any{"Boot": next})
		text(string(body))(w, req)
	})
	r.answer("PATCH /redfish/v1/Systems/1/Pending", r.patchBoot(func() map[string]any { return next }))
	n := &site.Node{Boot: site.Boot{Order: []string{"Hdd", "Pxe"}}}
	step := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionBootOrder}
	m := open(t, r.endpoint())
	if err := m.Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	r.took()
	seen, err := look(m, n)
	if b := seen.Facets[site.FacetBoot]; err != nil || b.Have["order"] != "Hdd,Pxe,Boot0004" || b.Resolve(n, site.FacetBoot).Want["order"] != b.Have["order"] {
		t.Errorf("got %v, %v", b, err)
	}
	if asked := r.took(); len(asked) > 2 {
		t.Errorf("a look takes %v", asked)
	}
}

func TestQuirkETagForms(t *testing.T) {
	for name, c := range map[string]struct {
		tag   string
		takes string // this If-Match
		tries []string
	}{
		"as given":      {`W/"1"`, `W/"1"`, []string{`W/"1"`}},
		"without W/":    {`W/"1"`, `"1"`, []string{`W/"1"`, `"1"`}},
		"none":          {`W/"1"`, "", []string{`W/"1"`, `"1"`, ""}},
		"strong, stale": {`"1"`, "", []string{`"1"`, ""}},
		"bare":          {`W/"1"`, "1", []string{`W/"1"`, `"1"`, "", "1"}},
		"compressed":    {`"1-gzip"`, `"1"`, []string{`"1-gzip"`, `"1"`}},
		"empty":         {`""`, "", []string{""}},
		"no ETag":       {"", "", []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBay("/vm/1")
			r := newRig(t, "Acme", b)
			r.system["@odata.etag"] = c.tag
			var tries []string
			take := r.answers["PATCH /redfish/v1/Systems/1"]
			r.answer("PATCH /redfish/v1/Systems/1", func(w http.ResponseWriter, req *http.Request) {
				tries = append(tries, req.Header.Get("If-Match"))
				if req.Header.Get("If-Match") != c.takes {
					status(http.StatusPreconditionFailed, "")(w, req)
					return
				}
				take(w, req)
			})
			r.installs(t, b)
			if !slices.Equal(tries, c.tries) {
				t.Errorf("tried %q, want %q", tries, c.tries)
			}
		})
	}
}

// Where boot options have no Alias, their path and name tell.
func TestQuirkBootOptionsWithoutAlias(t *testing.T) {
	for option, want := range map[string]string{
		`{"Alias":"Pxe"}`: "Pxe",
		`{"Alias":"None","DisplayName":"Slot 5 Port 1 (HTTP(S) IPv6)","UefiDevicePath":"PciRoot(0x7)/Pci(0x1,0x1)/MAC(02859188B2A6,0x1)/IPv6(0)/Uri()"}`: "UefiHttp",
		`{"Alias":null,"UefiDevicePath":"PciRoot(0x7)/Pci(0x1,0x1)/MAC(02859188B2A6,0x1)/IPv4(0.0.0.0)"}`:                                                "Pxe",
		`{"DisplayName":"Ethernet","UefiDevicePath":"MAC(02859188B2A6,0x0)/IPv4(0.0.0.0,0x0,DHCP)"}`:                                                     "Pxe",
		`{"DisplayName":"HTTP Device 1: NIC in Slot 5","UefiDevicePath":"VenHw(986D1755)"}`:                                                              "UefiHttp",
		`{"DisplayName":"ubuntu","UefiDevicePath":"HD(1,GPT,6634D938,0x800)/\\EFI\\shimx64.efi"}`:                                                        "Hdd",
		`{"DisplayName":"disk","UefiDevicePath":"PciRoot(0x0)/Pci(0x3,0x2)/NVMe(0x1,02)"}`:                                                               "Hdd",
		`{"DisplayName":"HardDisk","UefiDevicePath":"VenHw_B2AD3248"}`:                                                                                   "Hdd",
		`{"DisplayName":"Network","UefiDevicePath":"VenHw_B2AD3248"}`:                                                                                    "Pxe",
		`{"DisplayName":"Virtual CD","UefiDevicePath":"PciRoot(0x0)/USB(0xD,0x0)"}`:                                                                      "Cd",
		`{"DisplayName":"UEFI Shell","UefiDevicePath":17}`:                                                                                               "",
	} {
		var o object
		if err := json.Unmarshal([]byte(option), &o); err != nil {
			t.Fatal(err)
		}
		if got := bootSource(o); got != want {
			t.Errorf("%s: got %q, want %q", option, got, want)
		}
	}
}

// Where the override is for one boot at most and there is no boot order, it is
// set again before each power-on.
func TestQuirkNoContinuousOverride(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"by its values": func(r *rig) {
			r.system["Boot"].(map[string]any)["BootSourceOverrideEnabled@Redfish.AllowableValues"] = []string{"Once", "Disabled"}
		},
		"by its vendor": func(r *rig) { r.system["Manufacturer"] = "Lenovo" },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "Acme")
			r.system["Boot"] = map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}
			change(r)
			n := &site.Node{Boot: site.Boot{Order: []string{"Pxe", "Hdd"}}}
			m := open(t, r.endpoint())
			for range 2 {
				r.power, r.overrides = "Off", nil
				r.system["Boot"].(map[string]any)["BootSourceOverrideEnabled"] = "Disabled"
				step := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionPowerOn}
				if err := m.Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
					t.Fatal(err)
				}
				if len(r.overrides) != 1 || r.overrides[0]["BootSourceOverrideTarget"] != "Pxe" || r.overrides[0]["BootSourceOverrideEnabled"] != "Once" || r.power != "On" {
					t.Errorf("the machine is %s after %v", r.power, r.overrides)
				}
			}
			if seen, err := look(m, n); err != nil || seen.Facets[site.FacetBoot].Have != nil {
				t.Errorf("a boot order is seen: %v, %v", seen.Facets[site.FacetBoot], err)
			}
		})
	}
}

// A machine without a boot order keeps its override for good.
func TestQuirkNoBootOrder(t *testing.T) {
	r := newRig(t, "Acme")
	r.system["Boot"] = map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}
	n := &site.Node{Boot: site.Boot{Order: []string{"Pxe", "Hdd"}}}
	m := open(t, r.endpoint())
	for _, have := range []string{"", "Pxe"} {
		seen, err := look(m, n)
		if b := seen.Facets[site.FacetBoot]; err != nil || b.Have["order"] != have || b.Resolve(n, site.FacetBoot).Want["order"] != "Pxe" {
			t.Errorf("got %v, want %q (%v)", b, have, err)
		}
		step := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionBootOrder}
		if err := m.Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Apply(t.Context(), site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionPowerOn}, n, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	if got := r.system["Boot"].(map[string]any); got["BootSourceOverrideEnabled"] != "Continuous" || r.power != "On" {
		t.Errorf("the machine is %s and boots %v", r.power, got)
	}
}

// A machine that lists no CD among the sources of one boot cannot be installed by
// virtual media, one without UefiHttp not by HTTP, and one with neither that nor Pxe not
// over the network. It is told before anything is tried.
func TestLackingSourcesAreTold(t *testing.T) {
	for allowed, ways := range map[string][]string{
		"Hdd Pxe":              {"", "media", "http"},
		"Hdd Cd":               {"http", "network"},
		"Hdd UefiHttp":         {"media"}, // HTTP takes the place of the CD
		"Hdd Cd UefiHttp":      nil,
		"Hdd UsbCd UefiTarget": {"http", "network"},
	} {
		r := newRig(t, "Acme", newBay("/vm/1"))
		r.system["Boot"] = map[string]any{
			"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "HttpBootUri": "",
			"BootSourceOverrideTarget@Redfish.AllowableValues": strings.Fields(allowed),
		}
		inv, err := open(t, r.endpoint()).Inspect(t.Context(), &site.Node{})
		if err != nil || inv.Lacks == nil {
			t.Fatalf("%s: %v, %+v", allowed, err, inv)
		}
		if got := slices.Sorted(maps.Keys(inv.Lacks.Install)); !slices.Equal(got, slices.Sorted(slices.Values(ways))) {
			t.Errorf("with %s it lacks %+v, want %q", allowed, inv.Lacks.Install, ways)
		}
	}
}
