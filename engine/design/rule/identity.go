package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var identities = []Rule{
	{
		Code: "duplicate-uuid", Severity: site.SeverityError, Firm: true,
		What:  "No two nodes name the same machine by its UUID, in whichever order of bytes.",
		Why:   "Two nodes would act on one machine. Since SMBIOS 2.6 the first three fields of a UUID have their bytes in the opposite order (DMTF DSP0134, section 7.2.1). Some tools swap them back and some do not.",
		Wrong: `nodes: "n2": identity: uuid: "4c4c4544-0000-4000-8000-000000000001"`,
		Right: `nodes: "n2": identity: uuid: "4c4c4544-0000-4000-8000-0000000000ff"`,
		Facts: uuidFacts, Fleet: duplicateUUID,
	},
	{
		Code: "duplicate-serial", Severity: site.SeverityError, Firm: true,
		What:  "No two nodes name the same machine by its serial number; those of an enclosure that share one each name a slot beside it, or each a MAC address.",
		Why:   "Two nodes would act on one machine.",
		Wrong: `nodes: "n2": identity: serial: "SN1"`,
		Right: `nodes: "n2": identity: serial: "SN99"`,
		Facts: serialFacts, Fleet: duplicateSerial,
	},
	{
		Code: "slot-alone", Severity: site.SeverityError, Firm: true,
		What:  "A slot is given together with a UUID, a serial number or a MAC address.",
		Why:   "A slot is a place behind one BMC, and other BMCs have slots with the same name, so a slot alone does not say which machine is meant.",
		Wrong: `nodes: "n2": identity: {uuid: _ @unset(), serial: _ @unset(), slot: "Node2"}`,
		Right: `nodes: "n2": identity: {uuid: _ @unset(), serial: "SN2", slot: "Node2"}`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			return slices.Concat(refuseSlotAlone("identity", n.Identity), refuseSlotAlone("moved", n.Moved))
		},
	},
	{
		Code: "placeholder-identity", Severity: site.SeverityError, Firm: true,
		What:  "The UUID and the serial number of a node belong to one machine. They are not placeholders that firmware reports when nobody set a value.",
		Why:   "Many machines report the same placeholder, so Slipway could write to the wrong machine. A UUID of zeros alone or of ff alone says that there is none (DMTF DSP0134, section 7.2.1).",
		Wrong: `nodes: "n2": identity: serial: "To-Be-Filled-By-O.E.M."`,
		Right: `nodes: "n2": identity: serial: "CZ20350TBF"`,
		Node:  placeholderIdentity,
	},
	{
		Code: "moved-without-identity", Severity: site.SeverityError, Firm: true,
		What:  "A node that has moved to another machine names the previous machine.",
		Why:   "Without it Slipway does not know which machine was replaced, and cannot tell what it did to the old machine from what it does to the new one.",
		Wrong: `nodes: "n1": {identity: _ @unset(), moved: serial: "SN9"}`,
		Right: `nodes: "n1": moved: serial: "SN9"`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if !n.Moved.Known() || states(n, "identity.uuid") || states(n, "identity.serial") || states(n, "identity.mac") {
				return nil
			}
			return []site.Finding{wrong("moved",
				fmt.Sprintf("the node %s has moved, and no identity says from which machine", n.Name),
				"Let identity be that of the machine before; or, if there was none, write identity instead of moved.")}
		},
	},
	{
		Code: "moved-nowhere", Severity: site.SeverityNote,
		What:  "A node moves to a machine that is not the one that it names already.",
		Why:   "The line has no effect, and somebody will take it for the reason of what happens next.",
		Wrong: `nodes: "n1": moved: {uuid: "4c4c4544-0000-4000-8000-000000000001", serial: "SN1"}`,
		Right: `nodes: "n1": moved: {uuid: "4c4c4544-0000-4000-8000-000000000099", serial: "SN1"}`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if !n.Moved.Known() || n.Moved != n.Identity {
				return nil
			}
			return []site.Finding{wrong("moved",
				fmt.Sprintf("the node %s moves to the machine that it is on: %s", n.Name, n.Moved),
				"Remove moved, or correct it.")}
		},
	},
}

// machineAt returns the path of the identity that names a node's machine.
func machineAt(n *site.Node) string {
	if n.Moved.Known() {
		return "moved"
	}
	return "identity"
}

// fact returns one fact, or none if the key is empty.
func fact(key, path string) []Fact {
	if key == "" {
		return nil
	}
	return []Fact{{Key: key, Path: path}}
}

// uuidFacts puts a UUID and its byte-swapped form under one key, the lesser of
// the two. It counts the nodes that write the greater.
func uuidFacts(_ *site.Site, n *site.Node) []Fact {
	uuid, path := n.Machine().UUID, machineAt(n)+".uuid"
	if uuid == "" || site.IsPlaceholderUUID(uuid) {
		return nil
	}
	turned := site.TurnedRound(uuid)
	if uuid <= turned {
		return []Fact{{Key: uuid, Path: path}}
	}
	return []Fact{{Key: turned, Path: path}, {Key: turned + " " + n.Name}}
}

func duplicateUUID(_ *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, key := range x.Several() {
		written := func(h Holder) string {
			if x.Count(key+" "+h.Node) > 0 {
				return site.TurnedRound(key)
			}
			return key
		}
		first := x.Holders(key)[0]
		for _, again := range x.Holders(key)[1:] {
			message := fmt.Sprintf("the UUID %s of %s is also that of %s", written(again), again.Node, first.Node)
			if written(again) != written(first) {
				message += ", with the bytes of its first three fields the other way round"
			}
			found = append(found, again.about(site.Finding{
				Message: message,
				Fix:     "Correct the one that is wrong.",
				Related: []string{first.Place.String()},
			}))
		}
	}
	return found
}

// serialFacts returns the serial number, as the key of all nodes that name it,
// and the serial number with the slot. It also counts whether a node has a slot
// or a MAC address, for comparing two nodes.
func serialFacts(_ *site.Site, n *site.Node) []Fact {
	id, path := n.Machine(), machineAt(n)
	if id.Serial == "" || site.IsPlaceholderSerial(id.Serial) {
		return nil
	}
	facts := []Fact{{Key: id.Serial, Path: path + ".serial"}}
	if id.Slot != "" {
		facts = append(facts, Fact{Key: id.Serial + slotAfter + id.Slot, Path: path + ".slot"}, Fact{Key: id.Serial + " has slot " + n.Name})
	}
	if id.MAC != "" {
		facts = append(facts, Fact{Key: id.Serial + " has mac " + n.Name})
	}
	return facts
}

// slotAfter separates a serial number from a slot; neither has spaces.
const slotAfter = " in slot "

// duplicateSerial reports nodes that share a serial number, unless both have
// different slots, or both have a MAC address. duplicate-mac compares those.
func duplicateSerial(_ *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, key := range x.Several() {
		serial, _, inSlot := strings.Cut(key, slotAfter)
		both := func(a, b Holder, what string) bool {
			return x.Count(serial+" has "+what+" "+a.Node) > 0 && x.Count(serial+" has "+what+" "+b.Node) > 0
		}
		apart := func(a, b Holder) bool { return both(a, b, "mac") || !inSlot && both(a, b, "slot") }
		for i, again := range x.Holders(key) {
			before := x.Holders(key)[:i]
			same := slices.IndexFunc(before, func(h Holder) bool { return !apart(h, again) })
			if same < 0 {
				continue
			}
			found = append(found, again.about(site.Finding{
				Message: fmt.Sprintf("the serial number %s of %s is also that of %s", key, again.Node, before[same].Node),
				Fix:     "Correct the one that is wrong. If both are nodes of an enclosure and report it, add to the identity of each its slot, or the mac of one of its ports.",
				Related: []string{before[same].Place.String()},
			}))
		}
	}
	return found
}

func refuseSlotAlone(path string, i site.Identity) []site.Finding {
	if i.Slot == "" || i.Known() {
		return nil
	}
	return []site.Finding{wrong(path+".slot", fmt.Sprintf("the slot %s alone names no machine", i.Slot),
		"Add the serial number, UUID or MAC address that the machine reports.")}
}

func placeholderIdentity(_ *site.Site, n *site.Node) []site.Finding {
	return slices.Concat(refusePlaceholders("identity", n.Identity), refusePlaceholders("moved", n.Moved))
}

func refusePlaceholders(path string, i site.Identity) []site.Finding {
	var found []site.Finding
	if site.IsPlaceholderUUID(i.UUID) {
		found = append(found, wrong(path+".uuid",
			fmt.Sprintf("the UUID %s is a placeholder that many machines report", i.UUID),
			"Name the machine by its serial number alone, or give it a UUID with the vendor's tool and write that."))
	}
	if site.IsPlaceholderSerial(i.Serial) {
		found = append(found, wrong(path+".serial",
			fmt.Sprintf("%q is a placeholder that many machines without a serial number report", i.Serial),
			"Name the machine by its UUID alone, or write the serial number that is on its label, once its firmware reports that."))
	}
	return found
}
