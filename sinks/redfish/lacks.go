package redfish

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// lacks is what cannot be done to the machine, as its resources tell: what a step
// would find out when it is taken. It is nil when they could not be read. What was
// read just now is not read again.
func (m *machine) lacks(ctx context.Context, s system, known map[string]object) *site.Lacks {
	slot := m.slot
	m.known = known
	defer func() { m.known, m.slot = nil, slot }() // a step looks its slot up when it needs it
	l := &site.Lacks{Install: map[string]string{}, Steps: map[site.Action]string{}}
	drive, noDrive := m.media(ctx, s)
	for _, by := range installWays {
		w, err := m.wayBy(by, s, drive, noDrive)
		if err == nil && w.target == "" {
			err = errNoCDBoot
		}
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if err != nil {
			l.Install[by] = lack(err)
		}
	}
	if _, err := s.networkTarget(&site.Node{}); err != nil {
		l.Install[string(site.StartNetwork)] = lack(err)
	}
	_, on := m.takenReset(ctx, s, turnsOn)
	_, off := m.takenReset(ctx, s, slices.Concat(shutsDown, cutsPower))
	for action, needs := range map[site.Action][]error{
		site.ActionPowerOn: {on}, site.ActionPowerOff: {off}, site.ActionRestart: {off, on}, site.ActionInstall: {off, on}, site.ActionStartAgent: {off, on},
	} {
		for _, err := range needs {
			if err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			if err != nil && l.Steps[action] == "" {
				l.Steps[action] = lack(err)
			}
		}
	}
	return l
}

// lack is an error as what a machine lacks.
func lack(err error) string {
	return strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error())
}
