package bios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// spelling is one row of the table of intents: the machines' names for an
// intent.
type spelling struct {
	vendors []string // how a maker's name begins, in lower case
	intent  string
	// attributes are possible names; the first one that the machine has is
	// used. A "*" at the end stands for a suffix that differs with each build
	// of a BIOS ("SR_IOVSupport_0047", "Hyper_Threading_ALL__F27F").
	attributes []string
	// values are possible names for each value of the intent; the first one in
	// the registry is used. Without values, onOff applies.
	values map[string][]string
	// shown: only the display text tells which value is which, because the
	// attribute is named for the opposite.
	shown bool
}

// onOff are the vendors' names for on and off.
var onOff = []map[string]string{
	{"true": "Enabled", "false": "Disabled"},
	{"true": "Enable", "false": "Disable"},
	{"true": "On", "false": "Off"},
	{"true": "true", "false": "false"},
	{"true": "1", "false": "0"},
}

// row is one intent of a vendor, for any model and BIOS.
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

// autoSMT are the values of AMD's firmware for multithreading: Auto is on.
var autoSMT = map[string][]string{"true": {"Enabled", "Enable", "Auto"}, "false": {"Disabled", "Disable"}}

// intentTable holds every vendor's names. They come from captures of machines
// and from vendors' documents; docs/bios.md lists which. Names that a machine
// does not have are skipped, so a row may serve several generations.
var intentTable = slices.Concat(
	of("dell",
		row("smt", "LogicalProc"),
		row("virtualization", "ProcVirtualization"),
		// On Intel processors one switch controls VT-x and VT-d.
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

// makersOf are the names that a vendor uses.
var makersOf = map[string][]string{
	"dell": {"dell"}, "hpe": {"hpe", "hewlett"}, "lenovo": {"lenovo"}, "supermicro": {"supermicro", "super micro"},
	"nvidia": {"nvidia"}, "intel": {"intel"},
}

// of assigns rows to a vendor.
func of(vendor string, rows ...spelling) []spelling {
	for i := range rows {
		rows[i].vendors = makersOf[vendor]
	}
	return rows
}

// spellings returns the rows for a machine, by intent. known says whether the
// table has its vendor at all.
func spellings(makers []string) (rows map[string][]spelling, known bool) {
	rows = map[string][]spelling{}
	for _, row := range intentTable {
		if row.isOf(makers) {
			known = true
			rows[row.intent] = append(rows[row.intent], row)
		}
	}
	return rows, known
}

// isOf reports whether the row is for the maker of the machine or of its BMC.
func (s spelling) isOf(makers []string) bool {
	return slices.ContainsFunc(makers, func(name string) bool {
		return slices.ContainsFunc(s.vendors, func(v string) bool { return strings.HasPrefix(strings.ToLower(name), v) })
	})
}

// Intents lists all intents in the table, in alphabetical order.
func Intents() []string {
	all := map[string]bool{}
	for _, row := range intentTable {
		all[row.intent] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// Meets returns the attribute for an intent on a machine, and the values of the
// intent that it supports; empty for none.
func (s Settings) Meets(intent string) (attribute string, values []string) {
	can := []string{"true", "false"}
	if intent == "profile" {
		can = []string{"performance", "balanced", "powersave"}
	}
	for _, value := range can {
		if o, err := s.intended(intent, value); err == nil {
			attribute, values = o.attribute, append(values, value)
		}
	}
	return attribute, values
}

// offer is an intent's attribute on a machine, and its value.
type offer struct{ attribute, value string }

// intended finds the attribute for an intent and the value to set, or says why
// there is none.
func (s Settings) intended(intent, value string) (offer, error) {
	const otherwise = "name the machine's own attribute in bios.attributes, or leave it out"
	all, known := spellings(s.Makers)
	if !known {
		return offer{}, fmt.Errorf("no names of settings are known for machines of %q; %s", s.maker(), otherwise)
	}
	var looked []string
	for _, row := range all[intent] {
		name, err := s.find(row.attributes)
		switch {
		case err != nil:
			return offer{}, err
		case name == "":
			looked = append(looked, row.attributes...)
			continue
		}
		if v := s.value(row, name, value); v != "" {
			return offer{name, v}, nil
		}
		return offer{}, fmt.Errorf("%s has no value that stands for %s, only %s; %s", name, value, s.Registry.Attributes[name].listed(), otherwise)
	}
	if len(looked) == 0 {
		return offer{}, fmt.Errorf("no setting of %s machines is known for it; %s", s.maker(), otherwise)
	}
	return offer{}, fmt.Errorf("the machine has none of the settings that are known for it (%s); %s", strings.Join(looked, ", "), otherwise)
}

// find returns the first of some names that the machine shows, or else that its
// registry has; empty for none.
func (t *Terms) find(names []string) (string, error) {
	for _, has := range []func(string) bool{t.shows, t.registers} {
		for _, name := range names {
			if found, err := t.match(name, has); found != "" || err != nil {
				return found, err
			}
		}
	}
	return "", nil
}

// match returns the attribute with a name. For a name with "*" it returns the
// only one that has the name and a BIOS build suffix.
func (t *Terms) match(name string, has func(string) bool) (string, error) {
	start, open := strings.CutSuffix(name, "*")
	if has(start) {
		return start, nil
	}
	if !open {
		return "", nil
	}
	var found []string
	for _, n := range t.names() {
		if rest, ok := strings.CutPrefix(n, start); ok && isBuildSuffix(rest) && has(n) {
			found = append(found, n)
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("the machine has %s, and Slipway does not know which of them to use; name one in bios.attributes", strings.Join(found, " and "))
	}
	return strings.Join(found, ""), nil
}

// isBuildSuffix reports whether a text is a suffix that Supermicro's BIOS adds
// to names: "_0047", "__F27F", "#00F7".
func isBuildSuffix(s string) bool {
	digits := strings.TrimLeft(s, "_#")
	if len(digits) != 4 || len(s) < 5 || len(s) > 6 {
		return false
	}
	return strings.Trim(digits, "0123456789ABCDEFabcdef") == ""
}

// value returns the name of an attribute's value for a value of an intent;
// empty for none. A current or pending value with the same meaning stays.
func (s Settings) value(row spelling, name, asked string) string {
	words := row.values[asked]
	if row.values == nil {
		for _, pair := range onOff {
			words = append(words, pair[asked])
		}
	}
	a := s.Registry.Attributes[name]
	if len(a.Choices) == 0 {
		return s.unregistered(row, name, asked, words)
	}
	var mean []string
	for _, word := range words {
		if c := a.meaning(word, row.shown); c != "" {
			mean = append(mean, c)
		}
	}
	for _, v := range []string{s.then(name), s.now(name)} {
		if slices.Contains(mean, v) {
			return v
		}
	}
	return strings.Join(mean[:min(len(mean), 1)], "")
}

// meaning returns the name of the choice that a word stands for.
func (a Attribute) meaning(word string, shown bool) string {
	for _, c := range a.Choices {
		if strings.EqualFold(c.Display, word) || !shown && strings.EqualFold(c.Name, word) {
			return c.Name
		}
	}
	return ""
}

// unregistered returns a value where the registry lists none: the one from the
// pair that contains the machine's own value.
func (s Settings) unregistered(row spelling, name, asked string, words []string) string {
	now, a := s.then(name), s.Registry.Attributes[name]
	switch {
	case row.shown:
		return ""
	case slices.Contains(words, now):
		return now
	case row.values != nil:
		return ""
	case a.Type == "Integer" && (a.Lower == nil || *a.Lower != 0 || a.Upper == nil || *a.Upper != 1):
		return ""
	}
	for _, pair := range onOff {
		if slices.Contains(slices.Collect(maps.Values(pair)), now) {
			return pair[asked]
		}
	}
	return ""
}

// listed lists the names of an attribute's values, for people.
func (a Attribute) listed() string {
	var names []string
	for _, c := range a.Choices[:min(len(a.Choices), 12)] {
		names = append(names, c.Name)
	}
	return brief(orText(strings.Join(names, ", "), "what is not listed"))
}
