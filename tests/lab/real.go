package lab

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/tests/qemu"
)

// Real is an emulated computer in the place of a simulated one: a process of QEMU that runs while
// the machine is on. The BMC tells of the power, drives and network ports of this computer. Power
// supplies, fans, sensors, firmware versions and firmware settings are those of the personality.
// Booting and installing take as long as the computer needs; of Latency only PowerOn and PowerOff
// are added, before it starts and after it ends.
type Real struct {
	// Firmware is "uefi" (OVMF) or "bios" (SeaBIOS); uefi by default.
	Firmware string `json:"firmware,omitempty"`
	// Drives are its drives; by default it has one, of NVMe.
	Drives []RealDrive `json:"drives,omitempty"`
	// Taps are the tap interfaces of the host that its ports are plugged into, in the order of
	// the ports. A port without one is on a network of its own, in which DHCP gives 10.0.2.15
	// and 10.0.2.2 is the host's loopback; what the host reaches can be reached from there.
	Taps []string `json:"taps,omitempty"`
	// Address is the computer's address in the network of its first port, if that has no tap:
	// connections to OSAddr are forwarded to its SSH there. 10.0.2.15 by default.
	Address string `json:"address,omitempty"`
	// TPM gives it a TPM 2.0, which swtpm plays.
	TPM bool `json:"tpm,omitempty"`
}

// RealDrive is a drive of a real machine. Its content is a sparse file, byte by byte, which other
// tools can read: driveN in the machine's folder.
type RealDrive struct {
	// Bus is "nvme", "sata" or "virtio"; nvme by default.
	Bus string `json:"bus,omitempty"`
	// MiB is the drive's size, 8192 by default.
	MiB int64 `json:"mib,omitempty"`
	// Serial is its serial number, one that the seed makes by default.
	Serial string `json:"serial,omitempty"`
}

// MakeReal turns simulated machines into emulated computers with one processor and at most 2 GiB of
// memory. They are off at first. On their drives is what the fleet's folder has.
func (c *Config) MakeReal(names ...string) error {
	for _, name := range names {
		i := slices.IndexFunc(c.Machines, func(m MachineConfig) bool { return m.Name == name })
		if i < 0 {
			return fmt.Errorf("there is no machine %q to be real", name)
		}
		m := &c.Machines[i]
		m.Power = "off"
		if m.Real != nil {
			continue
		}
		m.Real, m.Processors, m.MemoryGiB = &Real{}, 1, min(cmp.Or(m.MemoryGiB, 2), 2)
		m.Blank, m.Marker, m.Inside, m.FailedUnits = true, nil, nil, nil
		if m.Identity.MAC != "" && len(m.Parts.MACs) == 0 {
			m.Parts.MACs = []string{m.Identity.MAC}
		}
		if err := m.Real.check(*m); err != nil {
			return fmt.Errorf("machine %q: %w", name, err)
		}
	}
	return nil
}

// The files that QEMU's firmware is in.
const (
	ovmfCode      = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVariables = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// guestAddress is what QEMU's own network gives to the computer in it.
const guestAddress = "10.0.2.15"

// bios says whether the firmware is SeaBIOS.
func (r *Real) bios() bool { return r != nil && r.Firmware == "bios" }

// check says what is wrong with the computer of a machine.
func (r *Real) check(c MachineConfig) error {
	if r == nil {
		return nil
	}
	switch {
	case c.Capture != "" || c.Behind != "":
		return errors.New("a real machine has a BMC of its own that is no capture")
	case c.Marker != nil || c.Inside != nil || c.FailedUnits != nil:
		return errors.New("nothing is set in the system of a real machine but by who installs it: it has no marker, inside and failedUnits")
	case r.Firmware != "" && r.Firmware != "uefi" && r.Firmware != "bios":
		return fmt.Errorf("the firmware of a real machine is uefi or bios, not %q", r.Firmware)
	case r.Address != "" && net.ParseIP(r.Address).To4() == nil:
		return fmt.Errorf("the address %q of a real machine is none of IPv4", r.Address)
	case strings.ContainsAny(c.Name, "/,="):
		return fmt.Errorf("the name %q of a real machine has one of / , =", c.Name)
	case strings.Contains(c.Identity.Serial+c.Manufacturer+c.Model, ","):
		return errors.New("serial number, manufacturer and model of a real machine are without commas")
	}
	sata := 0
	for _, d := range r.Drives {
		switch {
		case d.Bus != "" && d.Bus != busNVMe && d.Bus != busSATA && d.Bus != busVirtio:
			return fmt.Errorf("the bus of a drive is nvme, sata or virtio, not %q", d.Bus)
		case d.MiB < 0 || d.MiB > 1<<24:
			return fmt.Errorf("a drive has up to %d MiB, not %d", 1<<24, d.MiB)
		case len(d.Serial) > 20 || strings.ContainsAny(d.Serial, ", \t"):
			return fmt.Errorf("the serial number %q of a drive is longer than 20 letters, or has commas or spaces", d.Serial)
		}
		if d.Bus == busSATA {
			sata++
		}
	}
	if sata > 5 {
		return fmt.Errorf("%d drives are on SATA, which has room for 5 beside the CD drive", sata)
	}
	for _, tap := range r.Taps {
		if len(tap) > 15 || strings.ContainsAny(tap, "/, ") {
			return fmt.Errorf("%q is no name of a tap interface", tap)
		}
	}
	return nil
}

// The buses that drives are on.
const (
	busNVMe   = "nvme"
	busSATA   = "sata"
	busVirtio = "virtio"
)

// reality is what a fleet has for its real machines.
type reality struct {
	folder  string // of their drives
	sockets string // a folder whose name is short enough for addresses of sockets
	// passing are folders that go with the fleet.
	passing []string
}

// prepare makes the folders of real machines, where there are such.
func (r *reality) prepare(c Config) error {
	if !slices.ContainsFunc(c.Machines, func(m MachineConfig) bool { return m.Real != nil }) {
		return nil
	}
	if _, err := exec.LookPath(qemu.Program); err != nil {
		return fmt.Errorf("real machines are run by QEMU: install qemu-system-x86 and ovmf, and swtpm for those with a TPM: %w", err)
	}
	temporary := func() (string, error) {
		at, err := os.MkdirTemp("", "slipway-lab-")
		r.passing = append(r.passing, at)
		return at, err
	}
	var err error
	if r.sockets, err = temporary(); err != nil {
		return err
	}
	if c.Folder == "" {
		r.folder, err = temporary()
		return err
	}
	if r.folder, err = filepath.Abs(c.Folder); err != nil {
		return err
	}
	return os.MkdirAll(r.folder, 0o755)
}

// end removes what goes with the fleet.
func (r *reality) end() error {
	var errs []error
	for _, at := range r.passing {
		errs = append(errs, os.RemoveAll(at))
	}
	return errors.Join(errs...)
}

// computer is the hardware of a real machine. Its machine's lock guards it.
type computer struct {
	*Real
	folder  string
	media   *qemu.Media
	console *console
	shown   string        // the medium in the drive, by its URL
	process *qemu.Process // nil while it is off
	// again has the computer begin anew when its system has shut down.
	again bool
	ssh   string // where its SSH is reached, empty for nowhere
}

// newComputer builds the computer of a machine. Drives and variables of the firmware that are in
// its folder are used again; others are made, empty.
func newComputer(f *Fleet, c MachineConfig) (*computer, error) {
	h := &computer{Real: c.Real, folder: filepath.Join(f.reality.folder, c.Name)}
	if err := os.MkdirAll(h.folder, 0o755); err != nil {
		return nil, err
	}
	for i, d := range h.drives() {
		file, err := os.OpenFile(h.drivePath(i+1), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		info, err := file.Stat()
		if size := d.bytes(); err == nil && info.Size() == 0 {
			err = file.Truncate(size)
		} else if err == nil && info.Size() != size {
			err = fmt.Errorf("drive %s is there with %d bytes, and is to have %d: remove it, or change its size in the fleet", file.Name(), info.Size(), size)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
	}
	if !h.bios() {
		if err := h.makeVariables(); err != nil {
			return nil, err
		}
	}
	if h.TPM {
		if _, err := exec.LookPath("swtpm"); err != nil {
			return nil, fmt.Errorf("a TPM is played by swtpm: install it: %w", err)
		}
	}
	var err error
	if h.console, err = openConsole(filepath.Join(h.folder, "console")); err != nil {
		return nil, err
	}
	if h.media, err = qemu.Serve(filepath.Join(f.reality.sockets, c.Name)); err != nil {
		h.console.Close()
		return nil, err
	}
	return h, nil
}

// makeVariables makes the memory in which firmware and systems keep variables such as boot entries,
// unless there is one.
func (h *computer) makeVariables() error {
	at := filepath.Join(h.folder, variablesFile)
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	empty, err := os.ReadFile(ovmfVariables)
	if err != nil {
		return fmt.Errorf("UEFI firmware is OVMF: install ovmf: %w", err)
	}
	return os.WriteFile(at, empty, 0o644)
}

// variablesFile has the variables of UEFI firmware.
const variablesFile = "variables"

// MonitorFile is a socket in the folder of a real machine, at which QEMU's monitor speaks QMP while
// the machine is on, with one client at a time. It is for people and tests: the lab has its own.
const MonitorFile = "monitor"

func (h *computer) close() error { return errors.Join(h.media.Close(), h.console.Close()) }

// drives are the computer's drives, as they are configured.
func (h *computer) drives() []RealDrive { return h.Real.drives() }

func (r *Real) drives() []RealDrive {
	all := slices.Clone(r.Drives)
	if len(all) == 0 {
		all = []RealDrive{{}}
	}
	for i := range all {
		all[i].Bus = cmp.Or(all[i].Bus, busNVMe)
		all[i].MiB = cmp.Or(all[i].MiB, 8192)
	}
	return all
}

func (d RealDrive) bytes() int64 { return d.MiB << 20 }

// drivePath is the file of the nth drive, from 1.
func (h *computer) drivePath(n int) string {
	return filepath.Join(h.folder, fmt.Sprintf("drive%d", n))
}

// firmwareTries is what the firmware tries to boot from, in this order.
type firmwareTries struct {
	targets []string // boot targets
	medium  string   // in the CD drive, by its URL
}

// arguments describe the computer to QEMU.
func (m *Machine) arguments(t firmwareTries) ([]string, error) {
	h, c := m.computer, m.config
	args := []string{"-machine", "q35,accel=tcg,graphics=off", "-cpu", "max", "-smp", fmt.Sprintf("%d,sockets=1", max(1, c.Processors)), "-m", fmt.Sprintf("%dG", m.memoryGiB()),
		"-name", c.Name, "-rtc", "base=utc", "-device", "virtio-rng-pci", "-no-reboot", "-boot", "strict=on",
		"-qmp", "unix:" + MonitorFile + ",server=on,wait=off"}
	if c.Identity.UUID != "" {
		args = append(args, "-uuid", c.Identity.UUID)
	}
	says := fmt.Sprintf("manufacturer=%s,product=%s,serial=%s", m.manufacturer(), m.model(), c.Identity.Serial)
	args = append(args, "-smbios", "type=1,"+says+",family=Lab", "-smbios", "type=3,manufacturer="+m.manufacturer()+",serial="+c.Identity.Serial)
	if !h.bios() {
		args = append(args, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+ovmfCode, "-drive", "if=pflash,format=raw,unit=1,file="+variablesFile)
	}
	place := t.places(len(h.drives()), len(m.macs()), !h.bios())
	args = append(args, "-device", "ide-cd,id="+cdDrive+",bus=ide.0"+place("Cd", 0))
	sata := 0
	for i, d := range h.drives() {
		id := fmt.Sprintf("drive%d", i+1)
		// A write is in the host's memory at once, and survives the end of the process. Only the
		// host's own power needs more than that, so QEMU does not wait for the host's disks.
		args = append(args, "-drive", fmt.Sprintf("if=none,id=%s,format=raw,cache=unsafe,discard=unmap,file=%[1]s", id))
		device := map[string]string{busNVMe: "nvme", busSATA: "ide-hd", busVirtio: "virtio-blk-pci"}[d.Bus]
		device += ",drive=" + id + ",serial=" + m.driveSerial(i+1)
		if d.Bus == busSATA {
			sata++
			device += fmt.Sprintf(",bus=ide.%d", sata)
		}
		args = append(args, "-device", device+place("Hdd", i))
	}
	for i, mac := range m.macs() {
		net, err := m.network(i)
		if err != nil {
			return nil, err
		}
		// OVMF drives this card by itself; SeaBIOS needs the card's own program.
		card := fmt.Sprintf("virtio-net-pci,netdev=port%d,mac=%s", i+1, mac)
		if !h.bios() {
			card += ",romfile="
		}
		args = append(args, "-netdev", net, "-device", card+place("Pxe", i))
	}
	if h.TPM {
		args = append(args, "-chardev", fmt.Sprintf("socket,id=tpm,fd=%d", qemu.FirstFile), "-tpmdev", "emulator,id=tpm,chardev=tpm", "-device", "tpm-crb,tpmdev=tpm")
	}
	return args, nil
}

// cdDrive is QEMU's id of the drive in which virtual media are.
const cdDrive = "cd"

// places gives the devices their places in the firmware's boot order, from 0. With UEFI, drives that
// the order does not name come last: OVMF deletes the boot entries of drives without a place
// (OvmfPkg, QemuBootOrderLib).
func (t firmwareTries) places(drives, ports int, uefi bool) func(target string, n int) string {
	targets := slices.Clone(t.targets)
	if uefi {
		targets = append(targets, "Hdd")
	}
	first, next := map[string]int{}, 0
	for _, target := range targets {
		if target == "UsbCd" {
			target = "Cd"
		}
		count := map[string]int{"Hdd": drives, "Pxe": ports}[target]
		if target == "Cd" && t.medium != "" {
			count = 1
		}
		if _, has := first[target]; !has && count > 0 {
			first[target] = next
			next += count
		}
	}
	return func(target string, n int) string {
		from, has := first[target]
		if !has {
			return ""
		}
		return fmt.Sprintf(",bootindex=%d", from+n)
	}
}

// network is what a port is plugged into, by its place from 0.
func (m *Machine) network(i int) (string, error) {
	h := m.computer
	id := fmt.Sprintf("id=port%d", i+1)
	if i < len(h.Taps) && h.Taps[i] != "" {
		return "tap," + id + ",ifname=" + h.Taps[i] + ",script=no,downscript=no", nil
	}
	if i > 0 || m.config.OSAddr == "" {
		return "user," + id, nil
	}
	l, err := net.Listen("tcp4", m.config.OSAddr+":0") // a port that is free
	if err != nil {
		return "", err
	}
	h.ssh = l.Addr().String()
	if err := l.Close(); err != nil {
		return "", err
	}
	return fmt.Sprintf("user,%s,hostfwd=tcp:%s-%s:22", id, h.ssh, cmp.Or(h.Address, guestAddress)), nil
}

// driveSerial is the serial number of the nth drive, from 1.
func (m *Machine) driveSerial(n int) string {
	return cmp.Or(m.computer.drives()[n-1].Serial, m.partSerial(m.kind.parts.drive(n)))
}

// memoryGiB is the machine's memory.
func (m *Machine) memoryGiB() int {
	if m.computer != nil {
		return cmp.Or(m.config.MemoryGiB, 1)
	}
	return m.config.MemoryGiB
}
