package redfish

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// spelling is one row of the table of intents: what machines call an intent.
// The firmware versions of its habit are those of the BIOS.
type spelling struct {
	habit
	intent string
	// attributes are names, of which the first counts that the machine has. A
	// "*" at the end stands for a suffix that is another one with each build
	// of a BIOS ("SR_IOVSupport_0047", "Hyper_Threading_ALL__F27F").
	attributes []string
	// values are what each value of the intent may be called; the first that
	// the registry has counts. Without any it is one of onOff.
	values map[string][]string
	// shown: only what people are shown tells which value is which, for the
	// attribute is named for the opposite.
	shown bool
}

// onOff are what vendors call a switch that is on and off.
var onOff = []map[string]string{
	{"true": "Enabled", "false": "Disabled"},
	{"true": "Enable", "false": "Disable"},
	{"true": "On", "false": "Off"},
	{"true": "true", "false": "false"},
	{"true": "1", "false": "0"},
}

// row is one intent of a vendor's, of any model and BIOS.
func row(intent string, attributes ...string) spelling {
	return spelling{intent: intent, attributes: attributes}
}

func (s spelling) as(values map[string][]string) spelling {
	s.values = values
	return s
}

func (s spelling) asShown() spelling {
	s.shown = true
	return s
}

// autoSMT is what AMD's firmware has for multithreading: Auto is on.
var autoSMT = map[string][]string{"true": {"Enabled", "Enable", "Auto"}, "false": {"Disabled", "Disable"}}

// intentTable is every vendor's names. They come from captures of machines and
// from vendors' documents; docs/bios.md says which. A name that a machine
// does not have is passed over, so that a row may serve several generations.
var intentTable = slices.Concat(
	of("dell",
		row("smt", "LogicalProc"),
		row("virtualization", "ProcVirtualization"),
		// With Intel's processors one switch is for VT-x and VT-d.
		row("iommu", "IommuSupport", "ProcVirtualization"),
		row("sriov", "SriovGlobalEnable"),
		row("turbo", "ProcTurboMode"),
		row("secureBoot", "SecureBoot"),
		row("tpm", "TpmSecurity").as(map[string][]string{"true": {"On", "OnPbm", "OnNoPbm"}, "false": {"Off"}}),
		row("profile", "SysProfile").as(map[string][]string{"performance": {"PerfOptimized"}, "balanced": {"PerfPerWattOptimizedDapc", "PerfPerWattOptimizedOs"}}),
	),
	of("hpe",
		row("smt", "ProcSMT", "ProcHyperthreading"),
		row("virtualization", "ProcVirtualization"),
		row("iommu", "ProcAmdIoVt", "IntelProcVtd"),
		row("sriov", "Sriov"),
		row("turbo", "ProcAMDBoost", "ProcTurbo"),
		row("tpm", "TpmVisibility").as(map[string][]string{"true": {"Visible"}, "false": {"Hidden"}}),
		row("profile", "WorkloadProfile").as(map[string][]string{"performance": {"GeneralThroughputCompute"}, "balanced": {"GeneralPowerEfficientCompute"}}),
	),
	of("lenovo",
		row("smt", "Processors_HyperThreading", "Processors_SMTMode").as(autoSMT),
		row("virtualization", "Processors_IntelVirtualizationTechnology", "Processors_SVMMode"),
		row("iommu", "DevicesandIOPorts_IntelVTforDirectedIOVTd", "DevicesandIOPorts_IntelVTforDirectedIO*", "DevicesandIOPorts_IOMMU").as(autoSMT),
		row("sriov", "DevicesandIOPorts_SRIOV"),
		row("turbo", "Processors_TurboMode", "Processors_CorePerformanceBoost"),
		row("secureBoot", "SecureBootConfiguration_SecureBootSetting"),
		row("tpm", "TrustedComputingGroup_TPMState", "TrustedComputingGroup_TPM2_0State"),
		row("profile", "OperatingModes_ChooseOperatingMode").as(map[string][]string{
			"performance": {"MaximumPerformance"}, "balanced": {"Efficiency_FavorPerformance", "MaximumEfficiency"}, "powersave": {"MinimalPower", "Efficiency_FavorPower"}}),
	),
	of("supermicro",
		row("smt", "Hyper_Threading_ALL_*", "HyperThreading*", "Hyper_Threading*", "SMTControl*").as(autoSMT),
		row("virtualization", "IntelVirtualizationTechnology*", "VMX*", "SVMMode*"),
		row("iommu", "IntelVTforDirectedI_O_VT_d_*", "IntelVTforDirectedI_O*", "IntelVTforDirectedI/O(VT-d)*", "IOMMU*").as(autoSMT),
		row("sriov", "SR_IOVSupport*", "SR-IOVSupport*"),
		row("turbo", "TurboMode*", "CorePerformanceBoost*").as(autoSMT),
		row("secureBoot", "SecureBootEnable*", "SecureBoot*"),
		row("tpm", "SecurityDeviceSupport*"),
	),
	of("nvidia",
		row("smt", "ProcessorHyperThreadingDisable").asShown(),
		row("virtualization", "ProcessorVmxEnable", "VmxEnable"),
		row("iommu", "VTdSupport"),
		row("sriov", "SriovSupport", "SRIOVEnable"),
		row("turbo", "TurboMode"),
	),
	of("intel",
		row("smt", "ProcessorHyperThreadingDisable").asShown(),
		row("virtualization", "ProcessorVmxEnable"),
		row("iommu", "VTdSupport"),
		row("sriov", "SRIOVEnable"),
		row("turbo", "TurboMode", "EnableTurboMode"),
	),
)

// makersOf are the names under which a vendor goes.
var makersOf = map[string][]string{
	"dell": {"dell"}, "hpe": {"hpe", "hewlett"}, "lenovo": {"lenovo"}, "supermicro": {"supermicro", "super micro"},
	"nvidia": {"nvidia"}, "intel": {"intel"},
}

// of gives rows to a vendor.
func of(vendor string, rows ...spelling) []spelling {
	for i := range rows {
		rows[i].vendors = makersOf[vendor]
	}
	return rows
}

// intentValues are what can be asked of each intent.
func intentValues(intent string) []string {
	if intent == "profile" {
		return []string{"performance", "balanced", "powersave"}
	}
	return []string{"true", "false"}
}

// spellings are the rows for a machine by intent; known says whether the table
// has its vendor at all.
func spellings(of makers) (rows map[string][]spelling, known bool) {
	rows = map[string][]spelling{}
	for _, row := range intentTable {
		if !row.vendor(of) {
			continue
		}
		known = true
		if row.fits(of) {
			rows[row.intent] = append(rows[row.intent], row)
		}
	}
	return rows, known
}

// offer is what an intent comes to on a machine: an attribute and its value.
type offer struct{ attribute, value string }

// offers are what every value of every intent comes to, where it comes to
// anything.
func (f firmware) offers() map[string]site.Values {
	all := map[string]site.Values{}
	rows, _ := spellings(f.maker)
	for intent := range rows {
		for _, value := range intentValues(intent) {
			if o, err := f.resolve(intent, value); err == nil {
				all[intent+"="+value] = site.Values{o.attribute: o.value}
			}
		}
	}
	return all
}

// resolve finds the attribute for an intent and the value to give it, or says
// why there is none.
func (f firmware) resolve(intent, value string) (offer, error) {
	const otherwise = "name the machine's own attribute in bios.attributes, or leave it out"
	all, known := spellings(f.maker)
	if !known {
		return offer{}, fmt.Errorf("no names of settings are known for machines of %q; %s", f.maker.manufacturer, otherwise)
	}
	var looked []string
	for _, row := range all[intent] {
		name, err := f.find(row.attributes)
		switch {
		case err != nil:
			return offer{}, err
		case name == "":
			looked = append(looked, row.attributes...)
			continue
		}
		if v := f.value(row, name, value); v != "" {
			return offer{name, v}, nil
		}
		return offer{}, fmt.Errorf("%s has no value that stands for %s, only %s; %s", name, value, f.registered(name).named(), otherwise)
	}
	if len(looked) == 0 {
		return offer{}, fmt.Errorf("no setting of %s machines is known for it; %s", f.maker.manufacturer, otherwise)
	}
	return offer{}, fmt.Errorf("the machine has none of the settings that are known for it (%s); %s", strings.Join(looked, ", "), otherwise)
}

// find is the first of some names that the machine shows, or else that its
// registry has; empty for none.
func (f firmware) find(names []string) (string, error) {
	for _, has := range []func(string) bool{f.shows, f.registers} {
		for _, name := range names {
			if found, err := f.match(name, has); found != "" || err != nil {
				return found, err
			}
		}
	}
	return "", nil
}

// match is the attribute of a name, or the only one that has it up to the
// suffix of a BIOS build where a "*" asks for it.
func (f firmware) match(name string, has func(string) bool) (string, error) {
	start, open := strings.CutSuffix(name, "*")
	if has(start) {
		return start, nil
	}
	if !open {
		return "", nil
	}
	var found []string
	for _, n := range f.names() {
		if rest, ok := strings.CutPrefix(n, start); ok && isBuildSuffix(rest) && has(n) {
			found = append(found, n)
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("the machine has %s, and which of them is meant is not known; name one in bios.attributes", strings.Join(found, " and "))
	}
	return strings.Join(found, ""), nil
}

// isBuildSuffix says whether a text is what Supermicro's BIOS puts behind names:
// "_0047", "__F27F", "#00F7".
func isBuildSuffix(s string) bool {
	digits := strings.TrimLeft(s, "_#")
	if len(digits) != 4 || len(s) < 5 || len(s) > 6 {
		return false
	}
	return strings.Trim(digits, "0123456789ABCDEFabcdef") == ""
}

// value is the name of the value that an attribute gets for one of an intent;
// empty for none. One that it has and that means the same stays.
func (f firmware) value(row spelling, name, asked string) string {
	words := row.values[asked]
	if row.values == nil {
		for _, pair := range onOff {
			words = append(words, pair[asked])
		}
	}
	a, now := f.registered(name), f.now(name)
	if len(a.choices) == 0 {
		return f.unregistered(row, name, asked, words)
	}
	found := ""
	for _, word := range words {
		c := a.meaning(word, row.shown)
		if c != "" && c == now {
			return now
		}
		found = orText(found, c)
	}
	return found
}

// meaning is the name of the choice that a word stands for.
func (a attribute) meaning(word string, shown bool) string {
	for _, c := range a.choices {
		if strings.EqualFold(c.display, word) || !shown && strings.EqualFold(c.name, word) {
			return c.name
		}
	}
	return ""
}

// unregistered is a value where the registry lists none: that of the pair that
// the machine's own value belongs to.
func (f firmware) unregistered(row spelling, name, asked string, words []string) string {
	now, a := f.now(name), f.registered(name)
	switch {
	case row.shown:
		return ""
	case slices.Contains(words, now):
		return now
	case row.values != nil:
		return ""
	case a.kind == "Integer" && (a.lower != 0 || a.upper != 1):
		return ""
	}
	for _, pair := range onOff {
		if slices.Contains(slices.Collect(maps.Values(pair)), now) {
			return pair[asked]
		}
	}
	return ""
}

// named are the names of an attribute's values, for people.
func (a attribute) named() string {
	var names []string
	for _, c := range a.choices[:min(len(a.choices), 12)] {
		names = append(names, c.name)
	}
	return printable(orText(strings.Join(names, ", "), "what is not listed"))
}
