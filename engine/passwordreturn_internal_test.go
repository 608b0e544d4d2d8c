package engine

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A node leaves the design, as its machine is repaired, and returns after the epoch was raised for the others. Its BMC has
// the password that it had.
func TestNodeThatReturnsAfterARotation(t *testing.T) {
	for name, published := range map[string]int{"nothing is published": 0, "what was published is older": 1, "what was published is the last": 2} {
		t.Run(name, func(t *testing.T) {
			b := owned(t, newRotationRack(t, "plain", 1))
			old := b.sealed
			b.designs("bmc-own", 2, own)
			b.reaches("raised", 2, 0)
			b.memory = site.Memory{} // it leaves
			switch published {
			case 0:
				b.sealed = nil
			case 1:
				b.sealed = old
			}
			b.designs("bmc-own", 3, own)
			n := b.design.Nodes[b.name]
			n.Endpoints[site.Manager] = site.Endpoint{URL: b.r.BMCURL(b.name), Credential: "bmc-own", Trust: site.Trust{Fingerprint: certificateAt(t, b.r.BMCURL(b.name))}}
			s := b.settle()
			if s.Approve != "" {
				_, err := b.e.approveNode(t.Context(), b.w, site.Order{Verb: site.VerbApprove, Node: b.name, Shown: s.Approval, By: "ann"})
				b.must(err)
				b.memory = b.w.job().memory
			}
			for range 3 {
				s = b.settle()
			}
			if c := b.m.Counts(); s.State != site.InSync || c.Lockouts > 0 {
				t.Errorf("%d denied, %d locks; %s: %s\n%+v", c.Denied, c.Lockouts, s.State, s.Reason, b.memory.Recorded.Accounts)
			}
		})
	}
}

// A BMC does not list the account that Slipway is logged in with for a while, as some do while they start. Slipway still
// knows its password then.
func TestAccountThatIsNotListedForAWhile(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.start()
	b.w.reconcile(t.Context())
	if s := b.status(); s.State != site.InSync {
		t.Fatalf("%s: %s", s.State, s.Reason)
	}
	lists := site.Observed{Identity: b.id, Facets: map[site.Facet]site.FacetState{site.FacetAccounts: {
		Seen: time.Now(), Have: site.Values{"admin." + site.AccountState: site.AccountDisabled, "monitor." + site.AccountState: site.AccountEnabled}}}}
	j := b.w.job()
	b.must(b.w.learn(t.Context(), &j, view{seen: lists}))
	b.memory, b.sealed = b.w.job().memory, nil // nothing is published
	b.w.closeConnections()
	if s := b.settle(); s.State != site.InSync || b.m.Counts().Denied > 0 {
		t.Errorf("%s: %s\n%+v", s.State, s.Reason, b.memory.Recorded.Accounts["slipway"])
	}
}

// The host is lost, and its records come from a backup that was made before a rotation; nothing is published. The password of
// the design is tried too, once.
func TestRecordsFromABackupWithoutAStatusBranch(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	old := b.memory
	b.designs("bmc-own", 2, own)
	b.reaches("raised", 2, 0)
	b.lose()
	b.memory, b.sealed, b.blank = old, nil, true
	b.reaches("with the records of before", 2, 0)
	if c := b.m.Counts(); c.Denied > 1 {
		t.Errorf("%d were denied", c.Denied)
	}
}
