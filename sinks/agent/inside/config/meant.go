package config

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/systemd"
)

// tellMeant reports the names by which the design may mean the units: their aliases and, on a live system, the
// units that would stop with them.
func (w *work) tellMeant(names []string) error {
	also := map[string][]string{}
	for _, folder := range unitFolders {
		links, err := w.linksBelow(folder)
		if err != nil {
			return err
		}
		for _, n := range names {
			for _, l := range links[n] {
				if path.Dir(l.Path) == folder {
					also[n] = append(also[n], path.Base(l.Path))
				}
			}
		}
	}
	if w.h.Live {
		stop, err := w.stopWith(names)
		if err != nil {
			return err
		}
		for n, all := range stop {
			also[n] = append(also[n], all...)
		}
	}
	for n, all := range also {
		slices.Sort(all)
		w.seen.Have[item.MeantBy(n)] = strings.Join(slices.Compact(all), " ")
	}
	return nil
}

// stopping are the properties that name the units that stop with a unit (systemd.unit(5)).
var stopping = []string{"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf"}

// stopWith lists the units that stop with each unit, directly or not, as far as systemd has loaded them.
func (w *work) stopWith(names []string) (map[string][]string, error) {
	direct := map[string][]string{}
	for ask := names; len(ask) > 0; {
		told, err := systemd.Show(w.ctx, w.h, ask, append([]string{"Id"}, stopping...)...)
		if err != nil {
			return nil, err
		}
		next := map[string]bool{}
		for i, p := range told {
			direct[ask[i]] = []string{}
			for _, property := range stopping {
				direct[ask[i]] = append(direct[ask[i]], strings.Fields(p[property])...)
			}
		}
		for _, n := range ask {
			for _, by := range direct[n] {
				if _, asked := direct[by]; !asked && !badUnit(by) {
					next[by] = true
				}
			}
		}
		ask = slices.Sorted(maps.Keys(next))
	}
	all := map[string][]string{}
	for _, n := range names {
		found := map[string]bool{n: true}
		for next := []string{n}; len(next) > 0; next = next[1:] {
			for _, by := range direct[next[0]] {
				if !found[by] {
					found[by] = true
					all[n], next = append(all[n], by), append(next, by)
				}
			}
		}
	}
	return all, nil
}
