package redfish

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (g *grading) tryHealth(context.Context) (driver.Ability, error) {
	h := g.system.health()
	if h == "" {
		return driver.Ability{}, lacks("the system says nothing of its health")
	}
	return works("it is %s", h), nil
}

func (g *grading) trySensors(ctx context.Context) (driver.Ability, error) {
	if sensors := link(g.chassis, "Sensors"); sensors != "" {
		if o, err := g.client.get(ctx, sensors); err == nil {
			return works("%d sensors", memberCount(o)), nil
		}
	}
	var parts []string
	for _, of := range []struct{ resource, list, name string }{
		{"Thermal", "Temperatures", "temperatures"}, {"Thermal", "Fans", "fans"}, {"Power", "PowerSupplies", "power supplies"},
	} {
		path := link(g.chassis, of.resource)
		if path == "" {
			continue
		}
		o, err := g.client.get(ctx, path)
		if err != nil {
			return driver.Ability{}, err
		}
		if n := len(at[[]object](o, of.list)); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, of.name))
		}
	}
	if len(parts) == 0 {
		return driver.Ability{}, lacks("the chassis shows no sensors")
	}
	return works("%s", strings.Join(parts, ", ")), nil
}

// memberCount is how many members a collection has, also where it is given page by
// page.
func memberCount(o object) int {
	return max(at[int](o, "Members@odata.count"), len(at[[]object](o, "Members")))
}

func (g *grading) tryLog(ctx context.Context) (driver.Ability, error) {
	var found []string
	for _, owner := range []object{g.system.object, g.manager} {
		path := link(owner, "LogServices")
		if path == "" {
			continue
		}
		o, err := g.client.get(ctx, path)
		if err != nil {
			return driver.Ability{}, err
		}
		for _, p := range links(o, "Members") {
			found = append(found, printable(p))
		}
	}
	if len(found) == 0 {
		return driver.Ability{}, lacks("neither the system nor its manager has a log")
	}
	a := works("%d logs", len(found))
	a.Values = found
	return a, nil
}

func (g *grading) tryInventory(ctx context.Context) (driver.Ability, error) {
	inv, err := g.Inspect(ctx, &site.Node{Identity: g.want})
	if err != nil {
		return driver.Ability{}, err
	}
	a := works("part by part")
	for _, of := range []struct {
		one, many string
		count     int
	}{
		{"memory module", "memory modules", len(inv.DIMMs)}, {"processor", "processors", len(inv.CPUs)}, {"GPU", "GPUs", len(inv.GPUs)},
		{"drive", "drives", len(inv.Drives)}, {"network adapter", "network adapters", len(inv.NICs)},
		{"power supply", "power supplies", len(inv.Supplies)}, {"PCIe device", "PCIe devices", len(inv.Devices)},
		{"firmware version", "firmware versions", len(inv.Firmware)},
	} {
		switch of.count {
		case 0:
		case 1:
			a.Values = append(a.Values, "1 "+of.one)
		default:
			a.Values = append(a.Values, fmt.Sprintf("%d %s", of.count, of.many))
		}
	}
	switch {
	case len(a.Values) == 0:
		return a, lacks("the system lists none of its parts")
	case len(inv.Missing) > 0:
		a.Verdict, a.Text = driver.Partly, "not available: "+strings.Join(inv.Missing, "; ")
	}
	return a, nil
}

// mostOff is how far a BMC's clock may be from this host's.
const mostOff = 5 * time.Minute

// tryClock compares clocks: by a wrong one the certificate of the server that
// has the images is not valid yet, or no longer.
func (g *grading) tryClock(context.Context) (driver.Ability, error) {
	shown, err := time.Parse(time.RFC3339, words(g.manager, "DateTime"))
	if err != nil {
		return driver.Ability{}, lacks("the BMC does not show its clock")
	}
	if time.Until(shown).Abs() <= mostOff {
		return works("as this host's"), nil
	}
	return partly("the BMC's clock shows %s, so the BMC may reject the certificates of image servers as invalid", shown.Format(time.RFC3339)), nil
}
