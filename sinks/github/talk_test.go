package github

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

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
