package erase

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ATA commands (ACS-4, section 7).
const (
	ataIdentify        = 0xec
	ataSetPassword     = 0xf1
	ataUnlock          = 0xf2
	ataErasePrepare    = 0xf3
	ataEraseUnit       = 0xf4
	ataDisablePassword = 0xf6
)

// password is the password of a disk while it is erased. It is not a protection: if the disk loses power meanwhile,
// anyone who reads this can unlock it.
const password = "slipway"

// ataWithin bounds a command that does not erase.
const ataWithin = 30 * time.Second

// security is an ATA disk's security and TRIM data from IDENTIFY DEVICE (ACS-4, section 7.13).
type security struct {
	supported bool // word 82 bit 1, and word 128 bit 0
	enabled   bool // word 128 bit 1: it has a password
	locked    bool // bit 2
	frozen    bool // bit 3
	expired   bool // bit 4: too many wrong passwords
	enhanced  bool // bit 5: it can also erase sectors that are no longer in use
	normal    time.Duration
	thorough  time.Duration // of an enhanced erase
	zeroes    bool          // word 69 bits 14 and 5: trimmed sectors always read as zeros
}

// ata sends an ATA command by ATA PASS-THROUGH(16) (SAT-4, section 12.2.3).
func ata(d Drive, command byte, data []byte, write bool, limit time.Duration) error {
	const (
		nonData = 3 << 1 // PROTOCOL
		pioIn   = 4 << 1
		pioOut  = 5 << 1
		blocks  = 1<<2 | 2 // BYT_BLOK, and T_LENGTH: the length is in COUNT
		fromIt  = 1 << 3   // T_DIR
	)
	cdb := make([]byte, 16)
	cdb[0], cdb[14] = 0x85, command
	switch {
	case data == nil:
		cdb[1] = nonData
	case write:
		cdb[1], cdb[2], cdb[6] = pioOut, blocks, byte(len(data)/512)
	default:
		cdb[1], cdb[2], cdb[6] = pioIn, blocks|fromIt, byte(len(data)/512)
	}
	c := &SCSICommand{CDB: cdb, Data: data, Write: write, Timeout: limit}
	if err := d.Pass(c); err != nil {
		return err
	}
	return c.err()
}

// securityOf reads a disk's security data. It returns an error if the disk is not an ATA disk.
func securityOf(d Drive) (s security, err error) {
	b := aligned(512)
	if err := ata(d, ataIdentify, b, false, ataWithin); err != nil {
		return s, fmt.Errorf("it is not an ATA disk, or its controller does not pass on ATA commands: %w", err)
	}
	word := func(n int) uint16 { return binary.LittleEndian.Uint16(b[2*n:]) }
	if word(0)&(1<<15) != 0 {
		return s, errors.New("it is not an ATA disk")
	}
	w := word(128)
	return security{
		supported: word(82)&(1<<1) != 0 && w&1 != 0, enabled: w&(1<<1) != 0, locked: w&(1<<2) != 0, frozen: w&(1<<3) != 0, expired: w&(1<<4) != 0,
		enhanced: w&(1<<5) != 0, normal: eraseTime(word(89)), thorough: eraseTime(word(90)),
		zeroes: word(69)&(1<<14) != 0 && word(69)&(1<<5) != 0,
	}, nil
}

// eraseTime is the estimated time of an erase (ACS-4, words 89 and 90), in units of two minutes. The units are in
// bits 14:0 if bit 15 is set, and otherwise in bits 7:0. 0 means not reported.
func eraseTime(word uint16) time.Duration {
	units := word & 0xff
	if word&(1<<15) != 0 {
		units = word & 0x7fff
	}
	return time.Duration(units) * 2 * time.Minute
}

// withPassword is the data of commands that need the password (ACS-4, section 7.45 and following). The password is
// in words 1 to 16, and identifier 0 marks it as the user's.
func withPassword() []byte {
	b := aligned(512)
	copy(b[2:34], password)
	return b
}

// ataErase erases with SECURITY ERASE UNIT. A disk that loses power meanwhile is locked with the password
// afterwards. open unlocks it.
func (e *eraser) ataErase(ctx context.Context) (verified string, err error) {
	s, err := securityOf(e.drive)
	switch {
	case err != nil:
		return "", err
	case !s.supported:
		return "", errors.New("the disk does not support it (ATA security)")
	case s.frozen:
		return "", errors.New("the disk is frozen: the firmware of the machine has locked its security until the disk loses its power. " +
			"Switch off the freeze lock of disks in the firmware's setup, or take the disk out and put it in again while the machine runs")
	case s.expired:
		return "", errors.New("the disk was given too many wrong passwords, and takes none until it loses its power")
	}
	if s.enabled {
		if err := e.unlock(s); err != nil {
			return "", err
		}
	}
	limit, erase := s.normal, withPassword()
	kind := "erase"
	if s.enhanced {
		limit, kind = s.thorough, "enhanced erase"
		erase[0] |= 1 << 1
	}
	if limit == 0 {
		limit = unknownWithin
	}
	limit = min(2*limit+10*time.Minute, longestMethod)
	found, err := e.sampled(func() error {
		if err := ata(e.drive, ataSetPassword, withPassword(), true, ataWithin); err != nil {
			return fmt.Errorf("the disk takes no password, without which it does not erase: %w", err)
		}
		err := ata(e.drive, ataErasePrepare, nil, false, ataWithin)
		if err == nil {
			err = e.slowly(ctx, limit, func(limit time.Duration) error { return ata(e.drive, ataEraseUnit, erase, true, limit) })
		}
		after, looked := securityOf(e.drive)
		switch {
		case looked != nil:
			return errors.Join(err, fmt.Errorf("the disk does not tell whether it still has a password: %w", looked))
		case after.enabled: // a successful erase removes the password
			left := e.unlock(after)
			if err == nil {
				err = errors.New("the disk says that it has erased itself, and still has its password, as if it had not")
			}
			return errors.Join(err, left)
		}
		return err
	})
	return fmt.Sprintf("the disk says that the %s succeeded, the disk no longer has a password, and %s", kind, found), err
}

// unlock removes the password that an earlier run set.
func (e *eraser) unlock(s security) error {
	if s.locked {
		if err := ata(e.drive, ataUnlock, withPassword(), true, ataWithin); err != nil {
			return fmt.Errorf("the disk is locked with a password that is not %q, which Slipway sets: unlock it, or replace it: %w", password, err)
		}
	}
	if err := ata(e.drive, ataDisablePassword, withPassword(), true, ataWithin); err != nil {
		return fmt.Errorf("the disk has a password that is not %q, which Slipway sets: remove it, or replace the disk: %w", password, err)
	}
	return nil
}

// open unlocks a disk that an interrupted earlier run left locked. It erases nothing.
func (e *eraser) open() error {
	s, err := securityOf(e.drive)
	if err != nil || !s.locked {
		return nil // nothing known keeps the disk from being read
	}
	if s.frozen || s.expired {
		return errors.New("the disk is locked with a password, and takes no password until it loses its power: switch the machine off and on")
	}
	e.tell("an earlier erase of the disk was cut off; Slipway unlocks the disk to begin again", 0)
	return e.unlock(s)
}
