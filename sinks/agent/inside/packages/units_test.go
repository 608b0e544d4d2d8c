package packages

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// servingList is what dpkg lists of a package with units.
const servingList = "/.\n/lib/systemd/system/serving.service\n/lib/systemd/system/serving@.service\n/lib/systemd/system/data.mount\n/usr/share/serving/version\n"

// shown is what systemctl show tells of a unit.
func shown(id, load, active, file string) string {
	return "Id=" + id + "\nLoadState=" + load + "\nActiveState=" + active + "\nFragmentPath=" + file + "\n\n"
}

// What a removed package has brought is stopped where it still runs, and nothing else is.
func TestUnitsEndWithTheirPackage(t *testing.T) {
	t.Parallel()
	const ours, another = "/lib/systemd/system/serving.service", "/etc/systemd/system/serving.service"
	for name, c := range map[string]struct {
		show, stays string
		stopped     []string
	}{
		"it runs":                          {shown("serving.service", "not-found", "active", "") + shown("serving@a.service", "not-found", "inactive", ""), "", []string{"serving.service"}},
		"systemd has not read that again":  {shown("serving.service", "loaded", "active", ours), "", []string{"serving.service"}},
		"one of a template runs":           {shown("serving.service", "not-found", "inactive", "") + shown("serving@a.service", "not-found", "activating", ""), "", []string{"serving@a.service"}},
		"its scripts stopped it":           {shown("serving.service", "not-found", "inactive", ""), "", nil},
		"a person has a unit of that name": {shown("serving.service", "loaded", "active", another), "", nil},
		"it is masked":                     {shown("serving.service", "masked", "active", another), "", nil},
		"another package has the file":     {shown("serving.service", "loaded", "active", ours), ours, nil},
		"systemd tells of another unit":    {shown("other.service", "not-found", "active", ""), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t)
			s := &running{model: m, show: c.show}
			s.installed(t)
			if c.stays != "" {
				s.put(t, c.stays, "[Service]\n")
			}
			if err := New().Apply(t.Context(), s.host(), nil, []string{"packages.serving"}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.stopped, c.stopped) {
				t.Errorf("stopped %v, want %v", s.stopped, c.stopped)
			}
			if keys := s.host().Owned.Keys(facetName); len(keys) > 0 {
				t.Errorf("owned: %v", keys)
			}
		})
	}
}

// A run that was cut when the package was gone is followed by one that stops its units, also
// where the design wants the package away.
func TestUnitsEndAfterACut(t *testing.T) {
	t.Parallel()
	for name, items := range map[string][]item.Item{"it left the design": nil, "it is absent in the design": {pkg("serving", "", "absent")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &running{model: newModel(t), show: shown("serving.service", "not-found", "active", ""), cut: true}
			s.installed(t)
			apply := func() error {
				var remove []string
				if items == nil {
					remove = []string{"packages.serving"}
				}
				return New().Apply(t.Context(), s.host(), items, remove)
			}
			if err := apply(); err == nil {
				t.Fatal("not cut")
			}
			if s.have["serving"] != "" || len(s.stopped) > 0 {
				t.Fatalf("cut elsewhere: %v, stopped %v", s.have, s.stopped)
			}
			s.cut = false
			for range 2 {
				if err := apply(); err != nil {
					t.Fatal(err)
				}
			}
			if want := []string{"serving.service"}; !slices.Equal(s.stopped, want) {
				t.Errorf("stopped %v, want %v once", s.stopped, want)
			}
		})
	}
}

// running is a model of a system whose services run.
type running struct {
	*model
	show    string
	cut     bool // systemctl cannot be run
	stopped []string
}

func (s *running) put(t *testing.T, path, content string) {
	t.Helper()
	at := filepath.Join(s.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// installed has Slipway install the package.
func (s *running) installed(t *testing.T) {
	t.Helper()
	if err := New().Apply(t.Context(), s.host(), []item.Item{pkg("serving", "", "present")}, nil); err != nil {
		t.Fatal(err)
	}
	s.put(t, "/var/lib/dpkg/info/serving.list", servingList)
}

func (s *running) host() *inside.Host {
	h := s.model.host()
	h.Live = true
	h.Exec = func(ctx context.Context, c inside.Command) (inside.Output, error) {
		if c.Path != "systemctl" {
			return s.exec(ctx, c)
		}
		if s.cut {
			return inside.Output{Code: -1}, errCut
		}
		var out inside.Output
		switch words := strings.Join(c.Args, " "); {
		case strings.Contains(words, " list-units "):
			out.Out = []byte("serving@a.service loaded active running one of a template\n")
		case strings.Contains(words, " show "):
			told := strings.Split(strings.TrimSpace(s.show), "\n\n")
			for _, id := range c.Args[slices.Index(c.Args, "--")+1+len(told):] { // it tells of each that it is asked about
				told = append(told, shown(id, "not-found", "inactive", ""))
			}
			out.Out = []byte(strings.Join(told, "\n\n"))
		case strings.Contains(words, " stop "):
			s.stopped = append(s.stopped, c.Args[slices.Index(c.Args, "--")+1:]...)
		}
		return out, nil
	}
	return h
}
