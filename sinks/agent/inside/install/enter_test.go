package install

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// A bare devtmpfs has no /dev/fd, and no udev runs to add it: without it the scripts of clevis fail, as bash opens
// /dev/fd for a substitution of processes.
func TestDescriptorsInTheNewSystem(t *testing.T) {
	root := t.TempDir()
	target := filepath.Join(root, "target")
	var mounted []string
	h := inside.Real(root, true)
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		mounted = append(mounted, c.Args[len(c.Args)-1])
		if strings.HasSuffix(c.Args[len(c.Args)-1], "/dev") { // as the kernel has it after its start
			return inside.Output{}, os.Symlink("elsewhere", filepath.Join(target, "dev/stdin"))
		}
		return inside.Output{}, nil
	}
	if err := os.MkdirAll(filepath.Join(target, "usr/sbin"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := &work{ctx: t.Context(), h: h, target: inside.Real(target, false)}
	for range 2 { // a second system of one start of the agent has the same devtmpfs
		if err := w.enter(); err != nil {
			t.Fatal(err)
		}
		for link, want := range map[string]string{"fd": "/proc/self/fd", "stdin": "elsewhere", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
			if to, err := os.Readlink(filepath.Join(target, "dev", link)); err != nil || to != want {
				t.Errorf("/dev/%s leads to %q (%v), want %q", link, to, err, want)
			}
		}
		h.Exec = func(context.Context, inside.Command) (inside.Output, error) { return inside.Output{}, nil }
	}
	if !slices.Contains(mounted, "/target/dev") {
		t.Errorf("mounted were %q", mounted)
	}
}

// A crypttab of the system that the image was made from would have the new one wait for disks that it does not have.
func TestCrypttabIsTheDesigns(t *testing.T) {
	for _, designed := range []string{"", "luks-u\tUUID=u\tnone\tluks,initramfs\n"} {
		target := inside.Real(t.TempDir(), false)
		for _, folder := range []string{"etc", "boot"} {
			if err := os.Mkdir(target.Path(folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range map[string]string{crypttabFile: "old /dev/sdx none luks\n", "/etc/machine-id": "1\n"} {
			if err := os.WriteFile(target.Path(name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		w := &work{ctx: t.Context(), target: target, asked: &wire.Install{Layout: item.Layout{Crypttab: designed}}}
		if err := w.basics(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(target.Path(crypttabFile))
		if string(got) != designed || (designed == "") != os.IsNotExist(err) {
			t.Errorf("crypttab is %q (%v), want %q", got, err, designed)
		}
	}
}
