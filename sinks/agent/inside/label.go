package inside

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// labelName is the attribute in which SELinux keeps the label of a file, such as
// "system_u:object_r:etc_t:s0".
const labelName = "security.selinux"

// maxLabel bounds a label, in bytes.
const maxLabel = 4096

// HasSELinux says whether SELinux decides what programs of the system may do with files.
func (h *Host) HasSELinux() bool {
	_, err := os.Lstat(h.Path("/sys/fs/selinux/enforce"))
	return h.Live && err == nil
}

// Label gives a file, a link or a folder that is new at its path the label that the
// policy of the system has for it. Without that it has the label of its folder, with
// which a service may not be allowed to read it.
func (h *Host) Label(path string) error {
	if !h.HasSELinux() {
		return nil
	}
	out, err := h.Exec(context.Background(), Command{Path: "restorecon", Args: []string{"--", path}, Timeout: 30 * time.Second})
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil // the label of the folder is all that there is
	case err != nil:
		return fmt.Errorf("label %s: %w", path, err)
	case out.Code != 0:
		return fmt.Errorf("label %s: restorecon: %s", path, out.LastLines(3))
	}
	return nil
}

// Startable lets systemd start a program that is in Folder. SELinux lets it start none
// whose label is that of other files in /var/lib, and the unit fails with 203/EXEC then.
// The label is the one of programs in /usr/bin.
func (h *Host) Startable(program string) error {
	if !h.HasSELinux() {
		return nil
	}
	f, err := os.Open(h.Path(program))
	if err != nil {
		return err
	}
	defer f.Close()
	label, err := labelOf(f)
	if err != nil {
		return fmt.Errorf("read the label of %s: %w", program, err)
	}
	parts := strings.SplitN(strings.TrimRight(label, "\x00"), ":", 4)
	if len(parts) < 3 || parts[2] == "bin_t" {
		return nil // no label, or one that will do
	}
	parts[2] = "bin_t"
	if err := setLabel(f, strings.Join(parts, ":")+"\x00"); err != nil {
		return fmt.Errorf("give %s the label bin_t, without which systemd may not start it: %w", program, err)
	}
	return nil
}

// CopyLabel gives a file that will take the place of another one its label, whatever a
// person has made of it. Where there is none, or none can be set, it does nothing.
func CopyLabel(to, from *os.File) {
	if label, err := labelOf(from); err == nil && label != "" {
		_ = setLabel(to, label) // it has the one of its folder then
	}
}

// opened is a path of an open file: the calls of package syscall take no other.
func opened(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// labelOf is the label of a file; empty where it has none.
func labelOf(f *os.File) (string, error) {
	text := make([]byte, maxLabel)
	n, err := syscall.Getxattr(opened(f), labelName, text)
	if errors.Is(err, syscall.ENODATA) || errors.Is(err, syscall.ENOTSUP) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(text[:n]), nil
}

func setLabel(f *os.File, label string) error {
	if is, err := labelOf(f); err == nil && is == label {
		return nil
	}
	return syscall.Setxattr(opened(f), labelName, []byte(label), 0)
}

// openRegular opens a file for its label alone; nil where there is no regular one.
func openRegular(path string) *os.File {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&fs.ModeType != 0 {
		f.Close()
		return nil
	}
	return f
}
