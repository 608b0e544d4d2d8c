package plan

import (
	"slices"
	"strings"
	"testing"
	"unique"

	"github.com/slipway-gitops/slipway/engine/site"
)

// accountsOf plans a node whose BMC was seen to have accounts.
func accountsOf(d site.BMC, have site.Values) site.NodePlan {
	n := &site.Node{
		Name: "n1", Identity: site.Identity{UUID: "u1"}, BMC: d,
		Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "redfish+https://10.0.0.1", Credential: "bmc"}},
	}
	place := site.Origin{File: unique.Make("nodes.cue"), Line: 7, Col: 3, Layer: unique.Make("node/n1")}
	origins := map[string]site.Origin{"bmc.unlisted.accounts": place}
	for name := range d.Accounts {
		origins["bmc.accounts."+name+".role"] = place
	}
	n.Origins = site.OriginsByPath(origins)
	m := site.Memory{Observed: site.Observed{Identity: site.Identity{UUID: "u1"}, Facets: map[site.Facet]site.FacetState{
		site.FacetPower: {Have: site.Values{"state": "on"}, Seen: lookedAt}, site.FacetAccounts: {Have: have, Seen: lookedAt},
	}}}
	s := &site.Site{Name: "lab", Nodes: map[string]*site.Node{"n1": n}}
	return Node(s, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetAccounts: true}})
}

func TestAccountsArePlanned(t *testing.T) {
	own := site.Values{"root.state": "enabled", "root.role": "administrator", "root.login": site.AccountOwn, "root.password": "that of credential bmc"}
	with := func(more site.Values) site.Values {
		all := site.Values{}
		for _, v := range []site.Values{own, more} {
			for k, x := range v {
				all[k] = x
			}
		}
		return all
	}
	root, monitor := site.BMCAccount{Role: "administrator", Credential: "bmc"}, site.BMCAccount{Role: "readOnly", Credential: "monitor"}
	both := map[string]site.BMCAccount{"root": root, "monitor": monitor}
	seen := site.Values{"monitor.state": "enabled", "monitor.role": "readOnly", "monitor.password": "that of credential monitor"}
	guest := with(site.Values{"guest.state": "enabled", "guest.role": "operator"})
	for name, c := range map[string]struct {
		design  site.BMC
		have    site.Values
		changes []string
		blocked string
		note    string
	}{
		"as designed": {site.BMC{Accounts: both}, with(seen), nil, "", ""},
		"a new one": {site.BMC{Accounts: both}, own,
			[]string{"accounts.monitor absent → enabled, role readOnly, password that of credential monitor @nodes.cue:7:3"}, "", ""},
		"another password": {site.BMC{Accounts: both}, with(site.Values{"monitor.state": "enabled", "monitor.role": "readOnly", "monitor.password": "another one"}),
			[]string{"accounts.monitor.password another one → that of credential monitor @nodes.cue:7:3"}, "", ""},
		"broken off": {site.BMC{Accounts: both}, with(site.Values{"monitor.state": "enabled, being changed", "monitor.role": "readOnly", "monitor.password": "that of credential monitor"}),
			[]string{"accounts.monitor.state enabled, being changed → enabled @nodes.cue:7:3"}, "", ""},
		"unknown to a command": {site.BMC{Accounts: both}, with(site.Values{"monitor.state": "enabled", "monitor.role": "operator"}),
			[]string{"accounts.monitor.password ? → that of credential monitor @nodes.cue:7:3", "accounts.monitor.role operator → readOnly @nodes.cue:7:3"}, "", ""},
		"unlisted": {site.BMC{Accounts: map[string]site.BMCAccount{"root": root}}, guest, nil, "", "its BMC has 1 account that the design does not name: guest"},
		"removed, broken off": {site.BMC{Accounts: map[string]site.BMCAccount{"root": root, "guest": {State: "absent"}}}, with(site.Values{"guest.state": "absent, being changed"}),
			[]string{"accounts.guest.state absent, being changed → absent @nodes.cue:7:3"}, "", ""},
		"the own one, disabled": {site.BMC{Accounts: map[string]site.BMCAccount{"root": {State: "disabled"}}}, own, nil, "could no longer log in", ""},
		"own one unknown": {site.BMC{Accounts: map[string]site.BMCAccount{"admin": {State: "absent"}}},
			site.Values{"admin.state": "enabled", "admin.role": "administrator", "guest.state": "enabled"}, nil, "does not see which of the BMC's accounts it logs in with", ""},
		"another node's login": {site.BMC{Accounts: map[string]site.BMCAccount{"root": root, "second": {State: "absent"}}},
			with(site.Values{"second.state": "enabled", "second.role": "administrator", "second.login": site.LoginBy("bmc-2")}), nil, "another node behind this BMC, or discovery, logs in as second", ""},
		"another node's password": {site.BMC{Accounts: map[string]site.BMCAccount{"root": root, "second": {Role: "administrator", Credential: "x"}}},
			with(site.Values{"second.state": "enabled", "second.role": "administrator", "second.login": site.LoginBy("bmc-2"), "second.password": "not proven"}), nil, "could no longer log in with another password", ""},
		"has to change": {site.BMC{Accounts: both}, with(site.Values{"monitor.state": "enabled", "monitor.role": "readOnly", "monitor.password": "that of credential monitor", "monitor.mustChange": "true"}),
			nil, "", "the account monitor of its BMC can do nothing before its password was changed"},
		"locked": {site.BMC{Accounts: both}, with(site.Values{"monitor.state": "enabled", "monitor.role": "readOnly", "monitor.password": "that of credential monitor", "monitor.locked": "true"}),
			nil, "", "the account monitor of its BMC is locked after wrong passwords"},
	} {
		p := accountsOf(c.design, c.have)
		var got []string
		for _, s := range p.Steps {
			if s.Action != site.ActionAccounts || s.Impact != site.ImpactOnline {
				t.Errorf("%s: the step %+v", name, s)
			}
			for _, x := range s.Changes {
				got = append(got, x.Field+" "+x.Have+" → "+x.Want+" @"+x.Origin.String())
			}
		}
		if !slices.Equal(got, c.changes) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.changes)
		}
		if why := strings.Join(p.Blocked, "; "); c.blocked == "" && why != "" || !strings.Contains(why, c.blocked) {
			t.Errorf("%s: blocked by %q", name, why)
		}
		if notes := strings.Join(p.Notes, "; "); !strings.Contains(notes, c.note) {
			t.Errorf("%s: the notes are %q", name, notes)
		}
	}
}

// Whatever other names there are, the account that Slipway logs in with is in no step: of two names
// that differ in case alone none is, and a design that adds such a name is refused.
func TestOwnAccountIsInNoStep(t *testing.T) {
	two := site.Values{"admin.state": "enabled", "admin.role": "administrator", "admin.login": site.AccountOwn, "boss.state": "enabled", "boss.role": "administrator",
		"Admin.state": "enabled", "Admin.role": "readOnly", "Admin.login": site.AccountOwn}
	one := site.Values{"admin.state": "enabled", "admin.role": "administrator", "admin.login": site.AccountOwn, "boss.state": "enabled", "boss.role": "administrator"}
	none := site.Values{"root.state": "enabled", "root.role": "administrator", "boss.state": "enabled", "boss.role": "administrator"}
	boss := site.BMCAccount{Role: "administrator"}
	for range 100 {
		for name, c := range map[string]struct {
			accounts map[string]site.BMCAccount
			have     site.Values
			blocked  bool
		}{
			"nothing":          {map[string]site.BMCAccount{"boss": boss}, two, false},
			"disabled by name": {map[string]site.BMCAccount{"boss": boss, "admin": {State: "disabled"}}, two, true},
			"another case":     {map[string]site.BMCAccount{"boss": boss, "Admin": {Role: "readOnly", Credential: "x"}}, one, true},
			"nobody's":         {map[string]site.BMCAccount{"boss": boss, "root": {State: "absent"}}, none, true},
		} {
			p := accountsOf(site.BMC{Accounts: c.accounts}, c.have)
			if len(p.Steps) > 0 || (len(p.Blocked) > 0) != c.blocked {
				t.Fatalf("%s: %+v, blocked by %q", name, p.Steps, p.Blocked)
			}
		}
	}
}

// What is disabled or removed is in the plan by its name also while no account was seen.
func TestAccountsThatWereNotSeen(t *testing.T) {
	n := &site.Node{Name: "n1", BMC: site.BMC{Accounts: map[string]site.BMCAccount{"guest": {State: "absent"}}}}
	changes := wishFor(n, site.FacetAccounts, site.FacetState{}).diff(n, site.FacetAccounts, site.FacetState{})
	if len(changes) != 1 || changes[0].Field != "accounts.guest.state" || changes[0].Have != Unknown || changes[0].Want != "absent" {
		t.Errorf("got %+v", changes)
	}
}
