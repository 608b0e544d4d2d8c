package github

import (
	"fmt"
	"maps"
	"strings"
)

// User is an account: a person, an organization, or the bot of an App.
type User struct {
	s     *Server
	id    int64
	login string
	kind  string // User, Organization or Bot
	gone  bool
}

// User is the account of that name, made when it is not there.
func (s *Server) User(login string) *User {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user(login)
}

// Organization makes an organization.
func (s *Server) Organization(login string) *User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.user(login)
	u.kind = "Organization"
	return u
}

// Login is the account's name.
func (u *User) Login() string { return u.login }

// Delete ends the account. What it wrote and merged stays, and is nobody's.
func (u *User) Delete() {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.gone = true
}

// user is an account by its name. Those with "[bot]" in it are programs.
func (s *Server) user(login string) *User {
	key := strings.ToLower(login)
	if s.users[key] == nil {
		kind := "User"
		if strings.HasSuffix(login, "[bot]") {
			kind = "Bot"
		}
		s.users[key] = &User{s: s, id: s.nextID(), login: login, kind: kind}
	}
	return s.users[key]
}

// orNull is null for an account that is gone.
func (u *User) orNull() any {
	if u == nil || u.gone {
		return nil
	}
	return u.view()
}

// orGhost is the account that stands for those that are gone, where GitHub never
// says null.
func (u *User) orGhost() object {
	if u.gone {
		return u.s.user("ghost").view()
	}
	return u.view()
}

// userLinks are the addresses below a user's own.
var userLinks = map[string]string{
	"url": "", "followers_url": "/followers", "following_url": "/following{/other_user}", "gists_url": "/gists{/gist_id}",
	"starred_url": "/starred{/owner}{/repo}", "subscriptions_url": "/subscriptions", "organizations_url": "/orgs",
	"repos_url": "/repos", "events_url": "/events{/privacy}", "received_events_url": "/received_events",
}

func (u *User) view() object {
	v := object{
		"login": u.login, "id": u.id, "node_id": node("U", u.id), "avatar_url": fmt.Sprintf("%s/avatars/u/%d", u.s.url, u.id), "gravatar_id": "",
		"html_url": u.s.url + "/" + u.login, "type": u.kind, "site_admin": false, "user_view_type": "public",
	}
	for name, tail := range userLinks {
		v[name] = u.s.url + apiRoot + "/users/" + u.login + tail
	}
	return v
}

func node(kind string, id int64) string { return fmt.Sprintf("%s_%08d", kind, id) }

// getUser is the user of the path, or who asks.
func (c *call) getUser() answer {
	u := c.who.user
	if login, named := c.params["username"]; named {
		u = c.users[strings.ToLower(login)]
	}
	if u == nil {
		return notFound
	}
	if c.who.install != nil && c.params["username"] == "" {
		return *refused("Resource not accessible by integration")
	}
	v := object{
		"name": u.login, "company": nil, "blog": "", "location": nil, "email": nil, "hireable": nil, "bio": nil, "public_repos": 0,
		"public_gists": 0, "followers": 0, "following": 0, "created_at": stamp(born), "updated_at": stamp(born),
	}
	maps.Copy(v, u.view())
	return ok(v)
}

// getPermission is what a user may in the repository.
func (c *call) getPermission() answer {
	u := c.users[strings.ToLower(c.params["username"])]
	if u == nil {
		return *failed(404, c.params["username"]+" is not a user", "/rest")
	}
	role := c.repo.role(u)
	v := u.view()
	v["permissions"] = object{"pull": role >= Read, "triage": role >= Triage, "push": role >= Write, "maintain": role >= Maintain, "admin": role >= Admin}
	v["role_name"] = role.String()
	return ok(object{"permission": role.legacy(), "role_name": role.String(), "user": v})
}
