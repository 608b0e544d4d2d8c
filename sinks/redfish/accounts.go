package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// maxAccounts bounds how many accounts of a BMC are looked at: iDRAC has 16 slots.
const maxAccounts = 128

// account is an account of the BMC, or an empty slot for one (DSP0268, ManagerAccount).
type account struct {
	path, id        string
	user            string // empty for an empty slot, and where it cannot be read
	empty           bool   // the BMC says that nobody has this slot
	role            string // in the design's words, or the BMC's own where it has another one
	enabled, locked bool
	mustChange      bool // its password, before it can do anything else
	object          object
}

// accounts are those of the BMC as they were just read.
type accounts struct {
	list string // the path of the collection
	all  []account
	// min and max are the bounds of the length of a password, 0 where the BMC says nothing.
	min, max int
}

// roles are the design's words for the predefined roles (DSP0266, Redfish service privilege
// model).
var roles = map[string]string{"Administrator": "administrator", "Operator": "operator", "ReadOnly": "readOnly"}

// roleID is what Redfish calls a role of the design.
func roleID(role string) string {
	for id, word := range roles {
		if word == role {
			return id
		}
	}
	return role
}

// readAccounts reads the account service and all of its accounts, or fails: one that is left out
// would count as absent. It takes three requests, or one more for each
// account where the BMC cannot expand the list.
func (m *machine) readAccounts(ctx context.Context) (accounts, error) {
	root, err := m.client.get(ctx, schemas.DefaultServiceRoot)
	if err != nil {
		return accounts{}, err
	}
	path := link(root, "AccountService")
	if path == "" {
		return accounts{}, fmt.Errorf("the BMC has no AccountService, so Slipway cannot see its accounts: %w", errors.ErrUnsupported)
	}
	service, err := m.client.get(ctx, path)
	if err != nil {
		return accounts{}, err
	}
	a := accounts{list: link(service, "Accounts"), min: int(number(service, "MinPasswordLength")), max: int(number(service, "MaxPasswordLength"))}
	if a.list == "" {
		return a, fmt.Errorf("the BMC's AccountService lists no accounts: %w", errors.ErrUnsupported)
	}
	err = m.client.everyMember(ctx, a.list, maxAccounts, func(path string, o object) { a.all = append(a.all, accountOf(path, o)) })
	for _, one := range a.all {
		if err == nil && one.user == "" && !one.empty {
			err = refused("the BMC does not say whose account %s is, so Slipway treats none of its accounts as absent or free", printable(one.path))
		}
	}
	return a, err
}

func accountOf(path string, o object) account {
	enabled := at[*bool](o, "Enabled")
	role := at[string](o, "RoleId")
	name := at[*string](o, "UserName")
	user := ""
	if name != nil {
		user = userName(*name)
	}
	return account{
		empty: name != nil && *name == "" && (enabled == nil || !*enabled),
		path:  path, id: at[string](o, "Id"), user: user, role: cmp.Or(roles[role], printable(role)),
		enabled: enabled == nil || *enabled, locked: at[bool](o, "Locked"), mustChange: at[bool](o, "PasswordChangeRequired"), object: o,
	}
}

// userName is a user name as it is shown: of those that no BMC takes, the beginning.
func userName(name string) string { return site.Shorten(printable(name), 64) }

// named are the accounts of a name: more than one on a BMC that lets two have it.
func (a accounts) named(user string) (all []account) {
	for _, one := range a.all {
		if one.user == user {
			all = append(all, one)
		}
	}
	return all
}

// state is what the engine is told of the accounts.
func (m *machine) accountState(ctx context.Context, n *site.Node, a accounts) site.FacetState {
	s := site.FacetState{Have: site.Values{}, Cannot: site.Values{}}
	for _, one := range a.all {
		if one.user == "" {
			continue
		}
		name := one.user + "."
		s.Have[name+site.AccountState] = map[bool]string{true: site.AccountEnabled, false: site.AccountDisabled}[one.enabled]
		s.Have[name+site.AccountRole] = one.role
		if one.locked {
			s.Have[name+site.AccountLocked] = "true"
		}
		if one.mustChange {
			s.Have[name+site.AccountChange] = "true"
		}
		if strings.EqualFold(one.user, m.client.value.Username()) { // some do not tell upper from lower case
			s.Have[name+site.AccountLogin] = site.AccountOwn
		}
		if len(a.named(one.user)) > 1 {
			s.Cannot[name+site.AccountAny] = fmt.Sprintf("the BMC has more than one account %s; remove all but one by hand", one.user)
		}
	}
	m.loginState(ctx, s)
	for name := range n.BMC.Accounts {
		m.passwordState(ctx, s, a, n, name)
	}
	m.changingState(ctx, s, n)
	return s
}

// loginState marks the accounts with which other logins of the site go to this BMC.
func (m *machine) loginState(ctx context.Context, s site.FacetState) {
	keeper := driver.PasswordsOf(ctx)
	if keeper == nil {
		return
	}
	logins, err := keeper.Logins()
	if err != nil {
		s.Cannot[site.AccountsService] = "it is not known who else logs in to this BMC: " + err.Error()
	}
	for _, there := range s.AccountNames() {
		for user, credential := range logins {
			if field := there + "." + site.AccountLogin; strings.EqualFold(user, there) && s.Have[field] == "" {
				s.Have[field] = site.LoginBy(credential)
			}
		}
	}
}

// passwordState says of an account that the design names what is known of its password, and why
// it cannot be as designed.
func (m *machine) passwordState(ctx context.Context, s site.FacetState, a accounts, n *site.Node, name string) {
	asked := n.BMC.Accounts[name]
	there, field := len(a.named(name)) > 0, name+"."+site.AccountPassword
	if asked.Credential == "" {
		if !there && asked.IsEnabled() {
			s.Cannot[name+"."+site.AccountAny] = "the BMC has no account " + name + ", and Slipway cannot make one without a password; name a credential, or make it by hand"
		}
		return
	}
	want := n.PasswordOf(asked.Credential)
	_, derived := n.References.Derived[asked.Credential]
	v, err := m.passwordFor(ctx, n, name, asked.Credential)
	if err == nil {
		err = a.fits(asked.Credential, v, derived)
	}
	if err == nil && derived && s.Have[name+"."+site.AccountLogin] != site.AccountOwn && slices.ContainsFunc(a.named(name), func(one account) bool { return one.mustChange }) {
		err = fmt.Errorf("the BMC wants the password of %s changed before it lets the account do anything else, and a login with the derived one would be good for nothing: switch off the rule of the BMC that asks for it, and for passwords that end, then remove the account", name)
	}
	if err != nil {
		s.Cannot[site.Valued(field, want)] = err.Error()
	}
	keeper := driver.PasswordsOf(ctx)
	if there && err != nil && derived && keeper != nil {
		if known := keeper.Known(name, v); known.As.Epoch > 0 { // so that a lowered epoch shows as one
			s.Have[field] = site.DerivedPassword(asked.Credential, known.As)
		}
	}
	if !there || err != nil && v.IsZero() {
		return
	}
	if s.Have[name+"."+site.AccountLogin] == site.AccountOwn && !derived {
		s.Have[field] = want // Slipway is logged in with it; of another credential see FacetState.Resolve
		return
	}
	if keeper == nil {
		return
	}
	switch known := keeper.Known(name, v); {
	case known.Proven:
		s.Have[field] = want
	case known.Other && known.As.Epoch > 0 && known.As.Epoch == n.References.Derived[asked.Credential].Epoch && !known.Offered:
		// The form is another one, or the site key: neither replaces a password by itself.
		s.Have[field] = site.OtherPassword
		s.Cannot[site.Valued(field, want)] = fmt.Sprintf("the account has another password of epoch %d than the one that credential %q derives now: the form was changed, or the site key is another one; put that back, or raise the epoch to %d to have the password replaced",
			known.As.Epoch, asked.Credential, known.As.Epoch+1)
	case known.Other && known.As.Epoch > 0 && derived:
		s.Have[field] = site.DerivedPassword(asked.Credential, known.As)
	case known.Other:
		s.Have[field] = site.OtherPassword
	default:
		s.Have[field] = site.AccountUnproven
	}
}

// changingState marks the accounts of which a change was begun and has not come to its end.
func (m *machine) changingState(ctx context.Context, s site.FacetState, n *site.Node) {
	keeper := driver.PasswordsOf(ctx)
	if keeper == nil {
		return
	}
	for _, name := range keeper.Changing() {
		field := name + "." + site.AccountState
		s.Have[field] = cmp.Or(s.Have[field], site.AccountAbsent) + site.AccountChanging
	}
}

// passwordFor is the value that an account is to have as its password.
func (m *machine) passwordFor(ctx context.Context, n *site.Node, name, credential string) (secret.Value, error) {
	if _, derived := n.References.Derived[credential]; !derived {
		return m.passwordOf(name, credential)
	}
	keeper := driver.PasswordsOf(ctx)
	if keeper == nil {
		return secret.Value{}, fmt.Errorf("its password is derived, and this command has no records, so it does not know which one the account has")
	}
	v, err := keeper.Derived(name, credential)
	if err != nil {
		return secret.Value{}, fmt.Errorf("its password cannot be set: %w", err)
	}
	return v, nil
}

// passwordOf is the value of a credential for an account. It has to be for this BMC.
func (m *machine) passwordOf(name, credential string) (secret.Value, error) {
	if m.lent == nil {
		return secret.Value{}, fmt.Errorf("its password is the credential %q, and there are no credentials here", credential)
	}
	v, err := m.lent(credential, secret.Redfish)
	if err != nil {
		return secret.Value{}, fmt.Errorf("its password cannot be set: %w", err)
	}
	if user := v.Username(); user != "" && user != name {
		return secret.Value{}, fmt.Errorf("its password cannot be set: the credential %q is for the account %s, and not for %s", credential, printable(user), name)
	}
	password, err := v.Password()
	if err != nil {
		return secret.Value{}, fmt.Errorf("its password cannot be set: the credential %q: %w", credential, err)
	}
	return secret.New(name, password), nil
}

// derivedShortest is how many characters the shortest form of derived passwords has: that of "ipmi-1.5".
const derivedShortest = 16

// fits says why a password is not one that the BMC takes, as far as it says.
func (a accounts) fits(credential string, v secret.Value, derived bool) error {
	length := len(passwordIn(v)) // in bytes, as IPMI counts
	switch {
	case derived && length < a.min:
		return fmt.Errorf("the derived password of credential %q has %d characters, this BMC asks for %d, and no longer form is made; give the account a credential with another source", credential, length, a.min)
	case derived && a.max > 0 && length > a.max && a.max >= derivedShortest:
		return fmt.Errorf("the derived password of credential %q has %d characters, and this BMC takes %d; give its BMCs a credential of their own with form: \"ipmi-1.5\", which has %d", credential, length, a.max, derivedShortest)
	case derived && a.max > 0 && length > a.max:
		return fmt.Errorf("the derived password of credential %q has %d characters, this BMC takes %d, and no shorter form is made as it could be guessed; give the account a credential with another source", credential, length, a.max)
	case length < a.min:
		return fmt.Errorf("the password in credential %q is shorter than the %d characters that this BMC asks for; give it a longer one", credential, a.min)
	case a.max > 0 && length > a.max:
		return fmt.Errorf("the password in credential %q is longer than the %d bytes that this BMC takes; give it a shorter one", credential, a.max)
	}
	return nil
}

// accountsFacet shows the accounts of the BMC.
func (m *machine) accountsFacet(ctx context.Context, n *site.Node) (site.FacetState, bool, error) {
	a, err := m.readAccounts(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return site.FacetState{Cannot: site.Values{site.AccountsService: lack(err)}}, true, nil
	}
	if lasting(err) {
		return site.FacetState{Cannot: site.Values{site.AccountsService: "Slipway cannot see all accounts of the BMC: " + strings.TrimPrefix(printable(err.Error()), driver.ErrDenied.Error()+": ")}}, true, nil
	}
	if err != nil {
		return site.FacetState{}, false, err
	}
	return m.accountState(ctx, n, a), true, nil
}

// Credentials implements driver.Keyholder: those of accounts of the BMC.
func (m *machine) Credentials(get func(name string, use secret.Use) (secret.Value, error)) {
	m.lent = get
}

// emptySlot is the first slot that an account can be put into. The first slot of an iDRAC is
// IPMI's anonymous user, which it lets nobody change.
func (m *machine) emptySlot(a accounts) (account, bool) {
	i := slices.IndexFunc(a.all, func(one account) bool {
		return one.empty && !(one.id == "1" && m.has(firstAccountFixed))
	})
	if i < 0 {
		return account{}, false
	}
	return a.all[i], true
}

// slots is how many accounts the BMC has room for, in words.
func (a accounts) slots() string { return strconv.Itoa(len(a.all)) + " slots" }
