package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// hasOfAccount is what a field of an account of the BMC is that was not told: the state of
// one that there is none of, or nothing that is known.
func (w wish) hasOfAccount(field string) string {
	name, of := site.AccountField(field)
	_, there := w.seen.Have[name+"."+site.AccountState]
	if w.seen.Seen.IsZero() || there || of != site.AccountState {
		return Unknown
	}
	return site.AccountAbsent
}

// accountAt is where the design has a field of an account, or else the account.
func accountAt(n *site.Node, field string) site.Origin {
	name, _ := site.AccountField(field)
	path := "bmc.accounts." + name
	for _, at := range []string{"bmc.accounts." + field, path} {
		if o := n.Origins.Of(at); !o.IsZero() {
			return o
		}
	}
	var first site.Origin
	for _, o := range n.Origins.Within(path) {
		if first.IsZero() || o.Before(first) {
			first = o
		}
	}
	return first
}

// addedAccounts tells an account that there is none of as one change.
func addedAccounts(n *site.Node, changes []site.Change, seen site.FacetState) []site.Change {
	var short []site.Change
	for _, c := range changes {
		name, of := site.AccountField(strings.TrimPrefix(c.Field, string(site.FacetAccounts)+"."))
		_, there := seen.Have[name+"."+site.AccountState]
		switch {
		case there || seen.Seen.IsZero():
			short = append(short, c)
		case of == site.AccountState:
			c.Field, c.Want = string(site.FacetAccounts)+"."+name, c.Want+accountIs(n, n.BMC.Accounts[name])
			short = append(short, c)
		}
	}
	return short
}

// accountIs is what an account is made with, in words.
func accountIs(n *site.Node, a site.BMCAccount) string {
	text := ""
	if a.Role != "" {
		text += ", role " + a.Role
	}
	if a.Credential != "" && a.IsEnabled() {
		text += ", password " + n.PasswordOf(a.Credential)
	}
	return text
}

// epochNotes tell of accounts of the BMC whose derived password is not that of the designed epoch: they keep the one
// that they have until the BMC answers and has accepted the next one.
func epochNotes(n *site.Node, m site.Memory) []string {
	var notes []string
	for _, credential := range slices.Sorted(maps.Keys(n.References.Derived)) {
		d := n.References.Derived[credential]
		use := m.Recorded.Accounts[d.Account]
		if has := use.ProvenAs.Epoch; has > 0 && has != d.Epoch {
			text := fmt.Sprintf("the account %s of its BMC keeps the password of epoch %d until it accepts that of epoch %d, which the design has", d.Account, has, d.Epoch)
			if offered := use.OfferedAs.Epoch; offered > 0 {
				text += fmt.Sprintf("; that of epoch %d was offered and is not proven", offered)
			}
			notes = append(notes, text)
		}
	}
	return notes
}

// accountNotes tell of accounts of the BMC that the design does not name and that stay, and of
// those that are locked.
func accountNotes(n *site.Node, m site.Memory, serves map[site.Facet]bool) []string {
	seen := m.Observed.Facets[site.FacetAccounts]
	if !serves[site.FacetAccounts] || seen.Seen.IsZero() || !n.Asks(site.FacetAccounts) {
		return nil
	}
	var notes []string
	if names := seen.UnlistedAccounts(n); len(names) > 0 {
		const most = 20
		shown := slices.Clone(names[:min(len(names), most)])
		if more := len(names) - most; more > 0 {
			shown = append(shown, fmt.Sprintf("and %d more", more))
		}
		notes = append(notes, fmt.Sprintf("its BMC has %s that the design does not name: %s; add to `bmc.accounts` what is to stay, and with the state \"absent\" what is to go",
			say.Count(len(names), "account"), strings.Join(shown, ", ")))
	}
	for _, name := range seen.AccountNames() {
		if seen.Have[name+"."+site.AccountLocked] == "true" {
			notes = append(notes, fmt.Sprintf("the account %s of its BMC is locked after wrong passwords; somebody may be guessing", name))
		}
		if seen.Have[name+"."+site.AccountChange] == "true" {
			notes = append(notes, fmt.Sprintf("the account %s of its BMC can do nothing before its password was changed: the BMC asks for that at its first login; log in as %s and change it", name, name))
		}
	}
	return notes
}
