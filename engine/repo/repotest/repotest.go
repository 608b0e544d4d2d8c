// Package repotest makes Git repositories with the git program, and serves them
// by OpenSSH's server or by HTTPS on a loopback port, for tests.
package repotest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/tests/port"
)

// Repo is a Git repository in a temporary folder. Pushes to the branch that
// is checked out are accepted and leave its files alone.
type Repo struct {
	t   testing.TB
	Dir string
}

// Of is the repository in a folder.
func Of(t testing.TB, dir string) *Repo { return &Repo{t, dir} }

// Init makes a repository without a commit, whose branch is main.
func Init(t testing.TB) *Repo {
	t.Helper()
	return initIn(t)
}

// InitBare makes one without a work tree.
func InitBare(t testing.TB) *Repo {
	t.Helper()
	return initIn(t, "--bare")
}

func initIn(t testing.TB, flags ...string) *Repo {
	t.Helper()
	g := &Repo{t, filepath.Join(t.TempDir(), "site.git")}
	if err := os.Mkdir(g.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g.Git(append([]string{"init", "-q", "-b", "main"}, flags...)...)
	g.Git("config", "receive.denyCurrentBranch", "ignore")
	g.Git("config", "receive.autogc", "false")
	g.Git("config", "gc.auto", "0")
	g.Git("config", "core.fsync", "none")
	return g
}

// Git runs the git program in the repository and returns what it prints.
func (g *Repo) Git(args ...string) string {
	g.t.Helper()
	return g.GitInput("", args...)
}

// GitInput is Git with something to read.
func (g *Repo) GitInput(input string, args ...string) string {
	g.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = g.Dir
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Write writes a file of the work tree.
func (g *Repo) Write(name, content string) {
	g.t.Helper()
	path := filepath.Join(g.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// Commit commits the whole work tree and returns the commit's id.
func (g *Repo) Commit(subject string) string {
	g.t.Helper()
	g.Git("add", "-A")
	g.Git("commit", "-q", "--allow-empty", "-m", subject)
	return g.Git("rev-parse", "HEAD")
}

// Pair is an SSH key.
type Pair struct{ Private, Public string }

// Key makes a key: the private half in PEM form, the public one as a line of
// authorized_keys.
func Key(t testing.TB) Pair {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line)))}
}

// SSH is a running SSH server and what a client needs to reach it; a test
// changes that to make a bad client.
type SSH struct {
	Address   string
	HostKey   string // as in authorized_keys; empty for a known_hosts file without it
	ClientKey string
	user      string
}

// Remote is a repository as reached through the server.
func (s *SSH) Remote(t testing.TB, g *Repo) repo.Remote {
	t.Helper()
	known := filepath.Join(t.TempDir(), "known_hosts")
	line := ""
	if s.HostKey != "" {
		line = knownhosts.Normalize(s.Address) + " " + s.HostKey + "\n"
	}
	if err := os.WriteFile(known, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := repo.New(fmt.Sprintf("ssh://%s@%s%s", s.user, s.Address, g.Dir), secret.New("", s.ClientKey), known)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// FreeAddress is a loopback address on which nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := port.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Silent is an address that accepts connections and never says a word.
func Silent(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String() // the kernel completes the handshake by itself
}
