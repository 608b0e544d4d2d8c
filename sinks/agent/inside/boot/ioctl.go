package boot

import (
	"os"
	"syscall"
	"unsafe"
)

// FS_IOC_GETFLAGS, FS_IOC_SETFLAGS and FS_IMMUTABLE_FL of the kernel's linux/fs.h.
const (
	getFlags  = 0x80086601
	setFlags  = 0x40086602
	immutable = 0x10
)

// mutable allows a variable to be removed. The kernel marks variables that it does not know as immutable, because
// some firmware needs them to boot.
func mutable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var flags uint32
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), getFlags, uintptr(unsafe.Pointer(&flags))); e == syscall.ENOTTY || e == syscall.ENOTSUP {
		return nil // this file system has no such flags
	} else if e != 0 {
		return e
	}
	if flags&immutable == 0 {
		return nil
	}
	flags &^= immutable
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), setFlags, uintptr(unsafe.Pointer(&flags))); e != 0 {
		return e
	}
	return nil
}
