package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Access is who may do what by the design. It grants nothing by itself: a file of the daemon's host says
// what the design may grant, and a person approves each change.
type Access struct {
	// Roles are by name. People, Groups and Tokens have the names of their roles.
	Roles  map[string]AccessRole `json:"roles,omitempty"`
	People map[string][]string   `json:"people,omitempty"`
	Groups map[string][]string   `json:"groups,omitempty"`
	Tokens map[string][]string   `json:"tokens,omitempty"`
}

// AccessRole is what a role allows.
type AccessRole struct {
	// Verbs are those of package access.
	Verbs []string `json:"verbs"`
	// Nodes are those that the role is about; nil is the whole site.
	Nodes *Selector `json:"nodes,omitempty"`
}

// Granted is an Access with the nodes that its selectors select. A role that nobody has is not in it.
type Granted struct {
	Roles  map[string]GrantedRole `json:"roles,omitempty"`
	People map[string][]string    `json:"people,omitempty"`
	Groups map[string][]string    `json:"groups,omitempty"`
	Tokens map[string][]string    `json:"tokens,omitempty"`
	// Machines are what identifies the machine of each node of the site, where this is of a design. It is neither
	// recorded nor in the digest: what people approve are the nodes of roles.
	Machines map[string]string `json:"-"`
}

// GrantedRole is what a role allows on which nodes.
type GrantedRole struct {
	Verbs []string `json:"verbs"`
	// Whole says that it is about the whole site.
	Whole bool `json:"whole,omitempty"`
	// Nodes are those that it is about, each with what identifies its machine: a name that another
	// machine gets is another node.
	Nodes map[string]string `json:"nodes,omitempty"`
}

// GrantedState is what a person approved of the access of a design.
type GrantedState struct {
	Granted Granted   `json:"granted"`
	By      string    `json:"by"`
	When    time.Time `json:"when"`
}

// AccessReport is what the design grants, and what of it waits for a person.
type AccessReport struct {
	// Design is what the design in force would grant.
	Design Granted `json:"design"`
	// By is who approved the last change, and When; empty before the first.
	By   string    `json:"by,omitempty"`
	When time.Time `json:"when,omitzero"`
	// Waiting is the digest to approve, and Changes are what it would change, a sentence each; empty if the
	// design in force is what was approved.
	Waiting string   `json:"waiting,omitempty"`
	Changes []string `json:"changes,omitempty"`
}

// Granted is what the site's access grants.
func (s *Site) Granted() Granted {
	a := s.Access
	g := Granted{People: holders(a.People), Groups: holders(a.Groups), Tokens: holders(a.Tokens)}
	if g.IsEmpty() {
		return g
	}
	g.Machines = make(map[string]string, len(s.Nodes))
	for name, n := range s.Nodes {
		g.Machines[name] = machineOf(n)
	}
	for _, all := range []map[string][]string{g.People, g.Groups, g.Tokens} {
		for _, roles := range all {
			for _, name := range roles {
				role, known := a.Roles[name]
				if _, done := g.Roles[name]; !known || done {
					continue
				}
				if g.Roles == nil {
					g.Roles = map[string]GrantedRole{}
				}
				g.Roles[name] = s.grantedRole(role, g.Machines)
			}
		}
	}
	return g
}

// holders are those who have roles, each role once.
func holders(all map[string][]string) map[string][]string {
	var some map[string][]string
	for name, roles := range all {
		if len(roles) == 0 {
			continue
		}
		if some == nil {
			some = map[string][]string{}
		}
		some[name] = slices.Compact(slices.Sorted(slices.Values(roles)))
	}
	return some
}

func (s *Site) grantedRole(r AccessRole, machines map[string]string) GrantedRole {
	g := GrantedRole{Verbs: slices.Compact(slices.Sorted(slices.Values(r.Verbs))), Whole: r.Nodes == nil}
	if g.Whole {
		return g
	}
	g.Nodes = map[string]string{}
	for name, n := range s.Nodes {
		if r.Nodes.Selects(n) {
			g.Nodes[name] = machines[name]
		}
	}
	return g
}

// machineOf is what identifies the machine of a node: the identity of the machine that the design gives it, also by
// `moved`, or where the design states none, where Slipway reaches it.
func machineOf(n *Node) string {
	if i := n.Machine(); i.Known() {
		return strings.Join([]string{i.UUID, i.Serial, i.Slot, i.MAC}, " ")
	}
	var at []string
	for kind, e := range n.Endpoints {
		at = append(at, string(kind)+" "+e.URL)
	}
	slices.Sort(at)
	return strings.Join(append(at, n.Virtual.Hypervisor), " ")
}

// IsEmpty says whether it grants nothing to anybody.
func (g Granted) IsEmpty() bool { return len(g.People)+len(g.Groups)+len(g.Tokens) == 0 }

// DigestOver identifies it as a change of what was approved before: who approves it was shown both.
func (g Granted) DigestOver(approved Granted) string {
	return digestOf("access", approved, g)
}

// Digest identifies it.
func (g Granted) Digest() string {
	return digestOf("access", g)
}

func digestOf(parts ...any) string {
	text, _ := json.Marshal(parts) // texts alone; the keys of maps are sorted
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:DigestDigits]
}
