package base

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// wasUser is what was there of an account; New says that there was none.
type wasUser struct {
	New   bool   `json:"new,omitempty"`
	Shell string `json:"shell,omitempty"`
	Keys  bool   `json:"keys,omitempty"` // there was a file of keys
}

// madeUser is what we made of an account.
type madeUser struct {
	// Making is the comment in passwd(5) by which an account is known that we are
	// making; useradd sets it, and it is taken away when Created is noted.
	Making string `json:"making,omitempty"`
	// Created says that the account is ours, and UID what its number is.
	Created bool `json:"created,omitempty"`
	UID     *int `json:"uid,omitempty"`
	// Removed says that we removed it, and Leaving that we began to: userdel(8) writes one file
	// after the other.
	Removed bool     `json:"removed,omitempty"`
	Leaving *leaving `json:"leaving,omitempty"`
	// Groups and Keys are those of the design, and Joined and Added those of them
	// that were not there before us. They are kept of an account that is not ours.
	Groups []string `json:"groups,omitempty"`
	Joined []string `json:"joined,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	Added  []string `json:"added,omitempty"`
	Shell  bool     `json:"shell,omitempty"` // the shell is ours
	// Password is the digest of the hash that we set.
	Password string `json:"password,omitempty"`
}

// leaving is an account that is being removed.
type leaving struct {
	GID int `json:"gid"` // of its own group
	UID int `json:"uid,omitempty"`
	// Expires is when nobody could log in to it any more, before the removal had it expire: in
	// days as shadow(5) has them, empty for never.
	Expires string `json:"expires,omitempty"`
}

// isLeaving says whether an account is the one whose removal did not come to its end.
func (m madeUser) isLeaving(l login) bool {
	return m.Leaving != nil && l.uid != 0 && m.Leaving.UID == l.uid
}

// marks says whether an account carries the mark of one that we are making.
func (m madeUser) marks(l login) bool { return m.Making != "" && l.comment == m.Making }

// isHalf says whether an account was being made when useradd(8) was cut off, which writes one file
// after the other: what is in the others is not known.
func (m madeUser) isHalf(l login) bool { return m.marks(l) && !m.Created }

// ours says whether an account is the one that we made, and not another of its name.
func (m madeUser) ours(l login) bool {
	return m.marks(l) || m.Created && m.UID != nil && *m.UID == l.uid
}

// strange says whether somebody else made an account that we were to make, or that is
// in the place of ours.
func (m madeUser) strange(l login, before wasUser) bool {
	return !m.ours(l) && (before.New || m.Created || m.Making != "")
}

func (j *job) seeUser(seen *inside.Seen, key string) {
	account := item.ID(key)
	if !validName(account) {
		seen.Cannot[key] = fmt.Sprintf("%.100q is not a name for an account", account)
		return
	}
	all, err := j.once()
	if err != nil {
		seen.Unread[key] = err.Error()
		return
	}
	var made madeUser
	ours := j.entry(key, nil, &made)
	if missing := j.onceSudo(); missing != "" {
		seen.Cannot[item.Valued(key+".sudo", "true")] = missing
	}
	l, there := all.login(account)
	j.seeLacking(seen, key, all, !ours || made.ours(l))
	rule, err := j.sudo(account)
	if err != nil {
		seen.Unread[key+".sudo"] = err.Error()
	} else if there || rule != "false" {
		seen.Have[key+".sudo"] = rule
	}
	if seen.Have[key+".state"] = j.state(all, account, ours, made); !there {
		return
	}
	exact := !ours || made.ours(l)
	seen.Have[key+".uid"] = strconv.Itoa(l.uid)
	seen.Have[key+".shell"] = printable(l.shell)
	groups := all.further(l)
	if !exact {
		groups = only(groups, made.Groups)
	}
	seen.Have[key+".groups"] = printable(item.List(groups))
	if all.hidden != nil {
		seen.Unread[key+".password"] = all.hidden.Error()
	} else {
		seen.Have[key+".password"] = seenPassword(all.hashes[account], made)
		if h, is := item.HashOf(all.hashes[account]); is && slices.Contains(j.h.Hashes, key) {
			seen.Hashes[key] = h
		}
	}
	j.seeKeys(seen, key, l, exact, made)
}

// seeLacking tells what the system cannot have yet of what is asked of an account. Of
// groups it does so when the account is in all others: until then there is something to set.
func (j *job) seeLacking(seen *inside.Seen, key string, all accounts, exact bool) {
	shell, groups := item.Name(key, "shell"), item.Name(key, "groups")
	if want := j.h.Wants[shell]; want != "" && !j.exists(want) {
		seen.Cannot[item.Valued(shell, want)] = noShell(want)
	}
	want := j.h.Wants[groups]
	designed, none := all.known(strings.Split(want, ", "))
	if l, there := all.login(item.ID(key)); want == "" || len(none) == 0 || there && exact && len(without(designed, all.further(l))) > 0 {
		return
	}
	seen.Cannot[item.Valued(groups, want)] = noGroups(none)
}

func noShell(shell string) string {
	return fmt.Sprintf("there is no shell %s: add the package that brings it", printable(shell))
}

func noGroups(none []string) string {
	return fmt.Sprintf("there is no group %s: add the package that brings it, or correct the design", strings.Join(none, ", "))
}

// state says whether there is an account, and whether what was to change it was cut off.
func (j *job) state(all accounts, account string, ours bool, made madeUser) string {
	l, there := all.login(account)
	if left := j.onceLeft(); ours && len(left) > 0 {
		return "half changed: a program that was killed left /etc/" + strings.Join(left, ", /etc/")
	}
	switch {
	case there && made.marks(l):
		return "half made"
	case there && made.isLeaving(l):
		return "expired, and not removed yet"
	case there:
		return item.Present
	case made.Leaving != nil && all.remains(account, made.Leaving.GID):
		return "half removed"
	}
	return item.Absent
}

// seenPassword tells of a hash only that it is the one that we set.
func seenPassword(hash string, made madeUser) string {
	if made.Password != "" && item.Digest([]byte(hash)) == made.Password {
		return made.Password
	}
	return password(hash)
}

func (j *job) seeKeys(seen *inside.Seen, key string, l login, exact bool, made madeUser) {
	r, err := j.keys(l)
	if misplaced := (*misplaced)(nil); made.ours(l) && errors.As(err, &misplaced) {
		seen.Have[key+".keys"] = printable(misplaced.Error())
		return
	}
	if err != nil {
		seen.Unread[key+".keys"] = err.Error()
		return
	}
	keys := r.all()
	if !exact {
		keys = only(parseKeys(r.text), made.Keys)
	}
	if seen.Have[key+".keys"] = item.Keyring(keys); len(keys) > 0 && r.unsafe != "" {
		seen.Have[key+".keys"] = r.unsafe
	}
}

// only are those of a list that are in another.
func only(all, these []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !slices.Contains(these, s) })
}

// without are those of a list that are not in another.
func without(all, these []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(these, s) })
}

// present makes an account as it is asked for.
func (j *job) present(key string, want item.User) error {
	account := item.ID(key)
	all, err := j.accounts()
	if err != nil {
		return failed("%v", err)
	}
	l, there := all.login(account)
	if err := j.checkUser(account, want, all, l, there); err != nil {
		return err
	}
	var before wasUser
	var made madeUser
	known := j.entry(key, &before, &made)
	if there && made.isLeaving(l) && !made.marks(l) {
		if err := j.keep(key, l, &made); err != nil {
			return err
		}
	}
	if made.Leaving != nil || made.isHalf(l) {
		if l, there, all, err = j.clear(key, l, there, &made); err != nil {
			return err
		}
	}
	if known && there && made.strange(l, before) {
		if err := j.drop(key); err != nil {
			return err
		}
		j.h.Tell(fmt.Sprintf("The account %s was not made by Slipway: Slipway does not change its keys, groups and shell, and does not remove it later.", account))
		known, made = false, madeUser{}
	}
	if !known {
		before = wasUser{New: !there, Shell: l.shell}
		if there {
			r, err := j.keys(l)
			before.Keys = r.there || err != nil // setKeys tells why they cannot be read
		}
		if err := j.take(key, before); err != nil {
			return err
		}
	}
	if !there {
		if l, all, err = j.create(key, want, all, &made); err != nil {
			return err
		}
	}
	if err := j.claim(key, l, &made); err != nil {
		return err
	}
	u := &user{job: j, key: key, login: l, all: all, before: before, made: made}
	return u.set(want)
}

// set sets the parts of an account. A part that the system cannot have, such as sudo before
// its package is there, or that the account itself keeps from being set, keeps no other part
// from it. Errors that a further try may mend come first.
func (u *user) set(want item.User) error {
	var failures, refusals, lacks []error
	for _, part := range []func(item.User) error{u.setShell, u.setGroups, u.setKeys, u.setPassword, u.setRule} {
		err := part(want)
		told := (*wire.Error)(nil)
		switch {
		case err == nil:
		case u.ctx.Err() != nil:
			return err
		case isLacking(err):
			lacks = append(lacks, err)
		case errors.As(err, &told) && told.Class == wire.Refused:
			refusals = append(refusals, err)
		default:
			failures = append(failures, err)
		}
	}
	if all := append(failures, refusals...); len(all) > 0 {
		return errors.Join(all...)
	}
	return worst(lacks...)
}

// checkUser refuses what cannot be, and what would lock this session out, before
// anything is written.
func (j *job) checkUser(account string, want item.User, all accounts, l login, there bool) error {
	switch {
	case !validName(account):
		return refused("%.100q is not a name for an account", account)
	case there && want.UID != nil && int64(l.uid) != *want.UID:
		return refused("the account %s has the number %d, and the design says %d: Slipway does not renumber accounts, because files belong to numbers. "+
			"Correct the design, or remove the account first", account, l.uid, *want.UID)
	}
	if want.UID != nil && !there {
		for _, other := range all.logins {
			if int64(other.uid) == *want.UID {
				return refused("the number %d belongs to the account %s already", other.uid, printable(other.name))
			}
		}
	}
	if err := j.checkShell(want.Shell); err != nil {
		return err
	}
	for _, k := range want.Keys {
		if parseKey(k) == "" || strings.ContainsAny(k, "\r\n") || printable(k) != k {
			return refused("%.40q is not an SSH public key", k)
		}
	}
	if h := want.Password; h != "" && (h[0] != '$' || strings.ContainsAny(h, ": \t\r\n") || printable(h) != h) {
		return refused("the password of %s is not a hash of crypt(5): make one with `mkpasswd` or `openssl passwd -6`", account)
	}
	return j.keepLogin(account, want, l)
}

func (j *job) checkShell(shell string) error {
	if shell == "" {
		return nil
	}
	if shell[0] != '/' || strings.ContainsAny(shell, ":\n") || printable(shell) != shell {
		return refused("%.100q is not the path of a shell", shell)
	}
	return nil
}

// keepLogin refuses to take from an account what this session needs to come
// back.
func (j *job) keepLogin(account string, want item.User, l login) error {
	if account != j.h.Login || account == "" {
		return nil
	}
	switch base := want.Shell[strings.LastIndex(want.Shell, "/")+1:]; {
	case base == "nologin" || base == "false":
		return refused("Slipway logs in as %s: the shell %s would lock it out", account, want.Shell)
	case l.uid != 0 && !want.Sudo && j.exists(item.SudoFile(account)):
		return refused("Slipway logs in as %s and needs its sudo: without it Slipway could change nothing more. Log in as another account first", account)
	}
	var made madeUser
	j.entry(item.KindUsers+"."+account, nil, &made)
	leaves := without(made.Joined, want.Groups)
	if all, err := j.accounts(); err == nil && made.ours(l) {
		leaves = without(all.further(l), want.Groups)
	}
	if l.uid != 0 && !want.Sudo && len(leaves) > 0 {
		return refused("Slipway logs in as %s, and its groups %s may be what lets it use sudo: give it sudo in the design, or log in as another account first", account, strings.Join(leaves, ", "))
	}
	if all, err := j.accounts(); err == nil && j.h.LoginPassword && (want.Password != "" && all.hashes[account] != want.Password || want.Password == "" && made.Password != "") {
		return refused("Slipway logs in as %s with this account's password: with another one, or none, it could not log in again. Give the endpoint a credential with a key first", account)
	}
	r, err := j.keys(l)
	if err != nil || len(r.all()) == 0 {
		return nil // it did not come by a key of these files
	}
	left := without(r.all(), made.Added)
	if made.ours(l) {
		left = nil
	}
	if len(left)+len(want.Keys) == 0 {
		return refused("Slipway logs in as %s: without its last key Slipway could not log in again", account)
	}
	own := parseKey(j.h.LoginKey)
	if own != "" && hasKey(r.all(), own) && !hasKey(append(left, parseKeys(strings.Join(want.Keys, "\n"))...), own) {
		return refused("Slipway logs in as %s with the key %s, which would be removed: Slipway could not log in again. Let the design keep this key until the endpoint's credential has another one that is in the design, too", account, own)
	}
	return nil
}

// hasKey says whether a key without options is among keys, of which some have them.
func hasKey(all []string, key string) bool {
	return slices.ContainsFunc(all, func(k string) bool { return k == key || strings.HasSuffix(k, ";"+key) })
}

// clear takes away what is left of an account that was being removed or made when that was cut
// off, and gives the accounts after that. An account that is made anew gets the number of before,
// which its home belongs to.
func (j *job) clear(key string, l login, there bool, made *madeUser) (login, bool, accounts, error) {
	var err error
	if made.isHalf(l) && made.Leaving == nil {
		made.UID = &l.uid
		err = j.delAccount(key, l, made)
	} else {
		err = j.endRemoval(key, l, there, made)
	}
	if err != nil {
		return l, there, accounts{}, err
	}
	all, err := j.accounts()
	if err != nil {
		return l, there, all, failed("%v", err)
	}
	l, there = all.login(item.ID(key))
	return l, there, all, nil
}

// create makes an account. Before that it notes the mark that the account carries
// then: useradd may fail or be cut off, and somebody else may make an account of this
// name, which is not ours.
func (j *job) create(key string, want item.User, all accounts, made *madeUser) (login, accounts, error) {
	account := item.ID(key)
	*made = madeUser{Making: cmp.Or(made.Making, "being made by Slipway "+rand.Text()), UID: made.UID}
	if err := j.note(key, *made); err != nil {
		return login{}, all, err
	}
	args := []string{"--create-home", "--comment", made.Making}
	if _, ok := all.group(account); ok {
		args = append(args, "--gid", account)
	} else {
		args = append(args, "--user-group")
	}
	switch before := made.UID; {
	case want.UID != nil:
		args = append(args, "--uid", strconv.FormatInt(*want.UID, 10))
	case before != nil && !slices.ContainsFunc(all.logins, func(l login) bool { return l.uid == *before }):
		args = append(args, "--uid", strconv.Itoa(*before))
	}
	if want.Shell != "" && j.exists(want.Shell) {
		args = append(args, "--shell", want.Shell)
	}
	if err := j.tool("useradd", append(args, "--", account)...); err != nil {
		return login{}, all, err
	}
	all, err := j.accounts()
	if err != nil {
		return login{}, all, failed("%v", err)
	}
	l, there := all.login(account)
	if !there {
		return l, all, failed("useradd made no account %s in /etc/passwd", account)
	}
	if !made.marks(l) {
		return l, all, failed("another program made the account %s at the same time: Slipway looks at it again", account)
	}
	return l, all, nil
}

// claim notes that an account that carries our mark is ours, and takes the mark away.
func (j *job) claim(key string, l login, made *madeUser) error {
	if !made.marks(l) && made.Making == "" {
		return nil
	}
	made.Created, made.UID = true, &l.uid
	if err := j.note(key, *made); err != nil {
		return err
	}
	if made.marks(l) {
		if err := j.tool("usermod", "--comment", "", "--", l.name); err != nil {
			return err
		}
	}
	made.Making = ""
	return j.note(key, *made)
}

// tool runs a program for accounts. The system's own are used: they know of its
// locks, of SELinux and of subordinate numbers.
func (j *job) tool(program string, args ...string) error {
	err := j.run(inside.Command{Path: program, Args: args})
	if e := (*exit)(nil); errors.As(err, &e) {
		return failed("%v", e)
	}
	return err
}

// user is one account that is being changed.
type user struct {
	*job
	key    string
	login  login
	all    accounts
	before wasUser
	made   madeUser
}

func (u *user) save() error { return u.note(u.key, u.made) }

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
	case seenPassword(hash, u.made) == u.made.Password: // ours, and no longer designed
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

func redact(text, hash string) string {
	if len(hash) < 2 {
		return text
	}
	return strings.ReplaceAll(text, hash, "[redacted]")
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

func (u *user) setRule(want item.User) error {
	if missing := u.cannotSudo(); want.Sudo && missing != "" {
		return lacking(missing)
	}
	return u.setSudo(u.login.name, want.Sudo)
}

// absent removes an account as the design asks for it.
func (j *job) absent(key string) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	account := item.ID(key)
	if !validName(account) {
		return refused("%.100q is not a name for an account", account)
	}
	all, err := j.accounts()
	if err != nil {
		return failed("%v", err)
	}
	l, there := all.login(account)
	var made madeUser
	known := j.entry(key, nil, &made)
	if !there {
		if err := j.setSudo(account, false); err != nil || !known {
			return err
		}
		if err := j.endRemoval(key, l, there, &made); err != nil {
			return err
		}
		return j.note(key, madeUser{Removed: true})
	}
	if l.uid == 0 {
		return refused("%s is the account of root: Slipway does not remove it", account)
	}
	if err := j.stay(account); err != nil {
		return err
	}
	if err := j.take(key, wasUser{Shell: l.shell}); err != nil {
		return err
	}
	if err := j.delAccount(key, l, &made); err != nil {
		return err
	}
	return j.note(key, madeUser{Removed: true})
}

// stay refuses to remove the account that this session came by.
func (j *job) stay(account string) error {
	if account == j.h.Login {
		return refused("Slipway logs in as %s: without this account it could not log in again. Log in as another account first", account)
	}
	return nil
}

// delAccount removes an account and leaves its home folder. It notes before that it begins.
// The account expires first: nobody logs in to it any more, by a key or a password, though its
// programs or what is in its home keep it from being removed.
func (j *job) delAccount(key string, l login, made *madeUser) error {
	if err := j.setSudo(l.name, false); err != nil {
		return err
	}
	if !made.isLeaving(l) {
		all, err := j.accounts()
		if err != nil {
			return failed("%v", err)
		}
		made.Leaving = &leaving{GID: l.gid, UID: l.uid, Expires: all.expires[l.name]}
		if err := j.note(key, *made); err != nil {
			return err
		}
	}
	expired := j.tool("usermod", "--expiredate", "1", "--", l.name)
	if made.ours(l) {
		if err := j.removeKeys(l, true); err != nil {
			j.h.Tell(fmt.Sprintf("The SSH keys in the home folder of the account %s are not removed: %v", l.name, err))
		}
	}
	err := j.run(inside.Command{Path: "userdel", Args: []string{"--", l.name}})
	if e := (*exit)(nil); errors.As(err, &e) {
		if e.code == 8 && expired == nil {
			return failed("the account %s is in use and cannot be removed yet: %s. It has expired, so nobody can log in to it. End its programs with `loginctl terminate-user %s`", l.name, e.said, l.name)
		}
		return errors.Join(failed("%v", e), expired)
	}
	if err == nil && j.exists(l.home) {
		j.h.Tell(fmt.Sprintf("The account %s is removed; its home folder %s is left.", l.name, printable(l.home)))
	}
	return err
}

// keep has an account that the design has again expire when it did before its removal began.
func (j *job) keep(key string, l login, made *madeUser) error {
	if err := j.tool("usermod", "--expiredate", made.Leaving.Expires, "--", l.name); err != nil {
		return err
	}
	made.Leaving = nil
	return j.note(key, *made)
}

// endRemoval takes away what is left of an account whose removal was cut off. Its programs
// know of all files only for an account that there is: it is made again, without a home, a
// password and a shell, and removed once more.
func (j *job) endRemoval(key string, l login, there bool, made *madeUser) error {
	account := item.ID(key)
	if there {
		if !made.marks(l) {
			return nil // it was made since, by somebody else
		}
		return j.delAccount(key, l, made)
	}
	all, err := j.accounts()
	if err != nil {
		return failed("%v", err)
	}
	if made.Leaving == nil || !all.remains(account, made.Leaving.GID) {
		return nil
	}
	if made.Making == "" {
		made.Making = "being removed by Slipway " + rand.Text()
	}
	if err := j.note(key, *made); err != nil {
		return err
	}
	own, is := all.group(account)
	with := account
	if _, orphan := all.shadow[account]; !is && orphan { // userdel takes it along with its group
		if err := j.tool("groupadd", "--system", "--", account); err != nil {
			return err
		}
	} else if !is || own.gid != made.Leaving.GID {
		some := []string{"nogroup", "nobody", "users"}
		i := slices.IndexFunc(some, func(name string) bool { _, is := all.group(name); return is })
		if i < 0 {
			return failed("the removal of the account %s was cut off, and none of the groups %s exists to finish it with", account, strings.Join(some, ", "))
		}
		with = some[i]
	}
	if err := j.tool("useradd", "--system", "--no-create-home", "--gid", with, "--comment", made.Making, "--shell", "/bin/false", "--", account); err != nil {
		return err
	}
	return j.tool("userdel", "--", account)
}

// removeUser takes away what we made of an account, or the account where it is
// ours.
func (j *job) removeUser(key string) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	account := item.ID(key)
	var before wasUser
	var made madeUser
	if !j.entry(key, &before, &made) || !validName(account) {
		return nil
	}
	all, err := j.accounts()
	if err != nil {
		return failed("%v", err)
	}
	l, there := all.login(account)
	switch {
	case !there:
		if err = j.setSudo(account, false); err == nil {
			err = j.endRemoval(key, l, there, &made)
		}
	case made.ours(l):
		if err = j.stay(account); err == nil {
			err = j.delAccount(key, l, &made)
		}
	case made.strange(l, before):
		err = j.setSudo(account, false)
	default:
		if err = j.keepLogin(account, item.User{}, l); err == nil {
			err = j.leave(key, l, all, before, made)
		}
	}
	if err != nil {
		return err
	}
	return j.drop(key)
}

// leave takes what we added from an account that is not ours.
func (j *job) leave(key string, l login, all accounts, before wasUser, made madeUser) error {
	u := &user{job: j, key: key, login: l, all: all, before: before, made: made}
	return u.set(item.User{})
}
