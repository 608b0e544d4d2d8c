// Package github is GitHub's forge: github.com and GitHub Enterprise Server. It
// speaks for one repository, with a token or as a GitHub App.
//
// GitHub's limits are obeyed in one place, under every request: one write at a
// time and none within a second of another, a budget of points a minute and of
// new content an hour, and silence for as long as GitHub asks for it, during
// which requests fail at once with a forge.Limited. Nothing is tried again by
// itself, but for the one request that finds its token expired.
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
)

// PublicAPI is the API of github.com. That of a GitHub Enterprise Server is
// https://HOST/api/v3.
const PublicAPI = "https://api.github.com"

// Config says which repository it is, and who we are.
type Config struct {
	API        string // PublicAPI, or https://HOST/api/v3
	Repository string // "owner/name"
	// Credential is the name of one that holds a token, or the private key of
	// a GitHub App in PEM form with the App's ID or client ID as user name. It
	// is looked up at each use, so that it can be replaced.
	Credential string
	Secrets    secret.Source
	// CA is a PEM file with the certificate authorities of the server, instead
	// of the system's. It may be empty.
	CA  string
	Log *slog.Logger
}

// Repository is a repository on GitHub. It is a forge.Proposals, forge.Checks,
// forge.Talk, forge.Comments, forge.People and forge.Proposer. It may be used by
// many goroutines.
type Repository struct {
	owner, name string
	web         *url.URL // of its pages, and of Git
	api         *gh.Client
	app         *app // nil with a token
	secrets     secret.Source
	credential  string
	log         *slog.Logger

	mu       sync.Mutex
	me       *identity           // nil until it is known
	comments map[place]int64     // ours, by where they were found
	doubted  map[place]time.Time // until when it is doubted that there is none
	said     map[state]string    // what was said last of commits
	crowded  bool                // whether more is open than is listed, as people know
}

// identity is who GitHub takes us for.
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

// Open checks what it is given without reaching for GitHub.
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

// webOf is where a repository's pages are, by the address of the API.
func webOf(api *url.URL, repository string) *url.URL {
	web := &url.URL{Scheme: api.Scheme, Host: api.Host, Path: "/"}
	if api.Path == "/" { // github.com, and companies' own parts of it
		web.Host = strings.TrimPrefix(api.Host, "api.")
	}
	return web.JoinPath(repository)
}

// HeadRef is the reference of a pull request's head, with %d for its number.
const HeadRef = "refs/pull/%d/head"

// Is tells whether the address of a Git repository is that of this one.
func (r *Repository) Is(address *url.URL) bool {
	path := strings.TrimSuffix(strings.TrimSuffix(address.Path, "/"), ".git")
	return address.Scheme == r.web.Scheme && strings.EqualFold(address.Host, r.web.Host) && strings.EqualFold(path, r.web.Path)
}

// Pages is the address that shows a commit's files by their path.
func (r *Repository) Pages(commit string) string { return r.web.JoinPath("blob", commit).String() }

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// dialer reaches servers with a certificate of the authorities in a file, or
// of the system's without one.
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

// redirect follows a read of a repository that was renamed. A write would be
// sent on as a read. That the host stays the same is the transport's to check.
func redirect(_ *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) > 3 {
		return errors.New("the repository was moved or renamed: write its new name")
	}
	return nil
}

// whoami asks GitHub who we are, once.
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

// known is who GitHub said that we are; nil before it was asked.
func (r *Repository) known() *identity {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.me
}

// setKnown keeps who GitHub said that we are.
func (r *Repository) setKnown(me *identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.me = me
}

// Login gives what Git logs in with at an address over HTTPS: the token, or one
// made for the App. The credential must allow that address too.
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

// pages calls one for each page of a listing, until there is no next one.
// GitHub's own links say which that is.
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

// errMore is wrapped when a listing goes on after what was read of it.
var errMore = errors.New("there are more")

// cut is a text of at most so many characters: where it was longer, it ends
// with an ellipsis.
func cut(s string, most int) string {
	s = strings.ToValidUTF8(s, "�")
	n := 0
	last := 0 // where the last character begins that leaves room for the ellipsis
	for i := range s {
		if n == most-1 {
			last = i
		}
		if n++; n > most {
			return s[:last] + "…"
		}
	}
	return s
}

// line is a text without the characters that would end a line.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
