package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/derived"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// ark is a town whose BMCs have accounts with derived and with sealed passwords.
type ark struct {
	*town
	key   *sitekey.Key
	to    sealed.Recipient
	birds map[string]string // all passwords that a BMC was ever given
	texts map[string]string // what the daemons said and wrote
}

// The bootstrap host is destroyed in the middle of a rotation, again and again, and built again from Git and the site key alone, with the
// identity that opens sealed secrets. Each time every BMC still lets the daemon in, the rotation ends, and no
// machine is asked for anything but the passwords. These are in nothing that the daemons said or wrote.
func TestProveHostLostInARotationOfTheSite(t *testing.T) {
	t.Parallel()
	a := newArk(t)
	losses, seed := 3, uint64(time.Now().UnixNano())
	if os.Getenv("SLIPWAY_PROVE") != "" {
		losses = 24
	}
	if text := os.Getenv("SLIPWAY_SEED"); text != "" {
		_, err := fmt.Sscan(text, &seed)
		check(t, err)
	}
	t.Logf("SLIPWAY_SEED=%d", seed)
	dice := rand.New(rand.NewPCG(seed, 20))
	a.design(1, "bmc", `slipway: {role: "administrator", credential: "bmc-own"}, monitor: {role: "readOnly", credential: "mon"}`)
	a.startProgram(program, "GOTRACEBACK=crash")
	a.settled("taken over", 1)
	const own = `admin: state: "disabled", slipway: {role: "administrator", credential: "bmc-own"}, monitor: {role: "readOnly", credential: "mon"}`
	a.design(1, "bmc-own", own)
	a.settled("its own login", 1)
	check(t, os.Remove(a.path("cred/bmc"))) // the factory's password was needed once
	for i := range losses {
		kill, epoch := 1+dice.IntN(5*len(a.names)), i+2
		calls := a.fleet.CallCount()
		a.design(epoch, "bmc-own", own)
		a.loses(kill, epoch)
		a.settled(fmt.Sprintf("epoch %d, after the host was lost at request %d", epoch, kill), epoch)
		for _, c := range a.fleet.Calls()[calls:] {
			if c.Write() && !strings.Contains(c.Path, "/AccountService/") {
				t.Errorf("epoch %d: %s was asked for another change: %s %s %s", epoch, c.Machine, c.Method, c.Path, c.Reset)
			}
		}
	}
	for _, name := range a.names {
		if c := a.fleet.Machine(name).Counts(); c.Lockouts != 0 || c.Denied > losses {
			t.Errorf("%s: %d logins were denied, %d locks", name, c.Denied, c.Lockouts)
		}
	}
	a.searched()
}

func newArk(t *testing.T) *ark {
	t.Helper()
	a := &ark{town: foundTown(t, []string{"old-1", "old-2", "old-3"}, atOnce), birds: map[string]string{"the factory's": password}, texts: map[string]string{}}
	a.waits = 3 * time.Minute
	var err error
	a.key, err = sitekey.Create(a.path("site.key"))
	check(t, err)
	id, err := sealed.Create(a.path("secrets.key"), sealed.Classic)
	check(t, err)
	a.to, err = sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
	check(t, err)
	for _, name := range a.names {
		a.fleet.Machine(name).SetPower("on")
	}
	a.rules.cue = strings.Replace(atOnce.cue, "{rollout: {", fmt.Sprintf("{keys: [%q], rollout: {firstContact: \"repair\", ", a.key.Public()), 1)
	a.write("cred/bmc-own", "hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\n")
	a.write("site/secrets/recipients", "# daemon\n"+a.to.Text+"\n")
	return a
}

// derivedOf is the derived password of a machine.
func (a *ark) derivedOf(i, epoch int) string {
	v, err := derived.Passwords(a.key, "town")(secret.Of{Derived: site.Derived{Account: "slipway", Epoch: epoch}, Machine: identity(i).UUID})
	check(a.t, err)
	return v.Reveal()
}

func sealedOf(epoch int) string { return fmt.Sprintf("%s-Monitor-%d", mark, epoch) }

// design pushes the design in which both passwords are those of an epoch.
func (a *ark) design(epoch int, login, accounts string) {
	a.t.Helper()
	for i, name := range a.names {
		a.birds[fmt.Sprintf("that of epoch %d of %s", epoch, name)] = a.derivedOf(i, epoch)
	}
	a.birds[fmt.Sprintf("sealed %d", epoch)] = sealedOf(epoch)
	text := strings.Replace(a.town.design(), "credentials: {bmc: {}, os: {}, outdated: {}}",
		fmt.Sprintf("credentials: {bmc: {}, os: {}, mon: {from: \"sealed\"}, \"bmc-own\": {from: \"derived\", account: \"slipway\", epoch: %d}}", epoch), 1)
	text = strings.Replace(text, "\tpower: \"on\"\n", fmt.Sprintf("\tpower: \"on\"\n\tendpoints: manager: credential: %q\n\tbmc: accounts: {%s}\n", login, accounts), 1)
	a.write("site/secrets/mon.age", a.sealed("town", "mon", epoch, a.to))
	a.write("site/site.cue", text)
	a.pushes(fmt.Sprintf("epoch %d, by %s", epoch, login))
}

// sealed is the encrypted file of the monitor's password.
func (a *ark) sealed(site, name string, epoch int, to sealed.Recipient) string {
	a.t.Helper()
	file, err := sealed.Seal(sealed.Header{Site: site, Name: name, Set: time.Now(), Changed: time.Now()},
		[]byte("hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\nusername: monitor\n\n"+sealedOf(epoch)), []sealed.Recipient{to})
	check(a.t, err)
	return string(file)
}

func (a *ark) pushes(message string) {
	a.t.Helper()
	a.git("-C", "site", "add", "-A")
	a.git("-C", "site", "commit", "-q", "-m", message)
	a.git("-C", "site", "push", "-q", "origin", "main")
}

// has says whether an account of a machine has a password and lets somebody in.
func (a *ark) has(name, user, password string) bool {
	return slices.ContainsFunc(a.fleet.Machine(name).Accounts(), func(b lab.BMCAccount) bool { return b.User == user && b.Password == password && b.Enabled })
}

// rotated says whether each BMC has both passwords of an epoch.
func (a *ark) rotated(epoch int) bool {
	for i, name := range a.names {
		if !a.has(name, "slipway", a.derivedOf(i, epoch)) || !a.has(name, "monitor", sealedOf(epoch)) {
			return false
		}
	}
	return true
}

// settled waits until all is as designed, with the passwords of an epoch.
func (a *ark) settled(what string, epoch int) {
	a.t.Helper()
	head := a.git("-C", "site", "rev-parse", "HEAD")
	a.status(what, func(s site.Status) bool { return allInSync(s) && s.Applied.ID == head && a.rotated(epoch) })
}

// loses kills the daemon at a request that sets a password or logs in, or once the rotation is over, destroys all that its host has, and builds another host.
func (a *ark) loses(kill, epoch int) {
	a.t.Helper()
	var requests atomic.Int32
	daemon := a.daemon
	a.fleet.Watch(func(_ int, c lab.Call) {
		sets, logs := c.Write() && strings.Contains(c.Path, "AccountService"), c.Method == "POST" && strings.Contains(c.Path, "Sessions")
		if (sets || logs) && requests.Add(1) == int32(kill) {
			daemon.kill()
		}
	})
	a.eventually(fmt.Sprintf("the daemon is killed at request %d, or all is done", kill), func() bool { return daemon.dead() || a.rotated(epoch) })
	a.fleet.Watch(nil)
	if !daemon.dead() {
		daemon.kill()
	}
	for i, name := range a.names {
		if !a.has(name, "slipway", a.derivedOf(i, epoch-1)) && !a.has(name, "slipway", a.derivedOf(i, epoch)) {
			a.t.Errorf("the BMC of %s has neither password when the host is lost", name)
		}
	}
	a.t.Logf("lost at request %d: %d of %d had their next password", requests.Load(), a.done(epoch), len(a.names))
	a.reads(fmt.Sprintf("host %d: ", epoch-1))
	check(a.t, os.RemoveAll(a.path("state")))
	a.startProgram(program, "GOTRACEBACK=crash")
	a.takesOver()
}

// takesOver has a person say that the host before is gone, once the daemon asks.
func (a *ark) takesOver() {
	a.t.Helper()
	a.status("it asks whether the other daemon is gone", func(s site.Status) bool {
		return slices.ContainsFunc(s.Problems, func(p site.Problem) bool { return strings.Contains(p.What, "slipway take-over") })
	})
	_, err := a.ask.Do(a.t.Context(), "", site.Order{Verb: site.VerbTakeOver, Reason: "the host is lost", By: "e2e"})
	check(a.t, err)
}

// done is how many machines have the password of an epoch.
func (a *ark) done(epoch int) (n int) {
	for i, name := range a.names {
		if a.has(name, "slipway", a.derivedOf(i, epoch)) {
			n++
		}
	}
	return n
}

// reads keeps all that a host has written.
func (a *ark) reads(host string) {
	a.t.Helper()
	files := map[string]string{}
	a.readAll(files, "state")
	for path, text := range files {
		at, err := filepath.Rel(a.dir, path)
		check(a.t, err)
		a.texts[host+at] = text
	}
}

// searched looks for each password in all that was said and written.
func (a *ark) searched() {
	a.t.Helper()
	a.texts["the control socket"], a.texts["/proc"] = a.told(), a.proc()
	a.crash()
	a.reads("the last host: ")
	a.texts["the log with its crash"], a.texts["the objects of the repository"] = a.log(), a.objects("site.git")
	a.texts["the status branch"] = a.git("-C", "site.git", "grep", "-h", "-I", "", statusBranch)
	for where, word := range map[string]string{"the control socket": site.PasswordOf("mon"), "the log with its crash": "level=DEBUG", "/proc": "--credentials",
		"the objects of the repository": "BEGIN AGE ENCRYPTED FILE", "the status branch": "slipway"} {
		if !strings.Contains(a.texts[where], word) {
			a.t.Errorf("%s does not hold %q: there was nothing to search", where, word)
		}
	}
	for where, text := range a.texts {
		a.texts[where] = text + unzipped(text)
	}
	for what, bird := range a.birds {
		for _, f := range formsOf("the password "+what, bird) {
			for where, text := range a.texts {
				if strings.Contains(text, f.text) {
					a.t.Errorf("%s is in %s", f.what, where)
				}
			}
		}
	}
}

// The bootstrap host is the compromised machine, and the site key has no copy: the drill of docs/compromise.md. Another host has another
// key, the login of an administrator that was never on the old one, and the repository. Slipway sends no password of the lost key,
// touches no machine, and gives all of them other passwords.
func TestDrillHostIsCompromisedAndSiteKeyIsLost(t *testing.T) {
	t.Parallel()
	a := newArk(t)
	const accounts = `slipway: {role: "administrator", credential: "bmc-own"}, monitor: {role: "readOnly", credential: "mon"}`
	a.design(1, "bmc", accounts)
	a.start()
	a.settled("taken over", 1)
	a.design(1, "bmc-own", accounts)
	a.settled("its own login", 1)
	a.daemon.kill()
	check(t, os.RemoveAll(a.path("state")))
	check(t, os.RemoveAll(a.path("cred")))
	check(t, os.Remove(a.path("site.key")))
	check(t, os.Remove(a.path("secrets.key")))
	stolen, calls := map[string]bool{}, a.fleet.CallCount()
	for epoch := 1; epoch <= 4; epoch++ {
		for i := range a.names {
			stolen[a.derivedOf(i, epoch)] = true
		}
	}
	stolen[sealedOf(1)] = true

	before := a.key.Public()
	var err error
	a.key, err = sitekey.Create(a.path("site.key"))
	check(t, err)
	id, err := sealed.Create(a.path("secrets.key"), sealed.Classic)
	check(t, err)
	a.to, err = sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
	check(t, err)
	a.rules.cue = strings.Replace(a.rules.cue, before, a.key.Public(), 1)
	a.write("site/secrets/recipients", "# the next host\n"+a.to.Text+"\n")
	a.write("cred/bmc-own", "hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\n")
	a.write("cred/bmc", "hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+password+"\n")
	a.write("cred/os", "hosts: 127.95.2.0/24\nuse: ssh\nports: 1024-65535\nusername: admin\n\n"+a.town.key)
	a.design(2, "bmc-own", accounts) // as if somebody had not thought of the login
	a.start()
	a.status("without the lost key nobody is logged in", func(s site.Status) bool {
		return len(s.Nodes) == len(a.names) && !slices.ContainsFunc(s.Nodes, func(n site.NodeStatus) bool {
			return n.Reason == "" || n.State == site.InSync || n.State == site.Progressing
		})
	})
	for _, c := range a.fleet.Calls()[calls:] {
		if c.Write() || c.Method == "POST" {
			t.Errorf("with another key %s was asked: %s %s", c.Machine, c.Method, c.Path)
		}
	}
	a.design(2, "bmc", accounts)
	a.eventually("all have the passwords of the next key", func() bool {
		r, err := a.ask.Report(t.Context(), "")
		if slices.ContainsFunc(r.Status.Problems, func(p site.Problem) bool { return strings.Contains(p.What, "slipway take-over") }) {
			_, _ = a.ask.Do(t.Context(), "", site.Order{Verb: site.VerbTakeOver, Reason: "the host is compromised", By: "e2e"}) // asked again below
		}
		for _, n := range r.Status.Nodes {
			if n.Approve != "" {
				_, _ = a.ask.Do(t.Context(), "", site.Order{Verb: site.VerbApprove, Node: n.Name, Shown: n.Approval, By: "e2e"}) // it may be over
			}
		}
		return err == nil && allInSync(r.Status) && a.rotated(2)
	})
	a.design(2, "bmc-own", accounts)
	a.settled("its own login again", 2)
	for _, name := range a.names {
		for _, b := range a.fleet.Machine(name).Accounts() {
			if stolen[b.Password] {
				t.Errorf("%s of %s has a password that the lost host had", b.User, name)
			}
		}
	}
	for _, c := range a.fleet.Calls()[calls:] {
		if c.Write() && !strings.Contains(c.Path, "/AccountService/") {
			t.Errorf("%s was asked for another change: %s %s %s", c.Machine, c.Method, c.Path, c.Reset)
		}
	}
	a.stop()
}
