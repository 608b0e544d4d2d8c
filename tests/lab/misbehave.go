package lab

import (
	"net/http"
	"path"
	"strings"
	"time"
)

// misbehaves answers in the way of a fault, and says whether it did.
func (x *exchange) misbehaves() bool {
	if x.fault.met() != asking || refusals[x.fault.Kind] == nil || !refusals[x.fault.Kind](x) {
		return false
	}
	x.spend(x.fault)
	return true
}

// refusals answer the requests that their faults concern, and say whether a
// request was one.
var refusals = map[FaultKind]func(x *exchange) bool{
	FaultUnauthorized: (*exchange).endSession,
	FaultSessionLimit: func(x *exchange) bool {
		return x.refuse(x.isLogin(), http.StatusServiceUnavailable, x.kind.sessions.full)
	},
	FaultSlowLogin: func(x *exchange) bool {
		if x.isLogin() {
			x.spend(x.fault)
			x.fleet.sleep(x.r.Context(), time.Duration(x.fault.Delay))
		}
		return false
	},
	FaultLogoutFails: func(x *exchange) bool {
		return x.refuse(x.r.Method == http.MethodDelete && isSession(x.path), http.StatusInternalServerError, "InternalError")
	},
	FaultPrecondition: func(x *exchange) bool {
		return x.refuse(x.writes() && x.r.Header.Get("If-Match") != "", http.StatusPreconditionFailed, "PreconditionFailed")
	},
	FaultPreconditionRequired: func(x *exchange) bool {
		return x.refuse(x.r.Method == http.MethodPatch && x.r.Header.Get("If-Match") == "", http.StatusPreconditionRequired, "PreconditionRequired")
	},
	FaultNotAcceptable: func(x *exchange) bool {
		return x.refuse(x.r.Header.Get("Accept-Encoding") == "identity", http.StatusNotAcceptable, "HeaderInvalid", "Accept-Encoding: identity")
	},
	FaultRedirect: (*exchange).redirect,
	FaultSlash: func(x *exchange) bool {
		return x.refuse(!x.writes() && !strings.HasSuffix(x.r.URL.Path, "/"), http.StatusNotFound, "ResourceMissingAtURI", x.path)
	},
	FaultNoSlash: func(x *exchange) bool {
		return x.refuse(x.path != root && strings.HasSuffix(x.r.URL.Path, "/"), http.StatusNotFound, "ResourceMissingAtURI", x.path)
	},
	FaultNoExpand: func(x *exchange) bool {
		return x.refuse(strings.Contains(x.r.URL.RawQuery, "expand"), http.StatusNotImplemented, "QueryParameterUnsupported", "$expand")
	},
	FaultLicense: func(x *exchange) bool {
		return x.refuse(x.writes() && strings.Contains(x.path, "/VirtualMedia/"), http.StatusForbidden, "LicenseKeyRequired")
	},
	FaultEjectBody: func(x *exchange) bool {
		return x.refuse(path.Base(x.path) == "VirtualMedia.EjectMedia" && x.r.ContentLength == 0, http.StatusBadRequest, "MalformedJSON")
	},
	FaultNotReady: func(x *exchange) bool { return x.refuse(x.writes(), http.StatusServiceUnavailable, "SYS518") },
	FaultPOST: func(x *exchange) bool {
		return x.refuse(x.changesBoot(), http.StatusBadRequest, "UnableToModifyDuringSystemPOST")
	},
	FaultState: func(x *exchange) bool {
		return x.refuse(path.Base(x.path) == "ComputerSystem.Reset", http.StatusBadRequest, "InvalidOperationForSystemState")
	},
	FaultNoRegistry: func(x *exchange) bool {
		return x.refuse(x.path == x.kind.bios.store, http.StatusNotFound, "ResourceMissingAtURI", x.path)
	},
	FaultOnConflict: func(x *exchange) bool {
		until := locked(x.Machine, func() time.Time { return x.offAt.Add(x.fleet.scaled(time.Duration(x.fault.Delay))) })
		return x.refuse(path.Base(x.path) == "ComputerSystem.Reset" && x.Power() == off && time.Now().Before(until), http.StatusConflict,
			"ActionParameterValueConflict", "ResetType", "On")
	},
	FaultFutureState: func(x *exchange) bool {
		if x.path == x.kind.futureState() {
			return x.refuse(x.writes() && x.r.Header.Get("If-Match") == "", http.StatusPreconditionRequired, "PreconditionRequired")
		}
		return x.refuse(x.changesBoot(), http.StatusBadRequest, "OperationSupportedInFutureStateURI", x.kind.futureState())
	},
}

// refuse answers a request with an error when a fault concerns it.
func (x *exchange) refuse(concerned bool, status int, id string, args ...string) bool {
	if concerned {
		x.fail(status, id, args...)
	}
	return concerned
}

func (x *exchange) isLogin() bool {
	return x.r.Method == http.MethodPost && x.path == x.kind.sessionsPath()
}

// writes says whether the request asks for a change of the machine.
func (x *exchange) writes() bool {
	switch x.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !strings.HasPrefix(x.path, x.kind.sessionsPath())
}

// changesBoot says whether the request asks for boot settings at the system
// itself.
func (x *exchange) changesBoot() bool {
	return x.r.Method == http.MethodPatch && x.path == x.kind.system
}

// endSession answers 401 to a session, which is then gone.
func (x *exchange) endSession() bool {
	token := x.r.Header.Get("X-Auth-Token")
	if token == "" {
		return false
	}
	locked(x.head, func() any { delete(x.head.sessions, token); return nil })
	x.w.Header().Set("WWW-Authenticate", `Basic realm="Redfish"`)
	x.fail(http.StatusUnauthorized, "NoValidSession")
	return true
}

// redirect sends a reader to the same path with a slash.
func (x *exchange) redirect() bool {
	if x.writes() || isSession(x.path) || strings.HasSuffix(x.r.URL.Path, "/") {
		return false
	}
	x.w.Header().Set("Location", x.r.URL.Path+"/")
	x.w.WriteHeader(http.StatusPermanentRedirect)
	return true
}

// futureState is the settings object that a system has where its own boot
// settings cannot be changed.
func (p *personality) futureState() string { return or(p.settings, p.system+"/SD") }

// odd is what can be done at a path where only a fault has something.
func (x *exchange) odd() methods {
	get := func(b body) methods {
		return methods{http.MethodGet: func(x *exchange) { x.reply(http.StatusOK, b) }}
	}
	switch {
	case x.fault.Kind == FaultFutureState && x.path == x.kind.futureState():
		can := get(x.kind.thing("ComputerSystem", x.path, "Future state", body{"Boot": x.resource(x.kind.system)["Boot"]}))
		can[http.MethodPatch] = (*exchange).patchSystem
		return can
	case x.fault.Kind == FaultSettingsElse && x.path == x.kind.futureState():
		return get(x.kind.thing("ComputerSystem", x.path, "Settings", body{"AssetTag": nil}))
	case x.fault.Kind == FaultResetsHidden && x.path == x.kind.resetInfo():
		return get(x.kind.thing("ActionInfo", x.path, "Reset Action Info", body{"Parameters": []any{
			body{"Name": "ResetType", "Required": true, "DataType": "String", "AllowableValues": x.resets(x.kind.system)},
		}}))
	}
	return nil
}

// resetInfo is where an ActionInfo is that lists the resets.
func (p *personality) resetInfo() string { return or(p.power.info, p.system+"/ResetActionInfo") }

// spoiled is what a fault makes of an ETag.
func (x *exchange) spoiled(tag string) string {
	switch opaque := strings.TrimPrefix(tag, "W/"); {
	case tag == "":
	case x.fault.Kind == FaultETagWeak:
		return "W/" + opaque
	case x.fault.Kind == FaultETagBare:
		return strings.Trim(opaque, `"`)
	case x.fault.Kind == FaultETagEmpty:
		return `""`
	case x.fault.Kind == FaultETagGzip && strings.Contains(x.r.Header.Get("Accept-Encoding"), "gzip"):
		return strings.TrimSuffix(tag, `"`) + `-gzip"`
	}
	return tag
}

// spurns says whether a fault has an ETag refused that is right.
func (x *exchange) spurns(tag string) bool {
	switch x.fault.Kind {
	case FaultETagWeak:
		return strings.HasPrefix(tag, "W/")
	case FaultETagEmpty:
		return true
	case FaultETagGzip:
		return strings.HasSuffix(tag, `-gzip"`)
	}
	return false
}

// deform lays over a resource what a fault makes of it.
func (x *exchange) deform(b body) {
	switch x.fault.Kind {
	case FaultGarbled:
		garble(b)
	case FaultUUIDUpper:
		recase(b, strings.ToUpper)
	case FaultUUIDSwap:
		recase(b, swapped)
	case FaultModeUnknown:
		if boot, ok := b["Boot"].(body); ok {
			delete(boot, "BootSourceOverrideMode")
			delete(boot, "BootSourceOverrideMode@Redfish.AllowableValues")
		}
	case FaultETagWeak, FaultETagBare, FaultETagEmpty, FaultETagGzip:
		if tag, ok := b["@odata.etag"].(string); ok {
			b["@odata.etag"] = x.spoiled(tag)
		}
	case FaultUsbCd:
		if boot, ok := b["Boot"].(body); ok {
			boot["BootSourceOverrideTarget@Redfish.AllowableValues"] = x.targets(boot)
		}
	case FaultResetsHidden:
		if a, ok := b["Actions"].(body); ok && x.path == x.kind.system {
			a["#ComputerSystem.Reset"] = body{"target": x.kind.system + "/Actions/ComputerSystem.Reset", "@Redfish.ActionInfo": x.kind.resetInfo()}
		}
	case FaultBIOSNowhere:
		if kindOf(b) == "Bios" {
			b["@Redfish.Settings"] = body{"@odata.type": "#Settings.v1_3_0.Settings", "ETag": "Dummyetag"}
		}
	case FaultClock:
		if b["DateTime"] != nil {
			b["DateTime"] = time.Unix(0, 0).UTC().Format(time.RFC3339)
		}
	case FaultFutureState, FaultSettingsElse:
		if x.path == x.kind.system {
			b["@Redfish.Settings"] = body{"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": ref(x.kind.futureState())}
		}
	case FaultEjectHidden:
		if a, ok := b["Actions"].(body); ok && b["Inserted"] == false {
			delete(a, "#VirtualMedia.EjectMedia")
		}
	case FaultSlotWithout:
		if x.slot(x.path) == 0 {
			delete(b, "Actions")
			b["MediaTypes"] = nil
		}
	}
}

// garbage is what garbled resources have, by property.
var garbage = map[string]any{
	"Count": "N/A", "TotalSystemMemoryGiB": "N/A", "CapacityMiB": "Unknown", "CapacityBytes": "", "TotalCores": "N/A", "TotalThreads": nil, "SpeedMbps": "25 Gb/s",
	"OperatingSpeedMhz": "N/A", "Reading": "N/A", "ReadingCelsius": "No Reading", "PowerCapacityWatts": "N/A", "MediaTypes": nil, "MACAddress": "",
	"PermanentMACAddress": "", "LastResetTime": "0000-00-00T00:00:00+00:00", "FailurePredicted": "false", "SKU": 7, "Model": []any{"?"},
}

// garble puts nonsense for what a resource has at any depth.
func garble(b body) {
	for name, v := range b {
		if nonsense, ok := garbage[name]; ok {
			b[name] = nonsense
			continue
		}
		switch v := v.(type) {
		case body:
			garble(v)
		case []any:
			for _, of := range v {
				if of, ok := of.(body); ok {
					garble(of)
				}
			}
		}
	}
}

// recase rewrites a resource's UUID.
func recase(b body, how func(string) string) {
	if id, ok := b["UUID"].(string); ok {
		b["UUID"] = how(id)
	}
}

// swapped is a UUID with the bytes of its first three groups the other way
// round, as SMBIOS has them (DSP0134 7.2.1).
func swapped(id string) string {
	groups := strings.Split(id, "-")
	for i := range min(3, len(groups)) {
		var turned string
		for g := groups[i]; len(g) >= 2; g = g[2:] {
			turned = g[:2] + turned
		}
		groups[i] = turned
	}
	return strings.Join(groups, "-")
}

// later answers 202 with a task, that does something after the fault's delay;
// it says false when the request meets no such fault.
func (x *exchange) later(name string, do func()) bool {
	fails := x.fault.Kind == FaultTaskFails
	if !fails && !x.meets(FaultTask) && !x.meets(FaultNoLocation) {
		return false
	}
	if fails {
		x.spend(x.fault)
	}
	t := locked(x.Machine, func() *task { return x.beginLocked(name, taskRunning) })
	x.after(time.Duration(x.fault.Delay), func() {
		if fails {
			t.end("Exception")
			return
		}
		do()
		t.end("Completed")
	})
	x.accepted(t)
	return true
}

// after does something with the machine locked, after a time of the model.
func (m *Machine) after(d time.Duration, do func()) {
	time.AfterFunc(m.fleet.scaled(d), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.fleet.ctx.Err() == nil {
			do()
		}
	})
}

// halved breaks the connection in the middle of an answer.
type halved struct{ http.ResponseWriter }

func (w halved) Write(p []byte) (int, error) {
	w.ResponseWriter.Write(p[:len(p)/2])
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}

// dripping sends an answer in pieces over a time.
type dripping struct {
	http.ResponseWriter
	wait func() bool // between two pieces; false when the client has left
}

// drips is in how many pieces.
const drips = 16

func (w dripping) Write(p []byte) (int, error) {
	for i := range drips {
		w.ResponseWriter.Write(p[i*len(p)/drips : (i+1)*len(p)/drips])
		if f, ok := w.ResponseWriter.(http.Flusher); ok {
			f.Flush()
		}
		if !w.wait() {
			panic(http.ErrAbortHandler)
		}
	}
	return len(p), nil
}
