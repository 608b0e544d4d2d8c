package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/site"
)

// bootModes are the design's words for how the firmware boots, and Redfish's.
var bootModes = map[string]schemas.BootSourceOverrideMode{"uefi": schemas.UEFIBootSourceOverrideMode, "bios": schemas.LegacyBootSourceOverrideMode}

const overrideMode = "BootSourceOverrideMode"

// mode is how the firmware boots in the design's words, empty where the BMC
// does not say.
func (s system) mode() string {
	shown := at[schemas.BootSourceOverrideMode](s.object, "Boot", overrideMode)
	for mode, name := range bootModes {
		if name == shown {
			return mode
		}
	}
	return ""
}

// setMode has the firmware boot as designed, and proves it. DSP0268 6.30 has the
// mode belong to the override; BMCs have it without one too, and that is what
// there is of it in Redfish outside the firmware's own settings.
func (m *machine) setMode(ctx context.Context, n *site.Node, s system) (system, error) {
	if n.Boot.Mode == "" || s.mode() == n.Boot.Mode {
		return s, nil
	}
	mode := bootModes[n.Boot.Mode]
	allowed := at[[]schemas.BootSourceOverrideMode](s.object, "Boot", overrideMode+"@Redfish.AllowableValues")
	switch {
	case at[object](s.object, "Boot")[overrideMode] == nil, m.has(noMode), m.has(leastOverride):
		return s, fmt.Errorf("the BMC cannot set how the firmware boots; remove boot.mode from the design, or set the firmware's own attribute in bios.attributes: %w", errors.ErrUnsupported)
	case len(allowed) > 0 && !slices.Contains(allowed, mode):
		return s, fmt.Errorf("the machine cannot be told to boot by %s; change the design's boot.mode: %w", n.Boot.Mode, errors.ErrUnsupported)
	}
	err := m.tryForms(ctx, s, overrideMode, m.modeForms(s, mode))
	if hasMessage(err, "PropertyNotWritable") && hasStatus(err, http.StatusBadRequest, http.StatusForbidden) {
		return s, fmt.Errorf("the BMC shows how the firmware boots, but changes it only by bios.attributes; set it there, or change the design's boot.mode: %w: %w", errors.ErrUnsupported, err)
	}
	if err != nil {
		return s, err
	}
	return m.until(ctx, m.opts.Settle, "the firmware to boot by "+n.Boot.Mode, func(s system) bool { return s.mode() == n.Boot.Mode })
}

// modeForms are the ways to ask for a mode alone: with the override as it is,
// which some want, or without.
func (m *machine) modeForms(s system, mode schemas.BootSourceOverrideMode) []boot {
	only := boot{Mode: mode}
	full := boot{
		Enabled: at[schemas.BootSourceOverrideEnabled](s.object, "Boot", "BootSourceOverrideEnabled"),
		Target:  at[schemas.BootSource](s.object, "Boot", overrideTarget), Mode: mode,
	}
	if m.has(fullOverride) || m.has(resendEnabled) {
		return []boot{full, only}
	}
	return []boot{only, full}
}
