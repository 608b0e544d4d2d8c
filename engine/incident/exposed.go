package incident

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Assumption says what the list of exposed secrets rests on.
const Assumption = "Secrets to replace, in this order. Slipway has no record of which secrets it delivered, so every secret that the design names for these nodes counts as read:"

// rank orders what is replaced: first what reaches the power of machines, last what a new login needs.
type rank int

const (
	managers rank = iota // BMCs and hypervisors
	systems              // logins to operating systems
	contents             // files and accounts inside
	inline               // texts in the design itself
	logins               // certificates
)

// secretUse is one secret, and who has it.
type secretUse struct {
	rank
	text string
	do   string
	by   map[string]bool // users of it; a node by its name
}

// Exposed lists the secrets that the nodes of an incident could read by a design, in the order in
// which to replace them: those with which Slipway reaches the power of machines first, so that it keeps
// reaching them. Virtual machines on a hypervisor among the nodes count as read too.
func Exposed(s *site.Site, nodes []string) []site.Exposed {
	affected := map[string]bool{}
	for _, name := range nodes {
		affected[name] = true
	}
	for name, n := range s.Nodes {
		h := s.Hypervisors[n.Virtual.Host.Hypervisor]
		if n.IsVirtual() && h != nil && slices.Contains(nodes, h.Node) {
			affected[name] = true
		}
	}
	all := uses(s)
	slices.SortFunc(all, func(a, b *secretUse) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.text, b.text)) })
	var found []site.Exposed
	for _, u := range all {
		x := site.Exposed{Secret: u.text, Do: u.do}
		for _, by := range slices.Sorted(maps.Keys(u.by)) {
			if affected[by] {
				x.Nodes = append(x.Nodes, by)
			} else {
				x.Holders = append(x.Holders, by)
			}
		}
		if len(x.Nodes) > 0 {
			found = append(found, x)
		}
	}
	return found
}

// uses returns every secret of a design with its users.
func uses(s *site.Site) []*secretUse {
	byName, all := map[string]*secretUse{}, []*secretUse{}
	credential := func(r rank, name, by string) {
		if name == "" {
			return
		}
		u := byName[name]
		if u == nil {
			u = &secretUse{rank: r, text: "credential " + name, do: replace(s, name), by: map[string]bool{}}
			byName[name], all = u, append(all, u)
		}
		u.rank, u.by[by] = min(u.rank, r), true
	}
	one := func(r rank, by, text, do string) {
		all = append(all, &secretUse{rank: r, text: text, do: do, by: map[string]bool{by: true}})
	}
	files := func(by string, files map[string]site.File) {
		for path, f := range files {
			credential(contents, f.Credential, by)
			if f.Content != nil && item.HoldsSecret([]byte(*f.Content)) {
				one(inline, by, fmt.Sprintf("file %s of %s", path, by), "Its content in the design looks like a secret: replace it, and move it into a credential")
			}
		}
	}
	for hv, h := range s.Hypervisors {
		credential(managers, h.Credential, "hypervisor "+hv)
		if h.Node != "" {
			credential(managers, h.Credential, h.Node)
		}
	}
	if d := s.Discovery; d != nil {
		credential(managers, d.Credential, "discovery")
	}
	for name, n := range s.Nodes {
		for kind, e := range n.Endpoints {
			r := systems
			if kind == site.Manager {
				r = managers
			}
			credential(r, e.Credential, name)
		}
		for account, a := range n.BMC.Accounts {
			credential(managers, a.Credential, name)
			if a.Credential == "" {
				one(managers, name, fmt.Sprintf("account %s of the BMC of %s", account, name), "The design sets no password: change it on the BMC")
			}
		}
		for x := range systemsOf(n) {
			for _, u := range x.Users {
				credential(contents, u.Password, name)
			}
			files(name, x.Files)
			for _, account := range x.SSH.Accounts {
				one(logins, name, "certificates for "+item.LoginName(name, account),
					"They open only this account and expire within minutes; Slipway signs none during the quarantine. Raise `site.ssh.epoch` if the authority itself may be known")
			}
		}
		for action, a := range s.BootActions {
			if a.Nodes == nil || a.Nodes.Selects(n) {
				for path, f := range a.Files {
					files(name, map[string]site.File{path + " of boot action " + action: f})
				}
			}
		}
	}
	return all
}

// systemsOf are all systems that a node may have by its design.
func systemsOf(n *site.Node) iter.Seq[site.System] {
	return func(yield func(site.System) bool) {
		if !yield(n.System) {
			return
		}
		for _, x := range n.Families {
			if !yield(x) {
				return
			}
		}
	}
}

// replace says how a person gives a credential another value.
func replace(s *site.Site, name string) string {
	c := s.Credentials[name]
	const machines = "Set the new value on the machines that hold it first where the design does not"
	switch {
	case c == nil || c.From == "" || c.From == site.FromFile:
		return fmt.Sprintf("%s, then write it into the file %s of the credentials on the bootstrap host", machines, name)
	case c.From == site.FromSealed:
		return fmt.Sprintf("%s, then run `slipway secret set %s`, and commit", machines, name)
	case c.From == site.FromSOPS:
		return fmt.Sprintf("%s, then run `slipway secret set %s --file %s --key %s`, and commit", machines, name, c.File, c.Key)
	case c.From == site.FromProgram:
		return fmt.Sprintf("%s, then change it where the program /etc/slipway/programs.d/%s gets it", machines, name)
	}
	return fmt.Sprintf("%s, then change it on the server of secrets at %s", machines, cmp.Or(c.Key, name))
}
