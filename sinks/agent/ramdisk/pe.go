package ramdisk

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// section is a section of a PE program.
type section struct {
	name    string
	content []byte
}

// These are offsets in the headers of a PE32+ program, by Microsoft's specification "PE Format".
const (
	peOffset        = 0x3c // in the file: offset of the header "PE"
	headSize        = 24   // of the header, including its signature
	sectionCount    = 6    // in the header
	optionalSize    = 20
	initializedData = 8 // in the optional header
	fileAlignment   = 36
	imageSize       = 56
	headersSize     = 60
	checkSum        = 64
	dataDirectories = 108 // number of directories that follow
	certificates    = 4   // the directory of signatures
	sectionHead     = 40
	readOnlyData    = 0x40000040 // initialized, readable data
	pageSize        = 4096
)

// withSections appends sections to a program. systemd's stub finds them by name, and takes their sizes from
// VirtualSize. Each starts on a memory page, because the stub passes the kernel and the initramfs on in place.
func withSections(program []byte, add []section) ([]byte, error) {
	if len(program) < peOffset+4 {
		return nil, errNoPE
	}
	le := binary.LittleEndian
	head := int(le.Uint32(program[peOffset:]))
	if head < 0 || head+headSize > len(program) || string(program[head:head+4]) != "PE\x00\x00" {
		return nil, errNoPE
	}
	count, optional := int(le.Uint16(program[head+sectionCount:])), head+headSize
	table := optional + int(le.Uint16(program[head+optionalSize:]))
	if table < optional+dataDirectories+4 || table+count*sectionHead > len(program) || le.Uint16(program[optional:]) != 0x20b {
		return nil, errNoPE
	}
	align, room := int(le.Uint32(program[optional+fileAlignment:])), int(le.Uint32(program[optional+headersSize:]))
	if align <= 0 || align > pageSize || room > len(program) {
		return nil, errNoPE
	}
	if end := table + (count+len(add))*sectionHead; end > room {
		return nil, fmt.Errorf("the EFI stub has no room for %d more sections: its headers have %d bytes, and %d are needed", len(add), room, end)
	}
	memory, file := 0, 0
	for i := range count {
		s := program[table+i*sectionHead:]
		memory = max(memory, int(le.Uint32(s[12:]))+int(max(le.Uint32(s[8:]), le.Uint32(s[16:]))))
		file = max(file, int(le.Uint32(s[20:]))+int(le.Uint32(s[16:])))
	}
	if file > len(program) {
		return nil, errNoPE
	}
	out := append([]byte(nil), program[:file]...) // only symbol names follow, which are not needed
	added := 0
	for i, s := range add {
		memory, out = aligned(memory, pageSize), filled(out, align)
		h := out[table+(count+i)*sectionHead:][:sectionHead]
		clear(h)
		copy(h[:8], s.name)
		size := aligned(len(s.content), align)
		le.PutUint32(h[8:], uint32(len(s.content)))
		le.PutUint32(h[12:], uint32(memory))
		le.PutUint32(h[16:], uint32(size))
		le.PutUint32(h[20:], uint32(len(out)))
		le.PutUint32(h[36:], readOnlyData)
		out = filled(append(out, s.content...), align)
		memory, added = memory+size, added+size
	}
	le.PutUint16(out[head+sectionCount:], uint16(count+len(add)))
	clear(out[head+12 : head+20]) // the symbol table
	o := out[optional:]
	le.PutUint32(o[initializedData:], le.Uint32(o[initializedData:])+uint32(added))
	le.PutUint32(o[imageSize:], uint32(aligned(memory, pageSize)))
	le.PutUint32(o[checkSum:], 0) // firmware does not check it
	if le.Uint32(o[dataDirectories:]) > certificates {
		clear(o[dataDirectories+4+8*certificates:][:8]) // the program's own signature no longer applies
	}
	return out, nil
}

var errNoPE = errors.New("the EFI stub is not a program for 64-bit UEFI")

func aligned(n, to int) int { return (n + to - 1) / to * to }

// filled pads with zeros to a multiple of some bytes.
func filled(b []byte, to int) []byte {
	return append(b, make([]byte, aligned(len(b), to)-len(b))...)
}
