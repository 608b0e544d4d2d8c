// Package commit writes a site's status to a branch of a Git repository for people and tools: a page (README.md),
// the counts (status.json) and one file per node.
//
// Each semantic change makes a commit. A new time alone, such as when a machine was last seen, makes none. The
// branch has one writer, and pushes are never forced.
package commit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/site"
)

// tries bounds the pushes of one change, each after another writer was faster.
const tries = 5

// Reporter writes one site's status. It implements engine.Reporter. It has no timer: Report returns once the status
// is on the remote, and the caller decides how often to report.
type Reporter struct {
	remote repo.Remote
	site   string
	branch string
	log    *slog.Logger
	// tree is the branch as we left it; nil if it must be read again.
	tree *repo.Tree
	// nodes are the nodes in the tree, by name.
	nodes map[string]*written
	// tidy is set once the files of removed nodes are gone.
	tidy bool
	// mentioned is set once foreign files were logged.
	mentioned bool

	mu    sync.Mutex // held for each use of the branch
	known lookup
	// own is the instance of the daemon's own claim; empty before it has published one.
	own string
}

var siteName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// New makes a Reporter for the branch slipway/status/<siteName>. It does not contact the remote.
func New(remote repo.Remote, name string, log *slog.Logger) (*Reporter, error) {
	if !siteName.MatchString(name) {
		return nil, fmt.Errorf("site %q: a status branch cannot be named after it: use letters, digits, - and _", name)
	}
	return &Reporter{remote: remote, site: name, branch: "slipway/status/" + name, log: log}, nil
}

// Report updates the branch to a report with at most one commit. If nothing on the branch changes, there is no
// commit and no traffic. If another writer was faster, Report tries again on top of that commit. After an error it
// forgets the branch, and the next call reads it again. If another daemon has published its claim over ours, Report fails
// with site.ErrClaimed and changes nothing: that daemon does not look for what others write.
func (r *Reporter) Report(ctx context.Context, rep site.Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bring(ctx, message(&rep), func() error {
		if r.isOvertaken() {
			return site.ErrClaimed
		}
		return r.stage(&rep)
	})
}

// bring changes the branch by one commit. If another writer was faster, it tries again on top of that commit.
// Without a change there is no commit.
func (r *Reporter) bring(ctx context.Context, message string, stage func() error) error {
	var err error
	for range tries {
		if err = r.commit(ctx, message, stage); err == nil {
			return nil
		}
		r.tree, r.nodes = nil, nil
		if !errors.Is(err, repo.ErrMoved) {
			break
		}
	}
	return fmt.Errorf("status branch %s: %w", r.branch, err)
}

// commit commits what is staged, and keeps foreign files on the branch.
func (r *Reporter) commit(ctx context.Context, message string, stage func() error) error {
	if r.tree == nil {
		tree, err := r.open(ctx)
		if err != nil {
			return err
		}
		r.tree = tree
	}
	if err := stage(); err != nil || !r.tree.Changed() {
		return err
	}
	before := r.tree.Head()
	id, err := r.remote.Push(ctx, r.branch, r.tree, repo.Message{Text: message, When: time.Now(), Author: "slipway", Email: "slipway@localhost"})
	if err != nil {
		return err
	}
	if r.known.head == before {
		r.known.head = id // with the same claim
	}
	r.log.Debug("status committed", "site", r.site, "commit", id)
	return nil
}

// open reads the branch's names and digests, or starts a new branch.
func (r *Reporter) open(ctx context.Context) (*repo.Tree, error) {
	store, err := repo.OpenStore("")
	if err != nil {
		return nil, err
	}
	head, err := r.remote.Fetch(ctx, store, r.branch, "")
	switch {
	case errors.Is(err, repo.ErrNoBranch):
		r.known = lookup{}
		return repo.NewTree(), nil
	case err != nil:
		return nil, err
	}
	if err := r.checkOurs(store, head); err != nil {
		return nil, err
	}
	tree, err := store.Tree(head)
	if err != nil {
		return nil, err
	}
	if err := r.noteClaim(store, head); err != nil {
		return nil, err
	}
	store.DropContents()
	return tree, r.mention(tree)
}

// checkOurs refuses a branch that something else made. Its newest commit must carry our trailer, or its status.json
// must be ours.
func (r *Reporter) checkOurs(store *repo.Store, head string) error {
	c, err := store.Commit(head)
	if err != nil {
		return err
	}
	if slices.Contains(strings.Split(c.Message, "\n"), trailerSite+r.site) {
		return nil
	}
	files, err := store.Files(head)
	if err != nil {
		return err
	}
	data, err := fs.ReadFile(files, summaryFile)
	if err == nil && isSummaryOf(data, r.site) {
		return nil
	}
	return fmt.Errorf("the branch exists in %s and was not made by Slipway for site %s (neither its newest commit nor a %s says so); nothing was written: "+
		"look at it, then delete it (git push REMOTE --delete %s) or push it under another name", r.remote, r.site, summaryFile, r.branch)
}

// mention logs foreign files on the branch once. They are kept.
func (r *Reporter) mention(tree *repo.Tree) error {
	names, err := tree.Names(".")
	if err != nil || r.mentioned {
		return err
	}
	foreign := slices.DeleteFunc(names, func(name string) bool {
		return name == pageFile || name == summaryFile || name == termFile || name == revokedFile || name == nodesFolder+"/" || name == erasedFolder+"/" || name == incidentsFolder+"/"
	})
	if len(foreign) > 0 {
		r.log.Warn("status branch holds files that are not Slipway's, which are kept", "site", r.site, "branch", r.branch, "files", strings.Join(foreign[:min(len(foreign), 5)], " "), "count", len(foreign))
	}
	r.mentioned = true
	return nil
}
