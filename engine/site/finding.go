package site

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Severity ranks findings.
type Severity string

// The severities. Only an error prevents a design from being applied.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityNote    Severity = "note"
)

// Finding is one thing that is wrong with a design.
type Finding struct {
	// Code names the rule, constant over releases ("unknown-field").
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// File, Line and Col are the place to change. Line is 0 if only the file is
	// known. File is empty if the finding is about the whole design.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	// Node and Path name the effective value. More is how many further nodes
	// have the same finding from the same place.
	Node string `json:"node,omitempty"`
	Path string `json:"path,omitempty"`
	More int    `json:"more,omitempty"`
	// Named are the first of those further nodes or, for a finding without a
	// node, of the other paths.
	Named []string `json:"named,omitempty"`
	// Message says what is wrong, Why says why it matters, Fix what to do.
	Message string `json:"message"`
	Why     string `json:"why,omitempty"`
	Fix     string `json:"fix,omitempty"`
	// Related are other places that contribute, as file:line:col.
	Related []string `json:"related,omitempty"`
}

// Place is the finding's place as file:line:col, as far as it is known.
func (f Finding) Place() string {
	if f.Line == 0 {
		return f.File
	}
	return f.File + ":" + strconv.Itoa(f.Line) + ":" + strconv.Itoa(f.Col)
}

// ID names the finding in links: it stays the same when lines are moved.
func (f Finding) ID() string {
	return idOf(f.Code, f.File, f.Node, f.Path, f.Message)
}

// IDLength is how many characters the ID of a finding or of an approval has.
const IDLength = 12

// idOf is a short digest of some texts.
func idOf(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:IDLength/2])
}

// Others says which nodes, or other parts of the design, have the finding. It is
// empty if the message says so, or if there are none.
func (f Finding) Others() string {
	switch {
	case f.More > 0:
	case f.Node == "" || namesNode(f.Message, f.Node):
		return ""
	default: // the place may be in a profile that many nodes have
		return f.Node + " has it"
	}
	names, what := append([]string{cmp.Or(f.Node, f.Path)}, f.Named...), ""
	if f.Node != "" {
		what = " node"
	}
	if rest := f.More - len(f.Named); rest == 1 {
		names = append(names, "1 more"+what)
	} else if rest > 1 && what != "" {
		names = append(names, strconv.Itoa(rest)+" more nodes")
	} else if rest > 1 {
		names = append(names, strconv.Itoa(rest)+" more")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last] + " have it"
}

// namesNode reports whether a text has the name of a node as a word.
func namesNode(text, node string) bool {
	for rest := text; ; {
		before, after, found := strings.Cut(rest, node)
		if !found {
			return false
		}
		if !startsName(after) && (before == "" || !startsName(before[len(before)-1:])) {
			return true
		}
		rest = after
	}
}

// startsName reports whether a text begins with a letter, a digit or a dash, as the rest of a longer name does.
func startsName(text string) bool {
	return text != "" && (text[0] == '-' || text[0] == '_' || '0' <= text[0] && text[0] <= '9' || 'A' <= text[0]&^0x20 && text[0]&^0x20 <= 'Z')
}

// String is the finding in one line.
func (f Finding) String() string {
	if p := f.Place(); p != "" {
		return p + ": " + f.Message
	}
	return f.Message
}

// SortFindings orders findings by place, then code.
func SortFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Col-b.Col,
			strings.Compare(a.Code, b.Code), strings.Compare(a.Message, b.Message))
	})
}

// HasErrors reports whether a finding prevents the design from being applied.
func HasErrors(fs []Finding) bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == SeverityError })
}
