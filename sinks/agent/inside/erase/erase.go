// Package erase erases disks so that what was on them cannot be read again, as the agent in
// memory does it. Of the methods that a disk has it takes the strongest, and the next one where
// that fails or cannot be verified; what it says of a method is what was observed. Nothing is
// trusted: a disk that says that it is done is looked at in places that were written before. A
// command is sent only where it erases the one disk that was approved.
package erase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// method is a way to erase a disk. What it returns is what was observed, or why the disk is not
// known to be erased.
type method struct {
	name string
	run  func(ctx context.Context) (verified string, err error)
}

// eraser erases one disk.
type eraser struct {
	drive Drive
	disk  item.Disk
	// say is told what is being done and how far it is, from 0 to 1.
	say     func(method, text string, done float64)
	method  string
	samples int // how many the last method had
}

func (e *eraser) tell(text string, done float64) {
	if e.say != nil {
		e.say(e.method, text, done)
	}
}

// Disk erases one disk. It tells what is being done, and how far that is, from 0 to 1.
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

// Recover makes a disk readable on which an earlier erase was cut: it waits for a sanitize that
// goes on, and unlocks a disk that was locked. It erases nothing.
func Recover(ctx context.Context, drive Drive, d item.Disk, say func(method, text string, done float64)) error {
	e := &eraser{drive: drive, disk: d, say: say, method: "an earlier erase"}
	if e.isNVMe() {
		return e.readable(ctx)
	}
	return e.open()
}

// methods are those that the disk may have, strongest first.
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

// sampled does something to the disk that is to erase it, with samples that have to be gone
// afterwards.
func (e *eraser) sampled(do func() error) (found string, err error) {
	zeros := 0
	return e.sampledInto(&zeros, do)
}

// sampledInto is sampled, and says how many samples read as zeros.
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

// tellEvery is how often a command is told of that says nothing itself.
const tellEvery = 30 * time.Second

// slowly waits for a command that takes long and tells nothing of itself. It cannot be stopped;
// where the context ends meanwhile its end is waited for.
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

// pause waits, or ends with the context.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
