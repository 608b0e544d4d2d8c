package github

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// pull is a pull request as GitHub gives it.
func pull(n int) object {
	return object{
		"number": n, "title": "Add <b>n1</b>", "state": "open", "user": object{"login": "mona"}, "draft": false,
		"base":       object{"ref": "main", "repo": object{"id": 1}},
		"head":       object{"sha": sha, "repo": object{"id": 1}},
		"updated_at": "2026-01-02T03:04:05Z", "html_url": "https://github.com/acme/site/pull/3",
	}
}

func TestWhereTheRepositoryIs(t *testing.T) {
	for _, c := range []struct {
		api, git, page string
		is             bool
	}{
		{PublicAPI, "https://github.com/Acme/site.git", "https://github.com/acme/site/blob/c0ffee", true},
		{PublicAPI, "https://github.com/acme/site/", "https://github.com/acme/site/blob/c0ffee", true},
		{PublicAPI, "https://github.com/acme/sites", "https://github.com/acme/site/blob/c0ffee", false},
		{PublicAPI, "https://git.example.org/acme/site", "https://github.com/acme/site/blob/c0ffee", false},
		{PublicAPI, "ssh://github.com/acme/site", "https://github.com/acme/site/blob/c0ffee", false},
		{"https://git.example.org/api/v3", "https://git.example.org/acme/site", "https://git.example.org/acme/site/blob/c0ffee", true},
		{"https://git.example.org:8443/api/v3/", "https://git.example.org/acme/site", "https://git.example.org:8443/acme/site/blob/c0ffee", false},
		{"https://api.acme.ghe.com", "https://acme.ghe.com/acme/site", "https://acme.ghe.com/acme/site/blob/c0ffee", true},
	} {
		t.Run(c.api+" "+c.git, func(t *testing.T) {
			s := withToken()
			s.hosts = append(s.hosts, "git.example.org", "api.acme.ghe.com")
			r, err := Open(Config{API: c.api, Repository: "acme/site", Credential: "github", Secrets: s})
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(c.git)
			if err != nil {
				t.Fatal(err)
			}
			if r.Is(u) != c.is || r.Pages("c0ffee") != c.page {
				t.Errorf("it is %s: %t; its pages are %s", c.git, r.Is(u), r.Pages("c0ffee"))
			}
		})
	}
}

func TestOpenSaysWhatToPass(t *testing.T) {
	small := secret.New("1", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n")
	for _, c := range []struct {
		name, api, repository, ca string
		secrets                   *safe
		want                      string
	}{
		{"no API", "", "acme/site", "", withToken(), "write https://api.github.com"},
		{"pages", "https://github.com", "acme/site", "", withToken(), "not that of its pages"},
		{"http", "http://ghes.example.org/api/v3", "acme/site", "", withToken(), "use https://"},
		{"token in the address", "https://t0ken-canary@api.github.com", "acme/site", "", withToken(), "put it into the credential"},
		{"no owner", PublicAPI, "site", "", withToken(), "write OWNER/NAME"},
		{"a way out", PublicAPI, "acme/..", "", withToken(), "write OWNER/NAME"},
		{"other host", "https://ghes.example.org/api/v3", "acme/site", "", withToken(), "not for this host"},
		{"broken key", PublicAPI, "acme/site", "", &safe{value: small, hosts: []string{"api.github.com"}}, "not an RSA private key"},
		{"key of nobody", PublicAPI, "acme/site", "", &safe{value: secret.New("", withApp().value.Reveal()), hosts: []string{"api.github.com"}}, "not which App it is"},
		{"no CA", PublicAPI, "acme/site", filepath.Join(t.TempDir(), "ca.pem"), withToken(), "certificate authorities"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(Config{API: c.api, Repository: c.repository, Credential: "github", Secrets: c.secrets, CA: c.ca})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "AAAA") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestOpenProposals(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.list("pulls", plainList, func(r *http.Request) []any {
			if q := r.URL.Query(); q.Get("state") != "open" || q.Get("base") != "main" {
				t.Errorf("asked for %v", q)
			}
			var all []any
			for n := range 300 {
				all = append(all, pull(n+1))
			}
			all[1].(object)["head"] = object{"sha": sha, "repo": object{"id": 2}}
			all[2].(object)["head"] = object{"sha": sha, "repo": nil}
			all[3].(object)["draft"] = true
			all[150] = all[0] // it moved while the pages were read
			return all
		})
		got, err := connect(t, h, withToken()).Open(t.Context(), "main")
		if err != nil || len(got) != 299 {
			t.Fatalf("got %d, %v, want 299", len(got), err)
		}
		want := site.Proposal{
			Number: 1, Title: "Add <b>n1</b>", Author: "mona", State: site.ProposalOpen, Base: "main", Head: sha,
			URL: "https://github.com/acme/site/pull/3", Changed: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		}
		if got[0] != want {
			t.Errorf("got  %+v\nwant %+v", got[0], want)
		}
		if !got[1].Fork || !got[2].Fork || got[3].Fork || !got[3].Draft {
			t.Errorf("forks and drafts are not told: %+v", got[1:4])
		}
		if n := len(h.of("GET /repos/acme/site/pulls")); n != 3 {
			t.Errorf("%d pages were asked for, want 3", n)
		}
	})
}

// Of more than are listed those are there that were changed last, and it is said
// once that others are not.
func TestTooManyOpenProposals(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		var open []any
		for n := range 100*maxProposalPages + 1 {
			open = append(open, pull(n+1))
		}
		h.list("pulls", plainList, func(r *http.Request) []any {
			if q := r.URL.Query(); q.Get("sort") != "updated" || q.Get("direction") != "desc" {
				t.Errorf("asked for %v", q)
			}
			return open
		})
		r := connect(t, h, withToken())
		var log bytes.Buffer
		r.log = slog.New(slog.NewTextHandler(&log, nil))
		lists := func(want int) {
			t.Helper()
			got, err := r.Open(t.Context(), "main")
			if err != nil || len(got) != want || got[0].Number != 1 {
				t.Fatalf("got %d, %v, want %d", len(got), err, want)
			}
			<-time.After(time.Hour)
		}
		lists(len(open) - 1)
		lists(len(open) - 1)
		if strings.Count(log.String(), "left out") != 1 || strings.Contains(log.String(), "again") {
			t.Errorf("the log says\n%s", &log)
		}
		open = open[:len(open)-1]
		lists(len(open))
		if !strings.Contains(log.String(), "listed again") {
			t.Errorf("the log says\n%s", &log)
		}
	})
}

func TestProposalThatWasMerged(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		p := pull(3)
		h.on("GET ./pulls/3", func(*http.Request) any { return p })
		r := connect(t, h, withToken())
		p["state"] = "closed"
		if got, err := r.Proposal(t.Context(), 3); err != nil || got.State != site.ProposalClosed || got.Merge != "" {
			t.Errorf("got %+v, %v, want it closed", got, err)
		}
		p["merged_at"], p["merge_commit_sha"], p["merged_by"] = "2026-01-02T03:04:05Z", other, object{"login": "ada"}
		if got, err := r.Proposal(t.Context(), 3); err != nil || got.State != site.ProposalMerged || got.Merge != other || got.MergedBy != "ada" ||
			!got.MergedAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
			t.Errorf("got %+v, %v, want it merged", got, err)
		}
		if _, err := r.Proposal(t.Context(), 4); !errors.Is(err, forge.ErrGone) {
			t.Errorf("got %v, want it gone", err)
		}
		p["head"] = object{"sha": "--upload-pack=x"}
		if _, err := r.Proposal(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "is not a commit") {
			t.Errorf("got %v, want it refused", err)
		}
	})
}

// What has not changed is asked for with its ETag, and costs nothing.
func TestNotModified(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.list("pulls", plainList, func(*http.Request) []any {
			var all []any
			for n := range 150 {
				all = append(all, pull(n+1))
			}
			return all
		})
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			tag := `W/"` + r.URL.RawQuery + `"`
			w.Header().Set("ETag", tag)
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return true
			}
			return false
		}
		r := connect(t, h, withToken())
		for range 3 {
			if got, err := r.Open(t.Context(), "main"); err != nil || len(got) != 150 {
				t.Fatalf("got %d, %v, want 150", len(got), err)
			}
		}
		all := h.of("GET ")
		if len(all) != 6 {
			t.Fatalf("%d requests, want 6", len(all))
		}
		for i, x := range all {
			if tagged := x.header.Get("If-None-Match") != ""; tagged != (i >= 2) {
				t.Errorf("request %d: with a tag is %v", i, tagged)
			}
		}
	})
}

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

// talk is a conversation, as GitHub keeps it.
type talk struct{ all []object }

func (k *talk) say(who, kind, body string) object {
	c := object{"id": 1000 + len(k.all), "body": body, "user": object{"login": who, "type": kind},
		"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z",
		"issue_url": "https://api.github.com/repos/acme/issues/issues/3"}
	k.all = append(k.all, c)
	return c
}

func (k *talk) find(r *http.Request) int {
	for i, c := range k.all {
		if fmt.Sprint(c["id"]) == r.PathValue("id") {
			return i
		}
	}
	return -1
}

func conversation(h *hub, me, kind string) *talk {
	k := &talk{}
	h.list("issues/3/comments", plainList, func(*http.Request) (all []any) {
		for _, c := range k.all {
			all = append(all, c)
		}
		return all
	})
	h.on("POST ./issues/3/comments", func(*http.Request) any { return k.say(me, kind, h.sent[len(h.sent)-1].body["body"].(string)) })
	h.on("GET ./issues/comments/{id}", func(r *http.Request) any {
		if i := k.find(r); i >= 0 {
			return k.all[i]
		}
		return http.StatusNotFound
	})
	h.on("PATCH ./issues/comments/{id}", func(r *http.Request) any {
		i := k.find(r)
		if i < 0 {
			return http.StatusNotFound
		}
		k.all[i]["body"] = h.sent[len(h.sent)-1].body["body"]
		return k.all[i]
	})
	return k
}

func TestOneComment(t *testing.T) {
	for name, c := range map[string]struct {
		secrets  func() *safe
		me, kind string
	}{
		"token": {withToken, "slipway-machine", "User"},
		"App":   {withApp, "slipway[bot]", "Bot"},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				h := newHub()
				k := conversation(h, c.me, c.kind)
				m := forge.Marker{Site: "site1", Kind: "plan"}
				k.say("mallory", "User", m.Mark("I am Slipway"))
				k.say(c.me, c.kind, forge.Marker{Site: "site2", Kind: "plan"}.Mark("of another site"))
				for n := range 150 {
					k.say("mona", "User", fmt.Sprint("talk ", n))
				}
				r := connect(t, h, c.secrets())
				keep := func(r *Repository, body string) int64 {
					t.Helper()
					_, is, err := r.Keep(t.Context(), 3, 0, m, body)
					if err != nil {
						t.Fatal(err)
					}
					return is.ID
				}
				writes := func() int { return len(h.of("POST /repos")) + len(h.of("PATCH ")) }
				id := keep(r, "first")
				if got := k.all[152]; len(k.all) != 153 || got["body"] != m.String()+"\nfirst" {
					t.Fatalf("the comment is %v", got)
				}
				if keep(r, "first"); writes() != 1 {
					t.Errorf("saying the same again makes %d writes, want 1", writes())
				}
				if again := keep(r, "second"); again != id || k.all[152]["body"] != m.Mark("second") {
					t.Errorf("the comment %d is %v, want %d edited", again, k.all[152], id)
				}
				// After a restart it is found, behind a page of others' and a forged one.
				if again := keep(connect(t, h, c.secrets()), "third"); again != id || len(k.all) != 153 {
					t.Errorf("got comment %d of %d, want %d of 153", again, len(k.all), id)
				}
				if k.all[0]["body"] != m.Mark("I am Slipway") {
					t.Error("another's comment was edited")
				}
				// One that a person deleted is written anew, once that is certain.
				k.all = k.all[:152]
				if _, _, err := r.Keep(t.Context(), 3, 0, m, "fourth"); !errors.Is(err, site.ErrNotYet) || len(k.all) != 152 {
					t.Errorf("at once there are %d comments, %v", len(k.all), err)
				}
				<-time.After(doubtMissing)
				if again := keep(r, "fourth"); len(k.all) != 153 || fmt.Sprint(again) != fmt.Sprint(k.all[152]["id"]) {
					t.Errorf("got comment %d of %d", again, len(k.all))
				}
			})
		})
	}
}

func TestCommentThatIsTooLong(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		conversation(h, "slipway-machine", "User")
		r := connect(t, h, withToken())
		m := forge.Marker{Site: "s", Kind: "plan"}
		fits := maxBody - len(m.Mark(""))
		if _, _, err := r.Keep(t.Context(), 3, 0, m, strings.Repeat("ü", fits)); err != nil {
			t.Error(err)
		}
		if _, _, err := r.Keep(t.Context(), 3, 0, m, strings.Repeat("ü", fits+1)); !errors.Is(err, forge.ErrRefused) {
			t.Errorf("got %v, want it refused", err)
		}
		if n := len(h.writes()); n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
	})
}

func TestCommentsOfOthers(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		k := conversation(h, "slipway-machine", "User")
		k.say("mona", "User", "/slipway plan")
		k.say("robot[bot]", "Bot", "beep")["updated_at"] = "2026-01-02T03:05:05Z"
		h.list("issues/comments", plainList, func(*http.Request) []any { return []any{k.all[0], k.all[1]} })
		since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		got, err := connect(t, h, withToken()).CommentsSince(t.Context(), since)
		if err != nil || len(got) != 2 {
			t.Fatalf("got %v, %v", got, err)
		}
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		want := forge.Comment{ID: 1000, Number: 3, Author: "mona", Body: "/slipway plan", Written: at, Changed: at}
		if got[0] != want || got[0].Edited() || !got[1].Bot || !got[1].Edited() {
			t.Errorf("got %+v", got)
		}
	})
}

func TestReactions(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.on("POST ./issues/comments/9/reactions", func(*http.Request) any { return object{} })
		r := connect(t, h, withToken())
		for _, what := range []forge.Reaction{forge.Seen, forge.Done, forge.Refused, forge.Confused} {
			if err := r.React(t.Context(), 9, what); err != nil {
				t.Error(err)
			}
		}
		for i, want := range []string{"eyes", "+1", "-1", "confused"} {
			if got := h.writes()[i].body["content"]; got != want {
				t.Errorf("reaction %d is %v, want %s", i, got, want)
			}
		}
		if err := r.React(t.Context(), 8, forge.Seen); !errors.Is(err, forge.ErrGone) {
			t.Errorf("got %v, want it gone", err)
		}
	})
}

func TestPermissions(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.on("GET ./collaborators/{who}/permission", func(r *http.Request) any {
			switch who := r.PathValue("who"); who {
			case "nobody":
				return http.StatusNotFound
			default:
				return object{"permission": who}
			}
		})
		r := connect(t, h, withToken())
		for who, want := range map[string]forge.Permission{
			"none": forge.None, "read": forge.Read, "write": forge.Write, "admin": forge.Admin,
			"nobody": forge.None, "other-word": forge.None, "../../../user": forge.None, "": forge.None, "a/b": forge.None,
		} {
			if got, err := r.Permission(t.Context(), who); err != nil || got != want {
				t.Errorf("%q may %v, %v, want %v", who, got, err, want)
			}
		}
		if n := len(h.of("GET ")); n != 6 {
			t.Errorf("%d requests, want one for each name that there can be", n)
		}
	})
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for code, c := range map[int]struct {
		is   error
		want string
	}{
		http.StatusUnauthorized:        {forge.ErrDenied, "make a new one"},
		http.StatusForbidden:           {nil, `GitHub does not say that a right is missing`},
		http.StatusNotFound:            {forge.ErrGone, "the token may not see it"},
		http.StatusGone:                {forge.ErrGone, "does not find it"},
		http.StatusUnprocessableEntity: {forge.ErrRefused, "GitHub answers 422"},
		http.StatusBadGateway:          {nil, "GitHub answers 502"},
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				h := newHub()
				h.before = func(w http.ResponseWriter, _ *http.Request) bool {
					w.WriteHeader(code)
					give(w, object{"message": "no \x1b[31m\nway", "errors": []object{{"field": "head", "code": "custom", "message": "bad"}}})
					return true
				}
				_, err := connect(t, h, withToken()).Proposal(t.Context(), 3)
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "no [31m way") || !strings.Contains(err.Error(), "#3") {
					t.Fatalf("got %v, want %q", err, c.want)
				}
				for _, kind := range []error{forge.ErrDenied, forge.ErrGone, forge.ErrRefused} {
					if errors.Is(err, kind) != (kind == c.is) {
						t.Errorf("%v is %v", err, kind)
					}
				}
				if strings.Contains(err.Error(), "canary") {
					t.Errorf("the error shows the token: %v", err)
				}
			})
		})
	}
}

// A 403 is explained as a missing right only where GitHub says so. The messages
// are GitHub's own.
func TestForbiddenIsExplained(t *testing.T) {
	for message, want := range map[string]string{
		"Resource not accessible by personal access token":                    `required: "Pull requests: read"`,
		"Resource not accessible by integration":                              `required: "Pull requests: read"`,
		"Must have admin rights to Repository.":                               `required: "Pull requests: read"`,
		"Resource protected by organization SAML enforcement. You must grant": "single sign-on",
		"Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list enabled": "allow list",
		"Repository was archived so is read-only.":                       "unarchive it",
		"Unable to create comment because issue is locked.":              "unlock it",
		"This installation has been suspended":                           "suspended",
		"`acme` forbids access via a fine-grained personal access token": "allow this kind of token",
		"Repository access blocked":                                      "access is blocked",
		"":                                                               "does not say that a right is missing",
	} {
		t.Run(message, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				h := newHub()
				h.before = func(w http.ResponseWriter, _ *http.Request) bool {
					w.WriteHeader(http.StatusForbidden)
					give(w, object{"message": message})
					return true
				}
				_, err := connect(t, h, withToken()).Proposal(t.Context(), 3)
				if errors.Is(err, forge.ErrDenied) != (message != "") || !strings.Contains(err.Error(), want) ||
					strings.Contains(err.Error(), "required: ") != strings.HasPrefix(want, "required: ") {
					t.Errorf("got %v, want %q", err, want)
				}
			})
		})
	}
}

// The token goes to the API's host, and nowhere that a redirect or a link leads.
func TestTokenStaysAtItsHost(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		statuses(h)
		h.on("GET /repositories/1/pulls/3", func(*http.Request) any { return pull(3) })
		to := ""
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/repos/") {
				return false
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusMovedPermanently)
			return true
		}
		r := connect(t, h, withToken())
		to = "https://evil.example.org/repos/acme/site/pulls/3"
		if _, err := r.Proposal(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "the token is for api.github.com alone") {
			t.Errorf("got %v, want a refusal", err)
		}
		to = "http://api.github.com/repositories/1/pulls/3"
		if _, err := r.Proposal(t.Context(), 3); err == nil {
			t.Error("a redirect to http:// is followed")
		}
		to = "https://api.github.com/repositories/1/pulls/3"
		if p, err := r.Proposal(t.Context(), 3); err != nil || p.Number != 3 {
			t.Errorf("got %v, %v: a renamed repository is not read", p, err)
		}
		if _, _, err := r.api.Reactions.CreateIssueCommentReaction(t.Context(), "acme", "site", 1, "eyes"); err == nil || !strings.Contains(err.Error(), "write its new name") {
			t.Errorf("got %v, want a write not to be sent on as a read", err)
		}
	})
}

func TestAnswerThatIsTooLarge(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.before = func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write(make([]byte, maxAnswer+1))
			return true
		}
		if _, err := connect(t, h, withToken()).Proposal(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "longer than 32 MiB") {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}

// A token that was replaced in its file is used at once when the old one is
// refused, and a wrong one is not tried twice.
func TestTokenIsReplaced(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h, s := newHub(), withToken()
		h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Authorization") != "Bearer new" {
				w.WriteHeader(http.StatusUnauthorized)
				s.set(secret.New("", "new")) // an administrator is at work
				return true
			}
			return false
		}
		r := connect(t, h, s)
		if _, err := r.Proposal(t.Context(), 3); err != nil {
			t.Error(err)
		}
		h.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		before := len(h.of(""))
		if _, err := r.Proposal(t.Context(), 3); !errors.Is(err, forge.ErrDenied) || len(h.of(""))-before != 1 {
			t.Errorf("got %v after %d requests", err, len(h.of(""))-before)
		}
	})
}

// A key in the place of a token is for a daemon that begins anew: it is not sent.
func TestKeyIsNotSentAsToken(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h, s := newHub(), withToken()
		h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
		r := connect(t, h, s)
		s.set(withApp().value)
		before := len(h.of(""))
		if _, err := r.Proposal(t.Context(), 3); !errors.Is(err, forge.ErrDenied) || !strings.Contains(err.Error(), "which is never sent") || len(h.of("")) != before {
			t.Errorf("got %v after %d requests", err, len(h.of(""))-before)
		}
	})
}

func TestApp(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.on("GET ./pulls/{n}", func(*http.Request) any { return pull(3) })
		r := connect(t, h, withApp())
		ask := func() string {
			t.Helper()
			if _, err := r.Proposal(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			all := h.of("GET /repos/acme/site/pulls")
			return all[len(all)-1].header.Get("Authorization")
		}
		if got := ask(); got != "Bearer installation-1" {
			t.Errorf("authorized by %q", got)
		}
		made := h.of("POST /app/installations/5")[0]
		if got := fmt.Sprint(made.body["repositories"]); got != "[site]" {
			t.Errorf("the token is for %s, want this repository alone", got)
		}
		claims := jwt.RegisteredClaims{}
		parsed, err := jwt.ParseWithClaims(strings.TrimPrefix(made.header.Get("Authorization"), "Bearer "), &claims,
			func(*jwt.Token) (any, error) { return &appKey().PublicKey, nil }, jwt.WithTimeFunc(time.Now))
		if err != nil || parsed.Method.Alg() != "RS256" || claims.Issuer != "Iv1.slipway" {
			t.Fatalf("the App's token is %v, %v", claims, err)
		}
		if early, life := time.Since(claims.IssuedAt.Time), claims.ExpiresAt.Sub(claims.IssuedAt.Time); early != time.Minute || life > 10*time.Minute {
			t.Errorf("it is issued %s early, for %s", early, life)
		}
		<-time.After(54 * time.Minute)
		if got := ask(); got != "Bearer installation-1" {
			t.Errorf("after 54 minutes authorized by %q", got)
		}
		<-time.After(90 * time.Second)
		if got := ask(); got != "Bearer installation-2" {
			t.Errorf("shortly before the token's end authorized by %q", got)
		}
		// A token that ends before its time is replaced in the middle.
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			expired := r.Header.Get("Authorization") == "Bearer installation-2"
			if expired {
				w.WriteHeader(http.StatusUnauthorized)
			}
			return expired
		}
		if got := ask(); got != "Bearer installation-3" {
			t.Errorf("after a refusal authorized by %q", got)
		}
		login, err := r.Login(mustParse("https://github.com/acme/site"))(t.Context())
		if err != nil || login.Username() != "x-access-token" || login.Reveal() != "installation-3" {
			t.Errorf("Git logs in as %q, %v", login.Username(), err)
		}
		if _, err := r.Login(mustParse("https://evil.example.org/"))(t.Context()); !errors.Is(err, secret.ErrHost) {
			t.Errorf("got %v for another host", err)
		}
	})
}

func TestAppThatIsNotInstalled(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		h.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		_, err := connect(t, h, withApp()).Proposal(t.Context(), 3)
		if !errors.Is(err, forge.ErrDenied) || !strings.Contains(err.Error(), "not installed on acme/site: install it there") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSweep(t *testing.T) {
	virtually(t, func(t *testing.T) {
		h := newHub()
		now := time.Now()
		delivery := func(id int, guid string, ago time.Duration, code int, more object) object {
			d := object{"id": id, "guid": guid, "delivered_at": now.Add(-ago).UTC().Format(time.RFC3339), "status_code": code, "installation_id": 5, "repository_id": 1296}
			for k, v := range more {
				d[k] = v
			}
			return d
		}
		h.HandleFunc("GET /app/hook/deliveries", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("cursor") == "" {
				w.Header().Set("Link", `<https://api.github.com/app/hook/deliveries?per_page=100&cursor=v1_2>; rel="next"`)
				give(w, []object{
					delivery(9, "arrived", time.Minute, 202, nil),
					delivery(8, "missed", 2*time.Minute, 502, nil),
					delivery(7, "arrived", 3*time.Minute, 500, nil),
					delivery(6, "elsewhere", 3*time.Minute, 500, object{"repository_id": 5}),
					delivery(5, "not ours", 3*time.Minute, 500, object{"installation_id": 6}),
				})
				return
			}
			give(w, []object{
				delivery(4, "hopeless", 4*time.Minute, 500, nil),
				delivery(3, "hopeless", 5*time.Minute, 500, nil),
				delivery(2, "hopeless", 6*time.Minute, 500, nil),
				delivery(1, "also missed", 7*time.Minute, 0, nil),
				delivery(0, "long ago", 2*time.Hour, 500, nil),
			})
		})
		h.HandleFunc("POST /app/hook/deliveries/{id}/attempts", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			give(w, object{})
		})
		n, err := connect(t, h, withApp()).Sweep(t.Context(), now.Add(-time.Hour))
		again := h.of("POST /app/hook/deliveries")
		if err != nil || n != 2 || len(again) != 2 || !strings.Contains(again[0].what, "/1/") || !strings.Contains(again[1].what, "/8/") {
			t.Errorf("%d delivered again, %v: %v", n, err, again)
		}
		if _, err := connect(t, h, withToken()).Sweep(t.Context(), now); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v with a token", err)
		}
	})
}

// A server of one's own has an address and a certificate authority of its own.
func TestEnterpriseServer(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v3/repos/acme/site/pulls/3", func(w http.ResponseWriter, _ *http.Request) { give(w, pull(3)) })
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{
		API: server.URL + "/api/v3", Repository: "acme/site", Credential: "github", CA: ca,
		Secrets: &safe{value: secret.New("", "t0ken"), hosts: []string{"127.0.0.1"}}, Log: slog.New(slog.DiscardHandler),
	}
	r, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.Proposal(t.Context(), 3); err != nil || p.Number != 3 {
		t.Errorf("got %v, %v", p, err)
	}
	c.CA = ""
	if r, err = Open(c); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Proposal(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v without the authority", err)
	}
}

// A server that says nothing is left when its time is up.
func TestSilentServer(t *testing.T) {
	virtually(t, func(t *testing.T) {
		r := connect(t, newHub(), withToken())
		r.api = client(&transport{base: silent{}, api: r.api.BaseURL, who: &static{withToken(), secret.Request{Name: "github", Use: secret.GitHub, Host: "api.github.com", Port: 443}},
			limits: newLimits(slog.New(slog.DiscardHandler)), cache: newCache()})
		begun := time.Now()
		_, err := r.Proposal(t.Context(), 3)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != requestTimeout {
			t.Errorf("got %v after %s", err, time.Since(begun))
		}
	})
}

type silent struct{}

func (silent) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöüß", 3, "äö…"}, {"a\xffb", 3, "a�b"}, {"abcd", 1, "…"},
	} {
		if got := cut(c.text, c.most); got != c.want {
			t.Errorf("%q cut to %d is %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
