package site_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestEachFieldTellsMachinesApart(t *testing.T) {
	full := site.Identity{UUID: "u1", Serial: "s1", Slot: "1", MAC: "m1"}
	for name, change := range map[string]func(*site.Identity, string){
		"UUID":   func(i *site.Identity, to string) { i.UUID = to },
		"serial": func(i *site.Identity, to string) { i.Serial = to },
		"slot":   func(i *site.Identity, to string) { i.Slot = to },
		"MAC":    func(i *site.Identity, to string) { i.MAC = to },
	} {
		other, silent := full, full
		change(&other, "x")
		change(&silent, "")
		if full.Matches(other) || !full.Contradicts(other) {
			t.Errorf("another %s: matches %t, contradicts %t", name, full.Matches(other), full.Contradicts(other))
		}
		if full.Matches(silent) || full.Contradicts(silent) {
			t.Errorf("no %s observed: matches %t, contradicts %t", name, full.Matches(silent), full.Contradicts(silent))
		}
		if !silent.Matches(full) || silent.Contradicts(full) {
			t.Errorf("no %s designed: matches %t, contradicts %t", name, silent.Matches(full), silent.Contradicts(full))
		}
	}
	if !full.Matches(full) || full.Contradicts(full) {
		t.Error("a machine is not itself")
	}
}

func TestIdentityInWords(t *testing.T) {
	for _, c := range []struct {
		id         site.Identity
		known      bool
		text, full string
	}{
		{site.Identity{UUID: "u1", Serial: "s1", Slot: "1", MAC: "m1"}, true, "UUID u1", "UUID u1, serial number s1, slot 1, MAC address m1"},
		{site.Identity{Serial: "s1", Slot: "1", MAC: "m1"}, true, "serial s1, slot 1", "serial number s1, slot 1, MAC address m1"},
		{site.Identity{Serial: "s1", MAC: "m1"}, true, "serial s1", "serial number s1, MAC address m1"},
		{site.Identity{Serial: "s1"}, true, "serial s1", "serial number s1"},
		{site.Identity{Slot: "1", MAC: "m1"}, true, "MAC m1", "slot 1, MAC address m1"},
		{site.Identity{Slot: "1"}, false, "no identity", "slot 1"},
		{site.Identity{}, false, "no identity", "no identity"},
	} {
		if c.id.Known() != c.known || c.id.String() != c.text || c.id.Full() != c.full {
			t.Errorf("%#v: known %t, %q, %q", c.id, c.id.Known(), c.id, c.id.Full())
		}
	}
}

func TestPlaceholdersAreNoIdentity(t *testing.T) {
	for uuid, want := range map[string]bool{
		"03000200-0400-0500-0006-000700080009": true,
		"00020003-0004-0005-0006-000700080009": true, // with its bytes in the other order
		"ffffffff-ffff-ffff-ffff-ffffffffffff": true,
		"4c4c4544-0043-4a10-8051-b8c04f4e4e32": false,
		"":                                     false,
	} {
		if got := site.IsPlaceholderUUID(uuid); got != want {
			t.Errorf("UUID %q: got %t", uuid, got)
		}
	}
	for serial, want := range map[string]bool{
		"To be filled by O.E.M.": true, "Default string": true, "N/A": true, "0123456789": true, "00-00": true, "..": true,
		"": false, "9": false, "z": false, "a": false, "0a": false, "n0a": false, "7CV9Z42": false, "1": false, "Ü": true, "NONE{": true, "none/": true, "none:": true, "none`": true,
	} {
		if got := site.IsPlaceholderSerial(serial); got != want {
			t.Errorf("serial %q: got %t", serial, got)
		}
	}
	own := site.Identity{UUID: "00000000-0000-0000-0000-000000000000", Serial: "None", Slot: "1", MAC: "m1"}.Own()
	if own != (site.Identity{Slot: "1", MAC: "m1"}) {
		t.Errorf("got %#v", own)
	}
	real := site.Identity{UUID: "4c4c4544-0043-4a10-8051-b8c04f4e4e32", Serial: "7CV9Z42"}
	if real.Own() != real {
		t.Errorf("got %#v", real.Own())
	}
}

func TestTurnedRound(t *testing.T) {
	for uuid, want := range map[string]string{
		"00112233-4455-6677-8899-aabbccddeeff": "33221100-5544-7766-8899-aabbccddeeff",
		"":                                     "",
		"012":                                  "120", // no UUID, and no reason to stop
		"0011-22":                              "1100-22",
	} {
		if got := site.TurnedRound(uuid); got != want {
			t.Errorf("%q: got %q, want %q", uuid, got, want)
		}
	}
}

// What must not be taken for one machine: neighbours of an enclosure that share its serial number, and machines to
// which nobody gave numbers.
func TestSameMachineUnderAnotherName(t *testing.T) {
	for name, c := range map[string]struct {
		a, b site.Identity
		want bool
	}{
		"one UUID":                   {site.Identity{UUID: "5e1d"}, site.Identity{UUID: "5e1d", Serial: "S1"}, true},
		"one UUID in another slot":   {site.Identity{UUID: "5e1d", Slot: "1"}, site.Identity{UUID: "5e1d", Slot: "2"}, true},
		"one UUID, another port":     {site.Identity{UUID: "5e1d", MAC: "m1"}, site.Identity{UUID: "5e1d", MAC: "m2"}, true},
		"one UUID, another serial":   {site.Identity{UUID: "5e1d", Serial: "S1"}, site.Identity{UUID: "5e1d", Serial: "S2"}, false},
		"one UUID turned round":      {site.Identity{UUID: "00112233-4455-6677-8899-aabbccddeeff"}, site.Identity{UUID: "33221100-5544-7766-8899-aabbccddeeff", MAC: "m2"}, true},
		"two UUIDs, one port":        {site.Identity{UUID: "5e1d", MAC: "m1"}, site.Identity{UUID: "5e1e", MAC: "m1"}, false},
		"one serial number":          {site.Identity{Serial: "S1"}, site.Identity{Serial: "S1"}, true},
		"one address of a port":      {site.Identity{MAC: "m1", Slot: "1"}, site.Identity{MAC: "m1", Slot: "2"}, true},
		"neighbours of an enclosure": {site.Identity{Serial: "ENC", Slot: "1"}, site.Identity{Serial: "ENC", Slot: "2"}, false},
		"neighbours by their ports":  {site.Identity{Serial: "ENC", MAC: "m1"}, site.Identity{Serial: "ENC", MAC: "m2"}, false},
		"a serial number nobody set": {site.Identity{Serial: "To be filled by O.E.M."}, site.Identity{Serial: "To be filled by O.E.M."}, false},
		"a UUID nobody set":          {site.Identity{UUID: "03000200-0400-0500-0006-000700080009"}, site.Identity{UUID: "03000200-0400-0500-0006-000700080009"}, false},
		"a slot alone":               {site.Identity{Slot: "1"}, site.Identity{Slot: "1"}, false},
		"nothing":                    {site.Identity{}, site.Identity{}, false},
	} {
		if got, back := c.a.IsThatOf(c.b), c.b.IsThatOf(c.a); got != c.want || back != c.want {
			t.Errorf("%s: %t and %t, want %t", name, got, back, c.want)
		}
	}
}
