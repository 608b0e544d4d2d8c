package libvirt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// made is a small disk as an image, and what its bytes are.
func made(t *testing.T, format string, size string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image")
	raw := file + ".raw"
	if err := os.WriteFile(raw, slices.Repeat([]byte("a boot sector? no. "), 100000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(raw, 4<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("qemu-img", "convert", "-O", format, raw, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if size != "" {
		if out, err := exec.Command("qemu-img", "resize", "-f", format, file, size).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func imageOf(s *server, format string) *site.Image {
	sum := sha256.Sum256(s.content)
	return &site.Image{URL: s.URL + "/image", SHA256: hex.EncodeToString(sum[:]), Format: format}
}

// bench is a hypervisor with a machine that can be installed.
type bench struct {
	*real
	t      *testing.T
	d      *Driver
	n      *site.Node
	server *server
	step   site.Step
}

func newBench(t *testing.T, format string) *bench {
	t.Helper()
	b := &bench{real: startReal(t, "/system"), t: t, d: New(impatient), n: designed("vm-1"), server: serve(t, made(t, format, ""))}
	b.n.Virtual.Disks["root"] = site.VirtualDisk{Size: 64 << 20, Image: "overlay"}
	b.step = stepOf(b.n, site.FacetImage, site.ActionInstall)
	b.step.Image, b.step.Generation, b.step.Impact = imageOf(b.server, format), 1, site.ImpactOnline
	m := b.machine()
	must(t, m, b.n, site.FacetDefinition, site.ActionDefine)
	must(t, m, b.n, site.FacetDisks, site.ActionDisks)
	return b
}

var impatient = Options{Grace: 500 * time.Millisecond, Start: 30 * time.Second, Poll: 50 * time.Millisecond, Share: time.Millisecond, Quiet: time.Second}

func (b *bench) machine() *machine {
	b.t.Helper()
	return b.open(b.t, b.d, "vm-1").(*machine)
}

// mayErase has the step erase what the machine has now.
func (b *bench) mayErase() {
	b.t.Helper()
	b.step = approved(b.t, b.machine(), b.n, b.step)
}

func (b *bench) install(ctx context.Context) error {
	b.t.Helper()
	m := b.machine()
	m.Seed(seedOf("#cloud-config\n# s3cret\n"))
	return m.Apply(ctx, b.step, b.n, drivertest.Permitted)
}

func (b *bench) mustInstall() {
	b.t.Helper()
	if err := b.install(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// volumes are the names of those in the pool.
func (b *bench) volumes() []string {
	b.t.Helper()
	p, err := b.rpc.StoragePoolLookupByName("default")
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.rpc.StoragePoolRefresh(p, 0); err != nil {
		b.t.Fatal(err)
	}
	all, _, err := b.rpc.StoragePoolListAllVolumes(p, 1, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, v := range all {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return names
}

func (b *bench) has(part string) bool {
	return slices.ContainsFunc(b.volumes(), func(n string) bool { return strings.Contains(n, part) })
}

func (b *bench) file(name string) string {
	return filepath.Join(b.Folder, "var/lib/libvirt/default", name)
}

func (b *bench) disk(name string) string {
	return b.file("slipway-vm-1-" + b.n.Identity.UUID[:8] + "-" + name)
}

// image is the volume of the image.
func (b *bench) image() string {
	b.t.Helper()
	s, err := b.machine().storage(b.t.Context(), b.conn(), "default")
	if err != nil {
		b.t.Fatal(err)
	}
	v, there, err := s.image(b.t.Context(), b.step.Image)
	if err != nil || !there {
		b.t.Fatalf("the image is not there: %v", err)
	}
	return v.Name
}

// counts says whether something makes the image count.
func (b *bench) counts() bool {
	return slices.ContainsFunc(b.volumes(), func(name string) bool {
		_, sum, end, ours := imageVolume(name)
		return ours && sum == b.step.Image.SHA256 && end == verified
	})
}

// boots is how often the machine was started.
func (b *bench) boots() int {
	n := 0
	for _, w := range b.Writes() {
		if w == "DomainCreate" || w == "DomainCreateWithFlags" {
			n++
		}
	}
	return n
}

func TestInstall(t *testing.T) {
	for _, as := range []string{"overlay", "copy"} {
		for _, format := range []string{"qcow2", "raw"} {
			t.Run(as+" of "+format, func(t *testing.T) {
				b := newBench(t, format)
				root := b.n.Virtual.Disks["root"]
				root.Image = as
				b.n.Virtual.Disks["root"] = root
				b.mustInstall()
				if b.power(t, "vm-1") != "on" {
					t.Error("the machine does not run")
				}
				m := b.machine()
				seen := look(t, m, b.n)
				if s := seen.Facets[site.FacetSeed].Have["state"]; s != site.SeedAttached {
					t.Errorf("the seed is %s", s)
				}
				settled(t, m, b.n, site.FacetDefinition, site.FacetDisks)
				if i, err := os.Stat(b.disk("seed.iso")); err != nil || i.Mode().Perm() != 0o600 {
					t.Errorf("the seed's volume: %v, %v", i, err)
				}
				for range 2 {
					must(t, m, b.n, site.FacetSeed, site.ActionRemoveSeed)
				}
				if s := look(t, m, b.n).Facets[site.FacetSeed].Have["state"]; s != site.SeedNone || b.has("seed") {
					t.Errorf("after its removal the seed is %s, and there is %v", s, b.volumes())
				}
				if b.power(t, "vm-1") != "on" || b.boots() != 1 {
					t.Errorf("the machine is %s after %d starts", b.power(t, "vm-1"), b.boots())
				}
			})
		}
	}
}

func TestReinstall(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	data, err := os.Stat(b.disk("data.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(b.disk("root.qcow2"), 0o640); err != nil { // by which it is known again
		t.Fatal(err)
	}
	b.step.Generation = 2
	if err := b.install(t.Context()); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "root") || b.boots() != 1 {
		t.Fatalf("an installation that may destroy nothing: %v", err)
	}
	b.mayErase()
	b.mustInstall()
	if again, err := os.Stat(b.disk("data.qcow2")); err != nil || !os.SameFile(data, again) {
		t.Errorf("the disk of data is another: %v", err)
	}
	if again, err := os.Stat(b.disk("root.qcow2")); err != nil || again.Mode().Perm() != 0o600 {
		t.Errorf("the disk of the image is the same: %v", err)
	}
	if n := len(b.server.asked); n != 1 {
		t.Errorf("the image was fetched %d times", n)
	}
	d, err := b.machine().existing(t.Context(), b.conn())
	if err != nil || d.owner.Generation != 2 || d.owner.Installing != 0 || len(d.owner.Volumes) != 2 {
		t.Errorf("noted: %+v, %v", d.owner, err)
	}
}

func (b *bench) conn() *connection {
	b.t.Helper()
	c, err := b.machine().connection(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func TestInstallWithoutSeed(t *testing.T) {
	b := newBench(t, "qcow2")
	err := b.machine().Apply(t.Context(), b.step, b.n, drivertest.Permitted)
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "no seed") || len(b.server.asked) != 0 {
		t.Errorf("got %v after %d requests", err, len(b.server.asked))
	}
}

// What goes wrong with an image leaves a running machine as it is, says why, and
// leaves nothing that counts as the image.
func TestInstallFaults(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	b.step.Generation = 2
	b.mayErase()
	good := b.server.content
	for name, c := range map[string]struct {
		with  func(*server)
		class error
		says  string
	}{
		"wrong digest": {func(s *server) { b.step.Image.SHA256 = strings.Repeat("ab", 32) }, driver.ErrRefused, "the design says " + strings.Repeat("ab", 32)},
		"quiet":        {func(s *server) { s.cut, s.quiet = 100000, true }, driver.ErrUnreachable, "sent no byte"},
		"broken off":   {func(s *server) { s.cut = 100000 }, driver.ErrUnreachable, "broke off"},
		"error":        {func(s *server) { s.status = 500 }, driver.ErrUnreachable, "answers 500"},
		"missing":      {func(s *server) { s.status = 404 }, driver.ErrRefused, "answers 404"},
		"too large":    {func(s *server) { s.content = made(t, "qcow2", "1G"); b.step.Image = imageOf(s, "qcow2") }, driver.ErrRefused, "make that one larger"},
		"not qcow2":    {func(s *server) { s.content = made(t, "raw", ""); b.step.Image = imageOf(s, "qcow2") }, driver.ErrRefused, "not a qcow2"},
		"a vmdk":       {func(s *server) { s.content = made(t, "vmdk", ""); b.step.Image = imageOf(s, "raw") }, driver.ErrRefused, "vmdk"},
	} {
		t.Run(name, func(t *testing.T) {
			*b.server = server{Server: b.server.Server, etag: `"one"`, content: append(slices.Clone(good), name...)}
			b.step.Image = imageOf(b.server, "qcow2")
			c.with(b.server)
			err := b.install(t.Context())
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v", err)
			}
			if name != "too large" && b.counts() {
				t.Errorf("it counts: %v", b.volumes())
			}
			if name == "wrong digest" && b.has(b.step.Image.SHA256) {
				t.Errorf("the wrong image is kept: %v", b.volumes())
			}
			if b.power(t, "vm-1") != "on" || b.boots() != 1 {
				t.Errorf("the machine is %s after %d starts", b.power(t, "vm-1"), b.boots())
			}
		})
	}
}

// TestInstallUEFI: what the firmware has stored goes with the system that it is
// of, and its file with the machine.
func TestInstallUEFI(t *testing.T) {
	b := newBench(t, "qcow2")
	b.n.Virtual.Firmware = "uefi"
	must(t, b.machine(), b.n, site.FacetDefinition, site.ActionDefine)
	b.mustInstall()
	stored, err := filepath.Glob(filepath.Join(b.Folder, "var/lib/libvirt/qemu/nvram/*"))
	if err != nil || len(stored) != 1 {
		t.Fatalf("the firmware's variables: %v, %v", stored, err)
	}
	fresh, err := os.ReadFile(stored[0])
	if err != nil {
		t.Fatal(err)
	}
	old := append(slices.Clone(fresh[:len(fresh)-9]), "the past!"...)
	if err := os.WriteFile(stored[0], old, 0o600); err != nil {
		t.Fatal(err)
	}
	b.step.Generation = 2
	b.mayErase()
	b.mustInstall()
	if now, err := os.ReadFile(stored[0]); err != nil || strings.HasSuffix(string(now), "the past!") {
		t.Errorf("the firmware remembers: %v", err)
	}
	must(t, b.machine(), b.n, site.FacetDefinition, site.ActionZeroize)
	if _, err := os.Stat(stored[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the firmware's variables are left: %v", err)
	}
}

func TestImageGoesOn(t *testing.T) {
	b := newBench(t, "qcow2")
	b.server.cut = 150000
	if err := b.install(t.Context()); !errors.Is(err, driver.ErrUnreachable) {
		t.Fatalf("got %v", err)
	}
	b.server.cut = 0
	b.mustInstall()
	if last := b.server.asked[len(b.server.asked)-1]; last == "" || last == "bytes=0-" {
		t.Errorf("asked for %q", b.server.asked)
	}
	got, err := os.ReadFile(b.file(b.image()))
	if err != nil || string(got) != string(b.server.content) {
		t.Errorf("the image has %d bytes, want %d; %v", len(got), len(b.server.content), err)
	}
}

func TestZeroize(t *testing.T) {
	b := newBench(t, "qcow2")
	b.n.Virtual.Erase = "wipe"
	b.mustInstall()
	foreign := []string{"mysql-x", "slipway-vm-1", "slipway-vm-1-" + b.n.Identity.UUID[:8] + "-data2.qcow2", "slipway-vm-11-root.qcow2"}
	for _, name := range foreign {
		if err := os.WriteFile(b.file(name), []byte("dear"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.rpc.DomainDefineXMLFlags(`<domain type='qemu'><name>vm-11</name><memory unit='MiB'>16</memory><os><type arch='x86_64' machine='q35'>hvm</type></os></domain>`, 0); err != nil {
		t.Fatal(err)
	}
	must(t, b.machine(), b.n, site.FacetDefinition, site.ActionZeroize)
	must(t, b.machine(), b.n, site.FacetDefinition, site.ActionZeroize)
	for _, name := range b.volumes() {
		if strings.HasPrefix(name, "slipway-vm-1-") && !slices.Contains(foreign, name) {
			t.Errorf("%s is left", name)
		}
	}
	for _, name := range foreign {
		if got, err := os.ReadFile(b.file(name)); err != nil || string(got) != "dear" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := b.rpc.DomainLookupByName("vm-11"); err != nil {
		t.Error(err)
	}
	if _, err := b.rpc.DomainLookupByName("vm-1"); !says(err, golibvirt.ErrNoDomain) {
		t.Errorf("the machine is there: %v", err)
	}
}

// A disk that another machine uses, or another volume builds on, keeps the whole
// machine as it is.
func TestZeroizeLeavesWhatOthersUse(t *testing.T) {
	for name, use := range map[string]func(*bench, string){
		"the machine theirs": func(b *bench, path string) { b.other("theirs", "file='"+path+"'") },
		"clone.qcow2":        func(b *bench, path string) { b.over("default", "clone.qcow2", path) },
	} {
		b := newBench(t, "qcow2")
		b.n.Virtual.Erase = "wipe"
		b.mustInstall()
		use(b, "/var/lib/libvirt/default/"+filepath.Base(b.disk("data.qcow2")))
		before := b.volumes()
		err := b.machine().Apply(t.Context(), approved(t, b.machine(), b.n, stepOf(b.n, site.FacetDefinition, site.ActionZeroize)), b.n, drivertest.Permitted)
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v", err)
		}
		if after := b.volumes(); !slices.Equal(after, before) || b.power(t, "vm-1") != "on" {
			t.Errorf("of %v is left %v, and the machine is %s", before, after, b.power(t, "vm-1"))
		}
	}
}

// A volume that comes back after the look is not deleted before an approval names
// it, and then it is.
func TestZeroizeLooksAgain(t *testing.T) {
	b := newBench(t, "qcow2")
	file := b.disk("data.qcow2")
	if err := os.Rename(file, file+"-away"); err != nil {
		t.Fatal(err)
	}
	b.volumes()
	b.d = New(impatient) // no event tells of volumes
	before := approved(t, b.machine(), b.n, stepOf(b.n, site.FacetDefinition, site.ActionZeroize))
	if err := os.Rename(file+"-away", file); err != nil {
		t.Fatal(err)
	}
	err := b.machine().Apply(t.Context(), before, b.n, drivertest.Permitted)
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "does not name the disk data in the pool default of hv-1") {
		t.Errorf("an approval of %q: %v", before.Disks, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	must(t, b.machine(), b.n, site.FacetDefinition, site.ActionZeroize)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the disk is left: %v", err)
	}
}

// What is wiped is overwritten on the disk, wherever it was: a file that is made
// shorter first would leave it there.
func TestWipe(t *testing.T) {
	b := newBench(t, "qcow2")
	b.n.Virtual.Erase = "wipe"
	b.n.Virtual.Disks["raw"] = site.VirtualDisk{Size: 8 << 20, Format: "raw"}
	must(t, b.machine(), b.n, site.FacetDisks, site.ActionDisks)
	b.mustInstall()
	sizes := map[string]int64{}
	for _, name := range []string{"data.qcow2", "root.qcow2", "raw.raw"} {
		f, err := os.OpenFile(b.disk(name), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt([]byte("secret"), 3<<20)
		}
		if err == nil {
			err = f.Close()
		}
		if err == nil {
			err = os.Link(b.disk(name), b.file("../"+name)) // so that what becomes of it can be seen
		}
		i, err2 := os.Stat(b.disk(name))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		sizes[name] = i.Size()
	}
	must(t, b.machine(), b.n, site.FacetDefinition, site.ActionZeroize)
	for name, size := range sizes {
		file := b.file("../" + name)
		i, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if blocks := i.Sys().(*syscall.Stat_t).Blocks * 512; i.Size() != size || blocks < size {
			t.Errorf("%s: of %d bytes, %d were written and %d are there", name, size, blocks, i.Size())
		}
		if got, err := os.ReadFile(file); err != nil || len(bytes.Trim(got, "\x00")) > 0 {
			t.Errorf("%s is not overwritten: %v", name, err)
		}
	}
}

func TestConsole(t *testing.T) {
	b := newBench(t, "qcow2")
	m := b.machine()
	if got, err := m.Console(t.Context(), 100); err != nil || len(got) != 0 {
		t.Errorf("before it ran: %q, %v", got, err)
	}
	long := strings.Repeat("a line of the console\n", 50000) + "the end"
	if err := os.WriteFile(b.disk("console.log"), []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{0, 1, 7, 1000, 600000, 1 << 30} {
		got, err := m.Console(t.Context(), most)
		if want := long[len(long)-min(most, len(long), mostConsole):]; err != nil || string(got) != want {
			t.Errorf("%d bytes: got %d, %v", most, len(got), err)
		}
	}
}

// Many machines that want the same image fetch it once; all are told when it is
// not the right one.
func TestImageOnce(t *testing.T) {
	for _, right := range []bool{true, false} {
		b := newBench(t, "qcow2")
		if !right {
			b.step.Image.SHA256 = strings.Repeat("ab", 32)
		}
		m := b.machine()
		errs := make(chan error)
		const all = 8
		for range all {
			go func() {
				s, err := m.storage(t.Context(), b.conn(), "default")
				if err == nil {
					_, err = m.fetches.image(t.Context(), s, b.step.Image)
				}
				errs <- err
			}()
		}
		for range all {
			if err := <-errs; right && err != nil || !right && !errors.Is(err, driver.ErrRefused) {
				t.Errorf("right %t: %v", right, err)
			}
		}
		if n := len(b.server.asked); right && n != 1 || n > all/2 {
			t.Errorf("right %t: the image was fetched %d times", right, n)
		}
	}
}

func TestImageWithoutRoom(t *testing.T) {
	b := newBench(t, "qcow2")
	b.server.claim = 1 << 50
	err := b.install(t.Context())
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "pool default of hv-1 has ") || !strings.Contains(err.Error(), "the image needs 1024 TiB") {
		t.Errorf("got %v", err)
	}
	if b.has(imagePrefix) {
		t.Errorf("left: %v", b.volumes())
	}
}

// A machine whose metadata knows of an installation that the step does not is
// left as it is: the records were lost.
func TestInstallKnown(t *testing.T) {
	b := newBench(t, "qcow2")
	b.step.Generation = 2
	b.mustInstall()
	have := look(t, b.machine(), b.n).Facets[site.FacetDefinition].Have
	if have["generation"] != "2" || have["image"] != b.step.Image.SHA256 {
		t.Errorf("seen: %v", have)
	}
	b.mayErase()
	for _, generation := range []int{1, 2} {
		b.step.Generation = generation
		err := b.install(t.Context())
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "by its own metadata the machine runs generation 2") || b.boots() != 1 {
			t.Errorf("generation %d: %v after %d starts", generation, err, b.boots())
		}
	}
	b.step.Generation = 3
	b.mustInstall()
	b.step.Resumed = true
	b.mustInstall()
	if b.boots() != 2 {
		t.Errorf("the machine was started %d times", b.boots())
	}
}

// A disk that another machine uses is not replaced, and the machine goes on.
func TestInstallUsed(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	b.other("theirs", "file='/var/lib/libvirt/default/"+filepath.Base(b.disk("root.qcow2"))+"'")
	b.step.Generation = 2
	b.mayErase()
	if err := b.install(t.Context()); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "the machine theirs") {
		t.Errorf("got %v", err)
	}
	if b.power(t, "vm-1") != "on" || b.boots() != 1 || !b.has("root.qcow2") {
		t.Errorf("the machine is %s after %d starts with %v", b.power(t, "vm-1"), b.boots(), b.volumes())
	}
}

// A disk that came back to another pool than the design's by now is seen.
func TestInstallFromAnotherPool(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	away := b.disk("root.qcow2") + ".away"
	if err := os.Rename(b.disk("root.qcow2"), away); err != nil {
		t.Fatal(err)
	}
	b.volumes() // refreshes
	if err := os.Rename(away, b.disk("root.qcow2")); err != nil {
		t.Fatal(err)
	}
	b.pool(t, "more")
	root := b.n.Virtual.Disks["root"]
	root.Pool = "more"
	b.n.Virtual.Disks["root"] = root
	b.step.Generation = 2
	if err := b.install(t.Context()); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "was not planned to destroy") {
		t.Errorf("got %v", err)
	}
}
