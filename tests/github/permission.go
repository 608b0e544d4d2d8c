package github

import (
	"net/http"
	"slices"
	"strings"
)

// Role is what a user may in a repository.
type Role int

// The roles, each with all rights of those before.
const (
	NoRole Role = iota
	Read
	Triage
	Write
	Maintain
	Admin
)

var roleNames = [...]string{"none", "read", "triage", "write", "maintain", "admin"}

func (r Role) String() string { return roleNames[r] }

// legacy is the role as the field permission has it, which knows four only
// (docs.github.com, "Get repository permissions for a user").
func (r Role) legacy() string {
	switch r {
	case Triage:
		return Read.String()
	case Maintain:
		return Write.String()
	}
	return r.String()
}

// role is a user's in a repository; everybody reads a public one.
func (r *Repository) role(u *User) Role {
	if u == r.owner {
		return Admin
	}
	role := r.roles[u]
	if role == NoRole && !r.private {
		return Read
	}
	return role
}

// covers says whether what a token is for includes a repository.
func (i *identity) covers(r *Repository) bool {
	switch {
	case i.install != nil:
		return i.install.has(r) && (i.repos == nil || slices.Contains(i.repos, r))
	case i.permissions != nil:
		return slices.Contains(i.repos, r) && r.role(i.user) >= Read
	case i.user != nil && i.app == nil:
		return r.role(i.user) >= Read && i.scoped(r)
	}
	return false
}

// scoped says whether a classic token's scopes reach a repository.
func (i *identity) scoped(r *Repository) bool {
	return slices.Contains(i.scopes, "repo") || (!r.private && slices.Contains(i.scopes, "public_repo"))
}

// may says whether the caller may use a route on a repository, as GitHub
// does: what one may not see is not there (404), what one sees and may not do
// is forbidden (403).
func (i *identity) may(r *Repository, to *route) *answer {
	covered := i.covers(r) || i.statusOnly(r, to)
	switch {
	case !covered && r.private:
		return &notFound
	case !to.writes() && !r.private && to.role <= Read:
		return nil
	case i.user == nil:
		return &unauthorized
	case !covered && i.install == nil:
		return &notFound
	case i.permissions != nil || i.install != nil:
		return i.permitted(r, to)
	case to.appOnly:
		return refused("You must authenticate via a GitHub App.")
	}
	return i.ranked(r, to)
}

// permitted is may for whoever has permissions by name.
func (i *identity) permitted(r *Repository, to *route) *answer {
	if !i.covers(r) || !i.permissions.allows(to.needs) {
		kind := "personal access token"
		if i.install != nil {
			kind = "integration"
		}
		a := refused("Resource not accessible by " + kind)
		a.header = http.Header{"X-Accepted-Github-Permissions": {accepted(to.needs)}}
		return a
	}
	if i.install != nil {
		return nil
	}
	if to.appOnly {
		return refused("Resource not accessible by personal access token")
	}
	return i.ranked(r, to)
}

// ranked is may for users, by their role.
func (i *identity) ranked(r *Repository, to *route) *answer {
	if r.role(i.user) >= to.role {
		return nil
	}
	if to.denied == "" {
		return &notFound
	}
	return refused(to.denied)
}

// statusOnly is the scope repo:status, which gives statuses without code.
func (i *identity) statusOnly(r *Repository, to *route) bool {
	return i.user != nil && r.role(i.user) >= Read && slices.Contains(i.scopes, "repo:status") &&
		slices.ContainsFunc(to.needs, func(n string) bool { return strings.HasPrefix(n, "statuses:") })
}

// accepted is the header that names what would have been enough.
func accepted(needs []string) string {
	var all []string
	for _, n := range needs {
		all = append(all, strings.ReplaceAll(n, ":", "="))
	}
	return strings.Join(all, "; ")
}
