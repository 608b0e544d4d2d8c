package inside

import (
	"io"
	"os"
	"strings"
	"syscall"
)

// maxText is the maximum size that Text reads, in bytes.
const maxText = 256 << 10

// ReadAtMost reads the beginning of a file. It does not block if the path is not a file.
func ReadAtMost(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// Text is the content of a small file, such as one in sysfs, without surrounding white space. It is empty if the
// file cannot be read, as for many files of a link that is down.
func Text(path string) string {
	text, err := ReadAtMost(path, maxText)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
