package lab

import (
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

const second = 1_000_000_000 // a time.Duration of the model

// insertion is what a client says of a medium, by parameter.
type insertion struct {
	image, user string
	writable    bool
}

// transferTypes are those of VirtualMedia.TransferProtocolType that the lab's
// BMCs can fetch by.
var transferTypes = []string{"HTTP", "HTTPS"}

// insertion reads the parameters of a medium; it answers itself when they are
// wrong.
func (x *exchange) insertion(b body, wrong func(v any, name string)) (in insertion, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(b)) {
		v := b[name]
		s, isText := v.(string)
		flag, isFlag := v.(bool)
		switch name {
		case "Image":
			in.image, ok = s, isText && x.fetchable(s)
		case "UserName":
			in.user, ok = s, isText || v == nil
		case "Password", "TransferMethod", "MediaType":
			ok = isText || v == nil
		case "TransferProtocolType":
			ok = slices.Contains(transferTypes, s) || v == nil
		case "Inserted":
			ok = isFlag
		case "WriteProtected":
			in.writable, ok = !flag, isFlag
		default:
			ok = false
		}
		if !ok {
			wrong(v, name)
			return in, false
		}
	}
	return in, true
}

// fetchable says whether an image is where the BMC can fetch it from.
func (x *exchange) fetchable(image string) bool {
	u, err := url.Parse(image)
	switch {
	case err != nil, u.Host == "", x.fault.Kind == FaultQueryRefused && strings.ContainsAny(image, "?&"):
		return false
	case x.fault.Kind == FaultClock && u.Scheme == "https":
		return false
	}
	return u.Scheme == "http" || u.Scheme == "https"
}

// readable reads of an image what a BMC reads before it takes it: its size, and its
// first sectors. It answers itself when that cannot be.
func (x *exchange) readable(image string) bool {
	if x.fleet.config.LaxMedia {
		return true
	}
	most := int64(maxImage)
	if x.computer != nil {
		most = maxMedium
	}
	if err := x.fleet.probe(x.r.Context(), image, most); err != nil {
		x.fail(http.StatusInternalServerError, "CouldNotEstablishConnection", image)
		return false
	}
	return true
}

// insertMedia is the action VirtualMedia.InsertMedia (DSP0268).
func (x *exchange) insertMedia(owner string) {
	const action = "VirtualMedia.InsertMedia"
	b, ok := x.read()
	if !ok || !x.current(x.resource(owner)) {
		return
	}
	if b["Image"] == nil {
		x.fail(http.StatusBadRequest, "ActionParameterMissing", action, "Image")
		return
	}
	in, ok := x.insertion(b, func(v any, name string) { x.wrongParameter(action, v, name) })
	if !ok {
		return
	}
	if !x.insertable(b, action) || !x.readable(in.image) {
		return
	}
	if !x.lies() && !locked(x.Machine, func() bool { return x.insertLocked(x.slot(owner), in) }) {
		x.fail(http.StatusConflict, "ResourceInUse")
		return
	}
	if x.meets(FaultInsertError) {
		x.fail(http.StatusInternalServerError, "InternalError")
		return
	}
	x.done()
}

// insertable says whether an insertion has the parameters that a fault wants;
// it answers itself when it has not.
func (x *exchange) insertable(b body, action string) bool {
	switch x.fault.Kind {
	case FaultSlotWithout:
		if x.slot(path.Dir(path.Dir(x.path))) == 0 {
			x.fail(http.StatusMethodNotAllowed, "OperationNotAllowed")
			return false
		}
	case FaultTransferNeeded:
		for _, name := range []string{"TransferProtocolType", "UserName", "Password"} {
			if b[name] == nil {
				x.fail(http.StatusBadRequest, "ActionParameterMissing", action, name)
				return false
			}
		}
	case FaultFlagsNeeded:
		for _, name := range []string{"Inserted", "WriteProtected"} {
			if b[name] == nil {
				x.fail(http.StatusBadRequest, "ActionParameterMissing", action, name)
				return false
			}
		}
	case FaultFlagsRefused:
		for _, name := range []string{"Inserted", "WriteProtected"} {
			if b[name] != nil {
				x.fail(http.StatusBadRequest, "ActionParameterUnknown", action, name)
				return false
			}
		}
	}
	return true
}

func (x *exchange) wrongParameter(action string, v any, name string) {
	switch {
	case name == "Image":
		x.fail(http.StatusBadRequest, "ActionParameterValueFormatError", shown(v), name, action)
	case name == "TransferProtocolType":
		x.fail(http.StatusBadRequest, "ActionParameterValueNotInList", shown(v), name, action)
	case slices.Contains([]string{"UserName", "Password", "TransferMethod", "MediaType", "Inserted", "WriteProtected"}, name):
		x.fail(http.StatusBadRequest, "ActionParameterValueTypeError", shown(v), name, action)
	default:
		x.fail(http.StatusBadRequest, "ActionParameterUnknown", action, name)
	}
}

// insertLocked puts a medium into an empty slot.
func (m *Machine) insertLocked(i int, in insertion) bool {
	if m.mediumLocked(i).url != "" {
		return false
	}
	for len(m.media) <= i {
		m.media = append(m.media, loaded{})
	}
	m.ghost = ""
	m.media[i] = loaded{in.image, in.user, in.writable}
	m.mediaLocked()
	return true
}

// ejectMedia is the action VirtualMedia.EjectMedia.
func (x *exchange) ejectMedia(owner string) {
	b, ok := x.read()
	if !ok || !x.current(x.resource(owner)) {
		return
	}
	for name := range b {
		x.fail(http.StatusBadRequest, "ActionParameterUnknown", "VirtualMedia.EjectMedia", name)
		return
	}
	if !x.lies() {
		stale := x.meets(FaultStaleInserted)
		locked(x.Machine, func() any {
			if x.ghost = ""; stale {
				x.ghost = x.mediumLocked(x.slot(owner)).url
			}
			x.ejectLocked(x.slot(owner))
			return nil
		})
	}
	x.done()
}

func (m *Machine) ejectLocked(i int) {
	if i < len(m.media) {
		m.media[i] = loaded{}
		m.mediaLocked()
	}
	if m.fault.Kind == FaultEmulator && m.override.target == "Cd" && m.insertedLocked() == "" {
		m.override.target = "Hdd" // the drive is gone with what was in it
	}
}

// patchMedia inserts a medium by its Image, and ejects it by none or by
// Inserted false.
func (x *exchange) patchMedia() {
	b, ok := x.read()
	if !ok || !x.current(x.resource(x.path)) {
		return
	}
	given := maps.Clone(b)
	eject := given["Inserted"] == false
	if v, ok := given["Image"]; ok && (v == nil || v == "") {
		eject = true
		delete(given, "Image")
	}
	in, ok := x.insertion(given, x.wrongProperty)
	if !ok || in.image != "" && !x.readable(in.image) {
		return
	}
	if !x.lies() && !locked(x.Machine, func() bool { return x.changeMediumLocked(x.slot(x.path), eject, in) }) {
		x.fail(http.StatusConflict, "ResourceInUse")
		return
	}
	x.patched()
}

// changeMediumLocked empties a slot or fills it.
func (m *Machine) changeMediumLocked(i int, eject bool, in insertion) bool {
	switch {
	case eject:
		m.ejectLocked(i)
	case in.image != "":
		return m.insertLocked(i, in)
	}
	return true
}

func (x *exchange) wrongProperty(v any, name string) {
	switch name {
	case "Image":
		x.fail(http.StatusBadRequest, "PropertyValueFormatError", shown(v), name)
	case "TransferProtocolType":
		x.fail(http.StatusBadRequest, "PropertyValueNotInList", shown(v), name)
	case "UserName", "Password", "TransferMethod", "Inserted", "WriteProtected":
		x.fail(http.StatusBadRequest, "PropertyValueTypeError", shown(v), name)
	default:
		x.failWith(http.StatusBadRequest, x.unwritable(name))
	}
}
