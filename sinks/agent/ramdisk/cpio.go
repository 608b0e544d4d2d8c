package ramdisk

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
)

// These are the kinds of files, from stat(2).
const (
	kindFolder = 0o040000
	kindFile   = 0o100000
	kindLink   = 0o120000
	kindDevice = 0o020000 // a character device
)

// entry is a file of an archive.
type entry struct {
	mode         uint32 // including its kind
	content      []byte // the target of a link
	major, minor uint32 // of a device
}

// archive writes files in the kernel's initramfs format: a cpio archive of the kind "newc" (buffer-format.rst of
// the kernel's documentation). It adds folders. The same files produce the same bytes: all belong to root and have
// no time.
func archive(files map[string]entry) []byte {
	all := map[string]entry{}
	for name, e := range files {
		all[name] = e
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, there := all[dir]; !there {
				all[dir] = entry{mode: kindFolder | 0o755}
			}
		}
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names) // a folder comes before its contents
	var b bytes.Buffer
	for i, name := range names {
		put(&b, name, all[name], i+1)
	}
	put(&b, "TRAILER!!!", entry{}, 0)
	return b.Bytes()
}

func put(b *bytes.Buffer, name string, e entry, number int) {
	links := 1
	if e.mode&kindFolder != 0 && e.mode&kindFile == 0 {
		links = 2
	}
	fmt.Fprintf(b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", number, e.mode, 0, 0, links, 0, len(e.content),
		0, 0, e.major, e.minor, len(name)+1, 0)
	b.WriteString(name + "\x00")
	pad(b, 4)
	b.Write(e.content)
	pad(b, 4)
}

// pad pads to a multiple of some bytes.
func pad(b *bytes.Buffer, to int) {
	if over := b.Len() % to; over > 0 {
		b.WriteString(strings.Repeat("\x00", to-over))
	}
}
