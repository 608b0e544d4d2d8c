package site_test

import (
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A port that was prepared goes back to the networks that the design has for it by then: those of
// the node that is plugged into it, or those that it had where the design forgot it.
func TestPortsBack(t *testing.T) {
	was := []site.CarriedNetwork{{Network: "old", VLAN: 9}}
	on := func(port string, networks ...string) *site.Node {
		return &site.Node{Interfaces: map[string]site.Interface{"eno1": {Switch: "leaf-1", Port: port, Networks: networks}}}
	}
	for _, c := range []struct {
		name string
		a, b *site.Node
		port string
		want []site.CarriedNetwork
	}{
		{"as it was", on("1", "os"), on("2", "data"), "1", []site.CarriedNetwork{{Network: "os", VLAN: 20}}},
		{"other networks", on("1", "data"), on("2", "os"), "1", []site.CarriedNetwork{{Network: "data", VLAN: 30}}},
		{"another node's", on("2", "os"), on("1", "data"), "1", []site.CarriedNetwork{{Network: "data", VLAN: 30}}},
		{"nobody's", on("2", "os"), on("3", "data"), "1", was},
		{"not named", on("", "data"), on("", "os"), "", []site.CarriedNetwork{{Network: "data", VLAN: 30}}},
		{"named by now", on("1", "data"), on("2", "os"), "", was},
	} {
		c.a.Name, c.b.Name = "a", "b"
		s := &site.Site{Nodes: map[string]*site.Node{"a": c.a, "b": c.b}, Networks: map[string]*site.Network{"os": {VLAN: 20}, "data": {VLAN: 30}}}
		p := site.SwitchedPort{Interface: "eno1", Switch: "leaf-1", Port: c.port, Networks: was}
		if c.port == "" {
			p.Switch = ""
			if c.name == "not named" {
				c.a.Interfaces["eno1"] = site.Interface{Networks: []string{"data"}}
			}
		}
		got := s.PortsBack(c.a, []site.SwitchedPort{p})
		if len(got) != 1 || !slices.Equal(got[0].Networks, c.want) || !slices.Equal(p.Networks, was) {
			t.Errorf("%s: carries %+v, want %+v", c.name, got[0].Networks, c.want)
		}
	}
}
