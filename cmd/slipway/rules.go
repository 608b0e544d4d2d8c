package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) rulesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rules [CODE]", Short: "list the rules that a design is checked against", Args: atMost(1),
		Long: "Lists the rules that every design is checked against. With the code of a finding it says\n" +
			"what that rule asks for and why, with a wrong and a right example. Touches no machine\n" +
			"and needs no daemon.\n" + exitHelp,
		Example: "  slipway rules\n  slipway rules duplicate-address",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listRules()
			}
			return a.showRule(args[0])
		},
	}
}

// ruleEntry is a rule as rules prints it in JSON.
type ruleEntry struct {
	Code     string        `json:"code"`
	Area     string        `json:"area"`
	Severity site.Severity `json:"severity"`
	// Suppressible says whether a site may silence the rule's findings.
	Suppressible bool   `json:"suppressible"`
	What         string `json:"what"`
	Why          string `json:"why"`
	Wrong        string `json:"wrong,omitempty"`
	Right        string `json:"right,omitempty"`
}

func entryOf(area string, r rule.Rule) ruleEntry {
	return ruleEntry{r.Code, area, r.Severity, !r.Firm, r.What, r.Why, r.Wrong, r.Right}
}

func (a *app) listRules() error {
	if a.output == "json" {
		var all []ruleEntry
		for _, area := range rule.Areas() {
			for _, r := range area.Rules {
				all = append(all, entryOf(area.Name, r))
			}
		}
		return a.out.JSON(all)
	}
	printRules(a.out)
	return nil
}

// printRules writes a table of the rules by area.
func printRules(w *screen) {
	bold, dim := paint(w, text.Bold), paint(w, text.Faint)
	all := rule.All()
	widest := 0
	for _, r := range all {
		widest = max(widest, len(r.Code))
	}
	for _, area := range rule.Areas() {
		w.Println(bold(area.Name))
		for _, r := range area.Rules {
			w.Printf("  %-*s  %s  %s\n", widest, r.Code,
				severityColour(w, r.Severity)(fmt.Sprintf("%-7s", r.Severity)), r.What)
		}
		w.Println()
	}
	w.Println(dim(say.Count(len(all), "rule") + "; more about one: slipway rules CODE"))
}

func (a *app) showRule(code string) error {
	var codes []string
	for _, area := range rule.Areas() {
		for _, r := range area.Rules {
			if r.Code == code {
				return a.printRule(area.Name, r)
			}
			codes = append(codes, r.Code)
		}
	}
	return fmt.Errorf("there is no rule %q%s (slipway rules lists them)", code, nearTo(code, codes))
}

// maxNames is how many names are told in the place of an unknown one.
const maxNames = 5

// nearTo says which names were perhaps meant by one that is none of them: the
// one that is near or, without it, those that it is a part of.
func nearTo(name string, known []string) string {
	if said := rule.DidYouMean(name, known); said != "" {
		return said
	}
	within := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.Contains(k, name) })
	if len(within) == 0 {
		return ""
	}
	return "; did you mean " + someOf(within) + "?"
}

// someOf is a list of names that a person can read.
func someOf(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

func (a *app) printRule(area string, r rule.Rule) error {
	if a.output == "json" {
		return a.out.JSON(entryOf(area, r))
	}
	a.out.Printf("%s  %s, %s\n\n", paint(a.out, text.Bold)(r.Code),
		severityColour(a.out, r.Severity)(string(r.Severity)), area)
	return a.out.Lay(rulePage(r))
}

// rulePage is what there is to say of a rule, as text.
func rulePage(r rule.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", r.What, r.Why)
	if r.Wrong != "" {
		fmt.Fprintf(&b, "\nWrong:\n%s\nRight:\n%s", indented(r.Wrong), indented(r.Right))
	}
	if r.Firm {
		b.WriteString("\nIts findings cannot be suppressed.\n")
	} else {
		fmt.Fprintf(&b, "\nTo live with it, for some nodes or for all, until a time or forever:\n%s", indented(suppression(r.Code)))
	}
	return b.String()
}

// ruleMarkdown is what there is to say of a rule, as Markdown.
func ruleMarkdown(r rule.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", r.What, r.Why)
	if r.Wrong != "" {
		fmt.Fprintf(&b, "\nWrong:\n%s\nRight:\n%s", fenced(r.Wrong), fenced(r.Right))
	}
	return b.String()
}

// fenced is an example in Markdown; each file of an archive has its name above.
func fenced(example string) string {
	if !strings.HasPrefix(example, "-- ") {
		return "\n```cue\n" + example + "\n```\n"
	}
	var b strings.Builder
	for _, f := range txtar.Parse([]byte(example)).Files {
		fmt.Fprintf(&b, "\n`%s`\n\n```%s\n%s```\n", f.Name, strings.TrimPrefix(path.Ext(f.Name), "."), f.Data)
	}
	return b.String()
}

// suppression is an example of how a rule's findings are silenced.
func suppression(code string) string {
	return fmt.Sprintf("suppressions: \"until-spring\": {\n\tcode:   %q\n\tnodes:  [\"n1\"]\n\treason: \"…\"\n\tuntil:  \"2027-03-20T00:00:00Z\"\n}", code)
}

func indented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s + "\n") {
		if line != "\n" {
			b.WriteString("    ")
		}
		b.WriteString(strings.ReplaceAll(line, "\t", "    "))
	}
	return b.String()
}

// rulesHead is the beginning of docs/rules.md, with an example of a suppression.
const rulesHead = `# Rules

This page lists the rules that every design is checked against. A finding ends with the code of its rule, and ` + "`slipway rules CODE`" + `
prints what is here about it. An *error* keeps the design from being applied; a *warning* and a *note* do not. Each rule has a
wrong and a right example, which change [one clean site](../engine/design/testdata/rules/clean); the tests check that a wrong one
breaks its own rule and no other.

You can suppress some findings, for some nodes or for all, until a time or forever:

` + "```cue\n%s\n```" + `

Findings of rules that are marked *firm* cannot be suppressed: such a design cannot be applied, or acting on it could lose data.

This page is made from the rules by ` + "`go test ./cmd/slipway -run TestRulesPage -update`" + `.
`

// rulesMarkdown is docs/rules.md.
func rulesMarkdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, rulesHead, suppression("host-key-missing"))
	for _, area := range rule.Areas() {
		fmt.Fprintf(&b, "\n## %s%s\n\n| code | severity | what |\n|---|---|---|\n", strings.ToUpper(area.Name[:1]), area.Name[1:])
		for _, r := range area.Rules {
			fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", r.Code, r.Code, severityWords(r), strings.ReplaceAll(r.What, "|", `\|`))
		}
		for _, r := range area.Rules {
			fmt.Fprintf(&b, "\n### %s\n\n*%s.* %s", r.Code, severityWords(r), ruleMarkdown(r))
		}
	}
	return b.String()
}

func severityWords(r rule.Rule) string {
	if r.Firm {
		return string(r.Severity) + ", firm"
	}
	return string(r.Severity)
}
