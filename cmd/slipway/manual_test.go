package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Each command that help shows has a page, with all of its flags.
func TestManualHasEveryCommand(t *testing.T) {
	root := (&app{}).command()
	folder := t.TempDir()
	if err := writeManual(folder, root); err != nil {
		t.Fatal(err)
	}
	commands := 0
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		commands++
		text, err := os.ReadFile(filepath.Join(folder, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		for _, want := range strings.Fields(c.LocalFlags().FlagUsages()) {
			if strings.HasPrefix(want, "--") && !strings.Contains(string(text), roff(want)) {
				t.Errorf("the page of %s has no %s", c.CommandPath(), want)
			}
		}
		for _, sub := range visible(c.Commands()) {
			look(sub)
		}
	}
	look(root)
	if commands < 30 {
		t.Errorf("%d commands", commands)
	}
	if _, err := os.Stat(filepath.Join(folder, "slipway-evaluate.1")); err == nil {
		t.Error("a hidden command has a page")
	}
}

func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		"--state DIR": `\-\-state DIR`,
		`a\b`:         `a\eb`,
		".ci\n'x'":    "\\&.ci\n\\&'x'",
		"a\n\nb":      "a\n.PP\nb",
	} {
		if got := roff(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
