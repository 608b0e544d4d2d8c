package erase

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// loop is a block device of the kernel over a file.
func loop(t *testing.T, size int64) (device *os.File, backing string) {
	t.Helper()
	skip := func(why string) {
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	if os.Getuid() != 0 {
		skip("only root makes loop devices")
	}
	backing = filepath.Join(t.TempDir(), "disk")
	text := bytes.Repeat([]byte(secret), int(size)/len(secret)+1)[:size]
	if err := os.WriteFile(backing, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", backing).CombinedOutput()
	if err != nil {
		skip("losetup: " + string(out) + err.Error())
	}
	name := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v", out, err)
		}
	})
	f, err := os.OpenFile(name, os.O_RDWR|os.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, backing
}

// A loop device of the kernel discards, and promises nothing of what is read afterwards: what is
// observed is no proof, and it is written over. Nothing of what was there is left.
func TestLoopDevice(t *testing.T) {
	const size = 9<<20 + 512*3
	f, backing := loop(t, size)
	d, end, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	var told []string
	e := Disk(t.Context(), d, item.Disk{Name: filepath.Base(f.Name()), Serial: "L1", Bytes: size, Sector: 512}, func(method, _ string, _ float64) { told = append(told, method) })
	if !e.Done || e.Last().Method != "overwrite" || !strings.Contains(e.Last().Verified, "all of it was read back") {
		t.Fatalf("%+v", e)
	}
	for method, why := range map[string]string{"ata secure erase": "not an ATA disk", "secure discard": "does not take it", "discard": "proves nothing"} {
		if try, ok := tryOf(e, method); !ok || !strings.Contains(try.Why, why) {
			t.Errorf("%s: %+v", method, try)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(backing)
	if err != nil || len(is) != size || bytes.Contains(is, []byte(secret[:12])) || bytes.Contains(is, make([]byte, 64)) {
		t.Errorf("%d bytes, error %v; the secret is left: %t", len(is), err, bytes.Contains(is, []byte(secret[:12])))
	}
	if len(told) == 0 {
		t.Error("nothing was told of it")
	}
}

// Discard reaches the device: all of a file that is behind it is given back.
func TestLoopDeviceDiscards(t *testing.T) {
	const size = 8 << 20
	f, backing := loop(t, size)
	d, end, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	e := &eraser{drive: d, disk: item.Disk{Name: "loop0", Bytes: size, Sector: 512}}
	if _, err := e.discard(t.Context(), false); err == nil || !strings.Contains(err.Error(), "are gone (256 read as zeros), but the disk does not promise") {
		t.Errorf("%v", err)
	}
	is, err := os.ReadFile(backing)
	if err != nil || !isZero(is) {
		t.Errorf("it is not zero: %v", err)
	}
}
