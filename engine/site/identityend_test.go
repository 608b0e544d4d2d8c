package site_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What ends the identity of a system takes its host certificates out of the record and revokes those of TLS in the same
// write, and nothing else does.
func TestWithIdentity(t *testing.T) {
	t.Parallel()
	machine := site.Identity{UUID: "4c4c4544-0000-4000-8000-000000000001"}
	before := site.Recorded{
		Adopted: &site.Adoption{Machine: machine}, Installed: &site.Installation{Generation: 1},
		Agent: &site.AgentBoot{Since: time.Unix(1, 0)}, HostCertificates: []site.HostCertificate{{Serial: 7}}, TLS: []site.TLSCertificate{{Serial: "7"}},
	}
	for name, c := range map[string]struct {
		change func(r *site.Recorded)
		keeps  bool
	}{
		"nothing": {func(*site.Recorded) {}, true},
		"a pause": {func(r *site.Recorded) { r.Paused = &site.Hold{} }, true},
		"a step inside": {func(r *site.Recorded) {
			r.InFlight = &site.InFlight{Step: site.Step{Action: site.ActionBase, Impact: site.ImpactOnline}}
		}, true},
		"a reboot": {func(r *site.Recorded) { r.InFlight = &site.InFlight{Step: site.Step{Impact: site.ImpactReboot}} }, true},
		"more of the machine": {func(r *site.Recorded) {
			r.Adopted = &site.Adoption{Machine: site.Identity{UUID: machine.UUID, Serial: "S1"}}
		}, true},
		"the agent forgotten": {func(r *site.Recorded) { r.Agent = nil }, true},
		"a quarantine":        {func(r *site.Recorded) { r.Quarantined = &site.Hold{} }, false},
		"an installation": {func(r *site.Recorded) {
			r.InFlight = &site.InFlight{Step: site.Step{Action: site.ActionInstall, Impact: site.ImpactDestructive}}
		}, false},
		"an erasure":           {func(r *site.Recorded) { r.InFlight = &site.InFlight{Step: site.Step{Impact: site.ImpactDestructive}} }, false},
		"the agent is started": {func(r *site.Recorded) { r.Agent = &site.AgentBoot{Since: time.Unix(2, 0)} }, false},
		"installing":           {func(r *site.Recorded) { r.Installing = &site.Installation{Generation: 2} }, false},
		"another generation":   {func(r *site.Recorded) { r.Installed = &site.Installation{Generation: 2} }, false},
		"another machine": {func(r *site.Recorded) {
			r.Adopted = &site.Adoption{Machine: site.Identity{UUID: "4c4c4544-0000-4000-8000-000000000002"}}
		}, false},
		"no machine": {func(r *site.Recorded) { r.Adopted = nil }, false},
	} {
		r := before
		c.change(&r)
		if got := r.WithIdentity(before); (len(got.HostCertificates) == 1) != c.keeps {
			t.Errorf("%s: the record has %v", name, got.HostCertificates)
		}
		if got := r.WithIdentity(before); len(got.TLS) != 1 || got.TLS[0].Revoked == c.keeps || r.TLS[0].Revoked {
			t.Errorf("%s: the record has %v of TLS", name, got.TLS)
		}
	}
	nameless := site.Recorded{Adopted: &site.Adoption{}, HostCertificates: before.HostCertificates}
	if got := nameless.WithIdentity(nameless); len(got.HostCertificates) != 1 {
		t.Error("a machine without an identity loses its certificates at each write")
	}
}
