package redfish_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// book keeps what is known of passwords, as the records of an engine do; a restart of the
// driver does not touch it.
type book struct {
	mu      sync.Mutex
	proven  map[string]secret.Value
	offered map[string]secret.Value
	changes map[string]bool
	tries   map[secret.Value]int
	most    int // tries in a row of one value
	logins  map[string]string
}

func (b *book) Derived(account, credential string) (secret.Value, error) {
	return secret.Value{}, errors.New("nothing is derived here")
}

func (b *book) Logins() (map[string]string, error) { return b.logins, nil }

func newBook() *book {
	return &book{proven: map[string]secret.Value{}, offered: map[string]secret.Value{}, changes: map[string]bool{}, tries: map[secret.Value]int{}}
}

func (b *book) Known(account string, v secret.Value) driver.PasswordKnown {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.proven[account]
	o, offered := b.offered[account]
	return driver.PasswordKnown{Proven: known && p == v && !offered, Other: known && p != v, Offered: offered && o == v}
}

func (b *book) Changing() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.changes))
}

func (b *book) Begin(ctx context.Context, account string, v secret.Value) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	b.changes[account] = true
	if !v.IsZero() {
		b.offered[account] = v
	}
	return nil
}

func (b *book) Prove(ctx context.Context, account string, v secret.Value, login func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.tries[v] >= 2 {
		return driver.Withhold("tried twice")
	}
	b.tries[v]++
	b.most = max(b.most, b.tries[v])
	err := login()
	if ctx.Err() != nil {
		return ctx.Err() // the daemon was killed before it knew
	}
	if err == nil {
		b.proven[account] = v
		delete(b.offered, account)
		b.tries[v] = 0
	}
	return err
}

func (b *book) Withdraw(ctx context.Context, account string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.changes, account)
	delete(b.offered, account)
	return ctx.Err()
}

func (b *book) Done(ctx context.Context, account string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	delete(b.changes, account)
	return nil
}

// values are credentials by name.
type values map[string]secret.Value

func (v values) get(name string, use secret.Use) (secret.Value, error) {
	if value, ok := v[name]; ok && use == secret.Redfish {
		return value, nil
	}
	return secret.Value{}, fmt.Errorf("there is no credential %q for %s", name, use)
}

// keyed opens a machine with credentials for its accounts.
func (m machine) keyed(t *testing.T, v values) driver.Machine {
	t.Helper()
	h := m.open(t)
	k, ok := driver.As[driver.Keyholder](h)
	if !ok {
		t.Fatal("the driver takes no credentials")
	}
	k.Credentials(v.get)
	return h
}

func (m machine) accounts(t *testing.T, ctx context.Context, h driver.Machine) site.FacetState {
	t.Helper()
	seen, err := h.Observe(ctx, m.node, []site.Facet{site.FacetAccounts})
	if err != nil {
		t.Fatal(err)
	}
	st, ok := seen.Facets[site.FacetAccounts]
	if !ok {
		t.Fatal("the accounts were not seen")
	}
	return st
}

// left are the fields that are not as designed, and why some cannot be.
func left(n *site.Node, st site.FacetState) (fields []string) {
	r := st.Resolve(n, site.FacetAccounts)
	for field, want := range r.Want {
		have := st.Have[field]
		if _, of := site.AccountField(field); of == site.AccountState && have == "" {
			have = site.AccountAbsent
		}
		if have != want {
			fields = append(fields, fmt.Sprintf("%s is %q, not %q", field, have, want))
		}
	}
	for field, why := range r.Unresolved {
		fields = append(fields, field+": "+why)
	}
	slices.Sort(fields)
	return fields
}

func (m machine) setAccounts() site.Step {
	s := m.step(site.ActionAccounts)
	s.Facet, s.Impact = site.FacetAccounts, site.ImpactOnline
	return s
}

// monitored is a design with a new account, and the state of the guest's.
func monitored(guest string) site.BMC {
	d := site.BMC{
		Accounts: map[string]site.BMCAccount{
			"admin":   {Role: "administrator", Credential: "bmc"},
			"monitor": {Role: "readOnly", Credential: "monitor"},
		},
	}
	if guest != "" {
		d.Accounts["guest"] = site.BMCAccount{State: guest}
	}
	return d
}

const firstPassword, nextPassword = "Fjord-7-lantern", "Harbour+9-anchor"

func credentials(password string) values {
	return values{"bmc": secret.New("admin", "correct horse"), "monitor": secret.New("monitor", password)}
}

func accountRack(t *testing.T, personality string) machine {
	t.Helper()
	m := newRack(t, 1, func(c *lab.MachineConfig) {
		c.Personality, c.Power, c.Manufacturer, c.Model = personality, "on", "", ""
	}).take()
	e := m.node.Endpoints[site.Manager]
	e.Credential = "bmc"
	m.node.Endpoints[site.Manager] = e
	return m
}

func find(m machine, user string) (lab.BMCAccount, bool) {
	all := m.Accounts()
	i := slices.IndexFunc(all, func(a lab.BMCAccount) bool { return a.User == user })
	if i < 0 {
		return lab.BMCAccount{}, false
	}
	return all[i], true
}

// On every kind of BMC an account is made, its password replaced, its role changed, and what the
// design does not name is disabled and removed; the account of Slipway itself stays as it is.
func TestAccountsOnTheLab(t *testing.T) {
	for _, name := range lab.Personalities {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, b := accountRack(t, name), newBook()
			ctx := driver.WithPasswords(t.Context(), b)
			m.SetAccount("guest", "old guest password 1", "Operator")
			m.OpenSession("guest", "")
			become := func(what string, d site.BMC, v values) {
				t.Helper()
				m.node.BMC = d
				h := m.keyed(t, v)
				before := left(m.node, m.accounts(t, ctx, h))
				if len(before) == 0 {
					t.Fatalf("%s: all is as designed before anything was done", what)
				}
				if err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if after := left(m.node, m.accounts(t, ctx, h)); len(after) > 0 {
					t.Fatalf("%s: %s", what, strings.Join(after, "; "))
				}
				writes := m.Writes()
				if err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted); err != nil || m.Writes() != writes {
					t.Errorf("%s, again: %v, and %d writes", what, err, m.Writes()-writes)
				}
			}
			become("made", monitored(""), credentials(firstPassword))
			a, _ := find(m, "monitor")
			if a.Password != firstPassword || a.Role != "ReadOnly" || !a.Enabled || name == "idrac9" && a.ID == 1 {
				t.Errorf("made: %+v", a)
			}
			m.OpenSession("monitor", "")
			become("replaced", monitored(""), credentials(nextPassword))
			if a, _ := find(m, "monitor"); a.Password != nextPassword || m.SessionsOf("monitor") != 0 {
				t.Errorf("replaced: %+v, and %d sessions of before", a, m.SessionsOf("monitor"))
			}
			promoted := monitored("")
			promoted.Accounts["monitor"] = site.BMCAccount{Role: "operator", Credential: "monitor"}
			become("promoted", promoted, credentials(nextPassword))
			if m.SessionsOf("guest") != 1 {
				t.Errorf("a session of an account that nobody changed was ended")
			}
			become("disabled", monitored(site.AccountDisabled), credentials(nextPassword))
			if a, there := find(m, "guest"); !there || a.Enabled || m.SessionsOf("guest") != 0 {
				t.Errorf("disabled: %+v, %v, %d sessions", a, there, m.SessionsOf("guest"))
			}
			become("removed", monitored(site.AccountAbsent), credentials(nextPassword))
			gone := site.BMC{Accounts: map[string]site.BMCAccount{"monitor": {State: site.AccountAbsent}}}
			become("all removed", gone, credentials(nextPassword))
			if all := m.Accounts(); len(all) != 1 || all[0].User != "admin" || all[0].Password != "correct horse" || all[0].Role != "Administrator" || !all[0].Enabled {
				t.Errorf("at last: %+v", all)
			}
			if c := m.Counts(); c.Denied != 0 || c.Lockouts != 0 {
				t.Errorf("%d logins were denied, with %d locks", c.Denied, c.Lockouts)
			}
		})
	}
}

// The account that Slipway logs in with is never disabled, removed or given another password,
// whatever the design says.
func TestOwnAccountIsKept(t *testing.T) {
	m, b := accountRack(t, "plain"), newBook()
	ctx := driver.WithPasswords(t.Context(), b)
	for name, c := range map[string]struct {
		account site.BMCAccount
		want    string
	}{
		"disabled":         {site.BMCAccount{State: site.AccountDisabled}, "could no longer log in"},
		"absent":           {site.BMCAccount{State: site.AccountAbsent}, "could no longer log in"},
		"a lower role":     {site.BMCAccount{Role: "operator"}, "could no longer manage accounts"},
		"another password": {site.BMCAccount{Role: "administrator", Credential: "other"}, "could no longer log in with another password"},
	} {
		m.node.BMC = site.BMC{Accounts: map[string]site.BMCAccount{"admin": c.account}}
		v := credentials(firstPassword)
		v["other"] = secret.New("admin", nextPassword)
		h := m.keyed(t, v)
		if got := strings.Join(left(m.node, m.accounts(t, ctx, h)), "; "); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q", name, got)
		}
		if err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if m.Writes() != 0 {
		t.Errorf("%d writes", m.Writes())
	}
}

// What cannot be is said in a sentence, and no password is in it.
func TestAccountsThatCannotBe(t *testing.T) {
	long := strings.Repeat("Long-7-", 20)
	for name, c := range map[string]struct {
		personality string
		password    string
		fault       lab.FaultKind
		prepare     func(m machine, v values)
		want        string
	}{
		"too short":       {"xcc", "Short-7", "", nil, "is shorter than the 10 characters that this BMC asks for"},
		"too long":        {"ilo5", long, "", nil, "is longer than the 39 bytes that this BMC takes"},
		"too simple":      {"xcc", "letters-and-nothing", "", nil, "PropertyValueFormatError"},
		"repeated":        {"plain", firstPassword, lab.FaultPasswordEchoed, nil, "PropertyValueFormatError"},
		"a lie":           {"plain", firstPassword, lab.FaultNoEffect, func(m machine, _ values) { m.SetAccount("monitor", "another one", "ReadOnly") }, "denies a login with it"},
		"another account": {"plain", firstPassword, "", func(_ machine, v values) { v["monitor"] = secret.New("root", firstPassword) }, "is for the account root, and not for monitor"},
		"not lent":        {"plain", firstPassword, "", func(_ machine, v values) { delete(v, "monitor") }, "there is no credential"},
		"full": {"xcc", firstPassword, "", func(m machine, _ values) {
			for i := range 11 {
				m.SetAccount(fmt.Sprintf("user%d", i), "Another-7-password", "ReadOnly")
			}
		}, "has 12 slots for accounts, and none is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			m, b, v := accountRack(t, c.personality), newBook(), credentials(c.password)
			if c.prepare != nil {
				c.prepare(m, v)
			}
			ctx := driver.WithPasswords(t.Context(), b)
			m.node.BMC = monitored("")
			h := m.keyed(t, v)
			m.accounts(t, ctx, h)
			m.SetFault(lab.Fault{Kind: c.fault})
			err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted)
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.want) || driver.WasDenied(err) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), c.password) {
				t.Errorf("the password is in %q", err)
			}
			if got := m.Counts().Lockouts; got != 0 || b.most > 2 {
				t.Errorf("%d locks, %d tries in a row", got, b.most)
			}
		})
	}
}

// A daemon that is killed after any request of a change, and started again, brings it to its
// end: the password is the new one, earlier sessions are over, nobody is locked out, and no
// password was sent three times without success.
func TestAccountsAfterAKillAtEveryRequest(t *testing.T) {
	for _, name := range lab.Personalities {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 60
			r := newRack(t, most, func(c *lab.MachineConfig) { c.Personality, c.Power, c.Manufacturer, c.Model = name, "on", "", "" })
			for kill := 1; kill <= most; kill++ {
				if m := r.take(); !killedAt(t, r, m, kill) {
					if kill < 8 {
						t.Errorf("a change takes %d requests", kill)
					}
					return
				}
			}
			t.Errorf("a change takes more than %d requests", most)
		})
	}
}

// killedAt changes accounts with a daemon that is killed at one of its requests to the BMC, and says whether
// there was one.
func killedAt(t *testing.T, r *rack, m machine, kill int) bool {
	t.Helper()
	e := m.node.Endpoints[site.Manager]
	e.Credential = "bmc"
	m.node.Endpoints[site.Manager] = e
	m.SetAccount("monitor", "The-0ld-password", "Operator")
	m.SetAccount("guest", "old guest password 1", "Operator")
	m.OpenSession("guest", "")
	m.OpenSession("monitor", "")
	m.node.BMC = monitored(site.AccountAbsent)
	m.node.BMC.Accounts["new"] = site.BMCAccount{Role: "operator", Credential: "new"}
	b, v := newBook(), credentials(nextPassword)
	v["new"] = secret.New("new", firstPassword)

	ctx, cancel := context.WithCancel(driver.WithPasswords(t.Context(), b))
	defer cancel()
	requests := 0
	r.Watch(func(_ int, c lab.Call) {
		if requests++; requests == kill {
			cancel()
		}
	})
	h := m.keyed(t, v)
	err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted)
	r.Watch(nil)
	if requests < kill && err != nil {
		t.Errorf("killed at request %d of %d: got %v", kill, requests, err)
	}
	ctx = driver.WithPasswords(t.Context(), b)
	h = m.keyed(t, v)
	for range 3 {
		if len(left(m.node, m.accounts(t, ctx, h))) == 0 {
			break
		}
		if err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted); err != nil {
			t.Errorf("killed at request %d, and started again: %v", kill, err)
		}
	}
	if rest := left(m.node, m.accounts(t, ctx, h)); len(rest) > 0 {
		t.Errorf("killed at request %d: %s", kill, strings.Join(rest, "; "))
	}
	monitor, _ := find(m, "monitor")
	fresh, _ := find(m, "new")
	own, _ := find(m, "admin")
	if _, guest := find(m, "guest"); guest || monitor.Password != nextPassword || monitor.Role != "ReadOnly" || fresh.Password != firstPassword || own.Password != "correct horse" || !own.Enabled {
		t.Errorf("killed at request %d: %+v", kill, m.Accounts())
	}
	if m.SessionsOf("monitor")+m.SessionsOf("guest")+m.SessionsOf("new") != 0 {
		t.Errorf("killed at request %d: sessions of before are open", kill)
	}
	if c := m.Counts(); c.Lockouts != 0 || c.Denied > 1 || b.most > 2 {
		t.Errorf("killed at request %d: %d logins denied, %d locks, %d tries in a row", kill, c.Denied, c.Lockouts, b.most)
	}
	return requests >= kill
}

// A BMC that takes no password again which an account has already, and records that were lost:
// one login shows that all is as designed.
func TestAccountsWithRecordsLost(t *testing.T) {
	m := accountRack(t, "xcc")
	m.SetAccount("monitor", firstPassword, "ReadOnly")
	m.node.BMC = monitored("")
	b := newBook()
	ctx, h := driver.WithPasswords(t.Context(), b), m.keyed(t, credentials(firstPassword))
	if rest := left(m.node, m.accounts(t, ctx, h)); len(rest) != 1 || !strings.Contains(rest[0], site.AccountUnproven) {
		t.Errorf("before: %q", rest)
	}
	if err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	if rest := left(m.node, m.accounts(t, ctx, h)); len(rest) > 0 || m.Counts().Denied != 0 {
		t.Errorf("after: %q, %d denied", rest, m.Counts().Denied)
	}
}

// Lists that are late, BMCs without sessions, and a command that keeps nothing.
func TestAccountsOfOthers(t *testing.T) {
	t.Run("late", func(t *testing.T) {
		m, b := accountRack(t, "plain"), newBook()
		m.node.BMC = monitored("")
		ctx, h := driver.WithPasswords(t.Context(), b), m.keyed(t, credentials(firstPassword))
		m.accounts(t, ctx, h)
		m.SetFault(lab.Fault{Kind: lab.FaultAccountsLate, Times: 3})
		err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted)
		for range 3 {
			if errors.Is(err, driver.ErrBusy) { // the engine tries again
				err = h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted)
			}
		}
		if err != nil || len(left(m.node, m.accounts(t, ctx, h))) > 0 || len(m.Accounts()) != 2 {
			t.Errorf("got %v, %+v", err, m.Accounts())
		}
	})
	t.Run("a password beside the role", func(t *testing.T) {
		m, b := accountRack(t, "idrac9"), newBook()
		m.SetAccount("monitor", firstPassword, "Operator")
		b.proven["monitor"] = secret.New("monitor", firstPassword)
		m.node.BMC = monitored("")
		ctx, h := driver.WithPasswords(t.Context(), b), m.keyed(t, credentials(firstPassword))
		m.accounts(t, ctx, h)
		m.SetFault(lab.Fault{Kind: lab.FaultPasswordBeside})
		if err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted); err != nil || len(left(m.node, m.accounts(t, ctx, h))) > 0 {
			t.Errorf("got %v, %+v", err, m.Accounts())
		}
	})
	t.Run("without sessions", func(t *testing.T) {
		m := newRack(t, 1, func(c *lab.MachineConfig) { c.BasicOnly, c.Power = true, "on" }).take()
		b := newBook()
		e := m.node.Endpoints[site.Manager]
		e.Credential = "bmc"
		m.node.Endpoints[site.Manager] = e
		m.node.BMC = monitored("")
		ctx, h := driver.WithPasswords(t.Context(), b), m.keyed(t, credentials(firstPassword))
		m.accounts(t, ctx, h)
		if err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted); err != nil || len(b.proven) != 1 {
			t.Errorf("got %v, and %d proven", err, len(b.proven))
		}
	})
	t.Run("nothing is kept", func(t *testing.T) {
		m := accountRack(t, "plain")
		m.node.BMC = monitored("")
		h := m.keyed(t, credentials(firstPassword))
		if st := m.accounts(t, t.Context(), h); st.Have["admin.password"] != site.PasswordOf("bmc") {
			t.Errorf("the own password: %v", st.Have)
		}
		if err := h.Apply(t.Context(), m.setAccounts(), m.node, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) || m.Writes() != 0 {
			t.Errorf("got %v, %d writes", err, m.Writes())
		}
	})
}

// A login that may not manage accounts costs the accounts alone: it does not count as denied, which
// would keep Slipway from the whole BMC.
func TestLoginThatMayNotManageAccounts(t *testing.T) {
	m, b := accountRack(t, "plain"), newBook()
	m.node.BMC = monitored("")
	ctx, h := driver.WithPasswords(t.Context(), b), m.keyed(t, credentials(firstPassword))
	m.accounts(t, ctx, h)
	m.SetAccount("admin", "correct horse", "Operator")
	if err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted); err == nil || driver.WasDenied(err) {
		t.Errorf("got %v", err)
	}
}

// Another node behind the BMC logs in as an account: that one is kept too.
func TestLoginsOfOthersAreKept(t *testing.T) {
	m, b := accountRack(t, "plain"), newBook()
	m.SetAccount("guest", "old guest password 1", "Operator")
	b.logins = map[string]string{"Guest": "bmc-2"}
	m.node.BMC = monitored(site.AccountAbsent)
	ctx, h := driver.WithPasswords(t.Context(), b), m.keyed(t, credentials(firstPassword))
	m.accounts(t, ctx, h)
	err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted)
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "logs in as guest (by credential bmc-2)") || m.Writes() != 0 {
		t.Errorf("got %v, %d writes", err, m.Writes())
	}
}

// A design that makes the own name in another case is refused before anything is written.
func TestOwnNameInAnotherCase(t *testing.T) {
	m, b := accountRack(t, "plain"), newBook()
	m.SetAccount("boss", "another one", "Administrator")
	m.node.BMC = site.BMC{Accounts: map[string]site.BMCAccount{"Admin": {Role: "readOnly", Credential: "x"}, "boss": {Role: "administrator"}}}
	v := credentials(firstPassword)
	v["x"] = secret.New("Admin", nextPassword)
	ctx, h := driver.WithPasswords(t.Context(), b), m.keyed(t, v)
	m.accounts(t, ctx, h)
	err := h.Apply(ctx, m.setAccounts(), m.node, drivertest.Permitted)
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "in upper and lower case alone") || m.Writes() != 0 {
		t.Errorf("got %v, %d writes", err, m.Writes())
	}
}
