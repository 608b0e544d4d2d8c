package lab_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/redfish"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// needs leaves a test out where a program is missing, and not under CI.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed: run make setup", p)
		}
		t.Skipf("%s is not installed: run make setup", p)
	}
}

// medium makes a medium from which UEFI and BIOS firmware boot what testdata/medium tells of.
func medium(t *testing.T) []byte {
	t.Helper()
	at := t.TempDir()
	if out, err := exec.Command("testdata/medium/build.sh", at).CombinedOutput(); err != nil {
		t.Fatalf("build the medium: %v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(at, "uefi.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "efi.img"), fat(portable(program)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("xorriso", "-as", "mkisofs", "-quiet", "-V", "LAB", "-o", "medium.iso", "-b", "bios.img", "-no-emul-boot", "-boot-load-size", "4",
		"-eltorito-alt-boot", "-e", "efi.img", "-no-emul-boot", "bios.img", "efi.img")
	cmd.Dir = at
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make the medium: %v\n%s", err, out)
	}
	iso, err := os.ReadFile(filepath.Join(at, "medium.iso"))
	if err != nil {
		t.Fatal(err)
	}
	return iso
}

// portable is a program for UEFI firmware, of code that runs anywhere and begins with its first
// byte (Microsoft, "PE Format").
func portable(code []byte) []byte {
	const headers = 0x1000
	code = append(code, make([]byte, -len(code)&0xfff)...)
	b := make([]byte, headers, headers+len(code))
	le := binary.LittleEndian
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], 0x40)
	copy(b[0x40:], "PE\x00\x00")
	coff, opt := b[0x44:], b[0x58:]
	le.PutUint16(coff, 0x8664)   // x86-64
	le.PutUint16(coff[2:], 1)    // sections
	le.PutUint16(coff[16:], 240) // bytes of the optional header
	le.PutUint16(coff[18:], 0x22)
	le.PutUint16(opt, 0x20b) // PE32+
	le.PutUint32(opt[4:], uint32(len(code)))
	le.PutUint32(opt[16:], headers) // where it begins
	le.PutUint32(opt[20:], headers)
	le.PutUint32(opt[32:], 0x1000) // alignments
	le.PutUint32(opt[36:], 0x1000)
	le.PutUint32(opt[56:], uint32(headers+len(code)))
	le.PutUint32(opt[60:], headers)
	le.PutUint16(opt[68:], 10) // an application of EFI
	le.PutUint32(opt[108:], 16)
	s := opt[240:]
	copy(s, ".text")
	for _, at := range []int{8, 16} {
		le.PutUint32(s[at:], uint32(len(code)))
	}
	for _, at := range []int{12, 20} {
		le.PutUint32(s[at:], headers)
	}
	le.PutUint32(s[36:], 0xe0000020) // code that can be read and written
	return append(b, code...)
}

// fat is a file system of FAT12, with the shape of a floppy disk, from which firmware boots a
// program (Microsoft, "FAT: General Overview of On-Disk Format").
func fat(program []byte) []byte {
	const sector, sectors, table, roots, first = 512, 2880, 9, 224, 1 + 2*9 + 14
	b := make([]byte, sectors*sector)
	le := binary.LittleEndian
	copy(b, "\xeb\x3c\x90LAB     ")
	le.PutUint16(b[11:], sector)
	b[13], b[14], b[16], b[21] = 1, 1, 2, 0xf0
	le.PutUint16(b[17:], roots)
	le.PutUint16(b[19:], sectors)
	le.PutUint16(b[22:], table)
	b[24], b[26], b[38] = 18, 2, 0x29
	copy(b[43:], "LAB        FAT12   ")
	b[510], b[511] = 0x55, 0xaa
	link := func(cluster, to int) {
		for n := range 2 {
			at := b[(1+n*table)*sector+cluster*3/2:]
			if cluster%2 == 0 {
				at[0], at[1] = byte(to), at[1]&0xf0|byte(to>>8)
			} else {
				at[0], at[1] = at[0]&0x0f|byte(to<<4), byte(to>>4)
			}
		}
	}
	at := func(cluster int) []byte { return b[(first+cluster-2)*sector:] }
	entry := func(in []byte, n int, name string, folder bool, cluster, size int) {
		e := in[n*32:]
		copy(e, name)
		e[11] = 0x20
		if folder {
			e[11] = 0x10
		}
		le.PutUint16(e[24:], 0x21)
		le.PutUint16(e[26:], uint16(cluster))
		le.PutUint32(e[28:], uint32(size))
	}
	link(0, 0xff0)
	link(1, 0xfff)
	entry(b[(1+2*table)*sector:], 0, "EFI        ", true, 2, 0)
	for n, inside := range []struct {
		up, to int
		name   string
		folder bool
		size   int
	}{{0, 3, "BOOT       ", true, 0}, {2, 4, "BOOTX64 EFI", false, len(program)}} {
		folder := at(2 + n)
		link(2+n, 0xfff)
		entry(folder, 0, ".          ", true, 2+n, 0)
		entry(folder, 1, "..         ", true, inside.up, 0)
		entry(folder, 2, inside.name, inside.folder, inside.to, inside.size)
	}
	copy(at(4), program)
	count := (len(program) + sector - 1) / sector
	for n := range count {
		link(4+n, map[bool]int{true: 0xfff, false: 5 + n}[n == count-1])
	}
	return b
}

// served is a server of one medium, which is a small one with very many zeros behind it.
type served struct {
	url string

	mu    sync.Mutex
	bytes int64 // that were sent
	whole int   // requests for all of it
}

// mediumSize is far more than is ever read.
const mediumSize = 1 << 30

func serveMedium(t *testing.T, begins []byte) *served {
	s := &served{}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &counting{ResponseWriter: w}
		http.ServeContent(counted, r, "medium.iso", time.Time{}, io.NewSectionReader(padded(begins), 0, mediumSize))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bytes += counted.bytes
		if r.Method == http.MethodGet && r.Header.Get("Range") == "" {
			s.whole++
		}
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/medium.iso?token=once"
	return s
}

// padded has zeros behind its bytes.
type padded []byte

func (p padded) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(p)) {
		copy(b, p[at:])
	}
	return len(b), nil
}

type counting struct {
	http.ResponseWriter
	bytes int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// bench is one real machine, and Slipway's driver of its BMC.
type bench struct {
	t    *testing.T
	ctx  context.Context
	m    *lab.Machine
	bmc  *bmc // without a driver
	open driver.Machine
	path string // of the system
	node *site.Node
	seen int64 // how far the console was looked at
}

// slow is how long the driver waits for an emulated machine.
var slow = redfish.Options{Grace: time.Minute, Settle: time.Minute, Poll: 20 * time.Millisecond}

func newBench(t *testing.T, change func(*lab.MachineConfig)) *bench {
	needs(t, "qemu-system-x86_64", "xorriso", "gcc", "ld")
	c := one(lab.Latency{}, change)
	c.LaxMedia, c.Folder = false, t.TempDir()
	f := start(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	b := &bench{t: t, ctx: ctx, m: f.Machine("n1"), bmc: dial(t, f), node: &site.Node{
		Name: "n1", Identity: c.Machines[0].Identity,
		Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: f.BMCURL("n1"), Trust: site.Trust{CA: string(f.CA())}}},
	}}
	base := fmt.Sprintf("https://%s:%d", c.Machines[0].BMCAddr, f.BMCPort())
	b.path, b.bmc.base = strings.TrimPrefix(f.BMCURL("n1"), "redfish+"+base), base
	var err error
	if b.open, err = redfish.New(slow).Open(ctx, b.node.Endpoints[site.Manager], secret.New("admin", "pw")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.open.Close()
		if t.Failed() {
			text, err := b.m.Console()
			t.Logf("the console (%v):\n%s", err, text)
		}
	})
	return b
}

// apply takes a step by Slipway's driver.
func (b *bench) apply(a site.Action, image string) {
	b.t.Helper()
	s := site.Step{Node: "n1", Machine: b.node.Identity, Facet: site.FacetPower, Action: a, Generation: 1}
	if image != "" {
		s.Image = &site.Image{URL: image}
	}
	if err := b.open.Apply(b.ctx, s, b.node, drivertest.Permitted); err != nil {
		b.t.Fatalf("%s: %v", a, err)
	}
}

// reset asks for a reset, without a driver.
func (b *bench) reset(kind string) {
	b.t.Helper()
	b.bmc.want(204, "POST", b.path+"/Actions/ComputerSystem.Reset", fmt.Sprintf(`{"ResetType": %q}`, kind))
}

// says waits for a line of the console that was not looked at yet.
func (b *bench) says(line string) {
	b.t.Helper()
	began := time.Now()
	var err error
	if b.seen, err = b.m.AwaitConsole(b.ctx, line, b.seen); err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("%q after %s", line, time.Since(began).Round(10*time.Millisecond))
}

// is waits until Redfish tells of a power state, and holds the process to it: it is there or it is
// gone.
func (b *bench) is(power string) {
	b.t.Helper()
	eventually(b.t, "the power is "+power, func() bool { return b.bmc.want(200, "GET", b.path, "")["PowerState"] == power })
	if pid := b.m.PID(); (pid != 0) != (power == "On") {
		b.t.Errorf("the power is %s, and the process has the number %d", power, pid)
	}
	c, err := net.Dial("unix", b.monitor())
	if (err == nil) != (power == "On") {
		b.t.Errorf("the power is %s; QEMU's monitor: %v", power, err)
	}
	if err == nil {
		c.Close() // it answers one at a time
	}
}

func (b *bench) monitor() string { return filepath.Join(b.m.Folder(), lab.MonitorFile) }

// asks asks QEMU itself, not by way of the lab.
func (b *bench) asks(command string, into any) {
	b.t.Helper()
	c, err := net.Dial("unix", b.monitor())
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, `{"execute": "qmp_capabilities"} {"execute": %q, "id": "asked"}`, command); err != nil {
		b.t.Fatal(err)
	}
	for lines := bufio.NewScanner(c); lines.Scan(); {
		var said struct {
			ID     string          `json:"id"`
			Return json.RawMessage `json:"return"`
		}
		if err := json.Unmarshal(lines.Bytes(), &said); err != nil {
			b.t.Fatal(err)
		}
		if said.ID == "asked" {
			if err := json.Unmarshal(said.Return, into); err != nil {
				b.t.Fatal(err)
			}
			return
		}
	}
	b.t.Fatalf("QEMU does not answer %s", command)
}

// inserted is the file in the CD drive, as QEMU has it.
func (b *bench) inserted() string {
	b.t.Helper()
	var drives []struct {
		QDev     string `json:"qdev"`
		Inserted struct {
			File string `json:"file"`
			RO   bool   `json:"ro"`
		} `json:"inserted"`
	}
	b.asks("query-block", &drives)
	for _, d := range drives {
		if d.QDev == "cd" {
			if d.Inserted.File != "" && !d.Inserted.RO {
				b.t.Errorf("the medium can be written")
			}
			return d.Inserted.File
		}
	}
	b.t.Fatalf("QEMU has no CD drive: %+v", drives)
	return ""
}

// drive is the beginning of the machine's first drive, read from the file.
func (b *bench) drive(n int) []byte {
	b.t.Helper()
	f, err := os.Open(b.m.DriveFile(1))
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, n)
	if _, err := io.ReadFull(f, got); err != nil {
		b.t.Fatal(err)
	}
	return got
}

// A blank machine is installed from virtual media by Slipway's driver, runs what was installed,
// begins anew by itself, shuts down when asked, and has its power cut: with UEFI firmware.
func TestRealMachine(t *testing.T) {
	needs(t, "swtpm")
	b := newBench(t, func(c *lab.MachineConfig) {
		c.Personality, c.Model, c.MemoryGiB, c.Processors, c.Parts.MACs = "plain", "Emulated", 1, 1, []string{"02:00:5e:00:53:01"}
		c.Real = &lab.Real{TPM: true, Drives: []lab.RealDrive{{Serial: "REAL-NVME", MiB: 64}, {Bus: "sata", Serial: "REAL-SATA", MiB: 32}}}
	})
	made := medium(t)
	image := serveMedium(t, made)
	b.is("Off")
	b.apply(site.ActionInstall, image.url)
	b.says("MEDIUM RUNS")
	b.says("INSTALLED")
	b.is("Off") // the system has switched it off
	if got := b.drive(len(fat(nil))); !bytes.Contains(made, got) {
		t.Error("the drive has not what is on the medium")
	}
	image.mu.Lock()
	if image.whole != 0 || image.bytes > 16<<20 {
		t.Errorf("of the medium's %d bytes %d were read, and all of it %d times", mediumSize, image.bytes, image.whole)
	}
	image.mu.Unlock()

	b.apply(site.ActionFinishInstall, "")
	if in := b.inserted(); in != "" {
		t.Errorf("%s is in the drive", in)
	}
	b.says("DISK RUNS BY ENTRY") // that the medium's program made
	b.says("BEGINS ANEW")
	b.says("DISK RUNS BY ENTRY")
	b.is("On")
	b.isWhatItSays(t)
	b.apply(site.ActionPowerOff, "")
	b.says("BUTTON")
	b.is("Off")

	b.apply(site.ActionPowerOn, "")
	b.is("On")
	if err := syscall.Kill(b.m.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.is("Off")
	b.apply(site.ActionPowerOn, "")
	b.is("On")
	pid := b.m.PID()
	b.m.SetPower("off")
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the power was cut, and the process %d: %v", pid, err)
	}
	b.is("Off")
	if c := b.m.Counts(); c.Boots != 5 {
		t.Errorf("it booted %d times, want 5", c.Boots)
	}
}

// isWhatItSays holds what the BMC tells of a machine to what QEMU has.
func (b *bench) isWhatItSays(t *testing.T) {
	t.Helper()
	i, err := b.open.(driver.Inspector).Inspect(b.ctx, b.node)
	if err != nil {
		t.Fatal(err)
	}
	drives := map[string]int64{}
	for _, d := range i.Drives {
		drives[d.Serial+" "+d.Protocol] = d.Bytes
	}
	if len(drives) != 2 || drives["REAL-NVME NVMe"] != 64<<20 || drives["REAL-SATA SATA"] != 32<<20 {
		t.Errorf("it has the drives %+v", i.Drives)
	}
	if len(i.NICs) != 1 || len(i.NICs[0].Ports) != 1 || i.NICs[0].Ports[0].MACs[0] != "02:00:5e:00:53:01" {
		t.Errorf("it has the ports %+v", i.NICs)
	}
	var id struct{ UUID string }
	b.asks("query-uuid", &id)
	if id.UUID != b.node.Identity.UUID {
		t.Errorf("QEMU has the UUID %s", id.UUID)
	}
	var memory struct {
		Base int64 `json:"base-memory"`
	}
	b.asks("query-memory-size-summary", &memory)
	if memory.Base != 1<<30 || i.MemoryGiB != 1 {
		t.Errorf("QEMU has %d bytes of memory, and the BMC tells of %v GiB", memory.Base, i.MemoryGiB)
	}
	var tpms []struct{ Model string }
	b.asks("query-tpm", &tpms)
	if len(tpms) != 1 || tpms[0].Model != "tpm-crb" {
		t.Errorf("QEMU has the TPMs %+v", tpms)
	}
}

// The same with BIOS firmware, and another vendor's BMC. Media come and go while it runs.
func TestRealMachineWithBIOS(t *testing.T) {
	b := newBench(t, func(c *lab.MachineConfig) {
		c.Personality, c.MemoryGiB, c.Processors = "idrac9", 1, 1
		c.Real = &lab.Real{Firmware: "bios", Drives: []lab.RealDrive{{Bus: "sata", MiB: 1}}}
	})
	made := medium(t)
	image := serveMedium(t, made)
	b.apply(site.ActionInstall, image.url)
	b.says("MEDIUM RUNS")
	b.says("INSTALLED")
	b.is("Off")
	if got := b.drive(512); !bytes.Contains(made, got) {
		t.Error("the drive has not what is on the medium")
	}
	b.apply(site.ActionFinishInstall, "")
	b.says("DISK RUNS")
	if in := b.inserted(); in != "" {
		t.Errorf("%s is in the drive", in)
	}
	const slot = "/redfish/v1/Systems/System.Embedded.1/VirtualMedia/1"
	b.bmc.want(204, "POST", slot+"/Actions/VirtualMedia.InsertMedia", fmt.Sprintf(`{"Image": %q}`, image.url))
	if s := b.bmc.want(200, "GET", slot, ""); s["Inserted"] != true || s["ConnectedVia"] != "URI" || s["Image"] != image.url || !strings.HasPrefix(b.inserted(), "nbd") {
		t.Errorf("the slot is %v, and QEMU has %q", s, b.inserted())
	}
	b.bmc.want(204, "POST", slot+"/Actions/VirtualMedia.EjectMedia", "{}")
	if s := b.bmc.want(200, "GET", slot, ""); s["Inserted"] != false || s["ConnectedVia"] != "NotConnected" || b.inserted() != "" {
		t.Errorf("the slot is %v, and QEMU has %q", s, b.inserted())
	}
	b.reset("GracefulRestart")
	b.says("BUTTON")
	b.says("DISK RUNS")
	b.m.SetFault(lab.Fault{Kind: lab.FaultNoShutdown})
	b.reset("GracefulShutdown")
	b.m.ClearFault()
	b.is("On")
	pid := b.m.PID()
	b.reset("ForceRestart") // which does not ask the system
	b.says("DISK RUNS")
	b.is("On")
	if b.m.PID() == pid {
		t.Error("it goes on as if nothing had happened")
	}
	b.apply(site.ActionPowerOff, "")
	b.says("BUTTON")
	b.is("Off")
	text, err := b.m.Console()
	if err != nil || strings.Count(text, "RUNS") != 4 || strings.Count(text, "BUTTON") != 2 {
		t.Errorf("want four runs, of which two end by the power button (%v):\n%s", err, text)
	}
}

// A machine that is to boot from the network once asks there, over the tap interface that its port is
// plugged into. All of it is in a network of this test.
func TestRealMachineBootsFromTheNetwork(t *testing.T) {
	const inside = "SLIPWAY_TEST_NETWORK"
	if os.Getenv(inside) == "" {
		needs(t, "ip")
		if os.Geteuid() != 0 {
			if os.Getenv("CI") != "" {
				t.Fatal("only root may have networks")
			}
			t.Skip("only root may have networks")
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for _, words := range []string{"link set lo up", "tuntap add dev lab0 mode tap", "link set lab0 up"} {
		if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", words, err, out)
		}
	}
	const mac = "02:00:5e:00:53:07"
	b := newBench(t, func(c *lab.MachineConfig) {
		c.MemoryGiB, c.Processors, c.Parts.MACs = 1, 1, []string{mac}
		c.Real = &lab.Real{Firmware: "bios", Drives: []lab.RealDrive{{Bus: "virtio", MiB: 1}}, Taps: []string{"lab0"}}
	})
	frames := listenTo(t, "lab0")
	if err := b.open.(driver.Booter).BootOnce(b.ctx, b.node.Identity, "Pxe"); err != nil {
		t.Fatal(err)
	}
	b.apply(site.ActionPowerOn, "")
	from, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	for frame, end := make([]byte, 2048), time.Now().Add(time.Minute); ; {
		n, _, err := syscall.Recvfrom(frames, frame, 0)
		if err == syscall.EINTR && time.Now().Before(end) {
			continue // the kernel does not repeat a call with a timeout after a signal: signal(7)
		}
		if err != nil {
			t.Fatalf("it asks nobody: %v", err)
		}
		// IPv4 without options, UDP, to the port of DHCP servers (RFC 791, 768, 2131).
		if f := frame[:n]; n > 300 && bytes.Equal(f[6:12], from) && bytes.Equal(f[12:15], []byte{8, 0, 0x45}) && f[23] == 17 && f[36] == 0 && f[37] == 67 {
			if !bytes.Contains(f, []byte("PXEClient:Arch:00000")) {
				t.Errorf("it asks as no BIOS: %q", f[42:])
			}
			break
		}
	}
	b.is("On")
	if boot := b.bmc.want(200, "GET", b.path, "")["Boot"].(map[string]any); boot["BootSourceOverrideEnabled"] != "Disabled" {
		t.Errorf("the override is %v", boot)
	}
}

// listenTo is a socket with all frames of an interface.
func listenTo(t *testing.T, name string) int {
	t.Helper()
	in, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	const all = syscall.ETH_P_ALL<<8&0xff00 | syscall.ETH_P_ALL>>8 // in the order of the network
	s, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(s) })
	err = syscall.Bind(s, &syscall.SockaddrLinklayer{Protocol: all, Ifindex: in.Index})
	if err == nil {
		err = syscall.SetsockoptTimeval(s, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 60})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is wrong with the computer of a real machine is said before anything runs.
func TestRealMachinesThatCannotBe(t *testing.T) {
	for says, change := range map[string]func(*lab.MachineConfig){
		"a BMC of its own that is no capture":           func(c *lab.MachineConfig) { c.Capture = "x.json" },
		"it has no marker, inside and failedUnits":      func(c *lab.MachineConfig) { c.FailedUnits = []string{"x"} },
		`uefi or bios, not "coreboot"`:                  func(c *lab.MachineConfig) { c.Real.Firmware = "coreboot" },
		`the address "fe80::1"`:                         func(c *lab.MachineConfig) { c.Real.Address = "fe80::1" },
		`the name "a,b"`:                                func(c *lab.MachineConfig) { c.Name = "a,b" },
		"without commas":                                func(c *lab.MachineConfig) { c.Manufacturer = "Lab, Inc." },
		`nvme, sata or virtio, not "floppy"`:            func(c *lab.MachineConfig) { c.Real.Drives = []lab.RealDrive{{Bus: "floppy"}} },
		"MiB, not -1":                                   func(c *lab.MachineConfig) { c.Real.Drives = []lab.RealDrive{{MiB: -1}} },
		`the serial number "A B"`:                       func(c *lab.MachineConfig) { c.Real.Drives = []lab.RealDrive{{Serial: "A B"}} },
		"6 drives are on SATA":                          func(c *lab.MachineConfig) { c.Real.Drives = slices.Repeat([]lab.RealDrive{{Bus: "sata"}}, 6) },
		`"a-name-that-is-too-long" is no name of a tap`: func(c *lab.MachineConfig) { c.Real.Taps = []string{"a-name-that-is-too-long"} },
	} {
		c := one(lab.Latency{}, func(c *lab.MachineConfig) { c.Real = &lab.Real{} }, change)
		if f, err := lab.New(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
			if err == nil {
				f.Close()
			}
		}
	}
}

// What is on drives stays from one fleet to the next, and only a drive as it is configured is used.
func TestDrivesStay(t *testing.T) {
	needs(t, "qemu-system-x86_64")
	c := one(lab.Latency{}, func(c *lab.MachineConfig) { c.Real = &lab.Real{Drives: []lab.RealDrive{{MiB: 1}}} })
	c.Folder = t.TempDir()
	f, err := lab.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m := f.Machine("n1")
	if err := os.WriteFile(m.DriveFile(1), append([]byte("precious"), make([]byte, 1<<20-8)...), 0o600); err != nil {
		t.Fatal(err)
	}
	memory := filepath.Join(m.Folder(), "variables")
	if err := os.WriteFile(memory, []byte("entries"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m = build(t, c).Machine("n1")
	for file, want := range map[string]string{m.DriveFile(1): "precious", memory: "entries"} {
		if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s has %.20q, %v", file, text, err)
		}
	}
	c.Machines[0].Real.Drives[0].MiB = 2
	if f, err := lab.New(c); err == nil || !strings.Contains(err.Error(), "is there with 1048576 bytes, and is to have 2097152") {
		t.Errorf("got %v", err)
		if err == nil {
			f.Close()
		}
	}
	if _, err := m.Console(); err != nil || m.PID() != 0 || m.Power() != "Off" {
		t.Errorf("a machine that is off: %v, process %d, %s", err, m.PID(), m.Power())
	}
}

// A simulated machine has no console.
func TestOnlyRealMachinesHaveConsoles(t *testing.T) {
	m := build(t, one(lab.Latency{}, isOn)).Machine("n1")
	if _, err := m.Console(); err == nil || !strings.Contains(err.Error(), `machine "n1" is simulated`) {
		t.Errorf("got %v", err)
	}
	if _, err := m.AwaitConsole(t.Context(), "x", 0); err == nil || m.Folder() != "" || m.PID() != 0 {
		t.Errorf("got %v, %q, %d", err, m.Folder(), m.PID())
	}
}
