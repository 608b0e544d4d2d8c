package engine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Bounds on what is kept of the logs of machines, in characters: a large site has many.
const (
	longestEntry   = 200
	longestEntryID = 80
)

// machineLogs are the newest entries of the machines' own logs, as they were last read. Nothing of them is recorded.
type machineLogs struct {
	mu    sync.Mutex
	nodes map[string]site.MachineLog
}

// keep keeps what was just read of the log of a node's machine.
func (l *machineLogs) keep(node string, entries []site.Entry, now time.Time) {
	kept := slices.Clone(entries)
	for i := range kept {
		e := &kept[i]
		e.ID, e.Severity, e.Text = site.Shorten(e.ID, longestEntryID), site.Shorten(e.Severity, longestEntryID), site.Shorten(e.Text, longestEntry)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes == nil {
		l.nodes = map[string]site.MachineLog{}
	}
	l.nodes[node] = site.MachineLog{Read: now.UTC(), Entries: kept}
}

func (l *machineLogs) of(node string) site.MachineLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.nodes[node]
	is.Entries = append([]site.Entry{}, is.Entries...)
	return is
}

// forget forgets a node that was removed.
func (l *machineLogs) forget(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, node)
}

// MachineLog returns the newest entries of the own log of a node's machine, as they were last read since the daemon started.
// It asks no machine.
func (e *Engine) MachineLog(node string) (site.MachineLog, error) {
	e.mu.Lock()
	known := e.workers[node] != nil
	e.mu.Unlock()
	if !known {
		return site.MachineLog{}, fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, node)
	}
	return e.machineLogs.of(node), nil
}
