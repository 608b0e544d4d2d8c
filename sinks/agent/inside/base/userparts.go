package base

import (
	"errors"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

func (u *user) setShell(want item.User) error {
	shell := want.Shell
	if shell != "" && !u.exists(shell) {
		return lacking(noShell(shell))
	}
	switch {
	case shell != "" || u.made.Removed || !u.made.Shell:
	case u.made.Created:
		shell = u.defaultShell()
	default:
		shell = u.before.Shell
	}
	if ours := want.Shell != "" && (u.made.Created || shell != u.login.shell); ours && !u.made.Shell {
		u.made.Shell = true
		if err := u.save(); err != nil {
			return err
		}
	}
	if shell != "" && shell != u.login.shell {
		if err := u.tool("usermod", "--shell", shell, "--", u.login.name); err != nil {
			return err
		}
	}
	if u.made.Shell && want.Shell == "" {
		u.made.Shell = false
		return u.save()
	}
	return nil
}

// defaultShell is the shell of new accounts.
func (u *user) defaultShell() string {
	text, _, _ := u.read("/etc/default/useradd")
	for line := range strings.Lines(string(text)) {
		if shell, ok := strings.CutPrefix(strings.TrimSpace(line), "SHELL="); ok && u.exists(shell) {
			return shell
		}
	}
	return ""
}

func (u *user) setGroups(want item.User) error {
	have := u.all.further(u.login)
	there, none := u.all.known(want.Groups)
	designed := slices.DeleteFunc(there, func(name string) bool {
		g, _ := u.all.group(name)
		return g.gid == u.login.gid // its own group is no further one
	})
	if err := u.join(have, designed); err != nil || len(none) == 0 {
		return err
	}
	return lacking(noGroups(none))
}

// join puts the account into groups; out of others, where it is ours or where we
// had put it into them.
func (u *user) join(have, designed []string) error {
	next := designed
	if !u.made.Created {
		joined := append(only(u.made.Joined, have), without(designed, have)...)
		next = append(without(have, without(u.made.Joined, designed)), without(designed, have)...)
		u.made.Groups = designed
		u.made.Joined = slices.Compact(slices.Sorted(slices.Values(joined)))
		if err := u.save(); err != nil {
			return err
		}
	}
	if item.List(next) != item.List(have) || !u.all.agrees(u.login) {
		if err := u.tool("usermod", "--groups", strings.Join(next, ","), "--", u.login.name); err != nil {
			return err
		}
	}
	if u.made.Created {
		return nil
	}
	u.made.Joined = only(u.made.Joined, designed)
	return u.save()
}

func (u *user) setKeys(want item.User) error {
	r, err := u.keys(u.login)
	if misplaced := (*misplaced)(nil); u.made.Created && (err == nil || errors.As(err, &misplaced)) {
		return u.setOwnKeys(r, err == nil, want.Keys)
	}
	if err != nil {
		return err
	}
	have := parseKeys(r.text)
	var designed, text []string
	for _, k := range want.Keys {
		designed = append(designed, parseKey(k))
	}
	for line := range strings.Lines(r.text) {
		if !slices.Contains(u.made.Added, parseKey(line)) {
			text = append(text, strings.TrimRight(line, "\r\n")+"\n")
		}
	}
	foreign := without(have, u.made.Added)
	for i, k := range designed { // ours come last, in the design's order
		if !slices.Contains(foreign, k) && !slices.Contains(designed[:i], k) {
			text = append(text, strings.TrimSpace(want.Keys[i])+"\n")
		}
	}
	earlier := u.made.Added
	u.made.Keys = designed
	added := append(only(u.made.Added, have), without(designed, have)...)
	u.made.Added = slices.Compact(slices.Sorted(slices.Values(added)))
	if err := u.save(); err != nil {
		return err
	}
	fresh := strings.Join(text, "")
	same := item.List(parseKeys(fresh)) == item.List(have) && (r.unsafe == "" || len(designed) == 0)
	switch {
	case fresh == "" && len(earlier) > 0 && !u.before.Keys:
		err = u.removeKeys(u.login, false)
	case same:
	default:
		err = u.writeKeys(u.login, fresh, false)
	}
	if err != nil {
		return err
	}
	u.made.Added = only(u.made.Added, designed)
	return u.save()
}

// setOwnKeys writes the keys of an account that is ours: these and no others. In a place that
// cannot be read there may be others.
func (u *user) setOwnKeys(r ring, read bool, keys []string) error {
	if len(keys) == 0 {
		return u.removeKeys(u.login, true)
	}
	var text strings.Builder
	for _, k := range keys {
		text.WriteString(strings.TrimSpace(k) + "\n")
	}
	if read && r.unsafe == "" && item.List(r.all()) == item.List(parseKeys(text.String())) {
		return nil
	}
	return u.writeKeys(u.login, text.String(), true)
}

func (u *user) setPassword(want item.User) error {
	if u.all.hidden != nil {
		if want.Password == "" && u.made.Password == "" {
			return nil
		}
		return failed("%v", u.all.hidden)
	}
	hash := u.all.hashes[u.login.name]
	digest := ""
	switch {
	case want.Password != "":
		digest = item.Digest([]byte(want.Password))
	case u.made.Password == "":
		return nil
	case item.Digest([]byte(strings.TrimLeft(hash, "!"))) == u.made.Password: // ours, and no longer designed; whoever has locked it could unlock it
		if err := u.chpasswd("!"); err != nil {
			return err
		}
		u.h.Tell("The password of " + u.login.name + " left the design and is locked.")
	}
	if u.made.Password != digest && digest != "" {
		u.made.Password = digest
		if err := u.save(); err != nil {
			return err
		}
	}
	if want.Password != "" && hash != want.Password {
		if err := u.chpasswd(want.Password); err != nil {
			return err
		}
	}
	u.made.Password = digest
	return u.save()
}

// chpasswd sets the hash. It goes to the program's input: everybody on the machine
// can read arguments.
func (u *user) chpasswd(hash string) error {
	err := u.run(inside.Command{Path: "chpasswd", Args: []string{"--encrypted"}, Stdin: []byte(u.login.name + ":" + hash + "\n")})
	if e := (*exit)(nil); errors.As(err, &e) {
		return failed("%s", redact(e.Error(), hash))
	}
	return err
}

func redact(text, hash string) string {
	if len(hash) < 2 {
		return text
	}
	return strings.ReplaceAll(text, hash, "[redacted]")
}

func (u *user) setRule(want item.User) error {
	if missing := u.cannotSudo(); want.Sudo && missing != "" {
		return lacking(missing)
	}
	return u.setSudo(u.login.name, want.Sudo)
}

// only are those of a list that are in another.
func only(all, these []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !slices.Contains(these, s) })
}

// without are those of a list that are not in another.
func without(all, these []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(these, s) })
}
