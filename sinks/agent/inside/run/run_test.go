package run_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// memory is a facet of items that are only remembered. It may be cut at a write.
type memory struct {
	have    map[string]string
	applies int
	before  func(h *inside.Host, key string) error
}

func (m *memory) Observe(_ context.Context, _ *inside.Host, keys []string) (inside.Seen, error) {
	seen := inside.Seen{Have: map[string]string{}}
	for _, key := range keys {
		for name, v := range m.have {
			if name == key || strings.HasPrefix(name, key+".") {
				seen.Have[name] = v
			}
		}
	}
	return seen, nil
}

func (m *memory) Apply(_ context.Context, h *inside.Host, items []item.Item, remove []string) error {
	m.applies++
	for _, i := range items {
		if err := h.Owned.Take("config", i.Key, nil); err != nil {
			return err
		}
		if m.before != nil {
			if err := m.before(h, i.Key); err != nil {
				return err
			}
		}
		m.have[i.Key] = i.Fields[""]
	}
	for _, key := range remove {
		delete(m.have, key)
		if err := h.Owned.Drop("config", key); err != nil {
			return err
		}
	}
	return nil
}

type system struct {
	t     *testing.T
	root  string
	facet *memory
}

func newSystem(t *testing.T) *system {
	return &system{t, t.TempDir(), &memory{have: map[string]string{}}}
}

func (s *system) ask(r wire.Request) (progress []string, _ wire.Result) {
	s.t.Helper()
	var in, out bytes.Buffer
	if err := wire.Write(&in, r); err != nil {
		s.t.Fatal(err)
	}
	p := run.Program{Host: inside.Real(s.root, true), Facets: map[string]inside.Facet{"config": s.facet}}
	if err := p.Answer(s.t.Context(), &in, &out); err != nil {
		s.t.Fatal(err)
	}
	for {
		var f wire.Frame
		if err := wire.Read(&out, &f); err != nil {
			s.t.Fatal(err)
		}
		if f.Result != nil {
			return progress, *f.Result
		}
		progress = append(progress, f.Progress.Text)
	}
}

func apply(term uint64, owned string, remove []string, items ...string) wire.Request {
	a := &wire.Apply{Facet: "config", Remove: remove, Owned: owned}
	for _, key := range items {
		a.Items = append(a.Items, item.New(key, map[string]string{"": "1"}, nil))
	}
	return wire.Request{Version: wire.Version, Op: wire.OpApply, Site: "s", Node: "n", Term: term, Apply: a}
}

func (s *system) is(r wire.Result, class, says string) {
	s.t.Helper()
	if class == "" && r.Error != nil || class != "" && (r.Error == nil || r.Error.Class != class || !strings.Contains(r.Error.Text, says)) {
		s.t.Errorf("got %+v, want %s that says %q", r.Error, class, says)
	}
}

func (s *system) file(name string) string { return filepath.Join(s.root, inside.Folder, name) }

func TestFenceOfTerms(t *testing.T) {
	s := newSystem(t)
	for _, c := range []struct {
		site  string
		term  uint64
		class string
	}{{"s", 3, ""}, {"s", 2, wire.Refused}, {"s", 3, ""}, {"other", 1, ""}, {"s", 5, ""}, {"s", 3, wire.Refused}, {"s", 0, wire.Refused}} {
		r := apply(c.term, "", nil, "a")
		r.Site = c.site
		s.facet.have = map[string]string{} // so that there is something to write
		_, got := s.ask(r)
		s.is(got, c.class, "has written to this machine, and this daemon is of term ")
	}
	_, got := s.ask(wire.Request{Version: wire.Version, Op: wire.OpObserve, Site: "s"})
	if got.Term != 5 {
		t.Errorf("a look tells of term %d", got.Term)
	}
	if err := os.WriteFile(s.file("term"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, got = s.ask(apply(9, "", nil, "a"))
	s.is(got, wire.Refused, "cannot be read")
}

func TestOneRunAtATime(t *testing.T) {
	s := newSystem(t)
	var inner wire.Result
	var seen wire.Result
	s.facet.before = func(*inside.Host, string) error {
		s.facet.before = nil
		_, seen = s.ask(wire.Request{Version: wire.Version, Op: wire.OpObserve, Observe: map[string][]string{"config": {"a"}}})
		_, inner = s.ask(apply(1, "", nil, "b"))
		return nil
	}
	_, got := s.ask(apply(1, "", nil, "a"))
	s.is(got, "", "")
	s.is(inner, wire.Busy, "another run of Slipway writes to this machine (config) since ")
	if !strings.Contains(seen.Busy, "another run of Slipway writes") || seen.Error != nil {
		t.Errorf("a look meanwhile: %+v", seen)
	}
	_, got = s.ask(wire.Request{Version: wire.Version, Op: wire.OpObserve})
	if got.Busy != "" {
		t.Errorf("afterwards: %q", got.Busy)
	}
}

// Nothing is written where nothing differs.
func TestSecondPassWritesNothing(t *testing.T) {
	s := newSystem(t)
	_, got := s.ask(apply(1, "", nil, "a", "b"))
	s.is(got, "", "")
	times := func() (all []time.Time) {
		for _, name := range []string{"term", "journal", "owned.json", "."} {
			info, err := os.Stat(s.file(name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, info.ModTime())
		}
		return all
	}
	before := times()
	_, got = s.ask(apply(1, "", nil, "a", "b"))
	s.is(got, "", "")
	if s.facet.applies != 1 || !slices.Equal(before, times()) || got.Facets["config"].Have["b"] != "1" {
		t.Errorf("the facet was called %d times; got %+v", s.facet.applies, got)
	}
}

// What is ours is removed where the list is the one of the records, or has become what
// it is by our own runs.
func TestRemoval(t *testing.T) {
	s := newSystem(t)
	_, first := s.ask(apply(1, "", nil, "a", "b"))
	_, got := s.ask(apply(1, "0a0b", []string{"b", "not-ours"}, "a"))
	s.is(got, wire.Refused, "nothing was removed of b: the machine's list")
	// The daemon was killed before it could record the first list.
	_, got = s.ask(apply(1, "", []string{"b"}, "a"))
	s.is(got, "", "")
	if !slices.Equal(got.Facets["config"].Owned, []string{"a"}) || got.Owned == first.Owned {
		t.Errorf("got %+v", got)
	}
}

// A field that the design names no more goes back, though all else is as designed. A
// second pass writes nothing.
func TestFieldsThatLeft(t *testing.T) {
	s := newSystem(t)
	key, list := "units.a.service", ""
	ask := func(fields map[string]string) wire.Facet {
		r := apply(1, list, nil)
		r.Apply.Items = []item.Item{item.New(key, fields, nil)}
		_, got := s.ask(r)
		s.is(got, "", "")
		list = got.Owned
		return got.Facets["config"]
	}
	s.facet.have[key+".enabled"], s.facet.have[key+".state"] = "true", "stopped"
	both := map[string]string{"enabled": "true", "state": "running"}
	s.facet.before = func(*inside.Host, string) error { s.facet.have[key+".state"] = "running"; return nil }
	if got := ask(both).Asked[key]; !slices.Equal(got, []string{"enabled", "state"}) {
		t.Errorf("it was asked for %q", got)
	}
	s.facet.applies = 0
	one := map[string]string{"enabled": "true"}
	for range 3 {
		if got := ask(one).Asked[key]; !slices.Equal(got, []string{"enabled"}) {
			t.Errorf("it was asked for %q", got)
		}
	}
	if s.facet.applies != 1 {
		t.Errorf("applied %d times", s.facet.applies)
	}
	// Where the run fails, what was to go back is not forgotten.
	s.facet.have[key+".state"] = "stopped"
	ask(both)
	s.facet.before = func(*inside.Host, string) error { return errors.New("the disk is full") }
	r := apply(1, list, nil)
	r.Apply.Items = []item.Item{item.New(key, one, nil)}
	_, got := s.ask(r)
	s.is(got, wire.Failed, "the disk is full")
	if asked := got.Facets["config"].Asked[key]; !slices.Equal(asked, []string{"enabled", "state"}) {
		t.Errorf("after a run that failed it was asked for %q", asked)
	}
}

// A list that somebody edited on the machine sets nothing back: an item with a field that would
// go back is left as it is, and the others are made.
func TestAnEditedListSetsNothingBack(t *testing.T) {
	s, key := newSystem(t), "units.a.service"
	s.facet.have[key+".enabled"], s.facet.have[key+".state"] = "true", "stopped"
	s.facet.before = func(*inside.Host, string) error { s.facet.have[key+".state"] = "running"; return nil }
	r := apply(1, "", nil, "a")
	r.Apply.Items = append(r.Apply.Items, item.New(key, map[string]string{"enabled": "true", "state": "running"}, nil))
	_, first := s.ask(r)
	s.is(first, "", "")
	_, now := s.ask(apply(1, first.Owned, nil, "a", "b")) // so that no run of ours explains another list
	s.is(now, "", "")
	s.facet.applies = 0
	r = apply(1, "0a0b", nil, "c")
	r.Apply.Items = append(r.Apply.Items, item.New(key, map[string]string{"enabled": "true"}, nil))
	_, got := s.ask(r)
	s.is(got, wire.Refused, "nothing was set back of units.a.service (state): the machine's list")
	if asked := got.Facets["config"].Asked[key]; !slices.Equal(asked, []string{"enabled", "state"}) || s.facet.have[key+".state"] != "running" {
		t.Errorf("it is %q and was asked for %q", s.facet.have, asked)
	}
	if s.facet.have["c"] != "1" {
		t.Errorf("what else was asked for is not there: %q", s.facet.have)
	}
	r.Apply.Owned = got.Owned
	_, got = s.ask(r)
	s.is(got, "", "")
	if asked := got.Facets["config"].Asked[key]; !slices.Equal(asked, []string{"enabled"}) {
		t.Errorf("with the list of the records it was asked for %q", asked)
	}
}

// A field that a run made which was killed goes back as any other, though the run came
// not so far that it noted what was asked for.
func TestFieldsOfAKilledRun(t *testing.T) {
	for _, owned := range []bool{false, true} {
		s, key, list := newSystem(t), "units.a.service", ""
		ask := func(fields map[string]string) wire.Facet {
			r := apply(1, list, nil)
			r.Apply.Items = []item.Item{item.New(key, fields, nil)}
			if _, got := s.ask(r); s.facet.before == nil { // else it was killed, and nobody recorded anything
				list = got.Owned
			}
			_, got := s.ask(wire.Request{Version: wire.Version, Op: wire.OpObserve, Site: "s", Observe: map[string][]string{"config": {key}}})
			return got.Facets["config"]
		}
		s.facet.have[key+".enabled"], s.facet.have[key+".state"] = "true", "stopped"
		if owned {
			ask(map[string]string{"enabled": "false"})
		}
		s.facet.before = func(*inside.Host, string) error { s.facet.have[key+".state"] = "running"; panic("killed") }
		both := []string{"enabled", "state"}
		if got := ask(map[string]string{"enabled": "true", "state": "running"}).Asked[key]; !slices.Equal(got, both) {
			t.Errorf("owned before: %v: it was asked for %q", owned, got)
		}
		s.facet.before = nil
		if got := ask(map[string]string{"enabled": "true"}).Asked[key]; !slices.Equal(got, both[:1]) {
			t.Errorf("owned before: %v: it was asked for %q in the end", owned, got)
		}
	}
}

// A run that is cut anywhere is gone on with, removals included, although the list has
// changed since the records were made.
func TestCutRunsGoOn(t *testing.T) {
	s := newSystem(t)
	_, first := s.ask(apply(1, "", nil, "a", "b"))
	cut := errors.New("cut")
	s.facet.before = func(_ *inside.Host, key string) error {
		if key == "c" {
			return cut
		}
		return nil
	}
	_, got := s.ask(apply(1, first.Owned, []string{"b"}, "a", "c"))
	s.is(got, wire.Failed, "cut")
	s.facet.before = nil
	progress, got := s.ask(apply(2, first.Owned, []string{"b"}, "a", "c"))
	s.is(got, "", "")
	if len(progress) == 0 || !strings.Contains(progress[0], "an earlier run failed: config (a, c, b), begun at ") || !strings.Contains(progress[0], "in term 1: cut") {
		t.Errorf("it told %q", progress)
	}
	if !slices.Equal(got.Facets["config"].Owned, []string{"a", "c"}) {
		t.Errorf("got %+v", got)
	}
}

// Neither progress nor errors carry what looks like a secret.
func TestSecretsAreNotSent(t *testing.T) {
	s := newSystem(t)
	s.facet.before = func(h *inside.Host, _ string) error {
		h.Tell("fetch http://ops:hunter@192.0.2.1/x\nfetched")
		return errors.New("a.service did not start:\nPASSWORD=hunter\nexit 1")
	}
	progress, got := s.ask(apply(1, "", nil, "a"))
	s.is(got, wire.Failed, "a.service did not start:\n[redacted]\nexit 1")
	if text := strings.Join(progress, "\n"); strings.Contains(text+got.Error.Text, "hunter") || !strings.Contains(text, "[redacted]\nfetched") {
		t.Errorf("told is %q, %+v", text, got.Error)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		make        func(r *wire.Request, s *system)
		class, says string
	}{
		"another version": {func(r *wire.Request, _ *system) { r.Version = 99 }, wire.Refused, "version 99"},
		"another request": {func(r *wire.Request, _ *system) { r.Op = "format" }, wire.Refused, `"format" is unknown`},
		"another facet":   {func(r *wire.Request, _ *system) { r.Apply.Facet = "../x" }, wire.Refused, `the facet "../x"`},
		"of nothing":      {func(r *wire.Request, _ *system) { r.Apply = nil }, wire.Refused, "does not say what"},
		"no such change":  {func(r *wire.Request, _ *system) { r.Op = wire.OpConfirm }, wire.Refused, "no facet"},
		"a panic":         {func(_ *wire.Request, s *system) { s.facet.have = nil }, wire.Failed, "run_test.go:"},
		"a broken list": {func(_ *wire.Request, s *system) {
			if err := os.MkdirAll(s.file("owned.json"), 0o700); err != nil {
				s.t.Fatal(err)
			}
		}, wire.Refused, "the list of what Slipway made"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			r := apply(1, "", nil, "a")
			c.make(&r, s)
			_, got := s.ask(r)
			s.is(got, c.class, c.says)
		})
	}
}

func TestDetect(t *testing.T) {
	for name, c := range map[string]struct {
		files                        map[string]string
		family, id, release, network string
	}{
		"debian": {map[string]string{"usr/lib/os-release": "ID=debian\nVERSION_ID=\"12\"\n", "etc/network/interfaces": "auto lo\niface lo inet loopback\niface eno1 inet dhcp\n"}, "debian", "debian", "12", "ifupdown"},
		"ubuntu": {map[string]string{"etc/os-release": "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n", "etc/netplan/01.yaml": "", "etc/systemd/system/multi-user.target.wants/systemd-networkd.service": ""}, "debian", "ubuntu", "24.04", "netplan"},
		"rocky":  {map[string]string{"etc/os-release": "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\n", "etc/systemd/system/multi-user.target.wants/NetworkManager.service": ""}, "rhel", "rocky", "9.4", "networkmanager"},
		"cloud":  {map[string]string{"etc/os-release": "ID=debian\n", "etc/network/interfaces": "iface lo inet loopback\n", "etc/systemd/system/multi-user.target.wants/systemd-networkd.service": ""}, "debian", "debian", "", "networkd"},
		"empty":  {nil, "", "", "", ""},
		"others": {map[string]string{"etc/os-release": "ID=alpine\nVERSION_ID=3.20\n# x=y\nnonsense"}, "alpine", "alpine", "3.20", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, content := range c.files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := run.Detect(root)
			if got.Family != c.family || got.ID != c.id || got.Release != c.release || got.Network != c.network || got.Kernel == "" || got.BootID == "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A link out of the root folder is not followed.
func TestDetectStaysInside(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "os-release"), []byte("ID=other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(root, "etc")); err != nil {
		t.Fatal(err)
	}
	if got := run.Detect(root); got.ID != "" {
		t.Errorf("got %+v", got)
	}
}
