package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manualCommand writes the manual pages, for packages.
func manualCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "manual FOLDER", Short: "write the manual pages", Hidden: true, Args: exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManual(args[0], root)
		},
	}
}

// writeManual writes a page of section 1 for a command and each one below it, of
// what its help says.
func writeManual(folder string, cmd *cobra.Command) error {
	if cmd.Hidden {
		return nil
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	if err := os.WriteFile(filepath.Join(folder, name), []byte(manualPage(cmd)), 0o644); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if err := writeManual(folder, c); err != nil {
			return err
		}
	}
	return nil
}

// manualPage is a command's page in the macros of man(7). It has no date, so that
// equal programs have equal pages.
func manualPage(cmd *cobra.Command) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	path := cmd.CommandPath()
	page := strings.ReplaceAll(path, " ", "-")
	line(`.TH "%s" "1" "" "slipway" "Slipway"`, roff(strings.ToUpper(page)))
	line(".SH NAME\n%s \\- %s", roff(page), roff(cmd.Short))
	line(".SH SYNOPSIS\n.B %s", roff(cmd.UseLine()))
	text, codes, _ := strings.Cut(cmd.Long, "\nExit codes: ")
	line(".SH DESCRIPTION\n%s", roff(strings.TrimSpace(text)))
	if subs := visible(cmd.Commands()); len(subs) > 0 {
		line(".SH COMMANDS")
		for _, c := range subs {
			line(".TP\n.B %s\n%s", roff(c.Use), roff(c.Short))
		}
	}
	manualFlags(line, "OPTIONS", cmd.NonInheritedFlags())
	manualFlags(line, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if codes != "" {
		line(".SH EXIT STATUS\n%s", roff(strings.TrimSpace(codes)))
	}
	if cmd.Example != "" {
		line(".SH EXAMPLES\n.nf\n%s\n.fi", roff(cmd.Example))
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-"))
	}
	for _, c := range visible(cmd.Commands()) {
		also = append(also, page+"-"+c.Name())
	}
	for i, name := range also {
		also[i] = fmt.Sprintf(".BR %s (1)", roff(name))
	}
	if len(also) > 0 {
		line(".SH SEE ALSO\n%s", strings.Join(also, " ,\n"))
	}
	return b.String()
}

func visible(all []*cobra.Command) (some []*cobra.Command) {
	for _, c := range all {
		if c.IsAvailableCommand() {
			some = append(some, c)
		}
	}
	return some
}

func manualFlags(line func(string, ...any), title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	line(".SH %s", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" && f.DefValue != "0s" {
			usage += " (default " + f.DefValue + ")"
		}
		line(".TP\n.B %s\n%s", roff(strings.TrimSpace(name+" "+value)), roff(usage))
	})
}

// roff is a text as man(7) shows it unchanged: a line of it may begin with a dot
// or an apostrophe, and its hyphens can be copied.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
		if l == "" {
			lines[i] = ".PP"
		}
	}
	return strings.Join(lines, "\n")
}
