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

// Where the archive has what it has. The agent's links (wire.ToolsLinks) lead to these folders,
// and the loader of Debian looks for libraries in the second one by itself.
const (
	programFolder = "usr/sbin/"
	libraryFolder = "usr/lib/x86_64-linux-gnu/"
	loaderFolder  = "lib64/"
)

// programFolders and libraryFolders are where packages have programs and libraries, without
// "usr/" in front, which a release of Debian has and another one does not.
var (
	programFolders = []string{"sbin/", "bin/"}
	libraryFolders = []string{"lib/x86_64-linux-gnu/", "lib/", "lib64/"}
)

// toolbox finds the programs that the agent runs, and the libraries that they need, in packages.
type toolbox struct {
	pool   *pool
	opened map[string]*parts
	files  map[string][]byte // of the archive, by their paths in it
	from   map[string]bool   // the packages that these come from
	// loaders are the libraries that start programs: each is where its programs say.
	loaders map[string]bool
}

// parts are the files of a package that an archive may need, without "usr/" in front of their
// paths.
type parts struct {
	*deb
	files map[string][]byte
	links map[string]string
}

// missing is a library that a file needs.
type missing struct{ library, by, of string }

// makeTools makes the archive of programs for disks, and notes in b what is in it.
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

// collect fills the archive: the programs first, and then what they need, until nothing is
// missing.
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

// resolve puts a library into the archive, and tells what that needs. found is false where no
// open package has it.
func (t *toolbox) resolve(n missing) (more []missing, found bool, err error) {
	at := libraryFolder + n.library
	if t.loaders[n.library] { // known of all programs before the first library is looked for
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

// add puts a program or a library into the archive, and tells which libraries it needs. One of
// them is the loader of a program, whose path the program names.
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

// isName says whether a text names a file in a folder.
func isName(text string) bool { return text == path.Base(text) && text != "." && text != ".." }

// maxLoader bounds the path of a loader, in bytes.
const maxLoader = 4096

// openNeeded opens the packages of libraries that those with missing libraries depend on, and
// says whether there was one that was not open before. One that is not there is no error: of
// what it has nothing may be needed.
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

// lacks says which library no package has, and which packages may have it and the others.
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

// open opens packages and reads what an archive may need of them.
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

// within is an absolute path of a package as parts has it.
func within(to string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path.Clean(to), "/"), "usr/")
}

// find is the content of a name in one of some folders; nil where it is not there.
func (p *parts) find(name string, folders []string) []byte {
	const longest = 8 // links in a row
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

// libraries are the packages of libraries that a package depends on, in order. Debian calls them
// lib…, but for that of zlib; of alternatives the first is the one that it is built with.
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
