package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// drift switches a machine off behind the daemon's back.
func (w *town) drift() { w.fleet.Machine("old-1").SetPower("off") }

func (w *town) repaired() {
	w.t.Helper()
	w.eventually("drift is repaired", func() bool { return w.fleet.Machine("old-1").Power() == "On" })
}

// problem waits until the daemon's status has a problem with these words.
func (w *town) problem(words string) {
	w.t.Helper()
	w.status("a problem with "+words, func(s site.Status) bool {
		for _, p := range s.Problems {
			if strings.Contains(p.What, words) {
				return true
			}
		}
		return false
	})
}

// Without its repository a daemon keeps the machines as they were designed
// last, also after a restart, and says so.
func TestRepositoryVanishes(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.start()
	w.converge()
	w.rename("site.git", "away.git")
	w.problem("site.git")
	w.drift()
	w.repaired()
	w.stop()
	w.start()
	w.problem("site.git")
	w.drift()
	w.repaired()
	w.rename("away.git", "site.git")
	w.status("the problem solved", func(s site.Status) bool { return len(s.Problems) == 0 && allInSync(s) })
}

// A daemon follows a repository over HTTPS and reports to it, with a token that may
// be exchanged while it runs.
func TestRepositoryOverHTTPS(t *testing.T) {
	t.Parallel()
	w := foundTown(t, []string{"old-1"}, atOnce)
	server := repotest.ServeHTTPS(t, repotest.Of(t, w.path("site.git")))
	token := "hosts: 127.0.0.1\nuse: git\nports: 1024-65535\nusername: " + server.User + "\n\n"
	w.write("cred/git", token+server.Token)
	w.flags = []string{"--repo", server.URL, "--repo-ca", server.CA, "--repo-credential", "git"}
	w.start()
	w.converge()
	w.reported("1/1 in-sync")

	w.write("cred/git", token+"an-old-one")
	w.problem("refused the token")
	w.write("cred/git", token+server.Token)
	w.commit(w.designWith("old-1", `labels: row: "a"`), "a label")
	head := w.git("-C", "site.git", "rev-parse", "main")
	w.status("the newest commit is in force", func(s site.Status) bool { return s.Applied.ID == head && len(s.Problems) == 0 && allInSync(s) })
	if text := w.log(); strings.Contains(text, server.Token) {
		t.Error("the log has the token")
	}
}

// A daemon that is told to end in the middle of an installation does so soon,
// logs out everywhere, and joins the installation when it is back.
func TestRestartInTheMiddleOfAnInstallation(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.start()
	w.eventually("an installer runs", func() bool {
		_, err := w.approve()
		return err == nil && w.fleet.Machine("new-1").State().Runs == "installer"
	})
	w.stop()
	for _, name := range names {
		if n := w.fleet.Machine(name).State().Sessions; n != 0 {
			t.Errorf("%s: %d sessions are left", name, n)
		}
	}
	w.start()
	w.converge()
	w.stop()
	w.intact(0)
}

// After an upgrade to a program that reads another version of the design
// language, and cannot make sense of the newest commit, the last good design
// stays in force and nothing is written; the next good commit ends that.
func TestUpgradeThatRejectsTheDesign(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.start()
	w.converge()
	w.stop()
	w.age()
	w.commit(w.broken(), "as an older program understood it")
	w.start()
	w.problem("is broken")
	w.drift()
	w.status("drift is only told", func(s site.Status) bool {
		n := stateOf(s, "old-1")
		return s.ObserveOnly != "" && n.State == site.Blocked && strings.Contains(n.Next, "power-on")
	})
	w.looks(3)
	if n := w.fleet.Machine("old-1").Resets(); n != 1 {
		t.Errorf("the machine was reset %d times, once was before the upgrade", n)
	}
	w.commit(w.design(), "as this program understands it")
	w.repaired()
	w.status("the design is in force", func(s site.Status) bool { return s.ObserveOnly == "" && allInSync(s) })
}

// age lets the records be those of a program with another version of the
// design language.
func (w *town) age() {
	w.t.Helper()
	ctx := context.Background()
	store, err := record.Open(ctx, filepath.Join(w.path("state"), "records"), record.Options{})
	check(w.t, err)
	defer store.Close()
	records := store.Site("town")
	snap, err := records.Load(ctx)
	check(w.t, err)
	old := *snap.Accepted.Design
	old.SchemaVersion = "v0"
	check(w.t, records.Accept(ctx, snap.Accepted.Revision, &old))
}

// looks waits until every machine was looked at a number of times more. A look
// at a machine that is as designed is one request.
func (w *town) looks(times int) {
	w.t.Helper()
	from := map[string]int{}
	for _, name := range w.names {
		from[name] = w.fleet.Machine(name).Counts().Requests
	}
	w.eventually("more looks at every machine", func() bool {
		return !slices.ContainsFunc(w.names, func(name string) bool {
			return w.fleet.Machine(name).Counts().Requests < from[name]+times
		})
	})
}

// A site on which nothing changes gets no status commits, and a commit to the
// status branch wakes nobody.
func TestQuietSiteIsQuiet(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.start()
	w.converge()
	w.status("the status is settled", func(s site.Status) bool { return allInSync(s) && stateOf(s, "new-1").OS != "" })
	w.reported("4/4 in-sync")
	w.looks(2)
	head := w.reported("4/4 in-sync")
	w.looks(5) // and twice as many polls
	if now := w.git("-C", "site.git", "rev-parse", statusBranch); now != head {
		t.Errorf("a quiet site wrote a status:\n%s", w.git("-C", "site.git", "show", head+".."+statusBranch))
	}
	w.fleet.Machine("old-1").SetFault(lab.Fault{Kind: lab.FaultServerError})
	w.reported("3/4 in-sync")
	w.fleet.Machine("old-1").ClearFault()
	_, err := w.ask.Do(context.Background(), "", site.Order{Verb: site.VerbRetry, Node: "old-1"})
	check(t, err)
	w.reported("4/4 in-sync")
	w.looks(3)
	for _, told := range []string{"revision fetched", "is in force: "} {
		if n := strings.Count(w.log(), told); n != 1 {
			t.Errorf("%q %d times, want once\n%s", told, n, w.logEnd())
		}
	}
}

// Somebody else's commit on the status branch is built upon. The repository
// takes nothing that is forced.
func TestRaceOnTheStatusBranch(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.start()
	w.converge()
	before := w.reported("4/4 in-sync")
	w.status("the status is settled", func(s site.Status) bool { return allInSync(s) && stateOf(s, "new-1").OS != "" })
	w.git("clone", "-q", "-b", statusBranch, "site.git", "other")
	w.write("other/notes.txt", "a person's notes\n")
	w.git("-C", "other", "add", "-A")
	w.git("-C", "other", "commit", "-q", "-m", "notes")
	w.eventually("a person's commit is on the status branch", func() bool { // the daemon may be faster
		w.git("-C", "other", "pull", "-q", "--rebase")
		return exec.Command("git", "-C", w.path("other"), "push", "-q").Run() == nil
	})
	notes := w.git("-C", "other", "rev-parse", "HEAD")
	w.fleet.Machine("old-1").SetFault(lab.Fault{Kind: lab.FaultRefuse})
	head := w.reported("3/4 in-sync")
	for _, below := range []string{before, notes} {
		w.git("-C", "site.git", "merge-base", "--is-ancestor", below, head)
	}
	if got := w.git("-C", "site.git", "show", head+":notes.txt"); got != "a person's notes" {
		t.Errorf("the notes are %q", got)
	}
	if merges := w.git("-C", "site.git", "rev-list", "--merges", head); merges != "" {
		t.Errorf("the branch has merges: %s", merges)
	}
}
