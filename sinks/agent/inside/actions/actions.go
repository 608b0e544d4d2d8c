// Package actions runs boot actions, each once per installation of the system. It first puts an action's packages
// and files in place, which can be repeated. The command then runs as its own systemd unit, so it outlives the
// session and the daemon that asked for it. A journal on the machine records the start before the command starts.
// Slipway never starts a command again on its own.
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

// beginWait bounds how long Apply waits for the command to start.
const beginWait = 30 * time.Second

// Facet is the facet actions.
type Facet struct {
	// brings maps "packages" and "config" to the facets that put an action's items in place.
	brings map[string]inside.Facet
	// step is called before each write, with its description. An error stops the write. It may be nil.
	step       func(what string) error
	executable func() (string, error)
	now        func() time.Time
}

// New makes the facet over the facets that put an action's items in place.
func New(packages, config inside.Facet) *Facet {
	return &Facet{brings: map[string]inside.Facet{"packages": packages, "config": config}, executable: os.Executable, now: time.Now}
}

// job is the task of a command's unit. The unit reads it from a file, because systemd would expand "$" in
// arguments.
type job struct {
	Installation string        `json:"installation"`
	Attempt      int           `json:"attempt"`
	Run          []string      `json:"run"`
	Timeout      time.Duration `json:"timeout"`
}

// entry is the journal's record of an action: its last start.
type entry struct {
	Installation string    `json:"installation"`
	Attempt      int       `json:"attempt"`
	Begun        time.Time `json:"begun"`
	Boot         string    `json:"boot,omitempty"` // in which the command was started
	Ended        time.Time `json:"ended,omitzero"`
	// Wrong says why the action is not done; empty if it is.
	Wrong string `json:"wrong,omitempty"`
	// Output holds the last lines that the command printed.
	Output string `json:"output,omitempty"`
}

// isName reports whether a name is valid for an action, as in the design.
func isName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return name != "" && len(name) <= 63 && !strings.ContainsAny(name[:1], "._-") && strings.Trim(name, letters+"._-") == ""
}

// nameOf is the name of the action with this key.
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

// installation names the installation of the marker. It uses only values that differ between installations, so that
// reformatting the marker changes nothing.
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

// state is the state of an action in an installation.
type state struct {
	entry
	is string // the value of the item's field
	// why says what is wrong, as the rest of a sentence that starts with the action's name.
	why string
}

// look returns the state of an action. It retries if the action starts or ends during the look.
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
	asked := j.Installation == installation && j.Attempt == e.Attempt+1 // its unit may be about to start it
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
		return s, false, err // it has ended since the entry was read
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

// entryOf is the journal's entry for an action in an installation. It is zero if the action was not started.
func (f *Facet) entryOf(h *inside.Host, name, installation string) (entry, error) {
	var e entry
	if err := readJSON(file(h, name, "json"), &e); err != nil {
		return e, err
	}
	if e.Installation != installation {
		return entry{}, nil // from an earlier installation, on a disk that was kept
	}
	return e, nil
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// lastLine is the last line of an output, safe to show to everyone who sees the status.
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

// isActive reports whether the unit of an action runs or is about to.
func (f *Facet) isActive(ctx context.Context, h *inside.Host, name string) bool {
	if !h.Live {
		return false
	}
	out, err := h.Exec(ctx, inside.Command{Path: "systemctl", Args: []string{"show", "--property=ActiveState", "--value", "--", unitOf(name)}})
	is := strings.TrimSpace(string(out.Out))
	return err == nil && out.Code == 0 && is != "" && is != "inactive" && is != "failed"
}

// Observe returns the states of actions in this installation.
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

// Apply puts the items of actions in place and starts their commands. It returns once they have started. Observe
// reports their progress. Apply does not start a command that is already running.
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
		return nil // Observe reports the result
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

// begin starts the unit of an action's command, and waits until the unit has recorded the start.
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

// end records how an action ended. If the action is done, it removes the list of what its files replaced.
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
