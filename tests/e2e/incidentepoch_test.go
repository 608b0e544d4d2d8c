package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// One commit says that a machine was compromised, and raises the epoch of its password. The other machines get the next one
// although that machine would go first; it gets none before somebody confirms the incident, nor while it is off.
func TestIncidentThatWaitsGetsNoNewPassword(t *testing.T) {
	t.Parallel()
	a := newArk(t)
	const accounts = `slipway: {role: "administrator", credential: "bmc-own"}, monitor: {role: "readOnly", credential: "mon"}`
	a.design(1, "bmc", accounts)
	a.start()
	a.settled("taken over", 1)
	a.design(1, "bmc-own", accounts)
	a.settled("its own login", 1)
	bad := a.names[0]
	in := site.Incident{Nodes: []string{bad}, Since: time.Now().Add(-time.Hour).UTC().Truncate(time.Second), Reason: "a shell"}
	head, _, _ := strings.Cut(a.town.design(), "\n")
	a.write("site/incident.cue", fmt.Sprintf("%s\n\nincidents: shell: {nodes: [%q], since: %q, reason: %q}\n", head, bad, in.Since.Format(time.RFC3339), in.Reason))
	a.design(2, "bmc-own", accounts)
	keeps := func() bool { return a.has(bad, "slipway", a.derivedOf(0, 1)) && a.has(bad, "monitor", sealedOf(1)) }
	a.status("the others have their next passwords, and it says why it has none", func(s site.Status) bool {
		for i, name := range a.names[1:] {
			if !a.has(name, "slipway", a.derivedOf(i+1, 2)) || !a.has(name, "monitor", sealedOf(2)) {
				return false
			}
		}
		for _, n := range s.Nodes {
			if n.Name == bad {
				return strings.Contains(n.Reason, "incident shell says that the machine was compromised") && strings.Contains(n.Release, "slipway compromise --confirm "+in.ID("shell"))
			}
		}
		return false
	})
	if !keeps() {
		t.Error("the machine has another password before the incident was confirmed")
	}
	_, err := a.ask.Do(t.Context(), "", site.Order{Verb: site.VerbIncident, Digest: in.ID("shell"), By: "e2e"})
	check(t, err)
	a.eventually("it is off", func() bool { return strings.EqualFold(a.fleet.Machine(bad).Power(), "off") })
	if !keeps() {
		t.Error("the machine has another password while it is off")
	}
	a.stop()
}
