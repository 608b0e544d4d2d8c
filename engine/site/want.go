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
	case FacetBase, FacetNetwork, FacetPackages, FacetConfig:
		if n.Asks(f) {
			return digested(n.parts(f))
		}
	case FacetDefinition:
		if n.IsVirtual() {
			return n.definition()
		}
	case FacetDisks:
		return n.disks()
	}
	return nil
}

// Asks says whether the design asks for anything of a facet: whether Want gives
// anything, found without a digest.
func (n *Node) Asks(f Facet) bool {
	if parts := Facets[f].Parts; len(parts) > 0 {
		return slices.ContainsFunc(parts, func(p FacetPart) bool { return p.AskedBy(n) })
	}
	return n.Want(f) != nil
}

// parts are what the design says of a facet of many parts.
func (n *Node) parts(f Facet) any {
	switch f {
	case FacetBase:
		return []any{n.System.Users, n.System.Time, n.System.Logs}
	case FacetNetwork:
		return struct {
			Interfaces map[string]Interface
			Bonds      map[string]Bond
			Bridges    map[string]Bridge
			VLANs      map[string]VLAN
		}{n.Interfaces, n.Bonds, n.Bridges, n.VLANs}
	case FacetPackages:
		return []any{n.System.Packages, n.Kernel.Package}
	}
	return []any{n.System.Files, n.System.Units, n.System.Sysctl, n.Kernel.Parameters}
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

// digested is the digest of what a design says.
func digested(parts any) Values {
	text, _ := json.Marshal(parts)
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
