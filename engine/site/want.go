package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Want is what the design asks of a facet, in canonical terms; nil when it is
// silent. A facet of many parts is asked for by the digest of its design; its
// driver resolves the parts.
func (n *Node) Want(f Facet) Values {
	switch f {
	case FacetPower:
		return single("state", n.Power)
	case FacetBoot:
		return orNil(n.Boot.values())
	case FacetFirmware:
		want := Values{}
		for component, fw := range n.Firmware {
			want[component] = fw.Version
		}
		return orNil(want)
	case FacetBIOS:
		return n.BIOS.values()
	case FacetBase:
		return designed([]any{n.System.Users, n.System.Time, n.System.Logs}, []any{map[string]User(nil), Time{}, Logs{}})
	case FacetNetwork:
		type network struct {
			Interfaces map[string]Interface
			Bonds      map[string]Bond
			Bridges    map[string]Bridge
			VLANs      map[string]VLAN
		}
		return designed(network{n.Interfaces, n.Bonds, n.Bridges, n.VLANs}, network{})
	case FacetPackages:
		return designed(n.System.Packages, map[string]Package(nil))
	case FacetConfig:
		return designed([]any{n.System.Files, n.System.Units, n.System.Sysctl, n.Kernel}, []any{map[string]File(nil), map[string]Unit(nil), map[string]any(nil), Kernel{}})
	}
	return nil
}

// values are what the design asks of the boot, field by field.
func (b Boot) values() Values {
	v := Values{}
	if len(b.Order) > 0 {
		v["order"] = strings.Join(b.Order, ",")
	}
	if b.Mode != "" {
		v["mode"] = b.Mode
	}
	return v
}

func single(field, value string) Values {
	if value == "" {
		return nil
	}
	return Values{field: value}
}

func orNil(v Values) Values {
	if len(v) == 0 {
		return nil
	}
	return v
}

// designed is the digest of a part of the design, nil where it is as empty.
func designed(part, empty any) Values {
	text, _ := json.Marshal(part)
	if none, _ := json.Marshal(empty); string(text) == string(none) {
		return nil
	}
	sum := sha256.Sum256(text)
	return Values{"design": hex.EncodeToString(sum[:6])}
}

// Digest names values, free of order.
func (v Values) Digest() string {
	h := sha256.New()
	for _, field := range slices.Sorted(maps.Keys(v)) {
		h.Write([]byte(field + "\x00" + v[field] + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
