package redfish

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// wantedResets are those that the driver uses.
var wantedResets = slices.Concat(turnsOn[:1], shutsDown, cutsPower)

func (g *grading) tryPower(ctx context.Context) (driver.Ability, error) {
	if g.system.resets() == "" {
		return driver.Ability{}, lacks("the system takes no reset")
	}
	kinds, err := g.resetKinds(ctx, g.system)
	if err != nil {
		return driver.Ability{}, err
	}
	a := works("it is %s", cmp.Or(g.system.heading(), printable(string(g.system.power()))))
	for _, k := range kinds {
		a.Values = append(a.Values, printable(string(k)))
	}
	missing := slices.DeleteFunc(slices.Clone(wantedResets), func(k schemas.ResetType) bool { return slices.Contains(kinds, k) })
	switch {
	case g.system.heading() == "":
		a.Verdict, a.Text = driver.Fails, fmt.Sprintf("PowerState is %q, which Slipway does not know", printable(string(g.system.power())))
	case len(kinds) == 0:
		a.Verdict, a.Text = driver.Partly, a.Text+"; it does not say which resets it takes"
	case len(missing) > 0:
		a.Verdict, a.Text = driver.Partly, fmt.Sprintf("%s; it has no %s", a.Text, joinedKinds(missing))
	}
	return a, nil
}

func joinedKinds(kinds []schemas.ResetType) string {
	all := make([]string, len(kinds))
	for i, k := range kinds {
		all[i] = string(k)
	}
	return strings.Join(all, ", ")
}

func (g *grading) tryBootOnce(ctx context.Context) (driver.Ability, error) {
	s, err := g.future(ctx, g.system)
	if err != nil {
		return driver.Ability{}, err
	}
	if at[object](s.object, "Boot")[overrideTarget] == nil {
		return driver.Ability{}, lacks("the system shows no boot override")
	}
	a := works("override is %s", cmp.Or(words(s.object, "Boot", "BootSourceOverrideEnabled"), "not said"))
	a.Values = bootTargets(s)
	enabled := at[[]schemas.BootSourceOverrideEnabled](s.object, "Boot", "BootSourceOverrideEnabled@Redfish.AllowableValues")
	if _, ok := s.override(g.cdTargets()...); !ok {
		a.Verdict, a.Text = driver.Partly, "not from a CD, which installations need"
	} else if len(enabled) > 0 && !slices.Contains(enabled, schemas.OnceBootSourceOverrideEnabled) {
		a.Verdict, a.Text = driver.Partly, "Once is not among what it takes"
	} else if !slices.Contains(enabled, schemas.ContinuousBootSourceOverrideEnabled) {
		a.Text += "; for one boot, not for all that follow"
	}
	return a, nil
}

func (g *grading) tryBootOrder(ctx context.Context) (driver.Ability, error) {
	refs := g.system.bootOrder()
	if len(refs) == 0 {
		return driver.Ability{}, lacks("the system shows no BootOrder")
	}
	if err := g.machine.boot.read(ctx, g.client, g.system); err != nil {
		return driver.Ability{}, err
	}
	a := works("%d boot options", len(refs))
	var unknown int
	for _, ref := range refs {
		if g.machine.boot.source[ref] == "" {
			unknown++
		}
	}
	a.Values = strings.Split(joined(g.machine.boot.targets(refs)), ",")
	if unknown > 0 {
		a.Verdict, a.Text = driver.Partly, fmt.Sprintf("%d boot options, of which %d are of no known source", len(refs), unknown)
	}
	return a, nil
}

func (g *grading) tryBootMode(ctx context.Context) (driver.Ability, error) {
	s, err := g.future(ctx, g.system)
	if err != nil {
		return driver.Ability{}, err
	}
	mode := s.mode()
	if mode == "" {
		return driver.Ability{}, lacks("the system does not show how its firmware boots")
	}
	a := works("boots by %s", mode)
	for _, other := range at[[]string](s.object, "Boot", overrideMode+"@Redfish.AllowableValues") {
		a.Values = append(a.Values, printable(other))
	}
	return a, nil
}

func (g *grading) tryHTTPBoot(context.Context) (driver.Ability, error) {
	_, uri := at[object](g.system.object, "Boot")["HttpBootUri"]
	_, source := g.system.override(schemas.UefiHTTPBootSource)
	switch {
	case uri && source:
		return works("from a URL that is given"), nil
	case source:
		return partly("from a URL that the network gives; none can be set"), nil
	}
	return driver.Ability{}, lacks("UefiHttp is not among its boot sources")
}

func (g *grading) tryMedia(ctx context.Context) (driver.Ability, error) {
	all, err := g.slots(ctx, g.system)
	if err != nil {
		return driver.Ability{}, err
	}
	if len(all) == 0 {
		return driver.Ability{}, lacks("there is no virtual media slot that takes a CD image")
	}
	a := works("by %s", insertWay(all[0]))
	for _, s := range all {
		state := "empty"
		if s.inserted() {
			state = "holds an image"
		}
		a.Values = append(a.Values, printable(s.path)+" ("+state+")")
	}
	return a, nil
}

func insertWay(s slot) string {
	if s.action("InsertMedia") != "" {
		return "the action InsertMedia"
	}
	return "a write to the slot"
}
