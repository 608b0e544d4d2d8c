package design

import (
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
)

// What is understood of the schema accepts exactly what CUE does, for every
// field and values that fit some and not others.
func TestAcceptsAsCUE(t *testing.T) {
	values := []any{
		"", "a", "on", "off", "n1", "A.b_c-d", "10.1.0.1", "10.1.0.300", "fd00::1", "dhcp", "10.1.0.0/24", "20GiB", "20GB", ">50GiB", "25%", "101%",
		"90s", "1h30m", "-5s", "2026-08-01T18:00:00Z", "52:54:00:12:34:56", "0000:18:00.0", "/a/b", "ssh-ed25519 AAAA", "https://a/b", "802.3ad",
		"4c4c4544-0051-4810-8057-b4c04f4a4e33", "0644", "22:00", "mon", "amd64", "uefi", "25Gb/s", "x y", "ü",
		int64(0), int64(1), int64(-1), int64(9000), int64(70000), int64(4094), true, false,
		[]any{}, []any{"a"}, []any{"a", ""}, []any{"Hdd", "Pxe"}, []any{int64(1)}, []any{"10.1.0.1"},
	}
	understoodNow, compared := 0, 0
	seen := map[*shape]bool{}
	var walk func(s *shape)
	walk = func(s *shape) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		for _, f := range s.fields {
			walk(f)
		}
		for _, e := range s.entries {
			walk(e.shape)
		}
		if s.isStruct() || s.kind == cue.TopKind || !s.says.Exists() || s.holdsFields() && s.kind == cue.ListKind {
			return
		}
		compared++
		if understood(s.says) != nil {
			understoodNow++
		}
		for _, value := range values {
			want := s.says.Unify(cuecontext.New().Encode(value)).Validate(cue.Concrete(true)) == nil
			if got := s.accepts(value); got != want {
				t.Errorf("%v: %#v: got %v, want %v", s.says, value, got, want)
			}
		}
	}
	walk(shapes()["#Layer"])
	t.Logf("%d of %d fields are understood", understoodNow, compared)
	if understoodNow*3 < compared {
		t.Errorf("%d of %d fields are understood, want more", understoodNow, compared)
	}
}
