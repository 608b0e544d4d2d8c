package site

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Fields and values of FacetDefinition, FacetDisks and FacetSeed, besides the
// fields that Want gives.
const (
	// FieldState says whether the virtual machine exists: one of the states
	// below. No other field is reported unless it is StateDefined.
	FieldState   = "state"
	StateDefined = "defined"
	StateAbsent  = "absent"
	// StateForeign means that a machine with that name or UUID exists and is
	// not ours. Unresolved explains it in a sentence under FieldState.
	StateForeign = "foreign"
	// SeedAttached and SeedNone are the states of FacetSeed.
	SeedAttached = "attached"
	SeedNone     = "none"
	// NoneOf stands for "no watchdog" and "no interfaces".
	NoneOf = "none"
)

// definition returns what the design asks of the definition of a virtual
// machine. Parts of an interface are named "eth0.bridge". The designed boot
// order and data disks are not part of it; a machine is created with them.
func (n *Node) definition() Values {
	v := &n.Virtual
	want := Values{
		FieldState:   StateDefined,
		"cpus":       strconv.Itoa(v.CPUs),
		"memory":     v.Memory.String(),
		"machine":    or(v.Machine, "q35"),
		"firmware":   or(v.Firmware, "bios"),
		"secureBoot": strconv.FormatBool(v.SecureBoot),
		"tpm":        strconv.FormatBool(v.TPM),
		"watchdog":   or(v.Watchdog, NoneOf),
		"autostart":  strconv.FormatBool(v.Autostart == nil || *v.Autostart),
		"interfaces": or(strings.Join(slices.Sorted(maps.Keys(v.Interfaces)), ","), NoneOf),
	}
	if v.Host.Accelerator != "" { // it is placed
		want["accelerator"] = v.Host.Accelerator
	}
	for name, i := range v.Interfaces {
		want[name+".bridge"] = i.Bridge
		want[name+".model"] = or(i.Model, "virtio")
		if i.MAC != "" {
			want[name+".mac"] = i.MAC
		}
	}
	return want
}

// disks returns what the design asks of the disks of a virtual machine, by
// names like "root.size". An installation creates the disk of the image. Until
// then the plan asks for nothing of that disk, and a driver leaves it out.
func (n *Node) disks() Values {
	want := Values{}
	for name, d := range n.Virtual.Disks {
		maps.Copy(want, d.values(name))
	}
	return orNil(want)
}

func (d VirtualDisk) values(name string) Values {
	return Values{
		name + ".size":   d.Size.String(),
		name + ".pool":   or(d.Pool, "default"),
		name + ".format": or(d.Format, "qcow2"),
		name + ".bus":    or(d.Bus, "virtio"),
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// Effect is what it takes to bring a field of a virtual machine to the design.
type Effect string

// The effects, least first.
const (
	EffectLive    Effect = "live"    // a running machine takes the change over
	EffectRestart Effect = "restart" // the machine takes the change over when it is switched off and on
	EffectReplace Effect = "replace" // a new generation replaces the machine
	EffectNever   Effect = "never"   // Slipway never makes this change
)

// EffectOf is a row of the table of effects.
type EffectOf struct {
	Facet Facet
	// Field is the field. "INTERFACE.mac" and "DISK.size" stand for a field of
	// one part, "INTERFACE" and "DISK" for all fields of a part that is added.
	Field string
	// Case distinguishes the rows of a field.
	Case   string
	Effect Effect
	// Why completes a sentence that begins with "because".
	Why string
}

// The cases of a field.
const (
	caseAdded       = "added"
	caseGrows       = "grows"
	caseShrinks     = "shrinks"
	caseImage       = "of the image's disk"
	caseData        = "of a disk of data"
	caseImageShrink = caseShrinks + ", " + caseImage
	caseDataShrink  = caseShrinks + ", " + caseData
)

// Effects is the table of what it takes to change a virtual machine: each field
// of its definition and of its disks.
var Effects = []EffectOf{
	{FacetDefinition, FieldState, "", EffectLive, "nothing runs on a machine that does not exist yet"},
	{FacetDefinition, "cpus", "", EffectRestart, "a running guest may not accept more CPUs, and never gives CPUs back"},
	{FacetDefinition, "memory", "", EffectRestart, "a running guest may not accept more memory, and need not give memory back"},
	{FacetDefinition, "machine", "", EffectReplace, "the devices get other addresses, and the installed system may not start from them"},
	{FacetDefinition, "firmware", "", EffectReplace, "the installed system starts with the firmware that it was installed for"},
	{FacetDefinition, "secureBoot", "", EffectReplace, "the firmware gets new variables, and what the installed system wrote into the old ones is lost"},
	{FacetDefinition, "tpm", "", EffectRestart, "the device is there from the start of a machine or not at all"},
	{FacetDefinition, "watchdog", "", EffectRestart, "the device is there from the start of a machine or not at all"},
	{FacetDefinition, "accelerator", "", EffectRestart, "the hypervisor selects the accelerator when the machine starts"},
	{FacetDefinition, "autostart", "", EffectLive, "it is a note of the hypervisor"},
	{FacetDefinition, "interfaces", "", EffectLive, "interfaces are plugged in and out"},
	{FacetDefinition, "INTERFACE", caseAdded, EffectLive, "interfaces are plugged in"},
	{FacetDefinition, "INTERFACE.bridge", "", EffectLive, "its cable is plugged in elsewhere"},
	{FacetDefinition, "INTERFACE.model", "", EffectRestart, "it is another device"},
	{FacetDefinition, "INTERFACE.mac", "", EffectRestart, "the guest knows the interface by its address"},
	{FacetDisks, "DISK", caseAdded, EffectLive, "disks are plugged in"},
	{FacetDisks, "DISK.size", caseGrows, EffectLive, "the guest is told that its disk has grown"},
	{FacetDisks, "DISK.size", caseImageShrink, EffectReplace, "a smaller disk loses the data at its end"},
	{FacetDisks, "DISK.size", caseDataShrink, EffectNever, "a smaller disk loses the data at its end"},
	{FacetDisks, "DISK.pool", caseImage, EffectReplace, "an installation makes it in the other pool"},
	{FacetDisks, "DISK.pool", caseData, EffectNever, "Slipway does not move the data on it"},
	{FacetDisks, "DISK.format", caseImage, EffectReplace, "an installation makes it in the other format"},
	{FacetDisks, "DISK.format", caseData, EffectNever, "Slipway does not convert the data on it"},
	{FacetDisks, "DISK.bus", "", EffectRestart, "it is another device"},
}

// EffectOf looks up what it takes to change a field from have to want. It
// returns false for a field that the table does not list.
func (v *Virtual) EffectOf(f Facet, field, have, want string) (EffectOf, bool) {
	pattern, which := v.row(f, field, have, want)
	for _, e := range Effects {
		if e.Facet == f && e.Field == pattern && e.Case == which {
			return e, true
		}
	}
	return EffectOf{}, false
}

// row returns the field and the case under which the table lists a change.
func (v *Virtual) row(f Facet, field, have, want string) (pattern, which string) {
	name, part, of := cutLast(field, ".")
	switch {
	case !of:
		return field, ""
	case f == FacetDefinition && have == "":
		return "INTERFACE", caseAdded
	case f == FacetDefinition:
		return "INTERFACE." + part, ""
	case have == "":
		return "DISK", caseAdded
	}
	which = caseData
	if v.Disks[name].Image != "" {
		which = caseImage
	}
	switch {
	case part == "bus":
		which = ""
	case part == "size" && sizeOf(have) <= sizeOf(want):
		which = caseGrows
	case part == "size":
		which = caseShrinks + ", " + which
	}
	return "DISK." + part, which
}

// sizeOf parses the text that Size.String returns, for any number of bytes.
func sizeOf(text string) Size {
	if size, err := ParseSize(text); err == nil {
		return size
	}
	n, _ := strconv.ParseInt(strings.TrimSuffix(text, "B"), 10, 64)
	return Size(n)
}

// VirtualPath returns the path of a virtual machine's field in the design:
// "virtual.disks.root.size".
func VirtualPath(f Facet, field string) string {
	switch _, _, of := cutLast(field, "."); {
	case f == FacetDisks:
		return "virtual.disks." + field
	case of:
		return "virtual.interfaces." + field
	}
	return "virtual." + field
}
