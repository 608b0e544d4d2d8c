package web

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// newRack is the head of a branch.
const newRack = "89abcdef0123456789abcdef0123456789abcdef"

func (f *fleet) Commits(context.Context, string) (site.CommitList, error) {
	list := site.CommitList{Branch: "main", InForce: "0123456789abcdef", Looked: f.now, BranchesLeftOut: 3}
	list.Commits = []site.Commit{{Revision: site.Revision{ID: strings.Repeat("c", 40), Subject: "Newest " + f.said, Author: f.said, When: f.now}, Branches: []string{"main"}, Followed: true},
		{Revision: site.Revision{ID: newRack, Subject: "Install db-1 again " + f.said, Author: f.said, When: f.now}, Branches: []string{"new-rack", f.said}, Lacks: true}}
	for i := range f.many {
		list.Commits = append(list.Commits, site.Commit{Revision: site.Revision{ID: fmt.Sprintf("d%039d", i)}, Branches: []string{fmt.Sprint("b", i)}, Problem: "it could not be fetched: " + f.said})
	}
	return list, nil
}

// Commit is the branch new-rack, with the plan of pull request 7.
func (f *fleet) Commit(_ context.Context, _, id string) (site.CommitDetail, error) {
	if !strings.HasPrefix(newRack, id) {
		return site.CommitDetail{}, fmt.Errorf("%w: Slipway plans no commit %s", site.ErrNotFound, id)
	}
	list, _ := f.Commits(context.Background(), "")
	d := site.CommitDetail{Commit: list.Commits[1], Planned: f.now, InForce: site.Revision{ID: "0123456789abcdef", Subject: f.said}, PlanDetail: f.pull().PlanDetail}
	d.Review.Proposal, d.Review.Commit, d.Review.Set = site.Proposal{Head: newRack}, &list.Commits[1], ""
	var comment bytes.Buffer
	d.Review.Whole = present.Comment(&comment, &d.Review, present.View{Now: f.now})
	d.Review.Comment = comment.String()
	if f.committed != nil {
		f.committed(&d)
	}
	return d, nil
}

func (f *fleet) PlanCommit(ctx context.Context, name, id string) (site.CommitDetail, error) {
	return f.Commit(ctx, name, id)
}

// The list has a link to the plan of each commit, can be searched, and says what is left out; the menu leads to it.
func TestCommitsAreListed(t *testing.T) {
	f := &fleet{said: "quiet", many: 150}
	h := opened(t, f)
	_, page := asked(h, "GET", "/sites/berlin/commits", "")
	for _, part := range []string{`href="/sites/berlin/commits/` + newRack + `"><code>89abcdef0123</code> Install db-1 again quiet</a>`, "new-rack, quiet", "lacks the revision in force", "152 commits. Listed", "Branches left out: 3, the last by name.",
		`rel="next"`, "not planned: it could not be fetched: quiet", `href="/sites/berlin/commits" aria-current="page"`} {
		if !strings.Contains(page, part) {
			t.Errorf("the list has no %q", part)
		}
	}
	for q, want := range map[string]string{"new-rack": "1 commit with this text", "89abcde": "1 commit with this text", "none": "No commit has this text"} {
		if _, page := asked(h, "GET", "/sites/berlin/commits?q="+q, ""); !strings.Contains(page, want) {
			t.Errorf("%s: the page has no %q", q, want)
		}
	}
	f.unpulled = true
	if _, page := asked(h, "GET", "/sites/berlin/racks", ""); strings.Contains(page, "/commits") {
		t.Error("the menu of a site without branches leads to them")
	}
}

// A commit is shown as a pull request is: with its comment and by rack. It says that nothing can be approved, and offers no button.
func TestCommitIsShownByRack(t *testing.T) {
	h := opened(t, &fleet{said: "quiet"})
	status, page := asked(h, "GET", "/sites/berlin/commits/"+newRack, "")
	if status != 200 {
		t.Fatalf("%d\n%s", status, page)
	}
	for _, part := range []string{"<h1>Install db-1 again quiet</h1>", "<b>This erases 1 machine</b>", "Nothing can be approved from this plan.", "nothing can be approved here", "This commit does not have", "new-rack, quiet",
		"<code>0123456789ab</code> quiet, which is in force", "db-1: erased; is erased and installed; everything on its disks", "web-3: leaves design", "r1: 7 nodes, 1 is erased", "<h2>In no rack</h2>", "<th>What the commit does</th>",
		"/api/v1/sites/berlin/commits/" + newRack + "?limit=24", "slipway commits " + newRack} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %q", part)
		}
	}
	for _, part := range []string{"/do/approve", "Merging", "pull request 0", "merged into"} {
		if strings.Contains(page, part) {
			t.Errorf("the page has %q", part)
		}
	}
	for path, want := range map[string]int{"/sites/berlin/commits/ffffffffff": 404, "/sites/berlin/commits/main": 404, "/sites/berlin/commits/89abcdef01?limit=x": 200} {
		if status, _ := asked(h, "GET", path, ""); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	if _, page := asked(h, "GET", "/sites/berlin/commits/"+newRack, "", "Sec-Fetch-Site", "cross-site"); strings.Contains(page, "db-1") || !strings.Contains(page, "Plan this commit") {
		t.Error("a link on another site has the commit planned")
	}
}

// What is not known of a commit is said to be unknown.
func TestCommitWithoutPlan(t *testing.T) {
	for name, x := range map[string]struct {
		change func(d *site.CommitDetail)
		says   string
	}{
		"not yet": {func(d *site.CommitDetail) { *d = site.CommitDetail{Commit: d.Commit, Planning: true, Outdated: true} }, "Slipway is planning 89abcdef0123. The plan is shown here as soon as it is made."},
		"again":   {func(d *site.CommitDetail) { d.Planning, d.Outdated = true, true }, "Until then, this shows the last plan, which was compared with 0123456789ab."},
		"unfetched": {func(d *site.CommitDetail) {
			*d = site.CommitDetail{Commit: d.Commit}
			d.Commit.Problem = "it is too large"
		}, "There is no plan: it is too large"},
		"broken": {func(d *site.CommitDetail) { d.Counts, d.Nodes = nil, nil }, "it is not known what the commit does to a machine"},
		"large":  {func(d *site.CommitDetail) { d.NodesLeftOut, d.Nodes, d.Racks = len(d.Nodes), nil, nil }, "for the last large plans only"},
	} {
		status, page := asked(opened(t, &fleet{said: "quiet", committed: x.change}), "GET", "/sites/berlin/commits/"+newRack, "")
		if status != 200 || !strings.Contains(page, x.says) {
			t.Errorf("%s: %d, does not say %q", name, status, x.says)
		}
		if name != "again" && strings.Contains(page, `class="rack"`) {
			t.Errorf("%s: racks are drawn", name)
		}
	}
}

// The event of a design leads to the list of commits, and nothing else does that only looks like one.
func TestEventOfADesignLeadsToItsCommit(t *testing.T) {
	e := site.Event{Kind: site.EventDesign, Revision: newRack}
	if got := linkedCommit("berlin", e, marked("revision 89abcdef0123 is refused: <x>")); got != `revision <a href="/sites/berlin/commits?q=89abcdef0123">89abcdef0123</a> is refused: &lt;x&gt;` {
		t.Error(got)
	}
	for _, x := range []site.Event{{Kind: site.EventState, Revision: newRack}, {Kind: site.EventDesign}, {Kind: site.EventDesign, Revision: "dir-89abcdef0123"}} {
		if got := linkedCommit("berlin", x, "revision 89abcdef0123 is in force"); strings.Contains(string(got), "href") {
			t.Errorf("%+v: %s", x, got)
		}
	}
}

// The overview leads to the plan of a revision that is not in force.
func TestOverviewLeadsToTheNewestRevision(t *testing.T) {
	for _, newer := range []bool{true, false} {
		_, page := asked(opened(t, &fleet{said: "quiet", newer: newer}), "GET", "/sites/berlin", "")
		if got := strings.Count(page, `href="/sites/berlin/commits/`+newRack+`"><code>89abcdef0123</code></a>`); got != map[bool]int{true: 2}[newer] {
			t.Errorf("newer: %t: %d links", newer, got)
		}
	}
}

// Whoever may read some racks alone is shown no commit.
func TestCommitsAreForWhoMayReadTheSite(t *testing.T) {
	address, as := onNetwork(t, &fleet{said: "there"})
	for who, want := range map[string]int{"ana@example.org": 200, "carol@example.org": 403} {
		for _, path := range []string{"/sites/berlin/commits", "/sites/berlin/commits/" + newRack} {
			if status, page, _ := sends(t, as(who), "GET", address+path, ""); status != want || want == 403 && strings.Contains(page, "Install db-1") {
				t.Errorf("%s, %s: %d", who, path, status)
			}
		}
	}
}
