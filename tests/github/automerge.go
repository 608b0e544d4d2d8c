package github

import "strings"

// Method is a way to merge.
type Method string

// The ways to merge.
const (
	ByMerge  Method = "merge"
	BySquash Method = "squash"
	ByRebase Method = "rebase"
)

// autoMerge has a pull request merged once its checks are good.
type autoMerge struct {
	by     *User
	method Method
}

// orNull is what the pull request says of it, also once it was merged.
func (a *autoMerge) orNull() any {
	if a == nil {
		return nil
	}
	return object{"enabled_by": a.by.view(), "merge_method": string(a.method), "commit_title": "", "commit_message": ""}
}

// autoMergeEvents are the events that tell that auto-merge was enabled.
var autoMergeEvents = map[Method]string{ByMerge: "auto_merge_enabled", BySquash: "auto_squash_enabled", ByRebase: "auto_rebase_enabled"}

func autoMerges(event string) bool { return strings.HasPrefix(event, "auto_") }

// Require names a check that has to be good before auto-merge merges.
func (r *Repository) Require(check string) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.required = check
}

// AutoMerge has the pull request merged as soon as the required check is good.
func (p *Pull) AutoMerge(login string, how Method) {
	p.change(login, true, func(who *User) {
		p.auto = &autoMerge{who, how}
		p.touch()
		p.happened(autoMergeEvents[how], who, nil, "")
	})
}

// NoAutoMerge takes that back.
func (p *Pull) NoAutoMerge(login string) {
	p.change(login, true, func(who *User) {
		p.auto = nil
		p.touch()
		p.happened("auto_merge_disabled", who, nil, "")
	})
}

// judged has what is merged automatically merged, once a check of its commit is
// known. GitHub does so at once, in the name of who has enabled it.
func (r *Repository) judged(commit, check string, good bool) {
	if !good || check != r.required {
		return
	}
	for _, p := range r.pulls {
		if p.open && p.auto != nil && p.headID == commit {
			p.mergeAs(p.auto.by, nil, p.auto.method)
		}
	}
}

// queueBot is as whom the merge queue merges.
const queueBot = "github-merge-queue[bot]"

// Enqueue adds the pull request to the merge queue.
func (p *Pull) Enqueue(login string) {
	p.change(login, true, func(who *User) { p.happened("added_to_merge_queue", who, nil, "") })
}

// Dequeue takes it out again.
func (p *Pull) Dequeue(login string) {
	p.change(login, true, func(who *User) { p.happened("removed_from_merge_queue", who, nil, "") })
}

// MergeQueued has the merge queue merge it, which then takes it out.
func (p *Pull) MergeQueued() (id string) {
	p.change(queueBot, true, func(bot *User) {
		id = p.mergeAs(bot, nil, ByMerge)
		p.happened("removed_from_merge_queue", bot, nil, "")
	})
	return id
}
