package commit

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestPageOfABrokenDesign(t *testing.T) {
	rep := healthy(2)
	rep.Status.Attempted = site.Revision{ID: "2222222222222222222222222222222222222222", Subject: "oops", Author: "Bob", When: since}
	rep.Status.Problems = []site.Problem{{What: "revision 222222222222 is broken", Since: since}}
	rep.Findings = []site.Finding{{Code: "unknown-field", Severity: site.SeverityError, File: "racks/r1.cue", Line: 7, Col: 3, Message: "unknown field pwoer", Fix: "write power"}}
	rep.Status.Waiting = site.Losses{{Node: "n0001", Machine: site.Identity{Serial: "X1"}, Action: "install generation 2", Lost: "everything on its disks", Disks: "S1, S2"}}
	loss := site.Loss{Node: "n0000", Action: "install generation 1", Disks: "S7"}
	by := site.ApprovalSource{Kind: site.ByMerge, By: "bob", Proposal: 7, Commit: "4f2a1b3c4d5e6f708192a3b4c5d6e7f801020304"}
	rep.Status.Ledger = []site.LedgerEntry{
		{Loss: loss, Source: by, Opened: since, Ended: since.Add(time.Hour), Why: "the image changed"},
		{Loss: loss, Source: by, Opened: since, Consumed: since.Add(2 * time.Hour)},
		{Loss: loss, Source: site.ApprovalSource{Kind: site.ByCommand, By: "ada"}, Opened: since, Expires: since.Add(3 * time.Hour)},
		{Loss: loss, Source: site.ApprovalSource{Kind: site.ByComment, By: "eve", Proposal: 8, Comment: 123}, Opened: since, Expires: since},
	}
	rep.Status.Approve = "0123456789abcdef"
	rep.Status.ObserveOnly = "the schema is older"
	rep.Status.Paused = &site.Hold{By: "ada", Reason: "power work", Since: since, Until: since.Add(2 * time.Hour)}
	got := string(page(&rep))
	for _, want := range []string{
		"# lab: 2/2 in-sync, 1 problem\n",
		"**Observing only:** the schema is older.",
		"**Paused** by ada since 2026-03-01 12:00:00Z, until 2026-03-01 14:00:00Z: power work.",
		"- since 2026-03-01 12:00:00Z: revision 222222222222 is broken\n",
		"- error racks/r1.cue:7:3: unknown field pwoer; write power\n",
		"\n    slipway approve 0123456789abcdef\n",
		"| n0001 | serial X1 | install generation 2 | everything on its disks | S1, S2 |\n",
		" | eve, comment 123 on pull request 8 | not used yet, expires at 2026-03-01 12:00:00Z |\n",
		"| n0000 | install generation 1 | S7 | 2026-03-01 12:00:00Z | ada, by `slipway approve` | not used yet, expires at 2026-03-01 15:00:00Z |\n" +
			"| n0000 | install generation 1 | S7 | 2026-03-01 12:00:00Z | bob, pull request 7, merged as 4f2a1b3c4d5e | used at 2026-03-01 14:00:00Z |\n" +
			"| n0000 | install generation 1 | S7 | 2026-03-01 12:00:00Z | bob, pull request 7, merged as 4f2a1b3c4d5e | ended at 2026-03-01 13:00:00Z without being used: the image changed |\n",
		"| applied | 1111111111aa |", "| attempted | 222222222222 | oops | Bob |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	summary, err := asJSON(summaryOf(&rep))
	if err != nil || !strings.Contains(string(summary), `"comment": 123`) {
		t.Errorf("the summary does not say by which comment, %v:\n%s", err, summary)
	}
}

func TestPageSaysWhichSystemsDoNotAnswer(t *testing.T) {
	rep := healthy(3)
	rep.Status.Nodes[1].Service = site.ServiceSilent
	got := string(page(&rep))
	for _, want := range []string{"# lab: 3/3 in-sync, 1 whose system does not answer\n", "\n## Systems that do not answer\n", "\n- [n0001](" + nodeFile("n0001") + ")\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}

func TestPageSaysWhenARolloutWas(t *testing.T) {
	began := time.Date(2026, 3, 9, 8, 43, 12, 0, time.UTC)
	rollout := site.RolloutStatus{Revision: site.Revision{ID: "70d02aaaaaaaaaaa"}, Since: began, Nodes: []string{"n1"}, Done: 1}
	for want, change := range map[string]func(r *site.RolloutStatus){
		"since 2026-03-09 08:43:12Z, under way: ":                                   func(*site.RolloutStatus) {},
		"since 2026-03-09 08:43:12Z, **halted**: too many: ":                        func(r *site.RolloutStatus) { r.Halted = "too many" },
		"began at 2026-03-09 08:43:12Z and ended within a second: 1 of 1 nodes in-": func(r *site.RolloutStatus) { r.Ended = began.Add(time.Millisecond) },
		"began at 2026-03-09 08:43:12Z and ended at 2026-03-09 08:44:12Z: 1 of 1 ":  func(r *site.RolloutStatus) { r.Ended, r.Halted = began.Add(time.Minute), "too many" },
	} {
		r, rep := rollout, healthy(1)
		change(&r)
		rep.Status.Rollout = &r
		if got := string(page(&rep)); !strings.Contains(got, "\n**Rollout** of 70d02aaaaaaa "+want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}

// The page says where DHCP is served and why it is not, and stays the same when one
// client more has a lease.
func TestPageSaysWhereDHCPIsServed(t *testing.T) {
	rep := healthy(1)
	rep.Status.Served = []site.Served{
		{Network: "mgmt", Interface: "eth1", Mode: site.DHCPServe, Range: 51, Free: 40, Leases: 14},
		{Network: "lab", Interface: "eth2", Why: "another DHCP server answers in the network: 10.7.0.9"},
		{Network: "old", Interface: "eth3", Mode: site.DHCPProxy},
	}
	first := string(page(&rep))
	for _, want := range []string{
		"\n## DHCP\n", "\n- mgmt on eth1: addresses for designed nodes, and 51 dynamic addresses\n",
		"\n- not on lab on eth2: another DHCP server answers in the network: 10.7.0.9\n", "\n- old on eth3: boot files beside another DHCP server\n",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the page lacks %q:\n%s", want, first)
		}
	}
	rep.Status.Served[0].Free, rep.Status.Served[0].Leases = 39, 15
	if string(page(&rep)) != first {
		t.Error("the page is another one for one lease more")
	}
	rep.Status.Served[0].Free = 0
	if again := string(page(&rep)); !strings.Contains(again, "all 51 dynamic addresses are in use") {
		t.Errorf("the page does not say that the range is empty:\n%s", again)
	}
	rep.Status.Served = nil
	if strings.Contains(string(page(&rep)), "DHCP") {
		t.Error("the page speaks of DHCP where none is served")
	}
}

func TestPageSaysWhichSystemsAreNotHealthy(t *testing.T) {
	rep := healthy(3)
	rep.Status.Nodes[0].SystemHealth = site.SystemHealth{State: site.Healthy}
	rep.Status.Nodes[1].SystemHealth = site.SystemHealth{State: site.HealthUnknown, Why: "its system | did not answer"}
	got := string(page(&rep))
	for _, want := range []string{"# lab: 3/3 in-sync, 1 of unknown health\n", "\n## Systems that are not healthy\n", "| [n0001](" + nodeFile("n0001") + ") | unknown | its system &#124; did not answer |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}

// hostile is text that must not become markup, a row or a command.
var hostile = []string{
	"x | y |\n| forged | in-sync | fine |", "</td><script>alert(1)</script>", "[click](https://example.org)", "![](https://example.org/pixel)",
	"`; rm -rf /`", "# heading", "\r\n\r\n## heading", "**bold** _it_ ~~no~~", "\u202egnirts", "\x00\x1b[31m", "\xff\xfe", "&#124;", `\|`, "$x$",
	strings.Repeat("long ", 10_000),
}

func TestHostileTextStaysText(t *testing.T) {
	plain := structure(hostilePage("x"))
	for _, bad := range hostile {
		got := hostilePage(bad)
		if s := structure(got); s != plain {
			t.Errorf("%q changed the page's structure:\n%s", bad, got)
		}
		if len(got) > 20_000 {
			t.Errorf("%.20q made a page of %d bytes", bad, len(got))
		}
	}
}

// hostilePage puts one text wherever one comes from outside.
func hostilePage(bad string) string {
	rep := healthy(2)
	s := &rep.Status
	s.Applied.Subject, s.Applied.Author = bad, bad
	s.Attempted = site.Revision{ID: bad + "2", Subject: bad, Author: bad}
	s.Problems = []site.Problem{{What: bad}}
	s.ObserveOnly, s.Paused = bad, &site.Hold{By: bad, Reason: bad}
	s.Waiting = site.Losses{{Node: bad, Machine: site.Identity{Serial: bad}, Hypervisor: bad, Action: bad, Lost: bad, Disks: bad}}
	s.Ledger = []site.LedgerEntry{{Loss: s.Waiting[0], Source: site.ApprovalSource{Kind: site.ByMerge, By: bad, Commit: bad}, Ended: since, Why: bad}}
	s.Approve = bad
	s.Nodes[0] = site.NodeStatus{Name: bad, State: site.Stalled, Reason: bad, Next: bad}
	rep.Findings = []site.Finding{{Severity: site.SeverityError, File: bad, Line: 1, Message: bad, Why: bad, Fix: bad}}
	return string(page(&rep))
}

// structure is the page's markup: every line's characters that mean something.
func structure(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		if strings.Contains(line, "slipway approve") {
			line = "    command\n"
		}
		for i, r := range line {
			entity := r == '#' && i > 0 && line[i-1] == '&'
			if !entity && strings.ContainsRune("\\`*_[]<>#|\n", r) {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

func FuzzText(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := text(s)
		if strings.ContainsAny(strings.ReplaceAll(got, "&#", ""), "\\`*_{}[]<>#|~$\n\r\t\x00") || len(got) > 4000 {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestPageListsABoundedNumber(t *testing.T) {
	rep := healthy(1000)
	for i := range rep.Status.Nodes {
		rep.Status.Nodes[i].State = site.Stalled
	}
	got := string(page(&rep))
	if n := strings.Count(got, "| stalled | "); n != mostNodes+1 { // and one in the counts
		t.Errorf("%d rows, want %d", n, mostNodes+1)
	}
	if !strings.Contains(got, "\nAnd 800 more.\n") {
		t.Error("the page does not say that it was cut")
	}
}

func TestNodeFile(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"n1", "../../README", "a/b", ".git", "", "..", "N1", strings.Repeat("x", 300), "a\nb", "README.md"} {
		file := nodeFile(name)
		if other, ok := seen[file]; ok {
			t.Errorf("%q and %q share %s", name, other, file)
		}
		seen[file] = name
		if parts := strings.Split(file, "/"); len(parts) != 4 || parts[0] != "nodes" || !plainName.MatchString(parts[3]) {
			t.Errorf("%q has the file %s", name, file)
		}
	}
	if got, want := nodeFile("n1"), "nodes/6/7/n1.json"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
