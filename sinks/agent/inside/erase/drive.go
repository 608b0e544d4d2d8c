package erase

import (
	"fmt"
	"io"
	"time"
	"unsafe"
)

// Drive is one whole disk, as the kernel lets it be asked: the boundary behind which disks do
// what they like.
type Drive interface {
	// ReadAt and WriteAt go past the kernel's memory to the disk. Their buffers are those of
	// aligned, and places and lengths are multiples of the sector.
	io.ReaderAt
	io.WriterAt
	// Sync has the disk write what it keeps in a memory of its own.
	Sync() error
	// Namespace is the number of the NVMe namespace that the disk is.
	Namespace() (uint32, error)
	// Admin sends an admin command to the disk's NVMe controller. A status that the controller
	// answers is a NVMeStatus.
	Admin(c *NVMeCommand) error
	// Pass sends a SCSI command. What the disk answers to it is in the command.
	Pass(c *SCSICommand) error
	// Discard tells the disk that a stretch is not needed any more; secure asks it to purge
	// that, and its copies.
	Discard(from, bytes int64, secure bool) error
}

// NVMeCommand is an NVMe admin command (NVM Express Base Specification 2.0, section 3.3.3.1).
type NVMeCommand struct {
	Opcode    byte
	Namespace uint32
	Data      []byte // that the controller writes; nil for none
	CDW10     uint32
	CDW11     uint32
	Timeout   time.Duration
}

// NVMeStatus is the status field of a completion without its phase tag: the code in bits 7:0,
// its type in bits 10:8 (NVM Express Base Specification 2.0, section 3.3.3.2.1).
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

// SCSICommand is a SCSI command with at most one stretch of data, and its answer.
type SCSICommand struct {
	CDB     []byte
	Data    []byte
	Write   bool // Data goes to the disk
	Timeout time.Duration
	// Status is that of SAM-5, section 5.3.1: 0 is good, 2 check condition. Sense is what the
	// disk told of it.
	Status byte
	Sense  []byte
}

// err is what a disk answered where it did not do what it was asked for.
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

// sense reads key and code of sense data in both of its forms (SPC-4, section 4.5).
func sense(b []byte) (key byte, code uint16) {
	switch {
	case len(b) >= 4 && b[0]&0x7f >= 0x72: // descriptors
		return b[1] & 0xf, uint16(b[2])<<8 | uint16(b[3])
	case len(b) >= 14 && b[0]&0x7f >= 0x70: // fixed
		return b[2] & 0xf, uint16(b[12])<<8 | uint16(b[13])
	}
	return 0, 0
}

// alignment is that of buffers, enough for the sectors of any disk that Linux drives.
const alignment = 4096

// aligned is a buffer that a disk can be read into without the kernel's memory between.
func aligned(n int) []byte {
	b := make([]byte, n+alignment)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (alignment - 1))
	return b[off : off+n : off+n]
}
