package image

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// What Debian's xz has packed, in one block or many and with each check, is unpacked to the
// same bytes; what is cut short somewhere is never taken for whole.
func TestUnpackXZ(t *testing.T) {
	nspawn.Require(t, "xz")
	content := append(bytes.Repeat([]byte("Debian "), 30000), make([]byte, 3*mib)...)
	for i := range 200_000 {
		content[300_000+i] = byte(i * i >> 7)
	}
	path := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, options := range []string{"", "-0", "-9", "-T2 --block-size=400KiB", "--check=none", "--check=crc32", "--check=sha256 --block-size=1MiB"} {
		packed := []byte(sh(t, `xz -c `+options+` "$1"`, path))
		for _, file := range [][]byte{packed, append(bytes.Clone(packed), 0, 0, 0, 0)} {
			got, err := unxz(file)
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%q: %d bytes, %v", options, len(got), err)
			}
		}
		step := max(1, len(packed)/40)
		for n := 0; n < len(packed); n += step {
			if _, err := unxz(packed[:n]); err == nil {
				t.Errorf("%q: %d of %d bytes are whole", options, n, len(packed))
			}
		}
	}
	filtered := []byte(sh(t, `xz -c --x86 --lzma2 "$1"`, path))
	if _, err := unxz(filtered); err == nil || !strings.Contains(err.Error(), "packed by xz with a filter") {
		t.Errorf("with a filter: %v", err)
	}
	twice := []byte(sh(t, `xz -c "$1"; xz -c "$1"`, path))
	if _, err := unxz(twice); err == nil || !strings.Contains(err.Error(), "several xz streams") {
		t.Errorf("two streams: %v", err)
	}
	// A head that asks for a dictionary of 4 GiB.
	large := bytes.Clone(filtered[:12])
	head := []byte{2, 0, filterLZMA2, 1, 40, 0, 0, 0}
	large = append(append(large, head...), binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(head))...)
	if _, err := unxz(large); err == nil || !strings.Contains(err.Error(), "with a dictionary of") {
		t.Errorf("a large dictionary: %v", err)
	}
}

func unxz(b []byte) ([]byte, error) {
	x, err := newXZ(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(x, 64*mib))
}

// Whatever a file is, it is read within bounds.
func FuzzXZ(f *testing.F) {
	f.Add([]byte("\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\xe5\xa3\x01\x00\x00x\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := unxz(b); err == nil && len(got) == 0 && len(b) < 32 {
			t.Errorf("%d bytes are a whole stream", len(b))
		}
	})
}
