package redfish

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A derived password that no rule of the BMC takes is refused with a sentence, before anything is written.
func TestDerivedPasswordThatTheBMCDoesNotTake(t *testing.T) {
	const password = "QPmEM=klY5yQ178kmMFn" // of 20 characters
	for _, c := range []struct {
		min, max int
		want     string
	}{
		{0, 0, ""}, {20, 20, ""},
		{24, 0, "has 20 characters, this BMC asks for 24, and no longer form is made"},
		{0, 16, "has 20 characters, and this BMC takes 16; give its BMCs a credential of their own with form: \"ipmi-1.5\""},
		{0, 12, "this BMC takes 12, and no shorter form is made as it could be guessed"},
	} {
		b, m, n, ctx := accountBMC(t, `{"Members":[{"@odata.id":"/as/a/1"}]}`)
		b.answer("GET /as", text(fmt.Sprintf(`{"Accounts":{"@odata.id":"/as/a"},"MinPasswordLength":%d,"MaxPasswordLength":%d}`, c.min, c.max)))
		b.answer("GET /as/a/1", text(ownSlot))
		n.BMC.Accounts["monitor"] = site.BMCAccount{Role: "readOnly", Credential: "bmc-own"}
		n.References.Derived = map[string]site.Derived{"bmc-own": {Account: "monitor", Epoch: 1}}
		ctx = driver.WithPasswords(ctx, &nobook{derived: secret.New("monitor", password)})
		seen, err := m.Observe(ctx, n, []site.Facet{site.FacetAccounts})
		if err != nil {
			t.Fatal(err)
		}
		var why string
		for _, text := range seen.Facets[site.FacetAccounts].Resolve(n, site.FacetAccounts).Unresolved {
			why = text
		}
		if (c.want == "") != (why == "") || !strings.Contains(why, c.want) || strings.Contains(why, password) {
			t.Errorf("from %d to %d characters: %q", c.min, c.max, why)
		}
	}
}

// An account that is good for nothing before its password is changed does not count as having its derived password:
// Slipway would move to it, and could not look at the machine any more.
func TestDerivedPasswordThatHasToBeChanged(t *testing.T) {
	b, m, n, ctx := accountBMC(t, `{"Members":[{"@odata.id":"/as/a/1"},{"@odata.id":"/as/a/2"}]}`)
	b.answer("GET /as/a/1", text(ownSlot))
	b.answer("GET /as/a/2", text(`{"@odata.id":"/as/a/2","Id":"2","UserName":"monitor","RoleId":"ReadOnly","Enabled":true,"PasswordChangeRequired":true}`))
	n.BMC.Accounts["monitor"] = site.BMCAccount{Role: "readOnly", Credential: "bmc-own"}
	n.References.Derived = map[string]site.Derived{"bmc-own": {Account: "monitor", Epoch: 1}}
	ctx = driver.WithPasswords(ctx, &nobook{derived: secret.New("monitor", "QPmEM=klY5yQ178kmMFn")})
	seen, err := m.Observe(ctx, n, []site.Facet{site.FacetAccounts})
	if err != nil {
		t.Fatal(err)
	}
	why := fmt.Sprint(seen.Facets[site.FacetAccounts].Resolve(n, site.FacetAccounts).Unresolved)
	if !strings.Contains(why, "wants the password of monitor changed before it lets the account do anything else") {
		t.Errorf("it says %s", why)
	}
}
