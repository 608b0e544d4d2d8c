package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// berlin is a site with three nodes in two racks, and an access.
func berlin(a site.Access) *site.Site {
	s := &site.Site{Name: "berlin", Access: a, Nodes: map[string]*site.Node{}}
	for name, rack := range map[string]string{"n1": "r1", "n2": "r1", "n3": "r2"} {
		s.Nodes[name] = &site.Node{Name: name, Rack: rack, Role: "compute", Identity: site.Identity{UUID: "uuid-" + name}}
	}
	return s
}

func inRack(racks ...string) *site.Selector { return &site.Selector{Match: site.Match{Racks: racks}} }

// usual gives ana rack r1, the group ops the whole site to read, and a token a retry.
func usual() site.Access {
	return site.Access{
		Roles: map[string]site.AccessRole{
			"viewer": {Verbs: []string{"read"}},
			"oncall": {Verbs: []string{"pause", "approve"}, Nodes: inRack("r1")},
			"robot":  {Verbs: []string{"retry"}},
			"spare":  {Verbs: []string{"export"}},
		},
		People: map[string][]string{"ana": {"oncall", "viewer"}},
		Groups: map[string][]string{"ops": {"viewer"}},
		Tokens: map[string][]string{"ci": {"robot"}},
	}
}

func lets(t *testing.T, file string, approved, inForce *site.Site, c Caller, v Verb, node string) bool {
	t.Helper()
	p, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	p = p.With(Design{Site: "berlin", Approved: approved.Granted(), InForce: inForce.Granted()})
	err = p.Allows(c, v, Target{Site: "berlin", Node: node})
	if err != nil && !errors.Is(err, ErrDenied) {
		t.Fatal(err)
	}
	return err == nil
}

func TestDesignGrants(t *testing.T) {
	ana, ci := Caller{Kind: Person, Name: "ana"}, Caller{Kind: Token, Name: "ci"}
	op := Caller{Kind: OIDC, Name: "bob", Groups: []string{"ops"}}
	none, now := berlin(site.Access{}), berlin(usual())
	moved, swapped, fewer, evil := berlin(usual()), berlin(usual()), berlin(usual()), berlin(usual())
	moved.Nodes["n3"].Rack = "r1"
	swapped.Nodes["n1"].Identity.UUID = "uuid-n3"
	delete(fewer.Access.People, "ana")
	evil.Access.Roles["robot"] = site.AccessRole{Verbs: []string{"retry", "approve", "incident", "release"}}
	evil.Access.People["eve"] = []string{"oncall"}
	eve := Caller{Kind: Person, Name: "eve"}
	boundless := func(s *site.Site) *site.Site {
		s.Access.Roles["oncall"] = site.AccessRole{Verbs: []string{"pause", "approve"}}
		return s
	}
	unbound, exchanged := boundless(berlin(usual())), boundless(berlin(usual()))
	exchanged.Nodes["n1"].Identity, exchanged.Nodes["n3"].Identity = exchanged.Nodes["n3"].Identity, exchanged.Nodes["n1"].Identity
	for i, x := range []struct {
		file              string
		approved, inForce *site.Site
		c                 Caller
		v                 Verb
		node              string
		want              bool
	}{
		{"", now, now, ana, Pause, "n1", false}, // the file does not let the design grant
		{"design: false", now, now, ana, Pause, "n1", false},
		{"design: true", now, now, ana, Pause, "n1", true},
		{"design: true site=berlin", now, now, ana, Pause, "n1", true},
		{"design: true site=paris", now, now, ana, Pause, "n1", false},
		{"design: read", now, now, ana, Pause, "n1", false},
		{"design: read\ndesign: pause", now, now, ana, Pause, "n1", true},
		{"design: true", none, now, ana, Pause, "n1", false}, // merged and not approved
		{"design: true", now, none, ana, Pause, "n1", false}, // taken away
		{"design: true", now, fewer, ana, Pause, "n1", false},
		{"design: true", now, now, ana, Pause, "n3", false},
		{"design: true", now, now, ana, Pause, "", false},
		{"design: true", now, now, ana, Pause, "n9", false},
		{"design: true", now, now, ana, Read, "", true},
		{"design: true", now, now, ana, Read, "n3", true},
		{"design: true", now, moved, ana, Pause, "n3", false}, // a merge moved it into her rack
		{"design: true", moved, moved, ana, Pause, "n3", true},
		{"design: true", now, swapped, ana, Pause, "n1", false}, // the name has another machine
		{"design: true", now, swapped, ana, Pause, "n2", true},
		{"design: true", now, swapped, ana, Read, "n1", true},
		{"design: true", now, unbound, ana, Approve, "n1", true},
		{"design: true", now, unbound, ana, Approve, "n3", false},
		{"design: true", now, unbound, ana, Approve, "", false},
		{"design: true", now, exchanged, ana, Approve, "n1", false}, // another machine, by a role that has lost its nodes
		{"design: true", now, exchanged, ana, Approve, "n2", true},
		{"design: true", exchanged, exchanged, ana, Approve, "n1", true},
		{"design: true", unbound, exchanged, ana, Approve, "n1", true}, // the whole site has no names
		{"design: true", exchanged, now, ana, Approve, "n1", true},
		{"design: true", now, now, op, Read, "n3", true},
		{"design: true", now, now, op, Pause, "n1", false},
		{"design: true", now, now, Caller{Kind: OIDC, Name: "ana"}, Pause, "n1", true},
		{"design: true", now, now, Caller{Kind: Person, Name: "ops"}, Read, "n1", false},
		{"design: true", now, now, Caller{Kind: Person, Name: "Ana"}, Pause, "n1", false},
		{"design: true", now, now, Caller{Kind: Nobody, Name: "ana"}, Pause, "n1", false},
		{"design: true", now, now, Caller{Kind: Token, Name: "ana"}, Pause, "n1", false},
		{"design: true", now, now, ci, Retry, "n3", true},
		{"design: true", evil, evil, ci, Approve, "n1", false}, // whatever the design says
		{"design: true", evil, evil, ci, Incident, "", false},
		{"design: true", now, evil, eve, Approve, "n1", false},
		{"design: true", now, now, Caller{Kind: User, Name: "root"}, Approve, "", true},
	} {
		if got := lets(t, x.file, x.approved, x.inForce, x.c, x.v, x.node); got != x.want {
			t.Errorf("%d: %q lets %s %s %q: %v", i, x.file, x.c, x.v, x.node, got)
		}
	}
	withGrant := berlin(site.Access{Roles: map[string]site.AccessRole{"lead": {Verbs: []string{"grant"}}}, People: map[string][]string{"ana": {"lead"}}})
	if lets(t, "design: true", withGrant, withGrant, ana, Grant, "") || !lets(t, "design: true grant", withGrant, withGrant, ana, Grant, "") {
		t.Error("the design grants \"grant\" by true, or not where the file says so")
	}
}

func TestDesignLines(t *testing.T) {
	for _, line := range []string{"design:", "design: maybe", "design: true rack=r1", "design: site=berlin", "design: true site=", "design berlin: true", "design: false read", "design: true site=a site=b"} {
		if _, err := Parse(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}

// A policy of one site grants nothing at another one, and MaySome agrees with Allows.
func TestDesignIsOfOneSite(t *testing.T) {
	p, _ := Parse("design: true")
	g := berlin(usual()).Granted()
	p = p.With(Design{Site: "berlin", Approved: g, InForce: g})
	ana := Caller{Kind: Person, Name: "ana"}
	other := berlin(usual()) // both her machines are exchanged, and her role has lost its nodes
	other.Nodes["n1"].Identity.UUID, other.Nodes["n2"].Identity.UUID = "x", "y"
	other.Access.Roles["oncall"] = site.AccessRole{Verbs: []string{"pause"}}
	if p.With(Design{"berlin", g, other.Granted()}).MaySome(ana, Pause, "berlin") {
		t.Error("may pause some machine that nobody approved")
	}
	for _, x := range []struct {
		site string
		v    Verb
		want bool
	}{{"berlin", Pause, true}, {"berlin", Read, true}, {"berlin", Retry, false}, {"paris", Pause, false}, {"paris", Read, false}, {"", Read, false}} {
		if p.MaySome(ana, x.v, x.site) != x.want {
			t.Errorf("%s of some of %q: not %v", x.v, x.site, x.want)
		}
	}
	if p.Allows(ana, Read, Target{Site: "paris"}) == nil || !p.Names(ana) || p.Names(Caller{Kind: Person, Name: "eve"}) {
		t.Error("another site, or another person")
	}
}

func TestDenialNamesTheRole(t *testing.T) {
	p, _ := Parse("role admin: pause\nrole viewer: read\nperson ana: viewer\ndesign: true")
	now, later := berlin(usual()), berlin(usual())
	later.Nodes["n3"].Rack = "r1"
	for _, x := range []struct {
		inForce *site.Site
		c       Caller
		node    string
		want    string
	}{
		{now, Caller{Kind: Person, Name: "bob"}, "n1", "allows it"},
		{now, Caller{Kind: Token, Name: "ci"}, "n1", "that needs one of the roles admin (access file), oncall (design)"},
		{now, Caller{Kind: Person, Name: "ana"}, "n3", "one of the roles admin (access file)"},
		{later, Caller{Kind: Person, Name: "ana"}, "n3", "was not approved: `slipway grant` shows it"},
	} {
		err := p.With(Design{"berlin", now.Granted(), x.inForce.Granted()}).Allows(x.c, Pause, Target{Site: "berlin", Node: x.node})
		if err == nil || !strings.HasSuffix(err.Error(), x.want) {
			t.Errorf("%s: %v", x.c, err)
		}
	}
}

func TestChanges(t *testing.T) {
	now := berlin(usual())
	for name, x := range map[string]struct {
		edit       func(*site.Site)
		more, less []string
	}{
		"nothing": {func(*site.Site) {}, nil, nil},
		"a person": {func(s *site.Site) { s.Access.People["eve"] = []string{"oncall"} },
			[]string{"eve may now pause, approve on 2 nodes: n1, n2"}, nil},
		"a person leaves": {func(s *site.Site) { delete(s.Access.People, "ana") },
			nil, []string{"ana may no longer read on the whole site", "ana may no longer pause, approve on 2 nodes: n1, n2"}},
		"a rack": {func(s *site.Site) { s.Nodes["n3"].Rack = "r1" }, []string{"ana may now pause, approve on 1 node: n3"}, nil},
		"a name": {func(s *site.Site) { s.Nodes["n4"] = s.Nodes["n1"]; delete(s.Nodes, "n1") },
			[]string{"ana may now pause, approve on 1 node: n4"}, []string{"ana may no longer pause, approve on 1 node: n1"}},
		"a machine": {func(s *site.Site) { s.Nodes["n1"].Identity.UUID = "uuid-n3" },
			[]string{"ana may now pause, approve on 1 node: n1 (with another machine)"}, []string{"ana may no longer pause, approve on 1 node: n1 (with another machine)"}},
		"no bounds": {func(s *site.Site) { s.Access.Roles["oncall"] = site.AccessRole{Verbs: []string{"pause", "approve"}} },
			[]string{"ana may now pause, approve on the whole site, which is more than 2 nodes"}, nil},
		"a verb of a group": {func(s *site.Site) { s.Access.Roles["viewer"] = site.AccessRole{Verbs: []string{"read", "audit"}} },
			[]string{"ana may now audit on the whole site", "group ops may now audit on the whole site"}, nil},
		"a token": {func(s *site.Site) { s.Access.Tokens["ci"] = []string{"viewer"} },
			[]string{"token ci may now read on the whole site"}, []string{"token ci may no longer retry on the whole site"}},
		"the name of a role": {func(s *site.Site) {
			s.Access.Roles["night"] = s.Access.Roles["oncall"]
			s.Access.People["ana"] = []string{"viewer", "night"}
		}, nil, nil},
	} {
		after := berlin(usual())
		x.edit(after)
		more, less := Changes(now.Granted(), after.Granted())
		if !slices.Equal(more, x.more) || !slices.Equal(less, x.less) {
			t.Errorf("%s: more %q, less %q", name, more, less)
		}
	}
}

// What both grant is less than each, and nothing else is: for every pair of some designs, tried by every verb on
// every node. It is the same once more, and its digest does not depend on the order.
func TestBoth(t *testing.T) {
	var all []site.Granted
	for i := range 64 {
		s := berlin(usual())
		if i&1 > 0 {
			s.Nodes["n3"].Rack = "r1"
		}
		if i&2 > 0 {
			s.Nodes["n1"].Identity.UUID = "other"
		}
		if i&4 > 0 {
			s.Access.Roles["oncall"] = site.AccessRole{Verbs: []string{"pause", "retry"}}
		}
		if i&8 > 0 {
			s.Access.People["ana"] = []string{"oncall", "rack"}
			s.Access.Roles["rack"] = site.AccessRole{Verbs: []string{"pause", "read"}, Nodes: inRack("r2")}
		}
		if i&16 > 0 {
			delete(s.Access.Tokens, "ci")
		}
		if i&32 > 0 {
			s.Access.Roles["oncall"] = site.AccessRole{Verbs: s.Access.Roles["oncall"].Verbs}
		}
		all = append(all, s.Granted())
	}
	callers := []Caller{{Kind: Person, Name: "ana"}, {Kind: Token, Name: "ci"}, {Kind: OIDC, Name: "bob", Groups: []string{"ops"}}}
	allowed := func(approved, inForce site.Granted) string {
		p, _ := Parse("design: true")
		p = p.With(Design{"berlin", approved, inForce})
		var text strings.Builder
		for _, c := range callers {
			for _, m := range Verbs {
				for _, node := range []string{"", "n1", "n2", "n3"} {
					fmt.Fprint(&text, p.designLets(c, m.Verb, "berlin", node), " ")
				}
			}
		}
		return text.String()
	}
	for i, a := range all {
		for j, b := range all {
			both := Both(a, b)
			if got, want := allowed(both, both), allowed(a, b); got != want {
				t.Fatalf("%d and %d:\n%s\n%s", i, j, got, want)
			}
			if _, less := Changes(both, Both(both, b)); len(less) > 0 || Both(b, a).Digest() != both.Digest() && i&2 == j&2 {
				t.Fatalf("%d and %d: %q", i, j, less)
			}
		}
	}
}

// What is compared is compared once for all who have the same roles, and the sentences are the same.
func TestChangesOfManyWithTheSameRoles(t *testing.T) {
	a := usual()
	a.Roles["rack"] = site.AccessRole{Verbs: []string{"pause", "retry"}, Nodes: inRack("r2")}
	for i := range 10 {
		a.People[fmt.Sprint("p", i)] = []string{"oncall", "rack"}
	}
	now, none := berlin(a).Granted(), berlin(site.Access{}).Granted()
	more, _ := Changes(none, now)
	for i := range 10 {
		for _, want := range []string{"may now approve on 2 nodes: n1, n2", "may now pause on 3 nodes: n1, n2, n3", "may now retry on 1 node: n3"} {
			if !slices.Contains(more, fmt.Sprintf("p%d %s", i, want)) {
				t.Errorf("p%d: no %q in %q", i, want, more)
			}
		}
	}
	was, is, once := reachesOf(none), reachesOf(now), between[string]{}
	for i := range 10 {
		holder{0, fmt.Sprint("p", i)}.changes("may now", was, is, once, 10)
	}
	if len(is.made) != 4 || len(once) != 4 { // nothing, and one or both of the roles
		t.Errorf("made %d, compared %d", len(is.made), len(once))
	}
}

// A role that was merged and not approved waits, where the access file lets the design grant anything.
func TestWaits(t *testing.T) {
	now, none := berlin(usual()).Granted(), site.Granted{}
	ana, op := Caller{Kind: OIDC, Name: "ana"}, Caller{Kind: OIDC, Name: "bob", Groups: []string{"ops"}}
	for i, x := range []struct {
		file              string
		approved, inForce site.Granted
		c                 Caller
		want              bool
	}{
		{"design: true", none, now, ana, true},
		{"design: true site=berlin", none, now, op, true},
		{"design: true", none, now, Caller{Kind: OIDC, Name: "eve"}, false},
		{"design: true", now, now, ana, false},
		{"design: true", now, none, ana, false},
		{"design: true site=paris", none, now, ana, false},
		{"", none, now, ana, false},
	} {
		p, err := Parse(x.file)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.With(Design{"berlin", x.approved, x.inForce}).Waits(x.c); got != x.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}

// What is approved by one digest must read otherwise than what is approved by another.
func TestChangesNameEachNode(t *testing.T) {
	of := func(last string) site.Granted {
		nodes := map[string]string{last: "uuid " + last}
		for i := range 10 {
			nodes[fmt.Sprintf("a%02d", i)] = "x"
		}
		return site.Granted{People: map[string][]string{"eve": {"r"}}, Roles: map[string]site.GrantedRole{"r": {Verbs: []string{"approve"}, Nodes: nodes}}}
	}
	x, y := of("spare-1"), of("vault-1")
	mx, _ := Changes(site.Granted{}, x)
	my, _ := Changes(site.Granted{}, y)
	if slices.Equal(mx, my) {
		t.Error("a person is shown the same for a right over vault-1 as for one over spare-1")
	}
}
