package web

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// pull is pull request 7, which does something else to each machine, with its comment as people read it. With racked, it stops
// every machine but those that are named.
func (f *fleet) pull() site.ProposalDetail {
	p := site.Proposal{Number: 7, Title: "Install db-1 again " + f.said, Author: f.said, State: site.ProposalOpen, Base: "main", Head: "89abcdef0123456789abcdef0123456789abcdef", URL: "https://git.example/pull/7"}
	seen := f.now.Add(-time.Minute)
	step := func(node string, i site.Impact, a site.Action) site.NodePlan {
		s := site.Step{Node: node, Action: a, Impact: i, Reason: "the design says so " + f.said, Expect: site.Duration(15 * time.Minute), Changes: []site.Change{{Field: "generation", Have: "1", Want: "2 " + f.said, Origin: site.At("sites/berlin/site.cue", 3, 4, "node/"+node)}}}
		if i == site.ImpactDestructive {
			s.Loses, s.Disks, s.Generation = "everything on its disks", "S1, S2", 2
		}
		return site.NodePlan{Node: node, Steps: []site.Step{s}, Seen: seen, Expect: s.Expect}
	}
	more := []site.NodePlan{step("db-1", site.ImpactDestructive, site.ActionInstall), step("db-2", site.ImpactReboot, site.ActionRestart), step("vm-1", site.ImpactReboot, site.ActionRestart), step("web-1", site.ImpactOnline, site.ActionConfig),
		{Node: "web-2", Blocked: []string{"another machine answers " + f.said}, Seen: seen}}
	if f.racked {
		for _, name := range f.names()[6:] {
			more = append(more, step(name, site.ImpactReboot, site.ActionRestart))
		}
	}
	v := site.Review{Site: "berlin", Proposal: p, Base: "0123456789abcdef", When: f.now, Findings: []site.Finding{{Code: "image-unused", Severity: site.SeverityWarning, Message: "nobody uses it " + f.said, File: "images.cue", Line: 3}},
		Rules: []string{"rollout " + f.said}, Plan: site.Plan{Nodes: more, Removes: []site.Removal{{Node: "web-3"}}}}
	set := v.Destroys()
	v.Set = set.Digest()
	merged, before := &site.Site{Nodes: map[string]*site.Node{}, Racks: map[string]*site.Rack{"r1": {Units: 42, Location: f.said}, "r2": {Units: 42}}}, &site.Site{Nodes: map[string]*site.Node{}}
	all := site.Plan{Nodes: append(slices.Clone(more), site.NodePlan{Node: "web-4"}, site.NodePlan{Node: "new-1"})}
	r, err := f.Report("berlin")
	if err != nil {
		panic(err)
	}
	for _, n := range r.Status.Nodes {
		is := &site.Node{Name: n.Name, Role: n.Role, Rack: n.Rack, Position: n.Position}
		merged.Nodes[n.Name], before.Nodes[n.Name] = is, is
	}
	delete(merged.Nodes, "web-3")
	merged.Nodes["new-1"] = &site.Node{Name: "new-1", Rack: "r1", Position: site.Position{Unit: 40, Height: 2}}
	guest := &site.Node{Name: "vm-1"}
	guest.Virtual.Host.Hypervisor = "db-2"
	merged.Nodes["vm-1"], before.Nodes["vm-1"] = guest, guest
	var comment bytes.Buffer
	v.Whole = present.Comment(&comment, &v, present.View{Site: merged, Before: before, Now: f.now, Pages: "https://git.example/blob/89abcdef"})
	v.Verdict, v.Comment = present.Verdict(&v), comment.String()
	nodes := present.Consequences(&v, &all, present.Designs{InForce: before, Branch: before, Merged: merged})
	return site.ProposalDetail{PlanDetail: site.PlanDetail{Review: v, Losses: set, Nodes: nodes, Racks: merged.Racks, Counts: present.CountConsequences(nodes)}, ProposalBrief: site.ProposalBrief{
		Proposal: p, Verdict: site.PlainLine(v.Verdict), Waits: present.WaitsFor(&v), Planned: f.now, Set: v.Set, Erases: len(set), Shown: f.now}}
}

func (f *fleet) Proposals(string) ([]site.ProposalBrief, error) {
	all := []site.ProposalBrief{f.pull().ProposalBrief, {Proposal: site.Proposal{Number: 6, Title: f.said, State: site.ProposalMerged}, Waits: "its rollout", ApprovedBy: f.said}}
	for number := f.many; number > 0; number-- {
		all = append(all, site.ProposalBrief{Proposal: site.Proposal{Number: number, State: site.ProposalClosed}})
	}
	return all, nil
}

func (f *fleet) Proposal(_ string, number int) (site.ProposalDetail, error) {
	if number != 7 {
		return site.ProposalDetail{}, fmt.Errorf("%w: Slipway has looked at no pull request %d", site.ErrNotFound, number)
	}
	d := f.pull()
	if f.pulled != nil {
		f.pulled(&d)
	}
	return d, nil
}

func (f *fleet) ProposalsOf(_, node string) ([]site.NodeProposal, error) {
	return []site.NodeProposal{{Number: 7, Title: f.said, What: site.MergeErases}}, nil
}

// A pull request is shown as its comment has it, and by rack: each machine with its consequence in words, the others as they
// are, and what is in no rack in a table.
func TestPullRequestIsShownByRack(t *testing.T) {
	h := opened(t, &fleet{said: "quiet"})
	status, page := asked(h, "GET", "/sites/berlin/proposals/7", "")
	if status != 200 {
		t.Fatalf("%d\n%s", status, page)
	}
	for _, part := range []string{
		"<h1>#7 Install db-1 again quiet</h1>", "<b>Merging this erases 1 machine.</b>", "Merging approves exactly this", `<td data-l="what is lost">2 disks: <code>S1</code>, <code>S2</code></td>`,
		`href="https://git.example/pull/7"`, `href="https://git.example/blob/89abcdef/sites/berlin/site.cue#L3"`, "<dd>not yet (set ",
		"db-1: erased; is erased and installed; everything on its disks", "web-3: leaves design", "web-2: unknown; another machine answers quiet", "web-4: unknown; Slipway has never seen this machine",
		"new-1: unknown; Slipway has never seen this machine; new in the design; units 40 to 41", `rackshape m-erased`, "r1: 7 nodes, 1 is erased, 1 leaves the design, 1 is out of service for a time, 3 cannot be planned, 1 changes",
		"<h2>In no rack</h2>", "on db-2", `href="/sites/berlin/proposals" aria-current="page"`, `href="../nodes/db-1"`, "/api/v1/sites/berlin/proposals/7?limit=24",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %q", part)
		}
	}
	for _, part := range []string{`href="../nodes/new-1"`, "**", "&amp;#", "[!CAUTION]"} {
		if strings.Contains(page, part) {
			t.Errorf("the page has %q", part)
		}
	}
}

// Words are not in two places: all that the comment says, the page says.
func TestPageHasTheWordsOfTheComment(t *testing.T) {
	f := &fleet{said: "quiet", now: time.Now()}
	_, page := asked(opened(t, f), "GET", "/sites/berlin/proposals/7", "")
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			shown.WriteString(n.Data + " ")
		}
	}
	flat := strings.Join(strings.Fields(shown.String()), " ")
	for _, line := range strings.Split(present.CommentText(f.pull().Review.Comment), "\n") {
		for _, word := range strings.Fields(strings.ReplaceAll(line, ";", " ")) {
			if word = strings.Trim(word, ":!.,()"); !strings.Contains(flat, word) {
				t.Errorf("the page does not say %q of %q", word, line)
			}
		}
	}
}

// What is not known is said to be unknown, and never to be nothing.
func TestPullRequestWithoutPlan(t *testing.T) {
	for name, x := range map[string]struct {
		change func(d *site.ProposalDetail)
		says   string
	}{
		"broken": {func(d *site.ProposalDetail) { d.Counts, d.Nodes = nil, nil }, "it is not known what merging does to a machine"},
		"earlier": {func(d *site.ProposalDetail) {
			*d = site.ProposalDetail{ProposalBrief: site.ProposalBrief{Proposal: d.Proposal}}
		}, "Slipway has not planned this commit of the pull request since the daemon started"},
		"large":   {func(d *site.ProposalDetail) { d.NodesLeftOut, d.Nodes, d.Racks = len(d.Nodes), nil, nil }, "for the last large plans only. To see it, have this pull request planned again: comment <code>/slipway plan</code>."},
		"pushed":  {func(d *site.ProposalDetail) { d.Planning = true }, "Slipway is planning 89abcdef0123. Until then, this shows the last plan, which is of an earlier commit of the pull request or of the branch."},
		"nothing": {func(d *site.ProposalDetail) { d.Nodes, d.Counts = nil, map[site.Consequence]int{} }, "stays as it is</span> all"},
		"held":    {func(d *site.ProposalDetail) { d.Review.Held = d.Losses }, "Go to what waits for approval"},
		"merged":  {func(d *site.ProposalDetail) { d.ApprovedBy, d.ApprovedAt = "ann", time.Now() }, "by ann by merging"},
	} {
		status, page := asked(opened(t, &fleet{said: "quiet", pulled: x.change}), "GET", "/sites/berlin/proposals/7", "")
		if status != 200 || !strings.Contains(page, x.says) {
			t.Errorf("%s: %d, does not say %q", name, status, x.says)
		}
		if unknown := strings.Contains(page, "<svg class=\"rack\"") || strings.Contains(page, `class="rack"`); unknown && (name == "broken" || name == "earlier" || name == "large") {
			t.Errorf("%s: racks are drawn", name)
		}
	}
}

// The list has a link to each, by state and commit; other pages lead to it, and the menu where the site has pull requests.
func TestPullRequestsAreListed(t *testing.T) {
	f := &fleet{said: "see pull request 7", many: 150, files: "x"}
	h := opened(t, f)
	_, page := asked(h, "GET", "/sites/berlin/proposals", "")
	for _, part := range []string{`href="/sites/berlin/proposals/7">#7 Install db-1 again`, "152 pull requests, 1 open", "is erased", "a merge, which approves erasing 1 machine", `rel="next"`} {
		if !strings.Contains(page, part) {
			t.Errorf("the list has no %q", part)
		}
	}
	if _, page := asked(h, "GET", "/sites/berlin/proposals?state=open&commit=89ab", ""); !strings.Contains(page, "1 pull request matches") {
		t.Error("the filter does not choose one")
	}
	for path, want := range map[string]string{"/sites/berlin/nodes/db-1": `href="/sites/berlin/proposals/7">#7</a>`, "/sites/berlin/history": `<a href="/sites/berlin/proposals/7">pull request 7</a>`, "/sites/berlin/approvals": `<a href="/sites/berlin/proposals/7">pull request 7</a>`} {
		if _, page := asked(h, "GET", path, ""); !strings.Contains(page, want) {
			t.Errorf("%s has no link to the pull request", path)
		}
	}
	f.unpulled = true
	if _, page := asked(h, "GET", "/sites/berlin/racks", ""); strings.Contains(page, "/proposals") {
		t.Error("the menu of a site without pull requests leads to them")
	}
	for path, want := range map[string]int{"/sites/berlin/proposals/8": 404, "/sites/berlin/proposals/x": 404, "/sites/berlin/proposals/7%2f8": 400, "/sites/berlin/proposals?after=x": 400} {
		if status, _ := asked(h, "GET", path, ""); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// Whoever may read some racks alone is shown no pull request, and no link to one.
func TestPullRequestsAreForWhoMayReadTheSite(t *testing.T) {
	address, as := onNetwork(t, &fleet{said: "there"})
	for who, want := range map[string]int{"ana@example.org": 200, "carol@example.org": 403} {
		for _, path := range []string{"/sites/berlin/proposals", "/sites/berlin/proposals/7"} {
			if status, page, _ := sends(t, as(who), "GET", address+path, ""); status != want || want == 403 && strings.Contains(page, "Install db-1") {
				t.Errorf("%s, %s: %d", who, path, status)
			}
		}
		if _, page, _ := sends(t, as(who), "GET", address+"/sites/berlin/nodes/db-1", ""); strings.Contains(page, "/proposals") != (want == 200) {
			t.Errorf("%s: links to pull requests: %t", who, want != 200)
		}
	}
}

// A pull request that restarts every machine of a large site is a page of bounded size, whose next pages have the others.
func TestLargePullRequestComesInPages(t *testing.T) {
	h := opened(t, &fleet{said: "quiet", size: 10_000, racked: true})
	seen, path := map[string]bool{}, "/sites/berlin/proposals/7"
	for pages := 1; ; pages++ {
		_, page := asked(h, "GET", path, "")
		if len(page) > 900_000 {
			t.Errorf("%s has %d bytes", path, len(page))
		}
		for _, part := range strings.Split(page, `aria-label="Rack `)[1:] {
			name, _, _ := strings.Cut(part, ":")
			if seen[name] {
				t.Errorf("rack %s is there twice", name)
			}
			seen[name] = true
		}
		_, rest, _ := strings.Cut(page, `<p class="pager">`)
		rest, _, _ = strings.Cut(rest, "</p>")
		_, next, more := strings.Cut(rest, `<a href="?after=`)
		if !more || pages > 20 {
			break
		}
		next, _, _ = strings.Cut(next, `"`)
		path = "/sites/berlin/proposals/7?after=" + html.UnescapeString(next)
	}
	if len(seen) != 251 {
		t.Errorf("%d racks on all pages", len(seen))
	}
}
