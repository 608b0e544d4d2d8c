package hardware_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/hardware"
)

// machine is a root folder in which the kernel shows a machine, in the layout of sysfs.
type machine struct {
	t    *testing.T
	root string
	log  string
	fail error
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, root: t.TempDir()}
	m.put("/sys/bus/pci/devices/.keep", "")
	if err := os.Remove(filepath.Join(m.root, "/sys/bus/pci/devices/.keep")); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) put(path, content string) {
	m.t.Helper()
	at := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) link(path, to string) {
	m.t.Helper()
	at := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		m.t.Fatal(err)
	}
}

// device adds a device as the kernel has it: a folder of its bridge, and a link to it.
func (m *machine) device(address, vendor, device string) (folder string) {
	folder = "/sys/devices/pci0000:00/" + address
	m.put(folder+"/vendor", vendor+"\n")
	m.put(folder+"/device", device+"\n")
	m.link("/sys/bus/pci/devices/"+address, "../../../devices/pci0000:00/"+address)
	return folder
}

// drive binds a driver, which is in a module, to a folder of a device.
func (m *machine) drive(folder, bus, driver, module string) {
	m.put("/sys/bus/"+bus+"/drivers/"+driver+"/bind", "")
	up := strings.Repeat("../", strings.Count(folder, "/")-1)
	m.link(folder+"/driver", up+"bus/"+bus+"/drivers/"+driver)
	if module != "" {
		if _, err := os.Lstat(filepath.Join(m.root, "/sys/bus/"+bus+"/drivers/"+driver+"/module")); err != nil {
			m.put("/sys/module/"+module+"/refcnt", "0")
			m.link("/sys/bus/"+bus+"/drivers/"+driver+"/module", "../../../../module/"+module)
		}
	}
}

func (m *machine) look(ids ...string) (string, item.PCI) {
	h := inside.Real(m.root, true)
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		if c.Path != "dmesg" {
			return inside.Output{}, fmt.Errorf("%s was run", c.Path)
		}
		return inside.Output{Out: []byte(m.log)}, m.fail
	}
	return hardware.Look(m.t.Context(), h, item.PCIProbe{IDs: ids})
}

// All ids are told once, in order; what was asked for is told of one by one, with what
// drives it, also where that is below the device.
func TestLook(t *testing.T) {
	m := newMachine(t)
	m.put("/sys/class/dmi/id/product_name", "PowerEdge R750\n")
	m.drive(m.device("0000:18:00.1", "0x8086", "0x1592"), "pci", "ice", "ice")
	m.drive(m.device("0000:18:00.0", "0x8086", "0x1592"), "pci", "ice", "ice")
	rng := m.device("0000:00:05.0", "0x1AF4", "0x1005")
	m.drive(rng, "pci", "virtio-pci", "virtio_pci")
	m.put(rng+"/virtio3/status", "7")
	m.drive(rng+"/virtio3", "virtio", "virtio_rng", "virtio_rng")
	m.device("0000:00:1f.0", "0x8086", "0xa1c8")
	function := m.device("0000:18:01.0", "0x8086", "0x1889")
	m.link(function+"/physfn", "../0000:18:00.0")
	model, got := m.look("8086:1592", "1af4:1005", "8086:1889", "15b3:101d")
	want := item.PCI{
		IDs: []string{"1af4:1005", "8086:1592", "8086:1889", "8086:a1c8"},
		Devices: []item.PCIDevice{
			{Address: "0000:00:05.0", ID: "1af4:1005", Driver: "virtio-pci", Modules: []string{"virtio_pci", "virtio_rng"}},
			{Address: "0000:18:00.0", ID: "8086:1592", Driver: "ice", Modules: []string{"ice"}},
			{Address: "0000:18:00.1", ID: "8086:1592", Driver: "ice", Modules: []string{"ice"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || model != "PowerEdge R750" {
		t.Errorf("the model is %q (-want, +got):\n%s", model, diff)
	}
}

// A machine without the bus has no device; one whose devices cannot be read may have any.
func TestNothingIsClaimedOfWhatIsNotRead(t *testing.T) {
	m := newMachine(t)
	if model, got := m.look("8086:1592"); got.Unread != "" || len(got.IDs) > 0 || model != "" {
		t.Errorf("without a device: got %+v and the model %q", got, model)
	}
	if err := os.RemoveAll(filepath.Join(m.root, "/sys/bus/pci")); err != nil {
		t.Fatal(err)
	}
	if _, got := m.look("8086:1592"); got.Unread != "" || len(got.IDs) > 0 {
		t.Errorf("without the bus: got %+v", got)
	}
	if err := os.RemoveAll(filepath.Join(m.root, "/sys")); err != nil {
		t.Fatal(err)
	}
	if _, got := m.look("8086:1592"); got.Unread == "" || len(got.IDs) > 0 {
		t.Errorf("without /sys: got %+v", got)
	}
	for name, of := range map[string][2]string{
		"no number": {"8086", "0x1592"}, "too long": {"0x8086", "0x15920"}, "no text": {"", "0x1592"}, "another": {"0x8086", "0xzzzz"},
	} {
		m := newMachine(t)
		m.device("0000:00:01.0", "0x8086", "0x1000")
		m.device("0000:00:02.0", of[0], of[1])
		if _, got := m.look("8086:1592"); !strings.Contains(got.Unread, "0000:00:02.0: its ") || len(got.IDs)+len(got.Devices) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	m = newMachine(t)
	m.link("/sys/bus/pci/devices/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0")
	m.device("0000:00:01.0", "0x8086", "0x1000")
	if _, got := m.look(); got.Unread != "" || len(got.IDs) != 1 {
		t.Errorf("a device was taken away in the middle: got %+v", got)
	}
}

// The bus is bounded.
func TestTooManyDevices(t *testing.T) {
	m := newMachine(t)
	for i := range item.MaxPCIIDs + 1 {
		m.device(fmt.Sprintf("%04x:00:00.0", i), "0x8086", fmt.Sprintf("0x%04x", i))
	}
	if _, got := m.look("8086:0000"); !strings.Contains(got.Unread, "more than 1024 different ids") || len(got.IDs)+len(got.Devices) > 0 {
		t.Errorf("got %+v", got)
	}
	for i := range item.MaxPCI - item.MaxPCIIDs {
		m.link(fmt.Sprintf("/sys/bus/pci/devices/ffff:%04x", i), "nowhere")
	}
	if _, got := m.look("8086:0000"); !strings.Contains(got.Unread, "more than 4096 PCI devices") {
		t.Errorf("got %+v", got)
	}
}

// The kernel's log says which firmware a device has asked for in vain.
func TestFirmwareThatTheKernelLacks(t *testing.T) {
	m := newMachine(t)
	m.device("0000:18:00.0", "0x8086", "0x1592")
	m.put("/lib/firmware/there.bin.xz", "")
	m.log = `[    1.1] ice 0000:18:00.0: Direct firmware load for intel/ice/ddp/ice.pkg failed with error -2
[    1.2] ice 0000:18:00.0: Direct firmware load for intel/ice/ddp/ice.pkg failed with error -2
[    1.3] ice 0000:18:00.0: firmware: failed to load there.bin (-2)
[    1.4] mlx5_core 0000:19:00.0: Direct firmware load for other.bin failed with error -2
[    1.5] platform regulatory.0: Direct firmware load for regulatory.db failed with error -2
[    1.6] ice 0000:18:00.0: Direct firmware load for ../../etc/passwd failed with error -2
[    1.7] ice 0000:18:00.0: Direct firmware load for ` + strings.Repeat("x", 300) + ` failed with error -2
[    1.8] ice 0000:18:00.0: Direct firmware load for a b failed with error -2
: Direct firmware load for 
[    1.9] ice 0000:18:00.0: The DDP package was successfully loaded
`
	_, got := m.look("8086:1592")
	want := []item.LackedFirmware{{File: "intel/ice/ddp/ice.pkg"}, {File: "there.bin", There: true}, {File: "../../etc/passwd"}}
	if diff := cmp.Diff(want, got.Devices[0].Lacked); diff != "" {
		t.Errorf("(-want, +got):\n%s", diff)
	}
	m.fail = errors.New("not permitted")
	if _, got := m.look("8086:1592"); len(got.Devices[0].Lacked) > 0 || got.Unread != "" {
		t.Errorf("without the log: got %+v", got)
	}
}
