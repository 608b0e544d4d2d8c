package design

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
	"cuelang.org/go/mod/modfile"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/schema"
)

// loader makes CUE instances of a pack. It replaces cue/load, which reads
// directories of the host through @embed and module replacements, and needs a
// registry for the schema. An instance belongs to one context, so every load
// parses again.
type loader struct {
	pack
	findings findings
	// module is the repository's own module path, version its language version.
	module  string
	version string

	// State of the current load: pkg is the site's package. done and stack use
	// canonical import paths. before is the number of earlier findings.
	pkg     string
	context *build.Context
	done    map[string]*build.Instance
	stack   []string
	before  int
	// edit is applied to each file of the repository after parsing, if edited
	// is set.
	edit   func(*ast.File)
	edited bool
	// basis is that of the current load, ready one for the next load. bare says
	// which kind to make.
	basis, ready *basis
	bare         bool
}

func newLoader(p pack) *loader { return &loader{pack: p, version: cue.LanguageVersion()} }

// readModule reads the module file.
func (l *loader) readModule() {
	for name := range l.files {
		if path.Dir(name) == "cue.mod" && path.Base(name) != path.Base(moduleFile) {
			l.findings.add(site.Finding{
				Code: "local-module", Severity: site.SeverityError, File: name,
				Message: name + " is not allowed",
				Why:     "It can point the design at folders of the machine that evaluates it.",
				Fix:     "Remove it; packages of others go under cue.mod/pkg.",
			})
		}
	}
	src, ok := l.files[moduleFile]
	if !ok {
		l.findings.add(site.Finding{
			Code: "no-module", Severity: site.SeverityError, File: moduleFile,
			Message: "the repository has no " + moduleFile,
			Why:     "It gives the module's name, by which its packages import each other, and the version of CUE they are written in.",
			Fix:     fmt.Sprintf("Write one: `module: \"example.org/site\"` and `language: version: %q`.", cue.LanguageVersion()),
		})
		return
	}
	m, err := modfile.Parse(src, moduleFile)
	if err != nil {
		for _, e := range errors.Errors(err) {
			l.findings.at(or(origin(position(e), "site"), moduleFile), site.Finding{
				Code: "module-file", Message: message(e),
				Why: "It says what the repository's packages are called, and in which version of CUE they are written.",
				Fix: fmt.Sprintf("Give it `module: \"example.org/site\"` and `language: version:` up to %q.", cue.LanguageVersion()),
			})
		}
		return
	}
	l.module, l.version = ast.ParseImportPath(m.Module).Path, m.Language.Version
}

// load makes the instance of the site's package, with the schema bound to its
// top-level fields. It returns nil when there are findings.
func (l *loader) load() *build.Instance {
	l.before = len(l.findings.list)
	if l.bare && l.namesEffective() {
		l.bare, l.ready = false, nil
	}
	l.basis, l.ready = l.ready, nil
	if l.basis == nil {
		l.basis = newBasis(l.bare)
	}
	l.context = l.basis.loading
	l.done = map[string]*build.Instance{schema.Path: l.basis.schema}
	name := l.mainPackage()
	l.pkg = name
	inst := l.instance(l.dir, name)
	if inst == nil {
		return nil
	}
	f, err := parser.ParseFile(schemaPrefix+"binding.cue", l.bindingText(name))
	if err != nil {
		return l.complete(inst) // a name that is not valid in CUE is an error in each file
	}
	inst.AddSyntax(f)
	return l.complete(inst)
}

// bindingText returns the file that the engine adds to a site's package. It
// applies the schema even to a site that forgot to bind its fields.
func (l *loader) bindingText(pkg string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\nimport slipwaySchema %q\n", pkg, schema.Path)
	for _, s := range sections {
		if l.reads(s.name) {
			fmt.Fprintf(&b, s.bind+"\n", "slipwaySchema."+s.definition)
		}
	}
	return b.String()
}

// schemaPrefix begins the file names of the schema within CUE. No path in a
// revision begins with a slash.
const schemaPrefix = "/schema/"

func (l *loader) loadSchema(bare bool) *build.Instance {
	inst := l.context.NewInstance(schemaPrefix, l.resolve)
	names, _ := fs.Glob(schema.Files, "*.cue")
	for _, name := range names {
		src, _ := fs.ReadFile(schema.Files, name)
		f, err := parser.ParseFile(schemaPrefix+name, src)
		if err != nil {
			panic(err) // embedded, and parsed by the tests
		}
		if bare {
			f.Decls = slices.DeleteFunc(f.Decls, isEffective)
			stripAttributes(f)
		}
		inst.AddSyntax(f)
	}
	inst.ImportPath = schema.Path
	if err := inst.Complete(); err != nil {
		panic(err)
	}
	return inst
}

// effectives are the definitions for nodes with merged layers. Slipway checks
// no layer against them, so CUE does not need to know them; only their shapes
// are used.
var effectives = []string{"#Effective", "#Node", "#VirtualNode"}

func isEffective(d ast.Decl) bool {
	f, ok := d.(*ast.Field)
	return ok && slices.ContainsFunc(effectives, func(name string) bool { return labelled(f, name) })
}

// namesEffective reports whether the repository may refer to one of them.
func (l *loader) namesEffective() bool {
	for _, text := range l.files {
		if slices.ContainsFunc(effectives, func(name string) bool { return bytes.Contains(text, []byte(name)) }) {
			return true
		}
	}
	return false
}

func stripAttributes(f *ast.File) {
	ast.Walk(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok {
			field.Attrs = nil
		}
		return true
	}, nil)
}

// mainPackage returns the package name that most files of the site's directory
// have. It reports the other files.
func (l *loader) mainPackage() string {
	count := map[string]int{}
	in := l.inDir(l.dir)
	for _, name := range in {
		if pkg := packageName(l.files[name]); pkg != "" {
			count[pkg]++
		}
	}
	main := l.site
	if len(count) > 0 {
		main = slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	}
	for _, name := range in {
		if pkg := packageName(l.files[name]); pkg != main {
			l.otherPackage(name, pkg, main)
		}
	}
	return main
}

func (l *loader) otherPackage(name, pkg, main string) {
	is := "belongs to package " + pkg
	if pkg == "" {
		is = "names no package"
	}
	line := 1
	if at := packageClause.FindSubmatchIndex(l.files[name]); at != nil {
		line += bytes.Count(l.files[name][:at[2]], []byte("\n"))
	}
	l.findings.add(site.Finding{
		Code: "other-package", Severity: site.SeverityError, File: name, Line: line, Col: 1,
		Message: fmt.Sprintf("%s %s, the site's package is %s", path.Base(name), is, main),
		Why:     "Its fields would not be part of the site.",
		Fix:     fmt.Sprintf("Write `package %s`, or move the file to a directory of its own and import it.", main),
	})
}

// inDir lists the files of a directory in order.
func (l *loader) inDir(dir string) []string {
	var in []string
	for name := range l.files {
		if path.Dir(name) == dir {
			in = append(in, name)
		}
	}
	slices.Sort(in)
	return in
}

// instance parses the files of a package: those in its directory and, in its
// own module, those of the same package in directories above. It does not
// complete the instance.
func (l *loader) instance(dir, pkg string) *build.Instance {
	inst := l.context.NewInstance(dir, l.resolve)
	inst.PkgName, inst.Module, inst.CanonicalImportPath = pkg, l.module, canonical
	good := true
	for _, d := range lineage(dir) {
		for _, name := range l.inDir(d) {
			if packageName(l.files[name]) == pkg {
				good = l.parse(inst, name) && good
			}
		}
	}
	if !good {
		return nil
	}
	return inst
}

// lineage lists the directories that contribute to a package, outermost first.
func lineage(dir string) []string {
	if dir == "." || strings.HasPrefix(dir, "cue.mod/") {
		return []string{dir}
	}
	return append(lineage(path.Dir(dir)), dir)
}

// parse adds one file to an instance.
func (l *loader) parse(inst *build.Instance, name string) bool {
	f, err := parser.ParseFile(name, l.files[name], parser.Version(l.version))
	if err != nil {
		l.syntax(err, name)
		// The readable part of the file still shows its imports.
	}
	if f == nil {
		return false
	}
	l.refuseAttributes(f)
	if l.edited {
		l.edit(f)
	}
	if l.divided && inst.PkgName == l.pkg && slices.Contains(lineage(l.dir), path.Dir(name)) {
		withoutSpareImports(f)
	}
	if err := inst.AddSyntax(f); err != nil {
		l.syntax(err, name)
		return false
	}
	return true
}

// refused are attributes that make CUE read the host, or give the same files
// different meanings.
var refused = map[string]string{
	"extern": "It makes CUE read files or run code that are not part of the design's text.",
	"embed":  "It makes CUE read files that are not part of the design's text.",
	"if":     "A design must mean the same wherever it is evaluated.",
	"ignore": "A file that exists but does not count misleads its readers.",
}

func (l *loader) refuseAttributes(f *ast.File) {
	ast.Walk(f, func(n ast.Node) bool {
		a, ok := n.(*ast.Attribute)
		if !ok {
			return true
		}
		key, _ := a.Split()
		if why, bad := refused[key]; bad {
			l.findings.at(origin(a.Pos(), "site"), site.Finding{
				Code: "attribute-refused", Message: "@" + key + " is not allowed", Why: why,
				Fix: "Write what it stands for.",
			})
		}
		return true
	}, nil)
}

// complete resolves imports and identifiers. It returns nil when there are
// findings.
func (l *loader) complete(inst *build.Instance) *build.Instance {
	if err := inst.Complete(); err != nil {
		l.syntax(err, inst.Dir)
	}
	if !l.edited { // an import may be used only in an expression that was cut
		for _, err := range errors.Errors(inst.ResolutionErr) {
			l.findings.at(origin(err.Position(), "site"), site.Finding{
				Code: "import-unused", Message: message(err),
				Why: "CUE refuses a package with an import that nothing uses.", Fix: "Remove the line, or use the import.",
			})
		}
	}
	if site.HasErrors(l.findings.list[l.before:]) {
		return nil
	}
	return inst
}

// canonical returns an import path without a version, and without a package
// name that equals the path's last element.
func canonical(importPath string) string {
	ip := ast.ParseImportPath(importPath)
	ip.Version = ""
	return ip.Canonical().String()
}

// resolve finds an imported package by its canonical path: CUE's own, the
// schema from this binary, the repository's module, or a package under
// cue.mod/pkg. It reports any other import.
func (l *loader) resolve(pos token.Pos, importPath string) *build.Instance {
	ip := ast.ParseImportPath(importPath)
	if slices.Contains(l.stack, importPath) {
		l.findings.at(origin(pos, "site"), site.Finding{
			Code:    "import-cycle",
			Message: "packages import each other: " + strings.Join(append(l.stack, importPath), " → "),
			Why:     "Neither can be evaluated before the other.",
			Fix:     "Move what both need into a third package.",
		})
		return nil
	}
	if inst, ok := l.done[importPath]; ok {
		return inst
	}
	if first, _, _ := strings.Cut(ip.Path, "/"); !strings.Contains(first, ".") {
		if first == "tool" {
			l.noImport(pos, ip, "It acts on the host, which a design must not.")
		}
		return nil
	}
	dir, ok := l.importDir(ip)
	if !ok {
		l.noImport(pos, ip, "Nothing is fetched while a design is evaluated.")
		return nil
	}
	l.stack = append(l.stack, importPath)
	defer func() { l.stack = l.stack[:len(l.stack)-1] }()
	inst := l.instance(dir, ip.Qualifier)
	if inst == nil {
		return nil
	}
	if len(inst.Files) == 0 {
		l.noImport(pos, ip, fmt.Sprintf("No file in %s belongs to package %s.", dir, ip.Qualifier))
		return nil
	}
	inst.ImportPath = importPath
	l.done[importPath] = inst
	return l.complete(inst)
}

// importDir returns the directory of an imported package in the pack.
func (l *loader) importDir(ip ast.ImportPath) (string, bool) {
	dir := path.Join("cue.mod/pkg", ip.Path)
	if ip.Path == l.module {
		dir = "."
	} else if rest, ok := strings.CutPrefix(ip.Path, l.module+"/"); ok && l.module != "" {
		dir = rest
	}
	return dir, fs.ValidPath(dir) && len(l.inDir(dir)) > 0
}

func (l *loader) noImport(pos token.Pos, ip ast.ImportPath, why string) {
	fix := fmt.Sprintf("Copy the package to cue.mod/pkg/%s, or remove the import.", ip.Path)
	if build.IsLocalImport(ip.Path) || l.module != "" && strings.HasPrefix(ip.Path, l.module+"/") {
		fix = fmt.Sprintf("A package in the directory dir of this repository is imported as %q.", l.module+"/dir")
	}
	l.findings.at(origin(pos, "site"), site.Finding{
		Code: "import-not-found", Message: fmt.Sprintf("the package %q cannot be imported", ip.Path),
		Why: why, Fix: fix,
	})
}

// syntax adds errors of the parser.
func (l *loader) syntax(err error, file string) {
	said := map[string]bool{} // one mistake of a line may be several errors
	for _, e := range errors.Errors(err) {
		f := site.Finding{
			Code: "syntax", Message: message(e),
			Why: "The file cannot be read as CUE.", Fix: "Correct the text; `cue fmt` shows where the error is.",
		}
		if p := position(e); ours(p) {
			f = asMistake(f, l.files[p.Filename()], p)
			if key := fmt.Sprint(p.Line(), f.Message); said[key] {
				continue
			} else {
				said[key] = true
			}
		}
		l.findings.at(or(origin(position(e), "site"), file), f)
	}
}

// lineAt returns the line of a position.
func lineAt(src []byte, p token.Pos) string {
	start := before(src, p)
	from := p.Offset() - len(start)
	if start == "" && p.Column() > 1 && from > 0 && from <= len(src) { // at the end of the line before
		from = bytes.LastIndexByte(src[:from-1], '\n') + 1
	}
	if from < 0 || from > len(src) {
		return ""
	}
	line, _, _ := bytes.Cut(src[from:], []byte("\n"))
	return string(line)
}
