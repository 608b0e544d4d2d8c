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

// shownTexts is how many different texts of one line are shown before the rest is combined.
const shownTexts = 3

// othersDiffer ends the message of a finding that stands for others with other texts.
const othersDiffer = "; for the others the details differ"

// lineKey is what the findings have in common that one line makes of many nodes or entries.
type lineKey struct {
	findingKey
	severity   site.Severity
	field, fix string
}

// fold combines the findings of one line, such as a wrong value that a hundred nodes inherit. The first finding
// stands for all that say the same and ask for the same, and names the next ones. When a line has many texts, the last
// of those that are shown stands for the rest, and says so. A node's findings never stand for each other.
func fold(list []site.Finding) []site.Finding {
	type text struct {
		lineKey
		message string
	}
	type member struct {
		at int
		of string
	}
	var folded []site.Finding
	at, texts, in := map[text]int{}, map[lineKey][]int{}, map[member]bool{}
	for _, f := range list {
		of := cmp.Or(f.Node, f.Path)
		if f.Line == 0 && f.Node == "" || of == "" {
			folded = append(folded, f)
			continue
		}
		t := text{keyOf(f), impersonal(f.Message, subject(f))}
		i, same := at[t]
		if shown := texts[t.lineKey]; !same && f.Line > 0 && len(shown) >= shownTexts {
			i = shown[len(shown)-1]
		} else if !same {
			i = -1
		}
		if i < 0 || in[member{i, of}] {
			i = len(folded)
			folded = append(folded, f)
			at[t], texts[t.lineKey], in[member{i, of}] = i, append(texts[t.lineKey], i), true
			continue
		}
		in[member{i, of}] = true
		x := &folded[i]
		if !same && !strings.HasSuffix(x.Message, othersDiffer) {
			x.Message += othersDiffer
		}
		if x.More++; len(x.Named) < namedBeside {
			x.Named = append(x.Named, of)
		}
	}
	return folded
}

func keyOf(f site.Finding) lineKey {
	key := lineKey{findingKey: findingKey{code: f.Code, file: f.File, line: f.Line, col: f.Col}, severity: f.Severity, fix: impersonal(f.Fix, subject(f))}
	if f.Line > 0 {
		key.field = fieldPath(f)
	}
	return key
}

// subject is the name of the node or entry that a finding is about.
func subject(f site.Finding) string {
	if parts := strings.SplitN(f.Path, ".", 3); f.Node == "" && len(parts) > 1 {
		return parts[1]
	}
	return f.Node
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

// impersonal removes the name of a node or entry from a message, where it stands alone.
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
