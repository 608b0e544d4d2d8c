package wire

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// A frame costs no more than some times its size: root of a managed system writes it.
func TestFramesOfManyValues(t *testing.T) {
	for text, fits := range map[string]bool{
		`{"result":{"machine":{"disks":[` + strings.Repeat(`{},`, maxValues) + `{}]}}}`:                                   false,
		`{"result":{"machine":{"disks":[` + strings.Repeat(`{},`, maxValues/4) + `{}]}}}`:                                 true,
		`{"progress":{"doing":"` + strings.Repeat(`\",[{`, maxValues) + `"}}`:                                             true,
		`{"progress":{"doing":"` + strings.Repeat(`\\`, maxValues) + `"},"x":[` + strings.Repeat(`1,`, maxValues) + `1]}`: false,
	} {
		var f Frame
		frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
		if err := Read(bytes.NewReader(frame), &f); (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "more than the limit") {
			t.Errorf("%.60s…: %v", text, err)
		}
	}
}

// So does the first frame of a caller that is not known yet: anybody in the network can make 256 calls.
func TestHelloOfManyValues(t *testing.T) {
	for n, fits := range map[int]bool{MaxHello / 4: false, 2000: true} {
		text := `{"machine":{"disks":[` + strings.Repeat(`{},`, n) + `{}]}}`
		frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
		var h Hello
		if err := ReadAtMost(bytes.NewReader(frame), &h, MaxHello); (err == nil) != fits {
			t.Errorf("%d disks: %v", n, err)
		}
	}
}
