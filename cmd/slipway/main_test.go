package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
)

func TestExitCodes(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{t.Context(), nil, exitOK},
		{t.Context(), errors.New("x"), exitError},
		{t.Context(), errChanges, exitChanges},
		{t.Context(), errUnknown, exitUnknown},
		{t.Context(), fmt.Errorf("y: %w", errFindings), exitFindings},
		{t.Context(), fmt.Errorf("y: %w", control.ErrNoDaemon), exitNoDaemon},
		{t.Context(), usage("z"), exitUsage},
		{ended, errors.New("x"), exitInterrupted},
		{ended, nil, exitOK},
	} {
		if got := exitCode(c.ctx, c.err); got != c.want {
			t.Errorf("exit code of %v = %d, want %d", c.err, got, c.want)
		}
	}
}

// The table in the documentation is the one in the code.
func TestExitCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{exitOK, exitError, exitChanges, exitFindings, exitNoDaemon, exitUsage, exitInterrupted} {
		if !strings.Contains(string(text), fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("docs/cli.md has no row for exit code %d", code)
		}
		if !strings.Contains(exitHelp, fmt.Sprintf("%d ", code)) {
			t.Errorf("help does not tell exit code %d", code)
		}
	}
}

func TestEveryCommandIsDocumentedAndHasAnExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range (&app{}).command().Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Example == "" {
			t.Errorf("slipway %s --help shows no example", c.Name())
		}
		if !strings.Contains(string(text), "| `"+c.Name()) {
			t.Errorf("docs/cli.md has no row for %s", c.Name())
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		3 * time.Second: "3s", 90 * time.Second: "1m", 3 * time.Hour: "3h", 47 * time.Hour: "47h", 72 * time.Hour: "3d",
	} {
		if got := age(time.Now().Add(-d)); got != want {
			t.Errorf("age of %s = %s, want %s", d, got, want)
		}
	}
	if got := age(time.Time{}); got != "never" {
		t.Errorf("age of nothing = %s", got)
	}
}
