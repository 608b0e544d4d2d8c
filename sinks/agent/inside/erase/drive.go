package erase

import (
	"fmt"
	"io"
	"time"
	"unsafe"
)

// Drive is one whole disk through the kernel's interface. Beyond this boundary, disks may behave in any way.
type Drive interface {
	// ReadAt and WriteAt bypass the kernel's cache. Their buffers come from aligned, and offsets and lengths are
	// multiples of the sector.
	io.ReaderAt
	io.WriterAt
	// Sync makes the disk flush its own cache.
	Sync() error
	// Namespace is the number of the disk's NVMe namespace.
	Namespace() (uint32, error)
	// Admin sends an admin command to the disk's NVMe controller. If the controller answers with a status, the
	// error is an NVMeStatus.
	Admin(c *NVMeCommand) error
	// Pass sends a SCSI command. The command receives the disk's answer.
	Pass(c *SCSICommand) error
	// Discard tells the disk that a range is not needed any more. secure asks the disk to purge the range and its
	// copies.
	Discard(from, bytes int64, secure bool) error
}

// NVMeCommand is an NVMe admin command (NVM Express Base Specification 2.0, section 3.3.3.1).
type NVMeCommand struct {
	Opcode    byte
	Namespace uint32
	Data      []byte // filled by the controller; nil for none
	CDW10     uint32
	CDW11     uint32
	Timeout   time.Duration
}

// NVMeStatus is the status field of a completion without its phase tag: the code in bits 7:0, and the type in bits
// 10:8 (NVM Express Base Specification 2.0, section 3.3.3.2.1).
type NVMeStatus uint16

// Codes of the type generic (section 3.3.3.2.1, figure 94).
const (
	statusInvalidOpcode      NVMeStatus = 0x01
	statusInvalidField       NVMeStatus = 0x02
	statusSanitizeFailed     NVMeStatus = 0x1c
	statusSanitizeInProgress NVMeStatus = 0x1d
)

// code is the status without the bits More and Do Not Retry.
func (s NVMeStatus) code() NVMeStatus { return s & 0x7ff }

func (s NVMeStatus) Error() string {
	switch s.code() {
	case statusInvalidOpcode:
		return "the controller does not know the command"
	case statusInvalidField:
		return "the controller does not take the command with these values"
	case statusSanitizeFailed:
		return "the last sanitize of the disk failed, and it refuses other commands until one succeeds"
	case statusSanitizeInProgress:
		return "a sanitize of the disk is under way"
	}
	return fmt.Sprintf("the controller answered with the status %#x", uint16(s.code()))
}

// SCSICommand is a SCSI command with at most one data buffer, and its answer.
type SCSICommand struct {
	CDB     []byte
	Data    []byte
	Write   bool // Data goes to the disk
	Timeout time.Duration
	// Status is as in SAM-5, section 5.3.1: 0 is good, 2 is check condition. Sense is the disk's sense data.
	Status byte
	Sense  []byte
}

// err is the disk's error; nil on success.
func (c *SCSICommand) err() error {
	if c.Status == 0 {
		return nil
	}
	key, code := sense(c.Sense)
	switch key {
	case 0x5: // ILLEGAL REQUEST
		return fmt.Errorf("the disk does not know the command (sense code %04x)", code)
	case 0xb: // ABORTED COMMAND
		return fmt.Errorf("the disk has aborted the command (sense code %04x)", code)
	}
	return fmt.Errorf("the disk answered with the status %d, sense key %x, code %04x", c.Status, key, code)
}

// sense reads the key and code of sense data in both formats (SPC-4, section 4.5).
func sense(b []byte) (key byte, code uint16) {
	switch {
	case len(b) >= 4 && b[0]&0x7f >= 0x72: // descriptors
		return b[1] & 0xf, uint16(b[2])<<8 | uint16(b[3])
	case len(b) >= 14 && b[0]&0x7f >= 0x70: // fixed
		return b[2] & 0xf, uint16(b[12])<<8 | uint16(b[13])
	}
	return 0, 0
}

// alignment is the alignment of buffers, enough for the sectors of any disk that Linux supports.
const alignment = 4096

// aligned makes a buffer for direct reads and writes.
func aligned(n int) []byte {
	b := make([]byte, n+alignment)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (alignment - 1))
	return b[off : off+n : off+n]
}
