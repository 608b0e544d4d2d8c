package config

import (
	"bytes"
	"slices"
	"strings"
)

// basePriorities are those of the packages that a Debian without choices has (Debian Policy,
// 2.5).
var basePriorities = []string{"required", "important", "standard"}

// installed are the packages of a system, as dpkg knows them. Of the RHEL family, which has its base
// in presets, nothing is known.
type installed struct {
	// base are those of the distribution's base.
	base map[string]bool
	// neededBy are the packages that depend on each.
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

// readInstalled reads stanzas as deb822(5) has them. That a package provides another one counts as
// if it was that one, in whatever version.
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

// packageNames are the packages of a field such as "libc6 (>= 2.36), mawk | awk", alternatives
// among them.
func packageNames(list string) (names []string) {
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '|' }) {
		name, _, _ := strings.Cut(strings.TrimSpace(part), " ")
		if name, _, _ = strings.Cut(name, ":"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// mostDependents is how many packages depend at most on one that is no part of the base.
const mostDependents = 1000

// isBase says whether a package is part of the distribution's base, or so much depends on it that it
// is as good as part of it.
func (i installed) isBase(name string) bool {
	return i.base[name] || len(i.dependents(name)) > mostDependents
}

// dependents are the packages that need one, directly or not, in order of their names.
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
