package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// sshRules: can people and Slipway log in by certificate?
var sshRules = []Rule{
	{
		Code: "ssh-authority", Severity: site.SeverityError,
		What:  "The authorities of `site.ssh.users` and `site.ssh.hosts` are public keys of Ed25519 that can be read, each once, and none is in both.",
		Why:   "Slipway cannot log in by certificate with another key, and the nodes would trust a key that nobody meant.",
		Wrong: `site: ssh: users: ["` + someKey + `", "` + someKey + ` next"]`,
		Right: `site: ssh: users: ["` + someKey + `"]`,
		Site:  sshAuthorities,
	},
	{
		Code: "ssh-accounts", Severity: site.SeverityError,
		What:  "The accounts of `system.ssh` are named once, are not absent, and the site has an authority in `site.ssh.users`.",
		Why:   "No certificate would open the account, neither for Slipway nor with `slipway ssh`.",
		Wrong: `nodes: "n1": system: ssh: accounts: ["root"]`,
		Right: `site: ssh: users: ["` + someKey + `"]
nodes: "n1": system: ssh: accounts: ["root"]`,
		Node: sshAccounts,
	},
	{
		Code: "ssh-host-names", Severity: site.SeverityError, Firm: true,
		What: "No name, host name or address is that of two nodes where `site.ssh.hosts` has host keys signed.",
		Why:  "Each of the two systems could pass for the other.",
		Wrong: `site: ssh: {users: ["` + someKey + `"], hosts: ["` + otherKey + `"]}
nodes: "n1": system: hostname: "n2"`,
		Right: `site: ssh: {users: ["` + someKey + `"], hosts: ["` + otherKey + `"]}
nodes: "n1": system: hostname: "n1.example.org"`,
		Facts: hostNameFacts, Fleet: twice("the name in host certificates"),
	},
	{
		Code: "ssh-revoked", Severity: site.SeverityError,
		What:  "The keys of `site.ssh.revoked` are public keys that can be read, none of them is an authority of `site.ssh.users`, and keys and people are named once.",
		Why:   "With a key that nobody can read the nodes would refuse every login, and with a revoked authority every certificate.",
		Wrong: `site: ssh: {users: ["` + someKey + `"], revoked: keys: ["` + someKey + `"]}`,
		Right: `site: ssh: {users: ["` + someKey + `"], revoked: people: ["ana"]}`,
		Site:  sshRevoked,
	},
}

func sshAuthorities(s *site.Site) []site.Finding {
	found := authoritiesAt("site.ssh.users", s.SSH.Users)
	for _, key := range s.SSH.Hosts {
		for _, other := range s.SSH.Users {
			if bareKey(key) == bareKey(other) {
				found = append(found, wrong("site.ssh.hosts", fmt.Sprintf("%q is an authority of site.ssh.users too", cutShort(key)),
					"Write the line that `slipway site ssh-authority` shows for host keys."))
			}
		}
	}
	return append(found, authoritiesAt("site.ssh.hosts", s.SSH.Hosts)...)
}

func authoritiesAt(at string, keys []string) []site.Finding {
	const fix = "Copy the line that `slipway site ssh-authority` shows on the bootstrap host."
	var found []site.Finding
	for i, key := range keys {
		if what := keyFault(key); what != "" {
			found = append(found, wrong(at, fmt.Sprintf("authority %d, %q, %s", i+1, cutShort(key), what), fix))
		}
		for _, other := range keys[:i] {
			if bareKey(key) == bareKey(other) {
				found = append(found, wrong(at, fmt.Sprintf("%q is named twice", cutShort(key)), "Remove one of the two."))
			}
		}
	}
	return found
}

// hostNameFacts are the names that the certificates of a node's host keys are good for.
func hostNameFacts(_ *site.Site, n *site.Node) []Fact {
	var facts []Fact
	for _, name := range n.References.HostNames {
		facts = append(facts, Fact{Key: strings.ToLower(name), Path: "system.hostname"})
	}
	return facts
}

func sshRevoked(s *site.Site) []site.Finding {
	const at = "site.ssh.revoked.keys"
	var found []site.Finding
	for i, key := range s.SSH.Revoked.Keys {
		if what := keyFault(key); what != "" {
			found = append(found, wrong(at, fmt.Sprintf("key %d, %q, %s", i+1, cutShort(key), what), "Copy the line of the public key, as in authorized_keys."))
		}
		for _, authority := range slices.Concat(s.SSH.Users, s.SSH.Hosts) {
			if bareKey(key) == bareKey(authority) {
				found = append(found, wrong(at, fmt.Sprintf("%q is an authority of site.ssh", cutShort(key)), "Remove it here. To use another authority, see site.ssh.epoch."))
			}
		}
		for _, other := range s.SSH.Revoked.Keys[:i] {
			if bareKey(key) == bareKey(other) {
				found = append(found, wrong(at, fmt.Sprintf("%q is named twice", cutShort(key)), "Remove one of the two."))
			}
		}
	}
	for _, person := range repeated(s.SSH.Revoked.People) {
		found = append(found, wrong("site.ssh.revoked.people", fmt.Sprintf("%s is named twice", person), "Remove one of the two."))
	}
	return found
}

// bareKey is a public key without its comment.
func bareKey(line string) string {
	parts := strings.Fields(line)
	return strings.Join(parts[:min(len(parts), 2)], " ")
}

func sshAccounts(s *site.Site, n *site.Node) []site.Finding {
	return eachSystem(func(path string, x site.System) []site.Finding {
		at := path + ".ssh.accounts"
		var found []site.Finding
		if len(x.SSH.Accounts) > 0 && len(s.SSH.Users) == 0 {
			found = append(found, wrong(at, "the design lets certificates in, and the site names no authority that signs them",
				"Add the line that `slipway site ssh-authority` shows as site: ssh: users: [\"…\"]."))
		}
		for _, account := range repeated(x.SSH.Accounts) {
			found = append(found, wrong(at, fmt.Sprintf("%s is named twice", account), "Remove one of the two."))
		}
		for _, account := range x.SSH.Accounts {
			if x.Users[account].State == "absent" || n.System.Users[account].State == "absent" {
				found = append(found, wrong(at, fmt.Sprintf("the account %s is absent in the design", account), "Remove it here, or let the account be."))
			}
		}
		return found
	})(s, n)
}
