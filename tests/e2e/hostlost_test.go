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
		kill, epoch := 1+dice.IntN(8*len(a.names)), i+2
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
	file, err := sealed.Seal(sealed.Header{Site: "town", Name: "mon", Set: time.Now(), Changed: time.Now()},
		[]byte("hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\nusername: monitor\n\n"+sealedOf(epoch)), []sealed.Recipient{a.to})
	check(a.t, err)
	a.write("site/secrets/mon.age", string(file))
	a.write("site/site.cue", text)
	a.git("-C", "site", "add", "-A")
	a.git("-C", "site", "commit", "-q", "-m", fmt.Sprintf("epoch %d, by %s", epoch, login))
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

// loses kills the daemon at a request about passwords, or once the rotation is over, destroys all that its host has, and builds another host.
func (a *ark) loses(kill, epoch int) {
	a.t.Helper()
	var requests atomic.Int32
	daemon := a.daemon
	a.fleet.Watch(func(_ int, c lab.Call) {
		if (strings.Contains(c.Path, "AccountService") || strings.Contains(c.Path, "Sessions")) && requests.Add(1) == int32(kill) {
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
	for where, word := range map[string]string{"the control socket": site.PasswordOf("slipway"), "the log with its crash": "level=DEBUG", "/proc": "--credentials",
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
