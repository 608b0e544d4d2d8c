package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// subjects are the headings of docs/messages.md, and the folders whose sentences stand
// under each. A folder brings those below it along, unless they are named themselves.
var subjects = []struct {
	heading string
	folders []string
}{
	{"Commands", []string{"cmd/slipway"}},
	{"Status, waiting and events", []string{"engine", "engine/rollout", "engine/retry", "engine/discovery", "engine/site", "engine/ledger", "engine/control"}},
	{"Plans and comments on pull requests", []string{"engine/plan", "engine/present", "engine/review", "engine/say"}},
	{"Designs and rules", []string{"engine/design", "engine/placement", "engine/layout", "engine/bios", "engine/window", "engine/firstboot"}},
	{"Repositories, pull requests and reports", []string{"engine/repo", "engine/forge", "sources", "sinks/commit", "sinks/draft", "sinks/github", "sinks/pullrequest", "sinks/notify", "sinks/metrics", "sinks/traces"}},
	{"Records, keys, credentials and images", []string{"engine/record", "engine/sitekey", "engine/pkcs11", "engine/keyseal", "cmd/slipway-pkcs11", "engine/secret", "engine/cleartext", "engine/artifact", "engine/frames", "engine/qcow2"}},
	{"BMCs", []string{"engine/driver", "sinks/redfish"}},
	{"Hypervisors", []string{"sinks/libvirt"}},
	{"Installed systems and Slipway's agent", []string{"engine/item", "engine/driver/sshclient", "sinks/agent", "cmd/slipway-agent", "cmd/slipway-helper"}},
	{"DHCP and network boot", []string{"sinks/netboot"}},
}

const messagesHead = `# Messages

This page lists every sentence that Slipway can show, so that you can look up where a message comes from, and so that all of
them are read in one place and stay plain. … stands for what Slipway fills in. The sentences are grouped by subject and by
file, in the order of the source. What to do about the most frequent ones is in [Troubleshooting](troubleshooting.md); each
rule has an example in [Rules](rules.md).

This page is made from the source by ` + "`go test ./cmd/slipway -run TestMessagesPage -update`" + `.
`

// docs/messages.md is made from the source: -update writes it.
func TestMessagesPage(t *testing.T) {
	isPage(t, "../../docs/messages.md", messagesMarkdown(sourceSentences(t)))
}

func messagesMarkdown(all []saying) string {
	var b strings.Builder
	b.WriteString(messagesHead)
	for i, s := range subjects {
		file := ""
		for _, said := range all {
			if said.subject != i {
				continue
			}
			switch {
			case file == "":
				fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```text\n", s.heading, said.file)
			case file != said.file:
				fmt.Fprintf(&b, "```\n\n%s\n\n```text\n", said.file)
			}
			file = said.file
			b.WriteString(said.text + "\n")
		}
		if file != "" {
			b.WriteString("```\n")
		}
	}
	return b.String()
}

// saying is a text that a person can read, with … for each part that is filled in.
type saying struct {
	subject    int // index into subjects
	file, text string
}

// sourceSentences are those of all programs that people run, in the order of the
// source, each once for a file.
func sourceSentences(t *testing.T) []saying {
	t.Helper()
	const root = "../.."
	var all []saying
	for _, top := range []string{"cmd", "engine", "sinks", "sources"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(root, path)
			if d.IsDir() {
				// Packages for tests, and the programs that show the simulated machines.
				if n := d.Name(); n == "testdata" || strings.HasSuffix(n, "test") || n == "slipway-lab" || n == "slipway-demo" {
					return fs.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			subject := subjectOf(filepath.Dir(name))
			for _, text := range sentencesOf(file) {
				if subject < 0 {
					t.Errorf("%s has sentences, and no heading of docs/messages.md: name its folder in subjects", name)
					break
				}
				all = append(all, saying{subject, name, text})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.SortStableFunc(all, func(a, b saying) int {
		return strings.Compare(filepath.Dir(a.file)+"\x00"+a.file, filepath.Dir(b.file)+"\x00"+b.file)
	})
	if len(all) < 3000 {
		t.Errorf("only %d sentences were found", len(all))
	}
	return all
}

// subjectOf is the subject whose folder is nearest above a folder, or -1.
func subjectOf(folder string) int {
	found, nearest := -1, ""
	for i, s := range subjects {
		for _, f := range s.folders {
			if (folder == f || strings.HasPrefix(folder, f+"/")) && len(f) > len(nearest) {
				found, nearest = i, f
			}
		}
	}
	return found
}

// sentencesOf are the texts in a file that a person can read. What is compared,
// searched for, run or sent is left out, and so are names, which have no spaces.
func sentencesOf(file *ast.File) []string {
	var all []string
	var look func(ast.Node) bool
	each := func(nodes ...ast.Expr) {
		for _, n := range nodes {
			ast.Inspect(n, look)
		}
	}
	look = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field: // its tag is for programs
			each(n.Type)
			return false
		case *ast.CaseClause: // what is compared
			for _, s := range n.Body {
				ast.Inspect(s, look)
			}
			return false
		case *ast.IndexExpr:
			each(n.X)
			return false
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); !ok || !examples[key.Name] {
				each(n.Value)
			}
			return false
		case *ast.CallExpr:
			if name := called(n); takesNoSentence[name] {
				return false
			}
		}
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
			return false
		}
		text, rest, ok := textOf(e)
		if !ok {
			return true
		}
		if text = strings.Join(strings.Fields(text), " "); isSentence(text) && !slices.Contains(all, text) {
			all = append(all, text)
		}
		each(rest...)
		return false
	}
	ast.Inspect(file, look)
	return all
}

// examples are the fields of rules and commands that hold CUE and command lines.
var examples = map[string]bool{"Wrong": true, "Right": true, "Example": true, "Code": true, "Use": true}

// takesNoSentence are the functions that compare texts, run programs and name what is
// on the wire, and those whose texts only their programmer can see.
var takesNoSentence = map[string]bool{
	"Contains": true, "HasPrefix": true, "HasSuffix": true, "Cut": true, "CutPrefix": true, "CutSuffix": true, "TrimPrefix": true,
	"TrimSuffix": true, "Index": true, "Split": true, "SplitN": true, "EqualFold": true, "NewReplacer": true, "ReplaceAll": true,
	"MustCompile": true, "Pattern": true, "Command": true, "CommandContext": true, "HandleFunc": true, "panic": true,
}

func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

const filledIn = "…"

// verb is what a text for package fmt has for a value.
var verb = regexp.MustCompile(`%[-+#0]*[\d*]*(\.[\d*]+)?(\[\d+\])?[a-zA-Z]`)

// textOf is what an expression says when it is put together of texts that stand in the
// source, and the values that are filled in.
func textOf(e ast.Expr) (string, []ast.Expr, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return textOf(e.X)
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", nil, false
		}
		text, err := strconv.Unquote(e.Value)
		return strings.ReplaceAll(verb.ReplaceAllString(text, filledIn), "%%", "%"), nil, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", nil, false
		}
		left, values, ok := textOf(e.X)
		right, more, also := textOf(e.Y)
		switch {
		case !ok && !also:
			return "", nil, false
		case !ok:
			left, values = filledIn, []ast.Expr{e.X}
		case !also:
			right, more = filledIn, []ast.Expr{e.Y}
		}
		return left + right, append(values, more...), true
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			text, values, ok := textOf(e.Args[0])
			return text, append(values, e.Args[1:]...), ok
		}
	}
	return "", nil, false
}

var (
	// twoWords has a sentence, or a part of one.
	twoWords = regexp.MustCompile(`\pL{2,}['’\pL-]*[,;:.!?)]*["*]* [("*]*(\pL{2,}|…)|… \pL{2,}`)
	// isCode has a line of a shell, of CUE, of a unit or of a file that Slipway writes.
	isCode = regexp.MustCompile("^#|&&|\\|\\||\\$[({\"A-Z]|2>|>/|; do |\\[string\\]:|```|charset=|=%|^(set|echo|auto|iface|pre-up|post-down|up|down|deb|Types:|autoconf) |" +
		`^\[[\w-]+\] |[A-Za-z_]="?[^" ]*"? [\w.]+=|--\w+=|/1\.1`)
)

func isSentence(text string) bool {
	return twoWords.MatchString(text) && !isCode.MatchString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

func TestSentencesOf(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+`
import "some thing"

type a struct { b string `+"`json:\"not this\"`"+` }

const told = "the node is gone"

var rules = []rule{{Code: "not this", What: "A node has a name.", Wrong: "nodes: a: {} // not this"}}

func f(n int, err error) error {
	if err.Error() == "this is compared" || strings.Contains(told, "this is looked for") {
		return errors.New("it is 100% sure: " + told)
	}
	switch told { case "this is compared": log.Warn("node lost", "since", "then or now") }
	exec.Command("sh", "-c", "rm this")
	m["this is a key"] = map[string]string{"also a key": "a value of it"}
	say("one-word", "a.b", "x y", "echo this is run")
	return fmt.Errorf("%s: %d of %[2]d nodes (%5.1f%%) are " + count(n, "bad node") + fmt.Sprintf(" since %s: %w", f("not yet"), err))
}`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"the node is gone", "A node has a name.", "it is 100% sure: …", "node lost", "then or now", "a value of it",
		"…: … of … nodes (…%) are … since …: …", "bad node", "not yet",
	}
	if diff := cmp.Diff(want, sentencesOf(file)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
