package design

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// maxFindings is how many findings are shown; one more says how many there
// are beyond.
const maxFindings = 1000

// findings collects what is wrong, once each.
type findings struct {
	list []site.Finding
	seen map[findingKey]bool
}

type findingKey struct {
	code, file, message string
	line, col           int
}

// add adds findings; one that says the same about the same place as an earlier
// one is left out, as when a hundred nodes inherit one wrong value.
func (f *findings) add(found ...site.Finding) {
	if f.seen == nil {
		f.seen = map[findingKey]bool{}
	}
	for _, x := range found {
		key := findingKey{x.Code, x.File, x.Message, x.Line, x.Col}
		if f.seen[key] {
			continue
		}
		f.seen[key] = true
		f.list = append(f.list, x)
	}
}

// at adds an error at a place.
func (f *findings) at(o site.Origin, x site.Finding) {
	if x.Severity == "" {
		x.Severity = site.SeverityError
	}
	if !o.IsZero() {
		x.File, x.Line, x.Col = o.File.Value(), o.Line, o.Col
	}
	f.add(x)
}

// of adds an error about a node.
func (f *findings) of(node string, o site.Origin, x site.Finding) {
	x.Node = node
	f.at(o, x)
}

// limit orders findings and cuts them to what a person can read.
func limit(list []site.Finding) []site.Finding {
	site.SortFindings(list)
	if len(list) <= maxFindings {
		return list
	}
	more := len(list) - maxFindings
	severity := site.SeverityWarning
	if site.HasErrors(list) {
		severity = site.SeverityError
	}
	return append(list[:maxFindings:maxFindings], site.Finding{
		Code: "more-findings", Severity: severity,
		Message: fmt.Sprintf("%d more findings are not shown", more),
		Fix:     "Repair those that are shown first; many have one cause.",
	})
}
