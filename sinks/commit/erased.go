package commit

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// erasedFolder holds the reports of erased disks, a page for each installation that erased any. Reports stay when
// the node is removed: people may need them years later.
const erasedFolder = "erased"

// stageErased writes the last report of a node. Earlier reports were written when they were the last.
func (r *Reporter) stageErased(n site.NodeStatus) error {
	if n.Erased == nil {
		return nil
	}
	return r.tree.Set(erasedFile(n.Name, *n.Erased), erasedPage(r.site, n.Name, *n.Erased))
}

// erasedFile is the path of a report. The time distinguishes machines that have had the same name.
func erasedFile(node string, e site.EraseReport) string {
	name := strings.TrimSuffix(nodeFile(node)[len(nodesFolder):], ".json")
	return fmt.Sprintf("%s%s-%s.md", erasedFolder, name, e.Began.UTC().Format("20060102T150405Z"))
}

// erasedPage is a report for people. It contains exactly what was observed.
func erasedPage(siteName, node string, e site.EraseReport) []byte {
	p := &writer{}
	p.line("# Erase report: %s, %s", text(node), text(e.For()))
	p.line("\nSite %s, machine %s, begun %s: %s.", text(siteName), text(e.Machine.Full()), when(e.Began), text(e.Verdict()))
	p.line("\n| serial number | disk | model | bytes | result | method | begun | ended |\n|---|---|---|---:|---|---|---|---|")
	for _, d := range e.Disks {
		result := "not erased"
		switch {
		case d.Done:
			result = "erased"
		case len(d.Tries) == 0:
			result = "unknown: the agent did not report on it"
		}
		p.line("| %s | %s | %s | %d | %s | %s | %s | %s |", text(d.ID()), text(d.Disk), text(d.Model), d.Bytes, text(result), text(d.Last().Method), when(d.Began), when(d.Ended))
	}
	for _, name := range e.Unseen {
		p.line("| %s |  |  |  | unknown: the BMC listed it, and the agent saw no disk of that name |  |  |  |", text(name))
	}
	for _, d := range e.Disks {
		if len(d.Tries) == 0 {
			continue
		}
		p.line("\n## %s\n", text(d.ID()))
		for _, t := range d.Tries {
			what, says := "verified", t.Verified
			if says == "" {
				what, says = "did not erase it", t.Why
			}
			p.line("- %s, %d s, %s: %s", text(t.Method), t.Took, what, whole(says))
		}
	}
	return p.Bytes()
}

// whole is like text but does not cut long texts: a report must be complete.
func whole(s string) string {
	var parts []string
	for words := strings.Fields(s); len(words) > 0; {
		n := min(len(words), 20)
		parts = append(parts, text(strings.Join(words[:n], " ")))
		words = words[n:]
	}
	return strings.Join(parts, " ")
}
