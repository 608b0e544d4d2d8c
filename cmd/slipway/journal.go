package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// journal has the lines of a log carry their level as systemd's journal reads it,
// "<4>" before a warning (sd-daemon(3)), so that `journalctl -p warning` finds
// them. The time and the level are left out: the journal has its own.
type journal struct {
	slog.Handler
	line *line
}

// line is one record as it is written.
type line struct {
	mu   sync.Mutex
	text bytes.Buffer
	to   io.Writer
}

func newJournal(to io.Writer, level slog.Level) journal {
	l := &line{to: to}
	return journal{slog.NewTextHandler(&l.text, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTimeAndLevel}), l}
}

func withoutTimeAndLevel(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}

// Handle implements slog.Handler.
func (j journal) Handle(ctx context.Context, r slog.Record) error {
	j.line.mu.Lock()
	defer j.line.mu.Unlock()
	j.line.text.Reset()
	fmt.Fprintf(&j.line.text, "<%d>", priority(r.Level))
	if err := j.Handler.Handle(ctx, r); err != nil {
		return err
	}
	_, err := j.line.to.Write(j.line.text.Bytes())
	return err
}

// WithAttrs implements slog.Handler.
func (j journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return journal{j.Handler.WithAttrs(attrs), j.line}
}

// WithGroup implements slog.Handler.
func (j journal) WithGroup(name string) slog.Handler {
	return journal{j.Handler.WithGroup(name), j.line}
}

// priority is a level as syslog has it (RFC 5424, section 6.2.1).
func priority(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return 3
	case level >= slog.LevelWarn:
		return 4
	case level >= slog.LevelInfo:
		return 6
	}
	return 7
}
