package github

import (
	"io"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// backend is git's own program for smart HTTP.
var backend = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("git", "--exec-path")
	cmd.Env = environment
	out, err := cmd.Output()
	return filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), err
})

// serveGit is Git over smart HTTP, at /owner/name or /owner/name.git. The
// password is a token; the user name is not looked at.
func (c *call) serveGit(w http.ResponseWriter) {
	repo, rest, status := c.authorizeGit()
	c.log.add(Call{When: c.Now(), Method: c.r.Method, Path: c.r.URL.Path, Query: c.r.URL.RawQuery, Account: c.who.account(), Status: status})
	switch status {
	case http.StatusOK:
		repo.serve(w, c.r, rest, c.who.user)
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		fallthrough
	default:
		http.Error(w, map[int]string{
			http.StatusUnauthorized: "Invalid username or token.",
			http.StatusForbidden:    "Write access to repository not granted.",
			http.StatusNotFound:     "Repository not found.",
		}[status], status)
	}
}

var (
	pullRoute = &route{method: http.MethodGet, needs: contents, role: Read}
	pushRoute = &route{method: http.MethodPost, needs: []string{"contents:write"}, role: Write, denied: "push"}
)

// authorizeGit finds the repository and what is asked of it, and says whether
// the caller may. Whoever shows no token is asked for one.
func (c *call) authorizeGit() (repo *Repository, rest string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unknown != nil {
		return nil, "", http.StatusUnauthorized
	}
	parts := strings.SplitN(strings.TrimPrefix(c.r.URL.Path, "/"), "/", 3)
	if len(parts) < 3 {
		return nil, "", http.StatusNotFound
	}
	repo = c.repository(parts[0] + "/" + strings.TrimSuffix(parts[1], ".git"))
	to := pullRoute
	if parts[2] == "git-receive-pack" || c.r.URL.Query().Get("service") == "git-receive-pack" {
		to = pushRoute
	}
	if repo == nil && c.who.user != nil {
		return nil, "", http.StatusNotFound
	}
	if repo == nil {
		return nil, "", http.StatusUnauthorized
	}
	if a := c.who.may(repo, to); a != nil {
		if c.who.user == nil {
			return nil, "", http.StatusUnauthorized
		}
		return nil, "", a.status
	}
	return repo, "/" + parts[2], http.StatusOK
}

// serve has git answer, and does what follows from a push.
func (r *Repository) serve(w http.ResponseWriter, q *http.Request, rest string, who *User) {
	program, err := backend()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	q, err = whole(q)
	if err != nil {
		return // the caller has gone
	}
	q.URL.Path = "/" + filepath.Base(r.dir) + rest
	h := &cgi.Handler{
		Path: program, Root: "/", Dir: r.dir, Logger: quiet, Stderr: io.Discard,
		Env: append([]string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1"}, environment...),
	}
	if who != nil {
		h.Env = append(h.Env, "REMOTE_USER="+who.login)
	}
	h.ServeHTTP(w, q)
	if rest == "/git-receive-pack" {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		r.sync(who)
	}
}

// whole is a request whose body has a length, as CGI needs it: git sends large
// ones in chunks.
func whole(q *http.Request) (*http.Request, error) {
	q = q.Clone(q.Context())
	if q.ContentLength >= 0 {
		return q, nil
	}
	body, err := io.ReadAll(io.LimitReader(q.Body, maxPack))
	q.Body, q.ContentLength, q.TransferEncoding = readCloser(body), int64(len(body)), nil
	return q, err
}

// maxPack is how much of a push in chunks is read.
const maxPack = 256 << 20
