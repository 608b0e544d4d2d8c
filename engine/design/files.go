package design

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// moduleFile makes a repository a CUE module.
const moduleFile = "cue.mod/module.cue"

// sitesDir holds one package for each site of a repository with several.
const sitesDir = "sites"

// Limits limit one evaluation. A zero field means its default.
type Limits struct {
	// Timeout limits the time that workers spend on one evaluation, without the time
	// spent waiting for a worker; default 60 s.
	Timeout time.Duration
	// Memory limits the data of one worker, in bytes; default 4 GiB.
	Memory int64
	// FileBytes, PackageBytes and Files limit what is read of a repository; default
	// 1 MiB, 32 MiB and 20,000.
	FileBytes    int64
	PackageBytes int64
	Files        int
	// Response limits the answers of workers to one evaluation, in bytes; default
	// 128 MiB.
	Response int64
	// Values limits how many values the nodes of a site have together. A node itself
	// counts as ten; default 4 million. A few lines can give a thousand values each
	// to a thousand nodes.
	Values int64
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Timeout:      cmp.Or(l.Timeout, time.Minute),
		Memory:       cmp.Or(l.Memory, 4<<30),
		FileBytes:    cmp.Or(l.FileBytes, 1<<20),
		PackageBytes: cmp.Or(l.PackageBytes, 32<<20),
		Files:        cmp.Or(l.Files, 20_000),
		Response:     cmp.Or(l.Response, 128<<20),
		Values:       cmp.Or(l.Values, 4_000_000),
	}
}

// pack is everything that the evaluation of one site may read.
type pack struct {
	site string
	// dir is the directory of the site's package, "." for the root.
	dir   string
	files map[string][]byte
	// data are the JSON and YAML files that the design may name.
	data map[string][]byte
	// sealed are the files in the site's folder of secrets. Workers do not get them.
	sealed map[string][]byte
	// ids are the content IDs of the files, empty where there are none.
	ids map[string]string
	// sections are the sections to read; nil means all. Others are present only so
	// far as these refer to them.
	sections []string
	// divided says that parts of files were left out.
	divided bool
	// entangled says that nodes may refer to each other.
	entangled bool
}

// reads reports whether a section is to be read.
func (p *pack) reads(section string) bool {
	return p.sections == nil || slices.Contains(p.sections, section)
}

// text returns a file's text, or nil without that file.
func (p *pack) text(name string) []byte {
	if src, ok := p.files[name]; ok {
		return src
	}
	return p.data[name]
}

// Sites lists the names of the sites in a repository: the directories under
// sites/ that hold CUE files or, without any, the package at the root.
func Sites(files fs.FS) ([]string, error) {
	names, err := sitesBelow(files)
	if err != nil || len(names) > 0 {
		return names, err
	}
	return rootSite(files)
}

// sitesBelow returns the directories under sites/ that hold CUE files.
func sitesBelow(files fs.FS) ([]string, error) {
	dirs, err := folders(files)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range dirs {
		if !d.IsDir() || hidden(d.Name()) {
			continue
		}
		in, err := cueFiles(files, path.Join(sitesDir, d.Name()))
		if err != nil {
			return nil, err
		}
		if len(in) > 0 {
			names = append(names, d.Name())
		}
	}
	return names, nil
}

// Unread returns the directories under sites/ that hold CUE files but are not sites,
// because their names begin with "_" or ".".
func Unread(files fs.FS) ([]string, error) {
	dirs, err := folders(files)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range dirs {
		if !d.IsDir() || !hidden(d.Name()) {
			continue
		}
		in, err := cueFiles(files, path.Join(sitesDir, d.Name()))
		if err != nil {
			return nil, err
		}
		if len(in) > 0 {
			names = append(names, path.Join(sitesDir, d.Name()))
		}
	}
	return names, nil
}

// bindsASite matches the beginning of a file whose package is a site, not a package
// that sites share.
var bindsASite = regexp.MustCompile(`(?m)^"?(site|nodes)"?[ \t]*:`)

// lostRoot finds a site at the root that is not read because there are sites under
// sites/. A root package with the same name as a site's package is part of that
// site.
func lostRoot(files fs.FS) ([]site.Finding, error) {
	names, err := sitesBelow(files)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	shared := map[string]bool{}
	for _, name := range names {
		in, err := cueFiles(files, path.Join(sitesDir, name))
		if err != nil {
			return nil, err
		}
		pkg, err := packageOf(files, in)
		if err != nil {
			return nil, err
		}
		shared[pkg] = true
	}
	in, err := cueFiles(files, ".")
	if err != nil {
		return nil, err
	}
	for _, file := range in {
		src, err := readFile(files, file, Limits{}.withDefaults().FileBytes)
		if err != nil {
			return nil, err
		}
		if pkg := packageName(src); pkg != "" && !shared[pkg] && bindsASite.Match(src) {
			return []site.Finding{{
				Code: "root-beside-sites", Severity: site.SeverityError, File: file, Line: 1, Col: 1,
				Message: fmt.Sprintf("the site %s at the root is not read: the repository has sites under %s/ (%s)", pkg, sitesDir, strings.Join(names, ", ")),
				Why:     "With sites under sites/, the root only has what they share. Slipway would no longer change a site that it does not read, and nobody would notice.",
				Fix:     fmt.Sprintf("Move its files to %s/%s/, or take those under %[1]s/ away.", sitesDir, pkg),
			}}, nil
		}
	}
	return nil, nil
}

// folders lists the content of sites/, if that is a directory. It does not follow a
// link, which could lead out of the repository.
func folders(files fs.FS) ([]fs.DirEntry, error) {
	root, err := fs.ReadDir(files, ".")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !slices.ContainsFunc(root, func(d fs.DirEntry) bool { return d.Name() == sitesDir && d.IsDir() }) {
		return nil, nil
	}
	return fs.ReadDir(files, sitesDir)
}

// rootSite returns the name of the package at the root, as a list of at most one.
func rootSite(files fs.FS) ([]string, error) {
	in, err := cueFiles(files, ".")
	if err != nil {
		return nil, err
	}
	if pkg, err := packageOf(files, in); err != nil || pkg != "" {
		return []string{pkg}, err
	}
	return nil, nil
}

// packageOf returns the package of the first of some files that has a package
// clause; empty for none.
func packageOf(files fs.FS, names []string) (string, error) {
	for _, name := range names {
		src, err := readFile(files, name, Limits{}.withDefaults().FileBytes)
		if err != nil {
			return "", err
		}
		if pkg := packageName(src); pkg != "" {
			return pkg, nil
		}
	}
	return "", nil
}

// cueFiles lists the CUE files of a package directory in order.
func cueFiles(files fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(files, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && isDesign(e.Name()) {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// isDesign reports whether CUE takes a file of this name into a package.
func isDesign(base string) bool {
	return strings.HasSuffix(base, ".cue") && !hidden(base) &&
		!strings.HasSuffix(base, "_tool.cue") && !strings.HasSuffix(base, "_test.cue")
}

func hidden(base string) bool { return strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") }

var packageClause = regexp.MustCompile(`(?m)^\x{feff}?[ \t]*package[ \t]+(\pL[\pL\pN_]*)`)

// packageName finds a file's package clause without parsing the file. Only a worker
// may parse it.
func packageName(src []byte) string {
	m := packageClause.FindSubmatch(src)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// collect reads what the evaluation of one site may need, within limits. An empty
// name means the only site. A mistake that the user can fix is a finding. An error
// means that the files could not be read.
func collect(files fs.FS, siteName string, lim Limits) (pack, []site.Finding, error) {
	return collectAnew(files, siteName, lim, func(string) map[string]text { return nil })
}

// collectAnew is collect with texts known from the last evaluation. A file that has
// not changed keeps its text from then.
func collectAnew(files fs.FS, siteName string, lim Limits, known func(siteName string) map[string]text) (pack, []site.Finding, error) {
	names, err := Sites(files)
	if err != nil {
		return pack{}, nil, err
	}
	siteName, f, err := choose(files, names, siteName)
	if err != nil || f != nil {
		return pack{}, f, err
	}
	p := pack{site: siteName, dir: path.Join(sitesDir, siteName), files: map[string][]byte{}, data: map[string][]byte{}, sealed: map[string][]byte{}, ids: map[string]string{}}
	if own, err := cueFiles(files, p.dir); err != nil || len(own) == 0 {
		p.dir = "."
	}
	c := collector{pack: p, files: files, lim: lim, known: known(p.site)}
	if p.dir != "." {
		lost, err := lostRoot(files)
		if err != nil {
			return pack{}, nil, err
		}
		c.findings.list = lost
	}
	err = fs.WalkDir(files, ".", c.visit)
	if err == nil {
		err = c.takeAll(c.designs, c.pack.files)
	}
	if err == nil {
		err = c.takeAll(c.named(), c.data)
	}
	if err == nil {
		err = c.takeAll(c.secrets, c.sealed)
	}
	return c.pack, c.findings.list, err
}

// choose decides which site is meant.
func choose(files fs.FS, names []string, want string) (string, []site.Finding, error) {
	switch {
	case len(names) == 0:
		f, err := noSite(files)
		return "", []site.Finding{f}, err
	case want == "" && len(names) == 1:
		return names[0], nil, nil
	case want == "":
		return "", []site.Finding{{
			Code: "several-sites", Severity: site.SeverityError,
			Message: "the repository has several sites: " + strings.Join(names, ", "),
			Why:     "One site is evaluated at a time.",
			Fix:     "Name the site.",
		}}, nil
	case !slices.Contains(names, want):
		if root, err := rootSite(files); err != nil || slices.Contains(root, want) {
			lost, lostErr := lostRoot(files)
			if err := errors.Join(err, lostErr); err != nil || len(lost) > 0 {
				return "", lost, err
			}
		}
		return "", []site.Finding{{
			Code: "unknown-site", Severity: site.SeverityError,
			Message: fmt.Sprintf("there is no site %q in the repository%s", want, rule.DidYouMean(want, names)),
			Why:     "A site is a package under sites/, or the package at the root when there is only one.",
			Fix:     "The sites are: " + strings.Join(names, ", ") + ".",
		}}, nil
	}
	return want, nil, nil
}

// noSite says why a repository has no site.
func noSite(files fs.FS) (site.Finding, error) {
	in, err := cueFiles(files, ".")
	if err != nil {
		return site.Finding{}, err
	}
	if len(in) > 0 {
		return site.Finding{
			Code: "no-package", Severity: site.SeverityError, File: in[0], Line: 1, Col: 1,
			Message: "no CUE file at the root names its package",
			Why:     "A file without a package clause belongs to no package, so none of these files is part of a site.",
			Fix:     "Begin each file with `package` and the site's name.",
		}, nil
	}
	return site.Finding{
		Code: "empty-repository", Severity: site.SeverityError,
		Message: "the repository holds no site",
		Why:     "Slipway never treats an empty design as a request to remove every node.",
		Fix:     "Copy site-example into the repository, or check that the right directory or branch is followed.",
	}, nil
}

// Home returns the name of a site and the folder of its package in a repository, "."
// for the root. An empty name means the only site. It evaluates nothing.
func Home(files fs.FS, siteName string) (name, dir string, err error) {
	names, err := Sites(files)
	if err != nil {
		return "", "", err
	}
	name, found, err := choose(files, names, siteName)
	if err != nil {
		return "", "", err
	}
	if len(found) > 0 {
		return "", "", fmt.Errorf("%s: %s", found[0].Message, found[0].Fix)
	}
	dir = path.Join(sitesDir, name)
	if own, err := cueFiles(files, dir); err != nil || len(own) == 0 {
		dir = "."
	}
	return name, dir, nil
}
