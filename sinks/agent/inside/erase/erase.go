// Package erase erases disks so that their data cannot be read again. The agent in the ramdisk uses it. It takes
// the strongest method of a disk, and the next one if a method fails or cannot be verified. Its reports say only
// what was observed. It does not trust a disk that claims success: it checks places that it wrote before. It sends
// a command only if the command erases just the approved disk.
package erase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// method is a way to erase a disk. run returns what was observed, or why the disk is not known to be erased.
type method struct {
	name string
	run  func(ctx context.Context) (verified string, err error)
}

// eraser erases one disk.
type eraser struct {
	drive Drive
	disk  item.Disk
	// say receives the current activity and its progress, from 0 to 1.
	say     func(method, text string, done float64)
	method  string
	samples int // of the last method
}

func (e *eraser) tell(text string, done float64) {
	if e.say != nil {
		e.say(e.method, text, done)
	}
}

// Disk erases one disk. It reports the current activity and its progress, from 0 to 1.
func Disk(ctx context.Context, drive Drive, d item.Disk, say func(method, text string, done float64)) item.Erasure {
	e := &eraser{drive: drive, disk: d, say: say}
	is := item.Erasure{Disk: d.Name, Serial: d.Serial, WWN: d.WWN, Model: d.Model, Bytes: d.Bytes}
	for _, m := range e.methods() {
		e.method = m.name
		e.tell("", 0)
		begun := time.Now()
		verified, err := m.run(ctx)
		t := item.EraseTry{Method: m.name, Took: int(time.Since(begun).Round(time.Second) / time.Second)}
		if err != nil {
			t.Why = err.Error()
		} else {
			t.Verified = verified
		}
		is.Tries = append(is.Tries, t)
		if is.Done = err == nil; is.Done || ctx.Err() != nil {
			break
		}
	}
	return is
}

// Recover makes a disk readable after an interrupted erase. It waits for a sanitize that is still running, and
// unlocks a locked disk. It erases nothing.
func Recover(ctx context.Context, drive Drive, d item.Disk, say func(method, text string, done float64)) error {
	e := &eraser{drive: drive, disk: d, say: say, method: "an earlier erase"}
	if e.isNVMe() {
		return e.readable(ctx)
	}
	return e.open()
}

// methods are those that the disk may support, strongest first.
func (e *eraser) methods() (all []method) {
	if e.isNVMe() {
		all = e.nvmeMethods()
	} else {
		all = append(all, method{"ata secure erase", e.ataErase})
	}
	return append(all,
		method{"secure discard", func(ctx context.Context) (string, error) { return e.discard(ctx, true) }},
		method{"discard", func(ctx context.Context) (string, error) { return e.discard(ctx, false) }},
		method{"overwrite", e.overwrite})
}

// sampled runs an erase, with samples that must be gone afterwards.
func (e *eraser) sampled(do func() error) (found string, err error) {
	zeros := 0
	return e.sampledInto(&zeros, do)
}

// sampledInto is sampled, and also counts the samples that read as zeros.
func (e *eraser) sampledInto(zeros *int, do func() error) (found string, err error) {
	s, err := seed(e.drive, e.disk.Bytes, max(e.disk.Sector, unit))
	if err != nil {
		return "", fmt.Errorf("the method could not be verified, so it was not tried: %w", err)
	}
	e.samples = len(s.at)
	if err := do(); err != nil {
		return "", err
	}
	if *zeros, err = s.gone(); err != nil {
		return "", fmt.Errorf("the disk says that it is done, and %w", err)
	}
	return s.found(*zeros), nil
}

// tellEvery is the interval of reports on a command that reports no progress itself.
const tellEvery = 30 * time.Second

// slowly waits for a long command that reports no progress. The command cannot be stopped, so slowly waits for its
// end even if the context ends.
func (e *eraser) slowly(ctx context.Context, limit time.Duration, do func(limit time.Duration) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done, begun := make(chan error, 1), time.Now()
	go func() { done <- do(limit) }()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return errors.Join(err, ctx.Err())
		case <-tick.C:
			e.tell(fmt.Sprintf("for %s, at most %s", time.Since(begun).Round(time.Second), limit), 0)
		}
	}
}

// pause waits for a time or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
