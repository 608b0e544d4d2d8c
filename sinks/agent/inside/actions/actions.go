// Package actions does boot actions: each once in an installation of the system. What an
// action brings is put there first, which can be repeated. Its command then runs as a
// unit of systemd of its own, so that it outlives the session and the daemon that asked for
// it, and a journal on the machine says that it was begun before it is. What was begun is
// never begun again by itself.
package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// markerFile is the marker of the installation.
const markerFile = "/etc/slipway/marker.json"

// beginWait is how long Apply waits until the command was begun, or not.
const beginWait = 30 * time.Second

// Facet is the facet actions.
type Facet struct {
	// Brings are the facets of what an action puts there: "packages" and "config".
	brings map[string]inside.Facet
	// step is called before each write, with what it does; its error stops the write. It
	// may be nil.
	step       func(what string) error
	executable func() (string, error)
	now        func() time.Time
}

// New is the facet, over those of what an action puts there.
func New(packages, config inside.Facet) *Facet {
	return &Facet{brings: map[string]inside.Facet{"packages": packages, "config": config}, executable: os.Executable, now: time.Now}
}

// job is what a command's unit is to do. The unit reads it from its file: systemd would put
// variables in the place of "$" in arguments.
type job struct {
	Installation string        `json:"installation"`
	Attempt      int           `json:"attempt"`
	Run          []string      `json:"run"`
	Timeout      time.Duration `json:"timeout"`
}

// entry is what the journal says of an action: the last time that it was begun.
type entry struct {
	Installation string    `json:"installation"`
	Attempt      int       `json:"attempt"`
	Begun        time.Time `json:"begun"`
	Boot         string    `json:"boot,omitempty"` // that the command was begun in
	Ended        time.Time `json:"ended,omitzero"`
	// Wrong says why it is not done; empty for what is.
	Wrong string `json:"wrong,omitempty"`
	// Output are the last lines that the command printed.
	Output string `json:"output,omitempty"`
}

// isName says whether an action may be called so: as an entry of the design.
func isName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return name != "" && len(name) <= 63 && !strings.ContainsAny(name[:1], "._-") && strings.Trim(name, letters+"._-") == ""
}

// nameOf is the name of a key's action.
func nameOf(key string) (string, error) {
	name := item.ID(key)
	if item.Kind(key) != item.KindBootActions || !isName(name) {
		return "", refused("the facet actions has no item %q", key)
	}
	return name, nil
}

func unitOf(name string) string { return "slipway-action-" + name + ".service" }

// file is one of an action's own files.
func file(h *inside.Host, name, kind string) string {
	return h.Path(filepath.Join(inside.Folder, "actions", name+"."+kind))
}

func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be read, so Slipway does not know what was done: %w", path, err)
	}
	return nil
}

func (f *Facet) write(path string, v any) error {
	text, err := json.Marshal(v)
	if err == nil && f.step != nil {
		err = f.step("write " + filepath.Base(path))
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return err
	}
	return inside.WriteFile(path, text, 0o600)
}

// installation names the installation that the marker tells of: by what another one would
// have otherwise, so that nobody who indents the file makes another one of it.
func installation(h *inside.Host) (string, error) {
	var m struct {
		Node       string `json:"node"`
		Generation int    `json:"generation"`
		Image      string `json:"image"`
		Attempt    int    `json:"attempt"`
		Term       uint64 `json:"term"`
	}
	root, err := os.OpenRoot(h.Root)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := root.ReadFile(strings.TrimPrefix(markerFile, "/"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", refused("the system has no marker of an installation, %s, and boot actions belong to one", markerFile)
	case err != nil:
		return "", err
	case json.Unmarshal(text, &m) != nil || m.Node == "" || m.Generation < 1:
		return "", refused("%s is not the marker of an installation, and boot actions belong to one", markerFile)
	}
	canonical, err := json.Marshal(m)
	return fmt.Sprintf("generation %d, %s", m.Generation, item.Digest(canonical)), err
}

// state is what an action is in an installation.
type state struct {
	entry
	is string // as the field of the item
	// why says what is wrong, as a sentence goes on behind the name of the action.
	why string
}

// look tells what an action is. What began and ended while it looks is told as one of
// the two.
func (f *Facet) look(ctx context.Context, h *inside.Host, name, installation string) (state, error) {
	for range 2 {
		s, settled, err := f.lookOnce(ctx, h, name, installation)
		if settled || err != nil {
			return s, err
		}
	}
	s, _, err := f.lookOnce(ctx, h, name, installation)
	return s, err
}

func (f *Facet) lookOnce(ctx context.Context, h *inside.Host, name, installation string) (s state, settled bool, err error) {
	e, err := f.entryOf(h, name, installation)
	if err != nil {
		return s, true, err
	}
	s = state{entry: e, is: item.NotDone}
	var j job
	if err := readJSON(file(h, name, "job"), &j); err != nil {
		return s, true, err
	}
	asked := j.Installation == installation && j.Attempt == e.Attempt+1 // whose unit may be about to begin it
	switch {
	case !e.Ended.IsZero() && e.Wrong == "":
		s.is = item.Done
		return s, true, nil
	case (e.Attempt > 0 && e.Ended.IsZero() || asked) && f.isActive(ctx, h, name):
		s.is = item.Running
		return s, true, nil
	case e.Attempt == 0:
		return s, true, nil
	case !e.Ended.IsZero():
		s.is = item.Failed
		s.why = fmt.Sprintf("failed at %s, %s after it began: %s%s", moment(e.Ended), e.Ended.Sub(e.Begun).Round(time.Second), e.Wrong, lastLine(e.Output))
		return s, true, nil
	}
	again, err := f.entryOf(h, name, installation)
	if err != nil || again != e {
		return s, false, err // it has ended since it was read
	}
	s.is = item.Unfinished
	s.why = fmt.Sprintf("was begun at %s, and Slipway does not know how it ended: ", moment(e.Begun))
	if boot := bootID(); boot != e.Boot {
		s.why += "the machine went down meanwhile"
	} else {
		s.why += "its unit " + unitOf(name) + " is gone, as if it was killed"
	}
	return s, true, nil
}

// entryOf is what the journal says of an action in an installation; the zero entry where
// it was not begun.
func (f *Facet) entryOf(h *inside.Host, name, installation string) (entry, error) {
	var e entry
	if err := readJSON(file(h, name, "json"), &e); err != nil {
		return e, err
	}
	if e.Installation != installation {
		return entry{}, nil // of one before, on a disk that was kept
	}
	return e, nil
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// lastLine is the last line of an output as it may be shown to all who see the status.
func lastLine(output string) string {
	last := inside.Lines(output, 1)
	switch {
	case last == "":
		return ""
	case item.HoldsSecret([]byte(last)):
		last = "[redacted]: it holds what looks like a secret"
	}
	return "; it printed last: " + last
}

func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}

// isActive says whether the unit of an action runs or is about to.
func (f *Facet) isActive(ctx context.Context, h *inside.Host, name string) bool {
	if !h.Live {
		return false
	}
	out, err := h.Exec(ctx, inside.Command{Path: "systemctl", Args: []string{"show", "--property=ActiveState", "--value", "--", unitOf(name)}})
	is := strings.TrimSpace(string(out.Out))
	return err == nil && out.Code == 0 && is != "" && is != "inactive" && is != "failed"
}

// Observe tells what actions are in the installation of the system.
func (f *Facet) Observe(ctx context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	seen := inside.Seen{Have: map[string]string{}, Pending: map[string]string{}, Unread: map[string]string{}, Cannot: map[string]string{}}
	if len(keys) == 0 {
		return seen, nil
	}
	here, err := installation(h)
	if err != nil {
		return seen, err
	}
	seen.Have[item.Installation] = here
	for _, key := range keys {
		name, err := nameOf(key)
		if err != nil {
			seen.Cannot[key] = err.Error()
			continue
		}
		s, err := f.look(ctx, h, name, here)
		if err != nil {
			seen.Unread[key] = err.Error()
			continue
		}
		seen.Have[key] = s.is
		seen.Have[item.Name(key, item.AttemptsField)] = strconv.Itoa(s.Attempt)
		switch s.is {
		case item.Running:
			seen.Pending[key] = item.Done
			if !s.Begun.IsZero() {
				seen.Have[item.Name(key, item.SinceField)] = s.Begun.UTC().Format(time.RFC3339)
			}
		case item.Failed, item.Unfinished:
			seen.Cannot[key] = s.why
		}
	}
	return seen, nil
}

// Apply puts what actions bring there, and begins their commands. It returns when these
// were begun; Observe tells how they go. What runs already is not begun.
func (f *Facet) Apply(ctx context.Context, h *inside.Host, items []item.Item, _ []string) error {
	here, err := installation(h)
	switch {
	case err != nil:
		return err
	case h.Once == nil:
		return refused("the request does not say for which installation the actions are")
	case h.Once.Installation != "" && h.Once.Installation != here:
		return refused("the system is another installation (%s) than the one that was looked at (%s)", here, h.Once.Installation)
	case !h.Live:
		return refused("boot actions need a running system")
	}
	for _, i := range items {
		if err := f.do(ctx, h, i, here); err != nil {
			return err
		}
	}
	return nil
}

func (f *Facet) do(ctx context.Context, h *inside.Host, i item.Item, here string) error {
	name, err := nameOf(i.Key)
	if err != nil {
		return err
	}
	var a item.Action
	if err := json.Unmarshal(i.Body, &a); err != nil {
		return fmt.Errorf("the body of %s: %w", i.Key, err)
	}
	s, err := f.look(ctx, h, name, here)
	attempt := h.Once.Attempt
	switch {
	case err != nil:
		return err
	case s.is == item.Done, s.is == item.Running, attempt <= s.Attempt:
		return nil // what came of it is seen
	case attempt != s.Attempt+1:
		return refused("the boot action %s should begin its attempt %d, but the last attempt that the machine knows is %d", name, attempt, s.Attempt)
	}
	if err := f.bring(ctx, h, name, a); err != nil {
		return err
	}
	if len(a.Run) == 0 {
		at := f.now().UTC()
		return f.end(h, name, entry{Installation: here, Attempt: attempt, Begun: at, Ended: at})
	}
	if err := f.write(file(h, name, "job"), job{here, attempt, a.Run, a.Timeout}); err != nil {
		return err
	}
	return f.begin(ctx, h, name, here, attempt, a)
}

// begin starts the unit of an action's command, and waits until it has noted that.
func (f *Facet) begin(ctx context.Context, h *inside.Host, name, here string, attempt int, a item.Action) error {
	program, err := f.executable()
	if err == nil {
		err = h.Startable(program)
	}
	if err == nil && f.step != nil {
		err = f.step("start " + unitOf(name))
	}
	if err != nil {
		return err
	}
	h.Tell("begin the boot action " + name)
	out, err := h.Exec(ctx, inside.Command{Path: "systemd-run", Args: []string{
		"--quiet", "--collect", "--no-ask-password", "--unit=" + unitOf(name), "--description=Slipway: the boot action " + name,
		fmt.Sprintf("--property=RuntimeMaxSec=%d", int((a.Timeout + killGrace + time.Minute).Seconds())), "--property=TimeoutStopSec=30",
		"--", program, "action", name, strconv.Itoa(attempt),
	}})
	if err != nil {
		return err
	}
	until := time.Now().Add(beginWait)
	for {
		e, err := f.entryOf(h, name, here)
		switch {
		case err != nil:
			return err
		case e.Attempt >= attempt:
			return nil
		case !f.isActive(ctx, h, name) && out.Code != 0:
			return fmt.Errorf("the unit of the boot action %s could not be started: %s", name, out.LastLines(3))
		case time.Now().After(until):
			return fmt.Errorf("the unit of the boot action %s was started and has not begun its command within %s; journalctl -u %s says why", name, beginWait, unitOf(name))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// end notes how an action ended, and forgets what was there before its files where it is
// done.
func (f *Facet) end(h *inside.Host, name string, e entry) error {
	if err := f.write(file(h, name, "json"), e); err != nil {
		return err
	}
	if e.Wrong != "" {
		return nil
	}
	if err := os.Remove(file(h, name, "brought")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func refused(format string, args ...any) *wire.Error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}
