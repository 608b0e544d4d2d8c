package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strings"
	"syscall"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// screen is where a command writes. Text from designs, commits and machines can contain anything: a screen replaces what
// a terminal would obey, and what a person cannot see, by its number (site.Printable). It passes on only the escape
// sequences that this program made. A screen is no io.Writer, so that nothing can be written around it by accident.
type screen struct{ to io.Writer }

// laid is printable text in lines of its own. Only this file makes it; any other text is one line.
type laid string

// lines is a text of several lines, none of which can contain another one.
func lines(all ...string) laid {
	shown := make([]string, len(all))
	for i, line := range all {
		shown[i] = released(line, site.Printable)
	}
	return laid(strings.Join(shown, "\n"))
}

// Printf writes a constant format with arguments, each of them printable and, unless it is laid, one line.
func (s *screen) Printf(format string, args ...any) error {
	shown := make([]any, len(args))
	for i, a := range args {
		shown[i] = argument(a)
	}
	_, err := fmt.Fprintf(s.to, format, shown...)
	return err
}

// argument leaves numbers to their verbs.
func argument(a any) any {
	switch kind := reflect.ValueOf(a).Kind(); {
	case reflect.Bool <= kind && kind <= reflect.Float64:
		return a
	default:
		return asText(a)
	}
}

// asText is a value as text: as it is if it is laid, else as one line.
func asText(a any) string {
	if text, ok := a.(laid); ok {
		return string(text)
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		a = string(v.Bytes())
	}
	return released(fmt.Sprint(a), site.Printable)
}

// Println writes a line: its arguments with a space between them.
func (s *screen) Println(args ...any) error {
	return s.Printf(strings.TrimSuffix(strings.Repeat("%v ", len(args)), " ")+"\n", args...)
}

// Lay writes text with lines of its own.
func (s *screen) Lay(text string) error {
	_, err := io.WriteString(s.Lines(), text)
	return err
}

// Fail writes why a command failed.
func (s *screen) Fail(err error) {
	s.Printf("slipway: %v\n", lines(strings.Split(err.Error(), "\n")...))
}

// JSON writes one indented JSON value.
func (s *screen) JSON(v any) error {
	var b bytes.Buffer
	if err := encodeJSON(&b, v); err != nil {
		return err
	}
	_, err := s.LinesOfJSON().Write(b.Bytes())
	return err
}

func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Data takes what programs read: an export of records, a patch, a rendered site. A file or a pipe gets every byte of it,
// a terminal its printable text.
func (s *screen) Data() io.Writer {
	if s.Terminal() {
		return s.Lines()
	}
	return s.to
}

// Lines takes text that others lay out: help, plans, the log. What is given in one Write is printed as one text.
func (s *screen) Lines() io.Writer {
	return filter{s.to, func(text string) string { return released(text, site.PrintableLines) }}
}

// LinesOfJSON takes JSON that others write.
func (s *screen) LinesOfJSON() io.Writer {
	return filter{s.to, func(text string) string { return string(site.PrintableJSON([]byte(text))) }}
}

type filter struct {
	to io.Writer
	as func(string) string
}

func (f filter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(f.to, f.as(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// An own escape sequence has a random parameter, so that no other text can contain one; it is removed when the sequence is
// written.
var (
	sequenceKey = fmt.Sprint(rand.Uint64())
	sequence    = regexp.MustCompile("\x1b\\[" + sequenceKey + ";([0-9;]*[A-Za-z])")
)

// ownSequence is a control sequence (ECMA-48, 5.4) that screens pass on.
func ownSequence(code string) string { return "\x1b[" + sequenceKey + ";" + code }

// released is text with its own sequences as a terminal takes them, and the rest made printable.
func released(text string, printable func(string) string) string {
	if !strings.Contains(text, "\x1b") {
		return printable(text)
	}
	var b strings.Builder
	from := 0
	for _, m := range sequence.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(printable(text[from:m[0]]) + "\x1b[" + text[m[2]:m[3]])
		from = m[1]
	}
	b.WriteString(printable(text[from:]))
	return b.String()
}

// Whole is the terminal for a full-screen view, which makes everything that it shows printable itself.
func (s *screen) Whole() io.Writer { return s.to }

// Clear empties a terminal: it moves the cursor to the first line, and erases all of them.
func (s *screen) Clear() { s.Printf("%s%s", ownSequence("H"), ownSequence("2J")) }

// Restart replaces the line in which the cursor is.
func (s *screen) Restart(line string) { s.Printf("%s%s%s", ownSequence("G"), ownSequence("K"), line) }

// Terminal says whether people look at the screen as it is written.
func (s *screen) Terminal() bool { return isTerminal(s.to) }

func isTerminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Journal says whether it is systemd's journal, which names the device and
// the number of its socket (systemd.exec(5)).
func (s *screen) Journal() bool {
	f, ok := s.to.(*os.File)
	if !ok {
		return false
	}
	var stat syscall.Stat_t
	err := syscall.Fstat(int(f.Fd()), &stat)
	return err == nil && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// Columns is a terminal's width, 0 for anything else.
func (s *screen) Columns() int {
	f, ok := s.to.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// paint gives a function that colours text when the screen shows colours (https://no-color.org).
func paint(s *screen, colours ...text.Color) func(string) string {
	if !s.Terminal() || os.Getenv("NO_COLOR") != "" {
		return func(text string) string { return text }
	}
	return func(text string) string { return painted(text, colours...) }
}

func painted(shown string, colours ...text.Color) string {
	codes := make([]string, len(colours))
	for i, c := range colours {
		codes[i] = fmt.Sprint(int(c))
	}
	return ownSequence(strings.Join(codes, ";")+"m") + shown + ownSequence("0m")
}

// planPaint colours a plan.
func planPaint(s *screen) present.Paint {
	return present.Paint{
		Bold: paint(s, text.Bold), Dim: paint(s, text.Faint), Online: paint(s, text.FgGreen),
		Reboot: paint(s, text.FgYellow), Destructive: paint(s, text.FgRed, text.Bold),
		Added: paint(s, text.FgGreen), Removed: paint(s, text.FgRed),
	}
}

// grid is a table of printable cells; a cell is one line unless it is laid.
type grid struct{ table.Writer }

func newTable(columns ...any) grid {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatUpper
	t.SetStyle(style)
	t.AppendHeader(columns)
	t.SuppressTrailingSpaces() // a piped table has one long reason, and every row would be as long
	return grid{t}
}

// AppendRow adds a row.
func (g grid) AppendRow(row table.Row, config ...table.RowConfig) {
	cells := make(table.Row, len(row))
	for i, value := range row {
		cells[i] = asText(value)
	}
	g.Writer.AppendRow(cells, config...)
}

// Render is the table, laid out.
func (g grid) Render() laid { return laid(g.Writer.Render()) }
