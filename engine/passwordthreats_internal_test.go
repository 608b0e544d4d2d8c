package engine

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// A machine that Slipway has long used, by the login of the factory: one merge moves its BMC to another address and names
// derived passwords. They must not go there before a person has said so.
func TestAddressAndFirstPasswordInOneMerge(t *testing.T) {
	b := newRotationRack(t, "plain", 1).take(t)
	b.designs("bmc", 1, map[string]site.BMCAccount{"admin": {Role: "administrator"}})
	if s := b.settle(); s.State != site.InSync || b.memory.Recorded.Adopted == nil || b.memory.Recorded.Adopted.Settled.IsZero() {
		t.Fatalf("%s: %s", s.State, s.Reason)
	}
	f, m := impostor(t, "127.67.8.20", b.id)
	b.designs("bmc", 1, nil)
	b.design.Rollout.FirstContact = ""
	b.design.Nodes[b.name].Endpoints[site.Manager] = site.Endpoint{URL: f.BMCURL("evil"), Credential: "bmc", Trust: site.Trust{FirstUse: true}}
	s := b.settle()
	b.keepsFrom(m, "one merge")
	if s.State == site.InSync || !strings.Contains(s.Approve, "certificate") {
		t.Errorf("%s: %s; asks %q", s.State, s.Reason, s.Approve)
	}
}

// A BMC says yes, and has the password a minute later, with all sessions ended. A person says "retry", having done nothing
// wrong: no account is locked.
func TestLateBMCIsNotLocked(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.m.SetFault(lab.Fault{Kind: lab.FaultLockout, Delay: site.Duration(time.Hour)})
	var patched, asked atomic.Bool
	b.r.Hold(func(_ int, c lab.Call) {
		switch {
		case changesAccount(c) && b.has("monitor").Password == b.passwordOf("monitor", 2):
			patched.Store(true)
		case logsIn(c) && patched.Load() && asked.CompareAndSwap(false, true):
			b.m.SetAccount("slipway", b.passwordOf("slipway", 1), "Administrator") // not yet
		case patched.Load() && asked.Load() && logsIn(c):
			b.m.SetAccount("slipway", b.passwordOf("slipway", 2), "Administrator") // now
		}
	})
	b.designs("bmc-own", 2, own)
	b.start()
	for range 6 {
		b.w.anew = true
		b.w.reconcile(t.Context())
		if asked.Load() {
			break
		}
	}
	b.r.Hold(nil)
	b.m.SetAccount("slipway", b.passwordOf("slipway", 2), "Administrator")
	b.m.ForgetSessions()
	b.memory = b.w.job().memory
	s := b.settle()
	if s.State == site.InSync {
		t.Fatal("it was not late")
	}
	b.retry()
	s = b.settle()
	if c := b.m.Counts(); c.Lockouts > 0 || s.State != site.InSync {
		t.Errorf("after retry: %d locks, %d denied; %s: %s\n%+v", c.Lockouts, c.Denied, s.State, s.Reason, b.memory.Recorded.Accounts)
	}
}

// A node leaves and returns while the daemon runs. What was published when the daemon started is not what holds: the
// certificate was replaced since, as its key had become known.
func TestNodeThatReturnsKeepsItsProof(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	old := *b.sealed
	b.m.SetFault(lab.Fault{Kind: lab.FaultOtherCert})
	renew := func() {
		n := b.design.Nodes[b.name]
		n.Endpoints[site.Manager] = site.Endpoint{URL: b.r.BMCURL(b.name), Credential: "bmc-own", Trust: site.Trust{Fingerprint: certificateAt(t, b.r.BMCURL(b.name))}}
	}
	b.designs("bmc-own", 1, own)
	renew()
	s := b.settle()
	_, err := b.e.approveNode(t.Context(), b.w, site.Order{Verb: site.VerbApprove, Node: b.name, Shown: s.Approval, By: "ann"})
	b.must(err)
	b.memory = b.w.job().memory
	b.designs("bmc-own", 2, own)
	renew()
	b.reaches("raised", 2, 0)
	b.designs("bmc-own", 3, own)
	renew()
	b.reaches("raised", 3, 0)

	// It leaves and returns; whoever has the key of the old certificate answers.
	b.memory, b.sealed = site.Memory{}, &old
	b.m.SetFault(lab.Fault{})
	before := b.m.Counts()
	b.designs("bmc-own", 2, own)
	s = b.settle()
	if c := b.m.Counts(); s.State == site.InSync || !strings.Contains(s.Reason, "before") || c.Denied > before.Denied || c.Sessions > before.Sessions || b.memory.Recorded.BMC != nil {
		t.Errorf("%s: %s; %d denied; BMC %+v", s.State, s.Reason, c.Denied-before.Denied, b.memory.Recorded.BMC)
	}
	b.designs("bmc-own", 2, own)
	renew()
	if s = b.settle(); !strings.Contains(s.Approve, certificateAt(t, b.r.BMCURL(b.name))) || b.m.Counts().Sessions > before.Sessions {
		t.Errorf("with its certificate in the design: %s: %s; asks %q", s.State, s.Reason, s.Approve)
	}
	if got := b.e.highestOf(b.id.UUID, "slipway"); got != 3 {
		t.Errorf("the highest epoch of the machine is %d", got)
	}
}

// One commit raises the epoch and disables the account of the factory; the BMC keeps something else: the account of the
// factory is the only way in that is left.
func TestOtherAccountsWaitForTheOwnPassword(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	var armed atomic.Bool
	b.r.Hold(func(_ int, c lab.Call) {
		if changesAccount(c) && b.has("monitor").Password == b.passwordOf("monitor", 2) {
			armed.Store(true)
		}
		if armed.Load() && logsIn(c) {
			b.m.SetAccount("slipway", "Cut-off-1", "Administrator")
		}
	})
	b.designs("bmc-own", 2, map[string]site.BMCAccount{"slipway": own["slipway"], "monitor": own["monitor"], "admin": {State: site.AccountDisabled}})
	s := b.settle()
	b.r.Hold(nil)
	if !b.has("admin").Enabled && b.has("slipway").Password == "Cut-off-1" {
		t.Errorf("nobody can log in: %s: %s", s.State, s.Reason)
	}
}

// A commit that names another UUID lands while Slipway logs in; the next one takes it back.
func TestUUIDIsChangedDuringALogin(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	var once atomic.Bool
	is := b.id
	b.designs("bmc-own", 1, own)
	b.r.Hold(func(_ int, c lab.Call) {
		if logsIn(c) && once.CompareAndSwap(false, true) {
			b.id.UUID = "3d1c0000-0000-4000-8000-0000000000ff"
			b.designs("bmc-own", 1, own)
			b.e.mu.Lock()
			b.e.design = b.design
			b.w.redesignLocked(b.design.Nodes[b.name], false)
			b.e.mu.Unlock()
		}
	})
	b.settle()
	b.r.Hold(nil)
	b.id = is
	b.designs("bmc-own", 1, own)
	s := b.settle()
	if s.State != site.InSync {
		t.Errorf("%s: %s\n%+v", s.State, s.Reason, b.memory.Recorded.Accounts)
	}
}

// A certificate that is already proven for another machine proves nothing: vendors ship one certificate, with its key, on
// all of their BMCs.
func TestCertificateOfManyMachines(t *testing.T) {
	b := newRotationRack(t, "plain", 1).take(t)
	other := site.MachineProof{ProvenBMC: site.ProvenBMC{From: "3d1c0000-0000-4000-8000-0000000000cc", Machine: "3d1c0000-0000-4000-8000-0000000000cc", Fingerprint: certificateAt(t, b.r.BMCURL(b.name)), Since: time.Now()}}
	b.must(b.records.PutProof(t.Context(), other))
	b.designs("bmc", 1, nil)
	s := b.settle()
	if s.State == site.InSync || s.Approve == "" || b.has("slipway").User != "" {
		t.Errorf("%s: %s; asks %q", s.State, s.Reason, s.Approve)
	}
}

// The highest epoch that can be written is set by one merge: no later one can be, ever.
func TestEpochIsRaisedFar(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.designs("bmc-own", 1000000, own)
	s := b.settle()
	if s.State == site.InSync || !strings.Contains(s.Reason, "epoch") {
		t.Errorf("%s: %s: %+v", s.State, s.Reason, b.memory.Recorded.Accounts["slipway"].ProvenAs)
	}
}

// Two merges: a machine that Slipway has long used, by the login of the factory, leaves the design; it comes back at another
// address with derived passwords.
func TestLeavesAndReturnsAtAnotherAddress(t *testing.T) {
	b := newRotationRack(t, "plain", 1).take(t)
	b.designs("bmc", 1, map[string]site.BMCAccount{"admin": {Role: "administrator"}})
	if s := b.settle(); s.State != site.InSync {
		t.Fatalf("%s: %s", s.State, s.Reason)
	}
	f, m := impostor(t, "127.67.8.21", b.id)
	b.memory = site.Memory{} // it has left
	b.designs("bmc", 1, nil)
	b.design.Nodes[b.name].Endpoints[site.Manager] = site.Endpoint{URL: f.BMCURL("evil"), Credential: "bmc", Trust: site.Trust{FirstUse: true}}
	s := b.settle()
	b.keepsFrom(m, "two merges")
	if s.State == site.InSync || !strings.Contains(s.Approve, "certificate") {
		t.Errorf("%s: %s; asks %q", s.State, s.Reason, s.Approve)
	}
}

// A daemon that is killed in the middle of a rotation still counts its machine as out of service when it is back.
func TestRestartKeepsThePlaceOfARotation(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.designs("bmc-own", 2, own)
	offered := func() bool {
		a := b.memory.Recorded.Accounts
		return a["slipway"].OfferedAs.Epoch == 2 || a["monitor"].OfferedAs.Epoch == 2
	}
	for kill := 10; !offered(); kill++ {
		if _, killed := b.run(kill); !killed {
			t.Fatal("it was over")
		}
	}
	b.start()
	if !b.w.disrupts {
		t.Errorf("it takes no place: %+v", b.memory.Recorded)
	}
}

// Somebody guesses passwords of the account that Slipway logs in with, just when it is replaced: the new one is not set,
// as nothing could prove it.
func TestOwnAccountIsLockedDuringARotation(t *testing.T) {
	b := owned(t, newRotationRack(t, "plain", 1))
	b.m.SetFault(lab.Fault{Kind: lab.FaultLockout, Delay: site.Duration(time.Hour)})
	u, err := url.Parse(b.r.BMCURL(b.name))
	b.must(err)
	thief := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var once, over atomic.Bool
	b.r.Hold(func(_ int, c lab.Call) {
		if c.Method != "GET" || !strings.Contains(c.Path, "Accounts") || !once.CompareAndSwap(false, true) {
			return
		}
		for range 3 {
			resp, err := thief.Post("https://"+u.Host+"/redfish/v1/SessionService/Sessions", "application/json", strings.NewReader(`{"UserName":"slipway","Password":"guess"}`))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		}
		over.Store(true)
	})
	b.designs("bmc-own", 2, map[string]site.BMCAccount{"slipway": own["slipway"]})
	s := b.settle()
	b.r.Hold(nil)
	if !over.Load() || s.State == site.InSync || b.m.Counts().Denied != 3 {
		t.Errorf("locked (%v): %s: %s; %+v", over.Load(), s.State, s.Reason, b.m.Counts())
	}
	b.m.SetFault(lab.Fault{})
	if use := b.memory.Recorded.Accounts["slipway"]; use.Offered != "" || use.OfferedDenied || b.has("slipway").Password != b.passwordOf("slipway", 1) {
		t.Errorf("it was sent all the same: %+v", use)
	}
}
