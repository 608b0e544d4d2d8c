package ramdisk

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These are the folders of the archive. The agent's links (wire.ToolsLinks) point to them, and Debian's loader
// searches the second one for libraries by default.
const (
	programFolder = "usr/sbin/"
	libraryFolder = "usr/lib/x86_64-linux-gnu/"
	loaderFolder  = "lib64/"
)

// programFolders and libraryFolders are where packages have programs and libraries, without the leading "usr/" that
// only some Debian releases use.
var (
	programFolders = []string{"sbin/", "bin/"}
	libraryFolders = []string{"lib/x86_64-linux-gnu/", "lib/", "lib64/"}
)

// toolbox finds the agent's programs and their libraries in packages.
type toolbox struct {
	pool   *pool
	opened map[string]*parts
	files  map[string][]byte // of the archive, by path
	from   map[string]bool   // the packages that the files come from
	// loaders are the libraries that start programs. Each is at the path that its programs name.
	loaders map[string]bool
}

// parts are the files of a package that an archive may need, with paths without a leading "usr/".
type parts struct {
	*deb
	files map[string][]byte
	links map[string]string
}

// missing is a library that a file needs.
type missing struct{ library, by, of string }

// makeTools builds the archive of programs for disks, and records its contents in b.
func makeTools(ctx context.Context, p *pool, tell func(what string, have, all int64), b *Built) ([]byte, error) {
	t := &toolbox{pool: p, opened: map[string]*parts{}, files: map[string][]byte{}, from: map[string]bool{}, loaders: map[string]bool{}}
	tell("reads the programs for disks", 0, 0)
	if err := t.collect(ctx); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(t.files))
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, name := range names {
		mode := int64(0o644)
		if strings.HasPrefix(name, programFolder) || strings.HasPrefix(name, loaderFolder) {
			mode = 0o755
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(t.files[name])), Mode: mode, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(t.files[name]); err != nil {
			return nil, err
		}
		b.Tools.Unpacked += h.Size
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	packed, err := compressed(ctx, plain.Bytes(), toolsWindow, func(have, of int64) { tell("packs the programs for disks", have, of) })
	if err != nil {
		return nil, err
	}
	if len(packed) > wire.MaxTools || b.Tools.Unpacked > wire.MaxUnpackedTools {
		return nil, fmt.Errorf("the programs for disks would have %d bytes packed and %d unpacked, more than the %d and %d that the agent takes",
			len(packed), b.Tools.Unpacked, wire.MaxTools, wire.MaxUnpackedTools)
	}
	for _, p := range wire.Programs {
		b.Tools.Programs = append(b.Tools.Programs, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(t.from)) {
		is, err := told(t.opened[name].deb)
		if err != nil {
			return nil, err
		}
		b.Tools.Packages = append(b.Tools.Packages, is)
	}
	return packed, nil
}

// collect fills the archive: first the programs, then their libraries, until nothing is missing.
func (t *toolbox) collect(ctx context.Context) error {
	var packages []string
	for _, p := range wire.Programs {
		packages = append(packages, p.Package)
	}
	slices.Sort(packages)
	if err := t.open(ctx, slices.Compact(packages), true); err != nil {
		return err
	}
	var needs []missing
	for _, p := range wire.Programs {
		of := t.opened[p.Package]
		content := of.find(p.Name, programFolders)
		if content == nil {
			return fmt.Errorf("%s: it has no program %s", of.file.Name(), p.Name)
		}
		more, err := t.add(programFolder+p.Name, content, p.Package)
		if err != nil {
			return err
		}
		needs = append(needs, more...)
		if p.File == "" {
			continue
		}
		if t.files[p.File] = of.files[p.File]; t.files[p.File] == nil {
			return fmt.Errorf("%s: it has no file /%s, which %s reads", of.file.Name(), p.File, p.Name)
		}
	}
	for len(needs) > 0 {
		var next, lack []missing
		for _, n := range needs {
			more, found, err := t.resolve(n)
			if err != nil {
				return err
			}
			if !found {
				lack = append(lack, n)
			}
			next = append(next, more...)
		}
		opened, err := t.openNeeded(ctx, lack)
		if err != nil {
			return err
		}
		if needs = append(next, lack...); len(lack) > 0 && len(next) == 0 && !opened {
			return t.lacks(lack)
		}
	}
	return nil
}

// resolve adds a library to the archive, and returns the libraries that it needs. found is false if no open package
// has it.
func (t *toolbox) resolve(n missing) (more []missing, found bool, err error) {
	at := libraryFolder + n.library
	if t.loaders[n.library] { // all programs are read before the first library
		at = loaderFolder + n.library
	}
	if t.files[at] != nil {
		return nil, true, nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.opened)) {
		if content := t.opened[name].find(n.library, libraryFolders); content != nil {
			more, err = t.add(at, content, name)
			return more, true, err
		}
	}
	return nil, false, nil
}

// add adds a program or library to the archive, and returns the libraries that it needs. For a program, one of them
// is its loader, whose path the program names.
func (t *toolbox) add(at string, content []byte, of string) (needs []missing, err error) {
	name := path.Base(at)
	wrong := func(why string) ([]missing, error) {
		return nil, fmt.Errorf("%s: %s of it %s", t.opened[of].file.Name(), name, why)
	}
	e, err := elf.NewFile(bytes.NewReader(content))
	if err != nil || e.Machine != elf.EM_X86_64 {
		return wrong("is neither a program nor a library for " + architecture)
	}
	libraries, err := e.ImportedLibraries()
	if err != nil {
		return wrong("cannot be read: " + err.Error())
	}
	t.files[at], t.from[of] = content, true
	for _, p := range e.Progs {
		if p.Type != elf.PT_INTERP || !strings.HasPrefix(at, programFolder) {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(p.Open(), maxLoader))
		loader := strings.TrimRight(string(text), "\x00")
		if err != nil || path.Dir(loader)+"/" != "/"+loaderFolder || !isName(path.Base(loader)) {
			return wrong(fmt.Sprintf("is started by %q, which is not in /%s", loader, loaderFolder))
		}
		t.loaders[path.Base(loader)] = true
		needs = append(needs, missing{path.Base(loader), name, of})
	}
	for _, library := range libraries {
		if !isName(library) {
			return wrong(fmt.Sprintf("needs the library %q, which is not the name of a file", library))
		}
		needs = append(needs, missing{library, name, of})
	}
	return needs, nil
}

// isName reports whether a text is a plain file name.
func isName(text string) bool { return text == path.Base(text) && text != "." && text != ".." }

// maxLoader bounds the path of a loader, in bytes.
const maxLoader = 4096

// openNeeded opens the library packages that packages with missing libraries depend on, and reports whether it
// opened a new one. A missing package is not an error, because nothing in it may be needed.
func (t *toolbox) openNeeded(ctx context.Context, lack []missing) (opened bool, err error) {
	var names []string
	for _, n := range lack {
		for _, name := range t.opened[n.of].libraries() {
			if t.opened[name] == nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	before := len(t.opened)
	if len(names) > 0 {
		slices.Sort(names)
		err = t.open(ctx, names, false)
	}
	return len(t.opened) > before, err
}

// lacks says which library no package has, and which missing packages may contain the libraries.
func (t *toolbox) lacks(all []missing) error {
	var absent []string
	for _, n := range all {
		for _, name := range t.opened[n.of].libraries() {
			if t.opened[name] == nil {
				absent = append(absent, name)
			}
		}
	}
	slices.Sort(absent)
	what := fmt.Sprintf("%s of the package %s needs the library %s, and no package has it", all[0].by, all[0].of, all[0].library)
	if len(absent) == 0 {
		return fmt.Errorf("%s: the packages are of different releases", what)
	}
	return fmt.Errorf("%s: put the packages %s into %s (`apt-get download` fetches them)", what, strings.Join(slices.Compact(absent), ", "), t.pool.folder)
}

// open opens packages and reads the files that an archive may need.
func (t *toolbox) open(ctx context.Context, names []string, must bool) error {
	all, err := t.pool.get(ctx, names, must)
	for name, d := range all {
		t.opened[name] = &parts{deb: d, files: map[string][]byte{}, links: map[string]string{}}
	}
	if err != nil {
		return err
	}
	for name := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := t.opened[name].read(); err != nil {
			return fmt.Errorf("%s: %w", t.opened[name].file.Name(), err)
		}
	}
	return nil
}

// read keeps the files of a package that an archive may need.
func (p *parts) read() error {
	all := int64(0)
	return p.each("data.tar", func(name string, h *tar.Header, content io.Reader) (err error) {
		name = strings.TrimPrefix(name, "usr/")
		folder, base := path.Split(name)
		isProgram, isLibrary := slices.Contains(programFolders, folder), slices.Contains(libraryFolders, folder) && strings.Contains(base, ".so")
		isRead := slices.ContainsFunc(wire.Programs, func(w wire.Program) bool { return w.File == name })
		if !isProgram && !isLibrary && !isRead {
			return nil
		}
		switch h.Typeflag {
		case tar.TypeReg:
			if all += h.Size; all > maxFile {
				return fmt.Errorf("its programs and libraries have more than %d bytes", maxFile)
			}
			p.files[name], err = readFile(h, content)
		case tar.TypeSymlink:
			to := h.Linkname
			if !path.IsAbs(to) {
				to = path.Join("/", folder, to)
			}
			p.links[name] = within(to)
		case tar.TypeLink:
			p.links[name] = within(path.Join("/", h.Linkname))
		}
		return err
	})
}

// within is an absolute path of a package in the form of parts.
func within(to string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path.Clean(to), "/"), "usr/")
}

// find returns the content of a name in one of the folders; nil if it is missing.
func (p *parts) find(name string, folders []string) []byte {
	const longest = 8 // links in a chain
	for _, folder := range folders {
		at := folder + name
		for range longest {
			if content := p.files[at]; content != nil {
				return content
			}
			at = p.links[at]
		}
	}
	return nil
}

// libraries are the library packages that a package depends on, sorted. Debian names them lib…, except zlib's. Of
// alternatives, the first counts: the package was built with it.
func (d *deb) libraries() (names []string) {
	for field := range strings.SplitSeq(d.fields["Pre-Depends"]+","+d.fields["Depends"], ",") {
		name := strings.TrimSpace(field)
		if end := strings.IndexAny(name, " :(|["); end >= 0 {
			name = name[:end]
		}
		if (strings.HasPrefix(name, "lib") || name == "zlib1g") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
