package ramdisk

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The file system is FAT16, which all UEFI firmware reads, as in Microsoft's "FAT General Overview of On-Disk
// Format".
const (
	fatSector  = 512
	fatRoot    = 512 // entries in the root folder
	fatLeast   = 4085
	fatMost    = 65524 // clusters
	fatEntry   = 32
	fatEnd     = 0xffff
	fatFolder  = 0x10
	fatArchive = 0x20
	fatDate    = 1<<5 | 1 // 1 January 1980, the first possible day
)

// fatVolume makes a file system with one file. The names in the path are upper-case 8.3 names. The file is
// contiguous; at is its offset.
func fatVolume(label, path string, content []byte) (volume []byte, at int, err error) {
	names := strings.Split(path, "/")
	cluster, clusters := 2048, 0
	for ; ; cluster *= 2 {
		clusters = (len(content)+cluster-1)/cluster + len(names) - 1
		if clusters <= fatMost {
			break
		}
	}
	clusters = max(clusters, fatLeast)
	table := aligned(2*(clusters+2), fatSector)
	start := fatSector + 2*table + fatRoot*fatEntry
	volume = make([]byte, start+clusters*cluster)
	sectors := len(volume) / fatSector

	le := binary.LittleEndian
	b := volume
	copy(b, "\xeb\x3c\x90SLIPWAY ")
	le.PutUint16(b[11:], fatSector)
	b[13] = byte(cluster / fatSector)
	le.PutUint16(b[14:], 1) // reserved sectors
	b[16] = 2               // tables
	le.PutUint16(b[17:], fatRoot)
	if sectors < 1<<16 {
		le.PutUint16(b[19:], uint16(sectors))
	} else {
		le.PutUint32(b[32:], uint32(sectors))
	}
	b[21] = 0xf8 // a disk
	le.PutUint16(b[22:], uint16(table/fatSector))
	le.PutUint16(b[24:], 32)
	le.PutUint16(b[26:], 64)
	b[36], b[38] = 0x80, 0x29
	copy(b[43:], fmt.Sprintf("%-11.11s%-8s", label, "FAT16"))
	b[510], b[511] = 0x55, 0xaa

	fat := volume[fatSector:]
	le.PutUint16(fat, 0xfff8)
	le.PutUint16(fat[2:], fatEnd)
	place := func(n int) int { return start + (n-2)*cluster }
	next, folder, parent := 2, volume[fatSector+2*table:], 0
	copy(folder, fmt.Sprintf("%-11.11s\x08", label))
	folder = folder[fatEntry:]
	for _, name := range names[:len(names)-1] {
		if err := fatPut(folder, name, fatFolder, next, 0); err != nil {
			return nil, 0, err
		}
		le.PutUint16(fat[2*next:], fatEnd)
		folder = volume[place(next):]
		fatName(folder, ".          ", fatFolder, next, 0)
		fatName(folder[fatEntry:], "..         ", fatFolder, parent, 0)
		folder, parent = folder[2*fatEntry:], next
		next++
	}
	if err := fatPut(folder, names[len(names)-1], fatArchive, next, len(content)); err != nil {
		return nil, 0, err
	}
	copy(volume[place(next):], content)
	for i := range (len(content) + cluster - 1) / cluster {
		le.PutUint16(fat[2*(next+i):], uint16(next+i+1))
	}
	if used := (len(content) + cluster - 1) / cluster; used > 0 {
		le.PutUint16(fat[2*(next+used-1):], fatEnd)
	}
	copy(volume[fatSector+table:], volume[fatSector:fatSector+table])
	return volume, place(next), nil
}

// fatPut writes an entry of a folder.
func fatPut(to []byte, name string, kind byte, cluster, size int) error {
	base, end, _ := strings.Cut(name, ".")
	if base == "" || len(base) > 8 || len(end) > 3 || strings.ToUpper(name) != name {
		return fmt.Errorf("%q is not a file name that a FAT file system takes", name)
	}
	fatName(to, fmt.Sprintf("%-8s%-3s", base, end), kind, cluster, size)
	return nil
}

func fatName(to []byte, name string, kind byte, cluster, size int) {
	le := binary.LittleEndian
	clear(to[:fatEntry])
	copy(to, name)
	to[11] = kind
	le.PutUint16(to[16:], fatDate)
	le.PutUint16(to[18:], fatDate)
	le.PutUint16(to[24:], fatDate)
	le.PutUint16(to[26:], uint16(cluster))
	le.PutUint32(to[28:], uint32(size))
}
