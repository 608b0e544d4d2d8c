package git

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/site"
)

// HeadsConfig says which branches are brought.
type HeadsConfig struct {
	Remote repo.Remote
	// Branch is the branch that the site follows.
	Branch string
	// Dir is Slipway's folder for the objects of all branches. It is separate from that of the followed branch, and can be
	// removed at any time. If empty, the objects are kept in memory.
	Dir string
}

// Heads brings the heads of the remote's branches; it is a review.Heads. Its methods are called by one goroutine at a time.
type Heads struct {
	HeadsConfig
	store   *repo.Store
	room    int64              // maxStore
	base    string             // the head of the followed branch that was brought last
	refused map[string]refused // by commit
	about   string             // the revision in force that beside is about
	beside  map[string]beside  // by commit, of those that this Look or the last one has asked for
}

// beside is what a commit is beside the revision in force, which is read from its whole history where that has nothing in common.
type beside struct {
	newer bool // the revision in force does not have it
	has   bool // it has the revision in force
}

// refused is a commit that could not be brought, such as one with too large a file.
type refused struct {
	why  string
	when time.Time
}

// Bounds on what of a repository is looked at. Whoever may push to it can make any number of branches.
const (
	// mostBranches is how many branches beside the followed one are looked at, by name.
	mostBranches = 200
	// mostNewer is how many commits of the followed branch are told of.
	mostNewer = 50
	// mostFetched is how many branches are fetched in one look; the next looks fetch the others.
	mostFetched = 20
	// longestBranch is how many bytes of the name of a branch are kept: what Git's files allow.
	longestBranch = 255
	// refusedFor is for how long a commit that could not be fetched is not asked for again.
	refusedFor = 10 * time.Minute
	// ownBranches begins the names of the branches on which Slipway publishes the status.
	ownBranches = "slipway/status/"
)

// NewHeads opens the store, without connecting to the remote.
func NewHeads(c HeadsConfig) (*Heads, error) {
	store, err := repo.OpenStore(c.Dir)
	if err != nil {
		return nil, err
	}
	return &Heads{HeadsConfig: c, store: store, room: maxStore, refused: map[string]refused{}}, nil
}

// Look lists the branches, fetches what is new, and returns the commits that can be planned beside a revision in force, which is
// empty before the first.
func (h *Heads) Look(ctx context.Context, inForce string) (site.CommitList, error) {
	heads, err := h.Remote.Heads(ctx, "")
	if err != nil {
		return site.CommitList{}, err
	}
	if heads[h.Branch] == "" {
		return site.CommitList{}, fmt.Errorf("branch %s: %w", h.Branch, repo.ErrNoBranch)
	}
	if h.store, h.base, err = tidied(h.store, h.Dir, h.base, h.room); err != nil {
		return site.CommitList{}, err
	}
	if head := heads[h.Branch]; h.store.Has(head) {
		h.base = head
	} else if h.base, err = h.Remote.FetchWhole(ctx, h.store, "refs/heads/"+h.Branch, h.base); err != nil {
		return site.CommitList{}, err
	}
	list := site.CommitList{Branch: h.Branch, InForce: inForce, Looked: time.Now()}
	known := h.beside
	if h.about != inForce {
		known = nil
	}
	h.about, h.beside = inForce, map[string]beside{}
	by := map[string]int{} // indices in the list
	if err := h.addFollowed(&list, by, known); err != nil {
		return list, err
	}
	delete(heads, h.Branch)
	maps.DeleteFunc(heads, func(name, _ string) bool { return strings.HasPrefix(name, ownBranches) })
	names := slices.Sorted(maps.Keys(heads))
	list.BranchesLeftOut = max(0, len(names)-mostBranches)
	fetched := 0
	for _, name := range names[:len(names)-list.BranchesLeftOut] {
		if err := ctx.Err(); err != nil { // histories may be long
			return list, err
		}
		c, shown, err := h.head(ctx, name, heads[name], known, &fetched)
		switch {
		case err != nil:
			return list, err
		case !shown:
			continue
		}
		if i, known := by[c.ID]; known {
			list.Commits[i].Branches = append(list.Commits[i].Branches, c.Branches...)
			continue
		}
		by[c.ID] = len(list.Commits)
		list.Commits = append(list.Commits, c)
	}
	slices.SortStableFunc(list.Commits, func(a, b site.Commit) int {
		if a.Followed || b.Followed { // these are in order, before all others
			return 0
		}
		return b.When.Compare(a.When)
	})
	maps.DeleteFunc(h.refused, func(_ string, r refused) bool { return time.Since(r.when) > refusedFor })
	return list, nil
}

// addFollowed adds the commits of the followed branch that are newer than the revision in force.
func (h *Heads) addFollowed(list *site.CommitList, by map[string]int, known map[string]beside) error {
	inForce := h.about
	ids, has, err := h.ahead(h.base, inForce)
	if err != nil {
		return err
	}
	list.NewerLeftOut = max(0, len(ids)-mostNewer)
	for i, id := range ids[:len(ids)-list.NewerLeftOut] {
		rev, err := h.named(id)
		if err != nil {
			return err
		}
		c := site.Commit{Revision: rev, Followed: true, Lacks: !has && inForce != ""}
		if i == 0 {
			c.Branches = []string{branchName(h.Branch)}
		} else if has { // a commit that was merged may not have it
			is, err := h.isBeside(id, known)
			if err != nil {
				return err
			}
			c.Lacks = !is.has
		}
		by[id] = len(list.Commits)
		list.Commits = append(list.Commits, c)
	}
	return nil
}

// head returns the head of a branch. It is not shown if the design in force has it already.
func (h *Heads) head(ctx context.Context, name, id string, known map[string]beside, fetched *int) (c site.Commit, shown bool, err error) {
	c = site.Commit{Revision: site.Revision{ID: id}, Branches: []string{branchName(name)}}
	if !h.store.Has(id) {
		if c.Problem = h.fetch(ctx, name, id, fetched); c.Problem != "" {
			return c, true, ctx.Err()
		}
	}
	is, err := h.isBeside(id, known)
	if err != nil {
		c.Problem = err.Error()
		return c, true, nil
	}
	if !is.newer {
		return c, false, nil
	}
	c.Lacks = !is.has && h.about != ""
	c.Revision, err = h.named(id)
	return c, true, err
}

// fetch brings the head of a branch, or says why not.
func (h *Heads) fetch(ctx context.Context, name, id string, fetched *int) (problem string) {
	if r, is := h.refused[id]; is && time.Since(r.when) < refusedFor {
		return r.why
	}
	if *fetched++; *fetched > mostFetched {
		return fmt.Sprintf("it is not fetched yet: Slipway fetches %d branches each time it lists them. Try again soon", mostFetched)
	}
	size, err := h.store.Size()
	if err == nil && size >= h.room {
		return fmt.Sprintf("it is not fetched: the branches that were fetched take %d MiB, and more than %d MiB are refused. Remove large branches from the repository", size>>20, h.room>>20)
	}
	got, err := h.Remote.FetchWhole(ctx, h.store, "refs/heads/"+name, h.base)
	if err == nil && got != id {
		return "its branch has moved since it was listed. Try again soon"
	}
	if err != nil {
		h.refused[id] = refused{"it could not be fetched: " + err.Error(), time.Now()}
		return h.refused[id].why
	}
	return ""
}

// ahead is what a head has beyond the revision in force, and whether it has that. The store has the whole history of each head,
// so one that it does not have is in none of them.
func (h *Heads) ahead(head, inForce string) (ids []string, has bool, err error) {
	if inForce == "" || !h.store.Has(inForce) {
		return []string{head}, false, nil
	}
	return h.store.Ahead(inForce, head)
}

// isBeside is what a commit is beside the revision in force; known are the answers of the last look.
func (h *Heads) isBeside(id string, known map[string]beside) (is beside, err error) {
	is, asked := known[id]
	if !asked {
		ids, has, err := h.ahead(id, h.about)
		if err != nil {
			return is, err
		}
		is = beside{newer: len(ids) > 0, has: has}
	}
	if h.store.Has(h.about) { // or what it has is not known yet
		h.beside[id] = is
	}
	return is, nil
}

// named is a commit without its files.
func (h *Heads) named(id string) (site.Revision, error) {
	c, err := h.store.Commit(id)
	return site.Revision{ID: id, Subject: c.Subject, Author: c.Author, When: c.When}, err
}

// branchName is the name of a branch as it is shown.
func branchName(name string) string { return site.Shorten(site.Printable(name), longestBranch) }

// Revision returns a commit with its files. It is a site.ErrNotFound if no branch had it at the last look.
func (h *Heads) Revision(_ context.Context, id string) (site.Revision, error) {
	if !h.store.Has(id) {
		return site.Revision{}, fmt.Errorf("%w: no branch of the repository has commit %s", site.ErrNotFound, short(id))
	}
	return revision(h.store, id)
}
