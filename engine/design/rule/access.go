package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// accessRules: does site.access give the rights that its author means?
var accessRules = []Rule{
	{
		Code: "access-role", Severity: site.SeverityError,
		What:  "The roles of people, groups and tokens in `site.access` are among its roles, each named once.",
		Why:   "Somebody would lack a right, and learn it when they need it.",
		Wrong: `site: access: {roles: "viewer": verbs: ["read"], people: "ana@example.org": ["viewers"]}`,
		Right: `site: access: {roles: "viewer": verbs: ["read"], people: "ana@example.org": ["viewer"]}`,
		Site:  accessRoles,
	},
	{
		Code: "access-name", Severity: site.SeverityError,
		What:  "The names of people, groups and tokens in `site.access` are printable ASCII, as callers have them, and differ by more than upper and lower case.",
		Why:   "A name that looks like another one would give somebody else the right.",
		Wrong: `site: access: {roles: "viewer": verbs: ["read"], people: {"ana@example.org": ["viewer"], "Ana@example.org": ["viewer"]}}`,
		Right: `site: access: {roles: "viewer": verbs: ["read"], people: "ana@example.org": ["viewer"]}`,
		Site:  accessNames,
	},
	{
		Code: "access-token", Severity: site.SeverityError, Firm: true,
		What:  "No token has a role with a verb that is for people only: " + personsVerbs() + ".",
		Why:   "A program cannot answer for what it approves, and whoever reads its token could use it from anywhere. The daemon refuses these verbs to tokens in any case.",
		Wrong: `site: access: {roles: "robot": verbs: ["approve"], tokens: "ci": ["robot"]}`,
		Right: `site: access: {roles: "robot": verbs: ["retry"], tokens: "ci": ["robot"]}`,
		Site:  accessTokens,
	},
	{
		Code: "access-whole", Severity: site.SeverityError,
		What:  "A role with `nodes` has no verb that is about the site as a whole: " + strings.Join(wholeVerbs, ", ") + ".",
		Why:   "The role would not allow it: with `nodes` it is about these nodes alone.",
		Wrong: `site: access: {roles: "oncall": {verbs: ["pause", "audit"], nodes: racks: ["r1"]}, people: "ana@example.org": ["oncall"]}`,
		Right: `site: access: {roles: {"oncall": {verbs: ["pause"], nodes: racks: ["r1"]}, "auditor": verbs: ["audit"]}, people: "ana@example.org": ["oncall", "auditor"]}`,
		Site:  accessWhole,
	},
	{
		Code: "access-size", Severity: site.SeverityError, Firm: true,
		What: fmt.Sprintf("`site.access` has at most %d roles with `nodes`, and at most %d people, groups and tokens.", mostRoles, mostHolders),
		Why:  "Slipway keeps all nodes of each role in memory, and names each right that a change gives or takes.",
		Wrong: `-- many.cue --
package clean

import "list"

site: access: {
	for i in list.Range(0, 101, 1) {
		roles: "role-\(i)": {verbs: ["read"], nodes: racks: ["r1"]}
		groups: "group-\(i)": ["role-\(i)"]
	}
}
`,
		Right: `site: access: {roles: "oncall": {verbs: ["pause"], nodes: racks: ["r1"]}, groups: "oncall": ["oncall"]}`,
		Site:  accessSize,
	},
}

// mostRoles and mostHolders bound what a daemon keeps of the access of a site, and names of its changes: some 100 bytes for each
// node of each role, and its name for each node of each holder.
const (
	mostRoles   = 100
	mostHolders = 1000
)

func accessSize(s *site.Site) []site.Finding {
	roles := 0
	for _, r := range s.Access.Roles {
		if r.Nodes != nil {
			roles++
		}
	}
	if roles > mostRoles {
		return []site.Finding{wrong("site.access.roles", fmt.Sprintf("there are %d roles with `nodes`", roles),
			fmt.Sprintf("Have at most %d roles with `nodes`: select more nodes by each, or leave `nodes` out of roles for the whole site.", mostRoles))}
	}
	if n := len(s.Access.People) + len(s.Access.Groups) + len(s.Access.Tokens); n > mostHolders {
		return []site.Finding{wrong("site.access", fmt.Sprintf("there are %d people, groups and tokens", n),
			fmt.Sprintf("Name at most %d: give roles to groups instead of people.", mostHolders))}
	}
	return nil
}

// wholeVerbs are about no node.
var wholeVerbs = []string{"audit", "artifacts", "grant", "take-over", "export"}

func personsVerbs() string {
	var all []string
	for _, m := range access.Verbs {
		if m.ForPersons {
			all = append(all, string(m.Verb))
		}
	}
	return strings.Join(all, ", ")
}

// accessHolders are the people, groups and tokens of an access, by the path of each.
func accessHolders(a site.Access) map[string][]string {
	all := map[string][]string{}
	for kind, some := range map[string]map[string][]string{"people": a.People, "groups": a.Groups, "tokens": a.Tokens} {
		for name, roles := range some {
			all["site.access."+kind+"."+name] = roles
		}
	}
	return all
}

func accessRoles(s *site.Site) []site.Finding {
	var found []site.Finding
	holders := accessHolders(s.Access)
	known := keys(s.Access.Roles)
	for _, path := range keys(holders) {
		for _, role := range holders[path] {
			if _, is := s.Access.Roles[role]; !is && !s.Origins.Has("site.access.roles."+role) {
				found = append(found, wrong(path, fmt.Sprintf("site.access has no role %q%s", role, DidYouMean(role, known)), "Correct the name, or declare the role under site.access.roles."))
			}
		}
		for _, role := range repeated(holders[path]) {
			found = append(found, wrong(path, fmt.Sprintf("the role %s is named twice", role), "Remove one of the two."))
		}
	}
	return found
}

func accessNames(s *site.Site) []site.Finding {
	var found []site.Finding
	for kind, some := range map[string]map[string][]string{"people": s.Access.People, "groups": s.Access.Groups, "tokens": s.Access.Tokens} {
		lower := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(some)) {
			path := "site.access." + kind + "." + name
			switch err := access.CheckName(name); {
			case err != nil:
				found = append(found, wrong(path, fmt.Sprintf("%+q cannot be the name of a caller: %v", name, err), "Write the name as `slipway audit` shows it. Type it again where it may have letters of another alphabet."))
			case kind == "tokens" && !access.IsTokenName(name):
				found = append(found, wrong(path, fmt.Sprintf("%q cannot be the name of a token", name), "Use the name that `slipway token list` shows: lower case letters, digits and hyphens."))
			}
			if other, is := lower[strings.ToLower(name)]; is {
				found = append(found, wrong(path, fmt.Sprintf("%q and %q differ in upper and lower case alone", name, other), "Keep the one that `slipway audit` shows: names of callers are compared exactly."))
			}
			lower[strings.ToLower(name)] = name
		}
	}
	return found
}

func accessTokens(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, token := range keys(s.Access.Tokens) {
		for _, role := range s.Access.Tokens[token] {
			for _, m := range access.Verbs {
				if m.ForPersons && slices.Contains(s.Access.Roles[role].Verbs, string(m.Verb)) {
					found = append(found, wrong("site.access.tokens."+token, fmt.Sprintf("the token %s has the role %s with %q, which is for people only", token, role, m.Verb),
						"Give the token a role without it, and the verb to a person."))
				}
			}
		}
	}
	return found
}

func accessWhole(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, name := range keys(s.Access.Roles) {
		r := s.Access.Roles[name]
		if r.Nodes == nil && !s.Origins.Has("site.access.roles."+name+".nodes") {
			continue
		}
		for _, verb := range wholeVerbs {
			if slices.Contains(r.Verbs, verb) {
				found = append(found, wrong("site.access.roles."+name+".verbs", fmt.Sprintf("the role %s has nodes, and %q is about the site as a whole", name, verb),
					"Move the verb into a role without nodes."))
			}
		}
	}
	return found
}
