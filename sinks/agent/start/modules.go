package start

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// Modules are the kernel modules in the ramdisk, with their index files.
type Modules struct {
	folder  string
	files   map[string]string   // by name, below the folder
	needs   map[string][]string // names, each after those that need it
	before  map[string][]string
	aliases []alias
	insert  func(file string) error

	mu     sync.Mutex
	loaded map[string]bool
	asked  map[string]bool // aliases, and whether a module exists for each
}

// alias is a pattern of devices that a module drives. literal is the part before the first wildcard. It
// distinguishes most of the thousands of patterns.
type alias struct{ literal, pattern, module string }

// openModules reads modules.dep, modules.alias and modules.softdep of a folder.
func openModules(folder string) (*Modules, error) {
	m := &Modules{folder: folder, files: map[string]string{}, needs: map[string][]string{}, before: map[string][]string{}, insert: insert,
		loaded: map[string]bool{}, asked: map[string]bool{}}
	dep, err := os.ReadFile(filepath.Join(folder, "modules.dep"))
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(string(dep)) {
		file, rest, _ := strings.Cut(strings.TrimSpace(l), ":")
		name := moduleName(file)
		m.files[name] = file
		for _, other := range strings.Fields(rest) {
			m.needs[name] = append(m.needs[name], moduleName(other))
		}
	}
	aliases, err := os.ReadFile(filepath.Join(folder, "modules.alias"))
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(string(aliases)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "alias" {
			literal := f[1]
			if i := strings.IndexAny(literal, `*?[\`); i >= 0 {
				literal = literal[:i]
			}
			m.aliases = append(m.aliases, alias{literal, f[1], f[2]})
		}
	}
	softdep, err := os.ReadFile(filepath.Join(folder, "modules.softdep"))
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(string(softdep)) {
		if f := strings.Fields(l); len(f) > 3 && f[0] == "softdep" && f[2] == "pre:" {
			m.before[f[1]] = f[3:]
		}
	}
	return m, nil
}

func moduleName(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".")
	return strings.ReplaceAll(base, "-", "_")
}

// Load loads a module by its name, or the modules of an alias that the kernel gives a device. It reports whether
// there is one.
func (m *Modules) Load(name string) (found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if plain := strings.ReplaceAll(name, "-", "_"); m.files[plain] != "" {
		return true, m.load(plain)
	}
	if found, known := m.asked[name]; known {
		return found, nil
	}
	var errs []error
	for _, a := range m.aliases {
		if strings.HasPrefix(name, a.literal) && matches(a.pattern, name) {
			found = true
			errs = append(errs, m.load(a.module))
		}
	}
	m.asked[name] = found
	return found, errors.Join(errs...)
}

// load loads a module after its dependencies. The caller holds the lock.
func (m *Modules) load(name string) error {
	if m.loaded[name] {
		return nil
	}
	m.loaded[name] = true // even on failure: it would fail again
	for _, other := range m.before[name] {
		_ = m.load(other) // optional
	}
	for _, other := range slices.Backward(m.needs[name]) {
		if err := m.load(other); err != nil {
			return err
		}
	}
	if err := m.insert(filepath.Join(m.folder, m.files[name])); err != nil {
		return fmt.Errorf("the kernel does not take the module %s: %w", name, err)
	}
	return nil
}

// insert gives a module to the kernel. An already loaded module is fine.
func insert(file string) error {
	content, err := os.ReadFile(file)
	if err != nil || len(content) == 0 {
		return errors.Join(err, fs.ErrInvalid)
	}
	parameters := []byte{0}
	_, _, number := syscall.Syscall(syscall.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&content[0])), uintptr(len(content)), uintptr(unsafe.Pointer(&parameters[0])))
	if number != 0 && number != syscall.EEXIST {
		return number
	}
	return nil
}

// matches compares like fnmatch(3): "*", "?" and "[…]" are special, "/" is not.
func matches(pattern, name string) bool {
	hide := strings.NewReplacer("/", "\x01")
	ok, err := path.Match(hide.Replace(pattern), hide.Replace(name))
	return ok && err == nil
}

// Devices loads modules for all devices that have none yet. It returns how many aliases had a module, and what went
// wrong.
func (m *Modules) Devices(sys string) (asked int, err error) {
	var errs []error
	walk := func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "modalias" || d.IsDir() {
			return nil // the device went away
		}
		text, _ := os.ReadFile(file)
		name := strings.TrimSpace(string(text))
		m.mu.Lock()
		_, known := m.asked[name]
		m.mu.Unlock()
		if known || name == "" {
			return nil
		}
		found, err := m.Load(name)
		if found {
			asked++
		}
		errs = append(errs, err)
		return nil
	}
	_ = filepath.WalkDir(filepath.Join(sys, "devices"), walk) // walk returns no error
	return asked, errors.Join(errs...)
}
