package base

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

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
