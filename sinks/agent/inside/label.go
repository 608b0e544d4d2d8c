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

// labelName is the attribute with a file's SELinux label, such as "system_u:object_r:etc_t:s0".
const labelName = "security.selinux"

// maxLabel is the maximum size of a label, in bytes.
const maxLabel = 4096

// HasSELinux reports whether SELinux controls the file access of the system's programs.
func (h *Host) HasSELinux() bool {
	_, err := os.Lstat(h.Path("/sys/fs/selinux/enforce"))
	return h.Live && err == nil
}

// Label gives a new file, link or folder the label that the system's policy has for its path. Otherwise it has its
// folder's label, with which a service may not be allowed to read it.
func (h *Host) Label(path string) error {
	if !h.HasSELinux() {
		return nil
	}
	out, err := h.Exec(context.Background(), Command{Path: "restorecon", Args: []string{"--", path}, Timeout: 30 * time.Second})
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil // the label of the folder stays
	case err != nil:
		return fmt.Errorf("label %s: %w", path, err)
	case out.Code != 0:
		return fmt.Errorf("label %s: restorecon: %s", path, out.LastLines(3))
	}
	return nil
}

// Startable lets systemd start a program in Folder. It sets the label of programs in /usr/bin. With the usual label
// of /var/lib, SELinux prevents the start, and the unit fails with 203/EXEC.
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
		return nil // no label, or the right one
	}
	parts[2] = "bin_t"
	if err := setLabel(f, strings.Join(parts, ":")+"\x00"); err != nil {
		return fmt.Errorf("give %s the label bin_t, without which systemd may not start it: %w", program, err)
	}
	return nil
}

// CopyLabel copies a file's label, which a person may have changed, to its replacement. Without a label, or if
// setting it fails, nothing changes.
func CopyLabel(to, from *os.File) {
	if label, err := labelOf(from); err == nil && label != "" {
		_ = setLabel(to, label) // otherwise it keeps its folder's label
	}
}

// opened is the path of an open file: some calls of package syscall only take a path.
func opened(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// labelOf is the label of a file; empty if it has none.
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

// openRegular opens a regular file for its label; nil for anything else.
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
