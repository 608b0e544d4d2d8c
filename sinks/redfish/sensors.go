package redfish

import (
	"context"
	"net/http"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// mostSensors is how many sensors that are not well are told of.
const mostSensors = 16

// sensors shows those that are not well: temperatures, fans, voltages and power
// supplies. Where they are told of is looked up once; from then on it takes two
// requests.
func (m *machine) sensors(ctx context.Context, s system) (site.FacetState, bool, error) {
	if m.sensorPaths == nil {
		paths, err := m.findSensors(ctx, s)
		if err != nil {
			return site.FacetState{}, false, err
		}
		m.sensorPaths = paths
	}
	unwell := site.Values{}
	for _, path := range m.sensorPaths {
		o, err := m.client.get(ctx, path)
		if err != nil {
			if hasStatus(err, http.StatusNotFound) {
				m.sensorPaths = nil
			}
			return site.FacetState{}, false, err
		}
		for _, list := range []string{"Temperatures", "Fans", "Voltages", "PowerSupplies", "Members"} {
			addUnwell(unwell, items(o, list))
		}
	}
	if len(unwell) == 0 {
		unwell = nil
	}
	return site.FacetState{Have: unwell}, len(m.sensorPaths) > 0, nil
}

// addUnwell notes the sensors of a list whose health is not OK. Those that are
// not in use have none that means anything.
func addUnwell(unwell site.Values, list []object) {
	for _, o := range list {
		h, state := health(o), name(o, "Status", "State")
		if h == "" || h == "OK" || state != "" && state != "Enabled" || len(unwell) >= mostSensors {
			continue
		}
		called := name(o, "Name")
		if called == "" {
			called = "sensor " + name(o, "MemberId")
		}
		unwell[called] = strings.ToLower(h)
	}
}

// findSensors are the paths of the resources that tell of the sensors of the
// first chassis that has any: Thermal and Power, or the newer collection of
// sensors, with its members.
func (m *machine) findSensors(ctx context.Context, s system) ([]string, error) {
	const mostChassis = 4
	own, err := m.relatives(ctx, s, itsChassis)
	if err != nil {
		return nil, err
	}
	for _, path := range own[:min(len(own), mostChassis)] {
		c, err := m.client.get(ctx, path)
		if err != nil && !lasting(err) {
			return nil, err
		}
		var paths []string
		for _, name := range []string{"Thermal", "Power"} {
			if path := link(c, name); path != "" {
				paths = append(paths, path)
			}
		}
		if path := link(c, "Sensors"); len(paths) == 0 && path != "" {
			paths = []string{path + "?$expand=.($levels=1)"}
		}
		if len(paths) > 0 {
			return paths, nil
		}
	}
	return []string{}, nil
}
