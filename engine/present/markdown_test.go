package present_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// ours are the lines that a comment has, with what others wrote taken out.
var ours = regexp.MustCompile(`^(` + strings.Join([]string{
	`### Slipway(,| plan for) site <code>.*</code>: .*`, `- .*`, `  - .*`, `\|.*\|`, `[0-9]+\. .*`, `</?details>.*`, `<sub><code>.*</code> merged into .* at .*</sub>`,
	`> \[!CAUTION\]`, `> \*\*Merging this erases [0-9]+ machines?\.\*\* Everything listed here is lost for good\.`,
	`> \*\*This erases [0-9]+ machines?\*\* \(set .[0-9a-f]{32}.\)\.( Everything listed here is lost for good\.)?`,
	`> \*\*Merging does not approve (it|this)[,.]\*\* .*`, `> \*\*Added since this commit was first planned: [0-9]+ more machines? would be erased\*\* .*`,
	`> \*\*A decision is needed: [0-9]+ machines? would be erased\*\* .*`, `(> )?Merging did \*\*not\*\* approve this: .*`,
	`\*\*To (approve|plan again|do|erase them|keep them|plan this commit)[:,]\*\* .*`, `<code>/slipway approve .*</code>`,
	`\*\*<code>.*</code> <code>.*</code> → <code>.*</code>\*\*`, `on (all )?[0-9]+ machines of profile .*`, `on (all )?.* \([0-9]+ nodes\).*`,
	`(Nothing is erased\. )?(Takes about|Begins in) .*`, `No other machine changes\.`, `Merging this does nothing to any machine\.`,
	`Based on observations .*`, `Slipway has never seen .*`, `Pending on .*, and dropped by this pull request:`, `Changed here and on .*:`,
	`This changes site-wide rules:`, `\*\*This gives people or programs more rights\.\*\* .*`, `This removes rights, as soon as it is merged:`, `In the design, but no driver applies or checks it:`, `Cannot plan: .*`, `Push a fix; Slipway plans again by itself\.`,
	`[0-9]+ other findings? (is|are) on .* already\.`, `Merging this does not approve what is erased there .*`, `(Critical path|Warnings):`,
	"`[█░]+`( expected to end at about [0-9:]+ UTC)?", `\*\*(Failed|Waiting for somebody):\*\*`, `\*\*What to do, one of:\*\*`, `\*\*Stopped:\*\* .* Slipway starts no other machine\.`,
	`Merged by .*`, `Erased( and installed)?: .*`, `Slipway writes to no machine: .*`, `Not in force: .*`, `And [0-9]+ machines? .*\.`,
	`Nothing happens to them until somebody answers\..*`, `Nothing that was merged since then is in force\.`, `Run .slipway why NODE. for details\.`,
	`\*\*Cut at 60,000 characters\.\*\* .*`, `\*\*Somebody changed Slipway's comment with the plan of the site .*:\*\*`, `Slipway rewrites the comment\. .*`,
}, "|") + `|)$`)

var (
	issues = regexp.MustCompile(`(?i)gh-[0-9]`)
	code   = regexp.MustCompile(`<code>[^<]*</code>`)
)

var tags = regexp.MustCompile(`</?(details|summary|code|sub)>|\[[^\[\]]*\]\(https://git\.example/blob/[A-Za-z0-9/.%-]*(#L\d+)?\)`)

// headers are those of the tables that a comment has.
var headers = []string{
	"| machine | what is lost | asked for in |", "| machine | what would be lost | asked for in |", "| machines | what happens | asked for in | out of service |",
	"| machines | what happens | out of service each |", "| machine | now |",
}

// What others wrote is only text: it opens and closes nothing, begins no line,
// mentions nobody, and is no mark of ours.
func FuzzComment(f *testing.F) {
	f.Add("@everyone", "</details>\n\n# heading\n| a | b |")
	f.Add("`code` <script>alert(1)</script>", "![x](https://evil.example/x.png) www.evil.example")
	f.Add("\u202e\u2028- [ ] task #1 !2 ~3 &amp; $x$", "\x1b[2J\r\n```\n~~~")
	f.Add("[^1]: note", "\\| \\` *** ___ ~~x~~ :smile: a@b.example")
	f.Add("<!-- slipway:test {\"comment\":1} -->", "GH-7 gh-8 org/repo#1 org/repo@0123456789abcdef0123456789abcdef01234567")
	f.Add("a\u200b\u2060\ufeff\u00ad\u3164\u115fb\U000e0041", strings.Repeat("x|y`", 300))
	f.Add("](https://evil.example) [", "../../../../) [x](https://evil.example \"t\")")
	f.Fuzz(func(t *testing.T, one, other string) {
		r, v := hostile(one, other)
		text, _ := comment(r, v)
		checkText(t, text)
		checkText(t, present.ChangedCall(r, one, now).Text)
		r.Conflicts = []string{one + ": " + other, other}
		r.Problem, r.Allow = one, other
		text, _ = comment(r, v)
		checkText(t, text)
		r.Proposal.MergedBy, r.Proposal.Merge = one, other
		r.Approved, r.Held = site.Losses{{Node: one}}, site.Losses{{Node: other, Lost: one, Action: other, Machine: site.Identity{Serial: one}}}
		r.Landing = &site.Landing{Unapproved: one, Waits: other, Refused: true, Stuck: map[string]string{one: other}, ObserveOnly: one, Revision: other}
		text, _ = landed(r, v)
		checkText(t, text)
		checkText(t, present.Call(r).Text)
		r.Landing.Refused, r.Landing.InForce, r.Landing.Asked = false, now, r.Held
		text, _ = landed(r, v)
		checkText(t, text)
		checkText(t, present.Call(r).Text)
		r.Held, r.Landing.Rollout = nil, &site.RolloutStatus{Revision: site.Revision{ID: one}, Canaries: []string{one, other}, Failed: map[string]string{other: one}, Nodes: []string{one, other}}
		r.Landing.Machines = []site.MachineNow{{Node: other, State: site.MachineFailed, What: one, Change: &site.Change{Field: one, Want: other, Origin: site.At(one, 1, 1, other)}},
			{Node: one, State: site.MachineRunning, What: other, Since: now}, {Node: other, State: site.MachineWaiting, What: one, Since: now}, {Node: other, State: site.MachineRunning, What: one}}
		text, _ = landed(r, v)
		checkText(t, text)
		checkText(t, present.Call(r).Text)
		r.Landing.Rollout.Halted = other
		text, _ = landed(r, v)
		checkText(t, text)
		checkText(t, present.Call(r).Text)
	})
}

func checkText(t *testing.T, text string) {
	t.Helper()
	if len(text) > 60_000 {
		t.Errorf("%d bytes", len(text))
	}
	if opened, closed := strings.Count(text, "<details>"), strings.Count(text, "</details>"); opened != closed {
		t.Errorf("%d details opened, %d closed\n%s", opened, closed, text)
	}
	columns := 0 // of the table that a line is in
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if !ours.MatchString(line) {
			t.Errorf("a line of others: %q", line)
		}
		switch is := strings.Count(line, "|"); {
		case !strings.HasPrefix(line, "|"):
			columns = 0
		case columns == 0 && !slices.Contains(headers, line):
			t.Errorf("a table of others: %q", line)
		case columns == 0:
			columns = is
		case is != columns:
			t.Errorf("a row with other cells: %q", line)
		}
		if line == "> [!CAUTION]" {
			continue
		}
		line = strings.TrimPrefix(line, "> ") // ours alone begin so
		if bare := tags.ReplaceAllString(line, ""); strings.ContainsAny(bare, "<>@\x1b\u202e\u2028\u200b\u3164\r~![") {
			t.Errorf("not only text: %q", line)
		}
	}
	elsewhere := tags.ReplaceAllString(text, "")
	if strings.Contains(elsewhere, "://") || strings.Contains(strings.ToLower(elsewhere), "www.") {
		t.Errorf("links to elsewhere:\n%s", text)
	}
	if issue := issues.FindString(tags.ReplaceAllString(code.ReplaceAllString(text, ""), "")); issue != "" {
		t.Errorf("%s is linked", issue)
	}
}

func landed(r *site.Review, v present.View) (string, bool) {
	var w bytes.Buffer
	whole := present.Landed(&w, r, v)
	return w.String(), whole
}

func comment(r *site.Review, v present.View) (string, bool) {
	var w bytes.Buffer
	whole := present.Comment(&w, r, v)
	return w.String(), whole
}

// hostile is a review in which others have written wherever they can.
func hostile(one, other string) (*site.Review, present.View) {
	step := site.Step{Node: "n1", Machine: site.Identity{Serial: one}, Action: site.ActionInstall, Impact: site.ImpactDestructive,
		Reason: one, Undo: other, Loses: other, Changes: []site.Change{{Field: "firmware." + one, Have: one, Want: other}}}
	p := &site.Plan{Nodes: []site.NodePlan{
		{Node: "n1", Steps: []site.Step{step}},
		{Node: "n2", Blocked: []string{one}, Reported: []string{other}, Notes: []string{one, other}, Waiting: other},
		{Node: one, Steps: []site.Step{{Node: one, Action: site.Action(other), Impact: site.ImpactReboot, Reason: one}}, Seen: now},
	}, Removes: []site.Removal{{Node: "n3", Held: one}, {Node: other}}}
	p.Forecast = &site.Forecast{Makespan: 1, Warnings: []string{one, other}, Basis: one,
		Order: []site.Stretch{{Node: "n1", What: one, To: 1}, {Node: "n2", What: other, To: 1}}, Path: []site.Stretch{{Node: "n1", What: other, To: 1}}}
	known := site.Known{Nodes: map[string]site.Memory{"n1": {Observed: site.Observed{Inventory: &site.Inventory{
		Drives: []site.Drive{{Part: site.Part{Name: one, Model: other, Serial: one}, Bytes: 1e12}}}}}}}
	r := &site.Review{Site: one, Plan: *p, Pending: site.Plan{Nodes: p.Nodes}, Waiting: site.Losses{{Node: one, Lost: other}}, Spared: []string{one, other},
		Proposal: site.Proposal{Number: 7, Title: one, Author: other, Head: one}, Base: other, Rules: []string{one, other}, Access: []string{one, other}, Restrictions: []string{other},
		Findings: []site.Finding{{Code: one, Severity: "warning", File: other, Line: 3, Message: one, Fix: other, Node: one, More: 1}, {Severity: "note", File: one, Message: other}}}
	return r, present.View{Site: &site.Site{Nodes: map[string]*site.Node{}}, Known: known, Now: now, Pages: "https://git.example/blob"}
}

// A plan of ten thousand nodes that all differ is cut between its parts, and
// says what is missing; one in which they are alike fits.
func TestMarkdownIsCut(t *testing.T) {
	s, p := fleet(10_000)
	s.Rollout.MaxUnavailable = "100"
	for i := range p.Nodes {
		p.Nodes[i].Steps[0].Loses = "everything on its disks"
	}
	p.Forecast = rollout.Forecast(s, p, site.Known{}, now)
	alike := markdown(p, present.View{Site: s, Now: now})
	for i := range p.Nodes {
		p.Nodes[i].Steps[0].Reason = fmt.Sprintf("reason %d", i)
	}
	differ := markdown(p, present.View{Site: s, Now: now})
	for _, text := range []string{alike, differ} {
		if len(text) > 60_000 {
			t.Errorf("%d bytes", len(text))
		}
		if open, closed := strings.Count(text, "<details>"), strings.Count(text, "</details>"); open != closed {
			t.Errorf("%d details opened, %d closed", open, closed)
		}
	}
	const want = "\n**Cut at 60,000 characters.** Left out: "
	if i := strings.Index(differ, want); i < 0 {
		t.Errorf("nothing says that it is cut:\n%s", differ[len(differ)-300:])
	} else {
		t.Log(differ[i:])
	}
	if !strings.Contains(alike, "> **This erases 10000 machines** (set ") {
		t.Errorf("it begins %s", alike[:100])
	}
}

func markdown(p *site.Plan, v present.View) string {
	text, _ := comment(&site.Review{Plan: *p}, v)
	return text
}

// A thousand nodes take a screen: their steps once, and their order by role.
func TestTextIsCalm(t *testing.T) {
	s, p := fleet(1000)
	s.Rollout.MaxUnavailable = "5%"
	for i := range p.Nodes {
		p.Nodes[i].Steps = p.Nodes[i].Steps[1:]
		p.Nodes[i].Steps[0].Impact = site.ImpactReboot
	}
	p.Forecast = rollout.Forecast(s, p, site.Known{}, now)
	var w bytes.Buffer
	present.Text(&w, p, present.View{Site: s, Now: now, Width: 100})
	if lines := strings.Count(w.String(), "\n"); lines > 40 || !strings.Contains(w.String(), "role3") {
		t.Errorf("%d lines:\n%s", lines, w.String())
	}
	if got := time.Duration(p.Forecast.Makespan); got != 20*time.Minute {
		t.Errorf("it takes %s", got)
	}
}

// fleet is so many nodes in racks of 40, each installed in ten minutes.
func fleet(size int) (*site.Site, *site.Plan) {
	s := &site.Site{Nodes: map[string]*site.Node{}, Racks: map[string]*site.Rack{}, Roles: map[string]*site.Role{}}
	p := &site.Plan{}
	for i := range size {
		n := &site.Node{Name: fmt.Sprintf("n%03d", i), Rack: fmt.Sprintf("r%d", i/40), Role: fmt.Sprintf("role%d", i%8)}
		s.Nodes[n.Name] = n
		p.Nodes = append(p.Nodes, site.NodePlan{Node: n.Name, Steps: []site.Step{
			{Node: n.Name, Action: site.ActionInstall, Impact: site.ImpactDestructive, Expect: site.Duration(9 * time.Minute)},
			{Node: n.Name, Action: site.ActionFinishInstall, Impact: site.ImpactOnline, Expect: site.Duration(time.Minute)},
		}})
	}
	return s, p
}
