package packages

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// installerStatus is dpkg's status at the end of the installation, left by the installers of Debian and Ubuntu.
const installerStatus = "/var/log/installer/initial-status.gz"

// basePriorities are the priorities of packages in every installation.
var basePriorities = []string{"required", "important", "standard"}

// versionedKernel matches a package of one kernel version.
var versionedKernel = inside.Pattern(`^(linux-(image|headers|modules|modules-extra)-[0-9]|kernel(-core|-modules|-modules-core|-modules-extra)?$)`)

// Survey lists the packages that a person requested, and those on hold. It leaves out what the installation
// brought, as far as the system still knows that.
func (facet) Survey(ctx context.Context, h *inside.Host) (found item.Found, err error) {
	m, err := family(h)
	if err != nil {
		return found, err
	}
	inv, err := m.inventory(ctx, h)
	if err != nil {
		return found, err
	}
	wanted, err := m.byHand(ctx, h)
	if err != nil {
		return found, err
	}
	for name, p := range inv.byName {
		if p.State == stateHeld && !slices.Contains(wanted, name) {
			wanted = append(wanted, name)
		}
	}
	slices.Sort(wanted)
	for _, name := range slices.Compact(wanted) {
		key, p := item.KindPackages+"."+name, inv.find(name)
		switch {
		case !p.there():
		case m.check(name) != nil:
			found.Leave(key, "%v", m.check(name))
		case !whole(p):
			found.Leave(key, "it is %s", printable(p.State))
		case versionedKernel().MatchString(name):
			found.Leave(key, "it is one kernel version, which upgrades replace")
		default:
			found.Items = append(found.Items, item.New(key, map[string]string{"state": p.State, "version": p.Version}, nil))
		}
	}
	m.surveySources(ctx, h, &found)
	return found, nil
}

// byHand are the packages marked as manually installed, except the base.
func (apt) byHand(ctx context.Context, h *inside.Host) ([]string, error) {
	out, err := h.Exec(ctx, inside.Command{Path: "apt-mark", Args: append(slices.Clone(noCache), "showmanual")})
	if err := outcome("apt-mark showmanual", out, err); err != nil {
		return nil, err
	}
	status, err := read(h, dpkgStatus)
	if err != nil {
		return nil, err
	}
	base := basePackages(status)
	first, err := atInstallation(h)
	if err != nil {
		return nil, err
	}
	for name := range parseStatus(first).byName {
		name, _, _ = strings.Cut(name, ":")
		base[name] = true
	}
	return slices.DeleteFunc(strings.Fields(string(out.Out)), func(name string) bool { return base[name] }), nil
}

// atInstallation is the status that the installer left; empty if there is none.
func atInstallation(h *inside.Host) ([]byte, error) {
	packed, err := readIfThere(h, installerStatus)
	if err != nil || packed == nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, nil // unknown
	}
	text, err := io.ReadAll(io.LimitReader(z, maxFile))
	if err != nil {
		return nil, nil
	}
	return text, nil
}

// basePackages are the packages of every installation with all their dependencies, and libraries that other
// packages need. Installers without their own list mark these as manually installed too.
func basePackages(status []byte) map[string]bool {
	base, needs, needed, library := map[string]bool{}, map[string][]string{}, map[string]bool{}, map[string]bool{}
	for block := range bytes.SplitSeq(status, []byte("\n\n")) {
		f := map[string]string{}
		for line := range bytes.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimRight(string(line), "\n"), ": ")
			f[key] = value
		}
		name := f["Package"]
		if !strings.HasSuffix(f["Status"], " installed") {
			continue
		}
		base[name] = f["Essential"] == "yes" || f["Protected"] == "yes" || slices.Contains(basePriorities, f["Priority"])
		section := f["Section"][strings.LastIndexByte(f["Section"], '/')+1:]
		library[name] = slices.Contains([]string{"libs", "oldlibs", "perl"}, section) || strings.HasPrefix(name, "lib") || strings.HasSuffix(name, "-base")
		for _, dependency := range strings.FieldsFunc(f["Depends"]+","+f["Pre-Depends"], func(r rune) bool { return r == ',' || r == '|' }) {
			word, _, _ := strings.Cut(strings.TrimSpace(dependency), " ")
			word, _, _ = strings.Cut(word, ":")
			needs[name] = append(needs[name], word)
			needed[word] = true
		}
	}
	var follow func(name string)
	follow = func(name string) {
		for _, n := range needs[name] {
			if is, installed := base[n]; installed && !is {
				base[n] = true
				follow(n)
			}
		}
	}
	for name, is := range base {
		if is {
			follow(name)
		}
	}
	for name := range library {
		base[name] = base[name] || library[name] && needed[name]
	}
	return base
}

// byHand are the packages that dnf has recorded as requested.
func (dnf) byHand(ctx context.Context, h *inside.Host) ([]string, error) {
	args := []string{"-q", "-C", "repoquery", "--userinstalled", "--qf", "%{name}\n"}
	out, err := h.Exec(ctx, inside.Command{Path: "dnf", Args: args})
	if err := outcome("dnf repoquery --userinstalled", out, err); err != nil {
		return nil, err
	}
	return strings.Fields(string(out.Out)), nil
}

// maxSources bounds how many source files are read.
const maxSources = 200

// surveySources reports sources that are neither the distribution's nor Slipway's. Slipway writes each repository
// to its own file, so designing such a source would add it a second time.
func (apt) surveySources(_ context.Context, h *inside.Host, found *item.Found) {
	told := map[string]bool{}
	for file, sources := range ownSources(h) {
		for _, source := range sources {
			if url := withoutLogin(source.URL); !ofDistribution(h, source) && !told[url] {
				told[url] = true
				found.Leave("repositories", "%s of %s is not Slipway's file; to design it, write it to system.repositories and remove it there", url, file)
			}
		}
	}
	for _, file := range names(h, "/etc/apt/preferences.d", "") {
		if !strings.Contains(file, "/"+repositoryID("")) {
			found.Leave(file, "priorities of others stay as they are")
		}
	}
}

// ownSources are apt's sources that Slipway did not write, file by file.
func ownSources(h *inside.Host) iter.Seq2[string, []item.Repository] {
	return func(yield func(string, []item.Repository) bool) {
		files := append([]string{"/etc/apt/sources.list"}, names(h, "/etc/apt/sources.list.d", ".list", ".sources")...)
		for _, file := range files[:min(len(files), maxSources)] {
			text, err := readIfThere(h, file)
			if err != nil || strings.Contains(file, "/"+repositoryID("")) {
				continue
			}
			if !yield(file, aptSources(file, string(text))) {
				return
			}
		}
	}
}

// names lists the files of a folder with one of the endings.
func names(h *inside.Host, folder string, endings ...string) (files []string) {
	entries, err := list(h, folder)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(e.Name(), ending) }) {
			files = append(files, folder+"/"+e.Name())
		}
	}
	return files
}

// options matches the options of a line in sources.list(5), in brackets.
var options = inside.Pattern(`\[[^]]*\]`)

// aptSources are the repositories of a source file: one for each URL and suite.
func aptSources(file, text string) (all []item.Repository) {
	add := func(types, urls, suites string, components []string) {
		for _, url := range strings.Fields(urls) {
			for _, suite := range strings.Fields(suites) {
				if slices.Contains(strings.Fields(types), "deb") {
					all = append(all, item.Repository{URL: url, Suite: suite, Components: components})
				}
			}
		}
	}
	if strings.HasSuffix(file, ".sources") {
		for block := range strings.SplitSeq(text, "\n\n") {
			if f := paragraph([]byte(strings.TrimLeft(withoutComments(block), "\n"))); f["Enabled"] != "no" {
				add(f["Types"], f["URIs"], f["Suites"], strings.Fields(f["Components"]))
			}
		}
		return all
	}
	for line := range strings.Lines(withoutComments(text)) {
		if f := strings.Fields(options().ReplaceAllString(line, " ")); len(f) > 2 {
			add(f[0], f[1], f[2], f[3:])
		}
	}
	return all
}

func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// ofDistribution reports whether a repository is the distribution's, by the origin in its lists.
func ofDistribution(h *inside.Host, r item.Repository) bool {
	release := pinned(h, r)
	text, err := readIfThere(h, "/etc/os-release")
	if err != nil {
		return false
	}
	id := strings.Trim(ini(text)["ID"], `"'`)
	if strings.HasPrefix(release, "origin ") { // without lists, the host decides
		host := strings.Trim(strings.TrimPrefix(release, "origin "), `"`)
		return id != "" && (strings.HasSuffix(host, "."+id+".org") || strings.HasSuffix(host, "."+id+".com"))
	}
	return id != "" && strings.HasPrefix(strings.ToLower(release), "release o="+strings.ToLower(id)+",")
}

// withoutLogin is a URL without an account and its password.
func withoutLogin(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return printable(url)
	}
	authority, path, _ := strings.Cut(rest, "/")
	_, behind, login := strings.Cut(authority, "@")
	if login {
		authority = behind
	}
	path, _, _ = strings.Cut(path, "?")
	return printable(scheme + "://" + authority + "/" + path)
}

func (dnf) surveySources(ctx context.Context, h *inside.Host, found *item.Found) {
	for _, file := range names(h, "/etc/yum.repos.d", ".repo") {
		if strings.Contains(file, "/"+repositoryID("")) {
			continue
		}
		out, err := h.Exec(ctx, inside.Command{Path: "rpm", Args: []string{"-qf", "--", file}})
		if err == nil && out.Code != 0 {
			found.Leave("repositories", "%s is of no package and not Slipway's file; to design it, write it to system.repositories and remove it there", printable(file))
		}
	}
}
