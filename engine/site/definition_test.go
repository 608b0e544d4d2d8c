package site_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

func virtualNode() *site.Node {
	n := &site.Node{Name: "web-1", Style: site.StyleVirtual, Virtual: site.Virtual{
		CPUs: 2, Memory: 4 << 30, Host: site.Host{Hypervisor: "hv-1", Accelerator: "kvm"},
		Disks: map[string]site.VirtualDisk{
			"root": {Size: 20 << 30, Image: "overlay"},
			"data": {Size: 1 << 30, Pool: "slow", Format: "raw", Bus: "scsi"},
		},
		Interfaces: map[string]site.VirtualInterface{"eth1": {Bridge: "br-data", Model: "e1000e"}, "eth0": {Bridge: "br-os"}},
	}}
	n.Derive("lab")
	return n
}

// Every field that a design asks for is in the table of effects, whatever it is
// on the machine, and every row of the table is for some such field.
func TestEffectsHoldEveryField(t *testing.T) {
	n := virtualNode()
	var met []site.EffectOf
	for _, f := range []site.Facet{site.FacetDefinition, site.FacetDisks} {
		for field, want := range n.Want(f) {
			for _, have := range []string{"", want, "other", "1KiB", "1PiB", "12345B"} {
				e, ok := n.Virtual.EffectOf(f, field, have, want)
				if !ok {
					t.Errorf("%s.%s from %q to %q has no effect", f, field, have, want)
				}
				met = append(met, e)
			}
		}
	}
	for _, e := range site.Effects {
		if !slices.Contains(met, e) {
			t.Errorf("nothing falls under %s.%s %s", e.Facet, e.Field, e.Case)
		}
	}
}

func TestEffects(t *testing.T) {
	n := virtualNode()
	for _, c := range []struct {
		facet             site.Facet
		field, have, want string
		effect            site.Effect
	}{
		{site.FacetDefinition, "memory", "4GiB", "8GiB", site.EffectRestart},
		{site.FacetDefinition, "eth0.bridge", "br-a", "br-b", site.EffectLive},
		{site.FacetDefinition, "eth0.mac", "", "52:54:00:00:00:01", site.EffectLive},
		{site.FacetDefinition, "eth0.mac", "52:54:00:00:00:02", "52:54:00:00:00:01", site.EffectRestart},
		{site.FacetDefinition, "firmware", "bios", "uefi", site.EffectReplace},
		{site.FacetDisks, "root.size", "10GiB", "20GiB", site.EffectLive},
		{site.FacetDisks, "root.size", "40GiB", "20GiB", site.EffectReplace},
		{site.FacetDisks, "data.size", "2GiB", "1GiB", site.EffectNever},
		{site.FacetDisks, "data.size", "1073741825B", "1GiB", site.EffectNever},
		{site.FacetDisks, "data.size", "1073741823B", "1GiB", site.EffectLive},
		{site.FacetDisks, "data.size", "", "1GiB", site.EffectLive},
		{site.FacetDisks, "root.pool", "default", "fast", site.EffectReplace},
		{site.FacetDisks, "data.pool", "default", "fast", site.EffectNever},
		{site.FacetDisks, "data.bus", "virtio", "scsi", site.EffectRestart},
	} {
		if e, _ := n.Virtual.EffectOf(c.facet, c.field, c.have, c.want); e.Effect != c.effect {
			t.Errorf("%s from %q to %q: %s, want %s", c.field, c.have, c.want, e.Effect, c.effect)
		}
	}
}

func TestWantOfDefinition(t *testing.T) {
	n := virtualNode()
	asked := site.Values{
		"state": "defined", "cpus": "2", "memory": "4GiB", "machine": "q35", "firmware": "bios", "secureBoot": "false", "tpm": "false",
		"watchdog": "none", "accelerator": "kvm", "autostart": "true", "interfaces": "eth0,eth1",
		"eth0.bridge": "br-os", "eth0.model": "virtio", "eth0.mac": site.MachineMAC("lab", "web-1", "eth0"), "eth1.model": "e1000e",
	}
	for field, want := range asked {
		if got := n.Want(site.FacetDefinition)[field]; got != want {
			t.Errorf("%s = %q, want %q", field, got, want)
		}
	}
	if got := n.Want(site.FacetDisks)["data.size"]; got != "1GiB" {
		t.Errorf("data.size = %q", got)
	}
	if physical := (&site.Node{}); physical.Asks(site.FacetDefinition) || physical.Asks(site.FacetDisks) {
		t.Error("a physical machine is asked for a definition")
	}
}

// The page for people has the table, row by row.
func TestEffectsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/virtual.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What a change takes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := regexp.MustCompile("(?m)^\\| `.*$").FindAllString(section, -1)
	var want []string
	for _, e := range site.Effects {
		what := "`" + string(e.Facet) + "." + e.Field + "`"
		if e.Case != "" {
			what += " " + e.Case
		}
		want = append(want, "| "+what+" | "+string(e.Effect)+" | "+e.Why+" |")
	}
	if !slices.Equal(documented, want) {
		t.Errorf("docs/virtual.md has\n%s\n\nthe table of effects is\n%s", strings.Join(documented, "\n"), strings.Join(want, "\n"))
	}
}
