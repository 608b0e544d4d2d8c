package lab

import (
	"bytes"
	"strings"
	"testing"
)

// However an image arrives, it has the same digest and marker.
func FuzzMedium(f *testing.F) {
	f.Add([]byte("image"+trailer+`{"node":"n1","generation":1}`), 3)
	f.Add([]byte("no note"+trailer+"{"), 1)
	f.Add([]byte(strings.Repeat("long ", maxTrailer)), maxTrailer-1)
	f.Fuzz(func(t *testing.T, image []byte, cut int) {
		whole, parts := newMedium(), newMedium()
		whole.Write(image)
		cut = max(0, min(cut, len(image)))
		parts.Write(image[:cut])
		parts.Write(image[cut:])
		a, b := whole.disk(), parts.disk()
		if a.digest != b.digest || (a.marker == nil) != (b.marker == nil) || a.marker != nil && *a.marker != *b.marker {
			t.Errorf("at once %+v, in parts %+v", a, b)
		}
		if a.digest != hexSum(image) || a.marker != nil && a.marker.Image != a.digest {
			t.Errorf("%+v does not have the digest of what was read, %s", a, hexSum(image))
		}
	})
}

// No script breaks the shell, and what it prints is bounded by what it reads.
func FuzzShell(f *testing.F) {
	for _, s := range []string{"echo a; cat /etc/hostname 2>/dev/null", `printf '%s\n' "x`, "';'", "printf", "2>/dev/null"} {
		f.Add(s)
	}
	fleet, err := New(Config{Machines: []MachineConfig{{Name: "n1", BMCAddr: "127.75.0.1", Power: "on"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { fleet.Close() })
	f.Fuzz(func(t *testing.T, script string) {
		if len(script) > 1<<12 {
			return
		}
		var out, errs bytes.Buffer
		status := fleet.machines["n1"].shell(script, &out, &errs)
		if status != 0 && status != 1 && status != 127 {
			t.Errorf("status %d", status)
		}
		if limit := 64 * (len(script) + 1); out.Len()+errs.Len() > limit {
			t.Errorf("%d bytes of output for %q", out.Len()+errs.Len(), script)
		}
	})
}

// The log keeps the last calls, in order.
func TestCallLogIsARing(t *testing.T) {
	var f Fleet
	for i := range maxCalls + 10 {
		f.calls.add(Call{Status: i})
	}
	calls := f.Calls()
	if len(calls) != maxCalls || calls[0].Status != 10 || calls[maxCalls-1].Status != maxCalls+9 || f.CallCount() != maxCalls+10 {
		t.Errorf("%d calls from %d to %d", len(calls), calls[0].Status, calls[len(calls)-1].Status)
	}
}
