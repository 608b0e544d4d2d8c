package site_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Each row is one endpoint of a node, what the last look through it showed, and what may be
// claimed of it.
func TestVerifyClaimsOnlyWhatWasSeen(t *testing.T) {
	now := time.Date(2026, 11, 28, 6, 0, 0, 0, time.UTC)
	own, other := site.Identity{UUID: "aa"}, site.Identity{UUID: "bb"}
	bmc := site.Endpoint{URL: "redfish+https://192.0.2.1/redfish/v1/Systems/1", Credential: "bmc"}
	moved := bmc
	moved.URL = "redfish+https://192.0.2.9/redfish/v1/Systems/1"
	recent := now.Add(-time.Second)
	earlier := now.Add(-time.Hour)
	well := site.Look{When: recent, Endpoint: bmc, Machine: own, Accepted: earlier}
	with := func(change func(*site.Look)) site.Look { l := well; change(&l); return l }
	const ok, wrong, unknown = site.CheckOK, site.CheckWrong, site.CheckUnknown
	for name, x := range map[string]struct {
		look   site.Look
		asked  time.Time
		want   map[string]site.Outcome
		phrase string // in some sentence
	}{
		"well":            {look: well, want: map[string]site.Outcome{"endpoint": ok, "credential": ok, "machine": ok}},
		"accepted before": {look: well, want: map[string]site.Outcome{"endpoint": ok, "credential": ok, "machine": ok}, phrase: `credential "bmc" was accepted at 2026-11-28 05:00:00Z`},
		"not known to be accepted": {look: with(func(l *site.Look) { l.Accepted = time.Time{} }),
			want: map[string]site.Outcome{"endpoint": ok, "credential": unknown, "machine": ok}, phrase: `opened before; credential "bmc" was not tried`},
		"by key": {look: with(func(l *site.Look) { l.Accepted, l.Since = time.Time{}, earlier }),
			want: map[string]site.Outcome{"endpoint": ok, "credential": ok, "machine": ok}, phrase: `with credential "bmc" since 2026-11-28 05:00:00Z`},
		"by certificate": {look: with(func(l *site.Look) { l.Since, l.Login = earlier, &site.Login{By: site.ByCertificate, Account: "root"} }),
			want: map[string]site.Outcome{"endpoint": ok, "credential": ok, "machine": ok}, phrase: "logged in by certificate as root, and read since 2026-11-28 05:00:00Z"},
		"never":              {want: map[string]site.Outcome{"endpoint": unknown, "credential": unknown}, phrase: "not looked at since the daemon started"},
		"old":                {look: with(func(l *site.Look) { l.When = now.Add(-time.Hour) }), want: map[string]site.Outcome{"endpoint": unknown, "credential": unknown}, phrase: "lately"},
		"another URL":        {look: with(func(l *site.Look) { l.Endpoint = moved }), want: map[string]site.Outcome{"endpoint": unknown, "credential": unknown}, phrase: "changed the endpoint"},
		"another trust":      {look: with(func(l *site.Look) { l.Endpoint.Trust.HostKeys = []string{"ssh-ed25519 AAAA"} }), want: map[string]site.Outcome{"endpoint": unknown, "credential": unknown}, phrase: "changed the endpoint"},
		"another credential": {look: with(func(l *site.Look) { l.Endpoint.Credential = "old" }), want: map[string]site.Outcome{"endpoint": unknown, "credential": unknown}, phrase: "changed the endpoint"},
		"asked":              {look: well, asked: recent, want: map[string]site.Outcome{"endpoint": unknown, "credential": unknown}, phrase: "did not end yet"},
		"asked in vain":      {look: well, asked: now.Add(-3 * time.Minute), want: map[string]site.Outcome{"endpoint": unknown, "credential": unknown}, phrase: "not looked at within 3m0s"},
		"silent": {look: with(func(l *site.Look) { l.Trouble, l.Sentence = site.TroubleSilent, "the BMC does not answer" }),
			want: map[string]site.Outcome{"endpoint": wrong, "credential": unknown}, phrase: "the BMC does not answer"},
		"off": {look: with(func(l *site.Look) { l.Trouble, l.Sentence = site.TroubleNotAsked, "the machine is off" }),
			want: map[string]site.Outcome{"endpoint": unknown, "credential": unknown}, phrase: "the machine is off"},
		"denied now": {look: with(func(l *site.Look) { l.Trouble, l.Sentence, l.Denied = site.TroubleDenied, "wrong password", recent }),
			want: map[string]site.Outcome{"endpoint": ok, "credential": wrong}, phrase: `credential "bmc" was denied at 2026-11-28 05:59:59Z: wrong password`},
		"denied before": {look: with(func(l *site.Look) {
			l.Trouble, l.Sentence, l.Denied = site.TroubleWithheld, "wrong password", now.Add(-time.Hour)
		}),
			want: map[string]site.Outcome{"endpoint": unknown, "credential": wrong}, phrase: "was denied at 2026-11-28 05:00:00Z"},
		"denied elsewhere": {look: with(func(l *site.Look) { l.Trouble, l.Sentence = site.TroubleWithheld, "denied by n1 and n2" }),
			want: map[string]site.Outcome{"endpoint": unknown, "credential": unknown}, phrase: "denied by n1 and n2"},
		"no credential": {look: with(func(l *site.Look) { l.Trouble, l.Sentence = site.TroubleNoCredential, "no file" }),
			want: map[string]site.Outcome{"endpoint": unknown, "credential": wrong}, phrase: "no file"},
		"another machine": {look: with(func(l *site.Look) { l.Machine = other }), want: map[string]site.Outcome{"endpoint": ok, "credential": ok, "machine": wrong},
			phrase: "another machine answers: UUID bb, and not UUID aa"},
		"no identity": {look: with(func(l *site.Look) { l.Machine = site.Identity{} }), want: map[string]site.Outcome{"endpoint": ok, "credential": ok, "machine": unknown}},
		"less than the design": {look: with(func(l *site.Look) { l.Machine = site.Identity{Serial: "s"} }),
			want: map[string]site.Outcome{"endpoint": ok, "credential": ok, "machine": unknown}},
		"clock that is right": {look: with(func(l *site.Look) {
			l.Login = &site.Login{By: site.ByPassword, Account: "root", Clock: site.Duration(time.Minute)}
		}),
			want: map[string]site.Outcome{"endpoint": ok, "credential": ok, "machine": ok, "clock": ok}, phrase: "off by 1m0s"},
		"clock": {look: with(func(l *site.Look) {
			l.Login = &site.Login{By: site.ByPassword, Account: "root", Clock: site.Duration(-5 * time.Minute)}
		}),
			want: map[string]site.Outcome{"endpoint": ok, "credential": ok, "machine": ok, "clock": wrong}, phrase: "off by 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &site.Node{Name: "n1", Role: "r", Identity: own, Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: bmc}}
			d := &site.Site{Name: "s", Nodes: map[string]*site.Node{"n1": n}, Rollout: site.Rollout{ObserveEvery: site.Duration(time.Minute)}}
			looks := site.NodeLooks{By: map[site.EndpointKind]site.Look{site.Manager: x.look}, Asked: x.asked, Within: 3 * time.Minute}
			got, text := map[string]site.Outcome{}, ""
			for _, c := range site.VerifyNodes(d, map[string]site.NodeLooks{"n1": looks}, now) {
				got[c.Kind] = c.Outcome
				text += c.Sentence + "\n"
				if c.Node != "n1" || c.Role != "r" || c.Subject != "manager" || c.Sentence == "" {
					t.Errorf("%+v", c)
				}
				if c.Kind == site.CheckCredential && c.Outcome == ok && !c.Seen.Equal(earlier) {
					t.Errorf("the credential was accepted an hour ago, and not at %s", c.Seen)
				}
			}
			if len(got) != len(x.want) {
				t.Errorf("got %v, want %v", got, x.want)
			}
			for kind, want := range x.want {
				if got[kind] != want {
					t.Errorf("%s is %s, want %s: %s", kind, got[kind], want, text)
				}
			}
			if !strings.Contains(text, x.phrase) {
				t.Errorf("no sentence says %q: %s", x.phrase, text)
			}
		})
	}
}
