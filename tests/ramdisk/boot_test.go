// Package ramdisk boots the ramdisk on an emulated machine with UEFI firmware.
package ramdisk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/tests/ramdisk/media"
)

// The medium that is made of Debian's own kernel boots under UEFI, finds the machine's devices,
// gets an address by DHCP, and its agent tells the daemon which machine it is on. An agent on
// another machine is refused with the same medium, which has the token beside the image.
func TestProveRamdiskBoots(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("downloads and packs a whole kernel: set SLIPWAY_PROVE")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	authority, certificate := media.Certificates(t)
	said := make(chan string, 100)
	l := agent.NewListener(agent.ListenerOptions{Site: "lab", Certificate: certificate, Tell: func(node, text string) { said <- text }})
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx, on) }()
	t.Cleanup(func() { cancel(); <-served })

	is := site.Identity{UUID: "0c5e1a52-93d4-4b6c-8f0e-7a2f9c31d5b8", Serial: "RD-0001"}
	token, err := l.Expect(agent.Boot{Node: "server-1", Machine: is, MACs: []string{mac}})
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(on.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b := media.Build(ctx, t, fmt.Sprintf("slipway.daemon=%s:%s slipway.ca=sha256:%x", media.Host, port, sha256.Sum256(authority)))
	t.Logf("image %d bytes, %d modules, Linux %s", b.Image.Bytes, b.Modules, b.Kernel)

	medium := media.ForBoot(t, b.Medium.Path, "slipway.token="+token)
	other := start(ctx, t, "1f5e1a52-93d4-4b6c-8f0e-7a2f9c31d5b8", "RD-0002", fromMedium(medium)...)
	other.waits(ctx, t, "The daemon refuses this machine: The token is for server-1, and this is another machine: its UUID is 1f5e1a52-93d4-4b6c-8f0e-7a2f9c31d5b8")
	other.end()
	if text := <-said; !strings.Contains(text, "Refused an agent") {
		t.Errorf("the daemon said %q", text)
	}

	m := start(ctx, t, is.UUID, is.Serial, fromMedium(medium)...)
	begun := time.Now()
	a, err := l.Agent(ctx, "server-1")
	if err != nil {
		t.Fatalf("%v; the console has:\n%s", err, m.console())
	}
	t.Logf("the agent called %s after power-on", time.Since(begun).Round(time.Second))
	seen, err := a.Observe(ctx, &site.Node{Name: "server-1"}, nil)
	if err != nil || seen.Identity != is {
		t.Errorf("it is %+v, %v", seen.Identity, err)
	}
	i, err := a.(driver.Inspector).Inspect(ctx, &site.Node{Name: "server-1"})
	if err != nil {
		t.Fatal(err)
	}
	disks := map[string]int64{}
	for _, d := range i.Drives {
		disks[d.Serial+" "+d.Protocol] = d.Bytes
	}
	if len(disks) != 3 || disks["DISK-NVME NVMe"] != 64<<20 || disks["DISK-SATA "] != 32<<20 || disks["DISK-VIRTIO "] != 16<<20 {
		t.Errorf("it has the disks %+v", i.Drives)
	}
	if len(i.NICs) != 1 || i.NICs[0].Model != "e1000e" || i.NICs[0].Ports[0].MACs[0] != "52:54:00:12:34:56" || i.NICs[0].Ports[0].Link != "up" || len(i.Missing) > 0 {
		t.Errorf("it has the ports %+v, and lacks %v", i.NICs, i.Missing)
	}
	if !slices.ContainsFunc(i.Devices, func(d site.PCIeDevice) bool { return d.ID == "8086:10d3" }) { // QEMU's e1000e
		t.Errorf("it has the devices %+v", i.Devices)
	}
	m.waits(ctx, t, "Connected to the daemon of the site lab: this machine is the node server-1.")
}

// machine is a process of QEMU.
type machine struct {
	cmd  *exec.Cmd
	log  string
	done chan error
}

// mac is the address of a machine's port.
const mac = "52:54:00:12:34:56"

// fromMedium describes what a machine has that boots from a medium.
func fromMedium(medium string) []string {
	return []string{"-drive", "if=none,id=cd,media=cdrom,readonly=on,format=raw,file=" + medium, "-device", "ide-cd,drive=cd,bus=ide.2,bootindex=0",
		"-netdev", "user,id=net", "-device", "e1000e,netdev=net,romfile=,mac=" + mac}
}

// start switches a machine on.
func start(ctx context.Context, t *testing.T, uuid, serial string, from ...string) *machine {
	t.Helper()
	dir := t.TempDir()
	variables, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "vars.fd"), variables, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"nvme": 64 << 20, "sata": 32 << 20, "virtio": 16 << 20} {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = f.Truncate(size)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	m := &machine{log: filepath.Join(dir, "console"), done: make(chan error, 1)}
	args := []string{"-machine", "q35,accel=tcg", "-cpu", "max", "-m", "1024", "-display", "none", "-monitor", "none", "-no-reboot",
		"-serial", "file:" + m.log, "-uuid", uuid, "-smbios", "type=1,serial=" + serial + ",manufacturer=Test,product=Machine,uuid=" + uuid,
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd", "-drive", "if=pflash,format=raw,unit=1,file=vars.fd",
		"-drive", "if=none,id=nvme,format=raw,file=nvme", "-device", "nvme,drive=nvme,serial=DISK-NVME",
		"-drive", "if=none,id=sata,format=raw,file=sata", "-device", "ide-hd,drive=sata,bus=ide.0,serial=DISK-SATA",
		"-drive", "if=none,id=virtio,format=raw,file=virtio", "-device", "virtio-blk-pci,drive=virtio,serial=DISK-VIRTIO"}
	m.cmd = exec.CommandContext(ctx, "qemu-system-x86_64", append(args, from...)...)
	m.cmd.Dir = dir
	var errs bytes.Buffer
	m.cmd.Stderr = &errs
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := m.cmd.Wait(); err != nil {
			m.done <- fmt.Errorf("%w: %s", err, errs.String())
			return
		}
		m.done <- nil
	}()
	t.Cleanup(m.end)
	return m
}

// end switches the machine off.
func (m *machine) end() {
	if m.done != nil {
		m.cmd.Process.Kill()
		<-m.done
		m.done = nil
	}
}

// console is what the machine has written to its serial port.
func (m *machine) console() string {
	text, _ := os.ReadFile(m.log)
	return string(text)
}

// waits waits until the console has a text.
func (m *machine) waits(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(m.console(), text) {
		select {
		case <-time.After(200 * time.Millisecond):
		case err := <-m.done:
			m.done = nil
			t.Fatalf("the machine went off (%v) before its console had %q; it has:\n%s", err, text, m.console())
		case <-ctx.Done():
			t.Fatalf("the console has not %q; it has:\n%s", text, m.console())
		}
	}
}
