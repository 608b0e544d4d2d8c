package github

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// tokens provides the tokens that authorize requests.
type tokens interface {
	token(ctx context.Context) (secret.Value, error)
	// refused reports that a token is no longer valid. It returns whether another token may exist.
	refused(used secret.Value) bool
}

// static provides the content of a credential.
type static struct {
	secrets secret.Source
	request secret.Request
}

func (s *static) token(context.Context) (secret.Value, error) { return s.secrets.Get(s.request) }

// refused looks whether the file has been replaced.
func (s *static) refused(used secret.Value) bool {
	now, err := s.secrets.Get(s.request)
	return err == nil && now != used
}

// signer makes the tokens that identify the App itself.
type signer struct{ *static }

func (s *signer) token(ctx context.Context) (secret.Value, error) {
	key, err := s.static.token(ctx)
	if err != nil {
		return secret.Value{}, err
	}
	return sign(key, time.Now())
}

func (s *signer) refused(secret.Value) bool { return false }

// minKey is the length of the shortest accepted key, in bits. GitHub makes longer ones.
const minKey = 2048

// sign makes an App's token. The token is dated a minute back, for clocks that differ, and lives less than the ten
// minutes that GitHub allows (docs.github.com, "Generating a JSON Web Token (JWT) for a GitHub App"). The errors
// quote nothing of the key.
func sign(credential secret.Value, now time.Time) (secret.Value, error) {
	text, _ := credential.PEM() // without PEM, parsing fails below
	key, err := jwt.ParseRSAPrivateKeyFromPEM(text)
	switch {
	case credential.Username() == "":
		return secret.Value{}, errors.New("it holds the key of a GitHub App, but not which App it is: add the line \"username: \" with the App's client ID")
	case err != nil:
		return secret.Value{}, errors.New("it is not an RSA private key in PEM form: pass the file that GitHub gave for the App, as it is")
	case key.N.BitLen() < minKey:
		return secret.Value{}, fmt.Errorf("its key has %d bits, fewer than %d: have GitHub make a new one", key.N.BitLen(), minKey)
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer:    credential.Username(),
		IssuedAt:  jwt.NewNumericDate(now.Add(-time.Minute)),
		ExpiresAt: jwt.NewNumericDate(now.Add(8 * time.Minute)),
	}).SignedString(key)
	return secret.New("", signed), err
}

// refreshBefore is how long before its expiry a token is replaced.
const refreshBefore = 5 * time.Minute

// app makes tokens for the App's installation on one repository. They live for an hour and are valid for that
// repository only.
type app struct {
	owner, name string
	api         *gh.Client // as the App itself

	mu           sync.Mutex // held while a token is made, so that only one is made
	installation int64      // 0 until it is known
	repository   int64      // 0 until it is known
	current      secret.Value
	ends         time.Time
}

func (a *app) token(ctx context.Context) (secret.Value, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.current.IsZero() && time.Until(a.ends) > refreshBefore {
		return a.current, nil
	}
	if err := a.find(ctx); err != nil {
		return secret.Value{}, err
	}
	t, _, err := a.api.Apps.CreateInstallationToken(ctx, a.installation, &gh.InstallationTokenOptions{Repositories: []string{a.name}})
	if err != nil {
		a.installation = 0 // the App may have been installed anew
		return secret.Value{}, fmt.Errorf("a token for the App's installation on %s/%s: %w", a.owner, a.name, explain(err, "an App that is installed on the repository"))
	}
	a.current, a.ends = secret.New("", t.GetToken()), t.GetExpiresAt().Time
	if len(t.Repositories) == 1 {
		a.repository = t.Repositories[0].GetID()
	}
	return a.current, nil
}

// find looks up the App's installation.
func (a *app) find(ctx context.Context) error {
	if a.installation != 0 {
		return nil
	}
	i, _, err := a.api.Apps.FindRepositoryInstallation(ctx, a.owner, a.name)
	if err != nil {
		err = explain(err, "the key of an App that exists")
		if errors.Is(err, forge.ErrGone) {
			err = fmt.Errorf("%w: the App is not installed on %s/%s: install it there (Settings, GitHub Apps)", forge.ErrDenied, a.owner, a.name)
		}
		return err
	}
	a.installation = i.GetID()
	return nil
}

func (a *app) refused(used secret.Value) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == used {
		a.current = secret.Value{}
	}
	return true
}
