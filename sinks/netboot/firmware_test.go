package netboot

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const ovmf = "/usr/share/OVMF/OVMF_"

// Real firmware, UEFI in QEMU, soon goes on to the next entry of its boot order when
// its machine is not armed, and reads its file by TFTP and by HTTP when it is.
func TestProveFirmware(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("firmware in software emulation takes minutes: make prove")
	}
	needs(t, "ip", "qemu-system-x86_64")
	g := newSegment(t)
	g.host("srv", "52:54:00:71:00:f0", "10.71.0.2/24")
	g.in("lan", "ip", "tuntap", "add", "tap0", "mode", "tap")
	g.in("lan", "ip", "link", "set", "tap0", "master", "br0", "up")
	file := filepath.Join(g.dir, "boot.efi") // it is no program: the firmware reads it and goes on
	if err := os.WriteFile(file, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	d := g.serve("srv", "eth0=mgmt", mgmt(nil))
	d.serving()
	// start starts the machine, and waits until the firmware has given up on a way to
	// boot. It gives what the console says, and how long the way took.
	start := func(way string) (console string, took time.Duration) {
		t.Helper()
		vars, serial := filepath.Join(g.dir, "vars.fd"), filepath.Join(g.dir, "serial")
		text, err := os.ReadFile(ovmf + "VARS_4M.fd")
		if err == nil {
			err = os.WriteFile(vars, text, 0o600)
		}
		os.Remove(serial)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-m", "512", "-nodefaults", "-display", "none", "-serial", "file:" + serial,
			"-drive", "if=pflash,format=raw,readonly=on,file=" + ovmf + "CODE_4M.fd", "-drive", "if=pflash,format=raw,file=" + vars,
			"-netdev", "tap,id=net,ifname=tap0,script=no,downscript=no", "-device", "virtio-net-pci,netdev=net,mac=52:54:00:71:00:01,romfile=,bootindex=1",
			"-device", "virtio-rng-pci", "-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n"}
		if way == "HTTP Boot" {
			args = append(args, "-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n")
		}
		defer g.begin("lan", args...)()
		var tried time.Time
		for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
			text, _ := os.ReadFile(serial)
			console = strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte("\x1b"), nil)), "")
			_, after, begun := strings.Cut(console, ">>Start "+way+" over IPv4")
			if begun && tried.IsZero() {
				tried = time.Now()
			}
			if begun && strings.Contains(after, "BdsDxe: failed to load") {
				return console, time.Since(tried)
			}
			<-time.After(100 * time.Millisecond)
		}
		t.Fatalf("the firmware never gave up %s:\n%s\n%s", way, console, d.log.String())
		return "", 0
	}
	read := func() int { return strings.Count(d.log.String(), "boot file was read") }
	for _, way := range []string{"PXE", "HTTP Boot"} {
		before := read()
		console, took := start(way)
		t.Logf("%s, not armed: given up after %s", way, took.Round(time.Second))
		if took > 30*time.Second || read() != before {
			t.Errorf("%s: a machine that is not armed took %s, and read %d files:\n%s\n%s", way, took, read()-before, console, d.log.String())
		}
		d.order(map[string]any{"Arm": Boot{Node: "n1", MACs: []string{"52:54:00:71:00:01"}, Files: map[Firmware]string{UEFIAMD64: file}}})
		console, took = start(way)
		t.Logf("%s, armed: given up what it has read after %s", way, took.Round(time.Second))
		if armed := d.order(map[string]any{})[0].Armed; read() == before || len(armed) > 0 {
			t.Errorf("%s: the machine has not read its file:\n%s\n%s", way, console, d.log.String())
		}
	}
}
