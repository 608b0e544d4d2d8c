// Package github connects to GitHub: github.com and GitHub Enterprise Server. It handles one repository, with a
// token or as a GitHub App.
//
// One place below every request obeys GitHub's limits. Writes come one at a time and at least a second apart. There
// is a budget of points per minute and of new content per hour. While GitHub asks for silence, requests fail at
// once with a forge.Limited. The package repeats no request, except one whose token has expired.
package github

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// PublicAPI is the API of github.com. The API of a GitHub Enterprise Server is https://HOST/api/v3.
const PublicAPI = "https://api.github.com"

// Config configures a Repository.
type Config struct {
	API        string // PublicAPI, or https://HOST/api/v3
	Repository string // "owner/name"
	// Credential is the name of a credential. It holds a token, or the private key of a GitHub App in PEM form with
	// the App's ID or client ID as user name. It is read at each use, so that it can be replaced.
	Credential string
	Secrets    secret.Source
	// CA is a PEM file with the certificate authorities of the server, used instead of the system's. It may be
	// empty.
	CA  string
	Log *slog.Logger
}

// Repository is a repository on GitHub. It implements forge.Proposals, forge.Checks, forge.Talk, forge.Comments,
// forge.People and forge.Proposer. It is safe for concurrent use.
type Repository struct {
	owner, name string
	web         *url.URL // the address of its pages and for Git
	api         *gh.Client
	app         *app // nil with a token
	secrets     secret.Source
	credential  string
	log         *slog.Logger

	mu       sync.Mutex
	me       *identity           // nil until known
	comments map[place]int64     // our comments, by where they were found
	doubted  map[place]time.Time // until when a missing comment may still exist
	said     map[state]string    // the last content of checks
	crowded  bool                // more pull requests are open than are listed, and the log says so
}

// identity is our identity on GitHub.
type identity struct {
	login string
	app   int64 // the App's ID; 0 with a token
}

var (
	_ forge.Proposals = (*Repository)(nil)
	_ forge.Checks    = (*Repository)(nil)
	_ forge.Talk      = (*Repository)(nil)
	_ forge.Comments  = (*Repository)(nil)
	_ forge.People    = (*Repository)(nil)
	_ forge.Proposer  = (*Repository)(nil)
)

var fullName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9-]*)/([A-Za-z0-9._-]+)$`)

// Open makes a Repository. It checks the configuration without contacting GitHub.
func Open(c Config) (*Repository, error) {
	dial, err := dialer(c.CA)
	if err != nil {
		return nil, fmt.Errorf("GitHub repository %s: %w", c.Repository, err)
	}
	return open(c, dial)
}

func open(c Config, dial http.RoundTripper) (*Repository, error) {
	base, err := apiURL(c.API)
	if err != nil {
		return nil, err
	}
	name := fullName.FindStringSubmatch(c.Repository)
	if name == nil || name[2] == "." || name[2] == ".." {
		return nil, fmt.Errorf("GitHub repository %q: write OWNER/NAME, as in its address", c.Repository)
	}
	content := &static{secrets: c.Secrets}
	if content.request, err = secret.For(c.Credential, secret.GitHub, base); err != nil {
		return nil, fmt.Errorf("GitHub repository %s: %w", c.Repository, err)
	}
	value, err := content.token(context.Background())
	if err != nil {
		return nil, fmt.Errorf("GitHub repository %s: %w", c.Repository, err)
	}
	r := &Repository{
		owner: name[1], name: name[2], web: webOf(base, name[0]), secrets: c.Secrets, credential: c.Credential, log: c.Log,
		comments: map[place]int64{}, doubted: map[place]time.Time{}, said: map[state]string{},
	}
	limits := newLimits(c.Log)
	as := func(who tokens) *gh.Client {
		return client(&transport{base: dial, api: base, who: who, limits: limits, cache: newCache()})
	}
	if !value.IsPEM() {
		r.api = as(content)
		return r, nil
	}
	if _, err := sign(value, time.Now()); err != nil {
		return nil, fmt.Errorf("GitHub repository %s: credential %q: %w", c.Repository, c.Credential, err)
	}
	r.app = &app{owner: r.owner, name: r.name, api: as(&signer{content})}
	r.api = as(r.app)
	return r, nil
}

// apiURL checks the API's address.
func apiURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, fmt.Errorf("the address of GitHub's API is not a URL: write %s, or https://HOST/api/v3 for a GitHub Enterprise Server", PublicAPI)
	case u.User != nil:
		return nil, errors.New("the address of GitHub's API carries a user or a token, which would be seen by whoever sees the address: put it into the credential")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("the address of GitHub's API begins with %s://: anyone on the way can read and change what is sent, also the token: use https://", u.Scheme)
	case u.Hostname() == "github.com":
		return nil, fmt.Errorf("the address of GitHub's API is %s, not that of its pages", PublicAPI)
	}
	return u.JoinPath("/"), nil
}

// webOf derives the address of a repository's pages from that of the API.
func webOf(api *url.URL, repository string) *url.URL {
	web := &url.URL{Scheme: api.Scheme, Host: api.Host, Path: "/"}
	if api.Path == "/" { // github.com, and companies' own parts of it
		web.Host = strings.TrimPrefix(api.Host, "api.")
	}
	return web.JoinPath(repository)
}

// HeadRef is the reference of a pull request's head, with %d for its number.
const HeadRef = "refs/pull/%d/head"

// Is reports whether the address of a Git repository is that of this one.
func (r *Repository) Is(address *url.URL) bool {
	path := strings.TrimSuffix(strings.TrimSuffix(address.Path, "/"), ".git")
	return address.Scheme == r.web.Scheme && strings.EqualFold(address.Host, r.web.Host) && strings.EqualFold(path, r.web.Path)
}

// Pages is the address below which a commit's files are shown by their path.
func (r *Repository) Pages(commit string) string { return r.web.JoinPath("blob", commit).String() }

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// dialer connects to servers whose certificate comes from the authorities in a file, or from the system's without a
// file.
func dialer(ca string) (http.RoundTripper, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		data, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("certificate authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("certificate authorities: %s holds no certificate in PEM form", ca)
		}
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 4,
	}, nil
}

func client(t *transport) *gh.Client {
	c := gh.NewClient(&http.Client{Transport: t, CheckRedirect: redirect})
	c.BaseURL, c.UserAgent = t.api, "slipway"
	return c
}

// redirect follows a redirected read, as for a repository that was renamed. It refuses a write, which would be sent
// on as a read. The transport checks that the host stays the same.
func redirect(_ *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) > 3 {
		return errors.New("the repository was moved or renamed: write its new name")
	}
	return nil
}

// whoami asks GitHub once for our identity.
func (r *Repository) whoami(ctx context.Context) (identity, error) {
	if me := r.known(); me != nil {
		return *me, nil
	}
	me := &identity{}
	if r.app == nil {
		user, _, err := r.api.Users.Get(ctx, "")
		if err != nil {
			return identity{}, explain(err, "a token of a person or a machine account")
		}
		me.login = user.GetLogin()
	} else {
		a, _, err := r.app.api.Apps.Get(ctx, "")
		if err != nil {
			return identity{}, explain(err, "the key of an App that exists")
		}
		me.login, me.app = a.GetSlug()+"[bot]", a.GetID()
	}
	r.setKnown(me)
	return *me, nil
}

// known is our identity as GitHub reported it; nil before that.
func (r *Repository) known() *identity {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.me
}

// setKnown stores the identity that GitHub reported.
func (r *Repository) setKnown(me *identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.me = me
}

// Login provides the password for Git over HTTPS at an address: the token, or one made for the App. The credential
// must allow that address too.
func (r *Repository) Login(address *url.URL) func(context.Context) (secret.Value, error) {
	return func(ctx context.Context) (secret.Value, error) {
		ask, err := secret.For(r.credential, secret.GitHub, address)
		if err != nil {
			return secret.Value{}, err
		}
		value, err := r.secrets.Get(ask)
		if err != nil || r.app == nil {
			return value, err
		}
		token, err := r.app.token(ctx)
		if err != nil {
			return secret.Value{}, err
		}
		text, err := token.Password()
		return secret.New("x-access-token", text), err
	}
}

// pages calls one for each page of a listing. GitHub's links say which page is next.
func pages(most int, one func(gh.ListOptions) (*gh.Response, error)) error {
	o := gh.ListOptions{PerPage: 100}
	for range most {
		resp, err := one(o)
		if err != nil || resp.NextPage == 0 {
			return err
		}
		o.Page = resp.NextPage
	}
	return fmt.Errorf("%w than %d pages of 100, which is not read", errMore, most)
}

// errMore is wrapped when a listing continues after the last page that is read.
var errMore = errors.New("there are more")

// cut shortens a text of others to so many characters.
func cut(s string, most int) string { return site.Shorten(strings.ToValidUTF8(s, "�"), most) }

// line replaces line breaks and other white space with single spaces.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
