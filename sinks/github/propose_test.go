package github

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	double "github.com/slipway-gitops/slipway/tests/github"
)

const driftBranch = "slipway/drift/fra/n1-bios-0123"

// A branch is proposed once, by a token and by an App, whatever becomes of the pull request.
func TestPropose(t *testing.T) {
	for _, kind := range []string{"token", "App"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := w.withToken()
				if kind == "App" {
					r, _ = w.withApp()
				}
				d := forge.Draft{Branch: driftBranch, Base: "main", Title: "n1: adopt\nbios " + strings.Repeat("x", 300), Body: "what was seen"}
				if _, found, err := r.Proposed(w.t.Context(), d.Branch); found || err != nil {
					w.t.Fatalf("before: %v, %v", found, err)
				}
				if _, err := r.Propose(w.t.Context(), d); !errors.Is(err, forge.ErrRefused) {
					w.t.Errorf("without the branch: %v", err)
				}
				w.repo.Push("ada", d.Branch, "adopt", double.Files{"n1.cue": "x: 1\n"})
				p, err := r.Propose(w.t.Context(), d)
				if err != nil || p.Number != 1 || p.State != site.ProposalOpen || p.Head != w.repo.Head(d.Branch) {
					w.t.Fatalf("got %+v, %v", p, err)
				}
				if again, err := r.Propose(w.t.Context(), d); err != nil || again.Number != 1 {
					w.t.Errorf("again: %+v, %v", again, err)
				}
				pull := w.repo.Pull(1)
				if n := len([]rune(pull.Title())); n != 256 || strings.Contains(pull.Title(), "\n") || pull.Body() != d.Body {
					w.t.Errorf("%d characters, %q: %q", n, pull.Title(), pull.Body())
				}
				pull.Close("ada")
				w.repo.DeleteBranch("ada", d.Branch)
				if p, found, err := r.Proposed(w.t.Context(), d.Branch); !found || err != nil || p.State != site.ProposalClosed {
					w.t.Errorf("closed: %+v, %v, %v", p, found, err)
				}
			})
		})
	}
}

// An answer that was lost opens no second pull request.
func TestProposeLostAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.withToken()
		w.repo.Push("ada", driftBranch, "adopt", double.Files{"n1.cue": "x: 1\n"})
		w.Suffer(double.Outage{Kind: double.Lost, Times: 1, For: func(r *http.Request) bool { return r.Method == http.MethodPost }})
		d := forge.Draft{Branch: driftBranch, Base: "main", Title: "n1"}
		if _, err := r.Propose(w.t.Context(), d); err == nil {
			w.t.Fatal("the answer was not lost")
		}
		p, err := r.Propose(w.t.Context(), d)
		if err != nil || p.Number != 1 {
			w.t.Errorf("got %+v, %v", p, err)
		}
	})
}

// A token that may not open pull requests is told so, with the right that it lacks; a limit is one.
func TestProposeRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.repo.Grant("slipway-machine", double.Write)
		may := double.Permissions{"metadata": "read", "contents": "write", "pull_requests": "read"}
		token := w.FineGrained("slipway-machine", may, w.repo)
		r := w.connect(secret.New("", token))
		w.repo.Push("ada", driftBranch, "adopt", double.Files{"n1.cue": "x: 1\n"})
		d := forge.Draft{Branch: driftBranch, Base: "main", Title: "n1"}
		if _, err := r.Propose(w.t.Context(), d); !errors.Is(err, forge.ErrDenied) || !strings.Contains(err.Error(), `"Pull requests: write"`) {
			w.t.Errorf("got %v", err)
		}
		w.Throttle(token, 3*time.Minute)
		var limited *forge.Limited
		if _, _, err := r.Proposed(w.t.Context(), driftBranch); !errors.As(err, &limited) {
			w.t.Errorf("got %v, want a limit", err)
		}
	})
}
