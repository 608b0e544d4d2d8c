package rule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// cpuRange is a range of processors of a set, both ends included.
type cpuRange struct {
	from, to  int
	set, text string
}

// cpuRanges reads the ranges of a set.
func cpuRanges(set, list string) []cpuRange {
	var all []cpuRange
	for text := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		all = append(all, cpuRange{number(from), number(to), set, text})
	}
	return all
}

// number returns the value of digits, or the largest int if the value does not
// fit.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return math.MaxInt
	}
	return n
}

func cpuSetRange(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	var good []cpuRange
	for _, name := range keys(n.Hardware.CPUSets) {
		ranges := cpuRanges(name, n.Hardware.CPUSets[name])
		bad := slices.IndexFunc(ranges, func(r cpuRange) bool { return r.object(n.Hardware.CPUs) != "" })
		if bad < 0 {
			good = append(good, ranges...)
			continue
		}
		r := ranges[bad]
		fix := "Correct the set, or hardware.cpus."
		if r.from > r.to {
			fix = fmt.Sprintf("Write %d-%d.", r.to, r.from)
		}
		found = append(found, wrong("hardware.cpuSets."+name, fmt.Sprintf("the CPU set %s has %s, %s", name, r.text, r.object(n.Hardware.CPUs)), fix))
	}
	return append(found, sharedCPUs(n, good)...)
}

// object says what is wrong with a range. cpus is 0 where the number of
// processors is not known.
func (r cpuRange) object(cpus int) string {
	switch {
	case r.from > r.to:
		return "which goes down"
	case cpus > 0 && r.to >= cpus:
		return fmt.Sprintf("and the processors of the hardware are 0 to %d", cpus-1)
	}
	return ""
}

// sharedCPUs reports, once per set, a processor that another set has. It visits
// the ranges in the order of their first processors, and remembers the one that
// reaches furthest.
func sharedCPUs(n *site.Node, all []cpuRange) []site.Finding {
	slices.SortFunc(all, func(a, b cpuRange) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.set, b.set)) })
	var found []site.Finding
	told := map[string]bool{}
	for i, reach := 0, (cpuRange{to: -1}); i < len(all); i++ {
		r := all[i]
		if r.from <= reach.to && r.set != reach.set && !told[r.set] {
			f := wrong("hardware.cpuSets."+r.set, fmt.Sprintf("processor %d is in the CPU sets %s and %s", r.from, reach.set, r.set), "Give it to one of them.")
			f.Severity, told[r.set] = site.SeverityWarning, true
			found = append(found, beside(n, "hardware.cpuSets."+reach.set, f))
		}
		if r.to > reach.to {
			reach = r
		}
	}
	return found
}

// pageSizes are the hugepages of each architecture. Those of arm64 assume its
// usual granule of 4 KiB.
var pageSizes = map[string][]site.Size{
	"amd64": {2 << 20, 1 << 30},
	"arm64": {64 << 10, 2 << 20, 32 << 20, 1 << 30},
}

// hugepageSizes returns the hugepages that a node's processors can have.
func hugepageSizes(n *site.Node) []site.Size {
	if sizes, ok := pageSizes[n.Hardware.Architecture]; ok {
		return sizes
	}
	return pageSizes["arm64"] // includes those of amd64
}

func hugepageSize(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Hardware.Hugepages) {
		size, sizes := n.Hardware.Hugepages[name].Size, hugepageSizes(n)
		if size != 0 && !slices.Contains(sizes, size) {
			found = append(found, wrong("hardware.hugepages."+name+".size",
				fmt.Sprintf("there are no hugepages of %s%s", size, on(n.Hardware.Architecture)),
				fmt.Sprintf("Write %s.", or(sizes))))
		}
	}
	return found
}

func on(architecture string) string {
	if architecture == "" {
		return ""
	}
	return " on " + architecture
}

// or lists sizes: "2MiB or 1GiB".
func or(sizes []site.Size) string {
	var words []string
	for _, s := range sizes {
		words = append(words, s.String())
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func hugepagesMemory(_ *site.Site, n *site.Node) []site.Finding {
	var sum site.Size
	for _, h := range n.Hardware.Hugepages {
		sum = sum.Plus(h.Size.Times(h.Count))
	}
	if sum == 0 {
		return nil
	}
	memory := n.Hardware.Memory
	if memory == 0 {
		if states(n, "hardware.memory") {
			return nil
		}
		f := wrong("hardware.hugepages", fmt.Sprintf("the hugepages take %s, and nothing says how much memory there is", amount(sum)),
			"Set hardware.memory, so that the two can be compared.")
		f.Severity = site.SeverityNote
		return []site.Finding{f}
	}
	if most := memory - memory/64 - 1<<30; sum > most {
		return []site.Finding{beside(n, "hardware.memory", wrong("hardware.hugepages",
			fmt.Sprintf("the hugepages take %s of %s of memory, and may take at most %s", amount(sum), memory, amount(max(most, 0))),
			"Lower their count, or correct hardware.memory."))}
	}
	return nil
}

// amount formats a size for people: exactly if that is short.
func amount(s site.Size) string {
	if text := s.String(); len(text) <= len("102401MiB") {
		return text
	}
	return fmt.Sprintf("%.2f GB", float64(s)/1e9)
}
