package site

import (
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Derived says which of the passwords of a derived credential is meant. The machine is a part of it
// too, see Node.DerivedFrom.
type Derived struct {
	// Account is the account of the BMC.
	Account string `json:"account"`
	// Epoch is the number of the password: a higher one is a later password.
	Epoch int `json:"epoch"`
	// Form is the form of the password as package derived names it; empty for the usual one.
	Form string `json:"form,omitempty"`
}

// Derived is which password a derived credential is; ok is false for another credential.
func (c *Credential) Derived() (d Derived, ok bool) {
	if c == nil || c.From != FromDerived {
		return Derived{}, false
	}
	return Derived{Account: c.Account, Epoch: max(c.Epoch, 1), Form: c.Form}, true
}

// derivedOf are the derived credentials of a node's BMC, by name.
func (s *Site) derivedOf(n *Node) map[string]Derived {
	var all map[string]Derived
	add := func(name string) {
		d, ok := s.Credentials[name].Derived()
		if !ok {
			return
		}
		if all == nil {
			all = map[string]Derived{}
		}
		all[name] = d
	}
	add(n.Endpoints[Manager].Credential)
	for _, a := range n.BMC.Accounts {
		add(a.Credential)
	}
	return all
}

// DerivedFrom is the UUID of the machine whose derived passwords the accounts of the node's BMC have;
// empty where the design does not say it. A machine that takes the place of another one takes its
// passwords too: with the same epoch nothing else that knows them has to change.
func (n *Node) DerivedFrom() string {
	if n.Identity.UUID != "" {
		return n.Identity.UUID
	}
	return n.Machine().UUID
}

// epochMark stands between the name of a derived credential and the number of its password, and formMark before
// the form of a password that has not the usual one.
const epochMark, formMark = ", epoch ", ", form "

// DerivedPassword is the password of an account that is a password of a derived credential.
func DerivedPassword(credential string, d Derived) string {
	text := item.ValueOf(credential) + epochMark + strconv.Itoa(d.Epoch)
	if d.Form != "" {
		text += formMark + d.Form
	}
	return text
}

// EpochOf is the number of a derived password that DerivedPassword has named, 0 for any other text.
func EpochOf(password string) int {
	i := strings.LastIndex(password, epochMark)
	if i < 0 {
		return 0
	}
	number, _, _ := strings.Cut(password[i+len(epochMark):], formMark)
	epoch, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return epoch
}

// Rotations are the accounts whose derived password some changes of a BMC's accounts replace, or set.
func Rotations(changes []Change, n *Node) []string {
	var accounts []string
	for _, c := range changes {
		name, of := AccountField(strings.TrimPrefix(c.Field, string(FacetAccounts)+"."))
		if of != AccountPassword && of != AccountState {
			name, of = strings.TrimPrefix(c.Field, string(FacetAccounts)+"."), AccountPassword // one that is made is told as one change
		}
		a, designed := n.BMC.Accounts[name]
		_, derived := n.References.Derived[a.Credential]
		if designed && derived && of == AccountPassword {
			accounts = append(accounts, name)
		}
	}
	return accounts
}

// AccountPasswordStatus is what is known of the derived password of an account of a node's BMC.
type AccountPasswordStatus struct {
	Account string `json:"account"`
	// Credential is the derived credential, and Designed its epoch in the design; empty and 0 for an
	// account that the design has no such credential for any more.
	Credential string `json:"credential,omitempty"`
	Designed   int    `json:"designed,omitempty"`
	// Epoch and Form are those of the password with which a login was accepted last, at Proven; 0
	// where none was.
	Epoch  int       `json:"epoch,omitempty"`
	Form   string    `json:"form,omitempty"`
	Proven time.Time `json:"proven,omitzero"`
	// Offered is the epoch of a password that may have been set and is not proven; 0 for none.
	Offered int `json:"offered,omitempty"`
}
