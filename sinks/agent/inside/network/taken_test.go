package network

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// An address that another machine has is refused before anything is touched; one that
// shows only on an interface that the change makes is set back.
func TestAddressOfAnotherMachine(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	before := s.configuration()
	s.others = map[string]string{"eth0 10.1.0.11": "52:54:00:00:00:99", "eth0 10.1.0.10": "52:54:00:00:00:98"} // the second is its own by now
	err := f.Apply(t.Context(), s.host(), items(wanted), nil)
	if class(err) != wire.Refused || !strings.Contains(err.Error(), "10.1.0.11 of eth0 is the address of another machine (52:54:00:00:00:99): nothing was changed") {
		t.Fatalf("got %v, want refused", err)
	}
	s.isBack(before)
	if s.has(revertedFile) || s.has(markerFile) {
		t.Error("something was begun")
	}
	s.others = nil
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
		t.Error(err)
	}
}

// The frames are those of RFC 5227 and RFC 826.
func TestFramesOfARP(t *testing.T) {
	a := netip.MustParseAddr("10.1.0.11")
	const want = "ffffffffffff" + "525400000001" + "0806" + "0001" + "0800" + "06" + "04" + "0001" + "525400000001" + "00000000" + "000000000000" + "0a01000b"
	if got := hex.EncodeToString(probe([]byte{0x52, 0x54, 0, 0, 0, 1}, a)); got != want {
		t.Errorf("a probe is %s, want %s", got, want)
	}
	for name, c := range map[string]struct {
		frame, mac string
	}{
		"an answer":           {"525400000001" + "525400000099" + "0806" + "00010800060400" + "02" + "525400000099" + "0a01000b" + "525400000001" + "00000000", "52:54:00:00:00:99"},
		"an announcement":     {"ffffffffffff" + "525400000099" + "0806" + "00010800060400" + "01" + "525400000099" + "0a01000b" + "000000000000" + "0a01000b", "52:54:00:00:00:99"},
		"of another address":  {"525400000001" + "525400000099" + "0806" + "00010800060400" + "02" + "525400000099" + "0a01000c" + "525400000001" + "00000000", ""},
		"a question for it":   {"ffffffffffff" + "525400000099" + "0806" + "00010800060400" + "01" + "525400000099" + "0a010063" + "000000000000" + "0a01000b", ""},
		"cut short":           {"ffffffffffff" + "525400000099" + "0806" + "00010800060400" + "02" + "525400000099" + "0a01", ""},
		"of another protocol": {"525400000001" + "525400000099" + "0800" + "00010800060400" + "02" + "525400000099" + "0a01000b" + "525400000001" + "00000000", ""},
	} {
		frame, err := hex.DecodeString(c.frame)
		if err != nil {
			t.Fatal(err)
		}
		mac, is := announces(frame, a)
		if is != (c.mac != "") || is && colons(mac) != c.mac {
			t.Errorf("%s: got %x, %t, want %q", name, mac, is, c.mac)
		}
	}
}
