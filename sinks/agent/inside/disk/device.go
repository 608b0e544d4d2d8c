package disk

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// errBusy is the kernel's error if something else uses a disk.
const errBusy = syscall.EBUSY

// rereadTable is BLKRRPART of the kernel's linux/fs.h.
const rereadTable = 0x125f

// reread makes the kernel read a disk's table again. The kernel refuses while a partition is open, for example
// briefly by udev.
func reread(f *os.File) error {
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), rereadTable, 0); e != 0 {
		return e
	}
	return nil
}

// forgetBuffers is BLKFLSBUF of the kernel's linux/fs.h.
const forgetBuffers = 0x1261

// forget makes the kernel drop its cache of a block device.
func forget(f *os.File) error {
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), forgetBuffers, 0); e != 0 {
		return e
	}
	return nil
}

// partitionsOf is BLKPG of the kernel's linux/blkpg.h, and addPartition its
// BLKPG_ADD_PARTITION.
const (
	partitionsOf = 0x1269
	addPartition = 1
)

// blkpgPartition is struct blkpg_partition, blkpgArg struct blkpg_ioctl_arg.
type (
	blkpgPartition struct {
		start, length   int64
		number          int32
		devname, volume [64]byte
	}
	blkpgArg struct {
		op, flags, datalen int32
		data               unsafe.Pointer
	}
)

// lend tells the kernel about a partition, in bytes, that is in no table.
func lend(f *os.File, number int, start, length int64) error {
	p := blkpgPartition{start: start, length: length, number: int32(number)}
	a := blkpgArg{op: addPartition, datalen: int32(unsafe.Sizeof(p)), data: unsafe.Pointer(&p)}
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), partitionsOf, uintptr(unsafe.Pointer(&a))); e != 0 {
		return e
	}
	return nil
}

// deviceNumber is the number of an open block device, as "major:minor".
func deviceNumber(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || s.Mode&syscall.S_IFMT != syscall.S_IFBLK {
		return "", fmt.Errorf("%s is not a block device; nothing was written", f.Name())
	}
	d := uint64(s.Rdev)
	return fmt.Sprintf("%d:%d", d>>8&0xfff|d>>32&^0xfff, d&0xff|d>>12&^0xff), nil
}
