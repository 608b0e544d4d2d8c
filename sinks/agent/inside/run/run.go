// Package run answers one request of the daemon inside a system. Before a write
// it holds the lock of the host, refuses an older term, and notes in a journal
// what it is about to do, so that a run that was cut is known of.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Longest bounds one request. It is below the time that the daemon has for a
// step, so that the daemon is told why.
const Longest = 25 * time.Minute

// LongestInstall bounds an installation: it reads an image over the network and writes it to
// disks, either of which may be slow.
const LongestInstall = 3 * time.Hour

// LongestErase bounds an installation that erases the disks first: a large disk is written over
// in a day or two.
const LongestErase = 7 * 24 * time.Hour

// The bounds of what is told on the way.
const (
	maxProgress = 1000
	maxText     = 2000 // characters of a progress or an error
)

// Program answers requests on one system.
type Program struct {
	// Host is the system. Its list of what Slipway made is read for each request.
	Host *inside.Host
	// Facets are those that it serves, by name.
	Facets map[string]inside.Facet
	// Probe looks at the system's health; nil where that is never asked for. It ends in
	// time by itself, and may run beside the facets.
	Probe func(ctx context.Context, h *inside.Host, asked item.Probes) inside.Seen
	// Links looks at the system's network links, in the same way.
	Links func(ctx context.Context, h *inside.Host, asked item.LinkProbes) (*item.LinksSeen, error)
	// Hardware looks at the machine; nil where that is never asked for.
	Hardware func(ctx context.Context, h *inside.Host, asked item.PCIProbe) (model string, seen item.PCI)
	// Machine tells what the machine is and what is on its disks; nil in an installed system,
	// which is never asked.
	Machine func(ctx context.Context, h *inside.Host) wire.Machine
	// Install puts a system onto the disks, or erases them, as the request says; nil in an
	// installed system. What it has done so far is told with an error too.
	Install func(ctx context.Context, h *inside.Host, r wire.Request) (*wire.Installed, error)
	// Now is the clock; time.Now where it is nil.
	Now func() time.Time
}

// Confirmer is a facet whose changes wait for a proof that the machine can still be
// reached.
type Confirmer interface {
	// Confirm keeps the change of that name, which is not reverted any more.
	Confirm(ctx context.Context, h *inside.Host, name string) error
}

// Unconfirmer is a Confirmer that tells which change waits.
type Unconfirmer interface {
	// Unconfirmed names the change that waits to be confirmed, empty for none, and
	// says how many seconds are left before it is reverted.
	Unconfirmed(h *inside.Host) (name string, seconds int)
}

// Interruptible is a facet whose changes are set back where their program was ended.
type Interruptible interface {
	// CutShort says whether a change is set back since the program that made it was ended
	// in the middle, and how many seconds are left before that.
	CutShort(h *inside.Host) (seconds int, is bool)
}

// Answer reads one request and writes progress and one result. Its error says that
// nobody could be told of the result.
func (p *Program) Answer(ctx context.Context, in io.Reader, out io.Writer) error {
	told := 0
	p.Host.Tell = func(text string) {
		if told++; told <= maxProgress {
			wire.Write(out, wire.Frame{Progress: &wire.Progress{Text: clip(text)}}) // who does not listen is told the result, or nothing
		}
	}
	p.Host.TellErased = func(e item.Erasure) {
		wire.Write(out, wire.Frame{Progress: &wire.Progress{Text: clip(e.String()), Erased: &e}})
	}
	p.Host.TellHostKeys = func(keys []string) {
		wire.Write(out, wire.Frame{Progress: &wire.Progress{Text: "the keys of the SSH server are made", HostKeys: keys}})
	}
	var r wire.Request
	if err := wire.Read(in, &r); err != nil {
		return wire.Write(out, wire.Frame{Result: &wire.Result{Error: failed("the request cannot be read: %v", err)}})
	}
	within := Longest
	switch {
	case r.Op == wire.OpErase, r.Op == wire.OpInstall && r.Install != nil && r.Install.Layout.Erase != "":
		within = LongestErase
	case r.Op == wire.OpInstall:
		within = LongestInstall
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if r.Op == wire.OpObserve || r.Op == wire.OpSurvey {
		ctx = untilHangup(ctx, in)
	}
	p.Host.Fetch = fetcher(in, out)
	result := p.do(ctx, r)
	if err := wire.Write(out, wire.Frame{Result: &result}); err == nil {
		return nil
	}
	// What was seen may be over the bounds of a frame.
	return wire.Write(out, wire.Frame{Result: &wire.Result{Owned: result.Owned, Term: result.Term, Unconfirmed: result.Unconfirmed,
		Deadline: result.Deadline, Error: failed("the report on this system is too large for one answer")}})
}

// fetcher asks the daemon for artifacts, one at a time.
func fetcher(in io.Reader, out io.Writer) func(sha256, file string, room int64) (io.ReadCloser, int64, error) {
	return func(sha256, file string, room int64) (io.ReadCloser, int64, error) {
		if err := wire.Write(out, wire.Frame{Want: &wire.Want{SHA256: sha256, Room: room, For: file}}); err != nil {
			return nil, 0, fmt.Errorf("ask for the content of %s: %w", file, err)
		}
		var b wire.Blob
		if err := wire.Read(in, &b); err != nil {
			return nil, 0, fmt.Errorf("the content of %s did not come: %w", file, err)
		}
		if b.Refused != "" {
			return nil, 0, refused("%s", b.Refused)
		}
		return &blob{io.LimitedReader{R: in, N: b.Size}}, b.Size, nil
	}
}

// blob are the bytes of an artifact. What nobody wanted of them is read at the end:
// something else may follow.
type blob struct{ io.LimitedReader }

func (b *blob) Close() error {
	_, err := io.Copy(io.Discard, &b.LimitedReader)
	return err
}

// untilHangup is a context that ends when the other side is gone. A look is of no
// use then. A write goes on: half a package or half a network is worse than a
// whole one that nobody waits for.
func untilHangup(ctx context.Context, in io.Reader) context.Context {
	f, ok := in.(*os.File)
	if !ok {
		return ctx
	}
	if info, err := f.Stat(); err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		io.Copy(io.Discard, f)
		cancel(errors.New("the daemon closed the connection"))
	}()
	return ctx
}

// Do answers a request of somebody who has the Program itself.
func (p *Program) Do(ctx context.Context, r wire.Request) wire.Result { return p.do(ctx, r) }

// do answers a request. A panic of a facet is a failure like others.
func (p *Program) do(ctx context.Context, r wire.Request) (result wire.Result) {
	defer func() {
		if v := recover(); v != nil {
			result.Error = failed("this is a fault of Slipway, report it: %v, at %s", v, place(debug.Stack()))
		}
		if result.Error != nil {
			result.Error.Text = clip(result.Error.Text)
		}
	}()
	if r.Version != wire.Version {
		return wire.Result{Error: refused("the daemon speaks version %d of the protocol, and the program on the machine speaks %d; install both from one release", r.Version, wire.Version)}
	}
	var err error
	p.Host.LoginKey, p.Host.LoginPassword, p.Host.LoginAuthority = r.Key, r.Password, r.Authority
	result.System, result.Echo = Detect(p.Host.Root), r.Echo
	if p.Host.Owned, err = inside.LoadOwned(p.Host.Root); err != nil {
		result.Error = refused("%v; Slipway writes nothing while it does not know what it made here", err)
		return result
	}
	if result.Term, err = p.highest(r.Site); err != nil {
		result.Error = asError(err)
		return result
	}
	p.Host.Show, p.Host.Hashes, p.Host.Keys, p.Host.Wants = r.Show, r.Hashes, r.Keys, r.Wants
	defer p.hardware(ctx, r.PCI, &result) // behind what changes the drivers
	switch r.Op {
	case wire.OpObserve:
		err = p.observeAll(ctx, r, &result)
		if r.Machine && p.Machine != nil {
			m := p.Machine(ctx, p.Host)
			result.Machine = &m
		}
	case wire.OpSurvey:
		err = p.survey(ctx, r.Survey, &result)
	case wire.OpApply:
		err = p.applyLocked(ctx, r, &result)
	case wire.OpConfirm:
		err = p.confirmLocked(ctx, r, &result)
	case wire.OpInstall, wire.OpErase:
		err = p.installLocked(ctx, r, &result)
	default:
		err = refused("the request %q is unknown", r.Op)
	}
	result.Owned = p.Host.Owned.Digest()
	result.Error = asError(err)
	return result
}

// hardware adds what was asked of the machine.
func (p *Program) hardware(ctx context.Context, asked *item.PCIProbe, result *wire.Result) {
	if asked == nil || p.Hardware == nil {
		return
	}
	model, seen := p.Hardware(ctx, p.Host, *asked)
	seen.Unread = clip(seen.Unread)
	result.System.Model, result.System.PCI = clip(model), &seen
}

func (p *Program) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// file is one of the program's own files.
func (p *Program) file(name string) string { return filepath.Join(p.Host.Root, inside.Folder, name) }

// place is where in Slipway's own code a panic began, of a stack in which each
// function is in one line and its place in the next.
func place(stack []byte) string {
	_, after, _ := strings.Cut(string(stack), "\npanic(") // the frames before are those of the recovery
	lines := strings.Split(after, "\n")
	for i, l := range lines[:len(lines)-1] {
		if strings.HasPrefix(l, "github.com/slipway-gitops/") || strings.HasPrefix(l, "main.") {
			at, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +0x")
			return at
		}
	}
	return "an unknown place"
}

func refused(format string, args ...any) *wire.Error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}

func busy(format string, args ...any) *wire.Error {
	return &wire.Error{Class: wire.Busy, Text: fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) *wire.Error {
	return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf(format, args...)}
}

// asError is an error with its class; without one it is a failure.
func asError(err error) *wire.Error {
	if err == nil {
		return nil
	}
	var classed *wire.Error
	if errors.As(err, &classed) {
		return &wire.Error{Class: classed.Class, Text: err.Error()}
	}
	return failed("%v", err)
}

// clip makes a text that is sent printable, bounds it, and takes out what looks like a
// secret: the status and its branch repeat it.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, item.RedactedMessage(text))
	if all := []rune(text); len(all) > maxText {
		return string(all[:maxText]) + "…"
	}
	return text
}
