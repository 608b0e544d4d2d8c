package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// pages are those that people read, by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../../docs/*.md", "../../README.md", "../../site-example/*.md", "template/*.md", "adopted/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all[f] = string(text)
		}
	}
	return all
}

// What pages and messages tell to type names commands and flags that there are.
func TestCommandLinesOfPagesExist(t *testing.T) {
	looked := 0
	for page, text := range pages(t) {
		lines := commandLines(text)
		switch filepath.Base(page) {
		case "changelog.md": // it has flags that are gone
			continue
		case "messages.md": // lines of it begin with the program's name
			lines = inProse(text)
		}
		for _, line := range lines {
			looked++
			if wrong := unknownWord((&app{}).command(), strings.Fields(line)[1:]); wrong != "" {
				t.Errorf("%s: in `%s` there is no %s", page, line, wrong)
			}
		}
	}
	if looked < 150 {
		t.Errorf("only %d command lines were found", looked)
	}
}

var (
	prompt    = regexp.MustCompile(`^ *([$#] +)?(sudo +)?`)
	inText    = regexp.MustCompile("`(slipway\\s[^`]+)`")
	endOfLine = regexp.MustCompile(`(?s)( [|&>#]|;).*`)
)

// commandLines are the lines of a page that begin with slipway, in blocks of code and
// in the text.
func commandLines(page string) []string {
	var lines []string
	var prose strings.Builder
	fenced := false
	page = strings.ReplaceAll(page, "\\\n", " ")
	for line := range strings.Lines(page) {
		switch line = strings.TrimRight(line, "\n"); {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(line, "    "):
			if c := prompt.ReplaceAllString(line, ""); strings.HasPrefix(c, "slipway ") {
				lines = append(lines, endOfLine.ReplaceAllString(c, ""))
			}
		default:
			prose.WriteString(line + "\n")
		}
	}
	return append(lines, inProse(prose.String())...)
}

func inProse(text string) (lines []string) {
	for _, m := range inText.FindAllStringSubmatch(text, -1) {
		lines = append(lines, endOfLine.ReplaceAllString(strings.Join(strings.Fields(m[1]), " "), ""))
	}
	return lines
}

var (
	commandName = regexp.MustCompile(`^[a-z][a-z-]+$`)
	flagName    = regexp.MustCompile(`^(--[a-z][a-z-]*|-[a-z])\b`)
)

// unknownWord is the command or the flag in a command line that there is not.
func unknownWord(cmd *cobra.Command, words []string) string {
	for len(words) > 0 && cmd.HasSubCommands() {
		i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == words[0] || c.HasAlias(words[0]) })
		// schema takes a name as well; cobra makes the other two.
		if i < 0 && commandName.MatchString(words[0]) && cmd.Name() != "schema" && words[0] != "help" && words[0] != "completion" {
			return "command " + words[0]
		}
		if i < 0 {
			break
		}
		cmd, words = cmd.Commands()[i], words[1:]
	}
	for _, w := range words {
		name := flagName.FindString(w)
		switch {
		case name == "", name == "--help", !cmd.HasParent(): // of slipway itself only in examples that leave the command out
		case strings.HasPrefix(name, "--") && cmd.Flag(name[2:]) == nil && cmd.InheritedFlags().Lookup(name[2:]) == nil:
			return "flag " + name
		case len(name) == 2 && cmd.Flags().ShorthandLookup(name[1:]) == nil && cmd.InheritedFlags().ShorthandLookup(name[1:]) == nil:
			return "flag " + name
		}
	}
	return ""
}

func TestUnknownWord(t *testing.T) {
	for line, want := range map[string]string{
		"slipway why NODE --output json":  "",
		"slipway status -o json":          "",
		"slipway artifact gc --dry-run":   "",
		"slipway … --listen x":            "",
		"slipway approve lstat":           "",
		"slipway stauts":                  "command stauts",
		"slipway artifact lst":            "command lst",
		"slipway why n1 --wiht-reason":    "flag --wiht-reason",
		"slipway status -q":               "flag -q",
		"slipway run --observe --obsrv=1": "flag --obsrv",
	} {
		if got := unknownWord((&app{}).command(), strings.Fields(line)[1:]); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	page := "Text with `slipway\nwhy NODE | less` and `slipway-lab run`.\n\n    $ slipway plan \\\n      --observe  # now\n\n```sh\nsudo slipway run; true\n```\n"
	if got, want := commandLines(page), []string{"slipway plan --observe", "slipway run", "slipway why NODE"}; !slices.EqualFunc(got, want, func(a, b string) bool { return strings.Join(strings.Fields(a), " ") == b }) {
		t.Errorf("got %q, want %q", got, want)
	}
}

var (
	link        = regexp.MustCompile(`\]\(([a-z0-9./_-]+\.md)?(#[^)]*)?\)`)
	headingLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// anchors are the names by which links lead to the headings of a page, as GitHub makes
// them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range headingLine.FindAllStringSubmatch(page, -1) {
		all["#"+strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// The index leads to every page, and no page to one, or to a heading, that there is not.
func TestPagesAreReached(t *testing.T) {
	all := pages(t)
	reached := map[string]bool{"../../docs/index.md": true}
	for _, page := range slices.Sorted(maps.Keys(all)) {
		for _, l := range link.FindAllStringSubmatch(all[page], -1) {
			if strings.HasPrefix(page, "template") || strings.HasPrefix(page, "adopted") {
				continue // they are copied to another place
			}
			to := page
			if l[1] != "" {
				to = filepath.Join(filepath.Dir(page), l[1])
			}
			text, err := os.ReadFile(to)
			if err != nil {
				t.Errorf("%s leads to %s, which is not there", page, l[1])
			}
			if l[2] != "" && !anchors(string(text))[l[2]] {
				t.Errorf("%s leads to %s%s, and the page has no such heading", page, l[1], l[2])
			}
			if page == "../../docs/index.md" {
				reached[to] = true
			}
		}
	}
	for page := range all {
		if filepath.Dir(page) == "../../docs" && !reached[page] {
			t.Errorf("docs/index.md does not lead to %s", filepath.Base(page))
		}
	}
}

// The first sentence of a page says what the page is for.
func TestPagesSayWhatTheyAreFor(t *testing.T) {
	for page, text := range pages(t) {
		if filepath.Dir(page) != "../../docs" {
			continue
		}
		_, first, _ := strings.Cut(text, "\n\n")
		first, _, _ = strings.Cut(first, "\n\n")
		first, _, _ = strings.Cut(strings.Join(strings.Fields(first), " "), ". ")
		if !strings.HasPrefix(first, "This page ") && !strings.HasPrefix(first, "This tutorial ") {
			t.Errorf("%s begins with %q: begin with \"This page …\", and say what a reader finds here", page, first)
		}
	}
}
