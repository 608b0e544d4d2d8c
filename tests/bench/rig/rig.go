// Package rig is what the benchmarks of the daemon share: the repository of a
// site, the built daemon that keeps it, what a process has used, and how
// figures are printed. What is measured is what users run: the program in bin,
// never the code of the benchmark's own process.
package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Binary is the built daemon.
func Binary() string { return filepath.Join("bin", "slipway") }

// Built says what to do when there is none.
func Built() error {
	if _, err := os.Stat(Binary()); err != nil {
		return errors.New("bin/slipway is missing: run make build")
	}
	return nil
}

// Figure is the line of a figure.
func Figure(name string, value float64, unit string) string {
	return fmt.Sprintf("bench: %s %.4g %s", name, value, unit)
}

// Progress tells whoever waits.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// Median sorts the values and is the one in the middle.
func Median[T float64 | time.Duration](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}

// Write writes files into a folder, and makes the folders that they are in.
func Write(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Git runs git in a folder.
func Git(dir string, args ...string) error {
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=bench", "-c", "user.email=bench@example.org"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Text is a text of several lines as a design has it between `"""` that are
// indented by two tabs.
func Text(s string) string {
	return "\t\t" + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n\t\t")
}
