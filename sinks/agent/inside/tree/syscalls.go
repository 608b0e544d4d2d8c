package tree

import (
	"syscall"
	"unsafe"
)

// Constants of Linux that package syscall lacks. They are the same on amd64 and arm64.
const (
	oPath      = 0x200000 // O_PATH
	atWorking  = -0x64    // AT_FDCWD
	atNoFollow = 0x100    // AT_SYMLINK_NOFOLLOW
	atFolder   = 0x200    // AT_REMOVEDIR
	maxTarget  = 4096     // PATH_MAX
)

// openAt is openat(2), retried after signals.
func openAt(folder int, name string, flags int, mode uint32) (int, error) {
	for {
		handle, err := syscall.Openat(folder, name, flags|syscall.O_CLOEXEC, mode)
		if err != syscall.EINTR {
			return handle, err
		}
	}
}

// statAt returns the status of a name in a folder. It does not follow links.
func statAt(folder int, name string) (s syscall.Stat_t, err error) {
	handle, err := openAt(folder, name, oPath|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return s, err
	}
	defer syscall.Close(handle)
	err = syscall.Fstat(handle, &s)
	return s, err
}

// readLink is the target of a link in a folder, or of an open link if name is empty.
func readLink(folder int, name string) (string, error) {
	at, err := syscall.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	target := make([]byte, maxTarget)
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(folder), uintptr(unsafe.Pointer(at)),
		uintptr(unsafe.Pointer(&target[0])), uintptr(len(target)), 0, 0)
	if errno != 0 {
		return "", errno
	}
	return string(target[:n]), nil
}

// symlinkAt is symlinkat(2).
func symlinkAt(target string, folder int, name string) error {
	to, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	at, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(to)), uintptr(folder), uintptr(unsafe.Pointer(at)))
	if errno != 0 {
		return errno
	}
	return nil
}

// unlinkAt is unlinkat(2).
func unlinkAt(folder int, name string, flags int) error {
	at, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_UNLINKAT, uintptr(folder), uintptr(unsafe.Pointer(at)), uintptr(flags))
	if errno != 0 {
		return errno
	}
	return nil
}
