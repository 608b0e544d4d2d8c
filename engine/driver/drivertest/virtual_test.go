package drivertest_test

import (
	"errors"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A fake hypervisor, as a real one, deletes no disk that the step does not name.
func TestFakeHypervisorDeletesNamedDisksOnly(t *testing.T) {
	fleet := drivertest.NewFleet(drivertest.Config{})
	fake := fleet.AddVirtual("lab", "vm-1")
	n := fake.VirtualNode()
	m, err := fleet.HypervisorDriver().Open(t.Context(), n.Endpoints[site.Manager], secret.Value{})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(f site.Facet, a site.Action, disks string) error {
		s := site.Step{Node: n.Name, Machine: n.Identity, Facet: f, Action: a, Disks: disks}
		return m.Apply(t.Context(), s, n, drivertest.Permitted)
	}
	for f, a := range map[site.Facet]site.Action{site.FacetDefinition: site.ActionDefine, site.FacetDisks: site.ActionDisks} {
		if err := apply(f, a, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, disks := range []string{"", site.DisksUnknown, "root 20GiB in the pool default"} {
		if err := apply(site.FacetDefinition, site.ActionZeroize, disks); !errors.Is(err, driver.ErrRefused) || !fake.Defined() {
			t.Errorf("a step that names %q: %v; the machine is there: %t", disks, err, fake.Defined())
		}
	}
	if err := apply(site.FacetDefinition, site.ActionZeroize, "data 1GiB in the pool default"); err != nil || fake.Defined() {
		t.Errorf("a step that names its disk: %v; the machine is there: %t", err, fake.Defined())
	}
}
