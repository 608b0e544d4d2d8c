package engine

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// impostor is a BMC of somebody else that says to be that of a machine.
func impostor(t *testing.T, address string, id site.Identity) (*lab.Fleet, *lab.Machine) {
	t.Helper()
	f, err := lab.Start(lab.Config{Seed: address, Machines: []lab.MachineConfig{{Name: "evil", BMCAddr: address, Identity: id, Username: "admin", Password: factoryPassword, Power: "on"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, f.Machine("evil")
}

// keepsFrom says that a BMC has none of the machine's passwords.
func (b *bay) keepsFrom(m *lab.Machine, what string) {
	b.t.Helper()
	for _, a := range m.Accounts() {
		for _, account := range []string{"slipway", "monitor"} {
			if a.Password == b.passwordOf(account, 1) {
				b.t.Errorf("%s: the other BMC has the password of %s", what, account)
			}
		}
	}
}

// Two merges collect nothing: the node is another machine at another address first, and then the machine again, at
// that address.
func TestTwoMergesCollectNoPassword(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	a, from := b.id, *b.memory.Recorded.BMC
	at := func(address string, id site.Identity) (*lab.Machine, site.NodeStatus) {
		f, m := impostor(t, address, id)
		b.id = id
		b.designs("bmc", 1, nil)
		b.design.Rollout.FirstContact = ""
		b.design.Nodes[b.name].Endpoints[site.Manager] = site.Endpoint{URL: f.BMCURL("evil"), Credential: "bmc", Trust: site.Trust{FirstUse: true}}
		return m, b.settle()
	}
	if _, s := at("127.67.8.8", site.Identity{UUID: "3d1c0000-0000-4000-8000-0000000000aa", Serial: "SNX"}); s.State == site.InSync || *b.memory.Recorded.BMC != from {
		t.Errorf("another machine under the name: %s: %s; %+v", s.State, s.Reason, b.memory.Recorded.BMC)
	}
	m, s := at("127.67.8.9", a)
	b.keepsFrom(m, "the machine again")
	if s.State == site.InSync || !strings.Contains(s.Reason+s.Approve, "certificate") {
		t.Errorf("%s: %s; %q", s.State, s.Reason, s.Approve)
	}
}

// A node that is removed and added under another name collects nothing at another address, and neither does it where only
// the status branch tells of the node before. A person is asked, with both certificates.
func TestAnotherNameCollectsNoPassword(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		lost    bool // the host, so that only the status branch tells
	}{"the records tell": {"127.67.8.10", false}, "the status branch tells": {"127.67.8.11", true}} {
		t.Run(name, func(t *testing.T) {
			b := owned(t, newRotationRack(t, "plain", 1))
			proven := b.memory.Recorded.BMC.Fingerprint
			f, m := impostor(t, c.address, b.id)
			b.designs("bmc", 1, nil)
			n := b.design.Nodes[b.name]
			delete(b.design.Nodes, b.name)
			n.Name = "renamed"
			n.Endpoints[site.Manager] = site.Endpoint{URL: f.BMCURL("evil"), Credential: "bmc", Trust: site.Trust{FirstUse: true}}
			b.design.Nodes["renamed"] = n
			before := b.name
			b.name, b.memory = "renamed", site.Memory{}
			departed := *b.sealed
			b.sealed = nil
			if c.lost {
				b.records = b.r.store.Site("again")
				b.departed = map[string]site.Sealed{before: departed}
			}
			for _, contact := range []string{"", "repair"} {
				b.design.Rollout.FirstContact = contact
				s := b.settle()
				b.keepsFrom(m, contact)
				if s.State == site.InSync || !strings.Contains(s.Reason, proven) || !strings.Contains(s.Reason, "before") || s.Approve == "" {
					t.Errorf("%q: %s: %s; asks %q", contact, s.State, s.Reason, s.Approve)
				}
			}
		})
	}
}

// A BMC whose certificate was renewed by the authority that the design trusts can be used with another login as before;
// derived passwords wait for a person.
func TestRenewedCertificateStopsDerivedPasswordsAlone(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.designs("bmc", 1, nil)
	b.reaches("back to the factory's", 1, 0)
	f, m := impostor(t, "127.67.8.12", b.id) // with the same identity and login, and another certificate
	b.designs("bmc", 2, nil)
	n := b.design.Nodes[b.name]
	n.Power = "off"
	n.Endpoints[site.Manager] = site.Endpoint{URL: f.BMCURL("evil"), Credential: "bmc", Trust: site.Trust{CA: string(f.CA())}}
	b.design.Nodes[b.name] = n
	s := b.settle()
	b.keepsFrom(m, "renewed")
	if strings.Contains(s.Reason, "certificate has changed") || m.Counts().Sessions == 0 || b.w.connections[site.Manager] != nil && b.w.connections[site.Manager].endpoint.Trust.Fingerprint != "" {
		t.Errorf("it is not used: %s: %s", s.State, s.Reason)
	}
	if s.Approve == "" || !strings.Contains(s.Reason, "is proven for this machine") {
		t.Errorf("%s: %s; asks %q", s.State, s.Reason, s.Approve)
	}
	for _, account := range []string{"slipway", "monitor"} {
		for _, a := range m.Accounts() {
			if a.Password == b.passwordOf(account, 2) {
				t.Errorf("the password of %s was sent to it", account)
			}
		}
	}
}
