package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// withKernels has a menu as Debian's grub-mkconfig makes it: the kernel with the highest
// version first, and all of them in a submenu. What is in /etc/default/grub.d is run by the
// shell, as there.
func (f *fake) withKernels(releases ...string) {
	f.t.Helper()
	slices.SortFunc(releases, func(a, b string) int { return inside.CompareVersions(b, a) })
	for _, r := range releases {
		f.put("/boot/vmlinuz-"+r, "")
	}
	script := "GRUB_DEFAULT=0\nGRUB_DEVICE=/dev/sda1\ngrub_get_device_id() { echo U-1; }\n" + strings.ReplaceAll(f.read(defaultFile), "/boot", f.host.Path("/boot")) + "echo \"$GRUB_DEFAULT\"\n"
	chosen, err := exec.Command("sh", "-c", script).Output()
	if err != nil {
		f.t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "if [ \"${next_entry}\" ] ; then\n   set default=\"${next_entry}\"\nelse\n   set default=\"%s\"\nfi\nfunction savedefault {\n  if [ -z \"${boot_once}\" ]; then\n    x\n  fi\n}\n", strings.TrimSpace(string(chosen)))
	entry := func(kind, title, id, release string) {
		fmt.Fprintf(&b, "%s '%s' --class debian $menuentry_id_option '%s' {\n", kind, title, id)
		if release != "" {
			fmt.Fprintf(&b, "\tif [ x$grub_platform = xxen ]; then insmod xzio; fi\n\tlinux\t/boot/vmlinuz-%s root=UUID=1 ro\n\tinitrd\t/boot/initrd\n}\n", release)
		}
	}
	entry("menuentry", "Debian GNU/Linux", "gnulinux-simple-U-1", releases[0])
	entry("submenu", "Advanced options for Debian GNU/Linux", "gnulinux-advanced-U-1", "")
	for _, r := range releases {
		entry("menuentry", "Debian GNU/Linux, with Linux "+r, "gnulinux-"+r+"-advanced-U-1", r)
		entry("menuentry", "Debian GNU/Linux, with Linux "+r+" (recovery mode)", "gnulinux-"+r+"-recovery-U-1", r)
	}
	b.WriteString("}\nmenuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {\n\tfwsetup\n}\n")
	f.put(grubConfig, b.String())
}

const twoFlavours = status + `
Package: linux-image-rt-amd64
Status: install ok installed
Depends: linux-image-6.1.0-18-rt-amd64 (= 6.1.76-1)

Package: linux-image-6.1.0-18-rt-amd64
Status: install ok installed
`

// A kernel that the boot loader would not start by itself becomes its default entry, and so
// does each later one of its flavour; nothing waits for a boot that would not bring it.
func TestTheDesignedKernelIsStarted(t *testing.T) {
	f := newFake(t, grub)
	kernels := []string{"6.1.0-18-amd64", "6.1.0-18-rt-amd64", "6.1.0-9-rt-amd64", "6.1.0-20-cloud-amd64"}
	f.menu = func() { f.withKernels(kernels...) }
	f.put("/var/lib/dpkg/status", twoFlavours)
	f.menu()
	if seen := f.observe("kernel"); seen.Waits != "" {
		t.Errorf("waits for %q before anything was designed", seen.Waits)
	}
	i := []item.Item{kernelItem("linux-image-rt-amd64")}
	if err := f.apply(i); err != nil {
		t.Fatal(err)
	}
	starts := func() string {
		return grubStarts(f.read(grubConfig), nil)
	}
	if got := starts(); got != "6.1.0-18-rt-amd64" {
		t.Errorf("the next boot starts %q", got)
	}
	if seen := f.observe("kernel"); seen.Pending["kernel.package"] != "linux-image-rt-amd64" || seen.Waits != "reboot" {
		t.Errorf("%+v", seen)
	}
	f.calls = nil
	before := f.listing(true)
	if err := f.apply(i); err != nil || len(f.calls) > 0 || f.listing(true) != before {
		t.Errorf("a second pass: %v, %q", err, f.calls)
	}
	kernels = append(kernels, "6.1.0-21-rt-amd64") // of an upgrade, whose package runs update-grub
	if f.menu(); starts() != "6.1.0-21-rt-amd64" {
		t.Errorf("after an upgrade %q is started", starts())
	}
	f.code = 1
	if err := f.apply(nil, "kernel"); err == nil || f.read(defaultFile) != "" {
		t.Errorf("update-grub failed: %v", err)
	}
	f.code, f.calls = 0, nil
	if err := f.apply(nil, "kernel"); err != nil || !slices.Contains(f.calls, "update-grub ") {
		t.Errorf("it was not run again: %v, %q", err, f.calls)
	}
	if err := f.apply(nil, "kernel"); err != nil || f.read(defaultFile) != "" || starts() != "6.1.0-21-rt-amd64" {
		t.Errorf("without it in the design: %v, %q, %q", err, f.read(defaultFile), starts())
	}
}

// Where the next boot starts another kernel whatever Slipway does, a person has to know, and
// the machine is not restarted for nothing.
func TestAnotherKernelIsStarted(t *testing.T) {
	f := newFake(t, grub)
	f.put("/var/lib/dpkg/status", twoFlavours)
	f.menu = func() {
		f.withKernels("6.1.0-18-amd64", "6.1.0-18-rt-amd64", "6.1.0-20-cloud-amd64")
		f.put(grubConfig, strings.Replace(f.read(grubConfig), "\"\nfi", "\"\nfi\nset default=\"0\"", 1)) // of a file in /etc/grub.d
	}
	f.menu()
	err := f.apply([]item.Item{kernelItem("linux-image-rt-amd64")})
	if class(err) != wire.Refused || !strings.Contains(err.Error(), "still starts 6.1.0-20-cloud-amd64, which is not of the package linux-image-rt-amd64") {
		t.Errorf("got %v", err)
	}
	if seen := f.observe("kernel"); seen.Waits != "" || seen.Pending["kernel.package"] == "" || seen.Have["kernel.package"] != "linux-image-amd64" {
		t.Errorf("%+v", seen)
	}

	f = newFake(t, grub)
	f.put("/var/lib/dpkg/status", status+"\nPackage: linux-image-6.1.0-20-amd64\nStatus: install ok installed\n")
	f.menu = func() { f.withKernels("6.1.0-18-amd64", "6.1.0-20-amd64") }
	f.menu()
	err = f.apply([]item.Item{kernelItem("linux-image-6.1.0-18-amd64")})
	if class(err) != wire.Refused || !strings.Contains(err.Error(), "6.1.0-20-amd64 of the same flavour is newer and installed") {
		t.Errorf("got %v", err)
	}
}

// A package that takes the place of another one is started too, wherever its change was cut
// off, and what was chosen for the one before goes.
func TestAnotherKernelIsDesigned(t *testing.T) {
	rt, usual := []item.Item{kernelItem("linux-image-rt-amd64")}, []item.Item{kernelItem("linux-image-amd64")}
	start := func() *fake {
		f := newFake(t, grub)
		f.menu = func() { f.withKernels("6.1.0-18-amd64", "6.1.0-18-rt-amd64", "6.1.0-20-cloud-amd64") }
		f.put("/var/lib/dpkg/status", twoFlavours)
		f.menu()
		return f
	}
	for cut := 1; ; cut++ {
		f := start()
		if err := f.apply(rt); err != nil {
			t.Fatal(err)
		}
		f.writes, f.limit = 0, cut
		err := f.apply(usual)
		f.limit = 0
		f.reload()
		if err != nil {
			if seen := f.observe("kernel"); seen.Have["kernel.package"] == "linux-image-amd64" && seen.Pending["kernel.package"] == "" && grubStarts(f.read(grubConfig), nil) != "6.1.0-18-amd64" {
				t.Errorf("cut at %d: it is told as designed: %+v", cut, seen)
			}
			if err := f.apply(usual); err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
		}
		if got := grubStarts(f.read(grubConfig), nil); got != "6.1.0-18-amd64" || f.read(pendingFile) != "" {
			t.Errorf("cut at %d: %q is started", cut, got)
		}
		if seen := f.observe("kernel"); seen.Have["kernel.package"] != "linux-image-amd64" || len(seen.Pending) > 0 || seen.Waits != "" {
			t.Errorf("cut at %d: %+v", cut, seen)
		}
		if err == nil {
			break
		}
	}

	f := start()
	f.put("/var/lib/dpkg/status", twoFlavours+"\nPackage: linux-image-6.1.0-18-amd64\nStatus: install ok installed\n\nPackage: linux-image-6.6.1\nStatus: install ok installed\n")
	if err := f.apply(rt); err != nil {
		t.Fatal(err)
	}
	err := f.apply([]item.Item{kernelItem("linux-image-6.6.1")})
	if class(err) != wire.Refused || !strings.Contains(err.Error(), "no flavour") || f.read(defaultFile) != "" {
		t.Errorf("got %v, and the file is %q", err, f.read(defaultFile))
	}
}

// systemd-boot is not told: where it starts another kernel, a person has to know.
func TestTheKernelOfSystemdBoot(t *testing.T) {
	f := newFake(t, stub)
	f.put("/var/lib/dpkg/status", twoFlavours)
	if err := os.Remove(f.host.Path("/efi/loader/entries/m-6.1.conf")); err != nil {
		t.Fatal(err)
	}
	for _, r := range []string{"6.1.0-18-amd64", "6.1.0-20-cloud-amd64"} {
		f.put("/efi/loader/entries/m-"+r+".conf", "version "+r+"\nlinux /m/"+r+"/linux\noptions root=UUID=1\n")
	}
	i := []item.Item{kernelItem("linux-image-rt-amd64")}
	if err := f.apply(i); class(err) != wire.Refused || !strings.Contains(err.Error(), "still starts 6.1.0-20-cloud-amd64") {
		t.Errorf("got %v", err)
	}
	if seen := f.observe("kernel"); seen.Waits != "" {
		t.Errorf("%+v", seen)
	}
	for _, own := range []string{"/efi/loader/loader.conf", loaderDefault} {
		f.put(own, "timeout 3\ndefault m-*\n")
		if err := f.apply(i); err != nil {
			t.Errorf("it has a default of its own, in %s: %v", own, err)
		}
		if err := os.Remove(f.host.Path(own)); err != nil {
			t.Fatal(err)
		}
	}
	f.put(pendingFile, "x")
	if err := f.apply(nil, "kernel"); err != nil || slices.Contains(f.calls, "update-grub ") {
		t.Errorf("%v, %q", err, f.calls)
	}
}

// The default of a menu is the one that GRUB takes: by number, ID, title, or as it was saved.
func TestDefaultOfAMenu(t *testing.T) {
	const menu = `menuentry 'A' --id a {
	linux /vmlinuz-1
}
submenu "More of it" --id more {
	menuentry 'B' --id b {
		linux16 /boot/vmlinuz-2
	}
	menuentry 'It'\''s C' --id c {
		linuxefi /boot/vmlinuz-3
	}
}
`
	for chosen, want := range map[string]string{
		"0": "1", "more>": "1", "1": "2", "1>1": "3", "more>c": "3", "More of it>B": "2", "a": "1", "gone": "1", "more>gone": "1", "": "1", "9": "1", "0>0": "1",
	} {
		if got := grubStarts("set default=\""+chosen+"\"\n"+menu, nil); got != want {
			t.Errorf("%q starts %q, want %q", chosen, got, want)
		}
	}
	if got := grubStarts("set default=\"${saved_entry}\"\n"+menu+"menuentry 'no id' {\n\tlinux /vmlinuz-4\n}\n", nil); got != "1" {
		t.Errorf("none was saved: %q", got)
	}
	saved := map[string]string{"saved_entry": "more>b"}
	if got := grubStarts("set default=\"${saved_entry}\"\n"+menu, saved); got != "2" {
		t.Errorf("the saved one: %q", got)
	}
	saved["next_entry"] = "more>c"
	if got := grubStarts("set default=\"${saved_entry}\"\n"+menu, saved); got != "2" {
		t.Errorf("what counts once counts for good: %q", got)
	}
}

// Other programs read the file as well, and go on where GRUB's own functions are not there.
func TestTheDefaultIsReadByOthers(t *testing.T) {
	said, err := exec.Command("sh", "-ec", grubDefault("linux-image-rt-amd64", "-rt-amd64")+"echo \"ok $GRUB_DEFAULT\"").CombinedOutput()
	if err != nil || string(said) != "ok \n" {
		t.Errorf("%v, %q", err, said)
	}
}

// A kernel that is built together with the usual one is told apart by the end of its release,
// or not at all.
func TestVariantsByRPM(t *testing.T) {
	const usual, own = "5.14.0-1.el9.x86_64", "5.14.0-1.el9.x86_64+rt"
	text := "kernel-core " + usual + "\nkernel-rt-core 5.14.0-1.el9.x86_64\nkernel-64k-core 5.14.0-2.el9.x86_64\n"
	all := parseRPM(text)
	all.variants(func(release string) bool { return release == own })
	if got := all.newest("kernel-rt-core"); got != own || all.brings("kernel-rt-core", usual) || all.newest("kernel-core") != usual || all.newest("kernel-64k-core") != "5.14.0-2.el9.x86_64" {
		t.Errorf("%+v", all.releases)
	}
	all = parseRPM(text)
	all.variants(func(string) bool { return false })
	if got := all.newest("kernel-rt-core"); got != "" {
		t.Errorf("it brings %q", got)
	}
}

// The default entry of the RHEL family is set by its own program.
func TestTheDesignedKernelIsStartedByRPM(t *testing.T) {
	f := newFake(t, grubby)
	f.put("/proc/sys/kernel/osrelease", "5.14.0-1.el9.x86_64\n")
	for n, release := range map[string]string{"b-1": "5.14.0-1.el9.x86_64", "b-2": "5.14.0-2.el9.x86_64"} {
		f.put("/boot/loader/entries/"+n+".conf", "title x\nlinux /vmlinuz-"+release+"\noptions root=UUID=1 ro\n")
	}
	f.put("/boot/grub2/grubenv", "saved_entry=b-2\n")
	f.put("/var/lib/rpm/rpmdb.sqlite", "")
	if err := f.apply([]item.Item{kernelItem("kernel-core")}); err == nil || !strings.Contains(err.Error(), "there is no /boot/vmlinuz-5.14.0-1.el9.x86_64") {
		t.Errorf("got %v", err)
	}
	f.put("/boot/vmlinuz-5.14.0-1.el9.x86_64", "")
	if err := f.apply([]item.Item{kernelItem("kernel-core")}); err == nil || !strings.Contains(err.Error(), "still starts 5.14.0-2.el9.x86_64") {
		t.Errorf("got %v", err) // the program of this system changes nothing
	}
	if want := "grubby --set-default=/boot/vmlinuz-5.14.0-1.el9.x86_64"; !slices.Contains(f.calls, want) {
		t.Errorf("%q lacks %q", f.calls, want)
	}
}

func FuzzGrubMenu(f *testing.F) {
	f.Add("set default=\"1>0\"\nsubmenu 'x' --id y {\nmenuentry 'z' {\nlinux /vmlinuz-1\n}\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got := grubStarts(text, map[string]string{"saved_entry": text}); !strings.Contains(text, got) || filepath.Base(got) != got && got != "" {
			t.Errorf("starts %q of %q", got, text)
		}
	})
}
