package github

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// tokenLife is how long an installation's token is good
// (docs.github.com, "Create an installation access token for an app").
const tokenLife = time.Hour

// App is a GitHub App.
type App struct {
	s           *Server
	id          int64
	slug        string
	owner       *User
	bot         *User
	key         *rsa.PrivateKey
	permissions Permissions
	installs    []*Installation
}

// Installation is an App as installed on an account, for some of its
// repositories or all.
type Installation struct {
	app       *App
	id        int64
	account   *User
	repos     []*Repository // nil for all of the account
	suspended bool
}

// App makes an App, with what it asks for. It writes as slug[bot].
func (s *Server) App(slug string, p Permissions) *App {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &App{s: s, id: s.nextID(), slug: slug, owner: s.user("maker"), bot: s.user(slug + "[bot]"), key: key, permissions: maps.Clone(p)}
	a.bot.kind = "Bot"
	a.permissions["metadata"] = "read"
	s.apps = append(s.apps, a)
	return a
}

// ID is what a JWT is issued by.
func (a *App) ID() int64 { return a.id }

// Login is as whom the App writes.
func (a *App) Login() string { return a.bot.login }

// Key is the private key, as PEM.
func (a *App) Key() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(a.key)})
}

func (a *App) clientID() string { return fmt.Sprintf("Iv1.%016x", a.id) }

// Install installs the App on an account, for all of its repositories unless
// some are named.
func (a *App) Install(login string, repos ...*Repository) *Installation {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	i := &Installation{app: a, id: a.s.nextID(), account: a.s.user(login), repos: repos}
	a.installs = append(a.installs, i)
	return i
}

// ID is what the API knows the installation by.
func (i *Installation) ID() int64 { return i.id }

// Token is a token of the installation, as the API gives one.
func (i *Installation) Token() string {
	i.app.s.mu.Lock()
	defer i.app.s.mu.Unlock()
	return i.app.s.token("ghs_", i.identity())
}

// Suspend takes the installation's rights away, or gives them back.
func (i *Installation) Suspend(suspended bool) {
	i.app.s.mu.Lock()
	defer i.app.s.mu.Unlock()
	i.suspended = suspended
}

// Uninstall ends the installation and its tokens.
func (i *Installation) Uninstall() {
	i.app.s.mu.Lock()
	defer i.app.s.mu.Unlock()
	i.app.installs = slices.DeleteFunc(i.app.installs, func(o *Installation) bool { return o == i })
	maps.DeleteFunc(i.app.s.identities, func(_ string, w *identity) bool { return w.install == i })
}

func (i *Installation) identity() *identity {
	return &identity{user: i.app.bot, app: i.app, install: i, permissions: i.app.permissions, expires: i.app.s.now().Add(tokenLife)}
}

func (i *Installation) has(r *Repository) bool {
	return r.owner == i.account && (i.repos == nil || slices.Contains(i.repos, r))
}

func (i *Installation) repositories() (all []*Repository) {
	for _, r := range i.app.s.repos {
		if i.has(r) {
			all = append(all, r)
		}
	}
	return all
}

func (a *App) view() object {
	return object{
		"id": a.id, "slug": a.slug, "client_id": a.clientID(), "node_id": node("A", a.id), "owner": a.owner.view(), "name": a.slug, "description": nil,
		"external_url": a.s.url, "html_url": a.s.url + "/apps/" + a.slug, "created_at": stamp(born), "updated_at": stamp(born),
		"permissions": a.permissions, "events": []string{},
	}
}

func (a *App) orNull() any {
	if a == nil {
		return nil
	}
	return a.view()
}

func (i *Installation) view() object {
	at := i.app.s.url + apiRoot
	v := object{
		"id": i.id, "account": i.account.view(), "repository_selection": i.selection(), "access_tokens_url": fmt.Sprintf("%s/app/installations/%d/access_tokens", at, i.id),
		"repositories_url": at + "/installation/repositories", "html_url": fmt.Sprintf("%s/settings/installations/%d", i.app.s.url, i.id),
		"app_id": i.app.id, "app_slug": i.app.slug, "target_id": i.account.id, "target_type": i.account.kind, "permissions": i.app.permissions,
		"events": []string{}, "created_at": stamp(born), "updated_at": stamp(born), "single_file_name": nil, "suspended_by": nil, "suspended_at": nil,
	}
	if i.suspended {
		v["suspended_by"], v["suspended_at"] = i.account.view(), stamp(born)
	}
	return v
}

func (i *Installation) selection() string {
	if i.repos == nil {
		return "all"
	}
	return "selected"
}

func (c *call) getApp() answer { return ok(c.who.app.view()) }

func (c *call) listInstallations() answer { return paged(c, c.who.app.installs, (*Installation).view) }

func (c *call) installation() *Installation {
	for _, i := range c.who.app.installs {
		if i.id == c.id("installation_id") {
			return i
		}
	}
	return nil
}

func (c *call) getInstallation() answer {
	i := c.installation()
	if i == nil {
		return notFound
	}
	return ok(i.view())
}

func (c *call) repositoryInstallation() answer {
	r := c.repository(c.params["owner"] + "/" + c.params["repo"])
	return c.firstInstallation(func(i *Installation) bool { return r != nil && i.has(r) })
}

func (c *call) accountInstallation() answer {
	login := c.params["org"] + c.params["username"]
	return c.firstInstallation(func(i *Installation) bool { return strings.EqualFold(i.account.login, login) })
}

func (c *call) firstInstallation(is func(*Installation) bool) answer {
	n := slices.IndexFunc(c.who.app.installs, is)
	if n < 0 {
		return notFound
	}
	return ok(c.who.app.installs[n].view())
}

// createToken gives a token of the installation, for all that it may or for
// less.
func (c *call) createToken() answer {
	i := c.installation()
	if i == nil {
		return notFound
	}
	if i.suspended {
		return *refused("This installation has been suspended")
	}
	var in struct {
		Repositories []string
		IDs          []int64 `json:"repository_ids"`
		Permissions  Permissions
	}
	if len(c.body) > 0 && !c.read(&in) {
		return invalid("Token", "", "unreadable")
	}
	who := i.identity()
	if in.Permissions != nil {
		if !in.Permissions.within(i.app.permissions) {
			return *failed(422, "The permissions requested are not granted to this installation.", "/rest/apps/apps")
		}
		who.permissions = maps.Clone(in.Permissions)
		who.permissions["metadata"] = "read"
	}
	if len(in.Repositories)+len(in.IDs) > 0 {
		for _, r := range i.repositories() {
			if slices.Contains(in.IDs, r.id) || slices.ContainsFunc(in.Repositories, func(n string) bool { return strings.EqualFold(n, r.name) }) {
				who.repos = append(who.repos, r)
			}
		}
		if len(who.repos) != len(in.Repositories)+len(in.IDs) {
			return *failed(422, "There is at least one repository that does not exist or is not accessible to the parent installation.", "/rest/apps/apps")
		}
	}
	v := object{
		"token": c.token("ghs_", who), "expires_at": stamp(who.expires), "permissions": who.permissions, "repository_selection": i.selection(),
	}
	if who.repos != nil {
		v["repositories"], v["repository_selection"] = views(who.repos, (*Repository).view), "selected"
	}
	return created(v)
}

func (c *call) revokeToken() answer {
	_, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	delete(c.identities, token)
	return noContent
}

func (c *call) installationRepositories() answer {
	all := slices.DeleteFunc(c.who.install.repositories(), func(r *Repository) bool { return !c.who.covers(r) })
	return pagedIn(c, all, (*Repository).view, func(page []object) any {
		return object{"total_count": len(all), "repositories": page, "repository_selection": c.who.install.selection()}
	})
}
