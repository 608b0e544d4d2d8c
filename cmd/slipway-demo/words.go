package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// describe is a status in one line: the counts, and what one node waits for.
func describe(s *site.Status) string {
	if len(s.Nodes) == 0 {
		return "starting"
	}
	counts, parts := s.Counts(), []string{}
	for _, state := range site.States {
		if n := counts[state]; n > 0 || state == site.InSync {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	line := strings.Join(parts, ", ")
	if i := slices.IndexFunc(s.Nodes, func(n site.NodeStatus) bool { return n.State == site.Progressing }); i >= 0 {
		line += " · " + s.Nodes[i].Name + " " + cmp.Or(s.Nodes[i].Detail, s.Nodes[i].Reason)
	}
	return line
}

func node(s *site.Status, name string) site.NodeStatus {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n
		}
	}
	return site.NodeStatus{}
}

// blocked are the names of the nodes that wait for something.
func blocked(s *site.Status) []string {
	var names []string
	for _, n := range s.Nodes {
		if n.State == site.Blocked {
			names = append(names, n.Name)
		}
	}
	return names
}

func nodeLine(s *site.Status, name string) string {
	n := node(s, name)
	return fmt.Sprintf("%s  %s: %s", n.Name, n.State, n.Reason)
}

func lastLine(out string) string {
	out = strings.TrimSpace(out)
	return out[strings.LastIndexByte(out, '\n')+1:]
}

// destroyed is the part of a plan that says what is lost.
func destroyed(plan string) []string {
	i := strings.Index(plan, "This plan destroys")
	if i < 0 {
		return nil
	}
	block, _, _ := strings.Cut(plan[i:], "\n\n")
	return strings.Split(block, "\n")
}

// shortened keeps some lines at both ends.
func shortened(lines []string, ends int) []string {
	if len(lines) <= 2*ends+1 {
		return lines
	}
	middle := fmt.Sprintf("… %d more …", len(lines)-2*ends)
	return slices.Concat(lines[:ends], []string{middle}, lines[len(lines)-ends:])
}

// mostLines is how many changed lines of a file are worth showing.
const mostLines = 3

// changes is a diff without context as people want to read it: the lines that
// changed, or only how many.
func changes(diff string) []string {
	var shown []string
	for _, part := range strings.Split(diff, "diff --git ")[1:] {
		head, body, _ := strings.Cut(part, "\n@@")
		file := head[strings.LastIndex(head[:strings.IndexByte(head+"\n", '\n')], " b/")+3:]
		file, _, _ = strings.Cut(file, "\n")
		shown = append(shown, fileChanges(file, body)...)
	}
	return shown
}

func fileChanges(file, body string) []string {
	var lines []string
	added, removed := 0, 0
	for line := range strings.Lines(body) {
		text := strings.TrimSpace(line[1:])
		switch line[0] {
		case '+':
			added++
			lines = append(lines, file+"  + "+text)
		case '-':
			removed++
			lines = append(lines, file+"  - "+text)
		}
	}
	switch {
	case added+removed <= mostLines:
		return lines
	case removed > 0:
		return []string{fmt.Sprintf("%s  - %d lines", file, removed)}
	}
	return []string{fmt.Sprintf("%s  + %d lines", file, added)}
}
