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
	g := gathering{site: s, byName: map[string]*secretUse{}}
	for name, h := range s.Hypervisors {
		g.credential(managers, h.Credential, "hypervisor "+name)
		if h.Node != "" {
			g.credential(managers, h.Credential, h.Node)
		}
	}
	if d := s.Discovery; d != nil {
		g.credential(managers, d.Credential, "discovery")
	}
	for name, n := range s.Nodes {
		g.endpoints(name, n)
		g.systems(name, n)
		g.bootActions(name, n)
	}
	return g.all
}

// gathering collects the uses of secrets, those of one credential in one.
type gathering struct {
	site   *site.Site
	byName map[string]*secretUse
	all    []*secretUse
}

// credential notes that a credential is used by a node or by something else.
func (g *gathering) credential(r rank, name, by string) {
	if name == "" {
		return
	}
	u := g.byName[name]
	if u == nil {
		u = &secretUse{rank: r, text: "credential " + name, do: replace(g.site, name), by: map[string]bool{}}
		g.byName[name], g.all = u, append(g.all, u)
	}
	u.rank, u.by[by] = min(u.rank, r), true
}

// one notes a secret that is no credential, and what to do about it.
func (g *gathering) one(r rank, by, text, do string) {
	g.all = append(g.all, &secretUse{rank: r, text: text, do: do, by: map[string]bool{by: true}})
}

// endpoints notes how a node and the accounts of its BMC are reached.
func (g *gathering) endpoints(name string, n *site.Node) {
	for kind, e := range n.Endpoints {
		r := systems
		if kind == site.Manager {
			r = managers
		}
		g.credential(r, e.Credential, name)
	}
	for account, a := range n.BMC.Accounts {
		g.credential(managers, a.Credential, name)
		if a.Credential == "" {
			g.one(managers, name, fmt.Sprintf("account %s of the BMC of %s", account, name), "The design sets no password: change it on the BMC")
		}
	}
}

// systems notes what the installed system of a node has: passwords, files and accounts for certificates.
func (g *gathering) systems(name string, n *site.Node) {
	for x := range systemsOf(n) {
		for _, u := range x.Users {
			g.credential(contents, u.Password, name)
		}
		g.files(name, x.Files)
		for _, account := range x.SSH.Accounts {
			g.one(logins, name, "certificates for "+item.LoginName(name, account),
				"They open only this account and expire within minutes; Slipway signs none during the quarantine. Raise `site.ssh.epoch` if the authority itself may be known")
		}
		for c := range x.Certificates {
			g.one(logins, name, fmt.Sprintf("private key of the TLS certificate %s of %s", c, name),
				"Others accept it until the certificate ends; Slipway signs none during the quarantine, and a new key after it. Raise `site.tls.epoch` to end all certificates of the site at once")
		}
	}
}

// bootActions notes the files of the boot actions that a node runs.
func (g *gathering) bootActions(name string, n *site.Node) {
	for action, a := range g.site.BootActions {
		if a.Nodes != nil && !a.Nodes.Selects(n) {
			continue
		}
		for path, f := range a.Files {
			g.files(name, map[string]site.File{path + " of boot action " + action: f})
		}
	}
}

func (g *gathering) files(by string, files map[string]site.File) {
	for path, f := range files {
		g.credential(contents, f.Credential, by)
		if f.Content != nil && item.HoldsSecret([]byte(*f.Content)) {
			g.one(inline, by, fmt.Sprintf("file %s of %s", path, by), "Its content in the design looks like a secret: replace it, and move it into a credential")
		}
	}
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
