package hostfile

import (
	"io/fs"
	"syscall"
)

// Stamp tells one state of a file from another: another file, or another content, owner or mode.
// The zero value is that of no file.
type Stamp struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec
}

// StampOf is the stamp of a file of this host.
func StampOf(info fs.FileInfo) Stamp {
	st := info.Sys().(*syscall.Stat_t)
	return Stamp{uint64(st.Dev), st.Ino, st.Size, st.Ctim}
}
