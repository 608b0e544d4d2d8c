// Package docs holds what pages show to what is so. Every command of a tutorial or a
// how-to is run and its output compared with the page, and every block of CUE is part of
// a site that is evaluated. docs/index.md says which page is of which kind.
//
// # How a page shows commands
//
// A block of code that is indented by four spaces is a terminal: a line that begins with
// "$ " is typed by a person, one that begins with "# " by root, and what follows is what
// they read. Everything else is fenced and names its language: cue, text, yaml.
//
//   - A line "…" stands for any lines, and "…" in a line for any text in it.
//   - Times, durations, commits, digests, UUIDs and keys are compared by their form.
//     A commit or digest stands for the one that is printed in its place, and a later
//     command that uses it gets that one.
//   - Two spaces or more stand for any number of spaces from two on.
//   - A command without output below it must end well, whatever it prints.
//
// What only reads is repeated until it prints what the page shows. A program that does
// not end (slipway run, slipway-lab run) runs on behind the page.
//
// # What a reader does not see
//
// A comment <!-- test: … --> is a step of the test alone, in testscript's words and in
// those of steps in run_test.go.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// folder is the root of the repository.
const folder = "../.."

// page is a file for people.
type page struct {
	name  string // from the root of the repository
	steps []step
	cue   []block
	wrong []string // blocks that are of no kind
	lines []string
}

// step is a command of a page, or one of the test alone.
type step struct {
	line    int // where it begins, from 1
	root    bool
	command string // of the page, or empty
	hidden  string // of the test alone, or empty
	shows   []string
	indent  int
	at, end int // the lines that it shows, from 0
}

// block is a fenced text.
type block struct {
	line int
	text string
}

var (
	fence    = regexp.MustCompile("^( *)```+ *([a-z-]*)")
	prompt   = regexp.MustCompile(`^( {4,})([$#]) (.*)$`)
	hidden   = regexp.MustCompile(`^ *<!-- test: (.*?)( -->)?$`)
	indented = regexp.MustCompile(`^ {4,}\S`)
	inItem   = regexp.MustCompile(`^ *([-*]|\d+\.) `)
	here     = regexp.MustCompile(`<<-?'?([A-Z]+)'?`)
)

func readPage(t *testing.T, name string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return parse(name, string(text))
}

// parse reads a page.
func parse(name, text string) *page {
	p := &page{name: name, lines: strings.Split(text, "\n")}
	for i := 0; i < len(p.lines); {
		line := p.lines[i]
		switch {
		case fence.MatchString(line):
			i = p.fenced(i)
		case hidden.MatchString(line):
			i = p.hide(i)
		case indented.MatchString(line) && p.opens(i):
			i = p.terminal(i)
		default:
			i++
		}
	}
	return p
}

// opens says whether an indented line begins a block: behind an empty line, and not as
// another paragraph of a list's item, which is indented by less than four more.
func (p *page) opens(i int) bool {
	if i == 0 || strings.TrimSpace(p.lines[i-1]) != "" {
		return false
	}
	return indent(p.lines[i])-p.itemIndent(i) >= 4
}

// itemIndent is how far the text of the list's item around a line is indented.
func (p *page) itemIndent(i int) int {
	for i--; i >= 0; i-- {
		line := p.lines[i]
		if m := inItem.FindString(line); m != "" {
			return len(m)
		}
		if line != "" && indent(line) == 0 {
			return 0
		}
	}
	return 0
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// fenced reads a fenced block.
func (p *page) fenced(i int) int {
	m := fence.FindStringSubmatch(p.lines[i])
	end := i + 1
	for end < len(p.lines) && !strings.HasPrefix(strings.TrimSpace(p.lines[end]), "```") {
		end++
	}
	if m[2] == "" {
		p.wrong = append(p.wrong, p.at(i)+" a fenced block names its language: cue, text, yaml …")
	}
	for _, line := range p.lines[i+1 : end] {
		if command := strings.TrimLeft(line, " $#"); m[2] != "cue" && strings.HasPrefix(command, "slipway ") {
			p.wrong = append(p.wrong, p.at(i)+" a command is no fenced text: indent it, behind \"$ \"")
		}
	}
	if m[2] == "cue" {
		var b strings.Builder
		for _, line := range p.lines[i+1 : end] {
			b.WriteString(strings.TrimPrefix(line, m[1]) + "\n")
		}
		p.cue = append(p.cue, block{line: i + 1, text: b.String()})
	}
	return end + 1
}

// hide reads a comment with a step of the test alone, which may have several lines.
func (p *page) hide(i int) int {
	m := hidden.FindStringSubmatch(p.lines[i])
	s := step{line: i + 1, hidden: m[1]}
	for m[2] == "" && i+1 < len(p.lines) {
		i++
		text, ended := strings.CutSuffix(p.lines[i], "-->")
		s.hidden += "\n" + strings.TrimRight(text, " ")
		if ended {
			break
		}
	}
	p.steps = append(p.steps, s)
	return i + 1
}

// terminal reads an indented block.
func (p *page) terminal(i int) int {
	if !prompt.MatchString(p.lines[i]) {
		p.wrong = append(p.wrong, p.at(i)+" an indented block begins with \"$ \" or \"# \"; fence what is not typed")
	}
	in, before := indent(p.lines[i]), len(p.steps)
	for i < len(p.lines) && (strings.TrimSpace(p.lines[i]) == "" || indent(p.lines[i]) >= in) {
		m := prompt.FindStringSubmatch(p.lines[i])
		if m == nil {
			if n := len(p.steps); n > before {
				s := &p.steps[n-1]
				s.shows, s.end = append(s.shows, strings.TrimRight(cut(p.lines[i], in), " ")), i+1
			}
			i++
			continue
		}
		s := step{line: i + 1, root: m[2] == "#", command: m[3], indent: in}
		i++
		for strings.HasSuffix(s.command, "\\") && i < len(p.lines) {
			s.command = strings.TrimSuffix(s.command, "\\") + strings.TrimSpace(p.lines[i])
			i++
		}
		if m := here.FindStringSubmatch(s.command); m != nil {
			for i < len(p.lines) {
				line := cut(p.lines[i], in)
				s.command += "\n" + line
				i++
				if line == m[1] {
					break
				}
			}
		}
		s.at, s.end = i, i
		p.steps = append(p.steps, s)
	}
	for n := before; n < len(p.steps); n++ {
		s := &p.steps[n]
		for len(s.shows) > 0 && s.shows[len(s.shows)-1] == "" {
			s.shows = s.shows[:len(s.shows)-1]
		}
		s.end = s.at + len(s.shows)
	}
	return i
}

func (p *page) at(i int) string { return place(p.name, i+1) }

func place(name string, line int) string { return name + ":" + itoa(line) + ":" }

func cut(line string, n int) string { return line[min(n, indent(line)):] }
