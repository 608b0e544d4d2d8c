package base

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

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
