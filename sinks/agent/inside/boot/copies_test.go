package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// After an update of GRUB on the first EFI system partition the fallback path and the other
// partitions have it too, also one that is not mounted; where nothing has changed nothing is mounted.
// A partition that is gone is told, and dpkg goes on.
func TestCopiesAreKept(t *testing.T) {
	for _, shim := range []bool{true, false} {
		m := newMachine(t)
		m.shim = shim
		m.put(m.target, "/etc/dpkg/dpkg.cfg", "")
		plan := two
		plan.ESPs = append(plan.ESPs[:1:1], ESP{Device: "/dev/sdb1", Disk: "/dev/sdb", Number: 1, GUID: guidD, Mount: "/boot/efi2"})
		if _, err := Install(t.Context(), m.h, m.target, plan); err != nil {
			t.Fatal(err)
		}
		hook, err := os.ReadFile(m.target.Path(copiesHook))
		if err != nil || !strings.Contains(string(hook), "\npost-invoke="+copiesFile+"\n") {
			t.Errorf("dpkg is told %q, %v", hook, err)
		}
		script, err := os.ReadFile(m.target.Path(copiesFile))
		if err != nil || strings.Contains(string(script), "@") {
			t.Fatalf("%v:\n%s", err, script)
		}
		run := hostRun{t: t, root: m.target.Root, programs: t.TempDir(), script: string(script)}
		run.programsAre(`[ "$6" = "$ROOT/dev/disk/by-partuuid/`+guidD+`" ] && readlink "$6"`, "echo mounted >>$ROOT/mounts")
		first, other := m.target.Path("/boot/efi"), m.target.Path("/boot/efi2")
		run.link(other, "dev/disk/by-partuuid/"+guidD)
		starts := "grub of later"
		if shim {
			starts = "shim of later"
			m.put(m.target, "/boot/efi/EFI/debian/shimx64.efi", starts)
		}
		m.put(m.target, "/boot/efi/EFI/debian/grubx64.efi", "grub of later")
		if said := run.once(); said != "" {
			t.Errorf("it says %q", said)
		}
		for _, esp := range []string{first, other} {
			for file, want := range map[string]string{"EFI/BOOT/BOOTX64.EFI": starts, "EFI/debian/grubx64.efi": "grub of later", "EFI/debian/grub.cfg": "configuration"} {
				if is, err := os.ReadFile(filepath.Join(esp, file)); err != nil || string(is) != want {
					t.Errorf("shim %t: %s is %q, %v", shim, filepath.Join(esp, file), is, err)
				}
			}
			if shim {
				if is, err := os.ReadFile(filepath.Join(esp, "EFI/BOOT/grubx64.efi")); err != nil || string(is) != "grub of later" {
					t.Errorf("beside shim is %q, %v", is, err)
				}
			}
		}

		// Nothing has changed.
		if err := os.WriteFile(filepath.Join(other, "EFI/BOOT/BOOTX64.EFI"), []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		if said := run.once(); said != "" {
			t.Errorf("it says %q", said)
		}
		if is, _ := os.ReadFile(filepath.Join(other, "EFI/BOOT/BOOTX64.EFI")); string(is) != "mine" {
			t.Error("it copies although nothing has changed")
		}

		// The other one is not mounted.
		run.programsAre("true", `eval at=\${$#}; echo mounted >>$ROOT/mounts; rmdir "$at" && ln -s `+other+` "$at"`)
		m.put(m.target, "/boot/efi/EFI/debian/grubx64.efi", "grub of today")
		if said := run.once(); said != "" {
			t.Errorf("it says %q", said)
		}
		if is, _ := os.ReadFile(filepath.Join(other, "EFI/debian/grubx64.efi")); string(is) != "grub of today" {
			t.Errorf("the one that is not mounted has %q", is)
		}
		if _, err := os.Stat(filepath.Join(run.root, "mounts")); err != nil {
			t.Error("nothing was mounted")
		}

		// The other disk is gone, and then the first one.
		if err := os.Remove(filepath.Join(run.root, "dev/disk/by-partuuid", guidD)); err != nil {
			t.Fatal(err)
		}
		m.put(m.target, "/boot/efi/EFI/debian/grubx64.efi", "grub of tomorrow")
		for range 2 {
			if said := run.once(); !strings.Contains(said, "slipway: the boot loader could not be copied to the partition "+guidD+", which is not there.") {
				t.Errorf("it says %q", said)
			}
		}
		if err := os.RemoveAll(filepath.Join(first, "EFI")); err != nil {
			t.Fatal(err)
		}
		if said := run.once(); said != "" {
			t.Errorf("without the first partition it says %q", said)
		}
	}
}

// hostRun runs the script below a root folder, with programs for mounts of the test's own.
type hostRun struct {
	t                      *testing.T
	root, programs, script string
}

func (r hostRun) link(to, path string) {
	r.t.Helper()
	at := filepath.Join(r.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		r.t.Fatal(err)
	}
}

// programsAre says what findmnt and mount do.
func (r hostRun) programsAre(findmnt, mount string) {
	r.t.Helper()
	for name, text := range map[string]string{"findmnt": findmnt, "mount": mount, "umount": `rm "$1" && mkdir "$1"`} {
		if err := os.WriteFile(filepath.Join(r.programs, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
}

// once runs it once, and gives what it says. It never fails.
func (r hostRun) once() string {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Join(r.root, "run"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	text := strings.NewReplacer("=/boot", "="+r.root+"/boot", "=/dev/disk", "="+r.root+"/dev/disk", "=/var/lib", "="+r.root+"/var/lib", " /run/", " "+r.root+"/run/").Replace(r.script)
	cmd := exec.CommandContext(r.t.Context(), "sh", "-c", text, "copy-boot-loader")
	cmd.Env = append(os.Environ(), "PATH="+r.programs+":"+os.Getenv("PATH"), "ROOT="+r.root)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Errorf("it ended with %v", err)
	}
	return string(out)
}
