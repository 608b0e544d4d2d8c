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
func (m *machine) lacks(ctx context.Context, n *site.Node, s system, known map[string]object) *site.Lacks {
	slot := m.slot
	m.known = known
	defer func() { m.known, m.slot = nil, slot }() // a step looks its slot up when it needs it
	l := &site.Lacks{InstallBy: n.Boot.InstallBy, Steps: map[site.Action]string{}}
	w, way := m.way(ctx, n, s)
	if way == nil && w.target == "" {
		way = errNoCDBoot
	}
	_, on := m.takenReset(ctx, s, turnsOn)
	_, off := m.takenReset(ctx, s, slices.Concat(shutsDown, cutsPower))
	for action, needs := range map[site.Action][]error{
		site.ActionPowerOn: {on}, site.ActionPowerOff: {off}, site.ActionRestart: {off, on}, site.ActionInstall: {way, off, on},
	} {
		for _, err := range needs {
			if err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			if err != nil && l.Steps[action] == "" {
				l.Steps[action] = strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error())
			}
		}
	}
	return l
}
