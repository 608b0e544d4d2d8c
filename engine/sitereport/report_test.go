package sitereport

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

var update = flag.Bool("update", false, "write the golden pages anew")

var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// berlin is a site with something of everything.
func berlin() Facts {
	at := func(ago time.Duration) time.Time { return noon.Add(-ago) }
	machine := site.Identity{UUID: "5e1d1c5a-0000-4000-8000-000000000005", Serial: "EX105"}
	loss := site.Loss{Node: "compute-5", Machine: machine, Action: "install generation 2", Lost: "everything on 2 disks", Disks: "S1, S2"}
	return Facts{
		Version: "1.2.3", Made: noon,
		Report: site.Report{
			Status: site.Status{
				Site: "berlin", Term: 7, Applied: site.Revision{ID: "4f2a51c09d3e77aa", Subject: "compute: generation 2", Author: "Ana", When: at(time.Hour)},
				Attempted: site.Revision{ID: "deadbeef00112233", Subject: "broken"}, Paused: &site.Hold{By: "ana", Reason: "power works", Since: at(time.Minute)},
				Nodes: []site.NodeStatus{
					{Name: "compute-1", Role: "compute", Rack: "r1", Position: site.Position{Unit: 3, Height: 2}, State: site.InSync, Since: at(3 * time.Hour), Seen: at(time.Minute), Power: "on"},
					{Name: "compute-4", Role: "compute", Rack: "r2", State: site.Retrying, Reason: "the BMC does not answer", Since: at(90 * time.Second), Retry: noon.Add(30 * time.Second)},
					{Name: "compute-5", Role: "compute", Rack: "r2", State: site.Blocked, Reason: "install generation 2 waits for approval", Since: at(10 * time.Minute), NotActedOn: []string{"bios.profile"}},
					{Name: "storage-1", Role: "storage", Rack: "r1", State: site.Stalled, Reason: "its serial number is EX999", Approve: "the machine UUID 77 is powered off and started again", Since: at(26 * time.Hour),
						Findings: []site.Finding{{Message: "16 GB of memory, 32 GB are designed"}}, Quarantined: &site.Hold{By: "bob", Reason: "smoke", Since: at(time.Hour)}},
				},
				Waiting: site.Losses{loss}, Approve: "37dbd137b9121c1c97fc6229b18c21a2", Unacted: []string{"site.switches"},
				Rollout:  &site.RolloutStatus{Revision: site.Revision{ID: "4f2a51c09d3e77aa"}, Since: at(20 * time.Minute), Nodes: []string{"compute-1", "compute-5"}, Done: 1, Canaries: []string{"compute-1"}, Failed: map[string]string{"compute-5": "no medium"}, Halted: "1 node failed"},
				Ledger:   []site.LedgerEntry{{Loss: site.Loss{Node: "compute-1", Action: "install generation 2", Lost: "everything"}, Source: site.ApprovalSource{Kind: site.ByCommand, By: "bob"}, Opened: at(time.Hour), Consumed: at(19 * time.Minute), Note: "seen with Ana"}},
				Problems: []site.Problem{{What: "the repository does not answer", Since: at(5 * time.Minute)}}, Notes: []string{"a note"},
			},
			Findings: []site.Finding{{Severity: site.SeverityWarning, File: "sites/berlin/site.cue", Line: 12, Col: 3, Message: "network spare is not used", Why: "nothing is configured with it", Fix: "remove it"}},
		},
		Racks: map[string]*site.Rack{"r1": {Units: 10}, "r2": {}},
		Chart: site.RolloutChart{Site: "berlin", Now: noon, Since: at(20 * time.Minute), From: at(20 * time.Minute), To: noon.Add(20 * time.Minute), Ends: noon.Add(17 * time.Minute),
			Basis: "Based on 3 earlier installs.", Warnings: []string{"compute-9 waits for a person"}, Counts: map[site.MachineState]int{site.MachineDone: 1, site.MachineFailed: 1},
			Rows: []site.ChartRow{
				{Node: "compute-1", Canary: true, State: site.MachineDone, Began: at(19 * time.Minute), Ended: at(15 * time.Minute)},
				{Node: "compute-5", State: site.MachineFailed, Began: at(14 * time.Minute), Ended: at(10 * time.Minute), Sentence: "no medium"},
			}},
		Events: []site.Event{
			{When: at(20 * time.Minute), Kind: site.EventRollout, Text: "the rollout began"},
			{When: at(4 * time.Minute), Node: "compute-1", Kind: site.EventOrder, Text: "paused", By: "ana", Took: site.Duration(3 * time.Second)},
		},
	}
}

func TestGolden(t *testing.T) {
	for name, write := range map[string]func(io.Writer, Facts) error{"berlin.html": HTML, "berlin.md": Markdown} {
		var b bytes.Buffer
		if err := write(&b, berlin()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Whoever reads a report later and elsewhere knows when something was to happen.
func TestTimesMeanTheSameEverywhere(t *testing.T) {
	f := berlin()
	f.Status.Nodes[1].Retry = f.Status.Nodes[1].Retry.In(time.FixedZone("elsewhere", 5*3600))
	ended := berlin()
	ended.Chart.Ended = noon
	unknown := berlin()
	unknown.Chart.Ends = time.Time{}
	for want, f := range map[string]Facts{
		"the BMC does not answer; again at 2026-03-09 12:00:30 UTC": f,
		"| expected to end | 2026-03-09 12:17:00 UTC, in 17m |":     f,
		"| forecast | Based on 3 earlier installs. |":               f,
		"| warning | compute-9 waits for a person |":                f,
		"| expected to end | not known |":                           unknown,
	} {
		var b bytes.Buffer
		if err := Markdown(&b, f); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v, no %q in\n%s", err, want, &b)
		}
	}
	var b bytes.Buffer
	if err := Markdown(&b, ended); err != nil || strings.Contains(b.String(), "expected to end") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// A machine whose hardware is not well comes first although it is in-sync.
func TestHardwareThatIsNotWellComesFirst(t *testing.T) {
	f := berlin()
	f.Status.Nodes = []site.NodeStatus{{Name: "compute-1", State: site.InSync, Health: "OK"}, {Name: "compute-2", State: site.InSync, Health: "Critical"}}
	all := nodes(f).Rows
	if name, reason := all[0][0].Text, all[0][7].Text; name != "compute-2" || reason != "as designed, but its hardware health is Critical" {
		t.Errorf("first is %s: %s", name, reason)
	}
}

// A site of which nothing is known yet has a report too.
func TestEmptySite(t *testing.T) {
	for _, write := range []func(io.Writer, Facts) error{HTML, Markdown} {
		var b bytes.Buffer
		if err := write(&b, Facts{Made: noon}); err != nil || !strings.Contains(b.String(), "nothing yet") || !strings.Contains(b.String(), "0/0") {
			t.Errorf("%v\n%s", err, &b)
		}
	}
}

// hostile is text that would be markup, control a terminal, hide itself or mention people.
const hostile = "<script>alert(1)</script>\"' onload=x | `@ana` [x](http://evil) \x1b[2J\u202e\u200b\n## forged\n|a|b|"

// everywhere puts a text wherever a report shows one of others.
func everywhere(text string) Facts {
	f := berlin()
	s := &f.Status
	s.Site, f.Version, s.Applied.Subject, s.Applied.Author, s.Attempted.Subject, s.ObserveOnly = text, text, text, text, text, text
	s.Paused = &site.Hold{By: text, Reason: text}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Name, n.Role, n.Rack, n.Reason, n.Detail, n.Power, n.Approve, n.NotActedOn = text, text, text, text, text, text, text, []string{text}
		n.State, n.Findings, n.Paused = site.State(text), []site.Finding{{Message: text}}, &site.Hold{By: text, Reason: text}
	}
	s.Waiting[0] = site.Loss{Node: text, Action: text, Lost: text, Disks: text, Hypervisor: text}
	s.Approve, s.Notes, s.Problems[0].What, s.Unacted = text, []string{text}, text, []string{text}
	s.Rollout.Halted, s.Rollout.Canaries, s.Rollout.Failed = text, []string{text}, map[string]string{text: text}
	s.Ledger[0].Source.By, s.Ledger[0].Note, s.Ledger[0].Loss.Node = text, text, text
	f.Chart.Site, f.Chart.Halted, f.Chart.Rows[1].Node, f.Chart.Rows[1].Sentence = text, text, text, text
	f.Chart.Basis, f.Chart.Warnings = text, []string{text}
	f.Racks = map[string]*site.Rack{text: {Units: 10, Location: text}}
	for i := range s.Nodes {
		s.Nodes[i].Position = site.Position{Unit: i + 1, Enclosure: text}
	}
	f.Findings[0] = site.Finding{Severity: site.Severity(text), File: text, Message: text, Why: text, Fix: text}
	f.Events[0] = site.Event{Node: text, Kind: site.EventKind(text), Text: text, By: text}
	return f
}

func TestHostileTextIsOnlyText(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, everywhere(hostile)); err != nil {
		t.Fatal(err)
	}
	elements := map[string]bool{"html": true, "head": true, "meta": true, "title": true, "style": true, "body": true, "h1": true, "h2": true, "p": true, "svg": true, "rect": true,
		"section": true, "div": true, "table": true, "thead": true, "tbody": true, "tr": true, "th": true, "td": true, "g": true, "line": true, "path": true, "text": true, "tspan": true, "desc": true, "circle": true, "polygon": true, "defs": true, "use": true}
	shape := regexp.MustCompile(`^#[a-z0-9-]+$`)
	for z := html.NewTokenizer(bytes.NewReader(b.Bytes())); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		if !elements[token.Data] {
			t.Errorf("element %s", token.Data)
		}
		for _, a := range token.Attr {
			if token.Data == "use" && a.Key == "href" && shape.MatchString(a.Val) {
				continue // of the picture itself
			}
			if strings.HasPrefix(a.Key, "on") || a.Key == "href" || a.Key == "src" || a.Key == "style" {
				t.Errorf("attribute %s of %s", a.Key, token.Data)
			}
		}
	}
	var m bytes.Buffer
	if err := Markdown(&m, everywhere(hostile)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "\n## forged", "@ana", "](http", "\n|a|b|"} {
		if strings.Contains(m.String(), bad) {
			t.Errorf("Markdown has %q", bad)
		}
	}
	for what, text := range map[string]string{"HTML": b.String(), "Markdown": m.String()} {
		for _, r := range strings.ReplaceAll(text, "\n", "") {
			if !unicode.IsPrint(r) {
				t.Errorf("%s has %U", what, r)
				break
			}
		}
	}
}

// A report of a large site, or of huge texts, is bounded and says what it leaves out.
func TestReportsAreBounded(t *testing.T) {
	f := berlin()
	f.Status.Nodes = nil
	for i := range 10_000 {
		f.Status.Nodes = append(f.Status.Nodes, site.NodeStatus{Name: fmt.Sprintf("compute-%05d", i), Rack: fmt.Sprintf("r%03d", i/40), Position: site.Position{Unit: i%40 + 1}, State: site.InSync, Since: noon, Approve: "x", Findings: []site.Finding{{Message: "m"}}})
		f.Status.Waiting = append(f.Status.Waiting, site.Loss{Node: fmt.Sprintf("compute-%05d", i)})
		f.Findings = append(f.Findings, site.Finding{Message: "m"})
		f.Events = append(f.Events, site.Event{When: noon, Text: "e"})
		f.Chart.Rows = append(f.Chart.Rows, site.ChartRow{Node: fmt.Sprintf("compute-%05d", i), State: site.MachineWaiting, Sentence: "waits for its window"})
	}
	f.Status.Nodes[9_999].State = site.Stalled
	for name, write := range map[string]func(io.Writer, Facts) error{"HTML": HTML, "Markdown": Markdown} {
		var b bytes.Buffer
		began := time.Now()
		if err := write(&b, f); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s of 10,000 nodes: %d KB in %v", name, b.Len()>>10, time.Since(began))
		if b.Len() > 2<<20 {
			t.Errorf("%s has %d bytes", name, b.Len())
		}
		for _, want := range []string{"8000 more nodes", "9001 more machines", "9501 more findings", "9802 more events"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
		if part := b.String()[strings.Index(b.String(), "last seen"):]; strings.Index(part, "compute-09999") > strings.Index(part, "compute-00001") {
			t.Errorf("%s has the node that is stalled behind those that are well", name)
		}
	}
	var b bytes.Buffer
	if err := HTML(&b, everywhere(strings.Repeat("A\u0301\u202e", 50_000))); err != nil || b.Len() > 1<<20 {
		t.Errorf("%v, %d bytes of huge texts", err, b.Len())
	}
}
