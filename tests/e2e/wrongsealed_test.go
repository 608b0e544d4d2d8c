package e2e

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A sealed password of BMCs that is merged cut off, swapped for another secret, of another site or for other recipients
// sets nothing anywhere: people are told, each machine keeps what it has, and the next good file is set.
func TestWrongSealedPasswordIsSetNowhere(t *testing.T) {
	t.Parallel()
	a := newArk(t)
	a.design(1, "bmc", `monitor: {role: "readOnly", credential: "mon"}`)
	a.start()
	a.eventually("the accounts are made", func() bool {
		r, err := a.ask.Report(t.Context(), "")
		return err == nil && allInSync(r.Status) && a.monitored(1)
	})
	other, err := sealed.Create(a.path("other.key"), sealed.Classic)
	check(t, err)
	stranger, err := sealed.ParseRecipient(other.Recipients()[0], sealed.Means{})
	check(t, err)
	good := a.sealed("town", "mon", 2, a.to)
	calls := a.fleet.CallCount()
	for _, c := range []struct{ name, file, says string }{
		{"cut off", good[:len(good)/2], "it is cut off or was changed"},
		{"another secret", a.sealed("town", "os", 2, a.to), `it holds the secret "os" of the site "town"`},
		{"another site", a.sealed("city", "mon", 2, a.to), `it holds the secret "mon" of the site "city"`},
		{"other recipients", a.sealed("town", "mon", 2, stranger), `credential "mon" cannot be used: secrets/mon.age`},
	} {
		a.write("site/secrets/mon.age", c.file)
		a.pushes(c.name)
		told := ""
		a.eventually("people read "+c.says, func() bool { told = a.told(); return strings.Contains(told, c.says) })
		if strings.Contains(told, sealedOf(2)) {
			t.Errorf("%s: the password is in what people read", c.name)
		}
		if !a.monitored(1) {
			t.Errorf("%s: a machine has another password", c.name)
		}
	}
	for _, c := range a.fleet.Calls()[calls:] {
		if c.Write() {
			t.Errorf("a wrong file changed %s: %s %s", c.Machine, c.Method, c.Path)
		}
	}
	a.write("site/secrets/mon.age", good)
	a.pushes("the good file")
	a.status("the good file is set", func(s site.Status) bool {
		return allInSync(s) && a.monitored(2) && !strings.Contains(a.told(), "cannot be used")
	})
	a.stop()
}

// monitored says whether each BMC has the sealed password of an epoch.
func (a *ark) monitored(epoch int) bool {
	for _, name := range a.names {
		if !a.has(name, "monitor", sealedOf(epoch)) {
			return false
		}
	}
	return true
}
