package rule

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// derivedPasswords: is each derived password that of one account of one machine?
var derivedPasswords = []Rule{
	{
		Code: "derived-account", Severity: site.SeverityError, Firm: true,
		What:  "A derived password is that of the account that its credential names, on a machine of which the design has the UUID.",
		Why:   "It follows from the account and the UUID: another account would get the same password, and without a UUID there is none.",
		Wrong: "credentials: \"bmc-own\": {from: \"derived\", account: \"slipway\"}\nnodes: \"n1\": bmc: accounts: monitor: {credential: \"bmc-own\", role: \"readOnly\"}",
		Right: "credentials: \"bmc-own\": {from: \"derived\", account: \"slipway\"}\nnodes: \"n1\": bmc: accounts: slipway: {credential: \"bmc-own\", role: \"administrator\"}",
		Node:  derivedAccount,
	},
	{
		Code: "derived-use", Severity: site.SeverityError, Firm: true,
		What:  "Only `bmc.accounts` and `endpoints.manager` name a credential with a derived password.",
		Why:   "The password follows from the machine of a BMC. An installed system, a hypervisor and discovery have no such machine.",
		Wrong: "credentials: \"bmc-own\": {from: \"derived\", account: \"slipway\"}\nnodes: \"n1\": endpoints: os: credential: \"bmc-own\"",
		Right: "credentials: \"bmc-own\": {from: \"derived\", account: \"slipway\"}\nnodes: \"n1\": endpoints: manager: credential: \"bmc-own\"",
		Site:  derivedUseOfSite, Node: derivedUse,
	},
	{
		Code: "derived-twice", Severity: site.SeverityError, Firm: true,
		What:  "One credential has the derived password of an account of a node's BMC.",
		Why:   "Slipway would log in with the password of one epoch and set that of another, and could not say which one the account is to have.",
		Wrong: "credentials: {\"bmc-own\": {from: \"derived\", account: \"slipway\", epoch: 2}, \"bmc-old\": {from: \"derived\", account: \"slipway\"}}\n" + `nodes: "n1": {endpoints: manager: credential: "bmc-old", bmc: accounts: slipway: {credential: "bmc-own", role: "administrator"}}`,
		Right: "credentials: \"bmc-own\": {from: \"derived\", account: \"slipway\", epoch: 2}\n" + `nodes: "n1": {endpoints: manager: credential: "bmc-own", bmc: accounts: slipway: {credential: "bmc-own", role: "administrator"}}`,
		Node:  derivedTwice,
	},
	{
		Code: "derived-shared", Severity: site.SeverityError, Firm: true,
		What:  "A node that logs in with a derived password is alone behind its BMC.",
		Why:   "The nodes of an enclosure have UUIDs of their own, so each of them would log in to the same account with another password.",
		Wrong: "credentials: \"bmc-own\": {from: \"derived\", account: \"slipway\"}\n" + `nodes: {"n1": endpoints: manager: {url: "redfish+https://10.9.0.11/redfish/v1/Systems/1", credential: "bmc-own"}, "n2": endpoints: manager: url: "redfish+https://10.9.0.11/redfish/v1/Systems/2"}`,
		Right: "credentials: \"bmc-own\": {from: \"derived\", account: \"slipway\"}\n" + `nodes: {"n1": endpoints: manager: {url: "redfish+https://10.9.0.11/redfish/v1/Systems/1", credential: "bmc-own"}, "n2": endpoints: manager: url: "redfish+https://10.9.0.12/redfish/v1/Systems/2"}`,
		Facts: func(s *site.Site, n *site.Node) []Fact {
			e := n.Endpoints[site.Manager]
			if u := parsed(e.URL); u.Host == "" || isWish(u.Hostname()) {
				return nil
			}
			path := "endpoints.manager"
			if _, derived := s.Credentials[e.Credential].Derived(); derived {
				path = derivedLogin
			}
			return []Fact{{Key: site.ManagerHost(e.URL), Path: path}}
		},
		Fleet: derivedShared,
	},
}

// derivedLogin is where a node names the credential that it logs in to its BMC with.
const derivedLogin = "endpoints.manager.credential"

func derivedShared(_ *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, host := range x.Several() {
		all := x.Holders(host)
		for i, h := range all {
			if h.Path != derivedLogin {
				continue
			}
			other := all[(i+1)%len(all)]
			found = append(found, h.about(site.Finding{
				Message: fmt.Sprintf("%s logs in to the BMC at %s with a derived password, and %s is behind it too", h.Node, strings.TrimSuffix(host, ":443"), other.Node),
				Fix:     "Write a credential with another source into endpoints.manager of both.", Related: []string{other.Place.String()},
			}))
		}
	}
	return found
}

func derivedAccount(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	uses := false
	for _, name := range keys(n.BMC.Accounts) {
		a := n.BMC.Accounts[name]
		d, derived := s.Credentials[a.Credential].Derived()
		uses = uses || derived
		if derived && d.Account != "" && d.Account != name {
			found = append(found, wrong("bmc.accounts."+name+".credential",
				fmt.Sprintf("the credential %q is the derived password of the account %s, and not of %s", a.Credential, d.Account, name),
				"Write another credential, which names this account."))
		}
	}
	_, logsIn := s.Credentials[n.Endpoints[site.Manager].Credential].Derived()
	if (uses || logsIn) && n.DerivedFrom() == "" && !n.IsVirtual() {
		found = append(found, wrong("identity", "its BMC has an account with a derived password, and the design does not have the UUID of the machine, which the password follows from",
			"Add identity.uuid, as `slipway discover` shows it, or use a credential with another source."))
	}
	return found
}

// derivedTwice reports an account of a BMC that Slipway logs in to with one derived credential, and that is to have the
// password of another one.
func derivedTwice(s *site.Site, n *site.Node) []site.Finding {
	login := n.Endpoints[site.Manager].Credential
	d, derived := s.Credentials[login].Derived()
	a, designed := n.BMC.Accounts[d.Account]
	if _, other := s.Credentials[a.Credential].Derived(); !derived || !designed || !other || a.Credential == login {
		return nil
	}
	return []site.Finding{wrong(derivedLogin,
		fmt.Sprintf("Slipway logs in to the BMC as %s with the derived credential %q, and the account is to have the password of %q", d.Account, login, a.Credential),
		fmt.Sprintf("Write the credential %q here too, and raise its epoch for another password.", a.Credential))}
}

// derivedUse reports derived passwords that an installed system should have or ask for.
func derivedUse(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, kind := range keys(n.Endpoints) {
		if kind != site.Manager {
			found = append(found, notDerived(s, "endpoints."+string(kind)+".credential", n.Endpoints[kind].Credential)...)
		}
	}
	found = append(found, eachSystem(func(path string, x site.System) []site.Finding {
		var passwords []site.Finding
		for _, name := range keys(x.Users) {
			passwords = append(passwords, notDerived(s, path+".users."+name+".password", x.Users[name].Password)...)
		}
		return passwords
	})(s, n)...)
	return append(found, onContents(notDerivedFiles(s))(s, n)...)
}

func derivedUseOfSite(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, name := range keys(s.Hypervisors) {
		found = append(found, notDerived(s, "hypervisors."+name+".credential", s.Hypervisors[name].Credential)...)
	}
	for _, name := range discoveryCredential(s) {
		found = append(found, notDerived(s, "site.discovery.credential", name)...)
	}
	return append(found, onActions(notDerivedFiles(s))(s)...)
}

// notDerivedFiles reports derived passwords that are to be put into files.
func notDerivedFiles(s *site.Site) func(contents) []site.Finding {
	return func(c contents) (found []site.Finding) {
		for _, name := range keys(c.files) {
			found = append(found, notDerived(s, c.path+".files."+name+".credential", c.files[name].Credential)...)
		}
		return found
	}
}

func notDerived(s *site.Site, path, credential string) []site.Finding {
	if _, derived := s.Credentials[credential].Derived(); !derived {
		return nil
	}
	return []site.Finding{wrong(path, fmt.Sprintf("the credential %q is a derived password, which only accounts of BMCs have", credential), "Write a credential with another source.")}
}
