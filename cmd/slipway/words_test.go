package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An avoided form is one that readers stumble over, or that leaves out who acts. What
// to write instead is said to whoever writes it again.
type avoided struct {
	form, instead string
	but           string // what has the form and is right
}

// Messages are plain English: common words in their common meaning, the actor named,
// one idea a sentence. These forms were in Slipway's messages or creep into most.
var avoidedForms = []avoided{
	// Long or empty words.
	{form: `\bin order to\b`, instead: "to"},
	{form: `\butili[sz]e`, instead: "use"},
	{form: `\bwhether or not\b`, instead: "whether"},
	{form: `\b(not able|unable) to\b`, instead: "cannot"},
	{form: `\b(is|are|was|were) able to\b`, instead: "can"},
	{form: `\bplease\b`, instead: "the command alone"},
	{form: `\bsuccessfully\b`, instead: "the verb alone"},
	{form: `\b(aforementioned|respectively|thereof|therein|thereby|hereby|whereupon|herein)\b`, instead: "the name of the thing"},
	{form: `\bshall\b`, instead: "must, or will"},
	{form: `\bdue to the fact\b`, instead: "because"},
	{form: `\bin case of\b`, instead: "if"},
	// Old or foreign word order.
	{form: `\b(is|are|was|were|be|it's) no [a-z]`, but: `[Tt]here (is|are|was|were|be) no |\bno (longer|more than)\b`, instead: "is not a …"},
	{form: `\banew\b`, instead: "again"},
	{form: `\bwithout (an )?end\b`, instead: "forever"},
	{form: `\b(waits?|wait|gone) for good\b`, instead: "forever"},
	// The exception is in digests of approvals.
	{form: `\bany more\b`, but: `need not start any more`, instead: "no longer"},
	{form: `\bby (now|then)\b`, instead: "already, or nothing"},
	{form: `\bin the place of\b`, instead: "instead of"},
	{form: `\btak(e|es|en) (it |them |the \w+ )?away\b`, instead: "remove"},
	{form: `\bbehind (a dot|a space|the end|the comma|the sector)\b`, instead: "after"},
	{form: `\bbe had\b`, instead: "is available"},
	{form: `\b(come|comes|came|coming) (to be|about)\b`, instead: "happen, be made"},
	{form: `\b(bring|brings|brought) (\w+ ){1,3}about\b`, instead: "cause, apply"},
	{form: `\b(tell|tells|telling|told) (all |nothing )?of\b`, instead: "report"},
	{form: `\bmend(s|ed)?\b`, instead: "correct, fix"},
	{form: `\bheld (to|against)\b`, instead: "checked against"},
	{form: `\bmakes? no sense\b`, instead: "cannot be understood, and why"},
	{form: `\b(makes|made|kept) so\b`, instead: "as designed"},
	{form: `\bcalled so\b`, instead: "has that name"},
	{form: `\bbrought to (its|an) end\b`, instead: "finished"},
	{form: `\bas the case may be\b`, instead: "or"},
	// Nobody acts.
	{form: `\bcannot be told\b`, but: `cannot be told to\b`, instead: "Slipway cannot tell"},
	{form: `\bnobody (knows|can tell|looks|has seen)\b`, instead: "Slipway does not know, Slipway has not seen"},
	{form: `\b(is|are) left as (it is|they are)\b`, instead: "Slipway does not change"},
	{form: `\b(is|are) tried again\b`, instead: "Slipway tries again"},
	{form: `\bis looked at again\b`, instead: "Slipway looks again"},
	{form: `\bsilently\b`, instead: "what is missing, or has no effect"},
	{form: `\bsomebody (may be|is) in between\b`, instead: "somebody may be intercepting the connection"},
	{form: `\bmistake in Slipway\b`, instead: "fault of Slipway"},
	// Words of the code.
	{form: `\bendpoint kind\b`, instead: "endpoint"},
	{form: `\b(has|waits for) its turn\b`, instead: "when that will be"},
	{form: `\b(pedigree|closeup|glance|footing|heir)\b`, instead: "the word of docs/glossary.md"},
	{form: `\b(goroutine|mutex|struct|nil|boolean)\b`, instead: "what the reader sees"},
}

type plainCheck struct{ form, but *regexp.Regexp }

func plainChecks() []plainCheck {
	checks := make([]plainCheck, len(avoidedForms))
	for i, a := range avoidedForms {
		checks[i] = plainCheck{regexp.MustCompile(`(?i)` + a.form), regexp.MustCompile(`(?i)^$|` + cmp.Or(a.but, `^$`))}
	}
	return checks
}

// avoidedIn tells of each form in a text what to write instead.
func avoidedIn(text string, checks []plainCheck) (all []string) {
	for i, c := range checks {
		for _, at := range c.form.FindAllString(c.but.ReplaceAllString(text, filledIn), -1) {
			all = append(all, fmt.Sprintf("%q: write %s", at, avoidedForms[i].instead))
		}
	}
	return all
}

func TestMessagesArePlain(t *testing.T) {
	checks := plainChecks()
	for _, said := range sourceSentences(t) {
		for _, wrong := range avoidedIn(said.text, checks) {
			t.Errorf("%s: %q has %s", said.file, said.text, wrong)
		}
	}
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	notComment = regexp.MustCompile(`(?m)^([^/\n]|/[^/])*(//|$)`)
)

// So do the pages, and the comments of the schema, which are in docs/schema.md.
func TestPagesArePlain(t *testing.T) {
	all := pages(t)
	delete(all, "../../docs/changelog.md")
	delete(all, "../../docs/messages.md") // is looked at above
	schema, err := filepath.Glob("../../schema/*.cue")
	if err != nil || len(schema) == 0 {
		t.Fatalf("%v, %v", schema, err)
	}
	for _, name := range schema {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = notComment.ReplaceAllString(string(text), "")
	}
	checks := plainChecks()
	for name, text := range all {
		for _, wrong := range avoidedIn(strings.Join(strings.Fields(inlineCode.ReplaceAllString(text, filledIn)), " "), checks) {
			t.Errorf("%s has %s", name, wrong)
		}
	}
}

func TestAvoidedIn(t *testing.T) {
	checks := plainChecks()
	for text, want := range map[string]int{
		"x is no port: there is no such port":      1,
		"There is no port. Nobody knows why":       1,
		"In order to install anew, please wait":    3,
		"the machine cannot be told to boot":       0,
		"it cannot be told which one is meant":     1,
		"Slipway takes it away without an end":     2,
		"a bondage of nodes is no longer in use":   0,
		"Slipway installs the node again forever.": 0,
	} {
		if got := avoidedIn(text, checks); len(got) != want {
			t.Errorf("%s: got %q, want %d", text, got, want)
		}
	}
}
