// Package run answers one request of the daemon inside a system. Before a write it takes the host's lock, refuses
// an older term, and records in a journal what it is about to do, so that an interrupted run is noticed.
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

// longest bounds one request. It is shorter than the daemon's limit for a step, so that the daemon learns the
// reason.
const longest = 25 * time.Minute

// longestInstall bounds an installation. It reads an image over the network and writes it to disks, and both may be
// slow.
const longestInstall = 3 * time.Hour

// longestErase bounds an installation that erases the disks first. Overwriting a large disk takes a day or two.
const longestErase = 7 * 24 * time.Hour

// These are the bounds on progress reports.
const (
	maxProgress = 1000
	maxText     = 2000 // characters of a progress or an error
)

// Program answers requests on one system.
type Program struct {
	// Host is the system. Its list of what Slipway made is read for each request.
	Host *inside.Host
	// Facets are the served facets, by name.
	Facets map[string]inside.Facet
	// Probe checks the system's health; nil if it is never requested. It ends in time by itself, and may run in
	// parallel with the facets.
	Probe func(ctx context.Context, h *inside.Host, asked item.Probes) inside.Seen
	// Links looks at the system's network links, in the same way.
	Links func(ctx context.Context, h *inside.Host, asked item.LinkProbes) (*item.LinksSeen, error)
	// Hardware looks at the machine; nil if it is never requested.
	Hardware func(ctx context.Context, h *inside.Host, asked item.PCIProbe) (model string, seen item.PCI)
	// Machine reports the machine's identity and what is on its disks; nil in an installed system, which is never
	// asked.
	Machine func(ctx context.Context, h *inside.Host) wire.Machine
	// Install puts a system onto the disks, or erases them, as requested; nil in an installed system. With an error
	// it also returns what it has done so far.
	Install func(ctx context.Context, h *inside.Host, r wire.Request) (*wire.Installed, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Confirmer is a facet whose changes wait for a proof that the machine is still reachable.
type Confirmer interface {
	// Confirm keeps the named change, which is then no longer reverted.
	Confirm(ctx context.Context, h *inside.Host, name string) error
}

// Unconfirmer is a Confirmer that reports which change waits.
type Unconfirmer interface {
	// Unconfirmed returns the name of the change that waits to be confirmed, empty for none, and the seconds until
	// it is reverted.
	Unconfirmed(h *inside.Host) (name string, seconds int)
}

// Interruptible is a facet that reverts its changes if their program was ended.
type Interruptible interface {
	// CutShort reports whether a change is being reverted because its program was ended, and the seconds until
	// then.
	CutShort(h *inside.Host) (seconds int, is bool)
}

// Answer reads one request and writes progress and one result. Its error says that the result could not be
// delivered.
func (p *Program) Answer(ctx context.Context, in io.Reader, out io.Writer) error {
	told := 0
	p.Host.Tell = func(text string) {
		if told++; told <= maxProgress {
			wire.Write(out, wire.Frame{Progress: &wire.Progress{Text: clip(text)}}) // a peer that is gone misses the progress
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
	within := longest
	switch {
	case r.Op == wire.OpErase, r.Op == wire.OpInstall && r.Install != nil && r.Install.Layout.Erase != "":
		within = longestErase
	case r.Op == wire.OpInstall:
		within = longestInstall
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if r.Op == wire.OpObserve || r.Op == wire.OpSurvey {
		ctx = untilHangup(ctx, in)
	}
	p.Host.Fetch, p.Host.Sign = fetcher(in, out), p.signer(in, out)
	result := p.do(ctx, r)
	if err := wire.Write(out, wire.Frame{Result: &result}); err == nil {
		return nil
	}
	// The result may exceed the bounds of a frame.
	return wire.Write(out, wire.Frame{Result: &wire.Result{Owned: result.Owned, Term: result.Term, Unconfirmed: result.Unconfirmed,
		Deadline: result.Deadline, Error: failed("the report on this system is too large for one answer")}})
}

// fetcher requests artifacts from the daemon, one at a time.
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

// signer has the daemon sign requests for certificates, one at a time.
func (p *Program) signer(in io.Reader, out io.Writer) func(key string, request []byte) ([]byte, error) {
	return func(key string, request []byte) ([]byte, error) {
		const most = 64 << 10
		if err := wire.Write(out, wire.Frame{Want: &wire.Want{For: key, Sign: &wire.Sign{Request: request, Clock: p.now()}}}); err != nil {
			return nil, fmt.Errorf("ask for the certificate: %w", err)
		}
		var b wire.Blob
		if err := wire.Read(in, &b); err != nil {
			return nil, fmt.Errorf("the certificate did not come: %w", err)
		}
		switch {
		case b.Refused != "":
			return nil, refused("%s", b.Refused)
		case b.Size > most:
			return nil, failed("the certificate has %d bytes", b.Size)
		}
		chain := make([]byte, b.Size)
		if _, err := io.ReadFull(in, chain); err != nil {
			return nil, fmt.Errorf("the certificate did not come: %w", err)
		}
		return chain, nil
	}
}

// blob is the bytes of an artifact. Close reads what is left, because something else may follow.
type blob struct{ io.LimitedReader }

func (b *blob) Close() error {
	_, err := io.Copy(io.Discard, &b.LimitedReader)
	return err
}

// untilHangup is a context that ends when the peer is gone. A look is then useless. A write continues: half a
// package or half a network is worse than a complete one that nobody waits for.
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

// Do answers a request from code that has the Program itself.
func (p *Program) Do(ctx context.Context, r wire.Request) wire.Result { return p.do(ctx, r) }

// do answers a request. It turns a panic of a facet into a failure.
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
	defer p.hardware(ctx, r.PCI, &result) // after changes to the drivers
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

// hardware adds the requested data of the machine.
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

// file is the path of one of the program's own files.
func (p *Program) file(name string) string { return filepath.Join(p.Host.Root, inside.Folder, name) }

// place finds where in Slipway's own code a panic started. In the stack, each function has a line, and its place is
// on the next.
func place(stack []byte) string {
	_, after, _ := strings.Cut(string(stack), "\npanic(") // earlier frames belong to the recovery
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

// asError converts an error to a classed one. Without a class it is a failure.
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

// clip makes a text printable, bounds it, and redacts what looks like a secret, because the status and its branch
// repeat the text.
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
