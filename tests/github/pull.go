package github

import (
	"fmt"
	"maps"
	"time"
)

// Pull is a pull request.
type Pull struct {
	repo       *Repository
	id         int64
	number     int
	title      string
	body       string
	author     *User
	base       string // the branch
	baseID     string // where it was when the pull request last changed; it is not kept up to date
	headRepo   *Repository
	headBranch string
	headID     string
	draft      bool
	open       bool
	merged     bool
	mergedBy   *User
	created    time.Time
	updated    time.Time
	closed     time.Time
	checked    bool   // whether it is known if it can be merged
	mergeID    string // the test merge, or what merged it; empty for none
	auto       *autoMerge
	locked     bool
	comments   []*Comment
	events     []event
}

// Proposal is what a pull request is opened with.
type Proposal struct {
	Author string
	From   *Repository // a fork; nil for the repository itself
	Head   string      // the branch with the changes
	Base   string      // main, when it is empty
	Title  string
	Body   string
	Draft  bool
}

// Open opens a pull request.
func (r *Repository) Open(p Proposal) *Pull {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.open(p)
}

func (r *Repository) open(p Proposal) *Pull {
	if p.From == nil {
		p.From = r
	}
	if p.Base == "" {
		p.Base = "main"
	}
	n := &Pull{
		repo: r, id: r.s.nextID(), number: len(r.pulls) + 1, title: p.Title, body: p.Body, author: r.s.user(p.Author),
		base: p.Base, headRepo: p.From, headBranch: p.Head, draft: p.Draft, open: true, created: r.s.now(),
	}
	r.pulls = append(r.pulls, n)
	n.take(p.From.head(p.Head))
	n.emit("opened", n.author, nil)
	return n
}

// Pull is a pull request by its number, nil for none.
func (r *Repository) Pull(number int) *Pull {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.pull(int64(number))
}

// Title and Body are what it says.
func (p *Pull) Title() string { return p.title }
func (p *Pull) Body() string  { return p.body }

// Number is its number in the repository.
func (p *Pull) Number() int { return p.number }

// HeadID is the commit that the pull request proposes.
func (p *Pull) HeadID() string {
	p.repo.s.mu.Lock()
	defer p.repo.s.mu.Unlock()
	return p.headID
}

// take has the pull request propose a commit: refs/pull/N/head is there at
// once, and whether it can be merged is to be found out.
func (p *Pull) take(id string) {
	p.headID, p.baseID = id, p.repo.head(p.base)
	head := fmt.Sprintf("refs/pull/%d/head", p.number)
	if p.headRepo == p.repo {
		p.repo.must("update-ref", head, id)
	} else {
		p.repo.must("fetch", "-q", "--no-write-fetch-head", p.headRepo.dir, "+"+id+":"+head)
	}
	p.touch()
}

func (p *Pull) touch() { p.checked, p.updated = false, p.repo.s.now() }

// follow is a push to the branch with the changes. A closed pull request stays
// where it was; one whose branch is deleted is closed.
func (p *Pull) follow(id string, who *User) {
	switch {
	case !p.open:
	case id == "":
		p.end()
		p.happened("closed", who, nil, "")
		p.emit("closed", who, nil)
	default:
		before := p.headID
		p.take(id)
		p.emit("synchronize", who, object{"before": before, "after": id})
	}
}

// baseMoved is a push to the base branch. No event tells of it, unless it has
// the pull request's commits: then it is merged; or is deleted: then it is
// closed.
func (p *Pull) baseMoved(id string, who *User) {
	if !p.open {
		return
	}
	p.checked = false
	if id == "" {
		p.end()
		p.happened("closed", who, nil, "")
		p.emit("closed", who, nil)
	} else if p.repo.ancestor(p.headID, id) {
		p.merge(id, who, nil)
	}
}

// Close closes the pull request.
func (p *Pull) Close(login string) {
	p.change(login, true, func(who *User) {
		p.end()
		p.happened("closed", who, nil, "")
		p.emit("closed", who, nil)
	})
}

func (p *Pull) end() {
	p.open, p.closed = false, p.repo.s.now()
	p.touch()
}

// Reopen opens it again, with what was pushed meanwhile. As at GitHub, it
// cannot be when the branch was deleted or forced.
func (p *Pull) Reopen(login string) {
	p.change(login, false, func(who *User) {
		head := p.headRepo.head(p.headBranch)
		if p.merged || !p.headRepo.ancestor(p.headID, head) {
			panic("github double: a pull request that was merged or forced cannot be reopened")
		}
		p.open, p.closed = true, time.Time{}
		p.take(head)
		p.happened("reopened", who, nil, "")
		p.emit("reopened", who, nil)
	})
}

// SetDraft makes it a draft, or ready for review.
func (p *Pull) SetDraft(login string, draft bool) {
	p.change(login, true, func(who *User) {
		p.draft = draft
		p.touch()
		action := "ready_for_review"
		if draft {
			action = "converted_to_draft"
		}
		p.emit(action, who, nil)
	})
}

// Retarget changes the base branch.
func (p *Pull) Retarget(login, base string) {
	p.change(login, true, func(who *User) {
		from := object{"base": object{"ref": object{"from": p.base}, "sha": object{"from": p.baseID}}}
		p.base = base
		p.take(p.headID)
		p.emit("edited", who, object{"changes": from})
	})
}

// Retitle changes the title.
func (p *Pull) Retitle(login, title string) {
	p.change(login, true, func(who *User) {
		from := object{"title": object{"from": p.title}}
		p.title, p.updated = title, p.repo.s.now()
		p.happened("renamed", who, nil, "")
		p.emit("edited", who, object{"changes": from})
	})
}

// Merge merges it, and returns the commit that the base branch has then.
func (p *Pull) Merge(login string) (id string) {
	p.change(login, true, func(who *User) { id = p.mergeAs(who, nil, ByMerge) })
	return id
}

// MergeBy is Merge by way of an App that acts in somebody's name.
func (p *Pull) MergeBy(login string, app *App) (id string) {
	p.change(login, true, func(who *User) { id = p.mergeAs(who, app, ByMerge) })
	return id
}

// Squash merges it as one commit, which has none of the pull request's as
// parent.
func (p *Pull) Squash(login string) (id string) {
	p.change(login, true, func(who *User) { id = p.mergeAs(who, nil, BySquash) })
	return id
}

// Rebase merges it by putting a copy of each of its commits on top of the
// branch, and returns the last.
func (p *Pull) Rebase(login string) (id string) {
	p.change(login, true, func(who *User) { id = p.mergeAs(who, nil, ByRebase) })
	return id
}

// mergeAs merges it in a way, by way of an App if there is one.
func (p *Pull) mergeAs(who *User, app *App, how Method) string {
	base := p.repo.head(p.base)
	tree := p.repo.merge(base, p.headID)
	if tree == "" || p.draft {
		panic("github double: a draft, or a pull request with conflicts, cannot be merged")
	}
	title := fmt.Sprintf("%s (#%d)", p.title, p.number)
	var id string
	switch how {
	case ByMerge:
		id = p.repo.must("commit-tree", tree, "-m", title, "-p", base, "-p", p.headID)
	case BySquash:
		id = p.repo.must("commit-tree", tree, "-m", title, "-p", base)
	case ByRebase:
		id = p.replay(base)
	}
	p.merge(id, who, app)
	p.repo.must("update-ref", "refs/heads/"+p.base, id)
	p.repo.sync(who)
	return id
}

// replay puts copies of the commits on top of one. Each is merged with what is
// there as if both came from the commit's parent.
func (p *Pull) replay(onto string) string {
	for _, c := range p.proposed() {
		sibling := p.repo.must("commit-tree", onto+"^{tree}", "-m", "what is there", "-p", c.id+"^")
		tree := p.repo.merge(sibling, c.id)
		if tree == "" {
			panic("github double: a pull request with conflicts cannot be rebased")
		}
		onto = p.repo.must("commit-tree", tree, "-m", c.message, "-p", onto)
	}
	return onto
}

func (p *Pull) merge(id string, who *User, app *App) {
	p.end()
	p.merged, p.mergedBy, p.mergeID, p.checked = true, who, id, true
	p.happened("merged", who, app, id)
	p.happened("closed", who, app, "")
	p.emit("closed", who, nil)
}

// Lock keeps those who may not write from commenting, and Apps whatever they may.
func (p *Pull) Lock(login string) { p.lock(login, true, "locked") }

// Unlock ends what Lock did.
func (p *Pull) Unlock(login string) { p.lock(login, false, "unlocked") }

func (p *Pull) lock(login string, locked bool, event string) {
	p.repo.s.mu.Lock()
	defer p.repo.s.mu.Unlock()
	p.locked = locked
	p.happened(event, p.repo.s.user(login), nil, "")
}

// change locks the double for a change of a pull request that is open, or is
// not.
func (p *Pull) change(login string, open bool, do func(*User)) {
	p.repo.s.mu.Lock()
	defer p.repo.s.mu.Unlock()
	if p.open != open {
		panic(fmt.Sprintf("github double: pull request %d is not open, or is", p.number))
	}
	do(p.repo.s.user(login))
}

// tryMerge finds out whether it can be merged, and makes the test merge. On
// conflict the test merge stays where it was, as GitHub's does.
func (p *Pull) tryMerge() {
	if p.checked || !p.open {
		return
	}
	p.checked, p.mergeID = true, ""
	base := p.repo.head(p.base)
	if tree := p.repo.merge(base, p.headID); tree != "" {
		p.mergeID = p.repo.must("commit-tree", tree, "-m", "Merge "+p.headID+" into "+base, "-p", base, "-p", p.headID)
		p.repo.must("update-ref", fmt.Sprintf("refs/pull/%d/merge", p.number), p.mergeID)
	}
}

// emit sends the webhook of the pull request.
func (p *Pull) emit(action string, who *User, more object) {
	p.repo.emit("pull_request", action, who, func() object {
		v := object{"action": action, "number": p.number, "pull_request": p.full()}
		maps.Copy(v, more)
		return v
	})
}
