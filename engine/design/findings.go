package design

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/design/rule"
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
	code, file, message, node string
	line, col                 int
}

// add adds findings, without the secrets in what they say; one that says the same about the same place and node as an
// earlier one is left out.
func (f *findings) add(found ...site.Finding) {
	if f.seen == nil {
		f.seen = map[findingKey]bool{}
	}
	for _, x := range found {
		x = rule.Discreet(x)
		key := findingKey{x.Code, x.File, x.Message, x.Node, x.Line, x.Col}
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

// fold puts together what several nodes have from one place, as when a hundred
// inherit one wrong value: the first stands for all.
func fold(list []site.Finding) []site.Finding {
	var folded []site.Finding
	at := map[findingKey]int{}
	for _, f := range list {
		if f.Node == "" {
			folded = append(folded, f)
			continue
		}
		key := findingKey{code: f.Code, file: f.File, line: f.Line, col: f.Col,
			message: impersonal(f.Message, f.Node)}
		if first, ok := at[key]; ok {
			folded[first].More++
			continue
		}
		at[key] = len(folded)
		folded = append(folded, f)
	}
	return folded
}

// impersonal is a message without a node's name, where that stands alone.
func impersonal(message, node string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(message, node)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		if inName(last) || inName(next) {
			b.WriteString(node)
		} else {
			b.WriteByte(0)
		}
		message = after
	}
}

// inName says whether a letter beside a name makes it another one.
func inName(r rune) bool {
	return r == '-' || r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// limit orders findings and brings them to what a person can read.
func limit(list []site.Finding) []site.Finding {
	site.SortFindings(list)
	list = fold(list)
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
