package wire_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	asked := wire.Request{Version: wire.Version, Op: wire.OpApply, Site: "s", Node: "n", Term: 7, Apply: &wire.Apply{
		Facet: "config", Items: []item.Item{item.New("files./etc/a\nb", map[string]string{"": "x\u202e"}, []string{"body"})}, Remove: []string{"files.../x"}, Owned: "0a",
	}}
	for range 2 {
		if err := wire.Write(&b, asked); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		var got wire.Request
		if err := wire.Read(&b, &got); err != nil || got.Term != 7 || got.Apply.Items[0].Key != asked.Apply.Items[0].Key || got.Apply.Owned != "0a" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if err := wire.Read(&b, &asked); err != io.EOF {
		t.Errorf("at the end: got %v", err)
	}
}

func TestHostileFrames(t *testing.T) {
	for name, c := range map[string]struct{ octets, says string }{
		"half a length":         {"\x00\x00", "unexpected EOF"},
		"a length alone":        {"\x00\x00\x00\x09", "unexpected EOF"},
		"half a frame":          {"\x00\x00\x00\x09{\"term\"", "unexpected EOF"},
		"4 GiB":                 {"\xff\xff\xff\xff{}", "larger than the limit of"},
		"64 MiB that are short": {"\x04\x00\x00\x00{}", "unexpected EOF"},
		"one octet too much":    {"\x04\x00\x00\x01{}", "larger than the limit of"},
		"nothing":               {"\x00\x00\x00\x00", "unexpected end of JSON"},
		"no JSON":               {"\x00\x00\x00\x02{]", "invalid character"},
		"another kind":          {"\x00\x00\x00\x02[]", "cannot unmarshal array"},
		"a word":                {"GET / HTTP/1.1\r\n\r\n", "larger than the limit of"},
	} {
		var r wire.Request
		if err := wire.Read(strings.NewReader(c.octets), &r); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
	if err := wire.Write(io.Discard, strings.Repeat("x", wire.MaxFrame)); err == nil || !strings.Contains(err.Error(), "larger than the limit") {
		t.Errorf("a frame that is too large is written: %v", err)
	}
}

// Whatever comes, it is read within the bounds, or is an error; what is read can be
// written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\x00\x00\x00\x16{\"op\":\"apply\",\"term\":3}"))
	f.Add([]byte("\x04\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, octets []byte) {
		var r wire.Request
		in := bytes.NewReader(octets)
		if err := wire.Read(in, &r); err != nil {
			return
		}
		if read := len(octets) - in.Len(); read != 4+int(binary.BigEndian.Uint32(octets)) {
			t.Errorf("read %d octets of a frame of %d", read, binary.BigEndian.Uint32(octets))
		}
		var b bytes.Buffer
		var again wire.Request
		if err := wire.Write(&b, r); err != nil {
			t.Fatal(err)
		}
		if err := wire.Read(&b, &again); err != nil || again.Term != r.Term || again.Op != r.Op {
			t.Errorf("got %+v, %v of %+v", again, err, r)
		}
	})
}

// Whatever a medium says, what is read of it is within bounds.
func FuzzMedium(f *testing.F) {
	f.Add("SLIPWAY BOOT WORDS AT 47104 4096\nSLIPWAY TOOLS AT 51200 17\n")
	f.Add("SLIPWAY BOOT WORDS AT 47104 4096\n")
	f.Add("SLIPWAY BOOT WORDS AT 47104 4096\nSLIPWAY TOOLS AT -1 99999999999999999999\n")
	f.Fuzz(func(t *testing.T, uses string) {
		volume := make([]byte, wire.VolumeAt+2048)
		copy(volume[wire.VolumeAt:], "\x01CD001\x01")
		copy(volume[wire.VolumeAt+wire.ApplicationUse:], uses)
		at, size, err := wire.ToolsOf(bytes.NewReader(volume))
		if err == nil && (at < wire.VolumeAt || size <= 0 || size > wire.MaxTools) {
			t.Errorf("the archive is at %d with %d bytes", at, size)
		}
		if _, _, words := wire.WordsOf(bytes.NewReader(volume)); words != nil && err == nil {
			t.Errorf("a medium without words has an archive: %v", words)
		}
	})
}

// A medium says where its words and its programs are; one of an earlier ramdisk has none of
// these.
func TestMedium(t *testing.T) {
	for uses, want := range map[string]string{
		"SLIPWAY BOOT WORDS AT 47104 4096\nSLIPWAY TOOLS AT 51200 17\n":                    "47104 4096 51200 17",
		"SLIPWAY BOOT WORDS AT 47104 4096\n":                                               "47104 4096 it has no programs for disks",
		"SLIPWAY BOOT WORDS AT 47104 4096\nSLIPWAY TOOLS AT 51200 41943041\n":              "47104 4096 it has no programs for disks",
		"SLIPWAY BOOT WORDS AT 47104 4096\nSLIPWAY TOOLS AT 5 17\n":                        "47104 4096 it has no programs for disks",
		"SLIPWAY TOOLS AT 51200 17\n":                                                      "0 0 it is not a medium of the ramdisk",
		"SLIPWAY BOOT WORDS AT 47104 99999999\nSLIPWAY TOOLS AT 51200 17\n":                "0 0 it is not a medium of the ramdisk",
		"SLIPWAY BOOT WORDS AT 47104 4096\nSLIPWAY TOOLS AT 51200 17 and something else\n": "47104 4096 it has no programs for disks",
	} {
		volume := make([]byte, wire.VolumeAt+2048)
		copy(volume[wire.VolumeAt:], "\x01CD001\x01")
		copy(volume[wire.VolumeAt+wire.ApplicationUse:], uses)
		at, size, _ := wire.WordsOf(bytes.NewReader(volume))
		got := fmt.Sprint(at, size)
		if at, size, err := wire.ToolsOf(bytes.NewReader(volume)); err != nil {
			got += " " + err.Error()
		} else {
			got += fmt.Sprint(" ", at, size)
		}
		if got = strings.Join(strings.Fields(got), " "); got != want {
			t.Errorf("%q: got %q, want %q", uses, got, want)
		}
	}
}
