package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// The bootstrap host is the compromised machine, and the site key has no copy. What an intruder has: that key, so all derived
// passwords of all epochs, and the files of the credentials. What is left: the repository, and an administrator of the BMCs whose
// password was never on the host. docs/compromise.md says the way back; this walks it.
func TestDrillHostIsCompromisedAndSiteKeyIsLost(t *testing.T) {
	for _, personality := range lab.Personalities {
		t.Run(personality, func(t *testing.T) {
			t.Parallel()
			const inTheSafe, fresh = "canary-Safe-9", "canary-Fresh-8"
			r := newRotationRack(t, personality, 1)
			b := owned(t, r)
			b.designs("bmc-own", 2, own)
			b.reaches("before", 2, 0)
			b.m.SetAccount("admin", inTheSafe, "Administrator")
			stolen := map[string][]string{"admin": {factoryPassword, inTheSafe}, "monitor": nil, "slipway": nil}
			for epoch := 1; epoch <= 4; epoch++ {
				for _, account := range []string{"slipway", "monitor"} {
					stolen[account] = append(stolen[account], b.passwordOf(account, epoch))
				}
			}
			power, before, calls := b.m.Power(), b.m.Counts(), r.CallCount()

			// A new host has another key. It cannot compute one password, sends none, and changes nothing.
			b.lose()
			b.sealed = nil // it was signed with the lost key, so nobody believes it
			var err error
			r.key, err = sitekey.Create(filepath.Join(t.TempDir(), "site.key"))
			b.must(err)
			b.key = r.key
			b.designs("bmc-own", 2, own)
			for range 3 {
				if s := b.settle(); s.State == site.InSync || s.Reason == "" || s.State == site.Progressing {
					t.Fatalf("with another key: %s: %s", s.State, s.Reason)
				}
			}
			if now := b.m.Counts(); now.Sessions != before.Sessions || now.Denied != before.Denied || now.Writes != before.Writes {
				t.Fatalf("with another key it asked for something: %+v, and before %+v", now, before)
			}

			// The login from the safe: the epoch is raised, all derived passwords are those of the new key.
			b.m.OpenSession("slipway", "intruder")
			b.m.OpenSession("monitor", "intruder")
			b.must(os.WriteFile(filepath.Join(r.dir, "bmc"), []byte("hosts: 127.67.0.0/16\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+inTheSafe+"\n"), 0o600))
			b.designs("bmc", 3, nil)
			b.reaches("by the login from the safe", 3, 0)
			b.designs("bmc-own", 3, own)
			b.reaches("by its own login", 3, 0)

			// The login from the safe was on the host now: it gets another password.
			b.must(os.WriteFile(filepath.Join(r.dir, "bmc"), []byte("hosts: 127.67.0.0/16\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+fresh+"\n"), 0o600))
			b.designs("bmc-own", 3, map[string]site.BMCAccount{
				"slipway": own["slipway"], "monitor": own["monitor"], "admin": {Role: "administrator", Credential: "bmc"}})
			b.reaches("the login from the safe is another one", 3, 0)
			if b.has("admin").Password != fresh {
				t.Error("the login from the safe has its earlier password")
			}
			for account, all := range stolen {
				if slices.Contains(all, b.has(account).Password) {
					t.Errorf("%s has a password that the intruder knows", account)
				}
			}
			if slices.Contains(b.m.SessionContexts(), "intruder") {
				t.Error("sessions of the intruder are open")
			}
			if b.m.Power() != power {
				t.Errorf("the machine is %s, and was %s", b.m.Power(), power)
			}
			for _, c := range r.Calls()[calls:] {
				if c.Write() && !strings.Contains(c.Path, "/AccountService/") {
					t.Errorf("the machine was asked for another change: %s %s %s", c.Method, c.Path, c.Reset)
				}
			}
			if c := b.m.Counts(); c.Denied > 1 || c.Lockouts != 0 {
				t.Errorf("%d were denied, %d locks", c.Denied, c.Lockouts)
			}
		})
	}
}

// A BMC has got a rule that no password meets, of which it says nothing: each change of an account is refused. Both accounts keep the
// passwords that they have, Slipway goes on logging in, and says so; without the rule the next rotation ends.
func TestRuleThatNoPasswordMeets(t *testing.T) {
	for _, personality := range lab.Personalities {
		t.Run(personality, func(t *testing.T) {
			t.Parallel()
			b := owned(t, newRotationRack(t, personality, 1))
			asked := 0
			b.r.Hold(func(_ int, c lab.Call) {
				if changesAccount(c) {
					asked++
					b.m.SetFault(lab.Fault{Kind: lab.FaultForbidden, Times: 1})
				}
			})
			b.designs("bmc-own", 2, own)
			var s site.NodeStatus
			for i := range 4 {
				s = b.settle()
				if i == 1 {
					b.lose() // and what was refused stays so for a daemon that knows nothing of it
				}
				for _, account := range []string{"slipway", "monitor"} {
					if b.has(account).Password != b.passwordOf(account, 1) {
						t.Fatalf("%s has another password than before", account)
					}
				}
			}
			if s.State == site.InSync || !strings.Contains(s.Reason, "account") || strings.Contains(fmt.Sprint(s), b.passwordOf("slipway", 2)) {
				t.Errorf("refused: %s: %s", s.State, s.Reason)
			}
			if c := b.m.Counts(); asked == 0 || asked > 40 || c.Denied > 2 || c.Lockouts != 0 {
				t.Errorf("%d changes were asked for, %d were denied, %d locks", asked, c.Denied, c.Lockouts)
			}
			t.Logf("%d changes; %s: %s", asked, s.State, s.Reason)
			b.r.Hold(nil)
			b.m.SetFault(lab.Fault{})
			b.designs("bmc-own", 3, own)
			b.reaches("without the rule, the epoch raised again", 3, 0)
		})
	}
}
