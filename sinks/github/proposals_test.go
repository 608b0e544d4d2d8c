package github

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

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
