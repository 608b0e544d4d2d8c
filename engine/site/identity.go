package site

import "strings"

// Identity is what binds a name in the design to one physical machine. It has
// to tell the machine from every other of the site, and from those behind the
// same controller; a serial number that the nodes of an enclosure share does so
// only together with a slot or a MAC address.
type Identity struct {
	// UUID is the SMBIOS system UUID in lower case.
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// Slot is what the controller calls the machine among those behind it: the
	// Id of its system in Redfish. It is a place and not a machine: another one
	// that is put there has it too.
	Slot string `json:"slot,omitempty"`
	// MAC is the address of one of the machine's own network ports, in lower
	// case with colons.
	MAC string `json:"mac,omitempty"`
}

// Known says whether the identity names a machine at all. A slot alone does not.
func (i Identity) Known() bool { return i.UUID != "" || i.Serial != "" || i.MAC != "" }

// Matches says whether an observed identity can be the designed one: every
// field that the design states must be observed and equal.
func (i Identity) Matches(seen Identity) bool {
	return matches(i.UUID, seen.UUID) && matches(i.Serial, seen.Serial) && matches(i.Slot, seen.Slot) && matches(i.MAC, seen.MAC)
}

func matches(want, have string) bool { return want == "" || want == have }

// Contradicts says whether an observed identity cannot be the designed one: a
// field that the design states was observed, and is another. What was not
// observed contradicts nothing.
func (i Identity) Contradicts(seen Identity) bool {
	return differ(i.UUID, seen.UUID) || differ(i.Serial, seen.Serial) || differ(i.Slot, seen.Slot) || differ(i.MAC, seen.MAC)
}

func differ(want, have string) bool { return want != "" && have != "" && want != have }

// String is the field by which people know the machine, with the slot where that
// field may be shared.
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

// Full is all that the identity states.
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

// Own is the part of the identity that is of one machine only, and not what
// firmware says where nobody gave the machine one.
func (i Identity) Own() Identity {
	if IsPlaceholderUUID(i.UUID) {
		i.UUID = ""
	}
	if IsPlaceholderSerial(i.Serial) {
		i.Serial = ""
	}
	return i
}

// TurnedRound is a UUID with the bytes of its first three fields in the other
// order: SMBIOS has had them so since 2.6 (DMTF DSP0134, section 7.2.1), and
// one tool shows them as they are where another turns them.
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

// placeholderUUIDs are those that firmware is delivered with, as they are seen
// on boards of several vendors.
var placeholderUUIDs = []string{
	"00000000-0000-0000-0000-000000000000",
	"ffffffff-ffff-ffff-ffff-ffffffffffff",
	"03000200-0400-0500-0006-000700080009", // AMI
	"12345678-1234-5678-90ab-cddeefaabbcc", // AMI
	"fefefefe-fefe-fefe-fefe-fefefefefefe",
}

// IsPlaceholderUUID says whether a UUID is that of many machines, to which
// nobody gave one.
func IsPlaceholderUUID(uuid string) bool {
	for _, p := range placeholderUUIDs {
		if uuid == p || uuid == TurnedRound(p) {
			return true
		}
	}
	return false
}

// placeholderSerials are what firmware says where nobody set a serial number,
// in lower case and without what is neither letter nor digit.
var placeholderSerials = map[string]bool{
	"0123456789": true, "123456789": true, "1234567890": true,
	"chassisserialnumber": true, "default": true, "defaultstring": true,
	"empty": true, "invalid": true, "na": true, "none": true, "notapplicable": true, "notavailable": true,
	"notspecified": true, "null": true, "oem": true, "serialnumber": true, "systemserialnumber": true,
	"tobefilledbyoem": true, "undefined": true, "unknown": true, "unspecified": true,
}

// IsPlaceholderSerial says whether a serial number is no machine's own: a text
// of the list, zeros alone, or no letter and no digit.
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
