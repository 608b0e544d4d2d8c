package redfish

import (
	"context"
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/driver"
)

func (g *grading) tryBIOS(ctx context.Context) (driver.Ability, error) {
	f, err := g.firmware(ctx)
	if err != nil {
		return driver.Ability{}, err
	}
	if len(f.registry.Attributes) == 0 {
		return partly("%d attributes, and no registry with their types and limits", len(f.current)), nil
	}
	a := works("%d attributes, by the registry %s", len(f.current), printable(f.name))
	a.Values = f.times
	return a, nil
}

func (g *grading) tryIntents(ctx context.Context) (driver.Ability, error) {
	f, err := g.firmware(ctx)
	if err != nil {
		return driver.Ability{}, err
	}
	settings, intents := f.state(f.terms(), nil).Settings(), bios.Intents()
	var a driver.Ability
	resolved := 0
	for _, intent := range intents {
		attribute, values := settings.Meets(intent)
		if attribute == "" {
			a.Values = append(a.Values, intent+": not on this machine")
			continue
		}
		resolved++
		a.Values = append(a.Values, fmt.Sprintf("%s: %s (%s)", intent, printable(attribute), strings.Join(values, ", ")))
	}
	a.Verdict, a.Text = driver.Works, fmt.Sprintf("%d of %d resolve", resolved, len(intents))
	switch resolved {
	case 0:
		a.Verdict, a.Text = driver.Lacks, "none resolves; attributes are set by their own names"
	case len(intents):
	default:
		a.Verdict = driver.Partly
	}
	return a, nil
}

// firmware reads the settings, once: their registry is up to megabytes.
func (g *grading) firmware(ctx context.Context) (firmware, error) {
	if g.settings != nil {
		return *g.settings, nil
	}
	f, err := g.bios(ctx, g.system)
	if err == nil && len(f.current) == 0 {
		err = lacks("the system shows no settings of its firmware")
	}
	if err == nil {
		f.registry, err = g.readRegistry(ctx, f.name)
	}
	if err == nil {
		g.settings = &f
	}
	return f, err
}
