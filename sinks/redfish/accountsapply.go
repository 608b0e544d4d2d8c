package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// setAccounts makes the accounts of the BMC as designed: first those that let somebody in, then
// those that no longer do. Of each account it does so in this order, of which every request
// may be the last:
//
//	| what was done                    | what is found after a restart                         |
//	|----------------------------------|-------------------------------------------------------|
//	| the change is recorded           | the account is being changed; its password is offered |
//	| the account was made, or changed | the same: a login with the offered password tells     |
//	| a fresh login was accepted       | the same                                              |
//	| its other sessions were ended    | the same: they are ended once more                    |
//	| the password is recorded         | the account is as designed                            |
//
// Nothing of it touches the account that Slipway logs in with, see FacetState.Resolve, and none of
// its errors says that this account was denied: what may be denied is a right, or another login.
func (m *machine) setAccounts(ctx context.Context, n *site.Node) error {
	err := m.trySetAccounts(ctx, n)
	if driver.WasDenied(err) {
		return refused("%s", strings.ReplaceAll(printable(err.Error()), driver.ErrDenied.Error()+": ", ""))
	}
	return err
}

func (m *machine) trySetAccounts(ctx context.Context, n *site.Node) error {
	keeper := driver.PasswordsOf(ctx)
	if keeper == nil {
		return refused("this command has no records, so it sets no passwords; nothing was written")
	}
	a, err := m.readAccounts(ctx)
	if err != nil {
		return err
	}
	// The keeper says to which certificate passwords may go: what answers later has to show the same one.
	defer m.client.shown.hold()()
	m.client.http.CloseIdleConnections()
	want, err := m.wantAccounts(ctx, n, a)
	if err != nil {
		return err
	}
	for _, w := range want {
		if w.ownPassword() {
			if err := m.setOwn(ctx, keeper, a, w); err != nil {
				return fmt.Errorf("the account %s: %w", w.name, err)
			}
			return nil
		}
		if err := m.setAccount(ctx, keeper, a, w); err != nil {
			return fmt.Errorf("the account %s: %w", w.name, err)
		}
		if a, err = m.readAccounts(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wantAccount is what one account is to become.
type wantAccount struct {
	name, state, role string
	// value is the password to set, zero where it stays as it is; designed is the one that is
	// designed, also then.
	value, designed secret.Value
	credential      string
	// own says that Slipway is logged in with the account.
	own bool
}

// wantAccounts are the accounts that are not as designed.
func (m *machine) wantAccounts(ctx context.Context, n *site.Node, a accounts) ([]wantAccount, error) {
	s := m.accountState(ctx, n, a)
	s.Seen = time.Now()
	r := s.Resolve(n, site.FacetAccounts)
	for _, field := range slices.Sorted(maps.Keys(r.Unresolved)) {
		return nil, refused("accounts.%s: %s; nothing was written", field, printable(r.Unresolved[field]))
	}
	of := map[string]*wantAccount{}
	for field, v := range r.Want {
		have := s.Have[field]
		name, part := site.AccountField(field)
		if part == site.AccountState && have == "" {
			have = site.AccountAbsent
		}
		if have == v {
			continue
		}
		if of[name] == nil {
			w, err := m.wantAccount(ctx, n, s, r, name)
			if err != nil {
				return nil, err
			}
			of[name] = w
		}
		if part == site.AccountPassword {
			of[name].value = of[name].designed
		}
	}
	rotates := slices.ContainsFunc(slices.Collect(maps.Values(of)), func(w *wantAccount) bool { return w.ownPassword() })
	var all []wantAccount
	for _, letsIn := range []bool{true, false} {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			w := of[name]
			if (w.state == site.AccountEnabled) != letsIn || w.ownPassword() || rotates && w.lessens(s) {
				continue // what lessens an account waits until Slipway has logged in with its new password
			}
			all = append(all, *w)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name].ownPassword() {
			all = append(all, *of[name]) // at last: nothing is sent with the present login any more then
		}
	}
	return all, nil
}

// ownPassword says whether the password is to be replaced with which Slipway is logged in.
func (w wantAccount) ownPassword() bool { return w.own && !w.value.IsZero() }

// lessens says whether an account could do less after the change: others may be the only way in that is left.
func (w wantAccount) lessens(s site.FacetState) bool {
	return w.state != site.AccountEnabled || w.role != "" && w.role != "administrator" && s.Have[w.name+"."+site.AccountRole] == "administrator"
}

func (m *machine) wantAccount(ctx context.Context, n *site.Node, s site.FacetState, r site.Resolved, name string) (*wantAccount, error) {
	w := &wantAccount{
		name: name, state: r.Want[name+"."+site.AccountState], role: r.Want[name+"."+site.AccountRole],
		credential: n.BMC.Accounts[name].Credential,
	}
	_, derived := n.References.Derived[w.credential]
	w.own = s.Have[name+"."+site.AccountLogin] == site.AccountOwn
	if w.credential == "" || w.own && !derived {
		return w, nil // the password that Slipway logs in with is set only where it is derived
	}
	value, err := m.passwordFor(ctx, n, name, w.credential)
	if err != nil {
		return nil, refused("the account %s: %w; nothing was written", name, err)
	}
	w.designed = value
	return w, nil
}

func (m *machine) setAccount(ctx context.Context, k driver.Passwords, a accounts, w wantAccount) error {
	present := a.named(w.name)
	switch {
	case strings.EqualFold(w.name, m.client.value.Username()) && (w.state != site.AccountEnabled || !w.value.IsZero()):
		return refused("Slipway logs in with it; nothing was written")
	case w.state == site.AccountAbsent:
		return m.removeAccount(ctx, k, w, present)
	case len(present) == 0 && w.value.IsZero():
		return refused("the BMC has no account %s, and Slipway cannot make one without a password; nothing was written", w.name)
	}
	if len(present) > 0 && !w.value.IsZero() && k.Known(w.name, w.value).Offered {
		if present[0].locked {
			return errLocked
		}
		// A step that was broken off may have set it. One login tells.
		switch err := m.prove(ctx, k, w); {
		case err == nil:
			w.value = secret.Value{}
		case !driver.WasDenied(err):
			return err
		}
	}
	if err := k.Begin(ctx, w.name, w.value); err != nil {
		return err
	}
	err := m.writeAccount(ctx, a, w, present)
	if hasStatus(err, http.StatusBadRequest) && w.value.IsZero() && !w.designed.IsZero() && len(present) > 0 {
		// Some want the password beside whatever else is changed.
		w.value = w.designed
		if err = k.Begin(ctx, w.name, w.value); err == nil {
			err = m.writeAccount(ctx, a, w, present)
		}
	}
	if err != nil {
		return m.refusedAccount(ctx, k, w, err)
	}
	shown, err := m.showsAccount(ctx, w)
	switch {
	case err != nil:
		return err
	case w.value.IsZero():
		return m.settleAccount(ctx, k, w.name)
	case shown.locked:
		return errLocked
	}
	return m.proven(ctx, k, w)
}

// errLocked is why the password of an account is not tried now.
var errLocked = fmt.Errorf("%w: it is locked after wrong passwords that somebody sent, so its password cannot be proven now", driver.ErrBusy)

// proven has a fresh login prove the password that was just set, and ends what was opened with
// the one before.
func (m *machine) proven(ctx context.Context, k driver.Passwords, w wantAccount) error {
	err := m.prove(ctx, k, w)
	if driver.WasDenied(err) {
		return refused("the BMC accepted the password in credential %q, and denies a login with it: %s; check the account on the BMC, and its rules for passwords",
			w.credential, strings.TrimPrefix(printable(err.Error()), driver.ErrDenied.Error()+": "))
	}
	if err != nil {
		return err
	}
	return m.settleAccount(ctx, k, w.name)
}

// refusedAccount is why an account was not written, unless it is as it is to be all the same: some
// warn beside a success, and one that keeps passwords from being used again refuses the one that
// is set already. A login tells.
func (m *machine) refusedAccount(ctx context.Context, k driver.Passwords, w wantAccount, why error) error {
	why = hidden(why, w.value)
	if !errors.Is(why, driver.ErrRefused) && !errors.Is(why, errors.ErrUnsupported) {
		return why
	}
	refused := func() error { return cmp.Or(m.withdrawAccount(ctx, k, w.name, why), why) }
	a, err := m.readAccounts(ctx)
	if err != nil {
		return err
	}
	present := a.named(w.name)
	if len(present) == 0 {
		return refused()
	}
	if !w.value.IsZero() && present[0].locked {
		return errLocked
	}
	if !w.value.IsZero() {
		if err := m.prove(ctx, k, w); errors.Is(err, driver.ErrDenied) {
			return refused()
		} else if err != nil {
			return err
		}
		w.value = secret.Value{}
		if err := m.writeAccount(ctx, a, w, present); err != nil {
			why = err
			return refused()
		}
		if present[0], err = m.showsAccount(ctx, w); err != nil {
			return err
		}
	}
	if !w.is(present[0]) {
		return refused()
	}
	return m.settleAccount(ctx, k, w.name)
}

// is says whether an account is as it is to be, as far as that shows.
func (w wantAccount) is(one account) bool {
	return one.enabled == (w.state == site.AccountEnabled) && (w.role == "" || w.role == one.role)
}

// withdrawAccount records that a change was refused, unless a part of it was done.
func (m *machine) withdrawAccount(ctx context.Context, k driver.Passwords, name string, why error) error {
	var e *answerError
	if errors.As(why, &e) && e.status < http.StatusMultipleChoices {
		return nil
	}
	return k.Withdraw(ctx, name)
}

// writeAccount makes an account, or changes what of it is not as it is to be.
func (m *machine) writeAccount(ctx context.Context, a accounts, w wantAccount, present []account) error {
	if len(present) == 0 {
		return m.makeAccount(ctx, a, w)
	}
	one, body := present[0], map[string]any{}
	if w.role != "" && w.role != one.role {
		body["RoleId"] = roleID(w.role)
	}
	if enabled := w.state == site.AccountEnabled; enabled != one.enabled {
		body["Enabled"] = enabled
	}
	if !w.value.IsZero() {
		body["Password"] = passwordIn(w.value)
	}
	if len(body) == 0 {
		return nil
	}
	return m.patchAccount(ctx, one, body)
}

// patchAccount changes an account. What a BMC does not change while it changes the rest, it may say
// beside an answer that is a success (DSP0266 section 7.4.2).
func (m *machine) patchAccount(ctx context.Context, one account, body map[string]any) error {
	one, err := m.again(ctx, one)
	if err != nil {
		return err
	}
	resp, err := m.client.changeExactly(ctx, one.path, one.object, body)
	if err != nil {
		return err
	}
	var o object
	if json.NewDecoder(resp.Body).Decode(&o) != nil {
		return nil // with 204 there is nothing
	}
	infos := at[[]object](o, "@Message.ExtendedInfo")
	for property := range body {
		infos = append(infos, at[[]object](o, property+"@Message.ExtendedInfo")...)
	}
	infos = slices.DeleteFunc(infos, func(info object) bool {
		severity := cmp.Or(at[string](info, "MessageSeverity"), at[string](info, "Severity"))
		return severity != "Warning" && severity != "Critical"
	})
	if len(infos) == 0 {
		return nil
	}
	e := &answerError{method: http.MethodPatch, path: printable(one.path), status: resp.StatusCode, said: said(infos), class: driver.ErrRefused}
	for _, info := range infos {
		e.ids = append(e.ids, printable(messageKey(at[string](info, "MessageId"))))
	}
	return e
}

// again reads an account just before it is written: ids are used again, and somebody may have
// taken an empty slot.
func (m *machine) again(ctx context.Context, was account) (account, error) {
	o, err := m.client.get(ctx, was.path)
	if err != nil {
		return was, err
	}
	is := accountOf(was.path, o)
	if is.user != was.user || is.empty != was.empty || is.role != was.role || is.enabled != was.enabled {
		return was, fmt.Errorf("%w: the account at %s is not as it was read: somebody else changes accounts of the BMC", driver.ErrInterrupted, printable(was.path))
	}
	return is, nil
}

// makeAccount makes an account by POST, or where the BMC has a fixed number of slots, in an
// empty one of them. An iDRAC wants all of it in one request.
func (m *machine) makeAccount(ctx context.Context, a accounts, w wantAccount) error {
	body := map[string]any{"UserName": w.name, "Password": passwordIn(w.value), "RoleId": roleID(w.role), "Enabled": true}
	err := m.client.post(ctx, a.list, body)
	switch {
	case hasMessage(err, "ResourceAlreadyExists"):
		return fmt.Errorf("%w: the BMC says that it has the account, and does not list it, perhaps as its name is in another case; write it as the BMC does", driver.ErrInterrupted)
	case !hasStatus(err, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusNotFound) && !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	slot, free := m.emptySlot(a)
	if !free {
		return refused("the BMC has %s for accounts, and none is empty; remove an account, by `bmc.accounts` with the state \"absent\" or by hand", a.slots())
	}
	return m.patchAccount(ctx, slot, body)
}

// showsAccount waits until the BMC shows an account as it is to be.
func (m *machine) showsAccount(ctx context.Context, w wantAccount) (one account, err error) {
	err = m.wait(ctx, m.opts.Settle, "the account "+w.name+" to be as designed", func() (bool, error) {
		a, err := m.readAccounts(ctx)
		if notYet(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		present := a.named(w.name)
		if w.state == site.AccountAbsent || len(present) == 0 {
			return w.state == site.AccountAbsent && len(present) == 0, nil
		}
		one = present[0]
		return w.is(one), nil
	})
	return one, err
}

// removeAccount removes an account, or empties its slot: some want it to be disabled first, and
// some refuse a password beside an empty name.
func (m *machine) removeAccount(ctx context.Context, k driver.Passwords, w wantAccount, present []account) error {
	if err := k.Begin(ctx, w.name, secret.Value{}); err != nil {
		return err
	}
	for _, one := range present {
		if err := m.dropAccount(ctx, one); err != nil {
			return err
		}
	}
	if _, err := m.showsAccount(ctx, w); err != nil {
		return err
	}
	return m.settleAccount(ctx, k, w.name)
}

func (m *machine) dropAccount(ctx context.Context, one account) error {
	one, err := m.again(ctx, one)
	if err == nil {
		err = m.client.delete(ctx, one.path)
	}
	switch {
	case err == nil || hasStatus(err, http.StatusNotFound):
		return nil
	case !hasStatus(err, http.StatusMethodNotAllowed, http.StatusNotImplemented) && !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	if one.enabled {
		if err := m.patchAccount(ctx, one, map[string]any{"Enabled": false}); err != nil {
			return err
		}
		one.enabled = false
	}
	return m.patchAccount(ctx, one, map[string]any{"UserName": ""})
}

// settleAccount ends the sessions of an account that was changed, which outlive the change on
// most BMCs, and records that the change has come to its end.
func (m *machine) settleAccount(ctx context.Context, k driver.Passwords, name string) error {
	if err := m.endSessions(ctx, name); err != nil {
		return err
	}
	return k.Done(ctx, name)
}

// endSessions ends all sessions of an account but our own.
func (m *machine) endSessions(ctx context.Context, name string) error {
	sessions, err := m.client.sessionsPath(ctx)
	if err != nil || sessions == "" { // the BMC has none
		return err
	}
	var open []string
	err = m.client.members(ctx, sessions, mostSessions, func(path string, o object) {
		if strings.EqualFold(at[string](o, "UserName"), name) && key(path) != key(m.client.session()) {
			open = append(open, path)
		}
	})
	if err != nil {
		return err
	}
	for _, path := range open {
		if err := m.client.delete(ctx, path); err != nil && !hasStatus(err, http.StatusNotFound) {
			return err
		}
	}
	return nil
}
