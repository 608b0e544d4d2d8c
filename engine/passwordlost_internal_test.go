package engine

import (
	"os"
	"path/filepath"
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

// A BMC gets another certificate on purpose while the daemon runs and is logged in: once the design has it, a person is
// asked, without a restart.
func TestCertificateIsReplacedWhileTheDaemonRuns(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.start()
	b.w.reconcile(t.Context())
	if s := b.status(); s.State != site.InSync || b.w.connections[site.Manager] == nil {
		t.Fatalf("%s: %s", s.State, s.Reason)
	}
	b.m.SetFault(lab.Fault{Kind: lab.FaultOtherCert})
	is := certificateAt(t, b.r.BMCURL(b.name))
	b.designs("bmc-own", 1, own)
	b.design.Nodes[b.name].Endpoints[site.Manager] = site.Endpoint{URL: b.r.BMCURL(b.name), Credential: "bmc-own", Trust: site.Trust{Fingerprint: is}}
	b.e.mu.Lock()
	b.e.design = b.design
	b.w.redesignLocked(b.design.Nodes[b.name], false)
	b.e.mu.Unlock()
	b.w.anew = true
	b.w.reconcile(t.Context())
	if s := b.status(); s.State != site.Blocked || !strings.Contains(s.Approve, is) {
		t.Errorf("%s: %s; asks %q", s.State, s.Reason, s.Approve)
	}
}

// A password that the BMC has refused can be taken back: the account still has the one before, which the commit that
// reverts the rotation asks for.
func TestRefusedPasswordCanBeTakenBack(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.r.Hold(func(_ int, c lab.Call) {
		if changesAccount(c) && b.has("monitor").Password == b.passwordOf("monitor", 2) {
			b.m.SetFault(lab.Fault{Kind: lab.FaultForbidden, Times: 1})
		}
	})
	b.designs("bmc-own", 2, own)
	if s := b.settle(); s.State == site.InSync || b.has("slipway").Password != b.passwordOf("slipway", 1) {
		t.Fatalf("refused: %s: %s", s.State, s.Reason)
	}
	b.r.Hold(nil)
	b.m.SetFault(lab.Fault{})
	b.design.Credentials["bmc-own"].Epoch = 1
	n := b.design.Nodes[b.name]
	n.References = b.design.ReferencesOf(n)
	if s := b.settle(); s.State != site.InSync || b.m.Counts().Denied > 0 {
		t.Errorf("taken back: %s: %s; %d were denied", s.State, s.Reason, b.m.Counts().Denied)
	}
}

// Another machine in the place of one gets its passwords, over the login of the factory, once a person has compared its
// certificate.
func TestMachineInThePlaceOfAnother(t *testing.T) {
	r := newRotationRack(t, "plain", 2)
	b := owned(t, r)
	b.designs("bmc-own", 2, own)
	b.reaches("raised", 2, 0)
	before := b.m.Counts()
	next := r.Machine("m1")
	design := func(login string, accounts map[string]site.BMCAccount) {
		b.designs(login, 2, accounts)
		n := b.design.Nodes[b.name]
		n.Moved = site.Identity{UUID: "3d1c0000-0000-4000-8000-000000000001", Serial: "SN1"}
		ep := n.Endpoints[site.Manager]
		ep.URL = r.BMCURL("m1")
		n.Endpoints[site.Manager] = ep
		n.References = b.design.ReferencesOf(n)
	}
	b.m = next
	design("bmc-own", own)
	if s := b.settle(); s.State == site.InSync || next.Counts().Denied+next.Counts().Sessions != 0 {
		t.Fatalf("with the derived login: %s: %s; %+v", s.State, s.Reason, next.Counts())
	}
	design("bmc", nil)
	s := b.settle()
	if s.State == site.InSync || !strings.Contains(s.Approve, "certificate") || b.has("slipway").User != "" {
		t.Fatalf("with that of the factory: %s: %s; asks %q", s.State, s.Reason, s.Approve)
	}
	_, err := b.e.approveNode(t.Context(), b.w, site.Order{Verb: site.VerbApprove, Node: b.name, Shown: s.Approval, By: "ann"})
	b.must(err)
	b.memory = b.w.job().memory
	design("bmc", nil)
	if s = b.settle(); s.State != site.InSync || b.has("slipway").Password != b.passwordOf("slipway", 2) {
		t.Fatalf("approved: %s: %s", s.State, s.Reason)
	}
	design("bmc-own", own)
	if s = b.settle(); s.State != site.InSync || next.Counts().Denied != 0 {
		t.Errorf("the derived login: %s: %s; %+v", s.State, s.Reason, next.Counts())
	}
	if c := r.Machine("m0").Counts(); c != before {
		t.Errorf("the machine before: %+v, and %+v", c, before)
	}
}

// Who leaves derived passwords gives the account one from another source, over another login, and Slipway logs in with
// that then. Who comes back does so with no earlier epoch than any that the account had.
func TestLeaveDerivedPasswords(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.must(os.WriteFile(filepath.Join(b.r.dir, "bmc-file"), []byte("hosts: 127.67.0.0/16\nuse: redfish\nports: 1024-65535\nusername: slipway\n\nChosen-by-people-7\n"), 0o600))
	design := func(login, credential string, epoch int) {
		b.designs(login, epoch, map[string]site.BMCAccount{"slipway": {Role: "administrator", Credential: credential}, "monitor": {Role: "readOnly", Credential: "bmc-mon"}})
		b.design.Credentials["bmc-mon"].Epoch = 1
		b.design.Credentials["bmc-file"] = &site.Credential{}
		n := b.design.Nodes[b.name]
		n.References = b.design.ReferencesOf(n)
	}
	for _, c := range []struct {
		login, credential string
		epoch             int
		in                bool
		password          string
	}{
		{"bmc", "bmc-own", 1, true, b.passwordOf("slipway", 1)},
		{"bmc", "bmc-file", 1, true, "Chosen-by-people-7"},
		{"bmc-file", "bmc-file", 1, true, "Chosen-by-people-7"},
		{"bmc", "bmc-own", 1, true, b.passwordOf("slipway", 1)},
		{"bmc", "bmc-own", 2, true, b.passwordOf("slipway", 2)},
		{"bmc", "bmc-file", 2, true, "Chosen-by-people-7"},
		{"bmc", "bmc-own", 1, false, "Chosen-by-people-7"},
		{"bmc", "bmc-own", 2, true, b.passwordOf("slipway", 2)},
		{"bmc-own", "bmc-own", 2, true, b.passwordOf("slipway", 2)},
	} {
		design(c.login, c.credential, c.epoch)
		if s := b.settle(); (s.State == site.InSync) != c.in || b.has("slipway").Password != c.password {
			t.Fatalf("%+v: %s: %s", c, s.State, s.Reason)
		}
	}
	if c := b.m.Counts(); c.Denied > 0 {
		t.Errorf("%d were denied", c.Denied)
	}
}
