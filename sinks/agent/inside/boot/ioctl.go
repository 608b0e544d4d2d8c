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

// mutable lets a variable be removed: the kernel marks those that it does not know, so that
// nobody removes by accident what some firmware needs to start.
func mutable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var flags uint32
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), getFlags, uintptr(unsafe.Pointer(&flags))); e == syscall.ENOTTY || e == syscall.ENOTSUP {
		return nil // no such marks here
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
