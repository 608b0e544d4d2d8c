package github

import (
	"net/url"
	"strconv"
	"strings"
)

// commit is a Git commit as read from the repository.
type commit struct {
	id, tree, message string
	parents           []string
	author, committer person
}

type person struct{ name, email, date string }

const logFormat = "--format=%H%x1f%T%x1f%P%x1f%an%x1f%ae%x1f%aI%x1f%cn%x1f%ce%x1f%cI%x1f%B"

// commits reads the commits that git log finds, in its order.
func (r *Repository) commits(args ...string) (all []commit) {
	out := r.must(append([]string{"log", "-z", logFormat}, args...)...)
	for entry := range strings.SplitSeq(out, "\x00") {
		f := strings.SplitN(entry, "\x1f", 10)
		if len(f) < 10 {
			continue
		}
		all = append(all, commit{f[0], f[1], strings.TrimRight(f[9], "\n"), strings.Fields(f[2]), person{f[3], f[4], f[5]}, person{f[6], f[7], f[8]}})
	}
	return all
}

func (p person) view() object { return object{"name": p.name, "email": p.email, "date": p.date} }

func (r *Repository) commitView(c commit) object {
	parents := []object{}
	for _, id := range c.parents {
		parents = append(parents, object{"sha": id, "url": r.api("/commits/%s", id), "html_url": r.html("/commit/%s", id)})
	}
	return object{
		"sha": c.id, "node_id": "C_" + c.id, "url": r.api("/commits/%s", c.id), "html_url": r.html("/commit/%s", c.id),
		"comments_url": r.api("/commits/%s/comments", c.id), "author": nil, "committer": nil, "parents": parents,
		"commit": object{
			"url": r.api("/git/commits/%s", c.id), "message": c.message, "author": c.author.view(), "committer": c.committer.view(),
			"comment_count": 0, "tree": object{"sha": c.tree, "url": r.api("/git/trees/%s", c.tree)},
			"verification": object{"verified": false, "reason": "unsigned", "payload": nil, "signature": nil, "verified_at": nil},
		},
	}
}

// change is a file that differs between two commits.
type change struct {
	status, path, former, blob string
	added, removed             int
}

var changeNames = map[byte]string{'A': "added", 'D': "removed", 'M': "modified", 'T': "changed", 'R': "renamed", 'C': "copied"}

// changes are the files that differ between two commits, in order of their
// paths.
func (r *Repository) changes(from, to string) (all []change) {
	out := strings.Split(r.must("diff-tree", "-r", "-M", "-z", "--raw", from, to), "\x00")
	for i := 0; i+1 < len(out); i += 2 {
		f := strings.Fields(out[i]) // :mode mode blob blob status
		c := change{status: changeNames[f[4][0]], path: out[i+1], blob: f[3]}
		if c.status == "removed" {
			c.blob = f[2]
		}
		if c.status == "renamed" || c.status == "copied" {
			c.former, c.path = out[i+1], out[i+2]
			i++
		}
		all = append(all, c)
	}
	r.count(from, to, all)
	return all
}

// count fills in how many lines were added and removed.
func (r *Repository) count(from, to string, all []change) {
	out := strings.Split(r.must("diff-tree", "-r", "-M", "-z", "--numstat", from, to), "\x00")
	for n, i := 0, 0; n < len(all) && i < len(out); n, i = n+1, i+1 {
		f := strings.SplitN(out[i], "\t", 3)
		all[n].added, _ = strconv.Atoi(f[0]) // "-" for a binary file
		all[n].removed, _ = strconv.Atoi(f[1])
		if f[2] == "" {
			i += 2 // a renamed file's two paths
		}
	}
}

func (r *Repository) changeView(at string) func(change) object {
	return func(c change) object {
		v := object{
			"sha": c.blob, "filename": c.path, "status": c.status, "additions": c.added, "deletions": c.removed, "changes": c.added + c.removed,
			"blob_url": r.html("/blob/%s/%s", at, escaped(c.path)), "raw_url": r.html("/raw/%s/%s", at, escaped(c.path)),
			"contents_url": r.api("/contents/%s?ref=%s", escaped(c.path), at),
		}
		if c.former != "" {
			v["previous_filename"] = c.former
		}
		return v
	}
}

func (c *call) getCommit() answer {
	id := c.repo.commitOf(c.params["ref"])
	if id == "" {
		return *failed(422, "No commit found for SHA: "+c.params["ref"], "/rest/commits/commits#get-a-commit")
	}
	return ok(c.repo.commitView(c.repo.commits("-1", id)[0]))
}

// maxCompared is how many commits and files a comparison has
// (docs.github.com, "Compare two commits").
const maxCompared, maxComparedFiles = 250, 300

// compare is base...head: what head has beyond the merge base.
func (c *call) compare() answer {
	base, head, found := strings.Cut(c.params["basehead"], "...")
	r := c.repo
	baseID, headID := r.commitOf(base), r.commitOf(head)
	if !found || baseID == "" || headID == "" {
		return notFound
	}
	fork, err := r.git("merge-base", baseID, headID)
	if err != nil {
		return *failed(404, "No common ancestor between "+base+" and "+head+".", "/rest/commits/commits#compare-two-commits")
	}
	ahead, behind := r.commits("--reverse", baseID+".."+headID), r.commits(headID+".."+baseID)
	v := object{
		"url": r.api("/compare/%s...%s", baseID, headID), "html_url": r.html("/compare/%s...%s", baseID, headID),
		"permalink_url": r.html("/compare/%s...%s", baseID, headID), "diff_url": r.html("/compare/%s...%s.diff", baseID, headID),
		"patch_url": r.html("/compare/%s...%s.patch", baseID, headID), "status": compared(len(ahead), len(behind)),
		"ahead_by": len(ahead), "behind_by": len(behind), "total_commits": len(ahead),
		"base_commit": r.commitView(r.commits("-1", baseID)[0]), "merge_base_commit": r.commitView(r.commits("-1", fork)[0]),
		"commits": views(ahead[:min(len(ahead), maxCompared)], r.commitView),
	}
	files := r.changes(fork, headID)
	v["files"] = views(files[:min(len(files), maxComparedFiles)], r.changeView(headID))
	return ok(v)
}

func compared(ahead, behind int) string {
	switch {
	case ahead > 0 && behind > 0:
		return "diverged"
	case ahead > 0:
		return "ahead"
	case behind > 0:
		return "behind"
	}
	return "identical"
}

func views[T any](all []T, view func(T) object) []object {
	vs := []object{}
	for _, v := range all {
		vs = append(vs, view(v))
	}
	return vs
}

// pushEvent is the webhook of a push.
func (r *Repository) pushEvent(ref, before, after string, who *User) object {
	v := object{
		"ref": ref, "before": orZero(before), "after": orZero(after), "base_ref": nil, "created": before == "", "deleted": after == "",
		"forced": before != "" && after != "" && !r.ancestor(before, after), "compare": r.html("/compare/%.12s...%.12s", orZero(before), orZero(after)),
		"commits": []object{}, "head_commit": nil, "pusher": object{"name": who.login, "email": who.login + "@users.invalid"},
	}
	if r.commitOf(after) == "" {
		return v
	}
	span := after
	if before != "" {
		span = before + ".." + after
	}
	v["commits"] = views(r.commits("--reverse", "-20", span), r.pushedCommit)
	v["head_commit"] = r.pushedCommit(r.commits("-1", after)[0])
	return v
}

func (r *Repository) pushedCommit(c commit) object {
	named := func(p person) object { return object{"name": p.name, "email": p.email} }
	return object{
		"id": c.id, "tree_id": c.tree, "distinct": true, "message": c.message, "timestamp": c.committer.date, "url": r.html("/commit/%s", c.id),
		"author": named(c.author), "committer": named(c.committer), "added": []string{}, "removed": []string{}, "modified": []string{},
	}
}

func orZero(id string) string {
	if id == "" {
		return zeroID
	}
	return id
}

func escaped(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
