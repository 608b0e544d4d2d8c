package site

import (
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// BMC is what a design asks of the management controller of a node's machine itself.
type BMC struct {
	// Accounts are by user name.
	Accounts map[string]BMCAccount `json:"accounts,omitempty"`
	Unlisted BMCUnlisted           `json:"unlisted,omitzero"`
}

// BMCAccount is somebody whom a management controller lets in.
type BMCAccount struct {
	// Role is "administrator", "operator" or "readOnly"; empty leaves it as it is.
	Role string `json:"role,omitempty"`
	// Credential names the one whose value is the password; without it the password stays
	// as it is.
	Credential string `json:"credential,omitempty"`
	// State is AccountEnabled, also when empty, AccountDisabled or AccountAbsent.
	State string `json:"state,omitempty"`
}

// BMCUnlisted is what becomes of what the controller has and the design does not name.
type BMCUnlisted struct {
	// Accounts is UnlistedReport, also when empty, UnlistedDisable or UnlistedRemove.
	Accounts string `json:"accounts,omitempty"`
}

// UnlistedRemove removes the accounts of a management controller that the design does not name.
const UnlistedRemove = "remove"

// The states of an account of a management controller.
const (
	AccountEnabled  = "enabled"
	AccountDisabled = "disabled"
	AccountAbsent   = "absent"
	// AccountChanging is behind the state of one that a step of ours was changing: its
	// sessions may live on, and its password may be one of two.
	AccountChanging = ", being changed"
)

// The fields of an account in the Values of FacetAccounts, each behind the account's name:
// "root.state". Of each account that there is, the state is told.
const (
	AccountState    = "state"
	AccountRole     = "role"
	AccountPassword = "password"
	// AccountLogin is AccountOwn for the account that Slipway logs in with.
	AccountLogin = "login"
	AccountOwn   = "Slipway's"
	// AccountLocked is "true" for one that is locked after wrong passwords, AccountChange for
	// one that can do nothing before it has changed its password.
	AccountLocked = "locked"
	AccountChange = "mustChange"

	// accountsUnlisted is what Want has for accounts that are not named.
	accountsUnlisted = "unlisted"
	// AccountsService says in FacetState.Cannot why the controller's accounts cannot be seen.
	AccountsService = "service"
	// AccountAny says in FacetState.Cannot, behind a name, why that account cannot be changed
	// at all: "admin.*".
	AccountAny = "*"
)

// AccountUnproven is the password of an account of which no login has shown yet what it is.
const AccountUnproven = "not proven"

// OtherPassword is the password of an account that is not the designed one.
const OtherPassword = item.OtherValue

// PasswordOf is the password of an account that is designed to be the value of a credential.
func PasswordOf(credential string) string { return item.ValueOf(credential) }

// Valued names one value of a field, for FacetState.Cannot.
func Valued(field, value string) string { return item.Valued(field, value) }

// IsEnabled says whether the account is to let somebody in.
func (a BMCAccount) IsEnabled() bool { return a.State == "" || a.State == AccountEnabled }

// values are what the design asks of the accounts.
func (b BMC) values() Values {
	want := Values{}
	for name, a := range b.Accounts {
		want[name+"."+AccountState] = or(a.State, AccountEnabled)
		if a.Role != "" && a.State != AccountAbsent {
			want[name+"."+AccountRole] = a.Role
		}
		if a.Credential != "" && a.IsEnabled() {
			want[name+"."+AccountPassword] = PasswordOf(a.Credential)
		}
	}
	if b.Unlisted.Accounts != "" {
		want[accountsUnlisted] = b.Unlisted.Accounts
	}
	return orNil(want)
}

// AccountField parts a field of FacetAccounts in the account's name and the field itself.
func AccountField(name string) (account, field string) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name
	}
	return name[:i], name[i+1:]
}

// AccountNames are the accounts that a controller was seen to have, in order.
func (s FacetState) AccountNames() []string {
	var names []string
	for field, state := range s.Have {
		if name, of := AccountField(field); of == AccountState && !strings.HasPrefix(state, AccountAbsent) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// OwnAccounts are those of them that Slipway may log in with, in order: more than one where names
// differ in upper and lower case alone, since some controllers do not tell these apart.
func (s FacetState) OwnAccounts() []string {
	return slices.DeleteFunc(s.AccountNames(), func(name string) bool { return !s.isOwn(name) })
}

func (s FacetState) isOwn(name string) bool { return s.Have[name+"."+AccountLogin] == AccountOwn }

// UnlistedAccounts are those that the design does not name, in order, without what Slipway may log
// in with: that is never changed because of a policy.
func (s FacetState) UnlistedAccounts(n *Node) []string {
	return slices.DeleteFunc(s.AccountNames(), func(name string) bool {
		_, listed := n.BMC.Accounts[name]
		return listed || s.isOwn(name)
	})
}

// accounts is what the design means for the accounts that a controller has.
func (s FacetState) accounts(n *Node, asked Values) Resolved {
	r := Resolved{Want: maps.Clone(asked), From: Values{}, Unresolved: Values{}}
	if s.Seen.IsZero() {
		return r // with the policy: which accounts there are is not known
	}
	delete(r.Want, accountsUnlisted)
	if why := s.Cannot[AccountsService]; why != "" {
		return Resolved{Unresolved: Values{AccountsService: Printable(why)}}
	}
	for field, v := range r.Want {
		name, _ := AccountField(field)
		if why := or(item.Lacking(s.Cannot, field, v), s.Cannot[name+"."+AccountAny]); why != "" {
			r.Unresolved[field] = Printable(why)
		}
	}
	s.keepOwn(n, &r)
	want := map[string]string{UnlistedDisable: AccountDisabled, UnlistedRemove: AccountAbsent}[n.BMC.Unlisted.Accounts]
	if want == "" {
		return r
	}
	unlisted := s.UnlistedAccounts(n)
	if len(s.OwnAccounts()) == 0 && len(unlisted) > 0 {
		r.Unresolved[accountsUnlisted] = "Slipway does not see which of the BMC's accounts it logs in with, and might disable or remove that one; set bmc.unlisted.accounts to \"report\""
		return r
	}
	for _, name := range unlisted {
		if why := s.Cannot[name+"."+AccountAny]; why != "" {
			r.Unresolved[name+"."+AccountState] = Printable(why)
			continue
		}
		field := name + "." + AccountState
		r.Want[field], r.From[field] = want, accountsUnlisted
	}
	for field, have := range s.Have { // its sessions may live on
		if name, of := AccountField(field); of == AccountState && have == AccountAbsent+AccountChanging && r.Want[field] == "" && !s.isOwn(name) {
			r.Want[field], r.From[field] = AccountAbsent, accountsUnlisted
		}
	}
	return r
}

// keepOwn refuses what would lock Slipway out: that an account that it may log in with is not
// enabled, gets another role or another password than that of the endpoint, or gets a neighbour
// whose name differs in upper and lower case alone. Where none is seen that it logs in with, each
// may be the one.
func (s FacetState) keepOwn(n *Node, r *Resolved) {
	all := s.OwnAccounts()
	for name, a := range n.BMC.Accounts {
		if len(all) == 0 {
			s.keepAny(name, a, r)
		}
		for _, own := range all {
			if own == name {
				s.keep(own, a, n.Endpoints[Manager].Credential, r)
			} else if strings.EqualFold(own, name) && !s.isOwn(name) {
				r.Unresolved[name+"."+AccountState] = "Slipway logs in to this BMC as " + own + ", which differs in upper and lower case alone; write the name as the BMC has it"
			}
		}
	}
}

// keep does so for an account that Slipway may log in with.
func (s FacetState) keep(own string, a BMCAccount, login string, r *Resolved) {
	refuse := func(field, why string) { r.Unresolved[own+"."+field] = "Slipway logs in to this BMC as " + own + why }
	switch {
	case !a.IsEnabled():
		refuse(AccountState, ", and could no longer log in; give endpoints.manager the credential of another account first")
	case a.Credential != "" && a.Credential != login:
		refuse(AccountPassword, " with the credential "+login+", and could no longer log in with another password; write that credential here, or remove the line")
	case a.Role != "" && a.Role != "administrator" && s.Have[own+"."+AccountRole] != a.Role:
		refuse(AccountRole, ", and could no longer manage accounts; give endpoints.manager the credential of another account first")
	}
}

// keepAny does so for an account of a controller where none is seen that Slipway logs in with.
func (s FacetState) keepAny(name string, a BMCAccount, r *Resolved) {
	state := s.Have[name+"."+AccountState]
	takesRole := a.Role != "" && a.Role != "administrator" && s.Have[name+"."+AccountRole] != a.Role
	takesPassword := a.Credential != "" && s.Have[name+"."+AccountPassword] != PasswordOf(a.Credential) && !strings.HasSuffix(state, AccountChanging)
	if !strings.HasPrefix(state, AccountEnabled) || a.IsEnabled() && !takesRole && !takesPassword {
		return
	}
	r.Unresolved[name+"."+AccountState] = "Slipway does not see which of the BMC's accounts it logs in with, and this may be the one; change it by hand, or give endpoints.manager the credential of an account that the BMC lists"
}
