package github

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/forge"
)

func TestStatuses(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		there := map[string]object{}
		h.list("commits/{sha}/status", func(all []any) any { return object{"statuses": plainList(all)} }, func(*http.Request) []any {
			var all []any
			for n := range 120 {
				all = append(all, object{"context": fmt.Sprintf("ci/%d", n), "state": "success"})
			}
			for _, s := range there {
				all = append(all, s)
			}
			return all
		})
		h.HandleFunc("POST /repos/acme/site/statuses/{sha}", func(w http.ResponseWriter, _ *http.Request) {
			body := h.sent[len(h.sent)-1].body
			there[body["context"].(string)] = body
			w.WriteHeader(http.StatusCreated)
			give(w, body)
		})
		c := forge.Check{Commit: sha, Name: "slipway/site1", Verdict: forge.Failure, Title: strings.Repeat("ä", 139) + "\nöü", URL: "https://x.example.org"}
		r := connect(t, h, withToken())
		for range 3 {
			if err := r.Check(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		// After a restart, too, the same is not written again.
		if err := connect(t, h, withToken()).Check(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		writes := h.writes()
		if len(writes) != 1 {
			t.Fatalf("%d statuses were written, want 1", len(writes))
		}
		b := writes[0].body
		if got := b["description"].(string); got != strings.Repeat("ä", 139)+"…" {
			t.Errorf("the description is %q of %d characters", got, utf8.RuneCountInString(got))
		}
		if b["state"] != "failure" || b["context"] != "slipway/site1" || b["target_url"] != "https://x.example.org" {
			t.Errorf("the status is %v", b)
		}
		c.Verdict, c.Title = forge.Superseded, "superseded by 2222222"
		if err := r.Check(t.Context(), c); err != nil || there["slipway/site1"]["state"] != "error" {
			t.Errorf("%v: superseded is %v", err, there["slipway/site1"])
		}
		c.Commit = "main"
		if err := r.Check(t.Context(), c); !errors.Is(err, forge.ErrRefused) {
			t.Errorf("got %v for a branch instead of a commit", err)
		}
	})
}

// runs are Check Runs, as GitHub keeps them.
func runs(h *hub) *[]object {
	var all []object
	h.HandleFunc("GET /repos/acme/site/commits/{sha}/check-runs", func(w http.ResponseWriter, r *http.Request) {
		h.page(w, r, func(some []any) any { return object{"total_count": len(all), "check_runs": plainList(some)} }, func() (some []any) {
			for _, run := range all {
				if run["head_sha"] == r.PathValue("sha") {
					some = append(some, run)
				}
			}
			return some
		}())
	})
	write := func(run, body object) object {
		o, _ := body["output"].(object)
		notes, _ := o["annotations"].([]any)
		count := len(notes)
		if before, ok := run["output"].(object); ok {
			count += before["annotations_count"].(int)
		}
		for k, v := range body {
			run[k] = v
		}
		run["output"] = object{"annotations_count": count}
		return run
	}
	h.on("POST ./check-runs", func(*http.Request) any {
		run := write(object{"id": len(all) + 1, "app": object{"id": 77}}, h.sent[len(h.sent)-1].body)
		all = append(all, run)
		return run
	})
	h.on("PATCH ./check-runs/{id}", func(r *http.Request) any {
		var id int
		_, _ = fmt.Sscan(r.PathValue("id"), &id)
		return write(all[id-1], h.sent[len(h.sent)-1].body)
	})
	return &all
}

func TestCheckRuns(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		all := runs(h)
		r := connect(t, h, withApp())
		say := func(r *Repository, v forge.Verdict, notes int) {
			t.Helper()
			c := forge.Check{Commit: sha, Name: "slipway/site1", Verdict: v, Title: string(v), Summary: "**" + string(v) + "**"}
			for n := range notes {
				c.Notes = append(c.Notes, forge.Note{File: "site.cue", Line: n, Level: forge.LevelFailure, Title: "no-mac", Text: "why"})
			}
			if err := r.Check(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		say(r, forge.Pending, 0)
		if (*all)[0]["status"] != "in_progress" || (*all)[0]["conclusion"] != nil {
			t.Errorf("pending is %v", (*all)[0])
		}
		say(r, forge.Failure, 120)
		say(r, forge.Failure, 120)
		say(connect(t, h, withApp()), forge.Failure, 120)
		if len(*all) != 1 || (*all)[0]["conclusion"] != "failure" || (*all)[0]["output"].(object)["annotations_count"] != 120 {
			t.Fatalf("the runs are %v", *all)
		}
		parts := h.of("PATCH ")
		if len(parts) != 3 {
			t.Fatalf("%d calls, want 3", len(parts))
		}
		for i, want := range []int{50, 50, 20} {
			notes := parts[i].body["output"].(object)["annotations"].([]any)
			if len(notes) != want || (parts[i].body["status"] == "completed") != (i == 2) {
				t.Errorf("call %d has %d notes and %v", i, len(notes), parts[i].body["status"])
			}
			if at := notes[0].(object)["start_line"].(float64); at < 1 {
				t.Errorf("a note is at line %v", at)
			}
		}
		// What was completed is not begun again: another run follows.
		say(r, forge.Pending, 0)
		say(r, forge.Success, 0)
		if len(*all) != 2 || (*all)[0]["conclusion"] != "failure" || (*all)[1]["conclusion"] != "success" {
			t.Errorf("the runs are %v", *all)
		}
		// One that a person wants again is said again, though it is the same.
		(*all)[1]["status"], (*all)[1]["conclusion"] = "queued", nil
		say(connect(t, h, withApp()), forge.Success, 0)
		if len(*all) != 3 || (*all)[2]["conclusion"] != "success" {
			t.Errorf("the runs are %v", *all)
		}
	})
}

// A daemon that ended among its notes leaves a run that is begun anew, so that
// no note is there twice.
func TestNotesAreNotRepeated(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		all := runs(h)
		c := forge.Check{Commit: sha, Name: "slipway/site1", Verdict: forge.Failure, Title: "wrong", Notes: make([]forge.Note, 250)}
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPatch {
				w.WriteHeader(http.StatusBadGateway)
			}
			return r.Method == http.MethodPatch
		}
		if err := connect(t, h, withApp()).Check(t.Context(), c); err == nil {
			t.Fatal("half of the notes were enough")
		}
		h.before = nil
		if err := connect(t, h, withApp()).Check(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		last := (*all)[len(*all)-1]
		if len(*all) != 2 || last["conclusion"] != "failure" || last["output"].(object)["annotations_count"] != maxNotes {
			t.Errorf("the runs are %v", *all)
		}
		said := h.writes()[len(h.writes())-1].body["output"].(object)["summary"].(string)
		if !strings.Contains(said, "50 more notes") {
			t.Errorf("the summary is %q", said)
		}
	})
}
