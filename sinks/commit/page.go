package commit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// These are the bounds of the page's lists, because every commit writes the page again.
const (
	mostNodes    = 200
	mostFindings = 50
	mostWaiting  = 50
	mostMet      = 50

	mostApprovals = 50
)

// page is README.md. It shows what a person wants to know, the verdict first. Its only times are those of changes,
// so it changes only when something else does.
func page(rep *site.Report) []byte {
	p := &writer{}
	s := &rep.Status
	p.line("# %s: %s", text(s.Site), verdict(s))
	p.standing(s)
	p.rollout(s.Rollout)
	p.problems(s.Problems)
	if s.Attempted.ID != s.Applied.ID {
		p.findings(rep.Findings)
	}
	p.incidents(s.Incidents)
	p.waiting(s)
	p.approvals(s.Ledger)
	p.revisions(s)
	p.counts(s)
	p.nodes(s)
	p.silent(s.Silent())
	p.unfit(s.Unfit())
	p.unlinked(s.Unlinked(site.LinksUnknown))
	p.hardware(s)
	p.erased(s)
	p.notActedOn(s)
	p.served(s.Served)
	p.swept(s.Swept)
	p.line("\nWritten by Slipway; changes made here are overwritten. Each node has a file under [nodes](nodes), the counts are in [status.json](status.json).")
	return p.Bytes()
}

// writer builds a page.
type writer struct{ bytes.Buffer }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// rest says that a list was cut.
func (w *writer) rest(shown, all int) {
	if all > shown {
		w.line("\nAnd %d more.", all-shown)
	}
}

func (w *writer) standing(s *site.Status) {
	if s.ObserveOnly != "" {
		w.line("\n**Observing only:** %s.", text(s.ObserveOnly))
	}
	if h := s.Paused; h != nil {
		until := ""
		if !h.Until.IsZero() {
			until = ", until " + when(h.Until)
		}
		w.line("\n**Paused** by %s since %s%s: %s.", text(h.By), when(h.Since), until, text(h.Reason))
	}
}

// rollout describes the rollout, without what changes by itself.
func (w *writer) rollout(r *site.RolloutStatus) {
	if r == nil {
		return
	}
	w.line("\n**Rollout** of %s %s: %s.", text(r.Revision.Short()), progressOf(r), r.Outcome())
	if r.Ended.IsZero() && len(r.Canaries) > 0 {
		w.line("Canaries: %s.", text(strings.Join(r.Canaries[:min(len(r.Canaries), mostWaiting)], ", ")))
	}
	if r.Queued != nil {
		w.line("Revision %s waits until the rollout has ended or is halted.", text(r.Queued.Short()))
	}
}

// progressOf says since when a rollout is under way, or from when until when it was.
func progressOf(r *site.RolloutStatus) string {
	began, ended := when(r.Since), when(r.Ended)
	switch {
	case r.Ended.IsZero() && r.Halted != "":
		return fmt.Sprintf("since %s, **halted**: %s", began, text(r.Halted))
	case r.Ended.IsZero():
		return fmt.Sprintf("since %s, under way", began)
	case began == ended:
		return fmt.Sprintf("began at %s and ended within a second", began)
	}
	return fmt.Sprintf("began at %s and ended at %s", began, ended)
}

func (w *writer) problems(problems []site.Problem) {
	if len(problems) == 0 {
		return
	}
	w.line("\n## Problems\n")
	for _, p := range problems {
		w.line("- since %s: %s", when(p.Since), text(p.What))
	}
}

func (w *writer) findings(all []site.Finding) {
	if len(all) == 0 {
		return
	}
	w.line("\n## Findings in the newest revision\n")
	shown := all[:min(len(all), mostFindings)]
	for _, f := range shown {
		w.line("- %s %s: %s%s%s%s", text(string(f.Severity)), text(f.Place()), text(f.Message), sentence("; ", f.Others()), sentence("; ", f.Why), sentence("; ", f.Fix))
	}
	w.rest(len(shown), len(all))
}

func sentence(sep, s string) string {
	if s == "" {
		return ""
	}
	return sep + text(s)
}

func (w *writer) waiting(s *site.Status) {
	if len(s.Waiting) == 0 {
		return
	}
	w.line("\n## Waiting for approval\n\nData on these machines will be lost.")
	if len(s.Waiting) > mostWaiting {
		w.line("This page lists %d of %d losses. `slipway approve` on the bootstrap host lists all of them: read them before you approve.\n", mostWaiting, len(s.Waiting))
	} else {
		w.line("To approve exactly this, on the bootstrap host:\n\n    slipway approve %s\n", word(s.Approve))
	}
	w.line("| node | machine | action | what is lost | disks |\n|---|---|---|---|---|")
	shown := s.Waiting[:min(len(s.Waiting), mostWaiting)]
	for _, l := range shown {
		w.line("| %s | %s | %s | %s | %s |", text(l.Node), text(l.Target()), text(l.Action), text(l.Lost), text(l.Disks))
	}
	w.rest(len(shown), len(s.Waiting))
}

// approvals lists who approved the loss of which data in the last days, and the results, newest first.
func (w *writer) approvals(ledger []site.LedgerEntry) {
	if len(ledger) == 0 {
		return
	}
	w.line("\n## Approvals of the last days\n\n| node | action | disks | approved | by | result |\n|---|---|---|---|---|---|")
	shown := latest(ledger)
	for _, e := range slices.Backward(shown) {
		w.line("| %s | %s | %s | %s | %s | %s |", text(e.Loss.Node), text(e.Loss.Action), text(e.Loss.Disks), when(e.Opened), approver(e.Source), text(e.Result()))
	}
	w.rest(len(shown), len(ledger))
}

// approver is who approved, and how; the command is shown as code. All else is foreign text.
func approver(s site.ApprovalSource) string {
	const command = ", by `slipway approve`"
	if s.String() == s.By+command {
		return text(s.By) + command
	}
	return text(s.String())
}

// latest are the approvals to list.
func latest(ledger []site.LedgerEntry) []site.LedgerEntry {
	return ledger[max(0, len(ledger)-mostApprovals):]
}

func (w *writer) revisions(s *site.Status) {
	w.line("\n| revision | commit | subject | author | committed |\n|---|---|---|---|---|")
	w.revision("applied", s.Applied)
	if s.Attempted.ID != s.Applied.ID {
		w.revision("attempted", s.Attempted)
	}
}

func (w *writer) revision(name string, r site.Revision) {
	if r.ID == "" {
		w.line("| %s | none yet | | | |", name)
		return
	}
	w.line("| %s | %s | %s | %s | %s |", name, text(r.Short()), text(r.Subject), text(r.Author), when(r.When))
}

func (w *writer) counts(s *site.Status) {
	w.line("\n| state | nodes |\n|---|---:|")
	counts := s.Counts()
	for _, state := range site.States {
		if counts[state] > 0 {
			w.line("| %s | %d |", state, counts[state])
		}
	}
}

func (w *writer) nodes(s *site.Status) {
	counts := s.Counts()
	all := len(s.Nodes) - counts[site.InSync]
	if all == 0 {
		return
	}
	w.line("\n## Not in-sync\n\n| node | state | reason | since | next |\n|---|---|---|---|---|")
	shown := 0
	for _, n := range s.Nodes {
		if n.State == site.InSync {
			continue
		}
		if shown++; shown > mostNodes {
			break
		}
		w.line("| [%s](%s) | %s | %s | %s | %s |", text(n.Name), nodeFile(n.Name), text(string(n.State)), text(n.Reason), when(n.Since), text(n.Next))
	}
	w.rest(min(shown, mostNodes), all)
}

// silent lists the nodes whose systems do not answer.
func (w *writer) silent(names []string) {
	shown := names[:min(len(names), mostNodes)]
	for i, name := range shown {
		if i == 0 {
			w.line("\n## Systems that do not answer\n\nTheir machines are on, and are seen through their BMCs alone.\n")
		}
		w.line("- [%s](%s)", text(name), nodeFile(name))
	}
	w.rest(len(shown), len(names))
}

// unfit lists the nodes whose systems are unhealthy, or of unknown health.
func (w *writer) unfit(nodes []site.NodeStatus) {
	shown := nodes[:min(len(nodes), mostNodes)]
	for i, n := range shown {
		if i == 0 {
			w.line("\n## Systems that are not healthy\n\n| node | health | why |\n|---|---|---|")
		}
		w.line("| [%s](%s) | %s | %s |", text(n.Name), nodeFile(n.Name), text(string(n.SystemHealth.State)), text(n.SystemHealth.Why))
	}
	w.rest(len(shown), len(nodes))
}

// unlinked lists the nodes whose links are unknown.
func (w *writer) unlinked(nodes []site.NodeStatus) {
	shown := nodes[:min(len(nodes), mostNodes)]
	for i, n := range shown {
		if i == 0 {
			w.line("\n## Links that are not known\n\n| node | why |\n|---|---|")
		}
		w.line("| [%s](%s) | %s |", text(n.Name), nodeFile(n.Name), text(n.Links.Why))
	}
	w.rest(len(shown), len(nodes))
}

// hardware lists the findings about machines, such as missing or unhealthy parts.
func (w *writer) hardware(s *site.Status) {
	shown, all := 0, 0
	for _, n := range s.Nodes {
		for _, f := range n.Findings {
			if all++; shown == mostFindings {
				continue
			}
			if shown++; shown == 1 {
				w.line("\n## Machines\n\n| node | finding | place |\n|---|---|---|")
			}
			w.line("| [%s](%s) | %s | %s |", text(n.Name), nodeFile(n.Name), text(f.Message), text(f.Place()))
		}
	}
	w.rest(shown, all)
}

// erased lists the last report of each node whose disks were erased.
func (w *writer) erased(s *site.Status) {
	shown, all := 0, 0
	for _, n := range s.Nodes {
		if n.Erased == nil {
			continue
		}
		if all++; all > mostNodes {
			continue
		}
		if shown++; shown == 1 {
			w.line("\n## Erased disks\n\n| node | last report |\n|---|---|")
		}
		w.line("| %s | [%s](%s) |", text(n.Name), text(n.Erased.Verdict()), erasedFile(n.Name, *n.Erased))
	}
	w.rest(shown, all)
}

// notActedOn lists the parts of the design that no driver acts on.
func (w *writer) notActedOn(s *site.Status) {
	for i, u := range s.NotActedOn() {
		if i == 0 {
			w.line("\n## Designed, not acted on\n\nNo driver applies these parts, and Slipway does not check them.\n")
		}
		w.line("- %s", text(u.String()))
	}
}

// served lists where DHCP is served. It omits the number of leases, which changes with each client.
func (w *writer) served(all []site.Served) {
	if len(all) == 0 {
		return
	}
	w.line("\n## DHCP\n")
	for _, s := range all {
		w.line("- %s", text(s.Line()))
	}
}

// swept lists the machines that a sweep found but the design lacks, with what to change.
func (w *writer) swept(s *site.Swept) {
	if s == nil || len(s.Met) == 0 {
		return
	}
	w.line("\n## Found in the networks")
	shown := s.Met[:min(len(s.Met), mostMet)]
	for _, m := range shown {
		w.line("\n**%s** (%s): %s%s%s", text(m.Address), text(string(m.Standing.Kind)), text(m.Observed.Identity.String()), sentence("; ", m.Standing.Text), sentence("; not looked into: ", m.Why))
		if m.Standing.Want != "" {
			w.line("%s: %s", text(m.Standing.Place.String()), text(strings.TrimPrefix(m.Standing.Have+" → "+m.Standing.Want, " → ")))
		}
		w.code(m.Standing.CUE)
	}
	w.rest(len(shown), len(s.Met))
}

// code writes a text as an indented code block. No indented line can end such a block (CommonMark 0.31, section
// 4.4).
func (w *writer) code(text string) {
	if text == "" {
		return
	}
	w.line("")
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		w.line("    %s", strings.ToValidUTF8(line, "?"))
	}
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// text makes a text from anywhere, such as a commit's subject or a BMC's answer, fit for one table cell: one line
// of bounded length. Characters that Markdown or HTML could take for markup become numeric entities, which neither
// does (CommonMark 0.31, section 2.5).
func text(s string) string {
	const longest = 300
	var b strings.Builder
	for i, r := range strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ") {
		switch {
		case i >= longest:
			b.WriteString(" …")
			return b.String()
		case strings.ContainsRune("\\`*_{}[]<>#|~&$", r), r < ' ', r >= 0x7f && r < 0xa0, invisible(r):
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// invisible reports whether a character has no width or changes the direction of the text.
func invisible(r rune) bool {
	return r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// word is a word for a command: a digest.
func word(s string) string {
	const longest = 64
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '.' || r == '_' {
			return r
		}
		return -1
	}, s[:min(len(s), longest)])
}
