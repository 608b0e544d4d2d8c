package github

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Permissions is what an App or a fine-grained token may: "read" or "write" by
// name, as in {"checks": "write", "contents": "read"}.
type Permissions map[string]string

// allows says whether one of several needs, each like "checks:write", is met.
func (p Permissions) allows(needs []string) bool {
	for _, n := range needs {
		name, level, _ := strings.Cut(n, ":")
		if p[name] == level || p[name] == "write" {
			return true
		}
	}
	return false
}

// within says whether other permissions have all of these.
func (p Permissions) within(other Permissions) bool {
	for name, level := range p {
		if other[name] != level && other[name] != "write" {
			return false
		}
	}
	return true
}

// identity is who asks.
type identity struct {
	user        *User         // nil for nobody
	app         *App          // of an App's JWT, or of an installation's token
	install     *Installation // of an installation's token
	scopes      []string      // of a classic token
	permissions Permissions   // of a fine-grained token or an installation's; nil for others
	repos       []*Repository // which these are for; nil for all
	expires     time.Time     // zero for never
}

// account names whose rate limit the requests count against: that of a user,
// whichever of their tokens it is, of an installation, or of an address.
func (i *identity) account() string {
	switch {
	case i.install != nil:
		return fmt.Sprintf("installation ID %d", i.install.id)
	case i.app != nil:
		return fmt.Sprintf("app ID %d", i.app.id)
	case i.user != nil:
		return fmt.Sprintf("user ID %d", i.user.id)
	}
	return "127.0.0.1"
}

// Token makes a classic token of a user. The scopes that matter are repo,
// public_repo and repo:status.
func (s *Server) Token(login string, scopes ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token("ghp_", &identity{user: s.user(login), scopes: scopes})
}

// FineGrained makes a fine-grained token of a user for some repositories.
func (s *Server) FineGrained(login string, p Permissions, repos ...*Repository) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token("github_pat_", &identity{user: s.user(login), permissions: p, repos: repos})
}

// Revoke ends a token.
func (s *Server) Revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.identities, token)
}

func (s *Server) token(prefix string, i *identity) string {
	raw := make([]byte, 18)
	for n := range raw {
		raw[n] = byte(rand.Uint32())
	}
	t := prefix + hex.EncodeToString(raw)
	s.identities[t] = i
	return t
}

// said is an error in GitHub's words.
type said string

func (s said) Error() string { return string(s) }

const errCredentials said = "Bad credentials"

// identify finds out who sent a request.
func (s *Server) identify(r *http.Request) (*identity, error) {
	h := r.Header.Get("Authorization")
	if h == "" {
		return &identity{}, nil
	}
	if _, password, ok := r.BasicAuth(); ok {
		return s.bearer(password)
	}
	scheme, token, _ := strings.Cut(h, " ")
	if !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "token") {
		return nil, errCredentials
	}
	if strings.Count(token, ".") == 2 {
		return s.assertion(token)
	}
	return s.bearer(token)
}

func (s *Server) bearer(token string) (*identity, error) {
	i := s.identities[token]
	if i == nil || (!i.expires.IsZero() && !s.now().Before(i.expires)) || (i.install != nil && i.install.suspended) {
		return nil, errCredentials
	}
	return i, nil
}

// assertion reads an App's JWT: RS256, issued by the App's id or client id, not
// in the future, and for at most ten minutes
// (docs.github.com, "Generating a JSON Web Token (JWT) for a GitHub App").
func (s *Server) assertion(token string) (*identity, error) {
	var app *App
	claims := jwt.MapClaims{}
	p := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation())
	_, err := p.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) {
		if app = s.appOf(fmt.Sprint(claims["iss"])); app == nil {
			return nil, errors.New("no such App")
		}
		return &app.key.PublicKey, nil
	})
	if err != nil {
		return nil, said("A JSON web token could not be decoded")
	}
	return &identity{app: app, user: app.bot}, s.checkTimes(claims)
}

func (s *Server) checkTimes(claims jwt.MapClaims) error {
	issued, err := claims.GetIssuedAt()
	if err != nil || issued == nil || issued.After(s.now()) {
		return said("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	}
	expires, err := claims.GetExpirationTime()
	if err != nil || expires == nil || !expires.After(s.now()) {
		return said("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
	}
	if expires.After(s.now().Add(10 * time.Minute)) {
		return said("'Expiration time' claim ('exp') is too far in the future")
	}
	return nil
}

func (s *Server) appOf(issuer string) *App {
	for _, a := range s.apps {
		if issuer == fmt.Sprint(a.id) || issuer == fmt.Sprintf("%v", float64(a.id)) || issuer == a.clientID() {
			return a
		}
	}
	return nil
}
