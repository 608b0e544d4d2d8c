package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// varies are the things that are others each time, by their form. What is bound stands
// for one thing on all of a page.
var varies = []struct {
	form  string
	bound bool
}{
	{`\b20\d\d-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?Z?)?( UTC)?\b`, false},
	{`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`, true},
	{`\b[0-9a-f]{64}\b`, true},
	{`\b[0-9a-f]{40}\b`, true},
	{`\b[0-9a-f]{32}\b`, true},
	{`\b[0-9a-f]{12}\b`, true},
	{`\bed25519:[A-Za-z0-9+/]{43}`, true},
	{`\bSHA256:[A-Za-z0-9+/]{43}`, true},
	{`\bAAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}`, true},
	{`\bage1[0-9a-z]{58}\b`, true},
	{`\b[0-9a-f]{7}\b`, true},
	{`\b\d\d:\d\d(:\d\d)?( UTC)?\b`, false},
	{`(<|\b)((\d+h)?(\d+m)?\d+(\.\d+)?m?s|(\d+h)?\d+m|\d+h)\b`, false},
}

var (
	anyForm = func() *regexp.Regexp {
		var forms []string
		for _, v := range varies {
			forms = append(forms, `(?:`+v.form+`)`)
		}
		return regexp.MustCompile(strings.Join(forms, "|"))
	}()
	gap = regexp.MustCompile(` {2,}`)
)

// bound is what stands on a page for what is printed in its place.
type bound map[string]string

// fill puts what was printed into a command of a page.
func (b bound) fill(command string) string {
	return anyForm.ReplaceAllStringFunc(command, func(s string) string {
		if is, ok := b[s]; ok {
			return is
		}
		return s
	})
}

// compares says whether an output is what a page shows, and binds what is bound.
func (b bound) compares(shows []string, out string) bool {
	var re strings.Builder
	var names []string
	re.WriteString(`\A`)
	for _, line := range shows {
		if strings.TrimSpace(line) == "…" {
			re.WriteString(`(?:.*\n)*?`)
			continue
		}
		b.line(&re, line, &names)
		re.WriteString(` *\n`)
	}
	re.WriteString(`\z`)
	m := regexp.MustCompile(re.String()).FindStringSubmatch(strings.TrimRight(out, "\n") + "\n")
	if m == nil {
		return false
	}
	found := bound{}
	for i, name := range names {
		is := m[i+1]
		for _, so := range []string{b[name], found[name]} {
			if so != "" && so != is {
				return false
			}
		}
		found[name] = is
	}
	for name, is := range found {
		b[name] = is
	}
	return true
}

// line writes the expression of a line, and names what it binds.
func (b bound) line(re *strings.Builder, line string, names *[]string) {
	in := indent(line)
	re.WriteString(strings.Repeat(" ", in))
	for i, part := range strings.Split(line[in:], "…") {
		if i > 0 {
			re.WriteString(`.*`)
		}
		at := 0
		for _, m := range anyForm.FindAllStringIndex(part, -1) {
			re.WriteString(literal(part[at:m[0]]))
			token := part[m[0]:m[1]]
			form, binds := formOf(token)
			if binds {
				*names = append(*names, token)
				re.WriteString(`(` + noGroups(form) + `)`)
			} else {
				re.WriteString(`(?:` + noGroups(form) + `)`)
			}
			at = m[1]
		}
		re.WriteString(literal(part[at:]))
	}
}

func literal(text string) string {
	return gap.ReplaceAllString(regexp.QuoteMeta(text), ` {2,}`)
}

func formOf(token string) (form string, bound bool) {
	for _, v := range varies {
		if regexp.MustCompile(`^(?:` + v.form + `)$`).MatchString(token) {
			return v.form, v.bound
		}
	}
	panic(fmt.Sprintf("%q has no form", token))
}

var group = regexp.MustCompile(`\((?:\?:)?`)

func noGroups(form string) string { return group.ReplaceAllString(form, "(?:") }

func TestCompares(t *testing.T) {
	b := bound{}
	for _, c := range []struct {
		shows, out string
		want       bool
	}{
		{"in force   3abb6926fd03  the site", "in force   b0e3e4906422  the site\n", true},
		{"3abb6926fd03", "b0e3e4906422\n", true},
		{"3abb6926fd03", "000000000000\n", false}, // it is bound
		{"a\n…\nz", "a\nz\n", true},
		{"a\n…\nz", "a\nb\nc\nz", true},
		{"a\n…\nz", "b\nz", false},
		{"…", "", true},
		{"since 4s (2026-11-27 18:05:25)", "since 2m1s (2027-01-01 00:00:00)", true},
		{"seen … ago", "seen just a while ago", true},
		{"4 machines", "5 machines", false},
		{" n1  on     4s   x", " n1  on  13s  x", true},
		{" n1 on", " n1  on", false},
		{"about 3m", "about 1h2m", true},
		{"a (b) [c]", "a (b) [c]", true},
		{"a", "a\nb", false},
	} {
		if got := b.compares(strings.Split(c.shows, "\n"), c.out); got != c.want {
			t.Errorf("%q shown for %q: %t, want %t", c.shows, c.out, got, c.want)
		}
	}
	if got, want := b.fill("slipway approve 3abb6926fd03 --x"), "slipway approve b0e3e4906422 --x"; got != want {
		t.Errorf("filled: %q, want %q", got, want)
	}
}
