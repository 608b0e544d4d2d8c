package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// startLab has machines with an installed system that is up.
func startLab(t *testing.T, size int) *lab.Fleet {
	t.Helper()
	c := lab.Config{Seed: t.Name()}
	for i := range size {
		name := fmt.Sprintf("m%d", i)
		c.Machines = append(c.Machines, lab.MachineConfig{
			Name: name, BMCAddr: fmt.Sprintf("127.67.0.%d", i+1), OSAddr: fmt.Sprintf("127.67.1.%d", i+1),
			Username: "root", Password: "correct horse", Power: "on", MemoryGiB: 16, FailedUnits: []string{"nginx.service"}, Marker: &site.Marker{Node: name, Generation: 2, Image: "abcd"},
		})
	}
	f, err := lab.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func subject(f *lab.Fleet, name string) drivertest.Subject {
	return drivertest.Subject{
		Endpoint: site.Endpoint{URL: f.OSURL(name), Trust: site.Trust{HostKeys: []string{f.HostKey(name)}}},
		Secret:   secret.New("root", "correct horse"), Node: &site.Node{Name: name},
		Counts: func() drivertest.Counts {
			c := f.Machine(name).Counts()
			return drivertest.Counts{Writes: c.Writes, Resets: c.Resets, Installs: c.Installs}
		},
	}
}

func TestConformanceOnTheLab(t *testing.T) {
	t.Parallel()
	f := startLab(t, 20)
	var next atomic.Int32
	drivertest.Run(t, drivertest.Suite{Driver: agent.New(agent.Options{}), Fresh: func(t *testing.T) drivertest.Subject {
		return subject(f, fmt.Sprintf("m%d", next.Add(1)-1))
	}})
}

func TestSystemsOfTheLab(t *testing.T) {
	t.Parallel()
	f := startLab(t, 1)
	sub := subject(f, "m0")
	seen, err := observe(t.Context(), sub.Endpoint, sub.Secret)
	if want := (site.Marker{Node: "m0", Generation: 2, Image: "abcd"}); err != nil || seen.Marker == nil || *seen.Marker != want {
		t.Fatalf("got marker %v, %v", seen.Marker, err)
	}
	have := seen.Facets[site.FacetOS].Have
	if have["release"] != "Debian GNU/Linux 12 (bookworm)" || have["kernel"] != "6.1.0-lab" || len(have["bootID"]) != 36 {
		t.Errorf("got %v", have)
	}
	in := seen.Inside
	if in == nil || len(in.Links) != 1 || !slices.Equal(in.Links[0].Addresses, []string{"127.67.1.1/16"}) || len(in.Disks) != 2 || len(in.Mounts) != 1 ||
		!slices.Equal(in.FailedUnits, []string{"nginx.service"}) || in.BootedAt.IsZero() || in.MemoryBytes != 16<<30 {
		t.Errorf("got %+v", in)
	}
	f.Machine("m0").SetPower("off")
	if _, err := observe(t.Context(), sub.Endpoint, sub.Secret); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("a machine that is off: got %v", err)
	}
}
