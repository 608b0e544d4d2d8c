package config

import (
	"bytes"
	"slices"
	"strings"
)

// basePriorities are the priorities of the packages in a default Debian system (Debian Policy, 2.5).
var basePriorities = []string{"required", "important", "standard"}

// installed are a system's packages as dpkg knows them. It stays empty for the RHEL family, whose base is in
// presets.
type installed struct {
	// base are the packages of the distribution's base.
	base map[string]bool
	// neededBy lists the packages that depend on each package.
	neededBy map[string][]string
}

// installedPackages reads dpkg's status.
func (w *work) installedPackages() (installed, error) {
	if !w.tree.Exists(dpkgStatus) {
		return installed{}, nil
	}
	status, err := w.dpkgStatus()
	if err != nil {
		return installed{}, err
	}
	return readInstalled(status), nil
}

// readInstalled reads stanzas in the format of deb822(5). A package counts as every package that it provides, in
// any version.
func readInstalled(status []byte) installed {
	all := installed{map[string]bool{}, map[string][]string{}}
	providers, depends := map[string][]string{}, map[string][]string{}
	for stanza := range bytes.SplitSeq(status, []byte("\n\n")) {
		fields := map[string]string{}
		for line := range bytes.Lines(stanza) {
			if name, value, is := bytes.Cut(line, []byte(": ")); is && name[0] != ' ' {
				fields[string(name)] = string(bytes.TrimSpace(value))
			}
		}
		name := fields["Package"]
		if state := fields["Status"]; name == "" || state != "" && !strings.HasSuffix(state, " installed") {
			continue
		}
		all.base[name] = all.base[name] || slices.Contains(basePriorities, fields["Priority"])
		for _, provided := range append(packageNames(fields["Provides"]), name) {
			providers[provided] = append(providers[provided], name)
		}
		depends[name] = append(depends[name], packageNames(fields["Depends"]+","+fields["Pre-Depends"])...)
	}
	for name, on := range depends {
		for _, wanted := range on {
			for _, p := range providers[wanted] {
				all.neededBy[p] = append(all.neededBy[p], name)
			}
		}
	}
	return all
}

// packageNames are the packages of a field such as "libc6 (>= 2.36), mawk | awk", including alternatives.
func packageNames(list string) (names []string) {
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '|' }) {
		name, _, _ := strings.Cut(strings.TrimSpace(part), " ")
		if name, _, _ = strings.Cut(name, ":"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// mostDependents is the largest number of dependents of a package outside the base.
const mostDependents = 1000

// isBase reports whether a package is part of the distribution's base, or has so many dependents that it is as good
// as part of it.
func (i installed) isBase(name string) bool {
	return i.base[name] || len(i.dependents(name)) > mostDependents
}

// dependents are the packages that need a package, directly or not, sorted by name.
func (i installed) dependents(of string) []string {
	found, next := map[string]bool{of: true}, []string{of}
	var all []string
	for len(next) > 0 {
		for _, by := range i.neededBy[next[0]] {
			if !found[by] {
				found[by] = true
				all, next = append(all, by), append(next, by)
			}
		}
		next = next[1:]
	}
	slices.Sort(all)
	return all
}
