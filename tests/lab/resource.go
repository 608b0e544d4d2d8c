package lab

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// resource is what can be done at one URI, by method.
type resource map[string]http.HandlerFunc

func (r resource) methods() []string {
	m := slices.Sorted(maps.Keys(r))
	if r[http.MethodGet] != nil {
		m = append(m, http.MethodHead)
	}
	return m
}

const (
	root        = "/redfish/v1"
	systemPath  = root + "/Systems/1"
	managerPath = root + "/Managers/1"
	mediaPath   = managerPath + "/VirtualMedia/1"
	optionsPath = systemPath + "/BootOptions"
)

// show is a resource that can only be read.
func show(body func() map[string]any) resource {
	return resource{http.MethodGet: func(w http.ResponseWriter, r *http.Request) { reply(w, r, http.StatusOK, body()) }}
}

// resource finds what is at a path.
func (m *Machine) resource(path string) (resource, bool) {
	switch path {
	case "/redfish":
		return show(func() map[string]any { return map[string]any{"v1": "/redfish/v1/"} }), true
	case root:
		return show(m.root), true
	case root + "/odata":
		return show(odata), true
	case root + "/$metadata":
		return resource{http.MethodGet: metadata}, true
	case root + "/SessionService":
		return show(sessionService), true
	case sessionsPath:
		r := show(func() map[string]any { return collection("Session", sessionsPath, m.sessionIDs()...) })
		r[http.MethodPost] = m.login
		return r, true
	case root + "/Systems":
		return show(func() map[string]any { return collection("ComputerSystem", root+"/Systems", 1) }), true
	case systemPath:
		r := show(m.system)
		r[http.MethodPatch] = m.patchSystem
		return r, true
	case systemPath + "/Actions/ComputerSystem.Reset":
		return resource{http.MethodPost: m.resetAction}, true
	case optionsPath:
		return show(func() map[string]any { return collection("BootOption", optionsPath, references()...) }), true
	case root + "/Managers":
		return show(func() map[string]any { return collection("Manager", root+"/Managers", 1) }), true
	case managerPath:
		return show(m.manager), true
	case managerPath + "/VirtualMedia":
		return show(func() map[string]any { return collection("VirtualMedia", managerPath+"/VirtualMedia", 1) }), true
	case mediaPath:
		return show(m.virtualMedia), true
	case mediaPath + "/Actions/VirtualMedia.InsertMedia":
		return resource{http.MethodPost: m.insertMedia}, true
	case mediaPath + "/Actions/VirtualMedia.EjectMedia":
		return resource{http.MethodPost: m.ejectMedia}, true
	case root + "/Chassis":
		return show(func() map[string]any { return collection("Chassis", root+"/Chassis", 1) }), true
	case root + "/Chassis/1":
		return show(m.chassis), true
	}
	return m.member(path)
}

// member finds resources that are one of many.
func (m *Machine) member(path string) (resource, bool) {
	if ref, ok := strings.CutPrefix(path, optionsPath+"/"); ok && bootOptions[ref].alias != "" {
		return show(func() map[string]any { return bootOption(ref) }), true
	}
	for _, id := range m.sessionIDs() {
		if p := fmt.Sprintf("%s/%d", sessionsPath, id); p == path {
			r := show(func() map[string]any { return sessionResource(p, id, m.config.Username) })
			r[http.MethodDelete] = m.logout(id)
			return r, true
		}
	}
	return nil, false
}

func ref(path string) map[string]any { return map[string]any{"@odata.id": path} }

func collection[ID any](kind, path string, ids ...ID) map[string]any {
	members := make([]any, 0, len(ids))
	for _, id := range ids {
		members = append(members, ref(fmt.Sprintf("%s/%v", path, id)))
	}
	return map[string]any{
		"@odata.id": path, "@odata.type": fmt.Sprintf("#%sCollection.%[1]sCollection", kind), "Name": kind + " Collection",
		"Members@odata.count": len(members), "Members": members,
	}
}

func (m *Machine) root() map[string]any {
	return map[string]any{
		"@odata.id": root + "/", "@odata.type": "#ServiceRoot.v1_16_0.ServiceRoot", "Id": "RootService", "Name": "Root Service",
		"RedfishVersion": "1.18.0", "UUID": m.identity().UUID, "Product": "Slipway lab", "Vendor": m.config.Manufacturer,
		"Systems": ref(root + "/Systems"), "Managers": ref(root + "/Managers"), "Chassis": ref(root + "/Chassis"),
		"SessionService": ref(root + "/SessionService"), "Links": map[string]any{"Sessions": ref(sessionsPath)},
	}
}

func odata() map[string]any {
	var value []any
	for _, name := range []string{"Systems", "Managers", "Chassis", "SessionService"} {
		value = append(value, map[string]any{"name": name, "kind": "Singleton", "url": root + "/" + name})
	}
	return map[string]any{"@odata.context": root + "/$metadata", "value": value}
}

func metadata(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/xml; charset=utf-8")
	fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">`+
		`<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service"><EntityContainer Name="Service" Extends="ServiceRoot.v1_16_0.ServiceContainer"/></Schema></edmx:DataServices></edmx:Edmx>`)
}

func sessionService() map[string]any {
	return map[string]any{
		"@odata.id": root + "/SessionService", "@odata.type": "#SessionService.v1_1_9.SessionService", "Id": "SessionService", "Name": "Session Service",
		"ServiceEnabled": true, "SessionTimeout": int(sessionIdle / time.Second), "Sessions": ref(sessionsPath),
	}
}

// identity is what the machine says it is.
func (m *Machine) identity() (id struct{ UUID, Serial string }) {
	id.UUID, id.Serial = m.config.Identity.UUID, m.config.Identity.Serial
	if m.State().Fault.Kind == FaultWrongUUID {
		id.UUID, id.Serial = "0badcafe-0000-4000-8000-000000000000", "NOT-"+id.Serial
	}
	return id
}

func (m *Machine) system() map[string]any {
	id, s := m.identity(), m.State()
	m.mu.Lock()
	defer m.mu.Unlock()
	body := map[string]any{
		"@odata.id": systemPath, "@odata.type": "#ComputerSystem.v1_22_0.ComputerSystem", "Id": "1", "Name": m.config.Name, "SystemType": "Physical",
		"UUID": id.UUID, "SerialNumber": id.Serial, "Manufacturer": m.config.Manufacturer, "Model": m.config.Model, "SKU": "LAB-" + id.Serial,
		"BiosVersion": "1.0.0", "PowerState": s.Power, "Status": map[string]any{"State": "Enabled", "Health": "OK", "HealthRollup": "OK"},
		"ProcessorSummary": map[string]any{"Count": m.config.Processors}, "MemorySummary": map[string]any{"TotalSystemMemoryGiB": m.config.MemoryGiB},
		"Boot": map[string]any{
			"BootSourceOverrideEnabled": m.override.enabled, "BootSourceOverrideTarget": m.override.target, "BootSourceOverrideMode": "UEFI",
			"BootSourceOverrideEnabled@Redfish.AllowableValues": overrideStates,
			"BootSourceOverrideTarget@Redfish.AllowableValues":  overrideTargets, "BootSourceOverrideMode@Redfish.AllowableValues": overrideModes,
			"BootOrder": m.order, "BootOptions": ref(optionsPath),
		},
		"BootProgress": map[string]any{"LastState": cmp.Or(m.progress, "None")},
		"Links":        map[string]any{"ManagedBy": []any{ref(managerPath)}, "Chassis": []any{ref(root + "/Chassis/1")}},
		"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{
			"target": systemPath + "/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": resetTypes,
		}},
	}
	if !m.reset.IsZero() {
		body["LastResetTime"] = m.reset.UTC().Format(time.RFC3339)
	}
	return body
}

var (
	overrideStates  = []string{"Disabled", "Once", "Continuous"}
	overrideModes   = []string{"UEFI"}
	overrideTargets = []string{"None", "Hdd", "Pxe", "Cd", "UefiHttp", "Usb"}
	resetTypes      = []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart"}
)

// lies says whether a write is to be accepted without effect.
func (m *Machine) lies() bool { return m.State().Fault.Kind == FaultNoEffect }

// patchSystem changes the boot settings; nothing is changed unless all of it
// can be.
func (m *Machine) patchSystem(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Boot struct {
			BootOrder []string
			BootSourceOverrideEnabled, BootSourceOverrideTarget,
			BootSourceOverrideMode *string
		}
	}
	if !read(w, r, &body) || !current(w, r, m.system()) {
		return
	}
	b := body.Boot
	for _, c := range []struct {
		name  string
		value *string
		may   []string
	}{
		{"BootSourceOverrideEnabled", b.BootSourceOverrideEnabled, overrideStates},
		{"BootSourceOverrideTarget", b.BootSourceOverrideTarget, overrideTargets},
		{"BootSourceOverrideMode", b.BootSourceOverrideMode, overrideModes},
	} {
		if c.value != nil && !slices.Contains(c.may, *c.value) {
			fail(w, http.StatusBadRequest, "Base.1.18.PropertyValueNotInList", fmt.Sprintf("The value %q for the property %s is not in the list of acceptable values.", *c.value, c.name))
			return
		}
	}
	if b.BootOrder != nil && !known(b.BootOrder) {
		fail(w, http.StatusBadRequest, "Base.1.18.PropertyValueNotInList", "BootOrder names a boot option that does not exist, or one twice.")
		return
	}
	if !m.lies() {
		locked(m, func() any {
			if b.BootOrder != nil {
				m.order = b.BootOrder
			}
			set(&m.override.enabled, b.BootSourceOverrideEnabled)
			set(&m.override.target, b.BootSourceOverrideTarget)
			if m.override.enabled == "Disabled" {
				m.override.target = "None"
			}
			return nil
		})
	}
	reply(w, r, http.StatusOK, m.system())
}

func set(to *string, v *string) {
	if v != nil {
		*to = *v
	}
}

// known says whether a boot order names existing options, each once.
func known(refs []string) bool {
	seen := map[string]bool{}
	for _, r := range refs {
		if bootOptions[r].alias == "" || seen[r] {
			return false
		}
		seen[r] = true
	}
	return len(refs) > 0
}

func (m *Machine) resetAction(w http.ResponseWriter, r *http.Request) {
	var body struct{ ResetType string }
	if !read(w, r, &body) {
		return
	}
	switch {
	case body.ResetType == "":
		fail(w, http.StatusBadRequest, "Base.1.18.ActionParameterMissing", "The action ComputerSystem.Reset requires the parameter ResetType to be present in the request body.")
	case !slices.Contains(resetTypes, body.ResetType):
		fail(w, http.StatusBadRequest, "Base.1.18.ActionParameterNotSupported", "ResetType "+body.ResetType+" is not supported.")
	case m.lies() || locked(m, func() bool { return m.resetLocked(body.ResetType) }):
		w.WriteHeader(http.StatusNoContent)
	default:
		fail(w, http.StatusConflict, "Base.1.18.ResourceInUse", "The system is in transition between power states.")
	}
}

func bootOption(r string) map[string]any {
	return map[string]any{
		"@odata.id": optionsPath + "/" + r, "@odata.type": "#BootOption.v1_0_6.BootOption", "Id": r, "Name": r,
		"BootOptionReference": r, "Alias": bootOptions[r].alias, "DisplayName": bootOptions[r].name, "BootOptionEnabled": true,
	}
}

func (m *Machine) manager() map[string]any {
	return map[string]any{
		"@odata.id": managerPath, "@odata.type": "#Manager.v1_19_0.Manager", "Id": "1", "Name": "BMC", "ManagerType": "BMC",
		"FirmwareVersion": "1.0.0", "Status": map[string]any{"State": "Enabled", "Health": "OK"},
		"VirtualMedia": ref(managerPath + "/VirtualMedia"), "Links": map[string]any{"ManagerForServers": []any{ref(systemPath)}},
	}
}

func (m *Machine) chassis() map[string]any {
	id := m.identity()
	return map[string]any{
		"@odata.id": root + "/Chassis/1", "@odata.type": "#Chassis.v1_25_0.Chassis", "Id": "1", "Name": "Chassis", "ChassisType": "RackMount",
		"Manufacturer": m.config.Manufacturer, "Model": m.config.Model, "SerialNumber": id.Serial,
		"Links": map[string]any{"ComputerSystems": []any{ref(systemPath)}, "ManagedBy": []any{ref(managerPath)}},
	}
}

func (m *Machine) virtualMedia() map[string]any {
	url := m.State().Media
	body := map[string]any{
		"@odata.id": mediaPath, "@odata.type": "#VirtualMedia.v1_6_3.VirtualMedia", "Id": "1", "Name": "Virtual CD",
		"MediaTypes": []string{"CD", "DVD"}, "Inserted": url != "", "WriteProtected": true, "ConnectedVia": "NotConnected", "Image": nil,
		"Actions": map[string]any{
			"#VirtualMedia.InsertMedia": map[string]any{"target": mediaPath + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  map[string]any{"target": mediaPath + "/Actions/VirtualMedia.EjectMedia"},
		},
	}
	if url != "" {
		body["Image"], body["ConnectedVia"], body["ImageName"] = url, "URI", url[strings.LastIndexByte(url, '/')+1:]
	}
	return body
}

func (m *Machine) insertMedia(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Image                                           string
		Inserted, WriteProtected                        *bool
		MediaType, TransferMethod, TransferProtocolType *string
		UserName, Password                              *string
	}
	if !read(w, r, &body) {
		return
	}
	if !strings.HasPrefix(body.Image, "http://") && !strings.HasPrefix(body.Image, "https://") {
		fail(w, http.StatusBadRequest, "Base.1.18.ActionParameterValueFormatError", "Image is not the URL of an image.")
		return
	}
	ok := m.lies() || locked(m, func() bool {
		if m.media != "" {
			return false
		}
		m.media = body.Image
		return true
	})
	if !ok {
		fail(w, http.StatusConflict, "Base.1.18.ResourceInUse", "Virtual media is already inserted.")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (m *Machine) ejectMedia(w http.ResponseWriter, r *http.Request) {
	if !read(w, r, &struct{}{}) {
		return
	}
	if !m.lies() {
		locked(m, func() any { m.media = ""; return nil })
	}
	w.WriteHeader(http.StatusNoContent)
}
