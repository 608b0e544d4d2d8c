package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// ownTerms reports whether a facet is observed in the design's own terms on
// every machine.
func ownTerms(f site.Facet) bool { return f == site.FacetDefinition || f == site.FacetDisks }

// effectOf returns what it takes to make a change; EffectLive for an added
// part.
func effectOf(n *site.Node, f site.Facet, c site.Change, seen site.FacetState) site.EffectOf {
	field := strings.TrimPrefix(c.Field, string(f)+".")
	e, ok := n.Virtual.EffectOf(f, field, seen.Have[field], c.Want)
	if !ok {
		return site.EffectOf{Effect: site.EffectLive}
	}
	return e
}

// anyHas reports whether any of the changes has the given effect.
func anyHas(n *site.Node, f site.Facet, changes []site.Change, seen site.FacetState, effect site.Effect) bool {
	return slices.ContainsFunc(changes, func(c site.Change) bool { return effectOf(n, f, c, seen).Effect == effect })
}

// barred says, one sentence each, which changes of a virtual machine are not made: those
// that need an installation while none is due, and those that Slipway never makes.
func barred(n *site.Node, f site.Facet, changes []site.Change, seen site.FacetState, m site.Memory) []string {
	if !ownTerms(f) {
		return nil
	}
	var why []string
	for _, c := range changes {
		e := effectOf(n, f, c, seen)
		have := say.OrNone(seen.Have[strings.TrimPrefix(c.Field, string(f)+".")])
		differs := fmt.Sprintf("%s%s is %s and is designed as %s", placed(c.Origin), c.Field, have, c.Want)
		switch {
		case e.Effect == site.EffectNever:
			why = append(why, fmt.Sprintf("%s; Slipway never changes this on a data disk, because %s; set it back to %s, or add another disk and copy the data", differs, e.Why, have))
		case e.Effect == site.EffectReplace && mayLose(n, m) && !isDue(n, m):
			way := "give the node an image and a generation"
			if n.Image != "" {
				way = fmt.Sprintf("raise the generation to %d in the same commit", max(Generation(n, m), n.Generation)+1)
			}
			why = append(why, fmt.Sprintf("%s; this change needs an installation, because %s; %s, or set it back to %s", differs, e.Why, way, have))
		}
	}
	return why
}

// placed returns a value's origin as the beginning of a sentence about it.
func placed(o site.Origin) string {
	if o.IsZero() {
		return ""
	}
	return o.String() + " (" + o.LayerName() + "): "
}

// designedAt returns the origin of a facet's field, or of what contains it.
func designedAt(n *site.Node, f site.Facet, field string) site.Origin {
	if !ownTerms(f) {
		return n.Origins.Of(string(f) + "." + field)
	}
	for path := site.VirtualPath(f, field); path != ""; path = path[:max(strings.LastIndex(path, "."), 0)] {
		if o := n.Origins.Of(path); !o.IsZero() {
			return o
		}
	}
	return site.Origin{}
}

// withoutDisk removes the changes of one disk.
func withoutDisk(disk string, changes []site.Change) []site.Change {
	return slices.DeleteFunc(changes, func(c site.Change) bool {
		return isOf(strings.TrimPrefix(c.Field, "disks."), disk)
	})
}

// isOf reports whether a field belongs to a part.
func isOf(field, part string) bool {
	i := strings.LastIndex(field, ".")
	return i >= 0 && field[:i] == part
}

// inShort reports a machine that is created, and each part that is added, as
// one change.
func inShort(n *site.Node, f site.Facet, changes []site.Change, seen site.FacetState) []site.Change {
	if !ownTerms(f) || len(changes) == 0 {
		return changes
	}
	have := site.StateAbsent
	if seen.Seen.IsZero() {
		have = "?"
	}
	if f == site.FacetDefinition && seen.Have[site.FieldState] != site.StateDefined {
		return []site.Change{{Field: "definition.state", Have: have, Want: site.StateDefined + made(n), Origin: n.Place}}
	}
	var short []site.Change
	for _, c := range changes {
		name, part := split(strings.TrimPrefix(c.Field, string(f)+"."))
		switch {
		case part == "" || seen.Have[name+"."+part] != "":
			short = append(short, c)
		case part == lead(f):
			short = append(short, site.Change{Field: string(f) + "." + name, Have: have, Want: added(n, f, name), Origin: c.Origin})
		case seen.Have[name+"."+lead(f)] != "":
			short = append(short, c) // of a part that exists
		}
	}
	return short
}

// lead is the field that every part of a facet has.
func lead(f site.Facet) string {
	if f == site.FacetDisks {
		return "size"
	}
	return "bridge"
}

// split splits a field into the part of the machine and its field.
func split(field string) (name, part string) {
	i := strings.LastIndex(field, ".")
	if i < 0 {
		return field, ""
	}
	return field[:i], field[i+1:]
}

// made describes what a machine is made of.
func made(n *site.Node) string {
	want := n.Want(site.FacetDefinition)
	text := ": " + want["cpus"] + " CPUs, " + want["memory"] + " of memory, " + want["machine"] + " with " + want["firmware"]
	if n.Virtual.CPUs == 1 {
		text = strings.Replace(text, "CPUs", "CPU", 1)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Virtual.Interfaces)) {
		text += ", " + name + " on " + n.Virtual.Interfaces[name].Bridge
	}
	if h := n.Virtual.Host; h.Hypervisor != "" {
		text += "; on " + h.Hypervisor + " with " + h.Accelerator
	}
	return text
}

// added describes a part of a machine.
func added(n *site.Node, f site.Facet, name string) string {
	want := n.Want(f)
	if f == site.FacetDisks {
		return want[name+".size"] + ", " + want[name+".format"] + " in the pool " + want[name+".pool"] + ", " + want[name+".bus"]
	}
	return strings.TrimSuffix(want[name+".model"]+" on "+want[name+".bridge"]+", "+want[name+".mac"], ", ")
}

// diskNotes reports disks of the machine that the design does not have. Slipway
// never removes them by itself.
func diskNotes(n *site.Node, m site.Memory) []string {
	var notes []string
	for _, v := range site.VolumesIn(m.Observed.Facets[site.FacetDisks].Have) {
		if _, designed := n.Virtual.Disks[v.Disk]; designed {
			continue
		}
		fate := "Slipway keeps it until the whole machine is erased"
		if n.Decommission {
			fate = "it is zeroized with the machine"
		}
		if v.Unattached {
			fate = "it is not attached to the machine, and " + fate
		}
		notes = append(notes, fmt.Sprintf("its disk %s of %s is not in the design; %s", strconv.Quote(v.Disk), v.Size, fate))
	}
	return notes
}
