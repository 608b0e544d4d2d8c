package repo

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/slipway-gitops/slipway/engine/secret"
)

// packOf is a pack with one object: its header byte by byte, then its content.
func packOf(header []byte, content []byte) []byte {
	var b bytes.Buffer
	b.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x01")
	b.Write(header)
	z := zlib.NewWriter(&b)
	_, _ = z.Write(content)
	_ = z.Close()
	return b.Bytes()
}

func TestPackThatWouldExplodeIsRefused(t *testing.T) {
	// Git's object header: 3 bits of type and the size, 4 bits and then 7 at
	// a time (gitformat-pack(5)).
	const blob, refDelta = 3 << 4, 7 << 4
	bomb := binary.AppendUvarint(binary.AppendUvarint(nil, 10), MaxObject+1) // base of 10 bytes, a huge result
	for name, c := range map[string]struct {
		pack []byte
		want string
	}{
		"blob of 8 GiB":        {packOf([]byte{0x80 | blob, 0x80, 0x80, 0x80, 0x80, 0x02}, []byte("x")), "are refused"},
		"longer than it says":  {packOf([]byte{blob | 1}, bytes.Repeat([]byte("x"), 1<<20)), "size"},
		"delta of a huge file": {packOf(append([]byte{refDelta | byte(len(bomb))}, make([]byte, 20)...), bomb), "are refused"},
		"delta without sizes":  {packOf(append([]byte{refDelta | 1}, make([]byte, 20)...), []byte{0x80}), "malformed delta"},
		"too many objects":     {[]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"), "are refused"},
		"cut short":            {[]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), "EOF"},
		"nothing":              {nil, "sent nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkPack(bytes.NewReader(c.pack))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func FuzzStore(f *testing.F) {
	f.Add(packOf([]byte{3<<4 | 1}, []byte("x")))
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, pack []byte) {
		s, err := OpenStore("")
		if err != nil {
			t.Fatal(err)
		}
		_ = s.store(bytes.NewReader(pack), nil) // must come back
	})
}

func FuzzListV2(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add([]byte("000eversion 2\n0000003d" + id + " refs/heads/main\n0000"))
	f.Add([]byte("0000"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		refs, err := listV2(io.Discard, bytes.NewReader(answer), heads)
		if err != nil && refs != nil {
			t.Errorf("both %v and %v", refs, err)
		}
		for name, id := range refs {
			if strings.ContainsAny(name, " \n") || id == plumbing.ZeroHash && !bytes.Contains(answer, []byte(id.String())) {
				t.Errorf("reference %q at %s", name, id)
			}
		}
	})
}

func FuzzNew(f *testing.F) {
	for _, s := range []string{"ssh://git:pw@h/x", "git@h:x", "/srv/x.git", "file:///x", "https://u:pw@h/x", "\x00", "ssh://[::1]:22/~/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		r, err := New(address, secret.New("", "no key"), "/dev/null")
		shown := r.String()
		if err != nil {
			shown = err.Error()
		}
		u, parseErr := url.Parse(address)
		if parseErr != nil || !strings.Contains(address, "://") || u.Scheme == "file" {
			return
		}
		if pw, ok := u.User.Password(); ok && len(pw) > 6 && strings.Contains(shown, pw) && !strings.Contains(u.Host+u.Path+u.Scheme, pw) {
			t.Errorf("%q is shown as %q", address, shown)
		}
	})
}
