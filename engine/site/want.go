package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Want returns what the design asks of a facet, in canonical terms; nil if it
// asks for nothing. A facet inside the installed system has fields for each item.
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
	case FacetAccounts:
		return n.accountValues()
	case FacetBase, FacetNetwork, FacetPackages, FacetConfig, FacetKernel, FacetActions:
		return orNil(item.Values(n.Items(f)))
	case FacetDefinition:
		if n.IsVirtual() {
			return n.definition()
		}
	case FacetDisks:
		return n.disks()
	}
	return nil
}

// Asks reports whether the design asks for anything of a facet, in any system.
func (n *Node) Asks(f Facet) bool {
	return n.Want(f) != nil || n.asksByFamily(f) || n.asksByDriver(f) || f == FacetConfig && n.AsksForUnits()
}

// asksByDriver reports whether a driver that may be for the machine asks for something
// of a facet.
func (n *Node) asksByDriver(f Facet) bool {
	for _, d := range n.References.Drivers {
		if d.asks(f) {
			return true
		}
	}
	return false
}

// asks reports whether a driver asks for something of a facet, in any system.
func (d *Driver) asks(f Facet) bool {
	return f == FacetPackages && len(d.Packages) > 0 || f == FacetConfig && len(d.Modules)+len(d.Firmware) > 0
}

// asksByFamily reports whether the design asks for something of a facet only in
// systems of some family.
func (n *Node) asksByFamily(f Facet) bool {
	for family := range n.Families {
		if len(n.onlyFamilies().ItemsIn(f, family)) > 0 {
			return true
		}
	}
	return false
}

// onlyFamilies is a node with what the design asks for in systems of some family alone. Certificates need who signs
// them, and the names of the node.
func (n *Node) onlyFamilies() *Node {
	return &Node{Families: n.Families, References: References{TLS: n.References.TLS, TLSNames: n.References.TLSNames}}
}

// Asked returns a digest of what the design asks of a facet, whatever the
// system turns out to be; empty if it asks for nothing.
func (n *Node) Asked(f Facet) string {
	all := Values{}
	maps.Copy(all, n.Want(f))
	if IsInside(f) && n.References.Family == "" {
		for family := range n.Families {
			for field, v := range item.Values(n.onlyFamilies().ItemsIn(f, family)) {
				all["families."+family+"."+field] = v
			}
		}
	}
	if f == FacetConfig && n.AsksForUnits() {
		all[item.KindUnlisted] = n.System.Unlisted.Units
		for family, own := range n.Families {
			if own.Unlisted.Units != "" {
				all["families."+family+"."+item.KindUnlisted] = own.Unlisted.Units
			}
		}
	}
	for name, d := range n.References.Drivers {
		if d.asks(f) {
			text, _ := json.Marshal(d)
			all[kindDrivers+"."+name] = string(text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all.Digest()
}

// values returns what the design asks of the boot, by field.
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

// Digest identifies values, independent of order.
func (v Values) Digest() string {
	h := sha256.New()
	for _, field := range slices.Sorted(maps.Keys(v)) {
		h.Write([]byte(field + "\x00" + v[field] + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
