package review

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A proposal that has machines be installed at less trust is told as one that changes the rules of
// the whole site, and so is one that takes it back.
func TestTrustIsASiteWideRule(t *testing.T) {
	media, network := &site.Site{}, &site.Site{Install: site.Install{Start: site.StartNetwork, Trust: site.TrustNetwork}}
	says := func(was, is *site.Site, want string) bool {
		return slices.ContainsFunc(changedRules(was, is), func(s string) bool { return strings.Contains(s, want) })
	}
	if !says(media, network, `also at the trust "network"`) {
		t.Errorf("got %q", changedRules(media, network))
	}
	if !says(network, media, "site.install") || says(network, media, "also at the trust") {
		t.Errorf("got %q", changedRules(network, media))
	}
	if says(network, network, "install") || says(media, &site.Site{}, "install") {
		t.Error("told without a change")
	}
}

// A comment says who may do more by a commit, also where it only moves a node.
func TestChangedAccessIsNamed(t *testing.T) {
	in := func(rack string) *site.Site {
		return &site.Site{Nodes: map[string]*site.Node{"n1": {Name: "n1", Rack: rack}}, Access: site.Access{
			Roles:  map[string]site.AccessRole{"oncall": {Verbs: []string{"approve"}, Nodes: &site.Selector{Match: site.Match{Racks: []string{"r1"}}}}},
			People: map[string][]string{"ana": {"oncall"}}}}
	}
	for _, c := range []struct {
		was, is    *site.Site
		more, less string
	}{
		{in("r1"), in("r1"), "[]", "[]"},
		{in("r2"), in("r1"), "[ana may now approve on 1 node: n1]", "[]"},
		{in("r1"), in("r2"), "[]", "[ana may no longer approve on 1 node: n1]"},
		{in("r1"), &site.Site{}, "[]", "[ana may no longer approve on 1 node: n1]"},
		{nil, in("r1"), "[ana may now approve on 1 node: n1]", "[]"},
	} {
		if more, less := changedAccess(c.was, c.is); fmt.Sprint(more) != c.more || fmt.Sprint(less) != c.less {
			t.Errorf("more %s, less %s; want %s and %s", more, less, c.more, c.less)
		}
	}
}

// A comment says where a credential goes that a commit sends elsewhere.
func TestChangedEndpointsAreNamed(t *testing.T) {
	node := func(url, fingerprint string) *site.Site {
		e := site.Endpoint{URL: url, Credential: "bmc"}
		e.Trust.Fingerprint = fingerprint
		return &site.Site{Nodes: map[string]*site.Node{"n1": {Name: "n1", Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: e}}}}
	}
	was := node("redfish+https://192.0.2.1", "")
	for _, c := range []struct {
		is   *site.Site
		want bool
	}{
		{node("redfish+https://192.0.2.1", ""), false},
		{node("redfish+https://192.0.2.9", ""), true},
		{node("redfish+https://192.0.2.1", "sha256:00"), true},
		{&site.Site{}, false},
	} {
		got := changedRules(was, c.is)
		if is := slices.ContainsFunc(got, func(s string) bool {
			return strings.Contains(s, "where credentials are sent") && strings.HasSuffix(s, ": n1")
		}); is != c.want {
			t.Errorf("got %q, want it named: %t", got, c.want)
		}
	}
	on := func(url string) *site.Site {
		return &site.Site{Hypervisors: map[string]*site.Hypervisor{"h1": {URL: url, Credential: "libvirt"}}}
	}
	if got := changedRules(on("libvirt+tls://192.0.2.1"), on("libvirt+tls://192.0.2.9")); len(got) != 1 || !strings.HasSuffix(got[0], ": hypervisor h1") {
		t.Errorf("a hypervisor elsewhere: %q", got)
	}
	if got := changedRules(on("libvirt+tls://192.0.2.1"), on("libvirt+tls://192.0.2.1")); len(got) != 0 {
		t.Errorf("the same hypervisor: %q", got)
	}
	signs := &site.Site{SSH: site.SSHAuthorities{Users: []string{"ssh-ed25519 B"}, Epoch: 2}}
	if got := strings.Join(changedRules(&site.Site{}, signs), "\n"); !strings.Contains(got, "site.ssh.users): ssh-ed25519 B") || !strings.Contains(got, "site.ssh.epoch") {
		t.Errorf("another SSH authority: %q", got)
	}
	gone := &site.Site{SSH: site.SSHAuthorities{Revoked: site.SSHRevoked{People: []string{"ana"}, Keys: []string{"ssh-ed25519 C"}}}}
	if got := strings.Join(changedRules(&site.Site{}, gone), "\n"); !strings.Contains(got, "site.ssh.revoked.people): ana") || !strings.Contains(got, "site.ssh.revoked.keys): ssh-ed25519 C") {
		t.Errorf("revoked: %q", got)
	}
	looks := &site.Site{Discovery: &site.Discovery{}}
	if got := changedRules(&site.Site{}, looks); len(got) != 1 || !strings.Contains(got[0], "site.discovery") {
		t.Errorf("discovery: %q", got)
	}
}

// A comment names who becomes an administrator of BMCs, and which accounts are others.
func TestChangedAccounts(t *testing.T) {
	with := func(accounts map[string]site.BMCAccount) *site.Site {
		return &site.Site{Nodes: map[string]*site.Node{"n1": {Name: "n1", BMC: site.BMC{Accounts: accounts}}, "n2": {Name: "n2", BMC: site.BMC{Accounts: accounts}}}}
	}
	same := with(map[string]site.BMCAccount{"boss": {Role: "administrator"}})
	got := changedAccounts(same, with(map[string]site.BMCAccount{"boss": {Role: "administrator"}, "evil": {Role: "administrator", Credential: "x"}, "guest": {State: "absent"}}))
	if len(got) != 2 || !strings.HasPrefix(got[0], "who is an administrator of BMCs (bmc.accounts): evil on n1") || !strings.HasPrefix(got[1], "other accounts of BMCs (bmc.accounts): guest on n1") || changedAccounts(same, same) != nil {
		t.Errorf("got %q", got)
	}
}
