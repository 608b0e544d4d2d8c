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

// The bounds on what is kept of what agents say.
const (
	mostSaid    = 200 // lines of a node
	longestSaid = 500 // letters of a line
	writeSaid   = 5 * time.Second
)

// sayings are what the agents of a site's machines have said, as far as this process needs it:
// what nobody asks for and nobody adds to is in the records alone.
type sayings struct {
	mu    sync.Mutex
	seq   uint64
	nodes map[string]*saying
}

// saying is that of one node.
type saying struct {
	lines []site.Said
	dirty bool // since it was written
	whole bool // what was recorded before is among the lines
}

// hear takes a line in. One that differs from the last in its numbers alone takes the place of
// that: progress would fill all that is kept.
func (s *sayings) hear(node, text string) {
	if text = strings.Join(strings.Fields(text), " "); text == "" {
		return
	}
	if r := []rune(text); len(r) > longestSaid {
		text = string(r[:longestSaid]) + "…"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seq == 0 {
		s.seq = uint64(time.Now().UnixMicro()) // above that of every daemon before
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

// of is what is kept of a node. The caller has the lock.
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

// join puts what was recorded of a node before what was heard since, and gives all of it.
func (s *sayings) join(node string, recorded []site.Said) []site.Said {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.of(node)
	if !is.whole {
		is.lines, is.whole = lastSaid(append(recorded, is.lines...)), true
	}
	return append([]site.Said(nil), is.lines...)
}

// dirty are the nodes of which something is to be written.
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

// wrote notes that what a node had said was written, up to a line.
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

// Said is the last of what the agent in the memory of a node's machine has said, oldest first. It
// is kept when the agent has gone.
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

// keepSaid writes what agents say into the records. A daemon that is killed loses the last
// seconds of it.
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
	_ = e.writeSaid(context.WithoutCancel(ctx)) // what cannot be written at the end is lost
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
