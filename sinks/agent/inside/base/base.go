// Package base observes and applies the basics of an installed system: its name,
// its own part of hosts(5), the clock, accounts, where messages go, and whose SSH
// certificates let in.
//
// An account that Slipway made is as designed in full: a further key or group is
// drift and is taken away. An account that was there before keeps what it had.
// Its designed keys and groups are added, and only those that Slipway added are
// removed again; further ones are no drift. The field "sudo" tells of Slipway's
// own rule in sudoers.d and of no other.
//
// The field "password" is "none", "locked", "set", or item.Digest of the hash
// where the hash is the one that Slipway set. No other hash leaves the machine,
// not even as a digest. A password that leaves the design is locked, because what
// was there before is a secret and not kept.
//
// Removing an account leaves its home folder. An account that the design removed
// is not made again when the design no longer speaks of it.
//
// What one field cannot be yet, such as a shell before its package is there, is told in
// Seen.Cannot under the field's flat name or that of the value. It is no error of Apply,
// which sets all else.
package base

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// name is that of the facet.
const name = "base"

// New is the facet.
func New() inside.Facet {
	return &facet{running: os.Hostname, rename: syscall.Sethostname, step: func(string) {}}
}

type facet struct {
	running func() (string, error)  // the host name that the kernel has
	rename  func(name []byte) error // gives it another
	step    func(what string)       // called before each write; tests end the program there
}

// Observe reads files, and asks systemd whether the journal is forwarded.
func (f *facet) Observe(ctx context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	j := &job{facet: f, ctx: ctx, h: h}
	j.once, j.onceSudo = sync.OnceValues(j.accounts), sync.OnceValue(j.cannotSudo)
	j.onceLeft = sync.OnceValue(j.leftovers)
	seen := inside.Seen{Have: map[string]string{}, Unread: map[string]string{}, Cannot: map[string]string{}, Hashes: map[string]item.Hash{}}
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return seen, err
		}
		switch {
		case key == item.KindHostname:
			j.seeHostname(&seen)
		case key == item.KindHosts:
			j.seeHosts(&seen)
		case key == item.KindTime:
			j.seeTime(&seen)
		case key == item.KindLogs:
			j.seeLogs(&seen)
		case key == item.KindSSH:
			j.seeSSH(&seen)
		case key == item.KindSSHHost:
			j.seeSSHHost(&seen)
		case item.Kind(key) == item.KindUsers:
			j.seeUser(&seen, key)
		default:
			seen.Unread[key] = "the base of a system has no such item"
		}
	}
	return seen, nil
}

// Apply does what it can: an item that cannot be made keeps no other from being
// made. Accounts go first, so that their numbers are free for others.
func (f *facet) Apply(ctx context.Context, h *inside.Host, items []item.Item, remove []string) error {
	j := &job{facet: f, ctx: ctx, h: h}
	var all troubles
	do := func(key string, err error) {
		if isLacking(err) {
			h.Tell(fmt.Sprintf("%.100s: %v", printable(key), err))
		}
		all.add(key, err)
	}
	if isOfUsers(items, remove) {
		do(item.KindUsers, j.sweep())
	}
	for _, key := range remove {
		if item.Kind(key) == item.KindUsers {
			do(key, j.removeUser(key))
		}
	}
	for _, i := range items {
		if absentUser(i) {
			do(i.Key, j.absent(i.Key))
		}
	}
	for _, i := range items {
		if !absentUser(i) {
			do(i.Key, j.make(i))
		}
	}
	for _, key := range remove {
		if item.Kind(key) != item.KindUsers {
			do(key, j.remove(key))
		}
	}
	return all.err()
}

// isOfUsers says whether a run changes accounts.
func isOfUsers(items []item.Item, remove []string) bool {
	return slices.ContainsFunc(append(item.Keys(items), remove...), func(key string) bool { return item.Kind(key) == item.KindUsers })
}

func absentUser(i item.Item) bool {
	return item.Kind(i.Key) == item.KindUsers && i.Fields["state"] == item.Absent
}

func (j *job) make(i item.Item) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	switch {
	case i.Key == item.KindHostname:
		return j.setHostname(i.Fields[""])
	case i.Key == item.KindHosts:
		return with(i, j.setHosts)
	case i.Key == item.KindTime:
		return with(i, j.setTime)
	case i.Key == item.KindLogs:
		return with(i, j.setLogs)
	case i.Key == item.KindSSH:
		return with(i, j.setSSH)
	case i.Key == item.KindSSHHost:
		return with(i, j.setSSHHost)
	case item.Kind(i.Key) == item.KindUsers:
		return with(i, func(u item.User) error { return j.present(i.Key, u) })
	}
	return refused("the base of a system has no item %.100q", i.Key)
}

func with[B any](i item.Item, do func(B) error) error {
	var body B
	if err := json.Unmarshal(i.Body, &body); err != nil {
		return refused("the request for it cannot be read: %v", err)
	}
	return do(body)
}

func (j *job) remove(key string) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	switch key {
	case item.KindHostname:
		return j.removeHostname()
	case item.KindHosts:
		return j.removeHosts()
	case item.KindTime:
		return j.removeTime()
	case item.KindLogs:
		return j.removeLogs()
	case item.KindSSH:
		return j.removeSSH()
	case item.KindSSHHost:
		return j.removeSSHHost()
	}
	return refused("the base of a system has no item %.100q", key)
}

// troubles are what went wrong with items.
type troubles struct {
	texts []string
	class string
	cause error
}

func (t *troubles) add(key string, err error) {
	if err == nil || isLacking(err) {
		return
	}
	class := wire.Failed
	var told *wire.Error
	if errors.As(err, &told) {
		class = told.Class
	}
	// What can be tried again is tried again; a person is asked when nothing else
	// is left.
	if t.class == "" || t.class == wire.Refused {
		t.class = class
	}
	if t.cause == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		t.cause = err
	}
	t.texts = append(t.texts, fmt.Sprintf("%.100s: %v", printable(key), err))
}

func (t *troubles) err() error {
	switch {
	case len(t.texts) == 0:
		return nil
	case t.cause != nil:
		return t.cause
	}
	const most = 20
	texts := t.texts
	if len(texts) > most {
		texts = append(texts[:most:most], fmt.Sprintf("and %d more", len(t.texts)-most))
	}
	return &wire.Error{Class: t.class, Text: strings.Join(texts, "\n")}
}

// lacking is why the system cannot have one field yet. Seen.Cannot tells the same.
type lacking string

func (l lacking) Error() string { return string(l) }

func isLacking(err error) bool {
	_, is := err.(lacking)
	return is
}

// worst is the first error that is more than that something is lacking, or else what is
// lacking.
func worst(all ...error) error {
	var lacks []string
	for _, err := range all {
		if err != nil && !isLacking(err) {
			return err
		}
		if err != nil {
			lacks = append(lacks, err.Error())
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return lacking(strings.Join(lacks, "; "))
}

func refused(format string, args ...any) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) error {
	return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf(format, args...)}
}
