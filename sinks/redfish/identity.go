package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
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
	if want.Slot != "" {
		got.Slot = words(s.object, "Id")
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
// placeholder; something that is not a UUID stays as it is.
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

// identityWith is identity with the MAC address that is wanted, if the system
// lists it among its own.
func (m *machine) identityWith(ctx context.Context, s system, want site.Identity, get reader) (site.Identity, error) {
	got := m.identity(s, want)
	if want.MAC == "" {
		return got, nil
	}
	own, err := m.ownMACs(ctx, s, get)
	if len(own) > 0 {
		got.MAC = own[0]
	}
	if slices.Contains(own, want.MAC) {
		got.MAC = want.MAC
	}
	return got, err
}

// ownMACs are the addresses of the network ports that a system lists as its own
// (DSP0268 6.30, EthernetInterfaces), in order. Those of adapters in its chassis
// do not count: of the nodes of an enclosure each may list those of all.
func (m *machine) ownMACs(ctx context.Context, s system, get reader) ([]string, error) {
	w := newWalk(get)
	w.most, w.deep = maxLinks, 1
	members, err := w.membersBy(ctx, link(s.object, "EthernetInterfaces"), m.client.expand, w.resource)
	if err != nil && !lasting(err) {
		return nil, err
	}
	var all []string
	for _, o := range members {
		address := mac(cmp.Or(at[string](o, "PermanentMACAddress"), at[string](o, "MACAddress")))
		if address != "" && link(o, "Links", "HostInterface") == "" {
			all = append(all, address)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// systemsPath is where the systems are (DSP0266, the service root's Systems).
const systemsPath = "/redfish/v1/Systems"

// maxSystems bounds how many systems of a BMC are looked at: the largest
// enclosures have 45 (HPE Moonshot 1500).
const maxSystems = 64

// behind are the systems of a BMC that are machines, and why some could not be
// read. One of several may well be unreadable while its own machine is off. What
// has neither a reset nor boot settings is a part of its host, as the baseboard
// of accelerators is.
type behind struct {
	machines []sibling
	unread   map[string]error
}

type sibling struct {
	path string
	system
}

// systems reads the systems of the BMC.
func (m *machine) systems(ctx context.Context) (all behind, err error) {
	members, err := m.client.listed(ctx, systemsPath)
	if err != nil {
		return all, err
	}
	all.unread = map[string]error{}
	for _, path := range members[min(len(members), maxSystems):] {
		all.unread[path] = errEnough
	}
	for _, path := range members[:min(len(members), maxSystems)] {
		o, err := m.client.get(ctx, path)
		switch s := (system{o}); {
		case hasStatus(err, http.StatusNotFound):
			// nothing is in its slot
		case ctx.Err() != nil:
			return all, ctx.Err()
		case errors.Is(err, driver.ErrInterrupted):
			return all, err
		case err != nil:
			all.unread[path] = err
		case s.isMachine():
			all.machines = append(all.machines, sibling{path, s})
		}
	}
	return all, nil
}

// isMachine says whether a system is one that can be switched or told what to
// boot from.
func (s system) isMachine() bool {
	b := at[object](s.object, "Boot")
	return s.resets() != "" || b[overrideTarget] != nil || len(s.bootOrder()) > 0
}

// findSystem is the path of the BMC's system that is wanted. With several of
// them nothing but the identity tells which is meant: a wrong guess would
// switch another machine.
func (m *machine) findSystem(ctx context.Context, want site.Identity) (string, error) {
	members, err := m.client.listed(ctx, systemsPath)
	if err != nil {
		return "", err
	}
	if len(members) == 1 {
		return members[0], nil
	}
	all, err := m.systems(ctx)
	if err != nil {
		return "", err
	}
	if len(all.machines) == 1 && len(all.unread) == 0 {
		return all.machines[0].path, nil
	}
	var found []string
	if want.Known() {
		if found, err = m.matching(ctx, all.machines, want); err != nil {
			return "", err
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	for _, path := range slices.Sorted(maps.Keys(all.unread)) {
		if want.Known() && len(found) == 0 {
			return "", all.unread[path]
		}
	}
	return "", refused("the BMC at %s has %d systems and %s by the design's identity; end the endpoint's URL with the path of the one that is meant: %s",
		m.client.host, len(members), cmp.Or(map[int]string{0: "none is meant"}[len(found)], "several are meant"),
		printable(strings.Join(members[:min(len(members), maxSystems)], ", ")))
}

// matching are the systems with the wanted identity.
func (m *machine) matching(ctx context.Context, all []sibling, want site.Identity) (found []string, err error) {
	for _, s := range all {
		m.learn(s.system)
		got, err := m.identityWith(ctx, s.system, want, m.client.get)
		if err != nil {
			return nil, err
		}
		if want.Matches(got) {
			found = append(found, s.path)
		}
	}
	return found, nil
}

// toldApart refuses an identity that does not tell the machine from those behind
// the same BMC: it is none, and nothing is written by it.
func (m *machine) toldApart(ctx context.Context, want site.Identity) error {
	other, err := m.mistakenFor(ctx, want)
	if err == nil && other != "" {
		err = refused("%s does not distinguish this machine from %s behind the same BMC; add to its identity in the design the slot that the BMC has for it, %q, or a mac, the address of one of its network ports; nothing was written",
			printable(want.Full()), printable(other), printable(m.slotName()))
	}
	return err
}

// mistakenFor is the path of a machine behind the same BMC from which an identity
// does not tell this one, empty for none. A slot tells by itself. A machine that
// cannot be read now may have the same serial number, while a UUID is taken to be
// one machine's until another is seen to have it too. A BMC that does not list
// its systems has no other to tell of.
func (m *machine) mistakenFor(ctx context.Context, want site.Identity) (string, error) {
	if want.Slot != "" || m.alone == m.client.in && m.alone != nil {
		return "", nil
	}
	all, err := m.systems(ctx)
	if lasting(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	others := slices.DeleteFunc(all.machines, func(s sibling) bool { return key(s.path) == key(m.path) })
	maps.DeleteFunc(all.unread, func(path string, _ error) bool { return key(path) == key(m.path) })
	if len(others) == 0 && len(all.unread) == 0 {
		m.alone = m.client.in
		return "", nil
	}
	for _, other := range others {
		got, err := m.identityWith(ctx, other.system, want, m.client.get)
		if err != nil {
			return "", err
		}
		if !tells(want, got) {
			return other.path, nil
		}
	}
	if want.UUID == "" && want.MAC == "" {
		for _, path := range slices.Sorted(maps.Keys(all.unread)) {
			return "", fmt.Errorf("%s behind the same BMC cannot be read, and may have the same serial number; with slot: %q in the identity that does not matter: %w",
				printable(path), printable(m.slotName()), all.unread[path])
		}
	}
	return "", nil
}

// tells says whether an identity tells its machine from another.
func tells(want, other site.Identity) bool {
	return want.Contradicts(other) || want.UUID != "" && other.UUID == "" || want.MAC != "" && other.MAC == ""
}

// slotName is what the BMC calls the machine among those behind it.
func (m *machine) slotName() string { return path.Base(m.path) }

// Identify implements driver.Identifier.
func (m *machine) Identify(ctx context.Context, want site.Identity) (site.Identity, error) {
	s, err := m.system(ctx, want)
	if err != nil {
		return site.Identity{}, err
	}
	got := m.identity(s, want)
	all, err := m.systems(ctx)
	if err != nil && !lasting(err) {
		return got, err
	}
	if len(all.machines)+len(all.unread) < 2 {
		return got, nil
	}
	got.Slot = words(s.object, "Id")
	own, err := m.ownMACs(ctx, s, m.client.get)
	if err != nil {
		return got, err
	}
	for _, address := range own {
		if want.MAC == "" || want.MAC == address {
			got.MAC = address
			break
		}
	}
	return got, nil
}
