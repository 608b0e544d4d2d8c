package erase

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// fakeBytes is the size of a fake disk. It is no multiple of what is written at once.
const fakeBytes = 5<<20 + 3*4096

const secret = "the ledger of a customer"

// fake is a disk in memory that is as unkind as real ones. Its methods are what the kernel would
// pass on.
type fake struct {
	mu   sync.Mutex
	data []byte
	nvme *fakeNVMe // nil for none
	ata  *fakeATA  // nil for none
	scsi *fakeSCSI // nil for none
	// secureDiscards and discards say that it takes them; zeroes, that it does what it says of
	// them, and keeps that it leaves the first half as it is.
	secureDiscards, discards, zeroes, keeps bool
	// deaf has writes be answered and forgotten, broken is where it cannot be written.
	deaf   bool
	broken int64
	writes int
	sent   []string // commands that erase, in order
}

func newFake() *fake {
	f := &fake{data: bytes.Repeat([]byte(secret+"\x00"), fakeBytes/len(secret)+1)[:fakeBytes], broken: -1}
	return f
}

func (f *fake) holdsSecret() bool { return bytes.Contains(f.data, []byte(secret)) }

// tryFrom is a try of a method, in a list.
func tryOf(e item.Erasure, method string) (t item.EraseTry, ok bool) {
	for _, t := range e.Tries {
		if t.Method == method {
			return t, true
		}
	}
	return t, false
}

// wipe erases what the disk erases by itself, all or half of it.
func (f *fake) wipe(half bool) {
	to := len(f.data)
	if half {
		to /= 2
	}
	clear(f.data[:to])
}

func (f *fake) refuses() error {
	switch n := f.nvme; {
	case n != nil && n.is() == sanitizing:
		return errors.New("input/output error (sanitize in progress)")
	case n != nil && n.is() == sanitizeFailed && !n.left:
		return errors.New("input/output error (sanitize failed)")
	case f.ata != nil && f.ata.locked:
		return errors.New("input/output error (locked)")
	}
	return nil
}

func (f *fake) ReadAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuses(); err != nil {
		return 0, err
	}
	if uintptrOf(b)%alignment != 0 || at%512 != 0 || len(b)%512 != 0 || at+int64(len(b)) > fakeBytes {
		return 0, syscall.EINVAL
	}
	return copy(b, f.data[at:]), nil
}

func (f *fake) WriteAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuses(); err != nil {
		return 0, err
	}
	if uintptrOf(b)%alignment != 0 || at%512 != 0 || len(b)%512 != 0 || at+int64(len(b)) > fakeBytes {
		return 0, syscall.EINVAL
	}
	if f.broken >= at && f.broken < at+int64(len(b)) {
		return 0, syscall.EIO
	}
	f.writes++
	if f.deaf && f.writes > 2*mostSamples {
		return len(b), nil
	}
	return copy(f.data[at:], b), nil
}

func (f *fake) Sync() error { return nil }

func (f *fake) Discard(from, n int64, secure bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if secure && !f.secureDiscards || !secure && !f.discards {
		return syscall.EOPNOTSUPP
	}
	f.sent = append(f.sent, map[bool]string{true: "secure discard", false: "discard"}[secure])
	if f.zeroes && from == 0 {
		f.wipe(f.keeps)
	}
	return nil
}

// fakeNVMe is an NVMe controller.
type fakeNVMe struct {
	identify [pageSize]byte // of the controller
	ns       [pageSize]byte
	own      uint32
	others   []uint32 // namespaces
	// The state of its sanitize, and of one under way when it ends and how.
	state byte
	ends  time.Time
	after byte
	cdw10 uint32
	took  time.Duration
	left  bool // the state of failure was left
	// fails has each sanitize fail, once has it fail the first time.
	fails, once bool
	// lies has it say that it is done and erase nothing, half erase half; stale tells of another
	// sanitize than it was asked for, nothing takes a command and does nothing.
	lies, half, stale, nothing bool
	// never has a sanitize never end; silent has the log page not be answered while one goes on.
	never, silent bool
	formatFails   bool
}

// newNVMe is a controller with all methods and one namespace.
func newNVMe() *fakeNVMe {
	n := &fakeNVMe{own: 1, took: 3 * time.Minute}
	n.identify[256] = 1 << 1 // OACS: format
	n.identify[524] = 1 << 2 // FNA: cryptographic erase
	n.identify[328] = 7      // SANICAP
	n.ns[26], n.ns[29] = 0x11, 0x0a
	return n
}

func (n *fakeNVMe) is() byte {
	if n.state == sanitizing && !n.never && time.Now().After(n.ends) {
		n.state = n.after
	}
	return n.state
}

func (f *fake) Namespace() (uint32, error) {
	if f.nvme == nil {
		return 0, syscall.ENOTTY
	}
	return f.nvme.own, nil
}

func (f *fake) Admin(c *NVMeCommand) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nvme
	if n == nil {
		return syscall.ENOTTY
	}
	if c.Timeout <= 0 {
		return syscall.EINVAL
	}
	state := n.is()
	switch {
	case c.Opcode == 0x06 && c.CDW10 == 0x01 && c.Namespace == 0:
		copy(c.Data, n.identify[:])
	case c.Opcode == 0x06 && c.CDW10 == 0x00 && c.Namespace == n.own:
		copy(c.Data, n.ns[:])
	case c.Opcode == 0x06 && c.CDW10 == 0x02 && c.Namespace == 0, c.Opcode == 0x06 && c.CDW10 == 0x10 && c.Namespace == 0 && n.identify[256]&(1<<3) != 0:
		for i, id := range append([]uint32{n.own}, n.others...) {
			binary.LittleEndian.PutUint32(c.Data[4*i:], id)
		}
	case c.Opcode == 0x02 && c.CDW10 == 0x007f0081 && c.Namespace == 0xffffffff && len(c.Data) == 512:
		if n.identify[328] == 0 {
			return statusInvalidField
		}
		if n.silent && state == sanitizing {
			return syscall.EIO
		}
		if state == sanitizing {
			left := max(0, time.Until(n.ends))
			binary.LittleEndian.PutUint16(c.Data[0:], uint16(65535*(n.took-left)/n.took))
		}
		c.Data[2] = state | 0x08 // a pass of an overwrite
		binary.LittleEndian.PutUint32(c.Data[4:], n.cdw10)
		binary.LittleEndian.PutUint32(c.Data[8:], 0xffffffff)
		binary.LittleEndian.PutUint32(c.Data[12:], 120)
		binary.LittleEndian.PutUint32(c.Data[16:], 5)
	case c.Opcode == 0x84 && state == sanitizing:
		return statusSanitizeInProgress | 0x4000
	case c.Opcode == 0x84 && c.CDW10 == 1:
		f.sent = append(f.sent, "exit failure mode")
		if n.cdw10&allowUnrestricted == 0 {
			return statusSanitizeFailed
		}
		n.left = true
	case c.Opcode == 0x84:
		can, ok := map[uint32]byte{0x0a: 1 << 1, 0x0c: 1 << 0, 0x1b: 1 << 2}[c.CDW10]
		if !ok || n.identify[328]&can == 0 {
			return statusInvalidField
		}
		f.sent = append(f.sent, "sanitize "+hex.EncodeToString([]byte{byte(c.CDW10)}))
		if n.nothing {
			return nil
		}
		n.state, n.ends, n.after, n.cdw10, n.left = sanitizing, time.Now().Add(n.took), sanitized, c.CDW10, false
		if n.stale {
			n.cdw10 = 0x0b
		}
		if n.fails || n.once {
			n.after, n.once = sanitizeFailed, false
		} else if !n.lies {
			f.wipe(n.half)
		}
	case c.Opcode == 0x80 && state == sanitizing:
		return statusSanitizeInProgress
	case c.Opcode == 0x80 && state == sanitizeFailed && !n.left:
		return statusSanitizeFailed
	case c.Opcode == 0x80:
		// LBAF 1, MSET 1, PI 2, PIL 1 of the namespace, and SES.
		if c.CDW10 != 0x151|1<<9 && c.CDW10 != 0x151|2<<9 || c.Namespace != n.own || n.identify[256]&2 == 0 {
			return statusInvalidField
		}
		f.sent = append(f.sent, "format "+string('0'+rune(c.CDW10>>9)))
		if n.formatFails {
			return NVMeStatus(0x10a) // invalid format
		}
		if !n.lies {
			f.wipe(n.half)
		}
	default:
		return statusInvalidOpcode
	}
	return nil
}

// fakeATA is an ATA disk behind a controller that translates (SAT).
type fakeATA struct {
	words  map[int]uint16
	frozen bool
	// enabled, locked and has are its password.
	enabled, locked bool
	has             string
	prepared        bool
	took            time.Duration
	// fails has the erase end with an error, cut has the machine lose its power in it; lies has
	// it erase nothing, stays has it keep its password after it, half erase half.
	fails, cut, lies, stays, half bool
}

// newATA is a disk with an enhanced erase.
func newATA() *fakeATA {
	return &fakeATA{words: map[int]uint16{82: 1 << 1, 128: 1 | 1<<5, 89: 30, 90: 1<<15 | 400}, took: 90 * time.Minute}
}

func (f *fake) Pass(c *SCSICommand) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := hex.EncodeToString(c.CDB)
	refuse := func(key byte, code uint16) error {
		c.Status, c.Sense = 2, []byte{0x72, key, byte(code >> 8), byte(code)}
		return nil
	}
	if f.scsi != nil && strings.HasPrefix(text, "9e10") {
		if len(c.Data) != 32 || text != "9e100000000000000000000000200000" {
			return syscall.EINVAL
		}
		if f.scsi.zeroes {
			c.Data[14] = 1<<7 | 1<<6
		}
		return nil
	}
	a := f.ata
	if a == nil && f.scsi == nil {
		return syscall.ENOTTY
	}
	if a == nil {
		return refuse(0x5, 0x2000)
	}
	password := func() string { return strings.TrimRight(string(c.Data[2:34]), "\x00") }
	aborted := func() error { return refuse(0xb, 0) }
	switch text {
	case "85080e000000010000000000000000ec" + "00"[:0], "85080e0000000100000000000000ec00":
		if len(c.Data) != 512 {
			return syscall.EINVAL
		}
		for n, v := range a.words {
			if n == 128 {
				for bit, on := range map[int]bool{1: a.enabled, 2: a.locked, 3: a.frozen} {
					if on {
						v |= 1 << bit
					}
				}
			}
			binary.LittleEndian.PutUint16(c.Data[2*n:], v)
		}
	case "850a06" + "000000" + "01" + "00000000000000" + "f100":
		if a.frozen || a.locked || len(c.Data) != 512 || c.Data[0] != 0 {
			return aborted()
		}
		a.enabled, a.has = true, password()
		f.sent = append(f.sent, "set password")
	case "850a06" + "000000" + "01" + "00000000000000" + "f200":
		if a.frozen || !a.locked || password() != a.has {
			return aborted()
		}
		a.locked = false
		f.sent = append(f.sent, "unlock")
	case "850a06" + "000000" + "01" + "00000000000000" + "f600":
		if a.frozen || a.locked || password() != a.has {
			return aborted()
		}
		a.enabled, a.has = false, ""
		f.sent = append(f.sent, "disable password")
	case "8506000000000000000000000000f300":
		a.prepared = true
	case "850a06" + "000000" + "01" + "00000000000000" + "f400":
		if !a.prepared || !a.enabled || password() != a.has || c.Data[0] != 2 && a.words[128]&(1<<5) != 0 {
			return aborted()
		}
		a.prepared = false
		f.sent = append(f.sent, "erase unit")
		f.mu.Unlock()
		time.Sleep(a.took)
		f.mu.Lock()
		switch {
		case c.Timeout < a.took:
			return errors.New("the controller gave up")
		case a.cut:
			a.locked = true
			f.wipe(true)
			return errors.New("the disk is gone")
		case a.fails:
			return aborted()
		case !a.lies:
			f.wipe(a.half)
		}
		if !a.stays {
			a.enabled, a.has = false, ""
		}
	default:
		return refuse(0x5, 0x2000)
	}
	return nil
}

// fakeSCSI is a SAS disk.
type fakeSCSI struct{ zeroes bool }
