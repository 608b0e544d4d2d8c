package redfish

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// nobook knows of no password.
type nobook struct{ derived secret.Value }

func (b *nobook) Derived(string, string) (secret.Value, error) { return b.derived, nil }

func (*nobook) Known(string, secret.Value) driver.PasswordKnown   { return driver.PasswordKnown{} }
func (*nobook) Logins() (map[string]string, error)                { return nil, nil }
func (*nobook) Changing() []string                                { return nil }
func (*nobook) Begin(context.Context, string, secret.Value) error { return nil }
func (*nobook) Prove(_ context.Context, _ string, _ secret.Value, login func() error) error {
	return login()
}
func (*nobook) Withdraw(context.Context, string) error { return nil }
func (*nobook) Done(context.Context, string) error     { return nil }

// accountBMC is a BMC with a list of accounts, whose design asks for one account.
func accountBMC(t *testing.T, accts string) (*bmc, *machine, *site.Node, context.Context) {
	b := newBMC(t)
	b.answer("GET /redfish/v1/", text(`{"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}},"AccountService":{"@odata.id":"/as"}}`))
	b.answer("GET /as", text(`{"Accounts":{"@odata.id":"/as/a"}}`))
	b.answer("GET /as/a", text(accts))
	m := open(t, b.endpoint())
	m.Credentials(func(name string, _ secret.Use) (secret.Value, error) {
		return secret.New("monitor", "canary-Pass-7"), nil
	})
	n := &site.Node{Identity: site.Identity{UUID: uuid}, BMC: site.BMC{Accounts: map[string]site.BMCAccount{"monitor": {Role: "readOnly", Credential: "monitor"}}},
		Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {Credential: "bmc"}}}
	return b, m, n, driver.WithPasswords(t.Context(), &nobook{})
}

var accountStep = site.Step{Machine: site.Identity{UUID: uuid}, Facet: site.FacetAccounts, Action: site.ActionAccounts, Impact: site.ImpactOnline}

// Accounts that Slipway may not see cost themselves, and not the login.
func TestForbiddenAccounts(t *testing.T) {
	b, m, n, ctx := accountBMC(t, `{}`)
	b.answer("GET /as/a", status(403, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.InsufficientPrivilege"}]}}`))
	seen, err := m.Observe(ctx, n, []site.Facet{site.FacetPower, site.FacetAccounts})
	if err != nil || !strings.Contains(seen.Facets[site.FacetAccounts].Cannot[site.AccountsService], "cannot see all accounts") {
		t.Errorf("observe: %+v, %v", seen.Facets[site.FacetAccounts], err)
	}
	if err = m.Apply(ctx, accountStep, n, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrDenied) {
		t.Errorf("apply: %v", err)
	}

	b, m, n, ctx = accountBMC(t, `{"Members":[{"@odata.id":"/as/a/1"},{"@odata.id":"/as/a/2"}]}`)
	b.answer("GET /as/a/1", text(ownSlot))
	b.answer("GET /as/a/2", text(`{"@odata.id":"/as/a/2","Id":"2","UserName":"monitor","RoleId":"Operator","Enabled":true}`))
	b.answer("PATCH /as/a/2", status(403, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.PasswordChangeRequired"}]}}`))
	if err = m.Apply(ctx, accountStep, n, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrDenied) {
		t.Errorf("apply, the password has to be changed: %v", err)
	}
}

const ownSlot = `{"@odata.id":"/as/a/1","Id":"1","UserName":"admin","RoleId":"Administrator","Enabled":true}`

// Where one account cannot be read, or does not say whose it is, none is made, changed or removed.
func TestAccountsThatCannotBeRead(t *testing.T) {
	for name, second := range map[string]http.HandlerFunc{
		"no name":          text(`{"@odata.id":"/as/a/2","Id":"2","Enabled":false}`),
		"null":             text(`{"@odata.id":"/as/a/2","Id":"2","UserName":null,"Enabled":true,"RoleId":"Administrator"}`),
		"another type":     text(`{"@odata.id":"/as/a/2","Id":"2","UserName":{},"Enabled":false}`),
		"enabled, no name": text(`{"@odata.id":"/as/a/2","Id":"2","UserName":"","Enabled":true,"RoleId":"Administrator"}`),
		"forbidden":        status(403, ""),
		"not found":        status(404, ""),
	} {
		b, m, n, ctx := accountBMC(t, `{"Members":[{"@odata.id":"/as/a/1"},{"@odata.id":"/as/a/2"}]}`)
		b.answer("GET /as/a/1", text(ownSlot))
		b.answer("GET /as/a/2", second)
		wrote := func(w http.ResponseWriter, r *http.Request) {
			t.Errorf("%s: %s %s", name, r.Method, r.URL.Path)
			w.WriteHeader(405)
		}
		b.answer("POST /as/a", wrote)
		b.answer("PATCH /as/a/2", wrote)
		if err := m.Apply(ctx, accountStep, n, drivertest.Permitted); err == nil || driver.WasDenied(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A BMC that says that a slot has changed is not written to.
func TestSlotThatSomebodyTakes(t *testing.T) {
	b, m, n, ctx := accountBMC(t, `{"Members":[{"@odata.id":"/as/a/1"},{"@odata.id":"/as/a/2"}]}`)
	b.answer("GET /as/a/1", text(ownSlot))
	b.answer("GET /as/a/2", text(`{"@odata.id":"/as/a/2","@odata.etag":"W/\"1\"","Id":"2","UserName":"","RoleId":"","Enabled":false}`))
	b.answer("POST /as/a", status(405, ""))
	b.answer("PATCH /as/a/2", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-Match") == "" {
			t.Error("written without If-Match")
		}
		w.WriteHeader(412)
	})
	if err := m.Apply(ctx, accountStep, n, drivertest.Permitted); !errors.Is(err, driver.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
}

// A login that the end of the term holds back was not sent, and counts as no try of the password.
func TestLoginAfterTheEndOfTheTerm(t *testing.T) {
	const login = "POST /redfish/v1/SessionService/Sessions"
	b, m, _, ctx := accountBMC(t, `{}`)
	if _, err := m.client.get(ctx, m.path); err != nil {
		t.Fatal(err)
	}
	b.took()
	over := errors.New("the lease of term 3 could not be renewed in time")
	late := driver.WhileAllowed(ctx, func() error { return over })
	if err := m.client.loginAs(late, secret.New("monitor", "canary-Pass-7")); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, driver.ErrInterrupted) || !errors.Is(err, over) {
		t.Errorf("got %v", err)
	}
	if n := b.count(login); n != 0 {
		t.Errorf("%d logins were sent", n)
	}
	if err := m.client.loginAs(ctx, secret.New("monitor", "canary-Pass-7")); err != nil || b.count(login) != 1 {
		t.Errorf("while the term lasts: %v", err)
	}
}
