package present_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// merging is a proposal that does something else to each of its machines, with the designs before and after.
func merging() (r *site.Review, all *site.Plan, merged, before *site.Site) {
	seen := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	step := func(i site.Impact, a site.Action) []site.Step {
		return []site.Step{{Action: a, Impact: i, Loses: map[bool]string{true: "everything on its disks"}[i == site.ImpactDestructive], Expect: site.Duration(6 * time.Minute)}}
	}
	maybe := step(site.ImpactReboot, site.ActionRestart)
	maybe[0].Maybe = true
	more := []site.NodePlan{
		{Node: "a-erased", Steps: step(site.ImpactDestructive, site.ActionInstall), Seen: seen},
		{Node: "b-away", Steps: step(site.ImpactReboot, site.ActionRestart), Seen: seen, Blocked: []string{"its generation is lower"}},
		{Node: "c-maybe", Steps: maybe, Seen: seen},
		{Node: "d-moment", Steps: step(site.ImpactInterrupts, site.ActionConfig), Seen: seen},
		{Node: "e-online", Steps: step(site.ImpactOnline, site.ActionConfig), Seen: seen},
		{Node: "f-blocked", Blocked: []string{"another machine answers"}, Seen: seen},
		{Node: "n-noted", Notes: []string{"worth knowing"}, Seen: seen},
	}
	pending := []site.NodePlan{{Node: "g-pending", Steps: step(site.ImpactOnline, site.ActionConfig), Seen: seen}}
	all = &site.Plan{Nodes: slices.Concat(more, pending, []site.NodePlan{{Node: "h-spared", Seen: seen}, {Node: "i-never"}, {Node: "o-installs", Seen: seen, Waiting: "the installer runs"}, {Node: "p-same-block", Seen: seen, Blocked: []string{"as on the branch"}}, {Node: "j-moved", Seen: seen}, {Node: "k-same", Seen: seen}, {Node: "l-new"}})}
	merged, before = &site.Site{Nodes: map[string]*site.Node{}}, &site.Site{Nodes: map[string]*site.Node{}}
	for _, n := range all.Nodes {
		merged.Nodes[n.Node] = &site.Node{Name: n.Node, Rack: "r1"}
		if n.Node != "l-new" {
			before.Nodes[n.Node] = &site.Node{Name: n.Node, Rack: "r1"}
		}
	}
	before.Nodes["q-never-seen-leaves"] = &site.Node{Name: "q-never-seen-leaves", Rack: "r2"}
	before.Nodes["m-leaves"], before.Nodes["j-moved"].Rack = &site.Node{Name: "m-leaves", Rack: "r2"}, "r2"
	r = &site.Review{Spared: []string{"h-spared"}, Plan: site.Plan{Nodes: more, Removes: []site.Removal{{Node: "m-leaves"}}}, Pending: site.Plan{Nodes: pending}}
	return r, all, merged, before
}

// Each machine gets the consequence that its plan has, what is not known is said to be unknown, and what stays as and where
// it is, is left out.
func TestConsequences(t *testing.T) {
	r, all, merged, before := merging()
	got := map[string]site.NodeConsequence{}
	list := present.Consequences(r, all, present.Designs{InForce: before, Branch: before, Merged: merged})
	for _, c := range list {
		got[c.Node] = c
	}
	want := map[string]site.Consequence{"a-erased": site.MergeErases, "b-away": site.MergeStops, "c-maybe": site.MergeMayRestart, "d-moment": site.MergeInterrupts, "e-online": site.MergeChanges,
		"f-blocked": site.MergeUnknown, "g-pending": site.MergePending, "h-spared": site.MergeSpares, "i-never": site.MergeUnknown, "j-moved": site.MergeLeaves, "l-new": site.MergeUnknown, "m-leaves": site.MergeRemoves,
		"o-installs": site.MergeUnknown, "p-same-block": site.MergeUnknown, "q-never-seen-leaves": site.MergeRemoves}
	for name, what := range want {
		if got[name].What != what {
			t.Errorf("%s: %q, want %q", name, got[name].What, what)
		}
	}
	if len(got) != len(want) || !slices.IsSortedFunc(list, func(a, b site.NodeConsequence) int { return strings.Compare(a.Node, b.Node) }) {
		t.Errorf("got %d nodes: %+v", len(got), list)
	}
	if c := got["a-erased"]; c.Does != "is erased and installed" || c.Loses != "everything on its disks" || c.Away == "" {
		t.Errorf("%+v", c)
	}
	if got["m-leaves"].Rack != "r2" || got["j-moved"].Rack != "r1" || got["f-blocked"].Why == "" || got["b-away"].Why == "" || got["i-never"].Why == "" {
		t.Errorf("%+v", got)
	}
	gone := &site.Site{Nodes: map[string]*site.Node{}}
	for _, c := range present.Consequences(r, all, present.Designs{InForce: before, Branch: gone, Merged: merged}) {
		if c.Node == "m-leaves" && c.What != site.MergePending {
			t.Errorf("a node that has left the branch before: %+v", c)
		}
	}
	if all := present.Consequences(r, all, present.Designs{Merged: merged}); len(all) < len(want)-2 {
		t.Errorf("without a design in force: %+v", all)
	}
}

// A virtual machine goes down with the node that it runs on, whatever else merging does to it.
func TestGuestsGoDownWithTheirHost(t *testing.T) {
	seen := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	d := &site.Site{Nodes: map[string]*site.Node{}, Hypervisors: map[string]*site.Hypervisor{"own": {Node: "host"}, "elsewhere": {}}}
	for name, on := range map[string]string{"host": "", "vm-left": "own", "vm-changed": "own", "vm-erased": "own", "vm-elsewhere": "elsewhere"} {
		d.Nodes[name] = &site.Node{Name: name, Rack: "r1"}
		d.Nodes[name].Virtual.Host.Hypervisor = on
	}
	step := func(i site.Impact, maybe bool) []site.Step {
		return []site.Step{{Action: site.ActionRestart, Impact: i, Maybe: maybe}}
	}
	for _, c := range []struct {
		host []site.Step
		want map[string]site.Consequence
	}{
		{step(site.ImpactReboot, false), map[string]site.Consequence{"vm-left": site.MergeStops, "vm-changed": site.MergeStops, "vm-erased": site.MergeErases}},
		{step(site.ImpactDestructive, false), map[string]site.Consequence{"vm-left": site.MergeStops, "vm-changed": site.MergeStops, "vm-erased": site.MergeErases}},
		{step(site.ImpactReboot, true), map[string]site.Consequence{"vm-left": site.MergeMayRestart, "vm-changed": site.MergeMayRestart, "vm-erased": site.MergeErases}},
		{step(site.ImpactOnline, false), map[string]site.Consequence{"vm-changed": site.MergeChanges, "vm-erased": site.MergeErases}},
	} {
		more := []site.NodePlan{{Node: "host", Steps: c.host, Seen: seen}, {Node: "vm-changed", Steps: step(site.ImpactOnline, false), Seen: seen}, {Node: "vm-erased", Steps: step(site.ImpactDestructive, false), Seen: seen}}
		all := &site.Plan{Nodes: append(slices.Clone(more), site.NodePlan{Node: "vm-left", Seen: seen}, site.NodePlan{Node: "vm-elsewhere", Seen: seen})}
		got := map[string]site.Consequence{}
		for _, n := range present.Consequences(&site.Review{Plan: site.Plan{Nodes: more}}, all, present.Designs{InForce: d, Branch: d, Merged: d}) {
			if n.Node != "host" {
				got[n.Node] = n.What
			}
			if n.Node == "vm-left" && n.Does != "goes down with host" {
				t.Errorf("%+v", n)
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.host, got, c.want)
		}
	}
}

// The verdict of a comment and the machines of its picture are of one policy.
func TestVerdictCountsAsThePicture(t *testing.T) {
	r, all, merged, before := merging()
	r.Proposal.Number = 7
	counts := present.CountConsequences(present.Consequences(r, all, present.Designs{InForce: before, Branch: before, Merged: merged}))
	const want = "1 machine is erased, 1 restarts, 1 may restart, 1 is interrupted for a moment, 1 gets other files, units or parameters"
	if got := present.Verdict(r); !strings.HasPrefix(got, want) || counts[site.MergeErases] != 1 || counts[site.MergeStops] != 1 || counts[site.MergeChanges] != 1 {
		t.Errorf("%s\n%v", got, counts)
	}
}

// Whether merging has approved something is said as it is known, also where a merge approved nothing.
func TestApprovalIsSaid(t *testing.T) {
	brief := func(b site.ProposalBrief, r site.Review) *site.ProposalDetail {
		return &site.ProposalDetail{ProposalBrief: b, PlanDetail: site.PlanDetail{Review: r, Counts: map[site.Consequence]int{}}}
	}
	held := site.Losses{{Node: "n1"}}
	for want, d := range map[string]*site.ProposalDetail{
		"nothing to approve":                          brief(site.ProposalBrief{}, site.Review{}),
		"not known, there is no plan":                 {},
		"not yet (set abc)":                           brief(site.ProposalBrief{Set: "abc", Erases: 1}, site.Review{}),
		"no, merging does not approve what is erased": brief(site.ProposalBrief{Erases: 1}, site.Review{}),
		"no, it was closed without being merged":      brief(site.ProposalBrief{Set: "abc", Proposal: site.Proposal{State: site.ProposalClosed}}, site.Review{}),
		"by ann by merging (set abc)":                 brief(site.ProposalBrief{Set: "abc", ApprovedBy: "ann"}, site.Review{Landing: &site.Landing{}}),
		"nothing by merging":                          brief(site.ProposalBrief{Set: "abc"}, site.Review{Landing: &site.Landing{}}),
		"not by merging: a commit was pushed, and erasing 1 machine needs another approval": brief(site.ProposalBrief{Set: "abc"}, site.Review{Held: held, Landing: &site.Landing{Unapproved: "a commit was pushed"}}),
		"by ann by merging (set abc), and erasing 1 machine needs another approval":         brief(site.ProposalBrief{Set: "abc", ApprovedBy: "ann"}, site.Review{Held: held, Landing: &site.Landing{}}),
	} {
		if got := present.ApprovalOf(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is not known of a proposal is said as it is: nobody waits for the plan of one that has ended, or is told to ask for it.
func TestWhatIsNotKnownOfAProposal(t *testing.T) {
	open, merged := site.Proposal{State: site.ProposalOpen, Head: "89abcdef0123456789"}, site.Proposal{State: site.ProposalMerged}
	planned := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	counted := map[site.Consequence]int{}
	for _, c := range []struct {
		d                           site.ProposalDetail
		verdict, planning, unlisted string
	}{
		{site.ProposalDetail{ProposalBrief: site.ProposalBrief{Proposal: open, Planning: true}}, "not planned yet", "Slipway is planning 89abcdef0123.", "not planned this commit of the pull request since"},
		{site.ProposalDetail{ProposalBrief: site.ProposalBrief{Proposal: open, Planning: true, Planned: planned, Verdict: "v"}, PlanDetail: site.PlanDetail{Counts: counted}}, "v", "earlier commit", ""},
		{site.ProposalDetail{ProposalBrief: site.ProposalBrief{Proposal: open, Planned: planned, Verdict: "v"}}, "v", "", "There is no plan"},
		{site.ProposalDetail{ProposalBrief: site.ProposalBrief{Proposal: open, Planned: planned, Verdict: "v"}, PlanDetail: site.PlanDetail{Counts: counted, NodesLeftOut: 3}}, "v", "", "comment `/slipway plan`"},
		{site.ProposalDetail{ProposalBrief: site.ProposalBrief{Proposal: merged}}, "not known", "", "not planned this commit of the pull request since"},
	} {
		verdict, planning, unlisted := present.VerdictOf(c.d.ProposalBrief), present.PlanningOf(&c.d.ProposalBrief), present.Unlisted(&c.d)
		if verdict != c.verdict || !strings.Contains(planning, c.planning) || (planning == "") != (c.planning == "") || !strings.Contains(unlisted, c.unlisted) || (unlisted == "") != (c.unlisted == "") {
			t.Errorf("%+v: %q, %q, %q", c.d.ProposalBrief, verdict, planning, unlisted)
		}
	}
	if got := present.Unlisted(&site.ProposalDetail{ProposalBrief: site.ProposalBrief{Proposal: merged}, PlanDetail: site.PlanDetail{Counts: counted, NodesLeftOut: 3}}); got == "" || strings.Contains(got, "/slipway plan") {
		t.Errorf("of a large one that is merged: %q", got)
	}
}

// Before a design is in force, what merging does is told beside the branch: a node of the branch is not new, and one that the
// proposal removes is named.
func TestConsequencesBeforeADesignIsInForce(t *testing.T) {
	r, all, merged, before := merging()
	want := present.Consequences(r, all, present.Designs{InForce: before, Branch: before, Merged: merged})
	if got := present.Consequences(r, all, present.Designs{Branch: before, Merged: merged}); !slices.Equal(got, want) {
		t.Errorf("without a design in force: %+v, not %+v", got, want)
	}
	for _, c := range present.Consequences(r, all, present.Designs{Merged: merged}) {
		if !c.New {
			t.Errorf("in the first design: %+v", c)
		}
	}
}

// A consequence that only a newer daemon knows is shown by its name.
func TestUnknownConsequenceHasItsName(t *testing.T) {
	if got := present.ConsequenceMark("melted"); got != "melted" {
		t.Errorf("%q", got)
	}
}

// Every consequence is drawn with a shape and words of its own.
func TestEveryConsequenceIsDrawn(t *testing.T) {
	shapes, words := map[string]bool{}, map[string]bool{}
	for _, c := range site.Consequences {
		shapes[present.ConsequenceShape(c)], words[present.ConsequenceMark(c)] = true, true
		if n := present.ConsequenceWords(c, 1); !strings.HasPrefix(n, "1 ") || present.ConsequenceWords(c, 2) == n || strings.HasSuffix(n, " ") {
			t.Errorf("%s: %q", c, n)
		}
	}
	if len(shapes) != len(site.Consequences) || len(words) != len(site.Consequences) || shapes[""] || words[""] {
		t.Errorf("%d shapes, %d words of %d", len(shapes), len(words), len(site.Consequences))
	}
	r, all, merged, before := merging()
	v := present.ElevationView{Merging: map[string]site.NodeConsequence{}}
	var nodes []site.NodeStatus
	for i, c := range present.Consequences(r, all, present.Designs{InForce: before, Branch: before, Merged: merged}) {
		v.Merging[c.Node] = c
		nodes = append(nodes, site.NodeStatus{Name: c.Node, Rack: "r1", Position: site.Position{Unit: i + 1}})
	}
	nodes = append(nodes, site.NodeStatus{Name: "k-same", Rack: "r1", Position: site.Position{Unit: 30}})
	var b bytes.Buffer
	for _, e := range present.Elevations(nil, nodes, v) {
		if err := e.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"16 nodes, 1 is erased, 2 leave the design", "a-erased: erased; is erased and installed; everything on its disks", "k-same: stays as it is", `class="m-out-of-service"`, "rackshape m-untouched"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("the picture has no %q", part)
		}
	}
}

// comments are those of the golden files.
func comments(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/comment/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no comments", err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(text)
	}
	return all
}

// A page and a terminal say every word of a comment, and show no markup as text.
func TestCommentElsewhere(t *testing.T) {
	for file, text := range comments(t) {
		page, plain := present.CommentHTML(text), present.CommentText(text)
		for name, got := range map[string]string{"page": textOf(t, page), "terminal": plain} {
			for _, markup := range []string{"**", "|---", "<code>", "&#", "](http", "[!CAUTION]", "<sub>", "###", "<details>", "\u200b"} {
				if strings.Contains(got, markup) {
					t.Errorf("%s: the %s shows %q", file, name, markup)
				}
			}
			flat := strings.Join(strings.Fields(got), " ")
			for _, word := range words(text) {
				if !strings.Contains(flat, word) {
					t.Errorf("%s: the %s does not say %q", file, name, word)
				}
			}
		}
	}
}

// words are some of a comment.
func words(markdown string) (all []string) {
	for _, line := range strings.Split(markdown, "\n") {
		for _, w := range strings.Fields(line) {
			if strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,") == "" {
				all = append(all, w)
			}
		}
	}
	return all
}

// textOf is what a page shows of HTML, which has no element that a comment does not make.
func textOf(t testing.TB, page string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range root.Descendants() {
		switch n.Type {
		case html.TextNode:
			b.WriteString(n.Data + " ")
		case html.ElementNode:
			if !slices.Contains([]string{"html", "head", "body", "h2", "p", "b", "code", "pre", "br", "a", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "div"}, n.Data) {
				t.Errorf("the page has <%s>", n.Data)
			}
			if n.Data == "ul" && n.Parent.Data == "ul" {
				t.Error("a list is in a list, and in no item of it")
			}
			for _, a := range n.Attr {
				if !slices.Contains([]string{"class", "data-l", "href", "rel"}, a.Key) || a.Key == "href" && !strings.HasPrefix(a.Val, "http") {
					t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
				}
			}
		}
	}
	return b.String()
}

// Whatever a comment has in it, a page shows it as text, and nothing but known elements.
func FuzzCommentHTML(f *testing.F) {
	for _, text := range comments(f) {
		f.Add(text)
	}
	for _, text := range []string{"- ", "> ", "| ", "```", "**", "<details><summary>", "</details>", "[a](javascript:alert(1))", "[a](https://x\" onclick=\"y)", "<script>alert(1)</script>", "### <img src=x onerror=alert(1)>", "1. ", "      - x\n- y", "<code>a", "`", "| a |\n|---|\n| b | c | d |"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		textOf(t, present.CommentHTML(text))
		present.CommentText(text)
	})
}
