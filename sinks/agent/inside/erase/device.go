package erase

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// These are requests of the kernel's linux/nvme_ioctl.h, scsi/sg.h and linux/fs.h.
const (
	nvmeID        = 0x4e40
	nvmeAdmin     = 0xc0484e41
	sgIO          = 0x2285
	discardBytes  = 0x1277 // BLKDISCARD
	discardSecure = 0x127d // BLKSECDISCARD
)

// device is a disk of this machine. Reads and writes bypass the kernel's cache.
type device struct {
	held   *os.File
	direct *os.File
}

// Open makes a Drive from a disk's file that was opened exclusively.
func Open(held *os.File) (Drive, func() error, error) {
	direct, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", held.Fd()), os.O_RDWR|syscall.O_DIRECT, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s past the kernel's memory: %w", held.Name(), err)
	}
	d := &device{held, direct}
	return d, direct.Close, nil
}

func (d *device) ReadAt(b []byte, at int64) (int, error)  { return d.direct.ReadAt(b, at) }
func (d *device) WriteAt(b []byte, at int64) (int, error) { return d.direct.WriteAt(b, at) }
func (d *device) Sync() error                             { return d.direct.Sync() }

// Namespace implements Drive.
func (d *device) Namespace() (uint32, error) {
	n, _, e := syscall.Syscall(syscall.SYS_IOCTL, d.held.Fd(), nvmeID, 0)
	if e != 0 {
		return 0, e
	}
	return uint32(n), nil
}

// passthru is struct nvme_passthru_cmd.
type passthru struct {
	opcode, flags                            uint8
	_                                        uint16
	namespace, cdw2, cdw3                    uint32
	metadata, address                        uint64
	metadataLength, length                   uint32
	cdw10, cdw11, cdw12, cdw13, cdw14, cdw15 uint32
	timeout, result                          uint32
}

// Admin implements Drive.
func (d *device) Admin(c *NVMeCommand) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	p := &passthru{opcode: c.Opcode, namespace: c.Namespace, cdw10: c.CDW10, cdw11: c.CDW11, timeout: uint32(c.Timeout.Milliseconds()), length: uint32(len(c.Data))}
	if len(c.Data) > 0 {
		at := unsafe.SliceData(c.Data)
		pin.Pin(at)
		p.address = uint64(uintptr(unsafe.Pointer(at)))
	}
	pin.Pin(p)
	status, _, e := syscall.Syscall(syscall.SYS_IOCTL, d.held.Fd(), nvmeAdmin, uintptr(unsafe.Pointer(p)))
	switch {
	case e != 0:
		return e
	case status != 0:
		return NVMeStatus(status)
	}
	return nil
}

// sgHeader is struct sg_io_hdr.
type sgHeader struct {
	id, direction             int32
	cdbLength, senseMost      uint8
	_                         uint16
	length                    uint32
	data, cdb, sense          unsafe.Pointer
	timeout, flags            uint32
	_                         int32
	_                         unsafe.Pointer
	status, _, _, senseLength uint8
	hostStatus, driverStatus  uint16
	resid                     int32
	duration, info            uint32
}

// Pass implements Drive.
func (d *device) Pass(c *SCSICommand) error {
	const none, toDisk, fromDisk = -1, -2, -3
	var pin runtime.Pinner
	defer pin.Unpin()
	sense := make([]byte, 64)
	h := &sgHeader{id: 'S', direction: none, cdbLength: uint8(len(c.CDB)), senseMost: uint8(len(sense)), length: uint32(len(c.Data)), timeout: uint32(c.Timeout.Milliseconds())}
	at := func(b []byte) unsafe.Pointer {
		p := unsafe.SliceData(b)
		pin.Pin(p)
		return unsafe.Pointer(p)
	}
	h.cdb, h.sense = at(c.CDB), at(sense)
	if len(c.Data) > 0 {
		h.data, h.direction = at(c.Data), fromDisk
		if c.Write {
			h.direction = toDisk
		}
	}
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, d.held.Fd(), sgIO, uintptr(unsafe.Pointer(h))); e != 0 {
		return e
	}
	c.Status, c.Sense = h.status, sense[:min(int(h.senseLength), len(sense))]
	if c.Status == 0 && (h.hostStatus != 0 || h.driverStatus&0x7 != 0) {
		return fmt.Errorf("the controller did not carry the command to the disk (host status %#x, driver status %#x)", h.hostStatus, h.driverStatus)
	}
	return nil
}

// Discard implements Drive.
func (d *device) Discard(from, bytes int64, secure bool) error {
	request := uintptr(discardBytes)
	if secure {
		request = discardSecure
	}
	stretch := [2]uint64{uint64(from), uint64(bytes)}
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, d.held.Fd(), request, uintptr(unsafe.Pointer(&stretch))); e != 0 {
		return e
	}
	return nil
}
