package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// environment is what is noted of an environment that we make.
type environment struct {
	Path     string   `json:"path"`
	Packages []string `json:"packages"`       // those that were asked for
	Drop     []string `json:"drop,omitempty"` // those that are no longer, until they are gone
}

func noted(h *inside.Host, key string) (environment, bool) {
	var env environment
	e, ours := h.Owned.Entry(facetName, key)
	if !ours || len(e.Made) == 0 || json.Unmarshal(e.Made, &env) != nil || checkPath(env.Path) != nil {
		return environment{}, false
	}
	return env, true
}

// observeLanguage tells the versions that an environment of ours has of the
// packages that were asked for. What these depend on is not told: to pin it, the
// design names it.
func observeLanguage(h *inside.Host, key string, s inside.Seen) {
	env, ok := noted(h, key)
	if !ok {
		return
	}
	t, err := tree.Open(h.Root)
	if err != nil {
		s.Unread[key] = err.Error()
		return
	}
	defer t.Close()
	if _, _, err := environmentAt(t, env.Path); err != nil {
		s.Cannot[key] = err.Error()
		return
	}
	have, err := versions(t, env.Path, slices.Concat(env.Packages, env.Drop))
	switch {
	case err != nil:
		s.Unread[key] = err.Error()
	case len(have) > 0 || len(env.Packages) == 0 && isEnvironment(t, env.Path):
		s.Have[key] = item.Language{Packages: have, Path: env.Path}.Text()
	}
}

// isEnvironment says whether an environment was made as a whole: pip is the last of it.
func isEnvironment(t *tree.Tree, folder string) bool { return t.Exists(folder + "/bin/pip") }

// maxMetadata bounds METADATA of a package, in bytes. It has the package's whole description.
const maxMetadata = 16 << 20

// versions reads which versions of packages an environment has.
func versions(t *tree.Tree, folder string, names []string) (map[string]string, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[item.PythonName(name)] = true
	}
	have := map[string]string{}
	libraries, err := t.Names(folder + "/lib")
	if err != nil {
		return nil, err
	}
	for _, library := range libraries {
		if !strings.HasPrefix(library, "python") {
			continue
		}
		site := path.Join(folder, "lib", library, "site-packages")
		entries, err := t.Names(site)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			name, ok := strings.CutSuffix(entry, ".dist-info")
			if !ok {
				continue
			}
			name, _, _ = strings.Cut(name, "-")
			if !wanted[item.PythonName(name)] {
				continue
			}
			text, err := t.Read(path.Join(site, entry, "METADATA"), maxMetadata)
			if errors.Is(err, fs.ErrNotExist) { // a cut left it
				continue
			}
			if err != nil {
				return nil, err
			}
			if name, version := parseMetadata(text); wanted[name] {
				have[name] = version
			}
		}
	}
	return have, nil
}

// parseMetadata reads the name and the version in METADATA of a dist-info folder.
func parseMetadata(text []byte) (name, version string) {
	for line := range strings.Lines(string(text[:min(len(text), 1<<16)])) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		if v, ok := strings.CutPrefix(line, "Name:"); ok && name == "" {
			name = item.PythonName(strings.TrimSpace(v))
		}
		if v, ok := strings.CutPrefix(line, "Version:"); ok && version == "" {
			version = strings.TrimSpace(v)
		}
	}
	return name, version
}

var forbidden = regexp.MustCompile(`^/(proc|sys|dev|run|etc|boot|bin|sbin|lib[^/]*|usr/(s?bin|lib[^/]*))(/|$)|^/var/lib/(slipway|dpkg|apt|rpm)(/|$)`)

// checkPath says why an environment cannot be at a path.
func checkPath(name string) error {
	switch {
	case !path.IsAbs(name) || path.Clean(name) != name || strings.Count(name, "/") < 2 || forbidden.MatchString(name):
		return fmt.Errorf("the path %q is not one of a folder like /opt/NAME", printable(name))
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }): // scripts begin with it
		return fmt.Errorf("the path %q has blanks, which the scripts of an environment cannot have", printable(name))
	}
	return nil
}

// environmentAt is where an environment is or will be, without the links above it. It
// refuses a place in which an account other than root could put a python of its own,
// which Slipway would run as root, or a link to what is removed with the environment.
func environmentAt(t *tree.Tree, name string) (at string, there bool, err error) {
	at, there, err = t.RootsFolder(name)
	if err == nil {
		err = checkPath(at)
	}
	if err != nil {
		return "", false, unsafeEnvironment(name, err)
	}
	return at, there, nil
}

// unsafeEnvironment is the error of an environment that is not used, and not removed.
func unsafeEnvironment(name string, err error) error {
	return refused("the environment %s is neither used nor removed: %v. Give it a folder of root below folders of root, such as /opt/NAME, "+
		"and remove by hand what is there", name, err)
}

func (a *apply) languages(ctx context.Context) error {
	if len(a.remove[item.KindLanguage])+len(a.items[item.KindLanguage]) == 0 {
		return nil
	}
	t, err := tree.Open(a.h.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	t.Label = a.h.Label
	for _, key := range a.remove[item.KindLanguage] {
		if env, ok := noted(a.h, key); ok {
			if err := a.removeEnvironment(t, env.Path); err != nil {
				return err
			}
		}
		if err := a.h.Owned.Drop(facetName, key); err != nil {
			return err
		}
	}
	for _, i := range a.items[item.KindLanguage] {
		if err := a.language(ctx, t, i); err != nil {
			return err
		}
	}
	return nil
}

func (a *apply) removeEnvironment(t *tree.Tree, folder string) error {
	at, there, err := environmentAt(t, folder)
	if err != nil || !there {
		return err
	}
	a.h.Tell("environment " + folder + " is removed")
	where, err := os.OpenRoot(a.h.Path(at))
	if err != nil {
		return err
	}
	defer where.Close()
	for _, name := range madeByVenv {
		if err := where.RemoveAll(name); err != nil {
			return err
		}
	}
	if text, err := t.Read(at+"/.gitignore", 1<<10); err == nil && string(text) == venvIgnores {
		if err := where.Remove(".gitignore"); err != nil {
			return err
		}
	}
	return removeEmpty(a.h, at)
}

// madeByVenv is what venv and pip make in the folder of an environment. What else is
// there is somebody else's, and stays.
var madeByVenv = []string{"bin", "lib", "lib64", "include", "share", "pyvenv.cfg"}

// venvIgnores is the .gitignore that venv makes besides since Python 3.13.
const venvIgnores = "# Created by venv; see https://docs.python.org/3/library/venv.html\n*\n"

func checkLanguage(l item.Language) error {
	if l.Kind != "python" {
		return fmt.Errorf("only python environments are supported, not %q", printable(l.Kind))
	}
	for name, version := range l.Packages {
		if len(name)+len(version) > maxName || !pythonName.MatchString(name) || !pythonVersion.MatchString(version) {
			return fmt.Errorf("%q at version %q is not a Python package", printable(name), printable(version))
		}
	}
	if strings.ContainsFunc(l.Index, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("its index is not a URL")
	}
	return checkPath(l.Path)
}

// language makes one environment.
func (a *apply) language(ctx context.Context, t *tree.Tree, i item.Item) error {
	l, err := body[item.Language](i)
	if err != nil {
		return err
	}
	what := "environment " + printable(item.ID(i.Key))
	if err := checkLanguage(l); err != nil {
		return refused("%s: %v", what, err)
	}
	old, ours := noted(a.h, i.Key)
	if _, _, err := environmentAt(t, l.Path); err != nil {
		return err
	}
	if !ours || old.Path != l.Path {
		there, err := t.Names(l.Path)
		if err != nil || len(there) > 0 {
			return refused("%s: %s is there and was not made by Slipway. Remove it, or name another path", what, l.Path)
		}
	}
	names := slices.Sorted(maps.Keys(l.Packages))
	have, err := versions(t, l.Path, slices.Concat(names, old.Drop))
	if err != nil {
		return err
	}
	if ours && old.Path == l.Path && (item.Language{Packages: have, Path: l.Path}).Text() == l.Text() && slices.Equal(names, old.Packages) && len(old.Drop) == 0 && (len(names) > 0 || isEnvironment(t, l.Path)) {
		return nil
	}
	if ours && old.Path != l.Path {
		if err := a.removeEnvironment(t, old.Path); err != nil {
			return err
		}
		old = environment{}
	}
	if err := a.h.Owned.Take(facetName, i.Key, nil); err != nil {
		return err
	}
	env := environment{Path: l.Path, Packages: names}
	for _, name := range slices.Concat(old.Packages, old.Drop) {
		if !slices.ContainsFunc(names, func(n string) bool { return item.PythonName(n) == item.PythonName(name) }) {
			env.Drop = append(env.Drop, name)
		}
	}
	if err := a.note(i.Key, env); err != nil {
		return err
	}
	if err := a.install(ctx, t, what, l, env); err != nil {
		return err
	}
	env.Drop = nil
	if err := a.note(i.Key, env); err != nil {
		return err
	}
	have, err = versions(t, l.Path, names)
	if err != nil {
		return err
	}
	if got := (item.Language{Packages: have, Path: l.Path}).Text(); got != l.Text() {
		return failed("%s: pip ended without an error, and there is %s", what, got)
	}
	return nil
}

func (a *apply) note(key string, env environment) error {
	made, err := json.Marshal(env)
	if err != nil {
		return err
	}
	return a.h.Owned.Note(facetName, key, made)
}

// install makes the environment where it is missing or was cut, and lets pip do
// the rest.
func (a *apply) install(ctx context.Context, t *tree.Tree, what string, l item.Language, env environment) error {
	a.h.Tell(what + ": " + l.Text())
	if err := a.prepare(t, l.Path); err != nil {
		return err
	}
	if !isEnvironment(t, l.Path) {
		out, err := a.h.Exec(ctx, inside.Command{Path: "python3", Args: []string{"-m", "venv", l.Path}, Timeout: 5 * time.Minute})
		if err := outcome(what+": python3 -m venv (the package python3-venv brings it)", out, err); err != nil {
			return err
		}
	}
	pipEnv := []string{"PIP_CONFIG_FILE=/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_CACHE_DIR=1", "PIP_ROOT_USER_ACTION=ignore"}
	if l.Index != "" {
		pipEnv = append(pipEnv, "PIP_INDEX_URL="+l.Index) // not an argument, which others could see
	}
	python := l.Path + "/bin/python"
	if len(env.Drop) > 0 {
		out, err := a.h.Exec(ctx, inside.Command{Path: python, Args: slices.Concat([]string{"-m", "pip", "uninstall", "--no-input", "-q", "-y", "--"}, env.Drop), Env: pipEnv, Timeout: 5 * time.Minute})
		if err := outcome(what+": pip uninstall "+some(env.Drop), out, err); err != nil {
			return err
		}
	}
	if len(l.Packages) == 0 {
		return nil
	}
	args := []string{"-m", "pip", "install", "--no-input", "-q", "--"}
	for _, name := range slices.Sorted(maps.Keys(l.Packages)) {
		args = append(args, name+"=="+l.Packages[name])
	}
	out, err := a.h.Exec(ctx, inside.Command{Path: python, Args: args, Env: pipEnv, Timeout: 20 * time.Minute})
	return outcome(what+": pip install "+some(args[6:]), out, err)
}

// prepare makes the folder of an environment, or makes sure that all which is in it, and
// which Python may load there, is root's alone.
func (a *apply) prepare(t *tree.Tree, folder string) error {
	if err := t.MakeFolder(folder); err != nil {
		return err
	}
	at, there, err := environmentAt(t, folder)
	if err != nil {
		return err
	}
	if !there {
		return failed("the folder %s was removed while Slipway worked in it", folder)
	}
	for _, name := range madeByVenv {
		err := t.RootsFiles(a.h.Root, path.Join(at, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unsafeEnvironment(folder, err)
		}
	}
	return nil
}
