package incident

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Assumption says what the list of exposed secrets rests on.
const Assumption = "Secrets to replace, in this order: those that Slipway's records show to have been given to these nodes, and every other secret that the design names for them, because records may lack something:"

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
	// bmcs are the nodes whose BMC has it.
	bmcs map[string]bool
	// sent are the nodes to which more than a login with it goes.
	sent map[string]bool
	// until is when it ends by itself; nil for never.
	until func(Facts) time.Time
}

// sweep is the user of a credential that logs in to machines that are met. It holds nothing.
const sweep = "discovery"

// Exposed lists the secrets that some nodes could read, in the order in which to replace them: those with which
// Slipway reaches the power of machines first, so that it keeps reaching them. Virtual machines on a hypervisor among
// the nodes count as read too. The nodes had what the records show, and whatever a design names for them.
func Exposed(s *site.Site, nodes []string, f Facts) []site.Exposed { return exposed(s, nodes, nil, f) }

// exposed is Exposed for an incident that was acted on, or for none: it knows until when a delivery counts.
func exposed(s *site.Site, nodes []string, i *site.IncidentState, f Facts) []site.Exposed {
	affected, f := map[string]bool{}, f.indexed()
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
	if d := s.Discovery; d != nil { // a sweep may have sent it to their BMCs before they had names
		for _, u := range all {
			for name := range affected {
				if n := s.Nodes[name]; u.text == site.SecretOfCredential(d.Credential) && n != nil && !n.IsVirtual() {
					u.by[name] = true
				}
			}
		}
	}
	had, all := given(s, affected, i, all, f)
	for name := range affected {
		if s.Nodes[name] == nil && !slices.ContainsFunc(all, func(u *secretUse) bool { return u.by[name] }) {
			all = append(all, &secretUse{rank: managers, text: "what " + name + " had before it left the design", by: map[string]bool{name: true},
				do: "Slipway knows neither what it was given nor its design: look for its secrets in the history of the repository"})
		}
	}
	slices.SortFunc(all, func(a, b *secretUse) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.text, b.text)) })
	var found []site.Exposed
	for _, u := range all {
		if x := u.exposed(s, affected, had[u.text], f); len(x.Nodes) > 0 {
			found = append(found, x)
		}
	}
	return found
}

// exposed is what a secret is to the affected nodes, of which had says what they were given.
func (u *secretUse) exposed(s *site.Site, affected map[string]bool, had map[string][]string, f Facts) site.Exposed {
	x := site.Exposed{Secret: u.text, Do: u.do, Had: had, Login: true}
	d, derived := s.Credentials[site.CredentialOf(u.text)].Derived() // another value on each machine
	x.Epoch = d.Epoch
	for _, by := range slices.Sorted(maps.Keys(u.by)) {
		switch {
		case affected[by]:
			x.Nodes = append(x.Nodes, by)
			x.Login = x.Login && !u.sent[by]
			if _, is := had[by]; is {
				x.Known = append(x.Known, by)
			}
		case !derived:
			x.Holders = append(x.Holders, by)
		}
	}
	if u.until != nil {
		x.Until = u.until(f)
	}
	x.Login = x.Login && len(had) == 0 && site.CredentialOf(u.text) != ""
	return x
}

// given adds to the secrets of a design those that the affected nodes were given, and returns the versions of
// each that each node had.
func given(s *site.Site, affected map[string]bool, i *site.IncidentState, all []*secretUse, f Facts) (map[string]map[string][]string, []*secretUse) {
	had := map[string]map[string][]string{}
	byText := map[string]*secretUse{}
	for _, u := range all {
		byText[u.text] = u
	}
	for node := range affected {
		for _, g := range deliveriesTo(i, node, f) {
			if !wasRead(i, node, g) {
				continue
			}
			text, do := g.Secret+" of "+node, fmt.Sprintf("Raise `generation` of %s in the design: Slipway then installs the system again, after an approval, and it gets a new %s", node, g.Secret)
			if credential := site.CredentialOf(g.Secret); credential != "" {
				text, do = g.Secret, replace(s, credential)
			}
			u := byText[text]
			if u == nil {
				r := contents
				if g.To != site.ToSystem {
					r = managers
				}
				u = &secretUse{rank: r, text: text, do: do, by: map[string]bool{}, sent: map[string]bool{}}
				byText[text], all = u, append(all, u)
			}
			u.by[node] = true
			if had[text] == nil {
				had[text] = map[string][]string{}
			}
			had[text][node] = union(had[text][node], []string{g.Version})
		}
	}
	return had, all
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
		g.credential(managers, d.Credential, sweep)
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
		u = &secretUse{rank: r, text: site.SecretOfCredential(name), do: replace(g.site, name), by: map[string]bool{}, bmcs: map[string]bool{}, sent: map[string]bool{}}
		g.byName[name], g.all = u, append(g.all, u)
	}
	u.rank, u.by[by] = min(u.rank, r), true
}

// sent notes that a credential is not only used for logins to a node, but put there.
func (g *gathering) sent(r rank, name, by string) {
	if g.credential(r, name, by); name != "" {
		g.byName[name].sent[by] = true
	}
}

// bmc notes that the BMC of a node has a credential.
func (g *gathering) bmc(name, node string) {
	if g.credential(managers, name, node); name != "" {
		g.byName[name].bmcs[node] = true
	}
}

// one notes a secret that is no credential, what to do about it, and when it ends by itself.
func (g *gathering) one(r rank, by, text, do string, until func(Facts) time.Time) {
	g.all = append(g.all, &secretUse{rank: r, text: text, do: do, by: map[string]bool{by: true}, until: until})
}

// endpoints notes how a node and the accounts of its BMC are reached.
func (g *gathering) endpoints(name string, n *site.Node) {
	for kind, e := range n.Endpoints {
		switch {
		case kind == site.Manager && n.IsVirtual(): // the login goes to the hypervisor, and not to its guest
		case kind == site.Manager:
			g.bmc(e.Credential, name)
		default:
			g.credential(systems, e.Credential, name)
		}
	}
	for account, a := range n.BMC.Accounts {
		g.bmc(a.Credential, name)
		g.sent(managers, a.Credential, name)
		if a.Credential == "" {
			g.one(managers, name, fmt.Sprintf("account %s of the BMC of %s", account, name), "The design sets no password: change it on the BMC", nil)
		}
	}
}

// systems notes what the installed system of a node has: passwords, files and accounts for certificates.
func (g *gathering) systems(name string, n *site.Node) {
	for x := range systemsOf(n) {
		for _, u := range x.Users {
			g.sent(contents, u.Password, name)
		}
		g.files(name, x.Files)
		for _, account := range x.SSH.Accounts {
			g.one(logins, name, "certificates for "+item.LoginName(name, account),
				"They open only this account and expire within minutes; Slipway signs none during the quarantine. Raise `site.ssh.epoch` if the authority itself may be known", func(f Facts) time.Time { return f.Now.Add(f.LoginLife) })
		}
		for c := range x.Certificates {
			g.one(logins, name, fmt.Sprintf("private key of the TLS certificate %s of %s", c, name),
				"Others accept it until the certificate ends; Slipway signs none during the quarantine, and a new key after it. Raise `site.tls.epoch` to end all certificates of the site at once", func(f Facts) time.Time { return f.certified(name, c) })
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
		g.sent(contents, f.Credential, by)
		if f.Content != nil && item.HoldsSecret([]byte(*f.Content)) {
			g.one(inline, by, fmt.Sprintf("file %s of %s", path, by), "Its content in the design looks like a secret: replace it, and move it into a credential", nil)
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

// placeOf is where the design sets the epoch of a credential, in parentheses; empty where that is not known.
func placeOf(s *site.Site, credential string) string {
	for _, field := range []string{"credentials." + credential + ".epoch", "credentials." + credential} {
		if o := s.Origins.Of(field); !o.IsZero() {
			return " (" + o.String() + ")"
		}
	}
	return ""
}

// replace says how a person gives a credential another value.
func replace(s *site.Site, name string) string {
	c := s.Credentials[name]
	const machines = "Set the new value on the machines that hold it first where the design does not"
	switch {
	case c != nil && c.From == site.FromDerived:
		d, _ := c.Derived()
		return fmt.Sprintf("Raise `epoch` to %d in credential %s of the design%s, and commit: Slipway sets the next password on one machine, then on the others", d.Epoch+1, name, placeOf(s, name))
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
