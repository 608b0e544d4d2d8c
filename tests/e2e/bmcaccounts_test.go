package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// A daemon that is killed at every request by which it sets an account of a BMC, and at each of its
// logins as that account, brings the change to its end when it is started again. Nobody is locked
// out, and no password is in anything that it has said or written.
func TestAccountsOfBMCs(t *testing.T) {
	t.Parallel()
	w := foundTown(t, []string{"old-1"}, atOnce)
	m := w.fleet.Machine("old-1")
	m.SetAccount("guest", "canary-guest-1c9d", "Operator")
	value := func(i int) string { return fmt.Sprintf("canary-account-%d-a81f", i) }
	set := func(i int) {
		w.write("cred/monitor", "hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\nusername: monitor\n\n"+value(i)+"\n")
	}
	set(0)
	w.start()
	w.converge()
	design := w.designWith("old-1", `bmc: {accounts: {admin: {role: "administrator", credential: "bmc"}, monitor: {role: "readOnly", credential: "monitor"}, guest: state: "absent"}}`)
	w.commit(strings.Replace(design, "outdated: {}", "monitor: {}", 1), "accounts of the BMC")
	is := func(i int) bool {
		all := m.Accounts()
		at := slices.IndexFunc(all, func(a lab.BMCAccount) bool { return a.User == "monitor" })
		return len(all) == 2 && at >= 0 && all[at].Password == value(i) && all[at].Role == "ReadOnly"
	}
	done := func(i int) bool {
		r, err := w.ask.Report(context.Background(), "")
		return err == nil && is(i) && allInSync(r.Status) && m.SessionsOf("monitor") == 0
	}
	settled := func(i int) {
		t.Helper()
		w.eventually(fmt.Sprintf("the account has password %d, its sessions are over, and all is in-sync", i), func() bool { return done(i) })
	}
	settled(0)

	for kill := 1; kill <= 8; kill++ {
		requests := 0
		daemon := w.daemon
		w.fleet.Watch(func(_ int, c lab.Call) {
			account := c.Write() && strings.Contains(c.Path, "AccountService") || strings.Contains(c.Path, "Sessions")
			if !account {
				return
			}
			if requests++; requests == kill {
				daemon.kill()
			}
		})
		m.OpenSession("monitor", "")
		set(kill)
		w.eventually(fmt.Sprintf("the daemon is killed at request %d, or all is done", kill), func() bool { return daemon.dead() || done(kill) })
		w.fleet.Watch(nil)
		if !daemon.dead() {
			if kill < 4 {
				t.Errorf("a change takes %d requests", kill-1)
			}
			break
		}
		w.start()
		settled(kill)
	}
	told := w.told()
	w.stop()
	if c := m.Counts(); c.Denied > 8 || c.Lockouts != 0 {
		t.Errorf("%d logins were denied, with %d locks", c.Denied, c.Lockouts)
	}
	texts := map[string]string{"the control socket": told, "the log": w.log()}
	for _, repository := range []string{"site.git", "state/repository"} {
		texts["the objects of "+repository] = w.objects(repository)
	}
	w.readAll(texts, "state")
	secrets := map[string]string{"the password": password, "the guest's": "canary-guest-1c9d"}
	for i := range 9 {
		secrets[fmt.Sprintf("password %d of the account", i)] = value(i)
	}
	for _, forms := range secretForms(secrets) {
		for where, text := range texts {
			if strings.Contains(text, forms.text) {
				t.Errorf("%s is in %s", forms.what, where)
			}
		}
	}
	if !strings.Contains(told, site.PasswordOf("monitor")) {
		t.Error("the control socket does not tell of the account: there was nothing to search")
	}
}
