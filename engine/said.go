package engine

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Limits for the kept output of agents.
const (
	mostSaid    = 200 // lines per node
	longestSaid = 500 // characters per line
	writeSaid   = 5 * time.Second
)

// sayings holds the output of a site's agents as far as this process needs it. Output that nobody
// reads or extends is only in the records.
type sayings struct {
	mu    sync.Mutex
	seq   uint64
	nodes map[string]*saying
}

// saying is the output for one node.
type saying struct {
	lines []site.Said
	dirty bool // changed since it was written
	whole bool // the lines include the recorded ones
}

// hear adds a line. If it differs from the last line only in its numbers, it replaces that line:
// progress reports would otherwise fill the space.
func (s *sayings) hear(node, text string) {
	if text = strings.Join(strings.Fields(text), " "); text == "" {
		return
	}
	text = site.Shorten(text, longestSaid)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seq == 0 {
		s.seq = uint64(time.Now().UnixMicro()) // above the Seq of every earlier daemon
	}
	s.seq++
	is := s.of(node)
	line := site.Said{Seq: s.seq, When: time.Now(), Text: text}
	if last := len(is.lines) - 1; last >= 0 && withoutNumbers(is.lines[last].Text) == withoutNumbers(text) {
		is.lines[last] = line
	} else {
		is.lines = lastSaid(append(is.lines, line))
	}
	is.dirty = true
}

// of returns what is kept of a node. The caller holds the lock.
func (s *sayings) of(node string) *saying {
	if s.nodes == nil {
		s.nodes = map[string]*saying{}
	}
	if s.nodes[node] == nil {
		s.nodes[node] = &saying{}
	}
	return s.nodes[node]
}

func lastSaid(lines []site.Said) []site.Said { return lines[max(0, len(lines)-mostSaid):] }

var digits = regexp.MustCompile(`[0-9]+`)

func withoutNumbers(text string) string { return digits.ReplaceAllString(text, "0") }

// join puts the recorded lines of a node before those heard since, and returns all of them.
func (s *sayings) join(node string, recorded []site.Said) []site.Said {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.of(node)
	if !is.whole {
		is.lines, is.whole = lastSaid(append(recorded, is.lines...)), true
	}
	return append([]site.Said(nil), is.lines...)
}

// dirty returns the nodes with lines to write.
func (s *sayings) dirty() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, is := range s.nodes {
		if is.dirty {
			names = append(names, name)
		}
	}
	return names
}

// wrote notes that a node's lines were written, up to a Seq.
func (s *sayings) wrote(node string, up uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.of(node)
	is.dirty = len(is.lines) > 0 && is.lines[len(is.lines)-1].Seq > up
}

// forget forgets a node that was removed.
func (s *sayings) forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, node)
}

// Said returns the last output of the agent in the memory of a node's machine, oldest first. It
// is kept after the agent has gone.
func (e *Engine) Said(ctx context.Context, node string) ([]site.Said, error) {
	e.mu.Lock()
	known := e.workers[node] != nil
	e.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, node)
	}
	recorded, err := e.Records.Said(ctx, node)
	if err != nil {
		return nil, err
	}
	return e.said.join(node, recorded), nil
}

// keepSaid writes the output of agents to the records. If the daemon is killed, the last seconds
// are lost.
func (e *Engine) keepSaid(ctx context.Context) {
	if e.Agents == nil {
		return
	}
	e.Agents.Hear(e.said.hear)
	for retry.Sleep(ctx, writeSaid) {
		if err := e.writeSaid(ctx); err != nil && ctx.Err() == nil {
			e.Log.Warn("the output of agents could not be recorded", "err", err)
		}
	}
	_ = e.writeSaid(context.WithoutCancel(ctx)) // if this write fails, the output is lost
}

func (e *Engine) writeSaid(ctx context.Context) error {
	var all error
	for _, node := range e.said.dirty() {
		e.mu.Lock()
		known := e.workers[node] != nil
		e.mu.Unlock()
		if !known {
			e.said.forget(node)
			continue
		}
		lines, err := e.Said(ctx, node)
		if err == nil {
			err = e.Records.PutSaid(ctx, node, lines)
		}
		if err == nil {
			e.said.wrote(node, lines[len(lines)-1].Seq)
		}
		all = errors.Join(all, err)
	}
	return all
}
