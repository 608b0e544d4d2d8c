package repotest

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// HTTPS is a running web server with Git's own backend behind it, and what a
// client needs to reach it; a test changes that to make a bad client.
type HTTPS struct {
	URL         string // of the repository
	User, Token string
	CA          string // a file with the server's certificate
	// Requests counts what came in.
	Requests atomic.Int32
}

// ServeHTTPS serves one repository on a loopback port to one user.
func ServeHTTPS(t testing.TB, g *Repo) *HTTPS {
	t.Helper()
	s := &HTTPS{User: "slipway", Token: "t0ken-canary"}
	backend := backend(t, g)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Requests.Add(1)
		if user, token, _ := r.BasicAuth(); user != "slipway" || token != "t0ken-canary" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL + "/" + filepath.Base(g.Dir)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s.CA = write(t, t.TempDir(), "ca.pem", string(cert))
	return s
}

// backend is the git program that serves a repository to a web server.
func backend(t testing.TB, g *Repo) http.Handler {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(g.Dir), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=slipway", "GIT_CONFIG_NOSYSTEM=1"},
	}
}

// Remote is the repository as reached through the server.
func (s *HTTPS) Remote(t testing.TB) repo.Remote {
	t.Helper()
	login := func(context.Context) (secret.Value, error) { return secret.New(s.User, s.Token), nil }
	r, err := repo.NewHTTPS(s.URL, login, s.CA)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
