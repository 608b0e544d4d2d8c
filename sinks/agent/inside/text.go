package inside

import (
	"io"
	"os"
	"strings"
	"syscall"
)

// maxText bounds what Text reads, in bytes.
const maxText = 256 << 10

// ReadAtMost is the beginning of a file. What is no file in its place holds nobody up.
func ReadAtMost(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// Text is what a small file, such as one of sysfs, says, without the blanks around it; empty
// where it cannot be read: many files of a link cannot while it is down.
func Text(path string) string {
	text, err := ReadAtMost(path, maxText)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
