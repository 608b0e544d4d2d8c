package packages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// environment is the record of a Python environment that Slipway makes.
type environment struct {
	Path     string   `json:"path"`
	Packages []string `json:"packages"` // the requested packages
}

func noted(h *inside.Host, key string) (environment, bool) {
	var env environment
	e, ours := h.Owned.Entry(facetName, key)
	if !ours || len(e.Made) == 0 || json.Unmarshal(e.Made, &env) != nil || checkPath(env.Path) != nil {
		return environment{}, false
	}
	return env, true
}

// observeLanguage reports the versions of all packages in our environment, except those that Python put there.
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
	have, err := versions(t, env.Path, env.Packages)
	switch {
	case err != nil:
		s.Unread[key] = err.Error()
	case len(have) > 0 || len(env.Packages) == 0 && isEnvironment(t, env.Path):
		s.Have[key] = item.Language{Packages: have, Path: env.Path}.Text()
	}
}

// isEnvironment reports whether an environment is complete: pip comes last.
func isEnvironment(t *tree.Tree, folder string) bool { return t.Exists(folder + "/bin/pip") }

// maxMetadata bounds a package's METADATA, in bytes. It contains the whole description.
const maxMetadata = 16 << 20

// cameWithIt are the packages that Python installs into a new environment.
var cameWithIt = []string{"pip", "setuptools", "wheel", "pkg-resources"}

// versions reads the packages of an environment and their versions. Packages that Python put there count only if
// their names were requested.
func versions(t *tree.Tree, folder string, names []string) (map[string]string, error) {
	hidden := map[string]bool{}
	for _, name := range cameWithIt {
		hidden[name] = true
	}
	for _, name := range names {
		delete(hidden, item.PythonName(name))
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
			if hidden[item.PythonName(name)] {
				continue
			}
			text, err := t.Read(path.Join(site, entry, "METADATA"), maxMetadata)
			if errors.Is(err, fs.ErrNotExist) { // left by an interruption
				continue
			}
			if err != nil {
				return nil, err
			}
			if name, version := parseMetadata(text); name != "" && !hidden[name] {
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

var forbidden = inside.Pattern(`^/(proc|sys|dev|run|etc|boot|bin|sbin|lib[^/]*|usr/(s?bin|lib[^/]*))(/|$)|^/var/lib/(slipway|dpkg|apt|rpm)(/|$)`)

// checkPath says why an environment cannot be at a path.
func checkPath(name string) error {
	switch {
	case !path.IsAbs(name) || path.Clean(name) != name || strings.Count(name, "/") < 2 || forbidden().MatchString(name):
		return fmt.Errorf("the path %q is not one of a folder like /opt/NAME", printable(name))
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }): // scripts start with the path
		return fmt.Errorf("the path %q has blanks, which the scripts of an environment cannot have", printable(name))
	}
	return nil
}

// environmentAt is the place of an environment without the links above it. It refuses a place where an account
// other than root could put its own python, which Slipway would run as root, or a link to what is removed with the
// environment.
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

// unsafeEnvironment is the error for an environment that Slipway neither uses nor removes.
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

// madeByVenv lists what venv and pip create in an environment's folder. Anything else there stays.
var madeByVenv = []string{"bin", "lib", "lib64", "include", "share", "pyvenv.cfg"}

// venvIgnores is the .gitignore that venv adds since Python 3.13.
const venvIgnores = "# Created by venv; see https://docs.python.org/3/library/venv.html\n*\n"

func checkLanguage(l item.Language) error {
	if l.Kind != "python" {
		return fmt.Errorf("only python environments are supported, not %q", printable(l.Kind))
	}
	for name, version := range l.Packages {
		if len(name)+len(version) > maxName || !pythonName().MatchString(name) || !pythonVersion().MatchString(version) {
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
	have, err := versions(t, l.Path, names)
	if err != nil {
		return err
	}
	if ours && old.Path == l.Path && (item.Language{Packages: have, Path: l.Path}).Text() == l.Text() && slices.Equal(names, old.Packages) && (len(names) > 0 || isEnvironment(t, l.Path)) {
		return nil
	}
	if ours && old.Path != l.Path {
		if err := a.removeEnvironment(t, old.Path); err != nil {
			return err
		}
		have = nil
	}
	if err := a.h.Owned.Take(facetName, i.Key, nil); err != nil {
		return err
	}
	if err := a.note(i.Key, environment{Path: l.Path, Packages: names}); err != nil {
		return err
	}
	if err := a.install(ctx, t, what, l, notNamed(l, have)); err != nil {
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

// notNamed are the sorted names of packages that the design does not name.
func notNamed(l item.Language, packages map[string]string) []string {
	named := map[string]bool{}
	for name := range l.Packages {
		named[item.PythonName(name)] = true
	}
	var others []string
	for name := range packages {
		if !named[item.PythonName(name)] {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return others
}

func (a *apply) note(key string, env environment) error {
	made, err := json.Marshal(env)
	if err != nil {
		return err
	}
	return a.h.Owned.Note(facetName, key, made)
}

// install makes an environment that is missing or incomplete, and lets pip do the rest. pip removes packages that
// the design does not name, and installs exactly those that it names.
func (a *apply) install(ctx context.Context, t *tree.Tree, what string, l item.Language, drop []string) error {
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
	var pinned []string
	for _, name := range slices.Sorted(maps.Keys(l.Packages)) {
		pinned = append(pinned, name+"=="+l.Packages[name])
	}
	if err := a.namesAll(ctx, what, l, pinned); err != nil {
		return err
	}
	if len(drop) > 0 {
		out, err := a.pip(ctx, l, slices.Concat([]string{"uninstall", "--no-input", "-q", "-y", "--"}, drop))
		if err := outcome(what+": pip uninstall "+some(drop), out, err); err != nil {
			return err
		}
	}
	if len(pinned) == 0 {
		return nil
	}
	out, err := a.pip(ctx, l, slices.Concat([]string{"install", "--no-deps", "--no-input", "-q", "--"}, pinned))
	if err := outcome(what+": pip install "+some(pinned), out, err); err != nil {
		return err
	}
	out, err = a.pip(ctx, l, []string{"check"})
	return outcome(what+": it has all designed packages, but they need more packages. Add those with their versions to `system.environments`; pip check", out, err)
}

// pip runs the pip of an environment. The index is not an argument, because other users could see it.
func (a *apply) pip(ctx context.Context, l item.Language, args []string) (inside.Output, error) {
	env := []string{"PIP_CONFIG_FILE=/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_CACHE_DIR=1", "PIP_ROOT_USER_ACTION=ignore"}
	if l.Index != "" {
		env = append(env, "PIP_INDEX_URL="+l.Index)
	}
	return a.h.Exec(ctx, inside.Command{Path: l.Path + "/bin/python", Args: append([]string{"-m", "pip"}, args...), Env: env, Timeout: 20 * time.Minute})
}

// namesAll refuses a design that does not name all dependencies of its packages, before changing anything. A pip
// before 22.2 cannot tell; then pip check finds it after the installation.
func (a *apply) namesAll(ctx context.Context, what string, l item.Language, pinned []string) error {
	if len(pinned) == 0 {
		return nil
	}
	out, err := a.pip(ctx, l, slices.Concat([]string{"install", "--dry-run", "--ignore-installed", "--no-input", "--"}, pinned))
	if err == nil && out.Code != 0 && bytes.Contains(out.Err, []byte("no such option: --dry-run")) {
		return nil
	}
	if err := outcome(what+": pip install "+some(pinned), out, err); err != nil {
		return err
	}
	would := wouldInstall(out.Out)
	var missing []string
	for _, name := range notNamed(l, would) {
		missing = append(missing, fmt.Sprintf("%q: %q", name, would[name]))
	}
	if len(missing) > 0 {
		return refused("%s: its packages depend on others that the design does not name. Add them to `packages` of the environment, with the versions that you want; pip would take %s. "+
			"No package of the environment was changed", what, some(missing))
	}
	return nil
}

// wouldInstall reads the packages and versions that pip install --dry-run names.
func wouldInstall(text []byte) map[string]string {
	would := map[string]string{}
	for line := range strings.Lines(string(text)) {
		names, ok := strings.CutPrefix(line, "Would install ")
		if !ok {
			continue
		}
		for _, name := range strings.Fields(names) {
			if i := strings.LastIndexByte(name, '-'); i > 0 && pythonName().MatchString(name[:i]) && pythonVersion().MatchString(name[i+1:]) {
				would[item.PythonName(name[:i])] = name[i+1:]
			}
		}
	}
	return would
}

// prepare makes the folder of an environment, or checks that everything in it that Python may load is only root's.
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
