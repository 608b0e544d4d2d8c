package base

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// login is a line of passwd(5).
type login struct {
	name, comment, home, shell string
	uid, gid                   int
}

// group is a line of group(5).
type group struct {
	name    string
	gid     int
	members []string
}

// accounts are the files that know of accounts.
type accounts struct {
	logins []login
	groups []group
	// hashes are the passwords of shadow(5) by name; hidden says why they cannot be
	// read.
	hashes map[string]string
	hidden error
	// expires are the days of shadow(5) on which accounts expire, by name.
	expires map[string]string
	// shadow are the members of groups by gshadow(5), which usermod(8) writes after group(5);
	// those of a group that is not in it are missing.
	shadow map[string][]string
	// ranges are the names that have numbers for their containers in subuid(5) and subgid(5).
	ranges []string
}

// accounts reads the files.
func (j *job) accounts() (a accounts, err error) {
	text, _, err := j.read("/etc/passwd")
	if err != nil {
		return a, err
	}
	a.logins = parseLogins(string(text))
	if text, _, err = j.read("/etc/group"); err != nil {
		return a, err
	}
	a.groups = parseGroups(string(text))
	text, _, a.hidden = j.read("/etc/shadow")
	a.hashes, a.expires = parseShadow(string(text))
	a.shadow = map[string][]string{}
	if text, _, err := j.read("/etc/gshadow"); err == nil { // not every system has one
		for _, r := range records(string(text), 4) {
			a.shadow[r[0]] = strings.Split(r[3], ",")
		}
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if text, _, err := j.read(file); err == nil { // not every system has them
			for _, r := range records(string(text), 3) {
				a.ranges = append(a.ranges, r[0])
			}
		}
	}
	return a, nil
}

// records are the lines of a file with so many fields; lines for other sources of
// accounts ("+::") and broken ones are left out, as the system does.
func records(text string, fields int) (all [][]string) {
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(parts) < fields || parts[0] == "" || strings.HasPrefix(parts[0], "+") || strings.HasPrefix(parts[0], "-") {
			continue
		}
		all = append(all, parts)
	}
	return all
}

func parseLogins(text string) (all []login) {
	for _, r := range records(text, 7) {
		uid, err1 := strconv.ParseUint(r[2], 10, 32)
		gid, err2 := strconv.ParseUint(r[3], 10, 32)
		if err1 == nil && err2 == nil {
			all = append(all, login{name: r[0], uid: int(uid), gid: int(gid), comment: r[4], home: r[5], shell: r[6]})
		}
	}
	return all
}

func parseGroups(text string) (all []group) {
	for _, r := range records(text, 4) {
		gid, err := strconv.ParseUint(r[2], 10, 32)
		if err != nil {
			continue
		}
		g := group{name: r[0], gid: int(gid)}
		for _, m := range strings.Split(r[3], ",") {
			if m = strings.TrimSpace(m); m != "" {
				g.members = append(g.members, m)
			}
		}
		all = append(all, g)
	}
	return all
}

// parseShadow are the passwords and the days of expiry in shadow(5), by name.
func parseShadow(text string) (hashes, expires map[string]string) {
	hashes, expires = map[string]string{}, map[string]string{}
	for _, r := range records(text, 2) {
		if _, twice := hashes[r[0]]; !twice { // the first line counts
			hashes[r[0]] = r[1]
		}
		if len(r) >= 8 {
			expires[r[0]] = r[7]
		}
	}
	return hashes, expires
}

func (a accounts) login(name string) (login, bool) {
	i := slices.IndexFunc(a.logins, func(l login) bool { return l.name == name })
	if i < 0 {
		return login{}, false
	}
	return a.logins[i], true
}

// group is the group of a name.
func (a accounts) group(name string) (group, bool) {
	i := slices.IndexFunc(a.groups, func(g group) bool { return g.name == name })
	if i < 0 {
		return group{}, false
	}
	return a.groups[i], true
}

// known are those of some names that are groups, in order, and the others, quoted.
func (a accounts) known(names []string) (groups, none []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if _, ok := a.group(name); ok {
			groups = append(groups, name)
		} else {
			none = append(none, fmt.Sprintf("%.100q", name))
		}
	}
	return groups, none
}

// further are the groups that an account is in besides its own, in order.
func (a accounts) further(l login) (all []string) {
	for _, g := range a.groups {
		if g.gid != l.gid && slices.Contains(g.members, l.name) {
			all = append(all, g.name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// agrees says whether gshadow(5) has an account in the groups in which group(5) has it: a
// usermod that was killed leaves it otherwise.
func (a accounts) agrees(l login) bool {
	for _, g := range a.groups {
		if members, is := a.shadow[g.name]; is && slices.Contains(members, l.name) != slices.Contains(g.members, l.name) {
			return false
		}
	}
	return true
}

// remains says whether other files know of an account that is not in passwd(5) and whose own
// group had a number. A group that another account has too, or that has members, is not its
// own.
func (a accounts) remains(name string, gid int) bool {
	own, is := a.group(name)
	_, hash := a.hashes[name]
	_, orphan := a.shadow[name]
	isOwn := is && own.gid == gid && len(own.members) == 0 && !slices.ContainsFunc(a.logins, func(l login) bool { return l.gid == gid })
	if hash || isOwn || orphan && !is || slices.Contains(a.ranges, name) {
		return true
	}
	for _, members := range a.shadow {
		if slices.Contains(members, name) {
			return true
		}
	}
	return slices.ContainsFunc(a.groups, func(g group) bool { return slices.Contains(g.members, name) })
}

// password says what an account's password is, without telling it.
func password(hash string) string {
	switch {
	case hash == "":
		return "none"
	case hash[0] == '!' || hash[0] == '*':
		return "locked"
	}
	return "set"
}

// validName says whether a text is the name of an account as the design has them.
func validName(text string) bool {
	if text == "" || len(text) > 32 {
		return false
	}
	for i, c := range []byte(text) {
		letter := c >= 'a' && c <= 'z' || c == '_'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '-')) {
			return false
		}
	}
	return true
}
