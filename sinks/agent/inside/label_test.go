package inside_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

const (
	etcLabel    = "system_u:object_r:etc_t:s0\x00"
	peopleLabel = "unconfined_u:object_r:httpd_config_t:s0\x00"
)

// labelled is a system whose files have labels of SELinux, and what its restorecon was
// asked for.
func labelled(t *testing.T) (h *inside.Host, asked *[]string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root may set labels")
		}
		t.Skip("only root may set labels")
	}
	h, asked = inside.Real(t.TempDir(), true), new([]string)
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		*asked = append(*asked, c.Path+" "+strings.Join(c.Args, " "))
		return inside.Output{}, nil
	}
	file(t, h.Path("/sys/fs/selinux/enforce"), "1")
	return h, asked
}

func file(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

func setLabel(t *testing.T, path, label string) {
	t.Helper()
	if err := syscall.Setxattr(path, "security.selinux", []byte(label), 0); err != nil {
		t.Fatal(err)
	}
}

func hasLabel(t *testing.T, path, want string) {
	t.Helper()
	text := make([]byte, 256)
	n, err := syscall.Getxattr(path, "security.selinux", text)
	if err != nil && !errors.Is(err, syscall.ENODATA) {
		t.Fatal(err)
	}
	if got := string(text[:max(n, 0)]); got != want {
		t.Errorf("%s has the label %q, want %q", path, got, want)
	}
}

// What takes the place of a file has its label, whoever set it.
func TestLabelsStay(t *testing.T) {
	h, asked := labelled(t)
	at := h.Path("/etc/app.conf")
	file(t, at, "before")
	setLabel(t, at, peopleLabel)
	if err := inside.WriteFile(at, []byte("after"), 0o644); err != nil {
		t.Fatal(err)
	}
	hasLabel(t, at, peopleLabel)

	files, err := tree.Open(h.Root)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	files.Label = h.Label
	if err := files.Put("/etc/app.conf", []byte("later"), 0o600, 0, 0); err != nil {
		t.Fatal(err)
	}
	hasLabel(t, at, peopleLabel)
	if len(*asked) > 0 {
		t.Errorf("a file that was there before was labelled: %v", *asked)
	}
}

// What is new has the label that the policy has for its path, and so have its folders.
func TestWhatIsNewIsLabelled(t *testing.T) {
	h, asked := labelled(t)
	files, err := tree.Open(h.Root)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	files.Label = h.Label
	if err := files.Put("/etc/new/a.conf", []byte("a"), 0o644, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := files.PutLink("/etc/new/b.conf", "a.conf", 0, 0); err != nil {
		t.Fatal(err)
	}
	if want := []string{"restorecon -- /etc", "restorecon -- /etc/new", "restorecon -- /etc/new/a.conf", "restorecon -- /etc/new/b.conf"}; !slices.Equal(*asked, want) {
		t.Errorf("labelled %v, want %v", *asked, want)
	}

	h.Exec = func(context.Context, inside.Command) (inside.Output, error) {
		return inside.Output{Code: 1, Err: []byte("restorecon: no such label")}, nil
	}
	if err := files.Put("/etc/new/c.conf", []byte("c"), 0o644, 0, 0); err == nil || !strings.Contains(err.Error(), "no such label") {
		t.Errorf("a label that cannot be set: %v", err)
	}
	h.Exec = func(context.Context, inside.Command) (inside.Output, error) {
		return inside.Output{Code: 127}, &exec.Error{Name: "restorecon", Err: exec.ErrNotFound}
	}
	if err := files.Put("/etc/new/d.conf", []byte("d"), 0o644, 0, 0); err != nil {
		t.Errorf("without restorecon: %v", err)
	}
}

// systemd may start a program of ours, and nothing else of it is changed.
func TestProgramsCanBeStarted(t *testing.T) {
	h, asked := labelled(t)
	program := inside.Folder + "/helper-1"
	file(t, h.Path(program), "#!/bin/sh\n")
	if err := h.Startable(program); err != nil {
		t.Fatal(err)
	}
	hasLabel(t, h.Path(program), "") // a file system without labels
	setLabel(t, h.Path(program), "unconfined_u:object_r:var_lib_t:s0:c1,c2\x00")
	for range 2 {
		if err := h.Startable(program); err != nil {
			t.Fatal(err)
		}
		hasLabel(t, h.Path(program), "unconfined_u:object_r:bin_t:s0:c1,c2\x00")
	}
	setLabel(t, h.Path(program), etcLabel)
	h.Live = false
	if err := h.Startable(program); err != nil {
		t.Fatal(err)
	}
	hasLabel(t, h.Path(program), etcLabel)
	if len(*asked) > 0 {
		t.Errorf("ran %v", *asked)
	}
}

// Without SELinux nothing is run.
func TestNothingIsLabelledWithoutSELinux(t *testing.T) {
	h, asked := labelled(t)
	if err := os.RemoveAll(h.Path("/sys/fs/selinux")); err != nil {
		t.Fatal(err)
	}
	if err := h.Label("/etc/motd"); err != nil || len(*asked) > 0 {
		t.Errorf("%v, ran %v", err, *asked)
	}
}
