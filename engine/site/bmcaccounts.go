package site

import (
	"fmt"
	"maps"
	"net"
	"net/url"
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
	// Accounts is UnlistedReport, also when empty: nothing else can be asked. What is disabled or
	// removed has to be named.
	Accounts string `json:"accounts,omitempty"`
}

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
	// AccountLogin is AccountOwn for the account that Slipway logs in with, and for each whose
	// name differs from that one's in upper and lower case alone, as some controllers do not
	// tell these apart. For one that another node behind the controller, or discovery, logs in
	// with, it is LoginBy its credential.
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

// PasswordOf is the password that is the value of a credential which is not derived.
func PasswordOf(credential string) string { return item.ValueOf(credential) }

// Valued names one value of a field, for FacetState.Cannot.
func Valued(field, value string) string { return item.Valued(field, value) }

// IsEnabled says whether the account is to let somebody in.
func (a BMCAccount) IsEnabled() bool { return a.State == "" || a.State == AccountEnabled }

// PasswordOf is the password of an account that is designed to be the value of a credential.
func (n *Node) PasswordOf(credential string) string {
	if d, ok := n.References.Derived[credential]; ok {
		return DerivedPassword(credential, d)
	}
	return PasswordOf(credential)
}

// accountValues are what the design asks of the accounts.
func (n *Node) accountValues() Values {
	b, want := n.BMC, Values{}
	for name, a := range b.Accounts {
		want[name+"."+AccountState] = or(a.State, AccountEnabled)
		if a.Role != "" && a.State != AccountAbsent {
			want[name+"."+AccountRole] = a.Role
		}
		if a.Credential != "" && a.IsEnabled() {
			want[name+"."+AccountPassword] = n.PasswordOf(a.Credential)
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

// LoginBy marks an account that another login of this site goes to, see AccountLogin.
func LoginBy(credential string) string { return "by credential " + credential }

// OwnAccounts are those of them that Slipway logs in with, in order: more than one where the
// controller has names that differ in upper and lower case alone.
func (s FacetState) OwnAccounts() []string {
	return slices.DeleteFunc(s.AccountNames(), func(name string) bool { return s.Have[name+"."+AccountLogin] != AccountOwn })
}

// UnlistedAccounts are those that the design does not name, in order, without those that
// Slipway logs in with.
func (s FacetState) UnlistedAccounts(n *Node) []string {
	return slices.DeleteFunc(s.AccountNames(), func(name string) bool {
		_, listed := n.BMC.Accounts[name]
		return listed || s.Have[name+"."+AccountLogin] != ""
	})
}

// accounts is what the design means for the accounts that a controller has.
func (s FacetState) accounts(n *Node, asked Values) Resolved {
	r := Resolved{Want: maps.Clone(asked), From: Values{}, Unresolved: Values{}}
	delete(r.Want, accountsUnlisted)
	if s.Seen.IsZero() {
		return r
	}
	if why := s.Cannot[AccountsService]; why != "" {
		return Resolved{Unresolved: Values{AccountsService: Printable(why)}}
	}
	if len(r.Want) > 0 && len(s.OwnAccounts()) == 0 {
		return Resolved{Unresolved: Values{AccountsService: "Slipway does not see which of the BMC's accounts it logs in with, so it changes none of them"}}
	}
	for field, v := range r.Want {
		name, _ := AccountField(field)
		if why := or(item.Lacking(s.Cannot, field, v), s.Cannot[name+"."+AccountAny]); why != "" {
			r.Unresolved[field] = Printable(why)
		}
	}
	for name, a := range n.BMC.Accounts {
		field, why := s.keepOwn(n, name, a)
		if why == "" {
			field, why = s.keepLogins(name, a)
		}
		if why == "" {
			field, why = s.keepEpoch(n, name, a)
		}
		if why != "" {
			r.Unresolved[name+"."+field] = Printable(why)
		}
	}
	return r
}

// keepOwn is why an account cannot become what is designed since that would lock Slipway out:
// the account that it logs in with would not be enabled, would be less than it was, or would have
// another password than that of the endpoint. Every account whose name is the own one but for
// its case counts as the own one.
func (s FacetState) keepOwn(n *Node, name string, a BMCAccount) (field, why string) {
	own := s.OwnAccounts()
	if len(own) == 0 || !strings.EqualFold(own[0], name) {
		return "", ""
	}
	login, as := n.Endpoints[Manager].Credential, "Slipway logs in to this BMC as "+name
	switch {
	case len(own) > 1:
		return AccountState, "the BMC has the accounts " + strings.Join(own, " and ") + ", and Slipway logs in with one of them; remove the other by hand, or take both out of the design"
	case own[0] != name:
		return AccountState, "Slipway logs in to this BMC as " + own[0] + ", which differs from " + name + " in upper and lower case alone; write it as the BMC does"
	case !a.IsEnabled():
		return AccountState, as + ", and could no longer log in; give endpoints.manager the credential of another account first"
	case a.Credential != "" && a.Credential != login:
		return AccountPassword, as + " with the credential " + login + ", and could no longer log in with another password; write that credential here, or remove the line"
	case a.Role != "" && a.Role != "administrator" && s.Have[name+"."+AccountRole] != a.Role:
		return AccountRole, as + ", and could no longer manage accounts; give endpoints.manager the credential of another account first"
	}
	return "", ""
}

// keepEpoch is why an account does not get a derived password that is earlier than the one it has: those who
// know the earlier one would be let in again.
func (s FacetState) keepEpoch(n *Node, name string, a BMCAccount) (field, why string) {
	d, derived := n.References.Derived[a.Credential]
	has := EpochOf(s.Have[name+"."+AccountPassword])
	if !derived || !a.IsEnabled() || has <= d.Epoch {
		return "", ""
	}
	return AccountPassword, LoweredEpoch(a.Credential, d.Epoch, has)
}

// LoweredEpoch says that the epoch of a derived credential was lowered.
func LoweredEpoch(credential string, designed, has int) string {
	return fmt.Sprintf("the epoch of the credential %s was lowered to %d, and the account was given the password of epoch %d before; an epoch is only raised: write %d again, or %d for the next one",
		credential, designed, has, has, has+1)
}

// keepLogins is keepOwn for the accounts that other nodes behind the controller, and discovery,
// log in with.
func (s FacetState) keepLogins(name string, a BMCAccount) (field, why string) {
	for _, there := range s.AccountNames() {
		by := s.Have[there+"."+AccountLogin]
		if by == "" || by == AccountOwn || !strings.EqualFold(there, name) {
			continue
		}
		as := "another node behind this BMC, or discovery, logs in as " + there + " (" + by + ")"
		switch {
		case there != name:
			return AccountState, as + ", which differs from " + name + " in upper and lower case alone; write it as the BMC does"
		case !a.IsEnabled():
			return AccountState, as + ", and could no longer log in; give that one another credential first"
		case a.Credential != "" && by != LoginBy(a.Credential):
			return AccountPassword, as + ", and could no longer log in with another password; write that credential here, or remove the line"
		case a.Role != "" && a.Role != "administrator" && s.Have[name+"."+AccountRole] != a.Role:
			return AccountRole, as + ", and could do less than before; give that one another credential first"
		}
	}
	return "", ""
}

// ManagerHost is the host and port of a management controller, spelled in one way: endpoints of one
// controller have the same. It is empty for what is no such address.
func ManagerHost(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return ""
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), or(u.Port(), "443"))
}

// LoginsAt are the credentials with which nodes log in to the controller of an endpoint, and that of
// discovery, in order.
func (s *Site) LoginsAt(endpoint string) []string {
	host := ManagerHost(endpoint)
	if s == nil || host == "" {
		return nil
	}
	u, _ := url.Parse(endpoint)
	name, found := strings.ToLower(u.Hostname()), map[string]bool{}
	for _, n := range s.Nodes {
		e := n.Endpoints[Manager] // most are elsewhere, so their addresses are not parsed
		if e.Credential != "" && strings.Contains(strings.ToLower(e.URL), name) && ManagerHost(e.URL) == host {
			found[e.Credential] = true
		}
	}
	if d := s.Discovery; d != nil && d.Credential != "" {
		found[d.Credential] = true
	}
	return slices.Sorted(maps.Keys(found))
}
