package base

import (
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

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
				return refused("the number %d belongs to the account %s already: give another one in the design, or none", other.uid, printable(other.name))
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
		return refused("%.100q is not the path of a shell such as /bin/bash", shell)
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
		return refused("Slipway logs in as %s: the shell %s would lock it out. Give the account a shell that takes commands, or log in as another account first", account, want.Shell)
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
		return refused("Slipway logs in as %s: without its last key Slipway could not log in again. Keep a key of the account in the design, or log in as another account first", account)
	}
	own := parseKey(j.h.LoginKey)
	if own != "" && hasKey(r.all(), own) && !hasKey(append(left, parseKeys(strings.Join(want.Keys, "\n"))...), own) {
		return refused("Slipway logs in as %s with the key %s of the endpoint's credential, and this step would remove that key: Slipway could not log in again. Let the design keep the key until the credential has another one that is in the design, too", account, own)
	}
	return nil
}

// hasKey says whether a key without options is among keys, of which some have them.
func hasKey(all []string, key string) bool {
	return slices.ContainsFunc(all, func(k string) bool { return k == key || strings.HasSuffix(k, ";"+key) })
}

// stay refuses to remove the account that this session came by.
func (j *job) stay(account string) error {
	if account == j.h.Login {
		return refused("Slipway logs in as %s: without this account it could not log in again. Log in as another account first", account)
	}
	return nil
}
