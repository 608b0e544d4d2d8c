package github

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// event is something that happened to a pull request, as its timeline tells.
// GitHub has a list of the names ("Issue event types") that leaves out those of
// auto-merge, of the merge queue and of deleted comments; they are as GitHub
// gives them, one for each way in which auto-merge merges.
type event struct {
	id     int64
	kind   string
	actor  *User
	app    *App // by way of which the actor did it
	commit string
	at     time.Time
}

// happened notes an event.
func (p *Pull) happened(kind string, who *User, app *App, commit string) {
	p.events = append(p.events, event{p.repo.s.nextID(), kind, who, app, commit, p.repo.s.now()})
}

func (e event) view(p *Pull) object {
	v := object{
		"id": e.id, "node_id": node("EV", e.id), "url": p.repo.api("/issues/events/%d", e.id), "event": e.kind, "actor": e.actor.orNull(),
		"commit_id": textOr(e.commit), "commit_url": nil, "created_at": stamp(e.at), "performed_via_github_app": e.app.orNull(),
	}
	if e.commit != "" {
		v["commit_url"] = p.repo.api("/commits/%s", e.commit)
	}
	return v
}

// entry is a line of the timeline: an event, or a comment.
type entry struct {
	at   time.Time
	view func() object
}

// timeline lists what happened to a pull request, the oldest first.
func (c *call) timeline() answer {
	p := c.listedPull(c.id("issue_number"))
	if p == nil {
		return notFound
	}
	var all []entry
	for _, m := range p.comments {
		all = append(all, entry{m.created, func() object {
			v := object{"event": "commented", "actor": m.author.orNull()}
			maps.Copy(v, m.view())
			return v
		}})
	}
	for _, e := range p.events {
		if c.reticent && (e.kind == "merged" || autoMerges(e.kind)) {
			continue
		}
		all = append(all, entry{e.at, func() object { return e.view(p) }})
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.at.Unix(), b.at.Unix()) })
	return paged(c, all, func(e entry) object { return e.view() })
}

// Reticent has timelines leave out who merged, and who had it merged
// automatically.
func (s *Server) Reticent(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reticent = is
}
