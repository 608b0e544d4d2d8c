package github

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// born is when every account, App and repository was made.
var born = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)

const zeroID = "0000000000000000000000000000000000000000"

// Repository is a bare Git repository with what GitHub puts around it.
type Repository struct {
	s        *Server
	id       int64
	owner    *User
	name     string
	former   []string // full names that it had
	private  bool
	parent   *Repository // of a fork
	dir      string
	roles    map[*User]Role
	known    map[string]string // branches and tags, as far as events were sent of them
	pulls    []*Pull
	statuses []*status
	checks   []*Check
	required string // the check that auto-merge waits for
	gone     bool
}

// Repository makes a private repository, without a commit, whose main branch is
// main. Its owner is made when it is not there.
func (s *Server) Repository(fullName string) *Repository {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.newRepository(fullName)
	r.initialize()
	return r
}

func (s *Server) newRepository(fullName string) *Repository {
	owner, name, found := strings.Cut(fullName, "/")
	if !found || s.repository(fullName) != nil {
		panic("github double: a repository is owner/name, and has a name of its own: " + fullName)
	}
	r := &Repository{
		s: s, id: s.nextID(), owner: s.user(owner), name: name, private: true,
		roles: map[*User]Role{}, known: map[string]string{},
	}
	r.dir = filepath.Join(s.config.Dir, fmt.Sprintf("%d.git", r.id))
	s.repos = append(s.repos, r)
	return r
}

// repository finds one by its name, or by one that it had.
func (s *Server) repository(fullName string) *Repository {
	same := func(name string) bool { return strings.EqualFold(name, fullName) }
	for _, r := range s.repos {
		if same(r.fullName()) && !r.gone {
			return r
		}
	}
	for _, r := range s.repos {
		if slices.ContainsFunc(r.former, same) {
			return r
		}
	}
	return nil
}

// Fork makes a user's fork.
func (r *Repository) Fork(login string) *Repository {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	f := r.s.newRepository(login + "/" + r.name)
	f.private, f.parent = r.private, r
	f.initialize()
	f.must("fetch", "-q", r.dir, "+refs/heads/*:refs/heads/*")
	f.known = f.refs()
	return f
}

// Rename renames the repository. The old name leads to the new one.
func (r *Repository) Rename(name string) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.former = append(r.former, r.fullName())
	r.name = name
}

// Delete deletes the repository, a fork for one. Pull requests from it stay.
func (r *Repository) Delete() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.gone = true
}

// Publish makes the repository public.
func (r *Repository) Publish() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.private = false
}

// Grant gives a user a role; NoRole takes it away.
func (r *Repository) Grant(login string, role Role) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.roles[r.s.user(login)] = role
}

// Name is owner/name.
func (r *Repository) Name() string {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.fullName()
}

// CloneURL is the address for Git.
func (r *Repository) CloneURL() string {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.cloneURL()
}

func (r *Repository) cloneURL() string { return r.html(".git") }

// Dir is where the repository lies. What is changed there by hand causes no
// events until something is pushed.
func (r *Repository) Dir() string { return r.dir }

// Head is the commit of a branch.
func (r *Repository) Head(branch string) string {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.head(branch)
}

func (r *Repository) head(branch string) string {
	id := r.commitOf("refs/heads/" + branch)
	if id == "" {
		panic("github double: " + r.fullName() + " has no branch " + branch)
	}
	return id
}

// Push commits changes on top of a branch and pushes it; the branch is made
// from main when it is not there. It returns the commit.
func (r *Repository) Push(login, branch, message string, files Files) string {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	parent := r.commitOf("refs/heads/" + branch)
	if parent == "" {
		parent = r.commitOf("refs/heads/main")
	}
	return r.push(r.s.user(login), branch, parent, message, files)
}

// ForcePush is Push on top of any commit; what the branch had is gone from it.
func (r *Repository) ForcePush(login, branch, onto, message string, files Files) string {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.push(r.s.user(login), branch, r.commitOf(onto), message, files)
}

func (r *Repository) push(who *User, branch, parent, message string, files Files) string {
	id := r.write(parent, who.login, message, files)
	r.must("update-ref", "refs/heads/"+branch, id)
	r.sync(who)
	return id
}

// DeleteBranch deletes a branch. Pull requests from it are closed.
func (r *Repository) DeleteBranch(login, branch string) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.must("update-ref", "-d", "refs/heads/"+branch)
	r.sync(r.s.user(login))
}

// sync does what follows from a push: it compares the branches and tags with
// those it knows of.
func (r *Repository) sync(who *User) {
	before, after := r.known, r.refs()
	r.known = after
	names := maps.Clone(before)
	maps.Copy(names, after)
	var changed []string
	tags := 0
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] == after[name] {
			continue
		}
		changed = append(changed, name)
		if strings.HasPrefix(name, "refs/tags/") {
			tags++
		}
	}
	for _, name := range changed {
		r.moved(name, before[name], after[name], who, tags <= maxTags)
	}
}

// maxTags is how many tags in one push cause events
// (docs.github.com, "Webhook events and payloads", push).
const maxTags = 3

func (r *Repository) moved(ref, before, after string, who *User, tagEvents bool) {
	branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
	if isBranch || tagEvents {
		r.emit("push", "", who, func() object { return r.pushEvent(ref, before, after, who) })
	}
	if !isBranch {
		return
	}
	for _, base := range r.s.repos {
		for _, p := range base.pulls {
			if p.headRepo == r && p.headBranch == branch {
				p.follow(after, who)
			}
			if base == r && p.base == branch {
				p.baseMoved(after, who)
			}
		}
	}
}

func (r *Repository) fullName() string { return r.owner.login + "/" + r.name }

func (r *Repository) api(format string, args ...any) string {
	return r.s.url + apiRoot + "/repos/" + r.fullName() + fmt.Sprintf(format, args...)
}

func (r *Repository) html(format string, args ...any) string {
	return r.s.url + "/" + r.fullName() + fmt.Sprintf(format, args...)
}

// repositoryLinks are the addresses below a repository's own.
var repositoryLinks = map[string]string{
	"url": "", "archive_url": "/{archive_format}{/ref}", "assignees_url": "/assignees{/user}", "blobs_url": "/git/blobs{/sha}",
	"branches_url": "/branches{/branch}", "collaborators_url": "/collaborators{/collaborator}", "comments_url": "/comments{/number}",
	"commits_url": "/commits{/sha}", "compare_url": "/compare/{base}...{head}", "contents_url": "/contents/{+path}",
	"contributors_url": "/contributors", "deployments_url": "/deployments", "downloads_url": "/downloads", "events_url": "/events",
	"forks_url": "/forks", "git_commits_url": "/git/commits{/sha}", "git_refs_url": "/git/refs{/sha}", "git_tags_url": "/git/tags{/sha}",
	"hooks_url": "/hooks", "issue_comment_url": "/issues/comments{/number}", "issue_events_url": "/issues/events{/number}",
	"issues_url": "/issues{/number}", "keys_url": "/keys{/key_id}", "labels_url": "/labels{/name}", "languages_url": "/languages",
	"merges_url": "/merges", "milestones_url": "/milestones{/number}", "notifications_url": "/notifications{?since,all,participating}",
	"pulls_url": "/pulls{/number}", "releases_url": "/releases{/id}", "stargazers_url": "/stargazers", "statuses_url": "/statuses/{sha}",
	"subscribers_url": "/subscribers", "subscription_url": "/subscription", "tags_url": "/tags", "teams_url": "/teams", "trees_url": "/git/trees{/sha}",
}

// minimal is what every form of a repository has.
func (r *Repository) minimal() object {
	v := object{
		"id": r.id, "node_id": node("R", r.id), "name": r.name, "full_name": r.fullName(), "owner": r.owner.view(), "private": r.private,
		"html_url": r.html(""), "description": nil, "fork": r.parent != nil,
	}
	for name, tail := range repositoryLinks {
		v[name] = r.api("") + tail
	}
	return v
}

func (r *Repository) view() object {
	v := r.minimal()
	maps.Copy(v, object{
		"git_url": "git:" + strings.TrimPrefix(r.cloneURL(), "https:"), "ssh_url": "git@github.invalid:" + r.fullName() + ".git",
		"clone_url": r.cloneURL(), "svn_url": r.html(""), "mirror_url": nil, "homepage": nil, "language": nil, "license": nil,
		"forks_count": 0, "forks": 0, "stargazers_count": 0, "watchers_count": 0, "watchers": 0, "size": 0, "default_branch": "main",
		"open_issues_count": 0, "open_issues": 0, "has_issues": true, "has_projects": false, "has_wiki": false, "has_pages": false,
		"has_downloads": false, "has_discussions": false, "archived": false, "disabled": false, "topics": []string{},
		"pushed_at": stamp(born), "created_at": stamp(born), "updated_at": stamp(born),
		"visibility": r.visibility(),
	})
	return v
}

func (r *Repository) visibility() string {
	if r.private {
		return "private"
	}
	return "public"
}

func (c *call) getRepository() answer {
	v := c.repo.view()
	v["subscribers_count"], v["network_count"] = 0, 0
	return ok(v)
}

// Ref is the commit of any ref, empty when it is not there.
func (r *Repository) Ref(name string) string {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.commitOf(name)
}
