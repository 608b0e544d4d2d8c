package ramdisk

import (
	"encoding/binary"
	"fmt"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// isoSector is a sector of a CD, in bytes.
const isoSector = 2048

// These are the sectors of the medium.
const (
	isoVolume  = 16 // the volume
	isoBoot    = 17 // where the boot catalog is
	isoEnd     = 18 // the end of the descriptors
	isoCatalog = 19
	isoTableL  = 20 // the folders, little-endian
	isoTableM  = 21 // and big-endian
	isoRoot    = 22
	isoWords   = 23 // space for the words of one boot
	isoTools   = 25 // the programs for disks; the boot image follows, up to the end
)

// These are the files of the medium. wordsName only reserves space.
const (
	wordsName = "BOOT.TXT;1"
	toolsName = "TOOLS.ZST;1"
)

// bootMedium makes an ISO 9660 medium (ECMA-119) with two files, from which UEFI firmware boots an EFI system
// partition (El Torito, and chapter 13.3.2 of the UEFI specification). from and bytes are the place of the boot
// image in the partition.
func bootMedium(label string, partition []byte, from, bytes int, tools []byte) []byte {
	partition = filled(partition, isoSector)
	isoImage := isoTools + aligned(len(tools), isoSector)/isoSector
	medium := make([]byte, isoImage*isoSector, isoImage*isoSector+len(partition))
	sectors := isoImage + len(partition)/isoSector
	at := func(n int) []byte { return medium[n*isoSector : (n+1)*isoSector] }

	v := at(isoVolume)
	copy(v, "\x01CD001\x01")
	copy(v[8:], fmt.Sprintf("%-32s%-32.32s", "", label))
	both32(v[80:], sectors)
	both16(v[120:], 1)
	both16(v[124:], 1)
	both16(v[128:], isoSector)
	both32(v[132:], 10) // bytes of the table of folders
	binary.LittleEndian.PutUint32(v[140:], isoTableL)
	binary.BigEndian.PutUint32(v[148:], isoTableM)
	isoFolder(v[156:], 0)
	copy(v[190:], fmt.Sprintf("%-128s%-128s%-128s%-128s%-111s", "", "", "", "SLIPWAY", ""))
	for _, date := range []int{813, 830, 847, 864} {
		copy(v[date:], "0000000000000000\x00") // none
	}
	v[881] = 1
	const room = (isoTools - isoWords) * isoSector
	copy(v[wire.ApplicationUse:], fmt.Sprintf("%s%d %d\n%s%d %d\n%s%d %d\n", wire.MediumMark, isoWords*isoSector, room,
		wire.ToolsMark, isoTools*isoSector, len(tools), wire.ImageMark, isoImage*isoSector+from, bytes))

	b := at(isoBoot)
	copy(b, "\x00CD001\x01EL TORITO SPECIFICATION")
	binary.LittleEndian.PutUint32(b[71:], isoCatalog)
	copy(at(isoEnd), "\xffCD001\x01")

	const efi = 0xef
	c := at(isoCatalog)
	c[0], c[1] = 1, efi
	c[30], c[31] = 0x55, 0xaa
	var sum uint16
	for i := 0; i < 32; i += 2 {
		sum += binary.LittleEndian.Uint16(c[i:])
	}
	binary.LittleEndian.PutUint16(c[28:], -sum)
	c[32] = 0x88 // bootable, no emulation; 0 sectors means up to the end of the medium
	binary.LittleEndian.PutUint32(c[40:], uint32(isoImage))

	copy(at(isoTableL), "\x01\x00\x16\x00\x00\x00\x01\x00\x00\x00")
	copy(at(isoTableM), "\x01\x00\x00\x00\x00\x16\x00\x01\x00\x00")
	isoFolder(at(isoRoot), 0)
	isoFolder(at(isoRoot)[34:], 1)
	words := isoFile(at(isoRoot)[68:], wordsName, isoWords, room)
	isoFile(at(isoRoot)[68+words:], toolsName, isoTools, len(tools))
	copy(medium[isoTools*isoSector:], tools)
	return append(medium, partition...)
}

// isoFolder writes an entry of the root folder: name 0 is the folder itself, 1 its parent.
func isoFolder(to []byte, name byte) {
	to[0] = 34
	both32(to[2:], isoRoot)
	both32(to[10:], isoSector)
	copy(to[18:], []byte{80, 1, 1, 0, 0, 0, 0}) // 1 January 1980
	to[25] = 2
	both16(to[28:], 1)
	to[32], to[33] = 1, name
}

// isoFile writes the entry of a file in the root folder, and returns the entry's size.
func isoFile(to []byte, name string, sector, size int) int {
	isoFolder(to, 0)
	to[0] = byte(33 + len(name) + 1 - len(name)%2)
	both32(to[2:], sector)
	both32(to[10:], size)
	to[25] = 0
	to[32] = byte(len(name))
	copy(to[33:], name)
	return int(to[0])
}

// both32 writes a number in both byte orders.
func both32(to []byte, n int) {
	binary.LittleEndian.PutUint32(to, uint32(n))
	binary.BigEndian.PutUint32(to[4:], uint32(n))
}

func both16(to []byte, n int) {
	binary.LittleEndian.PutUint16(to, uint16(n))
	binary.BigEndian.PutUint16(to[2:], uint16(n))
}
