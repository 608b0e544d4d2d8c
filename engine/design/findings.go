package design

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cuelang.org/go/cue"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/site"
)

// maxFindings is how many findings are shown. One more finding counts the rest.
const maxFindings = 1000

// findings collects findings without duplicates.
type findings struct {
	list []site.Finding
	seen map[findingKey]bool
}

type findingKey struct {
	code, file, message, node string
	line, col                 int
}

// add adds findings and removes secrets from their texts. It skips a finding that says the same about the same place
// and node as an earlier one.
func (f *findings) add(found ...site.Finding) {
	if f.seen == nil {
		f.seen = map[findingKey]bool{}
	}
	for _, x := range found {
		x = cleartext.Discreet(x)
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

// namedBeside is how many nodes a folded finding names besides the first.
const namedBeside = 2

// fold combines the findings of one line, such as a wrong value that a hundred nodes inherit. The first finding
// stands for all, and names the next ones. If one node has a finding several times, each time is reported.
func fold(list []site.Finding) []site.Finding {
	type group struct {
		findingKey
		field string
		// nth numbers the repetitions in one node or path.
		nth int
	}
	type times struct {
		findingKey
		field, of string
	}
	var folded []site.Finding
	at, seen := map[group]int{}, map[times]int{}
	for _, f := range list {
		if f.Line == 0 && f.Node == "" {
			folded = append(folded, f)
			continue
		}
		key, of := findingKey{code: f.Code, file: f.File, line: f.Line, col: f.Col}, cmp.Or(f.Node, f.Path)
		field := ""
		if f.Line == 0 {
			key.message = impersonal(f.Message, f.Node)
		} else {
			field = fieldPath(f)
		}
		if of == "" {
			folded = append(folded, f)
			continue
		}
		seen[times{key, field, of}]++
		g := group{key, field, seen[times{key, field, of}]}
		first, ok := at[g]
		if !ok {
			at[g] = len(folded)
			folded = append(folded, f)
			continue
		}
		x := &folded[first]
		if x.More++; len(x.Named) < namedBeside {
			x.Named = append(x.Named, of)
		}
	}
	return folded
}

// fieldPath returns the path of a finding with "*" for names that the design chooses, such as "interfaces.*.link".
func fieldPath(f site.Finding) string {
	s := shapes()["#Effective"]
	path := strings.Split(f.Path, ".")
	var field []string
	if f.Node == "" {
		i := slices.IndexFunc(sections, func(s section) bool { return s.name == path[0] })
		if i < 0 {
			return f.Path
		}
		s, field, path = shapes()[sections[i].definition], []string{path[0]}, path[1:]
		if sections[i].many {
			s = &shape{kind: cue.StructKind, entries: []entry{{shape: s}}}
		}
	}
	for _, name := range path {
		switch sub := s.fields[name]; {
		case sub != nil:
			s, field = sub, append(field, name)
		case len(s.entries) > 0:
			s, field = s.entries[0].shape, append(field, "*")
		}
	}
	return strings.Join(field, ".")
}

// impersonal removes a node's name from a message, where it stands alone.
func impersonal(message, node string) string {
	if node == "" {
		return message
	}
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

// inName reports whether a character next to a name makes it a different name.
func inName(r rune) bool {
	return r == '-' || r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// limit sorts findings and reduces them to what a person can read.
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
		Fix:     "Fix those that are shown first; many have the same cause.",
	})
}
