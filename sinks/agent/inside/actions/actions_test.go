package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// system is a system under a root folder whose systemd runs units at once, as this
// test's own program.
type system struct {
	t    *testing.T
	root string
	// units are those that run; a unit waits for release before its command.
	units map[string]bool
	// killed is what begins after the so manieth write, counted down: the program that
	// writes is gone.
	writes, kill int
	put          []string // by facet
}

var errKilled = errors.New("killed")

func newSystem(t *testing.T) *system {
	s := &system{t: t, root: t.TempDir(), units: map[string]bool{}, kill: -1}
	s.mark(`{"node": "n1", "generation": 3, "image": "ab12"}`)
	return s
}

func (s *system) mark(text string) {
	s.t.Helper()
	path := filepath.Join(s.root, markerFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// Brought is a facet of what actions bring: it notes what it was asked for.
type brought struct {
	s     *system
	facet string
}

func (b brought) Observe(_ context.Context, _ *inside.Host, keys []string) (inside.Seen, error) {
	have := map[string]string{}
	for _, key := range keys {
		have[key+".state"] = item.Present
	}
	return inside.Seen{Have: have}, nil
}

func (b brought) Apply(_ context.Context, _ *inside.Host, items []item.Item, _ []string) error {
	b.s.put = append(b.s.put, b.facet+" "+strings.Join(item.Keys(items), " "))
	return nil
}

func (s *system) facet() *Facet {
	return &Facet{
		brings: map[string]inside.Facet{"packages": brought{s, "packages"}, "config": brought{s, "config"}},
		step: func(string) error {
			if s.writes++; s.kill >= 0 && s.writes > s.kill {
				return errKilled
			}
			return nil
		},
		executable: func() (string, error) { return "/helper", nil }, now: time.Now,
	}
}

func (s *system) host(once *item.Once) *inside.Host {
	h := inside.Real("/", true)
	h.Root, h.Once = s.root, once
	var err error
	if h.Owned, err = inside.LoadOwned(s.root); err != nil {
		s.t.Fatal(err)
	}
	h.Exec = func(ctx context.Context, c inside.Command) (inside.Output, error) {
		switch c.Path {
		case "systemctl":
			is := "inactive"
			if s.units[c.Args[len(c.Args)-1]] {
				is = "active"
			}
			return inside.Output{Out: []byte(is + "\n")}, nil
		case "systemd-run":
			name, attempt := c.Args[len(c.Args)-2], 0
			fmt.Sscan(c.Args[len(c.Args)-1], &attempt)
			run := *h
			run.Root = s.root
			if err := s.facet().run(ctx, &run, name, attempt, io.Discard); err != nil {
				return inside.Output{Code: 1, Err: []byte(err.Error())}, nil
			}
			return inside.Output{}, nil
		}
		return inside.Output{}, fmt.Errorf("nobody should run %s", c.Path)
	}
	return h
}

// burn is an action whose command notes in a file that it ran.
func (s *system) burn(script string) item.Item {
	return item.New("bootActions.burn", map[string]string{"": item.Done}, item.Action{
		Packages: []item.Item{item.New("packages.stress", map[string]string{"state": item.Present}, nil)},
		Config:   []item.Item{item.New("files./etc/burn", map[string]string{"state": item.Present}, nil)},
		Run:      []string{"/bin/sh", "-c", "echo ran >>$0; " + script, filepath.Join(s.root, "ran")}, Timeout: time.Minute,
	})
}

func (s *system) ran() int {
	text, _ := os.ReadFile(filepath.Join(s.root, "ran"))
	return strings.Count(string(text), "ran")
}

func (s *system) is(key string) inside.Seen {
	s.t.Helper()
	seen, err := s.facet().Observe(s.t.Context(), s.host(nil), []string{key})
	if err != nil {
		s.t.Fatal(err)
	}
	return seen
}

func (s *system) apply(i item.Item, attempt int) error {
	return s.facet().Apply(s.t.Context(), s.host(&item.Once{Attempt: attempt}), []item.Item{i}, nil)
}

func TestDoesOnce(t *testing.T) {
	s := newSystem(t)
	if is := s.is("bootActions.burn").Have["bootActions.burn"]; is != item.NotDone {
		t.Errorf("before: %q", is)
	}
	for range 3 {
		if err := s.apply(s.burn("true"), 1); err != nil {
			t.Fatal(err)
		}
	}
	seen := s.is("bootActions.burn")
	if seen.Have["bootActions.burn"] != item.Done || seen.Have["bootActions.burn.attempts"] != "1" || s.ran() != 1 {
		t.Errorf("it ran %d times: %v", s.ran(), seen)
	}
	if want := []string{"packages packages.stress", "config files./etc/burn"}; strings.Join(s.put, "; ") != strings.Join(want, "; ") {
		t.Errorf("put %q", s.put)
	}
	// Blanks in the marker make no other installation, a generation does.
	s.mark(`{"node":"n1","generation":3,"image":"ab12","token":"signed by now"}`)
	if is := s.is("bootActions.burn").Have["bootActions.burn"]; is != item.Done {
		t.Errorf("with another text of the marker: %q", is)
	}
	s.mark(`{"node": "n1", "generation": 4, "image": "ab12"}`)
	if seen := s.is("bootActions.burn"); seen.Have["bootActions.burn"] != item.NotDone || seen.Have["bootActions.burn.attempts"] != "0" {
		t.Errorf("in the next installation: %v", seen)
	}
}

func TestWhatWasBegunWaitsForAPerson(t *testing.T) {
	for name, c := range map[string]struct {
		script, is, says string
		timeout          time.Duration
	}{
		"exit code":     {"echo; echo 'no route to head'; exit 7", item.Failed, "its exit code is 7; it printed last: no route to head", 0},
		"secret":        {"echo 'token: abcdef'; exit 1", item.Failed, "it printed last: [redacted]", 0},
		"signal":        {"kill -9 $$", item.Failed, "it was ended by a signal (signal: killed)", 0},
		"time is over":  {"sleep 60", item.Failed, "it did not end within 50ms, and was ended", 50 * time.Millisecond},
		"unprintable":   {`printf 'a\033[31mb\n'; exit 1`, item.Failed, "it printed last: a [31mb", 0},
		"no such thing": {"", item.Failed, "it cannot be started: ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			i := s.burn(c.script)
			a := item.Action{Run: []string{"/nowhere/program"}, Timeout: time.Minute}
			if c.script != "" {
				a.Run = []string{"/bin/sh", "-c", "echo ran >>$0; " + c.script, filepath.Join(s.root, "ran")}
			}
			if c.timeout != 0 {
				a.Timeout = c.timeout
			}
			i = item.New(i.Key, i.Fields, a)
			for range 3 { // whoever asks for the same attempt
				if err := s.apply(i, 1); err != nil {
					t.Fatal(err)
				}
			}
			seen := s.is(i.Key)
			if seen.Have[i.Key] != c.is || !strings.Contains(seen.Cannot[i.Key], c.says) || s.ran() > 1 {
				t.Errorf("ran %d times, %q: %q", s.ran(), seen.Have[i.Key], seen.Cannot[i.Key])
			}
			if err := s.apply(i, 3); err == nil || !strings.Contains(err.Error(), "the machine knows is 1") {
				t.Errorf("an attempt too far: %v", err)
			}
			if err := s.apply(s.burn("true"), 2); err != nil {
				t.Fatal(err)
			}
			if seen := s.is(i.Key); seen.Have[i.Key] != item.Done || seen.Have[i.Key+".attempts"] != "2" {
				t.Errorf("after a person asked: %v", seen)
			}
		})
	}
}

// Killed after any write, and asked again as the daemon does, an action is done once or
// waits for a person, and its command never begins twice.
func TestKilledAfterEachWrite(t *testing.T) {
	waited := 0
	for kill := 0; ; kill++ {
		s := newSystem(t)
		s.kill = kill
		first := s.apply(s.burn("true"), 1)
		if s.writes <= kill {
			if first != nil || kill < 5 {
				t.Fatalf("%d writes: %v", kill, first)
			}
			break
		}
		s.kill = -1
		if err := s.apply(s.burn("true"), 1); err != nil {
			t.Fatalf("after write %d: %v", kill, err)
		}
		seen := s.is("bootActions.burn")
		is, begun := seen.Have["bootActions.burn"], seen.Have["bootActions.burn.attempts"]
		switch {
		case is == item.Done && s.ran() == 1 && begun == "1":
		case is == item.Unfinished && s.ran() <= 1 && strings.Contains(seen.Cannot["bootActions.burn"], "Slipway does not know how it ended"):
			waited++
		default:
			t.Errorf("after write %d it ran %d times and is %q", kill, s.ran(), is)
		}
	}
	if waited != 1 {
		t.Errorf("%d of the places wait for a person, and one alone is between begin and end", waited)
	}
}

// A unit that comes late, or twice, does nothing.
func TestLateUnits(t *testing.T) {
	s := newSystem(t)
	if err := s.apply(s.burn("exit 1"), 1); err != nil {
		t.Fatal(err)
	}
	for _, attempt := range []int{0, 1, 2, 3} {
		if err := s.facet().run(t.Context(), s.host(nil), "burn", attempt, io.Discard); err == nil {
			t.Errorf("attempt %d was made", attempt)
		}
	}
	if err := s.facet().run(t.Context(), s.host(nil), "../burn", 1, io.Discard); err == nil {
		t.Error("a name leads out of the folder")
	}
	if s.ran() != 1 {
		t.Errorf("it ran %d times", s.ran())
	}
}

// What runs is joined, and what is asked of another installation refused.
func TestJoinsAndRefuses(t *testing.T) {
	s := newSystem(t)
	here, err := installation(s.host(nil))
	if err != nil {
		t.Fatal(err)
	}
	f := s.facet()
	if err := f.write(file(s.host(nil), "burn", "json"), entry{Installation: here, Attempt: 1, Begun: time.Unix(1e9, 0), Boot: bootID()}); err != nil {
		t.Fatal(err)
	}
	s.units["slipway-action-burn.service"] = true
	if err := s.apply(s.burn("true"), 1); err != nil || s.ran() != 0 {
		t.Errorf("while it runs: %v", err)
	}
	seen := s.is("bootActions.burn")
	if seen.Have["bootActions.burn"] != item.Running || seen.Pending["bootActions.burn"] != item.Done || seen.Have["bootActions.burn.since"] != "2001-09-09T01:46:40Z" {
		t.Errorf("while it runs: %v", seen)
	}
	delete(s.units, "slipway-action-burn.service")
	if seen := s.is("bootActions.burn"); !strings.Contains(seen.Cannot["bootActions.burn"], "is gone, as if it was killed") {
		t.Errorf("when its unit is gone: %v", seen)
	}
	err = f.Apply(t.Context(), s.host(&item.Once{Installation: "another", Attempt: 2}), []item.Item{s.burn("true")}, nil)
	if err == nil || !strings.Contains(err.Error(), "another installation") {
		t.Errorf("for another installation: %v", err)
	}
	if err := os.Remove(filepath.Join(s.root, markerFile)); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(s.burn("true"), 2); err == nil || !strings.Contains(err.Error(), "no marker") || s.ran() != 0 {
		t.Errorf("without a marker: %v", err)
	}
}

// An action that only puts things there ends with them.
func TestWithoutACommand(t *testing.T) {
	s := newSystem(t)
	i := item.New("bootActions.put", map[string]string{"": item.Done}, item.Action{Config: []item.Item{item.New("files./etc/x", map[string]string{"state": item.Present}, nil)}})
	if err := s.apply(i, 1); err != nil {
		t.Fatal(err)
	}
	if seen := s.is(i.Key); seen.Have[i.Key] != item.Done || len(s.put) != 1 {
		t.Errorf("%v, put %q", seen, s.put)
	}
}

// A journal that nobody can read is not one in which nothing was done.
func TestDamagedJournal(t *testing.T) {
	s := newSystem(t)
	if err := s.apply(s.burn("true"), 1); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file(s.host(nil), "burn", "json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if seen := s.is("bootActions.burn"); seen.Unread["bootActions.burn"] == "" || seen.Have["bootActions.burn"] != "" {
		t.Errorf("%v", seen)
	}
	if err := s.apply(s.burn("true"), 1); err == nil || s.ran() != 1 {
		t.Errorf("ran %d times: %v", s.ran(), err)
	}
}
