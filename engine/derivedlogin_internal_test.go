package engine

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// own are the accounts of a machine that Slipway logs in to with its own.
var own = map[string]site.BMCAccount{
	"slipway": {Role: "administrator", Credential: "bmc-own"}, "monitor": {Role: "readOnly", Credential: "bmc-mon"},
}

// owned is a machine that Slipway has taken over, and logs in to with the derived password of epoch 1.
func owned(t *testing.T, r *rack) *bay {
	t.Helper()
	b := r.take(t)
	b.designs("bmc", 1, nil)
	b.reaches("taken over", 1, 0)
	b.designs("bmc-own", 1, own)
	b.reaches("own login", 1, 0)
	return b
}

// settle has the daemon work on a design that it cannot reach, and returns what it says.
func (b *bay) settle() site.NodeStatus {
	b.t.Helper()
	b.run(0)
	return b.status()
}

// A merged address collects no derived password, whether it names the same UUID or not: it goes to no certificate but the
// one that is proven for the machine. A person can say that the BMC is another one.
func TestDerivedPasswordGoesToNoOtherBMC(t *testing.T) {
	r := newRotationRack(t, "plain", 2)
	b := owned(t, r)
	other, err := lab.Start(lab.Config{Seed: "another", Machines: []lab.MachineConfig{{
		Name: "evil", BMCAddr: "127.67.9.9", Identity: b.id, Username: "slipway", Password: b.passwordOf("slipway", 1), Power: "on"}}})
	b.must(err)
	t.Cleanup(func() { other.Close() })
	evil := other.Machine("evil")
	for _, trust := range []site.Trust{{CA: string(other.CA())}, {FirstUse: true}} {
		b.designs("bmc-own", 1, own)
		n := b.design.Nodes[b.name]
		n.Endpoints[site.Manager] = site.Endpoint{URL: other.BMCURL("evil"), Credential: "bmc-own", Trust: trust}
		if s := b.settle(); s.State == site.InSync || !strings.Contains(s.Reason, "certificate has changed") {
			t.Errorf("%+v: %s: %s", trust, s.State, s.Reason)
		}
	}
	if c := evil.Counts(); c.Sessions+c.Denied != 0 {
		t.Fatalf("the other BMC was sent a password: %+v", c)
	}

	// With its fingerprint in the design a person is asked, and who says yes has it go there.
	fingerprint := certificateAt(t, other.BMCURL("evil"))
	b.designs("bmc-own", 1, own)
	n := b.design.Nodes[b.name]
	n.Endpoints[site.Manager] = site.Endpoint{URL: other.BMCURL("evil"), Credential: "bmc-own", Trust: site.Trust{Fingerprint: fingerprint}}
	s := b.settle()
	if s.State != site.Blocked || !s.Person || !strings.Contains(s.Approve, fingerprint) || !strings.Contains(s.Reason, "is proven for this machine") {
		t.Fatalf("%s: %s; %q", s.State, s.Reason, s.Approve)
	}
	if c := evil.Counts(); c.Sessions+c.Denied != 0 {
		t.Fatalf("the other BMC was sent a password before anybody approved it: %+v", c)
	}
	said, err := b.e.approveNode(t.Context(), b.w, site.Order{Verb: site.VerbApprove, Node: b.name, Shown: s.Approval, By: "ann"})
	if err != nil || !strings.Contains(said, fingerprint) {
		t.Fatalf("approved: %q, %v", said, err)
	}
	b.w.reconcile(t.Context())
	if c := evil.Counts(); c.Sessions == 0 || c.Denied != 0 {
		t.Errorf("once a person has approved it: %+v", c)
	}
}

// certificateAt is the fingerprint of the certificate that a BMC shows.
func certificateAt(t *testing.T, endpoint string) string {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return fmt.Sprintf("sha256:%x", sha256.Sum256(c.ConnectionState().PeerCertificates[0].Raw))
}

// With the root key of another site, nothing is sent.
func TestRootKeyOfAnotherSite(t *testing.T) {
	b := owned(t, newRotationRack(t, "xcc", 1))
	before := b.m.Counts()
	var err error
	if b.key, err = sitekey.Create(filepath.Join(t.TempDir(), "site.key")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s := b.settle()
		if s.State == site.InSync || !strings.Contains(s.Reason+s.Cause, "another site key") {
			t.Errorf("%s: %s (%s)", s.State, s.Reason, s.Cause)
		}
	}
	if c := b.m.Counts(); c.Denied != before.Denied || c.Sessions != before.Sessions {
		t.Errorf("%+v, and before %+v", c, before)
	}
	b.key = b.r.key
	b.reaches("the right key is back", 1, 0)
}

// An epoch that is lowered sets nothing, whatever becomes of the daemon.
func TestEpochIsLowered(t *testing.T) {
	b := owned(t, newRotationRack(t, "idrac9", 1))
	b.designs("bmc-own", 3, own)
	b.reaches("raised", 3, 0)
	writes := b.m.Writes()
	for _, lost := range []bool{false, true} {
		if lost {
			b.lose()
		}
		b.designs("bmc-own", 2, own)
		s := b.settle()
		if !strings.Contains(s.Reason, "was lowered to 2, and the account was given the password of epoch 3 before") || b.has("slipway").Password != b.passwordOf("slipway", 3) {
			t.Errorf("the records are lost: %v: %s: %s", lost, s.State, s.Reason)
		}
	}
	if b.has("monitor").Password != b.passwordOf("monitor", 3) || b.m.Counts().Denied != 0 {
		t.Errorf("%d writes, %d denied", b.m.Writes()-writes, b.m.Counts().Denied)
	}
	b.designs("bmc-own", 4, own)
	b.reaches("raised again", 4, 0)
}

// A BMC that does not answer keeps its epoch, which shows; once it answers it gets the next one.
func TestSilentBMCKeepsItsEpoch(t *testing.T) {
	b := owned(t, newRotationRack(t, "ilo5", 1))
	b.m.SetFault(lab.Fault{Kind: lab.FaultHang})
	b.designs("bmc-own", 2, own)
	b.start()
	b.e.mu.Lock()
	b.e.planLocked()
	p := b.w.plan
	status := b.w.describeLocked(outcome{state: site.Retrying})
	b.e.mu.Unlock()
	if notes := strings.Join(p.Notes, "; "); !strings.Contains(notes, "slipway of its BMC keeps the password of epoch 1") {
		t.Errorf("notes: %s", notes)
	}
	if all := status.Passwords; len(all) != 2 || all[1].Account != "slipway" || all[1].Epoch != 1 || all[1].Designed != 2 || all[1].Proven.IsZero() {
		t.Errorf("status: %+v", status.Passwords)
	}
	b.m.SetFault(lab.Fault{})
	b.reaches("it answers again", 2, 0)
}

// A clock that is off by years keeps nobody out: what was recorded is in the future, or long ago.
func TestClockOffByYears(t *testing.T) {
	for _, off := range []time.Duration{-10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		b := owned(t, newRotationRack(t, "plain", 1))
		all := map[string]site.AccountUse{}
		for account, use := range b.memory.Recorded.Accounts {
			use.ProvenAt = use.ProvenAt.Add(off)
			use.Tries, use.TriedAt = 2, time.Now().Add(off)
			all[account] = use
		}
		b.memory.Recorded.Accounts = all
		p := *b.memory.Recorded.BMC
		p.Since = p.Since.Add(off)
		b.memory.Recorded.BMC = &p
		b.designs("bmc-own", 2, own)
		b.reaches("the clock was off", 2, 0)
	}
}

// Where both passwords of its own account are denied, Slipway sends none again until a person says so.
func TestDeniedDerivedPasswordsAreSentOnce(t *testing.T) {
	b := owned(t, newRotationRack(t, "xcc", 1))
	b.m.SetAccount("slipway", "Somebody-7-changed-it", "Administrator")
	for range 4 {
		if s := b.settle(); s.State == site.InSync {
			t.Fatal("in-sync")
		}
	}
	if c := b.m.Counts(); c.Denied != 1 || c.Lockouts != 0 {
		t.Errorf("%d were denied, %d locks", c.Denied, c.Lockouts)
	}
	if s := b.status(); !strings.Contains(s.Reason, "slipway retry") {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
	b.m.SetAccount("slipway", b.passwordOf("slipway", 1), "Administrator")
	b.start()
	b.must(b.w.save(t.Context(), retryLogins))
	b.memory = b.w.job().memory
	b.reaches("a person has put it right", 1, 0)
}
