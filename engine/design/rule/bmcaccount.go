package rule

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// bmcAccounts: can the accounts of management controllers be made, and does somebody stay who
// can manage them?
var bmcAccounts = []Rule{
	{
		Code: "bmc-account", Severity: site.SeverityError,
		What:  "An account of a BMC that has a credential is enabled and has a role, one that is absent has nothing else set, and no two differ in upper and lower case alone.",
		Why:   "No BMC makes an account without a role, nobody can see whether a disabled account has a password, and some BMCs take two spellings for one name.",
		Wrong: `nodes: "n1": bmc: accounts: monitor: credential: "bmc"`,
		Right: `nodes: "n1": bmc: accounts: monitor: {credential: "bmc", role: "readOnly"}`,
		Node:  eachBMCAccount(bmcAccount),
	},
	{
		Code: "bmc-account-credential", Severity: site.SeverityError, Firm: true,
		What: "The credential of an account of a BMC is an entry in `credentials`.", Why: noMeaning,
		Wrong: `nodes: "n1": bmc: accounts: monitor: {credential: "bcm", role: "readOnly"}`,
		Right: `nodes: "n1": bmc: accounts: monitor: {credential: "bmc", role: "readOnly"}`,
		Node: eachBMCAccount(func(s *site.Site, _ *site.Node, path, _ string, a site.BMCAccount) []site.Finding {
			return refer(path+".credential", "credentials", a.Credential, s.Credentials)
		}),
	},
	{
		Code: "bmc-administrator", Severity: site.SeverityError,
		What:  "Where accounts of a BMC are disabled or removed, the design names an enabled administrator.",
		Why:   "Nobody could manage the BMC, and somebody would have to reset it to factory settings by hand.",
		Wrong: `nodes: "n1": bmc: accounts: guest: state: "absent"`,
		Right: `nodes: "n1": bmc: accounts: {slipway: {credential: "bmc", role: "administrator"}, guest: state: "absent"}`,
		Node:  bmcAdministrator,
	},
	{
		Code: "bmc-shared", Severity: site.SeverityError,
		What:  "Of the nodes behind one BMC, as in an enclosure, one alone says what is set in it.",
		Why:   "Each of them would set its accounts, and take back what the others set.",
		Wrong: `nodes: {"n1": {endpoints: manager: url: "redfish+https://10.9.0.11/redfish/v1/Systems/1", bmc: unlisted: accounts: "report"}, "n2": {endpoints: manager: url: "redfish+https://10.9.0.11/redfish/v1/Systems/2", bmc: unlisted: accounts: "report"}}`,
		Right: `nodes: {"n1": {endpoints: manager: url: "redfish+https://10.9.0.11/redfish/v1/Systems/1", bmc: unlisted: accounts: "report"}, "n2": endpoints: manager: url: "redfish+https://10.9.0.11/redfish/v1/Systems/2"}`,
		Facts: func(_ *site.Site, n *site.Node) []Fact {
			if u := parsed(n.Endpoints[site.Manager].URL); u.Host != "" && !isWish(u.Hostname()) && n.Asks(site.FacetAccounts) {
				return []Fact{{Key: site.ManagerHost(n.Endpoints[site.Manager].URL), Path: "bmc"}}
			}
			return nil
		},
		Fleet: func(_ *site.Site, x *Index) []site.Finding {
			var found []site.Finding
			for _, host := range x.Several() {
				first := x.Holders(host)[0]
				for _, again := range x.Holders(host)[1:] {
					found = append(found, again.about(site.Finding{
						Message: fmt.Sprintf("%s and %s are behind the BMC at %s, and both say what is set in it", first.Node, again.Node, strings.TrimSuffix(host, ":443")),
						Fix:     "Remove `bmc` from one of them; where a profile sets it, with `bmc: _ @unset()`.",
						Related: []string{first.Place.String()},
					}))
				}
			}
			return found
		},
	},
}

// eachBMCAccount checks every account of a node's BMC.
func eachBMCAccount(check func(s *site.Site, n *site.Node, path, name string, a site.BMCAccount) []site.Finding) func(*site.Site, *site.Node) []site.Finding {
	return func(s *site.Site, n *site.Node) []site.Finding {
		var found []site.Finding
		for _, name := range keys(n.BMC.Accounts) {
			found = append(found, check(s, n, "bmc.accounts."+name, name, n.BMC.Accounts[name])...)
		}
		return found
	}
}

func bmcAccount(_ *site.Site, n *site.Node, path, name string, a site.BMCAccount) []site.Finding {
	for _, other := range keys(n.BMC.Accounts) {
		if other < name && strings.EqualFold(other, name) {
			return []site.Finding{beside(n, "bmc.accounts."+other, wrong(path, fmt.Sprintf("the accounts %s and %s differ in upper and lower case alone", other, name), "Remove one of the two."))}
		}
	}
	switch {
	case a.State == site.AccountAbsent && (states(n, path+".role") || states(n, path+".credential")):
		return bmcAccountAbsent(n, path, name)
	case a.State == site.AccountDisabled && a.Credential != "" && rankOf(n, path+".credential") >= rankOf(n, path+".state"):
		return []site.Finding{wrong(path+".credential", fmt.Sprintf("%s is disabled, and has a credential", name), "Remove the credential, or the state.")}
	case a.IsEnabled() && a.Credential != "" && a.Role == "" && !states(n, path+".role"):
		return []site.Finding{wrong(path+".credential", fmt.Sprintf("%s has a credential and no role", name), `Add role: "administrator", "operator" or "readOnly".`)}
	}
	return nil
}

// bmcAccountAbsent lets a nearer layer say that an account goes which others set up.
func bmcAccountAbsent(n *site.Node, path, name string) []site.Finding {
	for _, field := range []string{"role", "credential"} {
		if rank := rankOf(n, path+"."+field); rank >= 0 && rank >= rankOf(n, path+".state") {
			return []site.Finding{wrong(path+"."+field, fmt.Sprintf("%s is absent and has its %s set", name, field), "Remove it, or the state.")}
		}
	}
	return nil
}

func bmcAdministrator(_ *site.Site, n *site.Node) []site.Finding {
	if lost(n.Origins, "bmc.accounts", n.BMC.Accounts) && len(n.BMC.Accounts) == 0 {
		return nil
	}
	at, takes := "", ""
	for _, name := range keys(n.BMC.Accounts) {
		a, path := n.BMC.Accounts[name], "bmc.accounts."+name
		if a.IsEnabled() && a.Role == "administrator" || states(n, path+".role") && a.Role == "" { // which another rule objects to
			return nil
		}
		if !a.IsEnabled() && at == "" {
			at, takes = path+".state", fmt.Sprintf("%s is %s", name, a.State)
		}
	}
	if at == "" {
		return nil
	}
	return []site.Finding{wrong(at, fmt.Sprintf("%s, and no account in bmc.accounts is an enabled administrator", takes),
		`Add the account that manages the BMC, with role: "administrator"; that may be the one that Slipway logs in with.`)}
}
