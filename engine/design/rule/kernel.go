package rule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var kernels = []Rule{
	{
		Code: "kernel-reference", Severity: site.SeverityError, Firm: true,
		What: "A kernel parameter refers in braces only to a CPU set, or to the size or count of hugepages, of the node's hardware.",
		Why:  "The kernel would be given the braces as they are written, and ignore the parameter without a word.",
		Wrong: `nodes: "n1": {
	hardware: cpuSets: guests: "2-15"
	kernel: parameters: isolcpus: "{hardware.cpuSets.guest}"
}`,
		Right: `nodes: "n1": {
	hardware: cpuSets: guests: "2-15"
	kernel: parameters: isolcpus: "{hardware.cpuSets.guests}"
}`,
		Node: kernelReference,
	},
	{
		Code: "kernel-hugepages", Severity: site.SeverityError,
		What:  "The kernel parameters hugepages and hugepagesz are set together, or hugepages with default_hugepagesz, with a size that the processors have.",
		Why:   "A size without a count reserves nothing, and a count without a size reserves pages of the default size, 2MiB (Documentation/admin-guide/mm/hugetlbpage.rst); what wants the others does not start.",
		Wrong: `nodes: "n1": kernel: parameters: hugepages: 16`,
		Right: `nodes: "n1": kernel: parameters: {hugepages: 16, hugepagesz: "1G"}`,
		Node:  kernelHugepages,
	},
	{
		Code: "kernel-parameter", Severity: site.SeverityError,
		What:  "A kernel parameter is one word on the command line, and is not the root file system, which the installation sets.",
		Why:   "What follows a space is another parameter (Documentation/admin-guide/kernel-parameters.rst), false is not a value, and with another root the machine does not start.",
		Wrong: `nodes: "n1": kernel: parameters: quiet: false`,
		Right: `nodes: "n1": kernel: parameters: quiet: true`,
		Node:  kernelParameter,
	},
	{
		Code: "kernel-package", Severity: site.SeverityError,
		What: "The package of a node's kernel is not one that is to be absent.",
		Why:  "The two undo each other; once the kernel is removed, the machine does not start again.",
		Wrong: `nodes: "n1": {
	kernel: package: "linux-image-rt-amd64"
	system: packages: "linux-image-rt-amd64": state: "absent"
}`,
		Right: `nodes: "n1": {
	kernel: package: "linux-image-rt-amd64"
	system: packages: "linux-image-rt-amd64": {version: "6.1.90-1", state: "held"}
}`,
		Node: kernelPackage,
	},
}

func kernelReference(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Kernel.Parameters) {
		text, _ := n.Kernel.Parameters[name].(string)
		for _, ref := range placeholder.FindAllString(text, -1) {
			if message, fix := badReference(n, ref); message != "" {
				found = append(found, wrong("kernel.parameters."+name, message, fix))
			}
		}
	}
	return found
}

// badReference says why "{…}" refers to nothing.
func badReference(n *site.Node, ref string) (message, fix string) {
	path := strings.Trim(ref, "{}")
	if ref == "{"+path+"}" && isReference(n, path) {
		return "", ""
	}
	return ref + " stands for nothing" + DidYouMean(path, factsOf(n)),
		"Refer to hardware.cpuSets.NAME, hardware.hugepages.NAME.size or hardware.hugepages.NAME.count, with a NAME that the node has."
}

func isReference(n *site.Node, path string) bool {
	if strings.HasPrefix(path, "hardware.cpuSets.") {
		return states(n, path)
	}
	name, ok := strings.CutPrefix(path, "hardware.hugepages.")
	at := strings.LastIndexByte(name, '.')
	if !ok || at < 0 || name[at:] != ".size" && name[at:] != ".count" {
		return false
	}
	_, ok = n.Hardware.Hugepages[name[:at]]
	return ok
}

// factsOf lists what kernel parameters of a node can refer to.
func factsOf(n *site.Node) []string {
	var paths []string
	for _, name := range keys(n.Hardware.CPUSets) {
		paths = append(paths, "hardware.cpuSets."+name)
	}
	for _, name := range keys(n.Hardware.Hugepages) {
		paths = append(paths, "hardware.hugepages."+name+".size", "hardware.hugepages."+name+".count")
	}
	return paths
}

func kernelHugepages(_ *site.Site, n *site.Node) []site.Finding {
	has := func(name string) bool { return states(n, "kernel.parameters."+name) }
	switch {
	case has("hugepagesz") && !has("hugepages"):
		return []site.Finding{wrong("kernel.parameters.hugepagesz", "the kernel parameter hugepagesz is set, and hugepages is not", "Set hugepages to the number of pages.")}
	case has("hugepages") && !has("hugepagesz") && !has("default_hugepagesz"):
		return []site.Finding{wrong("kernel.parameters.hugepages", "the kernel parameter hugepages is set, and hugepagesz is not", "Set hugepagesz to the size of a page: "+kernelSizes(n)+".")}
	}
	var found []site.Finding
	for _, name := range []string{"default_hugepagesz", "hugepagesz"} {
		text, ok := n.Kernel.Parameters[name].(string)
		if ok && !strings.Contains(text, "{") && !isPageSize(n, text) {
			found = append(found, wrong("kernel.parameters."+name,
				fmt.Sprintf("the kernel parameter %s is %q, which is not a page size%s", name, text, on(n.Hardware.Architecture)), "Write "+kernelSizes(n)+"."))
		}
	}
	return found
}

// isPageSize reports whether a size in the kernel's notation, "1G", is that of
// a hugepage.
func isPageSize(n *site.Node, text string) bool {
	size, err := site.ParseSize(text + "iB")
	return err == nil && slices.Contains(hugepageSizes(n), size)
}

// kernelSizes returns the sizes of hugepages in the kernel's notation: "2M or
// 1G".
func kernelSizes(n *site.Node) string {
	return strings.ReplaceAll(or(hugepageSizes(n)), "iB", "")
}

// word matches a value that stays one word on the kernel's command line: it has
// blanks only between quotes.
var word = regexp.MustCompile(`^([^"\s]|"[^"\n]*")*$`)

func kernelParameter(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Kernel.Parameters) {
		path, value := "kernel.parameters."+name, n.Kernel.Parameters[name]
		text, isText := value.(string)
		switch {
		case name == "root":
			found = append(found, wrong(path, "the kernel parameter root is set, which the installation sets", "Remove it; storage says where / is."))
		case value == false:
			found = append(found, wrong(path, fmt.Sprintf("the kernel parameter %s is false", name),
				"Write what the parameter knows for it, such as 0 or \"off\", or remove it with @unset()."))
		case isText && !word.MatchString(text):
			found = append(found, wrong(path, fmt.Sprintf("the kernel parameter %s is not one word: %q", name, text), quoted(text)))
		}
	}
	return found
}

// quoted says how to write a value of several words.
func quoted(text string) string {
	if strings.ContainsAny(text, "\"\n") {
		return "Put what has blanks between double quotes, without a line break."
	}
	return fmt.Sprintf("Write %q.", `"`+text+`"`)
}

func kernelPackage(s *site.Site, n *site.Node) []site.Finding {
	name := n.Kernel.Package
	if name == "" {
		return nil
	}
	sections := map[string]site.System{"system": n.System}
	for _, family := range familiesOf(s, n) {
		sections["families."+family] = n.Families[family]
	}
	for _, section := range keys(sections) {
		if sections[section].Packages[name].State == "absent" {
			return []site.Finding{beside(n, "kernel.package", wrong(section+".packages."+name+".state",
				fmt.Sprintf("the package of the kernel, %s, is to be absent", name), "Remove the package here, or set another kernel.package."))}
		}
	}
	return nil
}

// familiesOf returns the families that apply to a node: that of its image, or
// all if it is not known.
func familiesOf(s *site.Site, n *site.Node) []string {
	if i := s.Images[n.Image]; i != nil && i.Family != "" {
		return []string{i.Family}
	}
	return keys(n.Families)
}
