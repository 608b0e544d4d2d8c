package incident_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/site"
)

// town is a site of some nodes that share a BMC password, and a key in files of the first two.
func town() *site.Site {
	s := &site.Site{Name: "town", Nodes: map[string]*site.Node{}, Roles: map[string]*site.Role{"compute": {}, "control": {}},
		Credentials: map[string]*site.Credential{"bmc": {From: site.FromSealed}, "key": {From: site.FromSOPS, File: "a.sops.yaml", Key: "x.y"}, "own": nil}}
	for _, name := range []string{"n1", "n2", "n3"} {
		s.Nodes[name] = &site.Node{Name: name, Role: "compute", Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {Credential: "bmc"}}}
	}
	for _, name := range []string{"n1", "n2"} {
		s.Nodes[name].System.Files = map[string]site.File{"/etc/key": {Credential: "key"}}
	}
	s.Nodes["n1"].System.Users = map[string]site.User{"ann": {Password: "own"}}
	s.Nodes["n1"].System.SSH.Accounts = []string{"root"}
	s.Nodes["n1"].System.Certificates = map[string]site.TLS{"web": {}}
	return s
}

func TestExposedNamesEverySecretAndItsHolders(t *testing.T) {
	all := incident.Exposed(town(), []string{"n1"}, incident.Facts{})
	var got []string
	for _, x := range all {
		got = append(got, x.Secret+" < "+strings.Join(x.Nodes, ",")+" + "+strings.Join(x.Holders, ","))
	}
	want := []string{"credential bmc < n1 + n2,n3", "credential key < n1 + n2", "credential own < n1 + ", "certificates for slipway:n1:root < n1 + ", "private key of the TLS certificate web of n1 < n1 + "}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("exposed:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, part := range []string{"slipway secret set bmc`", "--file a.sops.yaml --key x.y", "the file own of the credentials", "expire within minutes"} {
		if !strings.Contains(all[i].Do, part) {
			t.Errorf("%s: %s", all[i].Secret, all[i].Do)
		}
	}
	if got := incident.Exposed(town(), []string{"n3"}, incident.Facts{}); len(got) != 1 {
		t.Errorf("n3 could read %+v", got)
	}
}

func TestExposedCountsTheGuestsOfAHypervisor(t *testing.T) {
	s := town()
	s.Hypervisors = map[string]*site.Hypervisor{"hv": {Node: "n3"}}
	s.Nodes["vm"] = &site.Node{Name: "vm", Style: site.StyleVirtual, System: site.System{Users: map[string]site.User{"bob": {Password: "own"}}}}
	s.Nodes["vm"].Virtual.Host.Hypervisor = "hv"
	all := incident.Exposed(s, []string{"n3"}, incident.Facts{})
	if len(all) != 2 || all[1].Secret != "credential own" || all[1].Nodes[0] != "vm" {
		t.Errorf("exposed: %+v", all)
	}
}

func TestReasonsToAsk(t *testing.T) {
	s := town()
	s.Roles["compute"].Needs = map[string]map[string]site.Need{"install": {"control": {}}}
	s.Nodes["n3"].Role = "control"
	s.Roles["votes"], s.Roles["led"] = &site.Role{Majority: true}, &site.Role{Leader: "leader"}
	s.Nodes["voter"], s.Nodes["leader"], s.Nodes["follower"] = &site.Node{Name: "voter", Role: "votes"}, &site.Node{Name: "leader", Role: "led"}, &site.Node{Name: "follower", Role: "led"}
	s.Hypervisors = map[string]*site.Hypervisor{"hv": {Node: "host"}, "bare": {Node: "empty"}}
	s.Nodes["host"], s.Nodes["empty"] = &site.Node{Name: "host"}, &site.Node{Name: "empty"}
	s.Nodes["vm"] = &site.Node{Name: "vm", Style: site.StyleVirtual}
	s.Nodes["vm"].Virtual.Host.Hypervisor = "hv"
	for _, c := range []struct {
		nodes []string
		host  string
		want  string
	}{
		{nodes: []string{"n1", "n2"}},
		{nodes: []string{"n1"}, host: "n1", want: "n1 is the bootstrap host"},
		{nodes: []string{"n3"}, want: "n3 is a controller: role compute needs nodes of its role control"},
		{nodes: []string{"a", "b", "c", "d", "e", "f"}, want: "it names 6 nodes of 9, more than 5"},
		{nodes: []string{"voter"}, want: "voter is a controller: its role votes keeps a majority"},
		{nodes: []string{"leader"}, want: "leader is a controller: its role led"},
		{nodes: []string{"follower", "empty", "vm"}},
		{nodes: []string{"host"}, want: "host is hypervisor hv: its 1 virtual machine would go down with it"},
	} {
		got := strings.Join(incident.Reasons(s, site.Incident{Nodes: c.nodes}, nil, c.host), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.nodes, got, c.want)
		}
	}
	for i := range 200 {
		name := "m" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		s.Nodes[name] = &site.Node{Name: name}
	}
	if why := incident.Reasons(s, site.Incident{Nodes: make([]string, 10)}, nil, ""); len(why) != 0 {
		t.Errorf("10 of 209 nodes: %q", why)
	}
}

// The API has deliveries in brief. A plan that is made from them says the same.
func TestAPlanNeedsDeliveriesInBrief(t *testing.T) {
	s := town()
	s.Incidents = map[string]site.Incident{"shell": {Nodes: []string{"n1", "gone"}, Reason: "a shell"}}
	full, brief := map[string]site.Delivered{}, map[string]site.Delivered{}
	for _, holder := range []string{"n1", "gone", "n2"} {
		full[holder] = site.Delivered{Given: []site.Delivery{given("credential bmc", "k.1", site.ToBMC, 1, true), given("credential bmc", "k.2", site.ToBMC, 2, true),
			given("credential old", "k.1", site.ToSystem, 3, false), given(site.SecretHostKey, "k.1", site.ToSystem, 4, false)}}
		brief[holder] = full[holder].Brief()
	}
	want := strings.Join(incident.New(nil, s, full), "\n")
	if got := strings.Join(incident.New(nil, s, brief), "\n"); got != want || !strings.Contains(got, "credential old, read by gone, n1 (recorded)") {
		t.Errorf("in brief:\n%s\nin full:\n%s", got, want)
	}
}

func TestIDIsThatOfNodesAndTime(t *testing.T) {
	since := time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC)
	i := site.Incident{Nodes: []string{"b", "a"}, Since: since, Reason: "one"}
	same := site.Incident{Nodes: []string{"a", "b"}, Since: since.In(time.FixedZone("x", 3600)), Reason: "two"}
	if !site.IsDigest(i.ID("x")) || i.ID("x") != same.ID("x") {
		t.Errorf("IDs %s and %s", i.ID("x"), same.ID("x"))
	}
	if i.ID("x") == i.ID("y") || i.ID("x") == (site.Incident{Nodes: []string{"a"}, Since: since}).ID("x") {
		t.Error("other incidents have the same ID")
	}
}

func TestTextOfAHostileReason(t *testing.T) {
	text := incident.Text(&site.IncidentState{Name: "x", Incident: site.Incident{Nodes: []string{"n1"}, Reason: "a\nacted on since yesterday\x1b[2J\u202e"}})
	if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\nacted on since yesterday") {
		t.Errorf("%q", text)
	}
}
