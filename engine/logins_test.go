package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// guardedSite is a fleet of machines that want the account "root" with a
// password.
func guardedSite(password string) drivertest.Config {
	c := usual
	c.Secret = secret.New("root", password)
	return c
}

// password has the daemon log in to BMCs with a password from now on.
func (w *world) password(text string) {
	f := func(secret.Value) secret.Value { return secret.New("root", text) }
	w.secrets.change.Store(&f)
}

// wrongLogins counts the logins that the machines have denied.
func (w *world) wrongLogins(names ...string) int {
	n := 0
	for _, name := range names {
		n += w.fleet.Machine(name).Counts().Denied
	}
	return n
}

func (w *world) logins(when string, want int, names ...string) {
	w.t.Helper()
	if got := w.wrongLogins(names...); got != want {
		w.t.Fatalf("%s: %d logins were denied, want %d", when, got, want)
	}
}

// managed is a site of machines that have no endpoint but their BMC.
func (w *world) managed(names ...string) *site.Site {
	d := w.design(names...)
	for _, n := range d.Nodes {
		delete(n.Endpoints, site.OS)
	}
	return d
}

// seeing brings a site up whose machines are all wanted on.
func (w *world) seeing(names ...string) *site.Site {
	d := w.managed(names...)
	d.Rollout.FirstContact = "repair"
	for _, name := range names {
		w.fleet.Machine(name).SetPower("on")
	}
	w.commit(d)
	w.up()
	w.after(5 * time.Minute)
	return d
}

// A wrong password goes to two machines, and to no other: not with time, not after
// commits that change something else, and not after a restart of the daemon. The
// status says what to do, steadily. The right one in its file goes to all.
func TestWrongPasswordGoesToTwoMachines(t *testing.T) {
	inBubble(t, guardedSite("right"), func(w *world) {
		w.password("wrong")
		d := w.seeing(names(6)...)
		w.logins("at first", 2, names(6)...)
		withheld := ""
		for _, name := range names(6) {
			w.want(name, site.Stalled)
			if w.fleet.Machine(name).Counts().Denied > 0 {
				continue
			}
			if withheld != "" && w.node(name).Reason != w.node(withheld).Reason { // the status shows the same cause once
				t.Errorf("%s says: %s; %s says: %s", name, w.node(name).Reason, withheld, w.node(withheld).Reason)
			}
			withheld = name
		}
		told := w.node(withheld)
		if !strings.Contains(told.Reason, `credential "bmc" was denied by n`) || !strings.Contains(told.Reason, "slipway retry") {
			t.Errorf("%s says: %s", withheld, told.Reason)
		}
		problem := func() string {
			for _, p := range w.engine.Report().Status.Problems {
				if p.About == "credential bmc" {
					return fmt.Sprint(p)
				}
			}
			return ""
		}
		was := problem()
		if !strings.Contains(was, "Slipway sends it only to machines that have accepted it before") {
			t.Errorf("the site's problem is %q", was)
		}
		for range 60 {
			w.after(time.Minute)
			if n := w.node(withheld); n.Reason != told.Reason || !n.Since.Equal(told.Since) || problem() != was {
				t.Fatalf("not steady: %s since %s; %s", n.Reason, n.Since, problem())
			}
		}
		w.relabel(d, "n2", "a")
		w.after(10 * time.Minute)
		w.down()
		w.up()
		w.after(10 * time.Minute)
		w.logins("after a commit and a restart", 2, names(6)...)

		w.do(site.Order{Verb: site.VerbRetry, Node: withheld})
		w.after(10 * time.Minute)
		w.logins("after a person had one node tried again", 3, names(6)...)
		w.do(site.Order{Verb: site.VerbRetry})
		w.after(10 * time.Minute)
		w.logins("after a person had all tried again", 5, names(6)...)

		w.password("right")
		w.after(10 * time.Minute)
		w.logins("with the right password", 5, names(6)...)
		for _, name := range names(6) {
			w.want(name, site.InSync)
		}
		if got := problem(); got != "" {
			t.Errorf("the site's problem is still %q", got)
		}
	}, names(6)...)
}

// Two hostile BMCs stop no login of a machine that has accepted the password, also
// after a restart of the daemon; a new machine does not get it.
func TestTwoHostileMachinesStopNoOthers(t *testing.T) {
	inBubble(t, guardedSite("right"), func(w *world) {
		w.password("right")
		d := w.seeing("n1", "n2", "n3", "n4")
		w.fleet.Machine("n1").SetFault(drivertest.Denied)
		w.fleet.Machine("n2").SetFault(drivertest.Denied)
		w.after(5 * time.Minute)
		w.down()
		w.up()
		w.after(5 * time.Minute)
		for name, want := range map[string]site.State{"n1": site.Stalled, "n2": site.Stalled, "n3": site.InSync, "n4": site.InSync} {
			w.want(name, want)
		}
		w.logins("after a restart", 2, "n1", "n2", "n3", "n4")

		d = clone(d)
		d.Nodes["n5"] = w.managed("n5").Nodes["n5"]
		w.commit(d)
		w.after(5 * time.Minute)
		w.want("n5", site.Stalled)
		if n := w.fleet.Machine("n5").Counts().Logins; n != 0 {
			t.Errorf("the new machine got the password %d times", n)
		}
	}, names(5)...)
}

// A quarantine sends the password once although others have denied it, and once
// only.
func TestQuarantineLogsInOnce(t *testing.T) {
	inBubble(t, guardedSite("right"), func(w *world) {
		w.password("right")
		w.fleet.Machine("n1").SetFault(drivertest.Denied)
		w.fleet.Machine("n2").SetFault(drivertest.Denied)
		d := w.managed("n1", "n2")
		w.commit(d)
		w.up()
		w.after(5 * time.Minute)
		d = clone(d)
		d.Nodes["n3"] = w.managed("n3").Nodes["n3"]
		w.fleet.Machine("n3").SetPower("on")
		w.commit(d)
		w.after(5 * time.Minute)
		if n := w.fleet.Machine("n3").Counts().Logins; n != 0 {
			t.Fatalf("n3 got the password %d times", n)
		}
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n3", Reason: "compromised"})
		w.after(10 * time.Minute)
		if got := w.fleet.Machine("n3").Power(); got != "off" {
			t.Errorf("n3 in quarantine is %s: %s", got, w.node("n3").Reason)
		}
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "compromised"})
		w.after(10 * time.Minute)
		w.down()
		w.up()
		w.after(10 * time.Minute)
		w.logins("in quarantine", 3, "n1", "n2")
	}, names(3)...)
}

// The systems' password is withheld in the same way.
func TestWrongPasswordOfSystemsGoesToTwo(t *testing.T) {
	c := guardedSite("")
	c.Secret = secret.New("root", "right") // of BMCs and systems
	inBubble(t, c, func(w *world) {
		w.password("right")
		for _, name := range names(5) {
			w.fleet.Machine(name).SetDisk(&site.Marker{})
			w.fleet.Machine(name).SetPower("on")
		}
		w.commit(w.service(names(5)...))
		w.up()
		w.after(30 * time.Minute)
		w.logins("of systems", 2, names(5)...)
	}, names(5)...)
}
