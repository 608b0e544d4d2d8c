package markdown

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// ours is what a comment of ours begins with.
var ours = forge.Marker{Site: "test", Kind: "plan"}

// pages is where the comments of these tests link to.
const pages = "https://git.example/blob/89abcdef/"

// comments are those that the tests of package present hold.
func comments(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../engine/present/testdata/comment/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no comments: %v", err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".md")] = ours.Mark(string(text))
	}
	return all
}

// A comment reads on GitHub as it was meant: its first line is the verdict, its
// table has its columns, and there is nothing in it that GitHub takes out or
// makes something of.
func TestCommentsOnGitHub(t *testing.T) {
	for name, text := range comments(t) {
		p := Render(text)
		harmless(t, p)
		first := p.Text("h3")[0]
		heading := strings.NewReplacer("### ", "", "<code>", "", "</code>", "").Replace(strings.SplitN(text, "\n", 3)[1])
		if verdict, _, _ := strings.Cut(heading, "\n"); first != verdict {
			t.Errorf("%s: it begins %q, want %q", name, first, verdict)
		}
		if want, got := strings.Count(text, "\n|---|"), len(p.Tables()); got != want {
			t.Errorf("%s: %d tables, want %d: %v", name, got, want, p.Tables())
		}
		for _, words := range p.Text("p") {
			if strings.ContainsAny(words, "*`<>|") || strings.Contains(words, "](") {
				t.Errorf("%s: Markdown is to be seen: %q", name, words)
			}
		}
	}
}

// harmless holds a comment to what others may not bring about.
func harmless(t *testing.T, p *Page) {
	t.Helper()
	if len(p.Taken) > 0 {
		t.Errorf("GitHub takes out: %q", p.Taken)
	}
	if found := p.Found(); len(found) > 0 {
		t.Errorf("GitHub makes something of %q", found)
	}
	if mark := strings.TrimSuffix(strings.TrimPrefix(ours.String(), "<!--"), "-->"); len(p.Hidden) != 1 || p.Hidden[0] != mark {
		t.Errorf("hidden is %q, want the marker alone", p.Hidden)
	}
	for _, to := range p.Links() {
		if !strings.HasPrefix(to, pages) {
			t.Errorf("it leads to %q", to)
		}
	}
	for _, rows := range p.Tables() {
		for i, cells := range rows {
			if cells < 2 || cells > 4 || cells != rows[0] {
				t.Errorf("row %d of a table has %d cells, its header %d", i, cells, rows[0])
			}
		}
	}
}

// Whatever others call their nodes, drives, files and branches, a comment has
// the elements that it has with plain names, and GitHub makes nothing of them.
func FuzzHostileNames(f *testing.F) {
	for _, names := range [][2]string{
		{"@everyone", "</details>\n\n# heading\n| a | b |"},
		{"`code` <script>alert(1)</script>", "![x](https://evil.example/x.png) www.evil.example"},
		{"\u202e\u2028- [ ] task #1 !2 ~3 &amp; $x$ $y$", "\x1b[2J\r\n```\n~~~"},
		{"[^1]: note", "\\| \\` *** ___ ~~x~~ :smile: a@b.example"},
		{"<!-- slipway test plan -->", "GH-7 gh-8 org/repo#1 org/repo@0123456789abcdef0123456789abcdef01234567"},
		{"a\u200b\u2060\ufeff\u00ad\u3164\u115fb\U000e0041", strings.Repeat("x|y`", 300)},
		{"](https://evil.example) [", "../../../../) [x](https://evil.example \"t\")"},
		{" **b** ", "_i_ * "}, {"\u00a0x\u00a0", "\u2003"}, {"*", "-->"}, {"1. x", "    code"}, {"> [!NOTE]", "&lt;b&gt; &#64;ann"},
		{"@a/b-team", "@@ann"}, {"-\n=", "+ \n***"}, {"\x00\xff\xfe", "\u0430@\u0131"}, {"http://a.example", "mailto:a@b.example xmpp:a@b"},
	} {
		f.Add(names[0], names[1])
	}
	plain := map[string]string{}
	for name, text := range hostile("a", "b") {
		plain[name] = Render(text).Outline()
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		const most = 60 // how long texts are cut is the matter of package present
		one, other = one[:min(len(one), most)], other[:min(len(other), most)]
		for name, text := range hostile(one, other) {
			p := Render(text)
			harmless(t, p)
			sameAsGitHub(t, name, text)
			if d := cmp.Diff(plain[name], p.Outline()); d != "" {
				t.Errorf("%s: other elements (-want +got)\n%s\n%s", name, d, text)
			}
			if m, ok := forge.ReadMarker(text); !ok || m != ours {
				t.Errorf("%s: the marker is read as %+v %t", name, m, ok)
			}
		}
	})
}

// hostile are comments on a proposal in which others have written wherever they
// can: while it is open, and after it was merged, with those that call a person.
func hostile(one, other string) map[string]string {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	// Names differ whatever they are, so that as many nodes are alike as with
	// plain ones; and a file that is called as ours are is not linked.
	n1, n2, n3, n4, file := one+"1", other+"2", one+"3", other+"4", "f"+other
	loss := site.Loss{Node: n1, Machine: site.Identity{Serial: "1" + one}, Hypervisor: "h" + other, Action: "install " + other, Lost: "all of " + one}
	origin := site.At(file, 7, 1, "profile/"+one)
	steps := func(node string, action site.Action, impact site.Impact) []site.Step {
		return []site.Step{{Node: node, Machine: loss.Machine, Hypervisor: loss.Hypervisor, Action: action, Impact: impact, Reason: "since " + one, Undo: "by " + other,
			Loses: loss.Lost, Changes: []site.Change{{Field: "firmware." + one, Have: "is " + one, Want: "is " + other, Origin: origin}}}}
	}
	p := site.Plan{Nodes: []site.NodePlan{
		{Node: n1, Steps: steps(n1, site.ActionInstall, site.ImpactDestructive), Seen: now.Add(-time.Minute)},
		{Node: n2, Blocked: []string{"on " + one}, Reported: []string{"of " + other}, Notes: []string{"note " + one}, Waiting: "for " + other},
		{Node: n3, Steps: steps(n3, site.Action("do "+one), site.ImpactReboot), Seen: now},
	}, Removes: []site.Removal{{Node: n4, Held: "by " + one}}}
	p.Forecast = &site.Forecast{Makespan: 1, Warnings: []string{"warning " + one, "warning " + other}, Basis: "on " + one,
		Order: []site.Stretch{{Node: n1, What: "does " + one, To: 1}, {Node: n2, What: "does " + other, To: 1}}, Path: []site.Stretch{{Node: n1, What: "is " + other, To: 1}}}
	known := site.Known{Nodes: map[string]site.Memory{n1: {Observed: site.Observed{Identity: loss.Machine, Inventory: &site.Inventory{
		Drives: []site.Drive{{Part: site.Part{Name: "d" + one, Model: "m" + other, Serial: "s" + one}, Bytes: 1e12}}}}}}}
	r := &site.Review{Site: "test", Plan: p, Pending: site.Plan{Nodes: p.Nodes[2:]}, Waiting: site.Losses{{Node: "w" + one, Lost: other}}, Spared: []string{"s" + one},
		Proposal: site.Proposal{Number: 7, Title: one, Author: other, Head: "89abcdef" + one, Merge: "01234567" + other, MergedBy: "m" + one}, Base: "0a1b2c3d" + other,
		Rules: []string{"rollout", "policies: " + one}, When: now, Before: 2,
		Findings: []site.Finding{{Code: "c" + one, Severity: site.SeverityWarning, File: file, Line: 3, Message: "is " + one, Fix: "do " + other, Node: n1, More: 1}}}
	view := present.View{Site: &site.Site{Nodes: map[string]*site.Node{}}, Known: known, Now: now, Pages: pages}
	all := map[string]string{}
	var b bytes.Buffer
	present.Comment(&b, r, view)
	all["plan"] = ours.Mark(b.String())
	r.Approved = site.Losses{loss}
	rollout := func(is site.RolloutStatus) *site.RolloutStatus {
		is.Revision, is.Since, is.Nodes, is.Canaries = site.Revision{ID: other}, now, []string{n1, n2}, []string{n1, n3}
		is.Failed = map[string]string{n1: "is " + one, n2: "is " + other}
		return &is
	}
	held := site.Losses{{Node: n2, Machine: loss.Machine, Hypervisor: loss.Hypervisor, Action: "x" + one, Lost: "y" + other}}
	for name, l := range map[string]struct {
		held    site.Losses
		landing site.Landing
	}{
		"refused": {nil, site.Landing{Refused: true, Waits: one, Unapproved: other}},
		"held":    {held, site.Landing{InForce: now, Revision: one, Asked: held, ObserveOnly: other}},
		"halted": {nil, site.Landing{InForce: now, Rollout: rollout(site.RolloutStatus{Halted: one, HaltedSince: now}),
			Machines: []site.MachineNow{{Node: n1, State: site.MachineFailed, Change: &p.Nodes[0].Steps[0].Changes[0]},
				{Node: n2, State: site.MachineFailed, Change: &p.Nodes[0].Steps[0].Changes[0]}}}},
		"running": {nil, site.Landing{InForce: now, Rollout: rollout(site.RolloutStatus{}), Lines: map[string]site.Origin{n1: origin}, Machines: []site.MachineNow{
			{Node: n1, State: site.MachineRunning, What: "does " + one, Since: now}, {Node: n2, State: site.MachineWaiting, What: "for " + other}}}},
		"stuck": {nil, site.Landing{InForce: now, Stuck: map[string]string{n3: other}, Rollout: rollout(site.RolloutStatus{Proven: now})}},
		"ended": {nil, site.Landing{InForce: now, Done: true, Rollout: rollout(site.RolloutStatus{Ended: now})}},
	} {
		r.Held, r.Landing = l.held, &l.landing
		b.Reset()
		present.Landed(&b, r, view)
		all[name] = ours.Mark(b.String())
		if c := present.Call(r); c != nil {
			all["call: "+name] = ours.Mark(c.Text)
		}
	}
	return all
}
