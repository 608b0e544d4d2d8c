package access

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Design is what the design of a site grants. A right counts if a person has approved it and the design in
// force still has it. So a merge by itself gives nobody a right, and one that takes a right away counts at once.
type Design struct {
	Site              string
	Approved, InForce site.Granted
}

// With is a policy that includes what a design grants, within the bounds of the lines "design" of the
// access file.
func (p *Policy) With(d Design) *Policy {
	with := *p
	with.design = d
	return &with
}

// designLimit is what the access file lets the design of some sites grant.
type designLimit struct {
	verbs []Verb
	sites []string // empty for all
}

// letsDesignGrant says whether the access file lets the design of a site grant a verb.
func (p *Policy) letsDesignGrant(v Verb, siteName string) bool {
	return siteName != "" && siteName == p.design.Site && slices.ContainsFunc(p.limits, func(l designLimit) bool {
		return slices.Contains(l.verbs, v) && allows(l.sites, siteName)
	})
}

// designLets says whether the design lets a caller use a verb on a node, or on the whole site for "": what
// was approved and what is in force both say so, of the same machine.
func (p *Policy) designLets(c Caller, v Verb, siteName, node string) bool {
	if !p.letsDesignGrant(v, siteName) {
		return false
	}
	a, b := p.design.reaches(c, v)
	return a.meets(b, node)
}

// designLetsSome says whether the design lets a caller use a verb on anything of a site.
func (p *Policy) designLetsSome(c Caller, v Verb, siteName string) bool {
	if !p.letsDesignGrant(v, siteName) {
		return false
	}
	a, b := p.design.reaches(c, v)
	if a.isWhole() {
		return b.isWhole() || len(b.nodes()) > 0
	}
	for name := range a.nodes() {
		if a.meets(b, name) {
			return true
		}
	}
	return false
}

func (d *Design) reaches(c Caller, v Verb) (approved, inForce reach) {
	return reachOf(d.Approved, c.rolesIn(d.Approved), v), reachOf(d.InForce, c.rolesIn(d.InForce), v)
}

// rolesIn are the roles that a design gives a caller: its own, and those of its groups.
func (c Caller) rolesIn(g site.Granted) []string {
	switch {
	case c.Name == "":
		return nil
	case c.Kind == Token:
		return g.Tokens[c.Name]
	case c.Kind == Person, c.Kind == OIDC:
		roles := g.People[c.Name]
		for _, group := range c.Groups {
			roles = slices.Concat(roles, g.Groups[group])
		}
		return roles
	}
	return nil
}

// reach is where a verb may be used.
type reach struct {
	roles    []site.GrantedRole // those that have the verb
	machines map[string]string  // of all nodes of the site, see site.Granted
	all      map[string]string  // what nodes gives, once it is known
}

// reachOf is where whoever has some roles may use a verb.
func reachOf(g site.Granted, roles []string, v Verb) reach {
	r := reach{machines: g.Machines}
	for _, name := range roles {
		if role := g.Roles[name]; slices.Contains(role.Verbs, string(v)) {
			r.roles = append(r.roles, role)
		}
	}
	return r
}

func (r reach) isWhole() bool {
	return slices.ContainsFunc(r.roles, func(g site.GrantedRole) bool { return g.Whole })
}

// machine is what identifies the machine of a node that is within reach by its name.
func (r reach) machine(node string) (machine string, within bool) {
	for _, g := range r.roles {
		if machine, within = g.Nodes[node]; within {
			return machine, true
		}
	}
	return "", false
}

// includes says whether the verb may be used on a node, or on the whole site for "".
func (r reach) includes(node string) bool {
	_, within := r.machine(node)
	return r.isWhole() || within
}

// meets says whether the verb may be used on a node by what was approved and by what is in force, or on the whole site
// for "". What was approved of a node by its name is of the machine that it had then, also where the role in force is
// about the whole site now: otherwise a merge that takes the nodes from a role could exchange their machines.
func (r reach) meets(inForce reach, node string) bool {
	if r.isWhole() {
		return inForce.includes(node)
	}
	machine, within := r.machine(node)
	is, there := inForce.machine(node)
	if inForce.isWhole() {
		is, there = inForce.machines[node]
	}
	return within && there && machine == is
}

// nodes are those that the roles name.
func (r reach) nodes() map[string]string {
	switch {
	case len(r.roles) == 1:
		return r.roles[0].Nodes
	case r.all != nil:
		return r.all
	}
	all := map[string]string{}
	for _, g := range r.roles {
		maps.Copy(all, g.Nodes)
	}
	return all
}

// common are the nodes where the verb may be used by what was approved and by what is in force. It is not for what is
// whole by both.
func (r reach) common(inForce reach) map[string]string {
	both := map[string]string{}
	for _, nodes := range []map[string]string{r.nodes(), inForce.nodes()} {
		for name, machine := range nodes {
			if r.meets(inForce, name) {
				both[name] = machine
			}
		}
	}
	return both
}

// without are the nodes of a that b does not have, or has with another machine.
func without(a, b map[string]string) (names []string) {
	for name, machine := range a {
		if had, there := b[name]; !there || had != machine {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// holder is somebody who has roles by a design.
type holder struct {
	kind int // order in which they are shown
	name string
}

var holderKinds = []string{"", "group ", "token "}

func (h holder) String() string { return site.Printable(holderKinds[h.kind] + h.name) }

func (h holder) rolesIn(g site.Granted) []string {
	return []map[string][]string{g.People, g.Groups, g.Tokens}[h.kind][h.name]
}

func holdersOf(all ...site.Granted) (some []holder) {
	for _, g := range all {
		for kind, of := range []map[string][]string{g.People, g.Groups, g.Tokens} {
			for name := range of {
				some = append(some, holder{kind, name})
			}
		}
	}
	slices.SortFunc(some, func(a, b holder) int { return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.name, b.name)) })
	return slices.Compact(some)
}

// reaches makes what a set of roles reaches once, whoever has them and for whichever verb: a role can be about
// thousands of nodes.
type reaches struct {
	granted site.Granted
	made    map[string]*reach
}

func reachesOf(g site.Granted) reaches { return reaches{g, map[string]*reach{}} }

// of is where a holder may use a verb.
func (r reaches) of(h holder, v Verb) *reach {
	var names []string
	for _, name := range h.rolesIn(r.granted) {
		if slices.Contains(r.granted.Roles[name].Verbs, string(v)) {
			names = append(names, name)
		}
	}
	key := fmt.Sprintf("%q", names)
	if r.made[key] == nil {
		made := reachOf(r.granted, names, v)
		made.all = made.nodes()
		r.made[key] = &made
	}
	return r.made[key]
}

// between is what one reach is compared with, once for all who have the same.
type between[T any] map[[2]*reach]T

func (b between[T]) get(x, y *reach, compare func(x, y reach) T) T {
	key := [2]*reach{x, y}
	is, known := b[key]
	if !known {
		is = compare(*x, *y)
		b[key] = is
	}
	return is
}

// Changes says who may do more by another design, and who may do less, a sentence for each who and where. It names
// every node: a person approves exactly this.
func Changes(before, after site.Granted) (more, less []string) {
	return changes(before, after, math.MaxInt)
}

// Summary is Changes with at most ten nodes named in a sentence, for texts of bounded size that nobody approves.
func Summary(before, after site.Granted) (more, less []string) {
	return changes(before, after, mostNamed)
}

func changes(before, after site.Granted, most int) (more, less []string) {
	was, is, texts := reachesOf(before), reachesOf(after), between[string]{}
	for _, h := range holdersOf(before, after) {
		more = append(more, h.changes("may now", was, is, texts, most)...)
		less = append(less, h.changes("may no longer", is, was, texts, most)...)
	}
	return more, less
}

// Both is what was approved and is granted by a design in force as well. Its roles are named for what they allow.
func Both(approved, inForce site.Granted) site.Granted {
	g := site.Granted{Roles: map[string]site.GrantedRole{}, People: map[string][]string{}, Groups: map[string][]string{}, Tokens: map[string][]string{}}
	was, is, common := reachesOf(approved), reachesOf(inForce), between[map[string]string]{}
	for _, h := range holdersOf(approved, inForce) {
		var roles []site.GrantedRole
		for _, m := range Verbs {
			x, y := was.of(h, m.Verb), is.of(h, m.Verb)
			role := site.GrantedRole{Verbs: []string{string(m.Verb)}, Whole: x.isWhole() && y.isWhole()}
			if !role.Whole {
				role.Nodes = common.get(x, y, reach.common)
			}
			if !role.Whole && len(role.Nodes) == 0 {
				continue
			}
			i := slices.IndexFunc(roles, func(r site.GrantedRole) bool { return r.Whole == role.Whole && maps.Equal(r.Nodes, role.Nodes) })
			if i < 0 {
				roles = append(roles, role)
				continue
			}
			roles[i].Verbs = append(roles[i].Verbs, string(m.Verb))
		}
		for _, r := range roles {
			slices.Sort(r.Verbs)
			name := site.Granted{Roles: map[string]site.GrantedRole{"": r}}.Digest()
			g.Roles[name] = r
			of := []map[string][]string{g.People, g.Groups, g.Tokens}[h.kind]
			of[h.name] = append(of[h.name], name)
		}
	}
	return g
}

// changes says where a holder may do something by one reach and not by the other.
func (h holder) changes(may string, less, more reaches, texts between[string], most int) (all []string) {
	type where struct {
		text  string
		verbs []string
	}
	var places []where
	for _, m := range Verbs {
		text := texts.get(less.of(h, m.Verb), more.of(h, m.Verb), func(less, more reach) string { return gained(less, more, most) })
		if text == "" {
			continue
		}
		i := slices.IndexFunc(places, func(w where) bool { return w.text == text })
		if i < 0 {
			i, places = len(places), append(places, where{text: text})
		}
		places[i].verbs = append(places[i].verbs, string(m.Verb))
	}
	for _, w := range places {
		all = append(all, h.String()+" "+may+" "+strings.Join(w.verbs, ", ")+" "+w.text)
	}
	return all
}

// mostNamed is how many nodes or roles a sentence in short names.
const mostNamed = 10

// gained says where more reaches and less does not, with at most so many nodes named; empty for nowhere.
func gained(less, more reach, most int) string {
	switch {
	case less.isWhole():
		return ""
	case more.isWhole() && len(less.nodes()) > 0:
		return "on the whole site, which is more than " + say.Count(len(less.nodes()), "node")
	case more.isWhole():
		return "on the whole site"
	}
	had := less.nodes()
	names := without(more.nodes(), had)
	if len(names) == 0 {
		return ""
	}
	for i, name := range names {
		if _, there := had[name]; there {
			names[i] += " (with another machine)"
		}
	}
	return "on " + say.Count(len(names), "node") + ": " + say.Some(names, most)
}
