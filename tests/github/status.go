package github

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of commit statuses (docs.github.com, "Create a commit status").
const (
	maxStatuses    = 1_000 // for a commit and context
	maxDescription = 140   // characters
)

// status is a commit status.
type status struct {
	id                                  int64
	commit, state, context, target, why string
	creator                             *User
	at                                  time.Time
}

func (c *call) createStatus() answer {
	var in struct {
		State, Context, Description string
		Target                      string `json:"target_url"`
	}
	if !c.read(&in) {
		return invalid("Status", "", "unreadable")
	}
	r, id := c.repo, c.params["sha"]
	if in.Context == "" {
		in.Context = "default"
	}
	same := func(s *status) bool { return s.commit == id && s.context == in.Context }
	switch {
	case len(id) != 40 || r.commitOf(id) != id:
		return *failed(422, "No commit found for SHA: "+id, "/rest/commits/statuses#create-a-commit-status")
	case utf8.RuneCountInString(in.Description) > maxDescription:
		return invalid("Status", "description", fmt.Sprintf("description is too long (maximum is %d characters)", maxDescription))
	case in.Target != "" && !strings.HasPrefix(in.Target, "https://") && !strings.HasPrefix(in.Target, "http://"):
		return invalid("Status", "target_url", "target_url must use http(s) scheme")
	case counted(r.statuses, same) >= maxStatuses:
		return invalid("Status", "base", "This SHA and context has reached the maximum number of statuses.")
	}
	s := &status{c.nextID(), id, in.State, in.Context, in.Target, in.Description, c.who.user, c.now()}
	r.statuses = append(r.statuses, s)
	r.judged(id, s.context, s.state == "success")
	return created(r.statusView(s))
}

func counted[T any](all []T, is func(T) bool) (n int) {
	for _, v := range all {
		if is(v) {
			n++
		}
	}
	return n
}

func (r *Repository) statusView(s *status) object {
	v := r.simpleStatus(s)
	v["creator"] = s.creator.view()
	return v
}

func (r *Repository) simpleStatus(s *status) object {
	return object{
		"url": r.api("/statuses/%s", s.commit), "avatar_url": nil, "id": s.id, "node_id": node("SC", s.id), "state": s.state,
		"description": textOr(s.why), "target_url": textOr(s.target), "context": s.context, "created_at": stamp(s.at), "updated_at": stamp(s.at),
	}
}

// statusesOf are the statuses of a commit, newest first.
func (r *Repository) statusesOf(id string) (all []*status) {
	for _, s := range slices.Backward(r.statuses) {
		if s.commit == id {
			all = append(all, s)
		}
	}
	return all
}

func (c *call) listStatuses() answer {
	return paged(c, c.repo.statusesOf(c.repo.commitOf(c.params["ref"])), c.repo.statusView)
}

// combinedStatus has the newest of each context: failure when one failed or is
// in error, pending when one is or there is none, success otherwise.
func (c *call) combinedStatus() answer {
	id := c.repo.commitOf(c.params["ref"])
	if id == "" {
		return notFound
	}
	newest := c.repo.newestStatuses(id)
	return pagedIn(c, newest, c.repo.simpleStatus, func(page []object) any {
		return object{
			"state": combined(newest), "statuses": page, "sha": id, "total_count": len(newest), "repository": c.repo.minimal(),
			"commit_url": c.repo.api("/commits/%s", id), "url": c.repo.api("/commits/%s/status", id),
		}
	})
}

func (r *Repository) newestStatuses(id string) (newest []*status) {
	for _, s := range r.statusesOf(id) {
		if !slices.ContainsFunc(newest, func(n *status) bool { return n.context == s.context }) {
			newest = append(newest, s)
		}
	}
	return newest
}

func combined(newest []*status) string {
	is := func(states ...string) bool {
		return slices.ContainsFunc(newest, func(s *status) bool { return slices.Contains(states, s.state) })
	}
	switch {
	case is("failure", "error"):
		return "failure"
	case is("pending") || len(newest) == 0:
		return "pending"
	}
	return "success"
}

// Status is the state of a commit in a context, and its description; empty when
// there is none.
func (r *Repository) Status(id, context string) (state, description string) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, s := range r.statusesOf(id) {
		if s.context == context {
			return s.state, s.why
		}
	}
	return "", ""
}

// States are the states that a commit had in a context, oldest first.
func (r *Repository) States(id, context string) (states []string) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, s := range slices.Backward(r.statusesOf(id)) {
		if s.context == context {
			states = append(states, s.state)
		}
	}
	return states
}

// Fill gives a commit as many pending statuses in a context, as if they had
// been set.
func (r *Repository) Fill(id, context string, n int) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for range n {
		r.statuses = append(r.statuses, &status{id: r.s.nextID(), commit: id, state: "pending", context: context, creator: r.owner, at: r.s.now()})
	}
}
