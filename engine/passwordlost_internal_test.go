package engine

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// A BMC that was reset to the settings of the factory has none of the accounts. The one login that Slipway tries is denied,
// and the node says what to do; with the login of the factory it gets the accounts again, and a person is asked where the
// reset has made another certificate.
func TestBMCThatWasResetToFactory(t *testing.T) {
	for name, renewed := range map[string]bool{"same certificate": false, "another certificate": true} {
		t.Run(name, func(t *testing.T) {
			b := owned(t, newRotationRack(t, "plain", 1))
			b.designs("bmc-own", 2, own)
			b.reaches("raised", 2, 0)
			b.m.ResetAccounts()
			var s site.NodeStatus
			for range 3 {
				s = b.settle()
			}
			if c := b.m.Counts(); s.State == site.InSync || c.Denied != 1 || !strings.Contains(s.Reason, "reset") || !strings.Contains(s.Reason, "slipway retry") {
				t.Fatalf("%d were denied; %s: %s", c.Denied, s.State, s.Reason)
			}
			b.designs("bmc", 2, nil)
			if renewed {
				b.m.SetFault(lab.Fault{Kind: lab.FaultOtherCert})
				n := b.design.Nodes[b.name]
				n.Endpoints[site.Manager] = site.Endpoint{URL: b.r.BMCURL(b.name), Credential: "bmc", Trust: site.Trust{Fingerprint: certificateAt(t, b.r.BMCURL(b.name))}}
				if s = b.settle(); s.State == site.InSync || s.Approve == "" || b.has("slipway").User != "" {
					t.Fatalf("another certificate: %s: %s; asks %q", s.State, s.Reason, s.Approve)
				}
				_, err := b.e.approveNode(t.Context(), b.w, site.Order{Verb: site.VerbApprove, Node: b.name, Shown: s.Approval, By: "ann"})
				b.must(err)
				b.memory = b.w.job().memory
			}
			b.reaches("the login of the factory", 2, 0)
			if c := b.m.Counts(); c.Denied != 1 {
				t.Errorf("%d were denied", c.Denied)
			}
		})
	}
}

// The bootstrap host is destroyed in the middle of a rotation, at any request, and what the status branch has is from
// before it. A new host with Git and the site key alone reaches every machine.
func TestHostLostInTheMiddleOfARotation(t *testing.T) {
	for _, personality := range lab.Personalities {
		t.Run(personality, func(t *testing.T) {
			t.Parallel()
			r := newRotationRack(t, personality, 10)
			for i := range 10 {
				b := owned(t, r)
				b.designs("bmc-own", 2, own)
				if _, killed := b.run(4 + 3*i); !killed {
					continue // it was over before
				}
				b.lose()
				b.reaches(fmt.Sprintf("the host was lost at request %d", 4+3*i), 2, 0)
				if c := b.m.Counts(); c.Denied > 1 {
					t.Errorf("request %d: %d were denied", 4+3*i, c.Denied)
				}
			}
		})
	}
}

// A daemon whose lease ends in the middle of a change sends no password any more, and the next one brings it to its end.
func TestNoPasswordIsSentAfterTheTerm(t *testing.T) {
	for _, c := range []struct {
		name  string
		begun func(b *bay) bool
	}{
		{"of another account", func(b *bay) bool { return b.w.job().memory.Recorded.Accounts["monitor"].Offered != "" }},
		{"of its own account", func(b *bay) bool { return b.w.job().memory.Recorded.Accounts["slipway"].Offered != "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := owned(t, newRotationRack(t, "plain", 1))
			var over, sent atomic.Int32
			begun := c.begun
			b.r.Hold(func(_ int, c lab.Call) {
				switch {
				case over.Load() == 1:
					if c.Write() || logsIn(c) {
						sent.Add(1)
					}
				case c.Method == "GET" && begun(b):
					over.Store(1)
					if err := b.e.term.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
			b.designs("bmc-own", 2, map[string]site.BMCAccount{"slipway": {Role: "administrator", Credential: "bmc-own"}, "monitor": {Role: "readOnly", Credential: "bmc-mon"}})
			b.run(0)
			b.r.Hold(nil)
			if over.Load() != 1 || sent.Load() != 0 {
				t.Fatalf("the term ended: %v; %d writes and logins were sent after it", over.Load() == 1, sent.Load())
			}
			b.reaches("the next daemon", 2, 0)
			if c := b.m.Counts(); c.Denied > 1 { // a login asks whether the one of another account was set
				t.Errorf("%d were denied", c.Denied)
			}
		})
	}
}
