package redfish

import (
	"cmp"
	"context"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// identity is what the machine says of itself, in the terms of what is wanted
// of it where that is another spelling of the same: the UUID with its first
// three groups turned round (SMBIOS stores those as little-endian numbers,
// DSP0134 section 7.2.1, and BMCs disagree with operating systems on who turns
// them), the serial number of a Dell's board for its
// service tag.
func (m *machine) identity(s system, want site.Identity) site.Identity {
	got := s.identity()
	if tag := known(words(s.object, "SKU")); tag != "" && tag != got.Serial && m.has(serviceTag) && want.Serial != got.Serial {
		got.Serial = tag
	}
	if w := canonicalUUID(want.UUID); w != "" && (w == got.UUID || w == site.TurnedRound(got.UUID)) {
		got.UUID = want.UUID
	}
	return got
}

func (s system) identity() site.Identity {
	return site.Identity{
		UUID:   canonicalUUID(words(s.object, "UUID")),
		Serial: known(words(s.object, "SerialNumber")),
	}
}

// canonicalUUID is a UUID in lower case and with its dashes, and empty for a
// placeholder; something that is no UUID stays as it is.
func canonicalUUID(s string) string {
	s = strings.ToLower(strings.Trim(s, "{} "))
	if h := strings.ReplaceAll(s, "-", ""); len(h) == 32 {
		s = strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
	}
	if site.IsPlaceholderUUID(s) {
		return ""
	}
	return known(s)
}

// known is a serial number unless it is one that many machines share, which
// must not be known by it.
func known(serial string) string {
	if site.IsPlaceholderSerial(serial) {
		return ""
	}
	return serial
}

// findSystem is the path of the BMC's system that is wanted. With several of
// them nothing but the identity tells which is meant: a wrong guess would
// switch another machine.
func (m *machine) findSystem(ctx context.Context, want site.Identity) (string, error) {
	const systems = "/redfish/v1/Systems"
	members, err := m.client.listed(ctx, systems)
	if err != nil {
		return "", err
	}
	if len(members) == 1 {
		return members[0], nil
	}
	var found []string
	var last error
	if want.Known() {
		found, last = m.matching(ctx, members[:min(len(members), maxSystems)], want)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if last != nil && len(found) == 0 {
		return "", last
	}
	return "", refused("the BMC at %s has %d systems and %s by the design's UUID and serial; end the endpoint's URL with the path of the one that is meant: %s",
		m.client.host, len(members), cmp.Or(map[int]string{0: "none is meant"}[len(found)], "several are meant"),
		strings.Join(members[:min(len(members), maxSystems)], ", "))
}

// maxSystems bounds how many systems of a BMC are looked at.
const maxSystems = 16

// matching are the systems with the wanted identity, and why one could not be
// read. One of several may well be unreadable while its own machine is off.
func (m *machine) matching(ctx context.Context, members []string, want site.Identity) (found []string, last error) {
	for _, path := range members {
		o, err := m.client.get(ctx, path)
		if err != nil {
			last = err
			continue
		}
		s := system{o}
		m.learn(s)
		if want.Matches(m.identity(s, want)) {
			found = append(found, path)
		}
	}
	return found, last
}
