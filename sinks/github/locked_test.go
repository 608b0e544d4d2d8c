package github

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	double "github.com/slipway-gitops/slipway/tests/github"
)

// reported is the last check of a commit, for who reads it: how it stands, its title and its text.
func (t *teller) reported(commit string) (stands, title, text string) {
	all := t.w.repo.Checks(commit)
	if len(all) == 0 {
		return "", "", ""
	}
	is := all[len(all)-1].State()
	return t.stands(commit), is.Title, is.Summary
}

// A locked conversation takes no comment of an App. Until it is unlocked the status, one line in the log and the check
// say so. The check is no success where the comment would name what is destroyed.
func TestLockedConversation(t *testing.T) {
	const locked = "Unable to create comment because issue is locked"
	for name, c := range map[string]struct{ set, stands, title string }{
		"nothing is destroyed": {"", "success", "no comment, see `slipway status`: 1 node changes (COMMITS)"},
		"a disk is destroyed":  {"0123456789abcdef", "pending", "the comment that says what is destroyed cannot be written; see `slipway status`"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r, _ := w.withApp()
				s := w.teller(r)
				defer func() { s.stop() }()
				pull, other := w.propose("n1"), w.propose("n2")
				pull.Lock("ada")
				for _, p := range []*double.Pull{pull, other} {
					s.begin(p)
					v := s.reviewed(p, "the plan\n")
					v.Set, v.Verdict = c.set, "1 node changes"
					s.announce(v)
				}
				time.Sleep(3 * time.Hour)

				s.reads(pull)
				s.reads(other, "the plan\n")
				stands, title, text := s.reported(pull.HeadID())
				want := strings.ReplaceAll(c.title, "COMMITS", pull.HeadID()[:12]+" on "+w.repo.Head("main")[:12])
				if stands != c.stands || title != want || !strings.Contains(text, locked) || !strings.Contains(text, "unlock it") {
					t.Errorf("while it is locked the check is %s, %q, %q", stands, title, text)
				}
				if stands, title, _ := s.reported(other.HeadID()); stands != "success" || !strings.HasPrefix(title, "1 node changes") {
					t.Errorf("the check of another pull request is %s, %q", stands, title)
				}
				if err := s.problem(); err == nil || !strings.Contains(err.Error(), "comment on #1: ") || !strings.Contains(err.Error(), "unlock it") {
					t.Errorf("the status says %v", err)
				}
				if lines := strings.Count(s.logged(), locked); lines != 1 {
					t.Errorf("%d lines in the log:\n%s", lines, s.logged())
				}

				pull.Unlock("ada")
				time.Sleep(16 * time.Minute)
				s.reads(pull, "the plan\n")
				if stands, title, _ := s.reported(pull.HeadID()); stands != "success" || !strings.HasPrefix(title, "1 node changes") {
					t.Errorf("once it is unlocked the check is %s, %q", stands, title)
				}
				if err := s.problem(); err != nil {
					t.Errorf("once it is unlocked the status says %v", err)
				}
			})
		})
	}
}

// Whoever has unlocked a conversation asks for the plan again and does not wait for the next attempt. So does a daemon
// that is started again, which knows that its last comment was not written.
func TestUnlockedConversation(t *testing.T) {
	for name, again := range map[string]func(*teller, site.Review){
		"asked for another plan": func(s *teller, v site.Review) { s.announce(v) },
		"restarted":              func(s *teller, _ site.Review) { s.stop(); s.up() },
		"another head": func(s *teller, v site.Review) {
			s.w.repo.Push("ada", "n1", "more", double.Files{"n1.cue": "x: 2\n"})
			v.Proposal.Head = s.w.repo.Head("n1")
			s.announce(v)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r, _ := w.withApp()
				s := w.teller(r)
				defer func() { s.stop() }()
				pull := w.propose("n1")
				pull.Lock("ada")
				v := s.reviewed(pull, "the plan\n")
				v.Set, v.Verdict = "", "1 node changes"
				s.announce(v)
				time.Sleep(50 * time.Minute)
				pull.Unlock("ada")
				again(s, v)
				time.Sleep(3 * time.Minute)
				s.reads(pull, "the plan\n")
				if stands, title, _ := s.reported(pull.HeadID()); stands != "success" || !strings.HasPrefix(title, "1 node changes") || s.problem() != nil {
					t.Errorf("the check is %s, %q, and the status says %v", stands, title, s.problem())
				}
			})
		})
	}
}

// logger logs warnings for the test, as people read them by their priority.
func (t *teller) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(logOf{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (t *teller) logged() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.log.String()
}

// logOf writes to the log of a teller.
type logOf struct{ *teller }

func (l logOf) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}
