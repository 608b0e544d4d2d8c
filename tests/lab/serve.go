package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// exchange is one request and its answer.
type exchange struct {
	*Machine
	w     http.ResponseWriter
	r     *http.Request
	path  string // without a slash at its end
	fault Fault  // what the request meets
	user  string // who asks, empty where that does not matter
	found body   // the resource at the path, as the request found it
	// wantsApply says that settings are to be applied, and not only kept.
	wantsApply bool
}

// handler answers a request.
type handler func(x *exchange)

// methods are what can be done at one path.
type methods map[string]handler

// allow lists them as the Allow header does.
func (v methods) allow() string {
	m := slices.Sorted(maps.Keys(v))
	if v[http.MethodGet] != nil {
		m = append(m, http.MethodHead)
	}
	return strings.Join(append(m, http.MethodOptions), ", ")
}

// serve answers a request: who asks, for what, and whether it may be.
func (m *Machine) serve(w http.ResponseWriter, r *http.Request, fault Fault) {
	x := &exchange{Machine: m, w: w, r: r, path: m.kind.canonical(strings.TrimRight(r.URL.Path, "/")), fault: fault}
	w.Header().Set("OData-Version", "4.0")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Server", m.kind.server)
	if r.Method == http.MethodPost {
		x.path = strings.TrimSuffix(x.path, "/Members") // the same as the collection (DSP0266, POST (create))
	}
	if v := r.Header.Get("OData-Version"); v != "" && v != "4.0" {
		x.fail(http.StatusPreconditionFailed, "HeaderInvalid", "OData-Version: "+v)
		return
	}
	if x.misbehaves() {
		return
	}
	if !open(r.Method, x.path, m.kind.sessionsPath()) && !x.authenticate() {
		return
	}
	can := x.methods()
	h := can[r.Method]
	if x.user != "" && h != nil && (x.mustChange() || !x.may()) {
		return
	}
	switch {
	case can == nil:
		x.fail(http.StatusNotFound, "ResourceMissingAtURI", x.path)
	case r.Method == http.MethodHead && can[http.MethodGet] != nil:
		w.Header().Set("Allow", can.allow())
		can[http.MethodGet](x)
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", can.allow())
		w.WriteHeader(http.StatusNoContent)
	case h == nil:
		w.Header().Set("Allow", can.allow())
		x.fail(http.StatusMethodNotAllowed, "OperationNotAllowed")
	default:
		w.Header().Set("Allow", can.allow())
		x.inTurn(h)
	}
}

// inTurn does what was asked for. Changes of a resource as it was read take
// turns, so that of several at once only one finds it so (DSP0266, ETags).
func (x *exchange) inTurn(h handler) {
	if x.r.Header.Get("If-Match") != "" {
		x.turn <- struct{}{}
		defer func() { <-x.turn }()
	}
	h(x)
}

// open says what needs no login (DSP0266, Authentication): the version, the service root
// and its metadata, and logging in.
func open(method, path, sessions string) bool {
	switch path {
	case "/redfish", root, root + "/odata", root + "/$metadata":
		return true
	}
	return method == http.MethodPost && path == sessions
}

// methods finds what can be done at the path, nil when nothing is there.
func (x *exchange) methods() methods {
	switch x.path {
	case "/redfish":
		return methods{http.MethodGet: func(x *exchange) { say(x.w, http.StatusOK, body{"v1": root + "/"}) }}
	case root + "/odata":
		return methods{http.MethodGet: (*exchange).odata}
	case root + "/$metadata":
		return methods{http.MethodGet: (*exchange).metadata}
	case x.kind.sessionsPath():
		if x.config.BasicOnly {
			return nil
		}
		return methods{http.MethodGet: (*exchange).show, http.MethodPost: (*exchange).login}
	}
	if dir, _ := path.Split(x.path); x.kind.tasks.monitors != "" && dir == x.kind.tasks.monitors+"/" {
		return methods{http.MethodGet: (*exchange).monitor}
	}
	if owner, name, ok := strings.Cut(x.path, "/Actions/"); ok {
		return x.action(owner, name)
	}
	b := x.resource(x.path)
	if b == nil {
		return x.odd()
	}
	x.found = b
	can := methods{http.MethodGet: (*exchange).show}
	x.writable(b, can)
	return can
}

// action finds an action of a resource, by what the resource says of itself.
func (x *exchange) action(owner, name string) methods {
	h := actions[name]
	listed, _ := x.resource(owner)["Actions"].(body)
	a, _ := listed["#"+name].(body)
	if h == nil || a == nil {
		return nil
	}
	return methods{http.MethodPost: func(x *exchange) { h(x, owner) }}
}

// actions are what can be done to resources, by name.
var actions = map[string]func(x *exchange, owner string){
	"ComputerSystem.Reset":     (*exchange).reset,
	"Manager.Reset":            (*exchange).resetManager,
	"LogService.ClearLog":      (*exchange).clearLog,
	"Bios.ResetBios":           (*exchange).resetBIOS,
	"VirtualMedia.InsertMedia": (*exchange).insertMedia,
	"VirtualMedia.EjectMedia":  (*exchange).ejectMedia,

	"EventService.SubmitTestEvent":          (*exchange).submitTestEvent,
	"CertificateService.ReplaceCertificate": (*exchange).replaceCertificate,
}

// writable adds what can be done with a resource beside reading it.
func (x *exchange) writable(b body, can methods) {
	switch kindOf(b) {
	case "ComputerSystem":
		if x.path == x.kind.system || x.path == x.kind.settings {
			can[http.MethodPatch] = (*exchange).patchSystem
		}
	case "VirtualMedia":
		if x.kind.media.patched && x.slot(x.path) >= 0 {
			can[http.MethodPatch] = (*exchange).patchMedia
		}
	case "Bios":
		if x.path == x.kind.bios.settings || x.fault.Kind == FaultBIOSNowhere {
			can[http.MethodPatch] = (*exchange).patchBIOS
		}
	case "ManagerAccountCollection":
		if x.kind.sessions.slots == 0 && x.config.Capture == "" {
			can[http.MethodPost] = (*exchange).addAccount
		}
	case "EventDestinationCollection":
		if x.kind.complete {
			can[http.MethodPost] = (*exchange).subscribe
		}
	case "EventDestination":
		if x.kind.complete {
			can[http.MethodDelete] = (*exchange).unsubscribe
		}
	case "ManagerNetworkProtocol":
		if x.kind.complete {
			can[http.MethodPatch] = (*exchange).patchNetworkProtocol
		}
	case "ManagerAccount":
		x.accountMethods(can)
	case "DellJobCollection":
		can[http.MethodPost] = (*exchange).makeJob
	case "Task", "Job":
		can[http.MethodDelete] = (*exchange).dropTask
	case "Session":
		can[http.MethodDelete] = (*exchange).logout
	}
}

// accountMethods adds what can be done with an account: one in a slot is
// emptied and not deleted.
func (x *exchange) accountMethods(can methods) {
	if x.config.Capture != "" {
		return
	}
	can[http.MethodPatch] = (*exchange).patchAccount
	if x.kind.sessions.slots == 0 {
		can[http.MethodDelete] = (*exchange).dropAccount
	}
}

// show answers a GET or HEAD of a resource.
func (x *exchange) show() {
	b := x.found
	if b == nil {
		b = x.resource(x.path)
	}
	if x.capturedError(b) {
		return
	}
	if b, ok := x.query(b); ok {
		x.deform(b)
		x.reply(http.StatusOK, b)
	}
}

// resource is the resource at a path as it is now, nil when there is none.
func (m *Machine) resource(path string) body {
	if owner := m.owner(path); owner != m {
		return owner.resource(path)
	}
	if m.config.BasicOnly && strings.HasPrefix(path, root+"/SessionService") {
		return nil
	}
	if b := m.sessionAt(path); b != nil {
		return m.finished(b)
	}
	if b := m.taskAt(path); b != nil {
		return m.finished(b)
	}
	if strings.HasPrefix(path, m.kind.sessionsPath()+"/") {
		return nil
	}
	b := m.kind.tree.at(m, path)
	if b == nil && m.hasBaseboard() && path == root+"/Systems/Baseboard_0" {
		b = m.kind.thing("ComputerSystem", path, "Baseboard", body{
			"SystemType": "Physical", "UUID": "ba5eb0a4-d000-4000-8000-000000000000", "SerialNumber": "BASEBOARD", "Model": "Baseboard", "PowerState": "On", "Status": healthy(),
		})
	}
	if b == nil {
		return nil
	}
	m.live(path, b)
	return m.finished(b)
}

// finished adds what a BMC of the kind has in every resource.
func (m *Machine) finished(b body) body {
	if k := kindOf(b); m.kind.contexts && b["@odata.context"] == nil && k != "" {
		b["@odata.context"] = fmt.Sprintf("%s/$metadata#%s.%s", root, k, k)
	}
	if !m.kind.contexts {
		return b
	}
	if tag := m.kind.tag(b, encode(b)); tag != "" {
		b["@odata.etag"] = tag
	}
	return b
}

// patched answers that a resource was changed: with what it is now, or a
// message.
func (x *exchange) patched() {
	now := x.resource(x.path)
	switch {
	case x.meets(FaultNoBody):
		x.w.WriteHeader(http.StatusNoContent)
	case !x.kind.speech.talks && now != nil:
		x.reply(http.StatusOK, now)
	case x.path == x.kind.bios.settings:
		x.say("SystemResetRequired")
	default:
		x.say("Success")
	}
}

// read decodes a request's body; it answers itself when it cannot.
func (x *exchange) read() (body, bool) {
	if t, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type")); err == nil && t != "application/json" {
		x.fail(http.StatusUnsupportedMediaType, "HeaderInvalid", "Content-Type: "+t)
		return nil, false
	}
	text, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxRequest))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		x.fail(http.StatusRequestEntityTooLarge, "PayloadTooLarge")
		return nil, false
	}
	b := body{}
	if len(bytes.TrimSpace(text)) > 0 && err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil || b == nil {
		x.fail(http.StatusBadRequest, "MalformedJSON")
		return nil, false
	}
	return b, true
}

// odata is the OData service document (DSP0266, OData service document).
func (x *exchange) odata() {
	value := []any{body{"name": "Service", "kind": "Singleton", "url": root + "/"}}
	b := x.resource(root)
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if to, ok := b[name].(body); ok && to["@odata.id"] != nil {
			value = append(value, body{"name": name, "kind": "Singleton", "url": to["@odata.id"]})
		}
	}
	x.send(http.StatusOK, encode(body{"@odata.context": root + "/$metadata", "value": value}))
}

// metadata is the OData metadata document (DSP0266, OData metadata document): a reference to the
// schema of each kind of resource.
func (x *exchange) metadata() {
	var text strings.Builder
	text.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">` + "\n")
	include := func(file string, namespaces ...string) {
		fmt.Fprintf(&text, `<edmx:Reference Uri="http://redfish.dmtf.org/schemas/v1/%s_v1.xml">`, file)
		for _, n := range namespaces {
			fmt.Fprintf(&text, `<edmx:Include Namespace="%s"/>`, n)
		}
		text.WriteString("</edmx:Reference>\n")
	}
	for _, k := range slices.Sorted(maps.Keys(schemas)) {
		include(k, k, k+"."+strings.Split(x.kind.typeOf(k), ".")[1])
	}
	for _, k := range collections {
		include(k+"Collection", k+"Collection")
	}
	for _, file := range slices.Sorted(maps.Keys(inner)) {
		include(file, file, inner[file])
	}
	text.WriteString(`<edmx:Reference Uri="http://redfish.dmtf.org/schemas/v1/RedfishExtensions_v1.xml"><edmx:Include Namespace="RedfishExtensions.v1_0_0" Alias="Redfish"/></edmx:Reference>` + "\n")
	fmt.Fprintf(&text, `<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">`+
		`<EntityContainer Name="Service" Extends="ServiceRoot.%s.ServiceContainer"/></Schema></edmx:DataServices>`+"\n</edmx:Edmx>\n",
		strings.Split(x.kind.typeOf("ServiceRoot"), ".")[1])
	x.w.Header().Set("Content-Type", "application/xml; charset=utf-8")
	x.w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method != http.MethodHead {
		io.WriteString(x.w, text.String())
	}
}

// inner are the schemas of what is within resources.
var inner = map[string]string{"Event": "Event.v1_9_0", "Message": "Message.v1_1_1", "Settings": "Settings.v1_3_3"}

// collections are the kinds of which there are collections.
var collections = []string{
	"BootOption", "Certificate", "Chassis", "ComputerSystem", "Drive", "EthernetInterface", "EventDestination", "Fan", "Job", "JsonSchemaFile", "LogEntry", "LogService", "Manager",
	"ManagerAccount", "Memory", "MessageRegistryFile", "NetworkAdapter", "NetworkDeviceFunction", "PCIeDevice", "PCIeFunction", "Port",
	"PowerSupply", "Processor", "Role", "Sensor", "Session", "SoftwareInventory", "Storage", "StorageController", "Task", "VirtualMedia", "Volume",
}
