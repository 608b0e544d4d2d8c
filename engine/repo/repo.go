// Package repo accesses a Git remote: it lists references, fetches a branch
// into a store of objects, reads a commit's files directly from them, and
// pushes a commit that changes a few paths. It never uses a work tree.
//
// It speaks Git's own protocol with go-git's codecs over three transports: the
// git program for a repository on this host, SSH and HTTPS. It does not use
// go-git's own sessions, because they limit neither the time of an SSH
// handshake nor the size of what a server sends.
package repo

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The limits on the cost of a remote. If a remote exceeds a limit, the error
// names it.
const (
	// maxPack is how many bytes one fetch may transfer.
	maxPack = 256 << 20
	// MaxObject is how large one file, or one folder's listing, may be.
	MaxObject = 64 << 20
	// maxObjects is how many objects one fetch may bring.
	maxObjects = 1 << 20
	// maxListing is how many bytes a listing of references may have.
	maxListing = 64 << 20

	listTimeout     = 30 * time.Second
	transferTimeout = 10 * time.Minute
)

var (
	// ErrMoved is returned by Push when somebody else pushed to the branch.
	ErrMoved = errors.New("somebody else pushed to the branch")
	// ErrNoBranch is returned when the branch does not exist on the remote.
	ErrNoBranch = errors.New("the branch does not exist")
)

// Remote is a Git repository reached by path, SSH or HTTPS. It holds no
// connection: every method opens one and closes it.
type Remote struct {
	path       string // on the remote's host
	host, port string // empty for a repository on this host
	credential secret.Value
	user       string
	knownHosts string
	web        *web // nil unless it is reached by HTTPS
}

// scpLike is git's short form of an SSH address, user@host:path.
var scpLike = regexp.MustCompile(`^([^/@:]+@)?([^/:@]+):([^/].*|/[^/].*)$`)

// New checks an address and the data to reach it, without connecting. The
// address is a path, file:///path, ssh://[user@]host[:port]/path or
// https://host[:port]/path. For SSH, the credential holds an unencrypted
// private key in PEM form, and knownHosts is the path of an OpenSSH known_hosts
// file; both are required. For HTTPS the credential holds a token; see
// NewHTTPS.
func New(address string, credential secret.Value, knownHosts string) (Remote, error) {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return Remote{}, errors.New("no repository is given: pass a path, file:///path, ssh://host/path or https://host/path")
	case strings.HasPrefix(address, "/"), strings.HasPrefix(address, "."):
		return local(address)
	case scpLike.MatchString(address) && !strings.Contains(address, "://"):
		m := scpLike.FindStringSubmatch(address)
		return Remote{}, fmt.Errorf("repository %s: the short form of an SSH address is not read, because its path means different things on different servers: write ssh://%s%s/%s",
			plain(m[2]+":"+m[3]), userPart(m[1]), plain(m[2]), plain(strings.TrimPrefix(m[3], "/")))
	case err != nil:
		return Remote{}, errors.New("the repository's address is not a URL: pass a path, file:///path, ssh://host/path or https://host/path")
	case u.Scheme == "":
		return local(address)
	case u.Scheme == "file":
		return file(u)
	case u.Scheme == "ssh":
		return overSSH(u, credential, knownHosts)
	case u.Scheme == "https", u.Scheme == "http":
		return NewHTTPS(address, fixed(credential), "")
	}
	return Remote{}, fmt.Errorf("repository %s: %s is not supported: use ssh:// or https://, or a path on this host", sanitised(u), plain(u.Scheme)+"://")
}

func userPart(user string) string {
	if user == "" || strings.TrimSuffix(user, "@") == "git" {
		return "git@"
	}
	return "USER@"
}

func local(path string) (Remote, error) {
	abs, err := filepath.Abs(path)
	return Remote{path: abs}, err
}

func file(u *url.URL) (Remote, error) {
	if u.Host != "" && u.Host != "localhost" {
		return Remote{}, fmt.Errorf("repository %s: file:// names another host: write file:///path with three slashes", sanitised(u))
	}
	return local(u.Path)
}

func overSSH(u *url.URL, credential secret.Value, knownHosts string) (Remote, error) {
	r := Remote{path: u.Path, host: u.Hostname(), port: u.Port(), credential: credential, user: u.User.Username(), knownHosts: knownHosts}
	if r.port == "" {
		r.port = "22"
	}
	if strings.HasPrefix(r.path, "/~") { // as in git: relative to a home directory
		r.path = r.path[1:]
	}
	if r.user == "" {
		r.user = "git"
	}
	_, password := u.User.Password()
	switch {
	case r.host == "" || strings.Trim(r.path, "/") == "":
		return Remote{}, fmt.Errorf("repository %s: write ssh://[user@]host[:port]/path", sanitised(u))
	case password:
		return Remote{}, fmt.Errorf("repository %s: the address carries a password, which everyone who sees the address would see: remove it and log in with a key", sanitised(u))
	case credential.IsZero():
		return Remote{}, fmt.Errorf("repository %s: no private key is given: SSH needs a credential that holds the private key of a deploy key", sanitised(u))
	case knownHosts == "":
		return Remote{}, fmt.Errorf("repository %s: no known_hosts file is given: without it, anyone on the way could pose as %s and give this site a design", sanitised(u), r.host)
	}
	if _, err := os.Stat(knownHosts); err != nil {
		return Remote{}, fmt.Errorf("repository %s: known_hosts: %w", sanitised(u), err)
	}
	if _, err := signer(credential); err != nil {
		return Remote{}, fmt.Errorf("repository %s: %w", sanitised(u), err)
	}
	return r, nil
}

// String returns the remote's address without the user.
func (r Remote) String() string {
	switch {
	case r.web != nil:
		return plain(r.web.base.String())
	case r.host == "":
		return r.path
	case r.port == "22":
		return "ssh://" + r.host + "/" + strings.TrimPrefix(r.path, "/")
	}
	return "ssh://" + net.JoinHostPort(r.host, r.port) + "/" + strings.TrimPrefix(r.path, "/")
}

// Host returns the host that the credential is sent to, empty for a repository
// on this host.
func (r Remote) Host() string { return r.host }

// sanitised returns a URL without anything that could be a secret.
func sanitised(u *url.URL) string {
	return plain((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

// plain makes text from outside safe to print: one line, limited in length,
// without control characters.
func plain(s string) string {
	return strings.TrimSpace(site.Shorten(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")), 500))
}
