package plan

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// mostExchanged is how many changes of one machine are reported at a time.
const mostExchanged = 8

// Exchanged says which parts of a machine are gone and which are new since its
// last inspection, one sentence each. It ignores parts without a serial number,
// and lists that were not read both times.
func Exchanged(was, is *site.Inventory) []string {
	if was == nil || is == nil {
		return nil
	}
	var all []string
	for _, list := range []struct {
		what      string
		read      bool
		old, then []site.Part
	}{
		{"drive", was.Drives != nil && is.Drives != nil, partsOf(was.Drives, func(d site.Drive) site.Part { return d.Part }), partsOf(is.Drives, func(d site.Drive) site.Part { return d.Part })},
		{"memory module", was.DIMMs != nil && is.DIMMs != nil, partsOf(was.DIMMs, func(d site.DIMM) site.Part { return d.Part }), partsOf(is.DIMMs, func(d site.DIMM) site.Part { return d.Part })},
		{"network adapter", was.NICs != nil && is.NICs != nil, partsOf(was.NICs, func(n site.NIC) site.Part { return n.Part }), partsOf(is.NICs, func(n site.NIC) site.Part { return n.Part })},
		{"power supply", was.Supplies != nil && is.Supplies != nil, partsOf(was.Supplies, func(s site.PowerSupply) site.Part { return s.Part }), partsOf(is.Supplies, func(s site.PowerSupply) site.Part { return s.Part })},
		{"processor", was.CPUs != nil && is.CPUs != nil, partsOf(was.CPUs, func(p site.Processor) site.Part { return p.Part }), partsOf(is.CPUs, func(p site.Processor) site.Part { return p.Part })},
		// A BMC that lists processors and none for graphics has none any more.
		{"graphics processor", was.GPUs != nil && is.CPUs != nil, partsOf(was.GPUs, func(p site.Processor) site.Part { return p.Part }), partsOf(is.GPUs, func(p site.Processor) site.Part { return p.Part })},
	} {
		if !list.read {
			continue
		}
		all = append(all, without(list.old, list.then, list.what+" %s is gone")...)
		all = append(all, without(list.then, list.old, list.what+" %s is new")...)
	}
	if more := len(all) - mostExchanged; more > 0 {
		all = append(all[:mostExchanged], fmt.Sprintf("%d more parts are gone or new", more))
	}
	return all
}

// partsOf returns the parts of a list that have a serial number.
func partsOf[T any](list []T, part func(T) site.Part) []site.Part {
	var all []site.Part
	for _, x := range list {
		if p := part(x); p.Serial != "" {
			all = append(all, p)
		}
	}
	return all
}

// without returns a sentence for each part that is in the first list only.
func without(in, other []site.Part, sentence string) []string {
	var all []string
	for _, p := range in {
		if !slices.ContainsFunc(other, func(o site.Part) bool { return o.Serial == p.Serial && o.Model == p.Model }) {
			all = append(all, fmt.Sprintf(sentence, called(p)))
		}
	}
	return all
}
