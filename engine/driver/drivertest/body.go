package drivertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// look locks the machine and brings it up to date. The caller unlocks it with
// the returned function.
func (m *FakeMachine) look() func() {
	m.mu.Lock()
	now := time.Now()
	m.endRuns(now)
	if at := m.changes; !at.IsZero() && !now.Before(at) {
		again := m.restart
		m.switchTo(!m.on, at)
		if again {
			m.switchTo(!m.on, at)
		}
	}
	if m.alone(now) {
		m.install(m.finishes, m.finishAt)
		if m.finishes, m.lost = nil, (time.Time{}); m.unkind.Leaves {
			m.lost = m.finishAt
			m.alone(now)
		}
	}
	if at := m.booted.Add(m.config.PostTime); m.on && !now.Before(at) {
		for f, v := range m.posting {
			if m.fault != Forgetful && m.fault != Failing {
				m.set(f, v, at)
			}
			if maps.Equal(m.pending[f], v) {
				delete(m.pending, f)
			}
		}
		m.posting = nil
	}
	m.firstBoot(now)
	if m.installer != nil && !now.Before(m.ends) {
		m.format(m.installer, m.ends)
		m.switchTo(false, m.ends)
	}
	return m.mu.Unlock
}

// endRuns finishes the steps inside that end before now, and before the power
// changes. A power change ends the others as they are.
func (m *FakeMachine) endRuns(now time.Time) {
	if !m.changes.IsZero() && m.changes.Before(now) {
		now = m.changes
	}
	for f, r := range m.runs {
		if !now.Before(r.ends) {
			m.set(f, r.want, r.ends)
			m.owned[f] = r.owned
			m.waits[f] = slices.Contains(m.config.NeedsBoot, f)
			delete(m.runs, f)
		}
	}
}

// set notes the value of a facet from now on.
func (m *FakeMachine) set(f site.Facet, v site.Values, at time.Time) {
	m.inside[f] = v
	m.facts = append(m.facts, Fact{When: at, Facet: f, Have: v})
}

// format puts a new system, or none, onto the disk. It removes what was set
// inside the previous one.
func (m *FakeMachine) format(marker *site.Marker, at time.Time) {
	m.disk, m.forged, m.hostKey = marker, nil, ""
	clear(m.owned)
	clear(m.actions)
	for f, kind := range site.Facets {
		if kind.Endpoint == site.OS && m.inside[f] != nil {
			m.set(f, nil, at)
		}
	}
	have := site.Values{}
	if marker != nil {
		have["generation"] = fmt.Sprint(marker.Generation)
	}
	m.facts = append(m.facts, Fact{When: at, Facet: site.FacetImage, Have: have})
}

// switchTo is the moment at which the power changes.
func (m *FakeMachine) switchTo(on bool, at time.Time) {
	m.changes, m.restart = time.Time{}, false
	if m.on == on {
		return
	}
	m.on, m.installer, m.memory, m.token, m.lost, m.finishes = on, nil, false, "", time.Time{}, nil
	clear(m.runs)
	clear(m.waits)
	m.facts = append(m.facts, Fact{When: at, Facet: site.FacetPower, Have: site.Values{"state": state(on)}})
	if !on {
		return
	}
	m.booted, m.posting = at, maps.Clone(m.pending)
	m.boots++
	if m.once && m.ramdisk != "" {
		m.memory = true
		m.token, _ = m.fleet.read(m.ramdisk)
		if strings.HasPrefix(m.ramdisk, OverNetwork) { // without a token it continues with its disk
			m.memory, m.ramdisk = m.token != "", ""
		}
	}
	if m.once && m.media != nil {
		m.counts.Installs++
		m.tell(Installed, at, *m.media)
		m.format(nil, at)
		m.installer, m.ends = m.media, at.Add(m.config.PostTime+m.config.InstallTime)
	}
	m.once = false
}

// reset requests a power state; the effect comes later.
func (m *FakeMachine) reset(on bool, after time.Duration) {
	defer m.look()()
	if heading := m.on == m.changes.IsZero() || m.restart; heading == on {
		return
	}
	m.counts.Resets++
	m.restart = false
	if m.on == on {
		m.changes = time.Time{}
		return
	}
	m.changes = time.Now().Add(after)
}

// boot requests a restart of a machine that is on, and power for one that is off.
func (m *FakeMachine) boot() {
	defer m.look()()
	if !m.changes.IsZero() {
		return
	}
	m.counts.Resets++
	m.restart, m.changes = m.on, time.Now().Add(m.config.PowerTime)
}

// staysOff reports whether the machine is off and not about to go on.
func (m *FakeMachine) staysOff() bool {
	defer m.look()()
	return !m.on && m.changes.IsZero()
}

// state returns how often the machine was booted, and whether it is on.
func (m *FakeMachine) state() (boots int, on bool) {
	defer m.look()()
	return m.boots, m.on
}

// answers reports whether the installed system can be reached.
func (m *FakeMachine) answers() bool {
	return m.on && m.disk != nil && m.installer == nil && !m.memory && !time.Now().Before(m.booted.Add(m.config.PostTime+m.config.OSTime))
}

func state(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// exchanged notes as facts what another machine at the address is.
func (m *FakeMachine) exchanged(now time.Time) {
	for f := range site.Facets {
		m.facts = append(m.facts, Fact{When: now, Facet: f, Have: m.inside[f]})
	}
	image := site.Values{}
	if m.disk != nil {
		image["generation"] = fmt.Sprint(m.disk.Generation)
	}
	m.facts = append(m.facts,
		Fact{When: now, Facet: site.FacetPower, Have: site.Values{"state": state(m.on)}},
		Fact{When: now, Facet: site.FacetBoot, Have: site.Values{"order": m.order}},
		Fact{When: now, Facet: site.FacetImage, Have: image})
}

func (m *FakeMachine) step(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range []*time.Time{&m.changes, &m.ends, &m.booted} {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	for facet, r := range m.runs {
		r.ends = r.ends.Add(by)
		m.runs[facet] = r
	}
	for i := range m.facts {
		m.facts[i].When = m.facts[i].When.Add(by)
	}
}
