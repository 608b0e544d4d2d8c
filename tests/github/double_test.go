package github_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	client "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/tests/github"
)

// world is a double with one private repository, whose main has one commit,
// of an organization with people in it.
type world struct {
	*github.Server
	t    *testing.T
	repo *github.Repository
}

func start(t *testing.T) *world {
	t.Helper()
	s := github.Start(t)
	s.Organization("acme")
	w := &world{s, t, s.Repository("acme/site")}
	w.repo.Grant("ada", github.Write)
	w.repo.Grant("ben", github.Read)
	w.repo.Push("ada", "main", "begin", github.Files{"site.cue": "package site\n", "a.cue": "a: 1\n"})
	return w
}

// propose opens a pull request that adds a file.
func (w *world) propose(branch string) *github.Pull {
	w.repo.Push("ada", branch, "propose "+branch, github.Files{branch + ".cue": "x: 1\n"})
	return w.repo.Open(github.Proposal{Author: "ada", Head: branch, Title: "Add " + branch})
}

// as is a well known client with a token, or without.
func (w *world) as(token string) *client.Client {
	w.t.Helper()
	c := client.NewClient(w.Client())
	if token != "" {
		c = c.WithAuthToken(token)
	}
	c, err := c.WithEnterpriseURLs(w.API(), w.API())
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// app installs an App that may do what Slipway needs.
func (w *world) app() (*github.App, *github.Installation) {
	a := w.App("slipway", github.Permissions{"checks": "write", "statuses": "write", "pull_requests": "write", "contents": "read"})
	return a, a.Install("acme", w.repo)
}

// assertion is a JWT of an App.
func assertion(t *testing.T, a *github.App, issued, expires time.Time) string {
	t.Helper()
	block, _ := pem.Decode(a.Key())
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.MapClaims{"iss": strconv.FormatInt(a.ID(), 10), "iat": issued.Unix(), "exp": expires.Unix()}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// status is the status of an error that the client gives, 200 for none.
func status(err error) int {
	var e *client.ErrorResponse
	var limit *client.RateLimitError
	var abuse *client.AbuseRateLimitError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &e):
		return e.Response.StatusCode
	case errors.As(err, &limit):
		return limit.Response.StatusCode
	case errors.As(err, &abuse):
		return abuse.Response.StatusCode
	}
	return 0
}

// message is what GitHub said of an error.
func message(err error) string {
	var e *client.ErrorResponse
	if errors.As(err, &e) {
		return e.Message
	}
	return ""
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func good[T any](v T, _ *client.Response, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func failure[T any](_ T, _ *client.Response, err error) error { return err }

var ctx = context.Background()
