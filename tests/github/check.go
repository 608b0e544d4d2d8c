package github

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Check is a check run. Its limits (50 annotations a call, 65,535 characters of
// summary and of text, three actions) are part of GitHub's description.
type Check struct {
	repo        *Repository
	app         *App
	id, suite   int64
	commit      string
	name        string
	fields      checkFields
	annotations []object
}

// checkFields are what a call sets. What it leaves out stays.
type checkFields struct {
	Name       string     `json:"name"`
	Head       string     `json:"head_sha"`
	Details    string     `json:"details_url"`
	External   string     `json:"external_id"`
	Status     string     `json:"status"`
	Conclusion string     `json:"conclusion"`
	Started    *time.Time `json:"started_at"`
	Completed  *time.Time `json:"completed_at"`
	Output     struct {
		Title       string   `json:"title"`
		Summary     string   `json:"summary"`
		Text        string   `json:"text"`
		Annotations []object `json:"annotations"`
	} `json:"output"`
	Actions []object `json:"actions"`
}

func (c *call) createCheck() answer {
	r := c.repo
	k := &Check{repo: r, app: c.who.app}
	if !c.read(&k.fields) {
		return invalid("CheckRun", "", "unreadable")
	}
	id := r.commitOf(k.fields.Head)
	if id == "" || id != k.fields.Head {
		return *failed(422, "No commit found for SHA: "+k.fields.Head, "/rest/checks/runs#create-a-check-run")
	}
	k.id, k.commit, k.suite = c.nextID(), id, r.suiteOf(k.app, id)
	if k.fields.Status == "" {
		k.fields.Status = "queued"
	}
	if a := k.settle(c.now()); a != nil {
		return *a
	}
	r.checks = append(r.checks, k)
	k.emit("created", k.app.bot, nil)
	r.judged(k.commit, k.name, k.fields.Conclusion == "success")
	return created(k.view())
}

// suiteOf is the check suite of an App and a commit.
func (r *Repository) suiteOf(app *App, commit string) int64 {
	for _, k := range r.checks {
		if k.app == app && k.commit == commit {
			return k.suite
		}
	}
	return r.s.nextID()
}

// settle does what follows from the fields that a call set. A conclusion
// completes the run; a completed one needs a conclusion. Annotations add up.
func (k *Check) settle(now time.Time) *answer {
	f := &k.fields
	if f.Conclusion != "" {
		f.Status = "completed"
	}
	if f.Status == "completed" && f.Conclusion == "" {
		a := invalid("CheckRun", "conclusion", "a completed check run needs a conclusion")
		return &a
	}
	if f.Status == "completed" && f.Completed == nil {
		f.Completed = &now
	}
	if f.Started == nil {
		f.Started = &now
	}
	k.name = f.Name
	k.annotations = append(k.annotations, f.Output.Annotations...)
	f.Output.Annotations = nil
	return nil
}

func (c *call) checkRun() *Check {
	for _, k := range c.repo.checks {
		if k.id == c.id("check_run_id") {
			return k
		}
	}
	return nil
}

func (c *call) updateCheck() answer {
	k := c.checkRun()
	if k == nil {
		return notFound
	}
	if k.app != c.who.app {
		return *refused(fmt.Sprintf("Invalid app_id `%d` - check run can only be modified by the GitHub App that created it.", c.who.app.id))
	}
	old := *k
	completed := k.fields.Status == "completed"
	k.annotations = slices.Clone(k.annotations)
	var in checkFields
	if !c.read(&in) || !c.read(&k.fields) {
		*k = old
		return invalid("CheckRun", "", "unreadable")
	}
	if in.Status != "" && in.Status != "completed" && in.Conclusion == "" {
		k.fields.Conclusion, k.fields.Completed = "", nil // it runs again
	}
	if a := k.settle(c.now()); a != nil {
		*k = old
		return *a
	}
	if !completed && k.fields.Status == "completed" {
		k.emit("completed", k.app.bot, nil)
	}
	c.repo.judged(k.commit, k.name, k.fields.Conclusion == "success")
	return ok(k.view())
}

func (c *call) getCheck() answer {
	k := c.checkRun()
	if k == nil {
		return notFound
	}
	return ok(k.view())
}

func (c *call) listAnnotations() answer {
	k := c.checkRun()
	if k == nil {
		return notFound
	}
	return paged(c, k.annotations, k.annotationView)
}

func (k *Check) annotationView(a object) object {
	v := object{"blob_href": k.repo.html("/blob/%s/%s", k.commit, escaped(fmt.Sprint(a["path"])))}
	for _, name := range []string{"path", "start_line", "end_line", "start_column", "end_column", "annotation_level", "title", "message", "raw_details"} {
		v[name] = a[name]
	}
	return v
}

// listChecks has the newest run of each name, unless all are asked for.
func (c *call) listChecks() answer {
	q := c.r.URL.Query()
	id := c.repo.commitOf(c.params["ref"])
	if id == "" {
		return *failed(422, "No commit found for SHA: "+c.params["ref"], "/rest/checks/runs")
	}
	var all []*Check
	for _, k := range slices.Backward(c.repo.checks) {
		superseded := q.Get("filter") != "all" && slices.ContainsFunc(all, func(n *Check) bool { return n.app == k.app && n.name == k.name })
		if k.commit == id && !superseded && cmp.Or(q.Get("check_name"), k.name) == k.name && cmp.Or(q.Get("status"), k.fields.Status) == k.fields.Status &&
			cmp.Or(q.Get("app_id"), fmt.Sprint(k.app.id)) == fmt.Sprint(k.app.id) {
			all = append(all, k)
		}
	}
	return pagedIn(c, all, (*Check).view, func(page []object) any { return object{"total_count": len(all), "check_runs": page} })
}

func (k *Check) view() object {
	f := k.fields
	return object{
		"id": k.id, "node_id": node("CR", k.id), "head_sha": k.commit, "external_id": f.External, "name": k.name,
		"url": k.repo.api("/check-runs/%d", k.id), "html_url": k.repo.html("/runs/%d", k.id), "details_url": cmp.Or(f.Details, k.repo.html("/runs/%d", k.id)),
		"status": f.Status, "conclusion": textOr(f.Conclusion), "started_at": stampOf(f.Started), "completed_at": stampOf(f.Completed),
		"output": object{
			"title": textOr(f.Output.Title), "summary": textOr(f.Output.Summary), "text": textOr(f.Output.Text),
			"annotations_count": len(k.annotations), "annotations_url": k.repo.api("/check-runs/%d/annotations", k.id),
		},
		"check_suite": object{"id": k.suite}, "app": k.app.view(), "pull_requests": k.pulls(),
	}
}

func stampOf(t *time.Time) any {
	if t == nil {
		return nil
	}
	return stamp(*t)
}

// pulls are the open pull requests with the commit; GitHub does not see those
// of forks here.
func (k *Check) pulls() []object {
	all := []object{}
	for _, p := range k.repo.pulls {
		if p.open && p.headID == k.commit && p.headRepo == k.repo {
			side := func(ref, id string) object {
				return object{"ref": ref, "sha": id, "repo": object{"id": k.repo.id, "url": k.repo.api(""), "name": k.repo.name}}
			}
			all = append(all, object{
				"id": p.id, "number": p.number, "url": k.repo.api("/pulls/%d", p.number), "head": side(p.headBranch, p.headID), "base": side(p.base, p.baseID),
			})
		}
	}
	return all
}

func (k *Check) emit(action string, who *User, more object) {
	k.repo.emit("check_run", action, who, func() object {
		v := object{"action": action, "check_run": k.view()}
		for name, value := range more {
			v[name] = value
		}
		return v
	})
}

// Checks are the check runs of a commit, oldest first.
func (r *Repository) Checks(id string) (all []*Check) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, k := range r.checks {
		if k.commit == id {
			all = append(all, k)
		}
	}
	return all
}

// CheckState is a check run as it is at a moment.
type CheckState struct {
	Name, Status, Conclusion, Title, Summary, Text string
	Annotations                                    int
}

// State is how the check run is now.
func (k *Check) State() CheckState {
	k.repo.s.mu.Lock()
	defer k.repo.s.mu.Unlock()
	f := k.fields
	return CheckState{k.name, f.Status, f.Conclusion, f.Output.Title, f.Output.Summary, f.Output.Text, len(k.annotations)}
}

// Rerun is a person's click on "Re-run"; it changes nothing but asks the App.
func (k *Check) Rerun(login string) {
	k.repo.s.mu.Lock()
	defer k.repo.s.mu.Unlock()
	k.emit("rerequested", k.repo.s.user(login), nil)
}

// Request is a person's click on one of the check run's buttons.
func (k *Check) Request(login, identifier string) {
	k.repo.s.mu.Lock()
	defer k.repo.s.mu.Unlock()
	k.emit("requested_action", k.repo.s.user(login), object{"requested_action": object{"identifier": identifier}})
}
