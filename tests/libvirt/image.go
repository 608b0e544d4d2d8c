package libvirt

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

var (
	//go:embed image.sh
	imageScript []byte
	//go:embed guest.sh
	guestScript []byte
)

// Image is a small Debian for guests, as a qcow2 with extlinux for BIOS, and its
// SHA-256. It has systemd, networkd, sshd and cloud-init, which reads a seed
// (NoCloud) from a disk or a virtio-scsi CD-ROM and nothing else; Debian's kernel
// for clouds has no driver for SATA. There are no host keys and no accounts to log
// in to but those of the seed. It starts in 256 MiB.
//
// It is made at the first use, which takes a minute, and kept in the user's cache.
func Image(t Test) (path, digest string) {
	t.Helper()
	require(t, "mmdebstrap", "qemu-img", "bash")
	recipe := sha256.Sum256(append(imageScript, guestScript...))
	path = filepath.Join(cache(t, "images"), hex.EncodeToString(recipe[:8])+".qcow2")
	defer lock(t, path+".lock")()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		makeImage(t, path)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return path, hex.EncodeToString(h.Sum(nil))
}

// makeImage runs the recipe, in mounts of its own.
func makeImage(t Test, path string) {
	t.Helper()
	work := t.TempDir()
	script, guest := filepath.Join(work, "image.sh"), filepath.Join(work, "guest.sh")
	for file, text := range map[string][]byte{script: imageScript, guest: guestScript} {
		if err := os.WriteFile(file, text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", script, guest, path+".new")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make an image for guests: %v\n%s", err, out)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// lock keeps other processes from making the same, until it is called back.
func lock(t Test, path string) (unlock func()) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
