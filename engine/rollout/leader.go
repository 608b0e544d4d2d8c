package rollout

import "fmt"

// Leader is the reason that the leader of a node's role has not gone through all
// phases.
type Leader struct {
	Role, Name string
	node       *Node // the node that waits
}

// leaderFor holds the nodes of a role until its leader has gone through all phases. It
// does not hold repairs of drift: then the role has been through before.
func (f *Facts) leaderFor(t Try) *Leader {
	r := f.role(t.Node)
	if r == nil || !r.LeaderFirst || t.Step.Drift || !t.isOrdered() {
		return nil
	}
	name := f.leaderOf(t.Node.Design.Role)
	x := f.Nodes.Node(name)
	if x == nil || x == t.Node || f.IsThrough(x) {
		return nil
	}
	return &Leader{Role: t.Node.Design.Role, Name: name, node: t.Node}
}

// leaderOf returns the leader of a role: the one that the design names, or the first
// by name. It never returns a node that is disabled or away, since nobody waits for
// that. The design has the role.
func (f *Facts) leaderOf(role string) string {
	if name, known := f.leaders[role]; known {
		return name
	}
	first := ""
	if n := f.Nodes.Node(f.Site.Roles[role].Leader); n != nil && f.Site.Unused(n.Design) == "" {
		first = n.Name()
	}
	if first == "" {
		for n := range f.Nodes.InRole(role) {
			if f.inUse(n) && (first == "" || n.Name() < first) {
				first = n.Name()
			}
		}
	}
	if f.leaders == nil {
		f.leaders = map[string]string{}
	}
	f.leaders[role] = first
	return first
}

// Verdict implements Reason.
func (r *Leader) Verdict(f *Facts) Verdict {
	v := Verdict{
		Sentence: fmt.Sprintf("the leader of role %s goes first: it waits for %s", r.Role, r.Name),
		Release:  r.Name + " coming in-sync", For: []string{r.Name},
		Waits: []Topic{RoleTopic(r.Role), PlaceTopic(r.Name)}, Watched: []string{r.Name},
	}
	x := f.Nodes.Node(r.Name)
	if x.Phase != "" {
		v.Detail = r.Name + " is in " + x.Phase
	} else if h := f.Health(x); !h.IsFit() {
		v.Detail, v.Release = r.Name+" is "+h.String(), r.Name+" being healthy"
	}
	return f.inTheWay(v, r.node, r.Name)
}
