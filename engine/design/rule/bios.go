package rule

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/site"
)

var bioses = []Rule{
	{
		Code: "bios-twice", Severity: site.SeverityWarning,
		What:  "A BIOS setting is made once: as an intent or as the vendor's attribute.",
		Why:   "The attribute wins, so that whoever changes the intent later sees no effect.",
		Wrong: `nodes: "n1": bios: {smt: false, attributes: LogicalProc: "Enabled"}`,
		Right: `nodes: "n1": bios: {smt: false, attributes: MemTest: "Disabled"}`,
		Node:  biosTwice,
	},
	{
		Code: "bios-erases", Severity: site.SeverityError,
		What:  "No BIOS attribute is a command to erase: to sanitize memory or disks, to clear the TPM, to set persistent memory back.",
		Why:   "The next start would erase data or keys, as often as the attribute is set again, and nobody is asked to approve that as a loss.",
		Wrong: `nodes: "n1": bios: attributes: TpmOperation: "Clear"`,
		Right: `nodes: "n1": bios: attributes: TpmOperation: "NoAction"`,
		Node:  biosErases,
	},
	{
		Code: "secure-boot", Severity: site.SeverityError,
		What:  "A node with secure boot boots by UEFI; a virtual machine with it is a q35, too.",
		Why:   "Only UEFI checks what it boots (UEFI specification 2.10, chapter 32); the firmware refuses the setting, or boots unchecked code.",
		Wrong: `nodes: "n1": {bios: secureBoot: true, boot: mode: "bios"}`,
		Right: `nodes: "n1": {bios: secureBoot: true, boot: mode: "uefi"}`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if n.IsVirtual() {
				return virtualSecureBoot(n)
			}
			if n.BIOS.SecureBoot == nil || !*n.BIOS.SecureBoot || n.Boot.Mode != "bios" {
				return nil
			}
			return []site.Finding{beside(n, "boot.mode", wrong("bios.secureBoot",
				`there is secure boot, and boot.mode is "bios"`, `Write boot: mode: "uefi", or bios: secureBoot: false.`))}
		},
	},
}

// virtualSecureBoot reports settings of a virtual machine that exclude secure
// boot. QEMU's pc has no system management mode, which guards the keys.
func virtualSecureBoot(n *site.Node) []site.Finding {
	mode, path := bootMode(n)
	switch {
	case !n.Virtual.SecureBoot:
		return nil
	case mode == "bios":
		return []site.Finding{beside(n, path, wrong("virtual.secureBoot",
			`there is secure boot, and virtual.firmware is "bios"`, `Write virtual: firmware: "uefi", or remove secureBoot.`))}
	case n.Virtual.Machine == "pc":
		return []site.Finding{beside(n, "virtual.machine", wrong("virtual.secureBoot",
			`there is secure boot, and virtual.machine is "pc"`, `Write virtual: machine: "q35", or remove secureBoot.`))}
	}
	return nil
}

// spellings are the names that vendors give an intent in their attribute
// registries: Dell, HPE, Lenovo, Supermicro, Intel and NVIDIA. A "*" at the end
// stands for Supermicro's suffix, which differs with each BIOS build.
var spellings = map[string][]string{
	"smt": {"LogicalProc", "ProcSMT", "ProcHyperthreading", "Processors_HyperThreading", "Processors_SMTMode",
		"Hyper_Threading_*", "HyperThreading*", "ProcessorHyperThreadingDisable", "SMTControl*"},
	"virtualization": {"ProcVirtualization", "Processors_IntelVirtualizationTechnology", "Processors_SVMMode", "IntelVirtualizationTechnology*", "SVMMode*", "ProcessorVmxEnable"},
	"iommu":          {"IntelProcVtd", "ProcAmdIoVt", "DevicesandIOPorts_IntelVTforDirectedIO*", "IntelVTforDirectedI_O*", "IommuSupport", "VTdSupport"},
	"sriov":          {"SriovGlobalEnable", "Sriov", "DevicesandIOPorts_SRIOV", "SR_IOVSupport*", "SriovSupport", "SRIOVEnable"},
	"turbo":          {"ProcTurboMode", "ProcTurbo", "ProcAMDBoost", "Processors_TurboMode", "TurboMode*"},
	"tpm":            {"TpmSecurity", "TpmVisibility", "TpmState", "SecurityDeviceSupport*"},
	"profile":        {"SysProfile", "WorkloadProfile", "PowerRegulator", "OperatingModes_ChooseOperatingMode"},
}

func biosTwice(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, attribute := range keys(n.BIOS.Attributes) {
		for _, intent := range keys(spellings) {
			if states(n, "bios."+intent) && spells(spellings[intent], attribute) {
				found = append(found, beside(n, "bios."+intent, wrong("bios.attributes."+attribute,
					fmt.Sprintf("the attribute %s is the vendor's name of the intent %s, which is set too", attribute, intent),
					fmt.Sprintf("Remove the attribute, or bios.%s.", intent))))
			}
		}
	}
	return found
}

// erasing are parts of vendors' names for attributes that are commands to erase:
// HPE's PmmSanitizeOperation and TpmOperation, Dell's NvdimmFactoryDefault,
// Lenovo's and Supermicro's secure erase of disks.
var erasing = []string{"sanitize", "erase", "factorydefault", "zeroize", "formatdisk", "tpmoperation", "tpm2operation", "tpmcommand"}

// resting are values, or ends of values, with which such an attribute does
// nothing.
var resting = []string{"none", "noaction", "nooperation", "disable", "disabled", "no", "off", "false", "notapplicable", "preserve", "supported", "unsupported"}

func biosErases(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, attribute := range keys(n.BIOS.Attributes) {
		if value := n.BIOS.Attributes[attribute]; orders(attribute, fmt.Sprint(value)) {
			found = append(found, wrong("bios.attributes."+attribute,
				fmt.Sprintf("the attribute %s with the value %v is a command to erase", attribute, value),
				"Remove it. To erase the machine, do it by hand while the node is paused, or raise its generation."))
		}
	}
	return found
}

// orders reports whether an attribute with a value makes the firmware erase
// something. "Clear" is such a command in any value of the TPM, or of a pending
// operation.
func orders(attribute, value string) bool {
	name, value := letters(attribute), letters(value)
	rests := value == "" || slices.ContainsFunc(resting, func(end string) bool { return strings.HasSuffix(value, end) })
	if !rests && slices.ContainsFunc(erasing, func(part string) bool { return strings.Contains(name, part) }) {
		return true
	}
	return strings.Contains(value, "clear") && (strings.Contains(name+value, "tpm") || strings.Contains(name, "trusted") || strings.Contains(name, "pendingoperation"))
}

// letters returns the letters and digits of a text, in lower case.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

func spells(names []string, attribute string) bool {
	for _, name := range names {
		start, cut := strings.CutSuffix(name, "*")
		if name == attribute || cut && strings.HasPrefix(attribute, start) {
			return true
		}
	}
	return false
}
