package packages

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// app is the number of an account other than root.
const app = 1000

// ownEnvironment is a host on which Slipway made an environment at /srv/app/venv, with the
// package one.
func ownEnvironment(t *testing.T) (*model, *inside.Host) {
	t.Helper()
	m := newModel(t)
	for file, text := range map[string]string{
		"usr/bin/x": "", "srv/app/venv/pyvenv.cfg": "", "srv/app/venv/bin/pip": "", "srv/app/venv/bin/python": "",
		"srv/app/venv/lib/python3/site-packages/one-1.0.dist-info/METADATA": "Name: one\nVersion: 1.0\n",
	} {
		at := filepath.Join(m.root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h := m.host()
	if err := errors.Join(h.Owned.Take(facetName, "language.tools", nil), h.Owned.Note(facetName, "language.tools", []byte(`{"path":"/srv/app/venv","packages":["one"]}`))); err != nil {
		t.Fatal(err)
	}
	return m, h
}

// Where an account other than root could put a python of its own, or lead the removal
// elsewhere, an environment is neither used nor removed.
func TestEnvironmentsOfOthers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root can give files to another account")
	}
	own := func(name string) func(string) error {
		return func(root string) error { return os.Lchown(filepath.Join(root, name), app, app) }
	}
	for name, c := range map[string]struct {
		lay      func(root string) error
		why      string
		contents bool // what is wrong is within the environment, which is removed all the same
	}{
		"the folder above is the account's": {own("srv/app"), "/srv/app belongs to the account number 1000", false},
		"the folder is the account's":       {own("srv/app/venv"), "/srv/app/venv belongs to the account number 1000", false},
		"a group writes above": {func(root string) error { return os.Chmod(filepath.Join(root, "srv/app"), 0o775) },
			"/srv/app may be written by accounts other than root", false},
		"all write in it": {func(root string) error { return os.Chmod(filepath.Join(root, "srv/app/venv"), 0o777|os.ModeSticky) },
			"/srv/app/venv may be written by accounts other than root", false},
		"the account put a link there": {func(root string) error {
			venv := filepath.Join(root, "srv/app/venv")
			return errors.Join(own("srv/app")(root), os.RemoveAll(venv), os.Symlink("/usr", venv), own("srv/app/venv")(root))
		}, "/srv/app belongs to the account number 1000", false},
		"root put a link there": {func(root string) error {
			venv := filepath.Join(root, "srv/app/venv")
			return errors.Join(os.RemoveAll(venv), os.Symlink("/usr", venv))
		}, "/srv/app/venv is a link and not a folder", false},
		"a link above leads to what is the system's": {func(root string) error {
			return errors.Join(os.RemoveAll(filepath.Join(root, "srv/app")), os.Symlink("/etc", filepath.Join(root, "srv/app")))
		}, `"/etc/venv" is not one of a folder`, false},
		"a file in it is the account's": {own("srv/app/venv/bin/python"), "/srv/app/venv/bin/python belongs to the account number 1000", true},
	} {
		t.Run(name, func(t *testing.T) {
			m, h := ownEnvironment(t)
			if err := c.lay(m.root); err != nil {
				t.Fatal(err)
			}
			designed := item.Item{Key: "language.tools", Body: []byte(`{"kind":"python","path":"/srv/app/venv","packages":{"one":"2.0"}}`)}
			err := New().Apply(t.Context(), h, []item.Item{designed}, nil)
			if classOf(err) != wire.Refused || !strings.Contains(err.Error(), c.why) || len(m.ran) > 0 {
				t.Errorf("%v after %v", err, m.ran)
			}
			seen, err := New().Observe(t.Context(), h, []string{"language.tools"})
			if err != nil || !c.contents && (!strings.Contains(seen.Cannot["language.tools"], c.why) || len(seen.Have) > 0) {
				t.Errorf("seen as %+v: %v", seen, err)
			}
			if !c.contents {
				if err := New().Apply(t.Context(), h, nil, []string{"language.tools"}); classOf(err) != wire.Refused || !strings.Contains(err.Error(), c.why) {
					t.Errorf("removed: %v", err)
				}
			}
			if _, err := os.Stat(filepath.Join(m.root, "usr/bin/x")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A folder that an account made for the first installation is not used either, also where
// everybody may make folders.
func TestPlacesForEnvironments(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root can give files to another account")
	}
	for name, c := range map[string]struct {
		lay func(tmp string) error
		why string
	}{
		"nothing is there":           {func(string) error { return nil }, ""},
		"an account made the folder": {func(tmp string) error { return errors.Join(os.Mkdir(tmp+"/v", 0o755), os.Chown(tmp+"/v", app, app)) }, "/tmp/v belongs to"},
		"an account may remove it":   {func(tmp string) error { return os.Chmod(tmp, 0o777) }, "/tmp may be written"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t)
			tmp := filepath.Join(m.root, "tmp")
			if err := errors.Join(os.Mkdir(tmp, 0o755), os.Chmod(tmp, 0o777|os.ModeSticky), c.lay(tmp)); err != nil {
				t.Fatal(err)
			}
			designed := item.Item{Key: "language.tools", Body: []byte(`{"kind":"python","path":"/tmp/v","packages":{"one":"2.0"}}`)}
			err := New().Apply(t.Context(), m.host(), []item.Item{designed}, nil)
			if c.why == "" {
				if !slices.Contains(m.ran, "python3 -m venv /tmp/v") {
					t.Errorf("%v after %v", err, m.ran)
				}
			} else if classOf(err) != wire.Refused || !strings.Contains(err.Error(), c.why) || len(m.ran) > 0 {
				t.Errorf("%v after %v", err, m.ran)
			}
		})
	}
}

// A pipe in the place of a package's description keeps no look waiting.
func TestPipesInEnvironments(t *testing.T) {
	t.Parallel()
	m, h := ownEnvironment(t)
	pipe := filepath.Join(m.root, "srv/app/venv/lib/python3/site-packages/one-1.0.dist-info/METADATA")
	if err := errors.Join(os.Remove(pipe), syscall.Mkfifo(pipe, 0o644)); err != nil {
		t.Fatal(err)
	}
	done := make(chan inside.Seen, 1)
	go func() {
		seen, _ := New().Observe(t.Context(), h, []string{"language.tools"})
		done <- seen
	}()
	select {
	case seen := <-done:
		if !strings.Contains(seen.Unread["language.tools"], "is not a file") {
			t.Errorf("seen as %+v", seen)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the look waits for the pipe")
	}
}
