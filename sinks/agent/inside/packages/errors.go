package packages

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// lastLines and lastBytes bound what an error repeats of a program's output, and of its error output.
const (
	lastLines = 8
	lastBytes = 1500
)

func refused(form string, args ...any) error { return classed(wire.Refused, form, args...) }
func failed(form string, args ...any) error  { return classed(wire.Failed, form, args...) }
func busy(form string, args ...any) error    { return classed(wire.Busy, form, args...) }

func classed(class, form string, args ...any) error {
	return &wire.Error{Class: class, Text: fmt.Sprintf(form, args...)}
}

// outcome is the error of a failed program, with its last lines; nil if it succeeded. what begins the text:
// "installing nginx".
func outcome(what string, out inside.Output, err error) error {
	if err == nil && out.Code == 0 {
		return nil
	}
	said := last(out)
	if err != nil { // it did not end, or did not start
		return failed("%s: %v%s", what, err, behind(said))
	}
	switch text := string(out.Err) + string(out.Out); {
	case containsAny(text, "Could not get lock", "locked by another process", "database is locked", "Failed to obtain the transaction lock"):
		return busy("%s: another program uses the package manager now%s", what, behind(said))
	case containsAny(text, "No space left on device", "have enough free space", "more space needed on", "Disk Requirements",
		": Wrote only "): // tar's wording
		return failed("%s: %s%s", what, diskFull, behind(said))
	}
	return failed("%s failed with code %d%s", what, out.Code, behind(said))
}

func behind(said string) string {
	if said == "" {
		return ""
	}
	return "; its last lines:\n" + said
}

func containsAny(text string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// last are the last lines of a program's output, then those of its error output. Package scripts print to either.
func last(out inside.Output) string {
	return strings.Join(append(lastOf(out.Out), lastOf(out.Err)...), "\n")
}

func lastOf(text []byte) []string {
	said := inside.Said(text)
	if said == "" {
		return nil
	}
	lines := strings.Split(said[max(0, len(said)-lastBytes):], "\n")
	lines = lines[max(0, len(lines)-lastLines):]
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return lines
}

// printable removes terminal control characters from a line.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(line, "?"))
}
