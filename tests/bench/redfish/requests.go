package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/redfish"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/captures"
	"github.com/slipway-gitops/slipway/tests/lab"
)

const (
	// seed is what the fleet's keys and certificates derive from.
	seed = "bench"
	// user and password open every BMC.
	user, password = "admin", "bench"
)

// looked are the facets that the engine looks at every time.
var looked = []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth}

// requests counts those of looks, inspections and plain walks, on a server of
// each kind.
func requests(bool) ([]string, error) {
	machines := subjects()
	fleet, err := lab.Start(lab.Config{Seed: seed, Machines: machines})
	if err != nil {
		return nil, err
	}
	defer fleet.Close()
	var lines []string
	for _, m := range machines {
		l, err := count(fleet, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		lines = append(lines, l...)
	}
	return lines, nil
}

// subjects are a machine of each personality, of the size of a usual server,
// and one of each capture that is there.
func subjects() []lab.MachineConfig {
	var all []lab.MachineConfig
	for _, p := range lab.Personalities {
		all = append(all, lab.MachineConfig{Name: p, Personality: p, MemoryGiB: 1024, Processors: 2, Parts: lab.Parts{Drives: 8}})
	}
	for _, file := range captured() {
		vendor, _, _ := strings.Cut(filepath.Base(file), "-")
		all = append(all, lab.MachineConfig{Name: vendor, Capture: file})
	}
	for i := range all {
		all[i].BMCAddr, all[i].Username, all[i].Password = address(i), user, password
		if all[i].Capture == "" {
			all[i].Identity, all[i].Power = identity(i), "on"
		}
	}
	return all
}

// captured are the files of captured machines; that of a BMC which answers
// nothing is none.
func captured() []string {
	files := slices.DeleteFunc(captures.Found(), func(f string) bool { return !strings.Contains(filepath.Base(f), "-") })
	if len(files) == 0 {
		rig.Progress("requests: no captures of real machines in %s; SLIPWAY_CAPTURES says where they are", captures.Folder())
	}
	return files
}

// count are the figures of one machine.
func count(fleet *lab.Fleet, m lab.MachineConfig) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	observed, err := observe(ctx, fleet, m)
	if err != nil {
		return nil, err
	}
	machine := fleet.Machine(m.Name)
	inspected, err := asked(machine, func() error { return inspect(ctx, fleet, m) })
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://%s:%d", m.BMCAddr, fleet.BMCPort())
	walked, err := asked(machine, func() error { return walk(url, fleet.CA(), user, password) })
	if err != nil {
		return nil, fmt.Errorf("plain walk: %w", err)
	}
	rig.Progress("requests: %s: %g a look, %g an inspection, %g a plain walk", m.Name, observed, inspected, walked)
	name := "redfish/" + m.Name
	return []string{
		rig.Figure(name+"/observe", observed, "requests"),
		rig.Figure(name+"/inspect", inspected, "requests"),
		rig.Figure(name+"/inspect-ratio", inspected/walked, "ratio"),
	}, nil
}

// asked is how many requests a machine gets while something is done.
func asked(m *lab.Machine, do func() error) (float64, error) {
	before := m.Counts().Requests
	err := do()
	return float64(m.Counts().Requests - before), err
}

// observe is the mean of ten looks after the first.
func observe(ctx context.Context, fleet *lab.Fleet, c lab.MachineConfig) (float64, error) {
	const looks = 10
	m, err := open(ctx, fleet, c)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	look := func() error {
		seen, err := m.Observe(ctx, node(c), looked)
		if err == nil && len(seen.Facets) < len(looked) {
			err = fmt.Errorf("only %d facets of %d were seen", len(seen.Facets), len(looked))
		}
		return err
	}
	if err := look(); err != nil {
		return 0, err
	}
	n, err := asked(fleet.Machine(c.Name), func() error {
		for range looks {
			if err := look(); err != nil {
				return err
			}
		}
		return nil
	})
	return n / looks, err
}

// inspect inspects a machine that was never seen before, from login to logout.
func inspect(ctx context.Context, fleet *lab.Fleet, c lab.MachineConfig) error {
	m, err := open(ctx, fleet, c)
	if err != nil {
		return err
	}
	inv, err := m.(driver.Inspector).Inspect(ctx, node(c))
	if err != nil {
		m.Close()
		return err
	}
	if len(inv.DIMMs) == 0 || len(inv.Drives) == 0 || len(inv.NICs) == 0 {
		rig.Progress("requests: %s: the inventory has %d modules, %d drives, %d adapters; missing: %q", c.Name, len(inv.DIMMs), len(inv.Drives), len(inv.NICs), inv.Missing)
	}
	return m.Close()
}

func open(ctx context.Context, fleet *lab.Fleet, c lab.MachineConfig) (driver.Machine, error) {
	e := site.Endpoint{URL: fleet.BMCURL(c.Name), Trust: site.Trust{CA: string(fleet.CA())}}
	return redfish.New(redfish.Options{}).Open(ctx, e, secret.New(user, password))
}

func node(c lab.MachineConfig) *site.Node { return &site.Node{Name: c.Name, Identity: c.Identity} }
