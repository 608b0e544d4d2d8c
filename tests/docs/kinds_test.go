package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

var (
	heading = regexp.MustCompile(`^## (.*)$`)
	led     = regexp.MustCompile(`\]\(([a-zA-Z0-9./_-]+\.md)\)`)
)

// kinds are the pages that docs/index.md leads to, by kind.
func kinds(t *testing.T) map[string][]string {
	t.Helper()
	all, kind := map[string][]string{}, ""
	for _, line := range readPage(t, "docs/index.md").lines {
		if m := heading.FindStringSubmatch(line); m != nil {
			kind = m[1]
		}
		for _, m := range led.FindAllStringSubmatch(line, -1) {
			name := "docs/" + m[1]
			if rest, up := strings.CutPrefix(m[1], "../"); up {
				name = rest
			}
			if !slices.Contains(all[kind], name) {
				all[kind] = append(all[kind], name)
			}
		}
	}
	return all
}

// typed are the pages of which every command is run.
func typed(t *testing.T) []string {
	k := kinds(t)
	return slices.Concat([]string{"README.md"}, k["Tutorials"], k["How-to"])
}

// A page is of one kind, and says so in its first words.
func TestPagesAreOfOneKind(t *testing.T) {
	begins := map[string]string{
		"Tutorials": "This tutorial", "How-to": "This page says how", "Reference": "This page ", "Explanation": "This page explains",
	}
	of := map[string]string{}
	for kind, names := range kinds(t) {
		for _, name := range names {
			if of[name] != "" {
				t.Errorf("docs/index.md has %s under %s and under %s: a page is of one kind", name, of[name], kind)
			}
			of[name] = kind
			if strings.HasSuffix(name, "README.md") {
				continue
			}
			first := ""
			for _, line := range readPage(t, name).lines[1:] {
				if first = line; line != "" {
					break
				}
			}
			if !strings.HasPrefix(first, begins[kind]) {
				t.Errorf("%s is under %s and begins %q, not with %q", name, kind, first, begins[kind])
			}
		}
	}
	if len(of) < 30 {
		t.Errorf("docs/index.md leads to %d pages", len(of))
	}
}

var aPath = regexp.MustCompile(`\b(?:cmd|engine|sinks|sources|tests|schema|packaging)/[a-z0-9/_.-]*[a-z0-9/]`)

// The files and folders that the architecture names are there, and it answers where ten
// things and more are decided.
func TestArchitectureNamesFiles(t *testing.T) {
	answers, asked := 0, false
	for i, line := range readPage(t, "docs/architecture.md").lines {
		asked = asked && !strings.HasPrefix(line, "## ") || line == "## Where is it decided?"
		if asked && strings.HasPrefix(line, "| ") && strings.Contains(line, ".go`") {
			answers++
		}
		for _, path := range aPath.FindAllString(line, -1) {
			if _, err := os.Stat(filepath.Join(folder, path)); err != nil {
				t.Errorf("%s there is no %s", place("docs/architecture.md", i+1), path)
			}
		}
	}
	if answers < 10 {
		t.Errorf("only %d answers", answers)
	}
}
