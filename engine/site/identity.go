package site

import "strings"

// Identity binds a name in the design to one physical machine. It has to
// distinguish the machine from all others of the site, and from those behind
// the same controller. A serial number that the nodes of an enclosure share
// needs a slot or a MAC address beside it.
type Identity struct {
	// UUID is the SMBIOS system UUID in lower case.
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// Slot is the controller's name for the machine: the Id of its system in
	// Redfish. It is a place: another machine in the same slot has the same
	// value.
	Slot string `json:"slot,omitempty"`
	// MAC is the address of one of the machine's own network ports, in lower
	// case with colons.
	MAC string `json:"mac,omitempty"`
}

// Known reports whether the identity names a machine. A slot alone does not.
func (i Identity) Known() bool { return i.UUID != "" || i.Serial != "" || i.MAC != "" }

// Matches reports whether an observed identity fits the designed one: each
// field that the design states must be observed and equal.
func (i Identity) Matches(seen Identity) bool {
	return matches(i.UUID, seen.UUID) && matches(i.Serial, seen.Serial) && matches(i.Slot, seen.Slot) && matches(i.MAC, seen.MAC)
}

// IsThatOf reports whether another designed identity is of the same machine: a UUID, serial number or
// address of a port is the same, and no such other is not. An equal UUID, in either order of its bytes,
// decides also where the ports differ: a machine can be known by any of its ports, or get a new card.
// A serial number counts only in the same slot, since an enclosure may share it, and numbers that nobody
// set count nothing.
func (i Identity) IsThatOf(other Identity) bool {
	i, other = i.Own(), other.Own()
	same := func(a, b string) bool { return a != "" && a == b }
	if same(i.UUID, other.UUID) || same(i.UUID, TurnedRound(other.UUID)) {
		return !differ(i.Serial, other.Serial)
	}
	shares := same(i.Serial, other.Serial) && !differ(i.Slot, other.Slot)
	i.Slot, other.Slot = "", "" // a place: the machine may have been moved
	return !i.Contradicts(other) && (same(i.MAC, other.MAC) || shares)
}

func matches(want, have string) bool { return want == "" || want == have }

// Contradicts reports whether an observed identity rules out the designed one:
// a field that the design states was observed with another value. A field that
// was not observed contradicts nothing.
func (i Identity) Contradicts(seen Identity) bool {
	return differ(i.UUID, seen.UUID) || differ(i.Serial, seen.Serial) || differ(i.Slot, seen.Slot) || differ(i.MAC, seen.MAC)
}

func differ(want, have string) bool { return want != "" && have != "" && want != have }

// String returns the field by which people know the machine, with the slot if
// the serial number may be shared.
func (i Identity) String() string {
	switch {
	case i.UUID != "":
		return "UUID " + i.UUID
	case i.Serial != "" && i.Slot != "":
		return "serial " + i.Serial + ", slot " + i.Slot
	case i.Serial != "":
		return "serial " + i.Serial
	case i.MAC != "":
		return "MAC " + i.MAC
	}
	return "no identity"
}

// Full returns everything that the identity states.
func (i Identity) Full() string {
	var all []string
	for _, f := range []struct{ name, value string }{{"UUID", i.UUID}, {"serial number", i.Serial}, {"slot", i.Slot}, {"MAC address", i.MAC}} {
		if f.value != "" {
			all = append(all, f.name+" "+f.value)
		}
	}
	if len(all) == 0 {
		return "no identity"
	}
	return strings.Join(all, ", ")
}

// Own returns the identity without placeholder values, which firmware reports
// if nobody gave the machine its own.
func (i Identity) Own() Identity {
	if IsPlaceholderUUID(i.UUID) {
		i.UUID = ""
	}
	if IsPlaceholderSerial(i.Serial) {
		i.Serial = ""
	}
	return i
}

// TurnedRound returns a UUID with the bytes of its first three fields reversed.
// SMBIOS stores them reversed since 2.6 (DMTF DSP0134, section 7.2.1). Some
// tools show them as stored, others reverse them.
func TurnedRound(uuid string) string {
	fields := strings.Split(uuid, "-")
	for i := range min(3, len(fields)) {
		var turned strings.Builder
		for at := len(fields[i]); at > 0; at -= 2 {
			turned.WriteString(fields[i][max(0, at-2):at])
		}
		fields[i] = turned.String()
	}
	return strings.Join(fields, "-")
}

// placeholderUUIDs are UUIDs that firmware ships with, as seen on boards of
// several vendors.
var placeholderUUIDs = []string{
	"00000000-0000-0000-0000-000000000000",
	"ffffffff-ffff-ffff-ffff-ffffffffffff",
	"03000200-0400-0500-0006-000700080009", // AMI
	"12345678-1234-5678-90ab-cddeefaabbcc", // AMI
	"fefefefe-fefe-fefe-fefe-fefefefefefe",
}

// IsPlaceholderUUID reports whether a UUID is one that many machines share
// because nobody set it.
func IsPlaceholderUUID(uuid string) bool {
	for _, p := range placeholderUUIDs {
		if uuid == p || uuid == TurnedRound(p) {
			return true
		}
	}
	return false
}

// placeholderSerials are what firmware reports if nobody set a serial number,
// in lower case with letters and digits only.
var placeholderSerials = map[string]bool{
	"0123456789": true, "123456789": true, "1234567890": true,
	"chassisserialnumber": true, "default": true, "defaultstring": true,
	"empty": true, "invalid": true, "na": true, "none": true, "notapplicable": true, "notavailable": true,
	"notspecified": true, "null": true, "oem": true, "serialnumber": true, "systemserialnumber": true,
	"tobefilledbyoem": true, "undefined": true, "unknown": true, "unspecified": true,
}

// IsPlaceholderSerial reports whether a serial number belongs to no single
// machine: it is in the list, has only zeros, or has no letter or digit.
func IsPlaceholderSerial(serial string) bool {
	if serial == "" {
		return false
	}
	bare := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(serial))
	return placeholderSerials[bare] || strings.Trim(bare, "0") == ""
}
