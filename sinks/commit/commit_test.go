package commit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

const branch = "slipway/status/lab"

var since = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestReport(t *testing.T) {
	g := repotest.InitBare(t)
	r := reporter(t, g)
	rep := healthy(12)
	rep.Status.Nodes[3].State, rep.Status.Nodes[3].Reason = site.Progressing, "installs generation 1"
	report(t, r, rep)

	wantMessage := "status: 11/12 in-sync, 1 progressing\n\n" +
		"Slipway-Site: lab\nSlipway-Applied: " + rep.Status.Applied.ID + "\nSlipway-Attempted: " + rep.Status.Attempted.ID
	if got := g.Git("log", "--format=%B", branch); got != wantMessage {
		t.Errorf("message is\n%s\nwant\n%s", got, wantMessage)
	}
	page := g.Git("show", branch+":README.md")
	for _, want := range []string{
		"# lab: 11/12 in-sync, 1 progressing\n",
		"| applied | 1111111111aa | racks: add r3 | Ada | 2026-03-01 12:00:00Z |\n",
		"| in-sync | 11 |\n| progressing | 1 |\n",
		"| [n0003](" + nodeFile("n0003") + ") | progressing | installs generation 1 | 2026-03-01 12:00:00Z |  |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	var s summary
	if err := json.Unmarshal([]byte(g.Git("show", branch+":status.json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.Counts[site.InSync] != 11 || s.Nodes != 12 || s.Verdict != "11/12 in-sync, 1 progressing" {
		t.Errorf("status.json is %+v", s)
	}
	var n site.NodeStatus
	if err := json.Unmarshal([]byte(g.Git("show", branch+":"+nodeFile("n0003"))), &n); err != nil {
		t.Fatal(err)
	}
	if n.Name != "n0003" || n.State != site.Progressing || !n.Seen.IsZero() || !n.Retry.IsZero() {
		t.Errorf("the node's file is %+v", n)
	}
	g.Git("fsck", "--strict")
}

func TestCommitsOnSemanticChangeOnly(t *testing.T) {
	g := repotest.InitBare(t)
	r := reporter(t, g)
	rep := healthy(12)
	report(t, r, rep)
	rep.Status.Nodes[1].Seen = since.Add(time.Hour)
	rep.Status.Nodes[1].Retry = since.Add(2 * time.Hour)
	report(t, r, rep)
	wantCommits(t, g, 1)

	r = reporter(t, g) // a restart
	report(t, r, rep)
	wantCommits(t, g, 1)

	rep.Status.Nodes[1].State = site.Stalled
	report(t, r, rep)
	wantCommits(t, g, 2)
	if got := g.Git("diff", "--name-only", branch+"~1", branch); got != "README.md\n"+nodeFile("n0001")+"\nstatus.json" {
		t.Errorf("changed are\n%s", got)
	}
}

func TestNodesThatLeaveAreTakenOut(t *testing.T) {
	g := repotest.InitBare(t)
	r := reporter(t, g)
	report(t, r, healthy(12))
	report(t, r, healthy(2))
	want := "README.md\n" + nodeFile("n0000") + "\n" + nodeFile("n0001") + "\nstatus.json"
	if got := g.Git("ls-tree", "-r", "--name-only", branch); got != want {
		t.Errorf("files are\n%s\nwant\n%s", got, want)
	}
}

// TestTwoWriters: two reporters that do not know of each other lose no commit
// and end with the later one's status.
func TestTwoWriters(t *testing.T) {
	g := repotest.InitBare(t)
	a, b := reporter(t, g), reporter(t, g)
	rep := healthy(3)
	for i := range 6 {
		rep.Status.Nodes[0].Reason = fmt.Sprintf("round %d", i)
		report(t, []*Reporter{a, b}[i%2], rep)
	}
	wantCommits(t, g, 6)
	if got := g.Git("show", branch+":"+nodeFile("n0000")); !strings.Contains(got, "round 5") {
		t.Errorf("the last status is\n%s", got)
	}
}

func TestForeignFilesAreKept(t *testing.T) {
	g := repotest.Init(t)
	report(t, reporter(t, g), healthy(2))
	g.Git("checkout", "-q", branch)
	g.Write("NOTES", "do not touch rack 3\n")
	g.Write("README.md", "scribbled\n")
	g.Commit("notes")
	g.Git("checkout", "-q", "--detach")

	var logged bytes.Buffer
	r := reporter(t, g)
	r.log = slog.New(slog.NewTextHandler(&logged, nil))
	rep := healthy(2)
	for i := range 2 {
		rep.Status.Nodes[0].Reason = fmt.Sprint(i)
		report(t, r, rep)
	}
	if got := g.Git("show", branch+":NOTES"); got != "do not touch rack 3" {
		t.Errorf("NOTES is %q", got)
	}
	if got := g.Git("show", branch+":README.md"); !strings.HasPrefix(got, "# lab:") {
		t.Errorf("the page is %q", got)
	}
	if n := strings.Count(logged.String(), "NOTES"); n != 1 {
		t.Errorf("the foreign file was logged %d times", n)
	}
}

func TestForeignBranchIsRefused(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"anything":     {"main.go": "package main\n"},
		"other status": {"status.json": `{"kind":"slipway/status/v1","site":"other"}`},
		"no JSON":      {"status.json": strings.Repeat("[", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			g := repotest.Init(t)
			for file, content := range files {
				g.Write(file, content)
			}
			head := g.Commit("mine")
			g.Git("branch", branch)
			err := reporter(t, g).Report(t.Context(), healthy(2))
			if err == nil || !strings.Contains(err.Error(), "not made by Slipway for site lab") || !strings.Contains(err.Error(), "--delete "+branch) {
				t.Errorf("got %v, want a refusal that names the branch and what to do", err)
			}
			if got := g.Git("rev-parse", branch); got != head {
				t.Errorf("the branch moved to %s", got)
			}
		})
	}
}

func TestDeletedBranchIsMadeAgain(t *testing.T) {
	g := repotest.InitBare(t)
	r := reporter(t, g)
	rep := healthy(2)
	report(t, r, rep)
	g.Git("update-ref", "-d", "refs/heads/"+branch)
	rep.Status.Nodes[0].State = site.Stalled
	report(t, r, rep)
	wantCommits(t, g, 1)
}

func TestOverSSH(t *testing.T) {
	g := repotest.InitBare(t)
	r, err := New(repotest.ServeSSH(t, false).Remote(t, g), "lab", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	report(t, r, healthy(2))
	wantCommits(t, g, 1)
}

func TestSiteNameMakesABranch(t *testing.T) {
	for _, name := range []string{"", "a b", "../main", "a..b", "-x", "a~1"} {
		if _, err := New(repo.Remote{}, name, nil); err == nil {
			t.Errorf("site %q was taken", name)
		}
	}
}

func reporter(t *testing.T, g *repotest.Repo) *Reporter {
	t.Helper()
	remote, err := repo.New(g.Dir, secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(remote, "lab", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// healthy is the report of a site with nothing to tell.
func healthy(nodes int) site.Report {
	rev := site.Revision{ID: "1111111111aaaaaaaaaabbbbbbbbbbcccccccccc", Subject: "racks: add r3", Author: "Ada", When: since}
	s := site.Status{Site: "lab", Applied: rev, Attempted: rev}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		s.Nodes = append(s.Nodes, site.NodeStatus{
			Name: name, Role: "compute", Rack: fmt.Sprintf("r%d", i/40), State: site.InSync, Since: since, Seen: since,
			Machine: site.Identity{UUID: fmt.Sprintf("4c4c4544-0000-4000-8000-%012x", i*7919)}, Power: "on", Health: "OK", OS: "debian 12", Generation: 1,
		})
	}
	return site.Report{Status: s}
}

func report(t *testing.T, r *Reporter, rep site.Report) {
	t.Helper()
	if err := r.Report(t.Context(), rep); err != nil {
		t.Fatal(err)
	}
}

func wantCommits(t *testing.T, g *repotest.Repo, want int) {
	t.Helper()
	if got := g.Git("rev-list", "--count", branch); got != fmt.Sprint(want) {
		t.Errorf("%s commits, want %d", got, want)
	}
}
