package install

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/erase"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// reports holds the results of erasing disks in one installation while the agent runs, because a try that lost its
// connection has not reported them.
type reports struct {
	mu     sync.Mutex
	marker string // of the installation
	all    []item.Erasure
}

// of returns the reports of an installation. It forgets those of another one.
func (r *reports) of(marker string) []item.Erasure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.marker != marker {
		r.marker, r.all = marker, nil
	}
	return slices.Clone(r.all)
}

func (r *reports) add(e item.Erasure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = item.WithErasure(r.all, e)
}

// recover makes disks readable after an earlier try was interrupted while erasing them.
func (w *work) recover() error {
	if w.asked.Layout.Erase == "" {
		return nil
	}
	return disk.Reach(w.h, w.asked.Layout, func(f *os.File, d item.Disk) error {
		drive, end, err := erase.Open(f)
		if err != nil {
			return err
		}
		defer end()
		told := ""
		err = erase.Recover(w.ctx, drive, d, func(_, text string, _ float64) {
			if text != "" && text != told { // it repeats
				told = text
				w.h.Tell(fmt.Sprintf("the disk %s: %s", d, text))
			}
		})
		if err != nil {
			return refused("the disk %s: %v", d, err)
		}
		return nil
	})
}

// erase erases the disks that the design asks for, in parallel. It skips those that an earlier try has erased: only
// this installation has written to them since.
func (w *work) erase() error {
	l := w.asked.Layout
	if l.Erase == "" {
		return nil
	}
	w.is.Erased = w.reports.of(w.asked.Marker)
	is := func(id string) bool {
		return slices.Contains(w.asked.Erased, id) || slices.ContainsFunc(w.is.Erased, func(e item.Erasure) bool { return e.Done && e.ID() == id })
	}
	left := slices.Clone(l.Disks)
	left = slices.DeleteFunc(left, func(d item.LayoutDisk) bool { return d.Keep || is(item.Erasure{Serial: d.Serial, WWN: d.WWN}.ID()) })
	if len(left) == 0 {
		w.h.Tell("the disks were erased by an earlier try of this installation, and are not erased again")
		return nil
	}
	var not []string
	err := disk.Take(w.ctx, w.h, l, func(files map[string]*os.File, found map[string]item.Disk) error {
		for _, e := range w.eraseAll(left, files, found) {
			if w.is.Erased = item.WithErasure(w.is.Erased, e); !e.Done {
				not = append(not, fmt.Sprintf("%s (%s)", e.ID(), e.Last().Why))
			}
		}
		return nil
	})
	if len(not) > 0 {
		installed := ", and nothing was installed"
		if w.r.Op == wire.OpErase {
			installed = ""
		}
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("%d of %d disks could not be erased by any method%s: %s", len(not), len(left), installed, strings.Join(not, "; "))}
	}
	return err
}

// retire erases the disks of a machine that leaves the design, and the firmware's boot entries for them. It checks
// everything possible before.
func (w *work) retire() error {
	if w.asked.Layout.Erase == "" {
		return refused("the request to erase the disks does not ask for it in its layout; nothing was written")
	}
	if err := w.identify(); err != nil {
		return err
	}
	if err := w.recover(); err != nil {
		return err
	}
	if _, err := disk.Check(w.ctx, w.h, w.asked.Layout); err != nil {
		return refused("%v", err)
	}
	if err := w.clear(); err != nil {
		return err
	}
	if err := w.erase(); err != nil {
		return err
	}
	w.h.Tell("the disks are erased")
	return nil
}

// eraseAll erases disks in parallel.
func (w *work) eraseAll(disks []item.LayoutDisk, files map[string]*os.File, found map[string]item.Disk) (all []item.Erasure) {
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	t := newTeller(w.h.Tell)
	results := make(chan item.Erasure, len(disks))
	for _, d := range disks {
		go func() {
			seen := found[d.Name]
			e := item.Erasure{Disk: d.Name, Serial: d.Serial, WWN: d.WWN, Model: seen.Model, Bytes: d.Bytes}
			drive, end, err := erase.Open(files[d.Name])
			if err != nil {
				e.Tries = []item.EraseTry{{Method: "none", Why: err.Error()}}
			} else {
				defer end()
				e = erase.Disk(ctx, drive, seen, func(method, text string, done float64) { t.at(e.ID(), method, text, done) })
				e.Disk = d.Name
			}
			results <- e
		}()
	}
	tick := time.NewTicker(tellFirst)
	defer tick.Stop()
	for begun := time.Now(); len(all) < len(disks); {
		select {
		case e := <-results:
			all = append(all, e)
			t.over(e.ID())
			w.reports.add(e)
			if w.h.TellErased != nil {
				w.h.TellErased(e)
			}
		case <-tick.C:
			t.tell(len(all), len(disks))
			if time.Since(begun) > tellsLess {
				tick.Reset(tellLater)
			}
		}
	}
	return all
}

// These intervals bound the reports of an erase, which may take days.
const (
	tellFirst = 10 * time.Second
	tellLater = 15 * time.Minute
	tellsLess = 30 * time.Minute
)

// teller keeps the progress of each disk, for one line about all of them.
type teller struct {
	say func(text string)
	mu  sync.Mutex
	is  map[string]string
}

func newTeller(say func(string)) *teller { return &teller{say: say, is: map[string]string{}} }

func (t *teller) at(id, method, text string, done float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := id + " by " + method
	if text != "" {
		line += ", " + text
	}
	if done > 0 {
		line += fmt.Sprintf(", %d %%", int(100*done))
	}
	t.is[id] = line
}

func (t *teller) over(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.is, id)
}

// mostTold is the maximum number of disks in one line.
const mostTold = 4

func (t *teller) tell(done, of int) {
	t.mu.Lock()
	var lines []string
	for _, l := range t.is {
		lines = append(lines, l)
	}
	t.mu.Unlock()
	slices.Sort(lines)
	more := ""
	if len(lines) > mostTold {
		more = fmt.Sprintf("; and %d more", len(lines)-mostTold)
		lines = lines[:mostTold]
	}
	t.say(fmt.Sprintf("erasing, %d of %d disks done: %s%s", done, of, strings.Join(lines, "; "), more))
}
