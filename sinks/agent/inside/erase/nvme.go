package erase

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Admin commands (NVM Express Base Specification 2.0, figure 138).
const (
	opGetLogPage = 0x02
	opIdentify   = 0x06
	opFormat     = 0x80
	opSanitize   = 0x84
)

// These are the data structures of Identify (section 5.17.1, CNS).
const (
	cnsNamespace  = 0x00 // of one namespace (NVM Command Set Specification, section 4.1.5.1)
	cnsController = 0x01
	cnsActive     = 0x02 // the active namespaces of the controller
	cnsAllocated  = 0x10 // all namespaces of the subsystem
)

// allNamespaces is the NSID for all namespaces.
const allNamespaces = 0xffffffff

const pageSize = 4096 // of Identify

// These are the bounds of NVMe commands.
const (
	adminWithin    = 30 * time.Second
	formatWithin   = 4 * time.Hour
	sanitizeSilent = 2 * time.Minute // without an answer of the log page, for example during a controller reset
	pollEvery      = 2 * time.Second
	unknownWithin  = 4 * time.Hour // if a disk gives no estimate
	longestMethod  = 48 * time.Hour
)

// controller is an NVMe controller's data (section 5.17.2.1, figure 276).
type controller struct {
	several   bool // controllers in its subsystem, bit 1 of CMIC
	formats   bool // bit 1 of OACS
	manages   bool // namespaces, bit 3 of OACS
	formatAll bool // a format applies to all namespaces: bit 0 of FNA
	eraseAll  bool // so does an erase by a format: bit 1 of FNA
	crypto    bool // a format can erase the key: bit 2 of FNA
	sanitizes byte // bits 2:0 of SANICAP: crypto erase, block erase, overwrite
}

// identify reads one page of the controller's data.
func identify(d Drive, cns byte, namespace uint32) ([]byte, error) {
	page := aligned(pageSize)
	err := d.Admin(&NVMeCommand{Opcode: opIdentify, Namespace: namespace, Data: page, CDW10: uint32(cns), Timeout: adminWithin})
	return page, err
}

func controllerOf(d Drive) (c controller, err error) {
	p, err := identify(d, cnsController, 0)
	if err != nil {
		return c, fmt.Errorf("the controller does not tell what it can do: %w", err)
	}
	oacs, fna := binary.LittleEndian.Uint16(p[256:]), p[524]
	return controller{
		several: p[76]&(1<<1) != 0, formats: oacs&(1<<1) != 0, manages: oacs&(1<<3) != 0,
		formatAll: fna&1 != 0, eraseAll: fna&(1<<1) != 0, crypto: fna&(1<<2) != 0, sanitizes: p[328] & 7,
	}, nil
}

// alone checks that a command which erases all namespaces would erase only the approved one.
func (c controller) alone(d Drive) error {
	own, err := d.Namespace()
	if err != nil {
		return fmt.Errorf("the number of the disk's namespace is not known: %w", err)
	}
	cns := byte(cnsActive)
	switch {
	case c.manages:
		cns = cnsAllocated
	case c.several:
		return errors.New("it would also erase what other controllers of the same disk use, and this controller cannot tell what that is")
	}
	page, err := identify(d, cns, 0)
	if err != nil {
		return fmt.Errorf("it would erase all namespaces of the disk, and the controller does not list them: %w", err)
	}
	var others []uint32
	for i := 0; i < pageSize; i += 4 {
		n := binary.LittleEndian.Uint32(page[i:])
		if n == 0 {
			break
		}
		if n != own {
			others = append(others, n)
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("it would erase %d other namespaces of the same disk, which nobody approved (%d among them)", len(others), others[0])
	}
	return nil
}

// sanitizes lists the actions of Sanitize (section 5.24, figure 305), with the bit of SANICAP and the offset of the
// estimate in the log page.
var sanitizes = []struct {
	method   string
	action   uint32
	can      byte
	estimate int
}{
	{"nvme sanitize, block erase", 2, 1 << 1, 12},
	{"nvme sanitize, crypto erase", 4, 1 << 0, 16},
	{"nvme sanitize, overwrite", 3, 1 << 2, 8},
}

const (
	actionExitFailure = 1
	allowUnrestricted = 1 << 3 // AUSE: a disk may leave a failed sanitize without another one
	onePass           = 1 << 4 // OWPASS, of an overwrite
)

// sanitizeLog is the log page 81h (section 5.16.1.25, figure 297).
type sanitizeLog struct {
	progress uint16
	state    byte
	cdw10    uint32
	seconds  map[int]uint32 // estimates, by offset in the page
}

// States of a sanitize, bits 2:0 of SSTAT.
const (
	sanitized         = 1
	sanitizing        = 2
	sanitizeFailed    = 3
	sanitizedAnyway   = 4 // successful; blocks were deallocated although this was not requested
	logSanitizeStatus = 0x81
	logBytes          = 512
)

func readSanitizeLog(d Drive) (l sanitizeLog, err error) {
	p := aligned(logBytes)
	err = d.Admin(&NVMeCommand{Opcode: opGetLogPage, Namespace: allNamespaces, Data: p, CDW10: logSanitizeStatus | (logBytes/4-1)<<16, Timeout: adminWithin})
	if err != nil {
		return l, err
	}
	l = sanitizeLog{progress: binary.LittleEndian.Uint16(p[0:]), state: p[2] & 7, cdw10: binary.LittleEndian.Uint32(p[4:]), seconds: map[int]uint32{}}
	for _, at := range []int{8, 12, 16} {
		l.seconds[at] = binary.LittleEndian.Uint32(p[at:])
	}
	return l, nil
}

// within bounds an operation: twice the disk's estimate plus 10 minutes.
func within(seconds uint32) time.Duration {
	if seconds == 0xffffffff || seconds == 0 {
		return unknownWithin
	}
	return min(2*time.Duration(seconds)*time.Second+10*time.Minute, longestMethod)
}

// sanitize erases with one action of Sanitize. Nothing stops a sanitize: not a reset, and not a power cut, after
// which it continues.
func (e *eraser) sanitize(ctx context.Context, kind int) (verified string, err error) {
	k := sanitizes[kind]
	c, err := controllerOf(e.drive)
	if err != nil {
		return "", err
	}
	if c.sanitizes&k.can == 0 {
		return "", errors.New("the disk does not support it (SANICAP)")
	}
	if err := c.alone(e.drive); err != nil {
		return "", err
	}
	before, err := readSanitizeLog(e.drive)
	if err != nil {
		return "", fmt.Errorf("the disk does not report its sanitizes: %w", err)
	}
	if before.state == sanitizing {
		e.tell("a sanitize from before is under way; it is waited for, and then begun again", 0)
		if before, err = e.awaitSanitize(ctx, longestMethod); err != nil {
			return "", err
		}
	}
	asked := k.action | allowUnrestricted
	if k.action == 3 {
		asked |= onePass
	}
	limit := within(before.seconds[k.estimate])
	run := func() error {
		if err := e.drive.Admin(&NVMeCommand{Opcode: opSanitize, CDW10: asked, Timeout: adminWithin}); err != nil {
			return fmt.Errorf("the disk did not begin: %w", err)
		}
		l, err := e.awaitSanitize(ctx, limit)
		switch {
		case err != nil:
			return err
		case l.state == sanitizeFailed:
			leave := e.drive.Admin(&NVMeCommand{Opcode: opSanitize, CDW10: actionExitFailure, Timeout: adminWithin})
			if leave != nil {
				return fmt.Errorf("the disk says that it failed, and does not leave that state: %w", leave)
			}
			return errors.New("the disk says that it failed")
		case l.state != sanitized && l.state != sanitizedAnyway:
			return fmt.Errorf("the disk accepted the command, but then reports the state %d, as if nothing had happened", l.state)
		case l.cdw10 != asked:
			return fmt.Errorf("the disk reports another sanitize (%#x) than the one it was asked for (%#x)", l.cdw10, asked)
		}
		return nil
	}
	if before.state == sanitizeFailed {
		if _, err := e.drive.ReadAt(aligned(alignment), 0); err != nil { // the disk takes nothing else, not even samples
			e.tell("the last sanitize has failed; another one is begun first", 0)
			if err := run(); err != nil {
				return "", err
			}
		}
	}
	found, err := e.sampled(run)
	return "the disk says that the sanitize succeeded, and " + found, err
}

// awaitSanitize waits until no sanitize is running.
func (e *eraser) awaitSanitize(ctx context.Context, limit time.Duration) (sanitizeLog, error) {
	begun, answered := time.Now(), time.Now()
	for {
		l, err := readSanitizeLog(e.drive)
		switch {
		case err == nil && l.state != sanitizing:
			return l, nil
		case err == nil:
			answered = time.Now()
			e.tell("", float64(l.progress)/65536)
		case time.Since(answered) > sanitizeSilent:
			return l, fmt.Errorf("the disk has not reported on its sanitize for %s: %w", sanitizeSilent, err)
		}
		if time.Since(begun) > limit {
			return l, fmt.Errorf("the sanitize is not done after %s, and cannot be stopped", limit)
		}
		if err := pause(ctx, pollEvery); err != nil {
			return l, err
		}
	}
}

// formats lists the secure erase settings of Format NVM (section 5.14, SES in bits 11:9 of dword 10).
var formats = []struct {
	method   string
	settings uint32
}{
	{"nvme format, user data erase", 1},
	{"nvme format, cryptographic erase", 2},
}

// format erases with Format NVM, and keeps the format of the namespace.
func (e *eraser) format(ctx context.Context, kind int) (verified string, err error) {
	k := formats[kind]
	c, err := controllerOf(e.drive)
	switch {
	case err != nil:
		return "", err
	case !c.formats:
		return "", errors.New("the disk does not support it (OACS)")
	case k.settings == 2 && !c.crypto:
		return "", errors.New("the disk does not support it (FNA)")
	case c.formatAll || c.eraseAll:
		if err := c.alone(e.drive); err != nil {
			return "", err
		}
	}
	own, err := e.drive.Namespace()
	if err != nil {
		return "", fmt.Errorf("the number of the disk's namespace is not known: %w", err)
	}
	ns, err := identify(e.drive, cnsNamespace, own)
	if err != nil {
		return "", fmt.Errorf("the controller does not tell the format of the disk: %w", err)
	}
	found, err := e.sampled(func() error {
		return e.slowly(ctx, formatWithin, func(limit time.Duration) error {
			return e.drive.Admin(&NVMeCommand{Opcode: opFormat, Namespace: own, CDW10: sameFormat(ns) | k.settings<<9, Timeout: limit})
		})
	})
	return "the disk says that the format succeeded, and " + found, err
}

// sameFormat is dword 10 of Format NVM for the current format of a namespace: FLBAS in byte 26 and DPS in byte 29
// (NVM Command Set Specification, figure 97) become LBAFL 3:0, MSET 4, PI 7:5, PIL 8 and LBAFU 13:12.
func sameFormat(ns []byte) uint32 {
	flbas, dps := uint32(ns[26]), uint32(ns[29])
	return flbas&0xf | flbas&(1<<4) | dps&7<<5 | dps>>3&1<<8 | flbas>>5&3<<12
}

// zeroesTrimmed reports whether deallocated sectors read as zeros: DLFEAT in byte 33, bits 2:0.
func zeroesTrimmed(d Drive) (bool, error) {
	own, err := d.Namespace()
	if err != nil {
		return false, err
	}
	ns, err := identify(d, cnsNamespace, own)
	return err == nil && ns[33]&7 == 1, err
}

// readable waits for a sanitize that survived a power cut. If a sanitize failed, readable makes the disk leave that
// state if the disk permits it. It erases nothing.
func (e *eraser) readable(ctx context.Context) error {
	l, err := readSanitizeLog(e.drive)
	if err != nil {
		return nil // a disk without sanitize
	}
	if l.state == sanitizing {
		e.tell("a sanitize from before is under way and is waited for", 0)
		if l, err = e.awaitSanitize(ctx, longestMethod); err != nil {
			return err
		}
	}
	if l.state == sanitizeFailed {
		_ = e.drive.Admin(&NVMeCommand{Opcode: opSanitize, CDW10: actionExitFailure, Timeout: adminWithin}) // reading the disk shows the result
	}
	return nil
}

// nvmeMethods are the methods of NVMe disks, strongest first.
func (e *eraser) nvmeMethods() (all []method) {
	for i, k := range sanitizes {
		all = append(all, method{k.method, func(ctx context.Context) (string, error) { return e.sanitize(ctx, i) }})
	}
	for i, k := range formats {
		all = append(all, method{k.method, func(ctx context.Context) (string, error) { return e.format(ctx, i) }})
	}
	return all
}
