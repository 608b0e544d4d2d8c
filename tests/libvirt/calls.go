package libvirt

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// logged is the line that libvirt logs when one of its API's functions is called.
var logged = regexp.MustCompile(`^\d{4}-\d\d-\d\d [0-9:.+]+: \d+: debug : vir([A-Z]\w+):\d+ : `)

// unasked are functions that libvirtd calls for each connection and each chunk of
// a stream.
var unasked = regexp.MustCompile(`^(Connect(Open|Close|Register|Unregister|Set)\w*|StateInitialize|Stream\w+|Register\w+|Set\w+)$`)

// reads are functions that change nothing that a person would miss. Whatever is
// not among them counts as a write.
var reads = regexp.MustCompile(`^(Connect|Node|Domain|Network|StoragePool|StorageVol|Secret|NWFilter|Interface)\w*?(Get|List|Lookup|NumOf|Is[A-Z]|Has|Stats|Info|Event|Supports|Baseline|Compare|Download|OpenConsole|ScreenShot|MemoryPeek|BlockPeek|StoragePoolRefresh|Refresh|Refs?$|Free$)`)

// Calls are the functions of libvirt's API that were called so far, in order and
// without their prefix: DomainDefineXMLFlags, StorageVolCreateXML. Those that
// failed are among them.
func (h *Hypervisor) Calls() []string {
	h.t.Helper()
	var calls []string
	for _, line := range h.log() {
		if m := logged.FindStringSubmatch(line); m != nil && !unasked.MatchString(m[1]) {
			calls = append(calls, m[1])
		}
	}
	return calls
}

// Writes are the calls that change something.
func (h *Hypervisor) Writes() []string {
	h.t.Helper()
	var writes []string
	for _, c := range h.Calls() {
		if !reads.MatchString(c) {
			writes = append(writes, c)
		}
	}
	return writes
}

// errors are the last lines that libvirt logged as errors.
func (h *Hypervisor) errors() string {
	var last []string
	for _, line := range h.log() {
		if strings.Contains(line, ": error : ") {
			last = append(last, line)
		}
	}
	return strings.Join(last[max(0, len(last)-20):], "\n")
}

func (h *Hypervisor) log() (lines []string) {
	f, err := os.Open(filepath.Join(h.Folder, "var/log/libvirt/libvirtd.log"))
	if err != nil {
		return nil
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	if err := s.Err(); err != nil {
		h.t.Error(err)
	}
	return lines
}
