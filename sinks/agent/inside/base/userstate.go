package base

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

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
	if want == "" {
		return
	}
	designed, none := all.known(strings.Split(want, ", "))
	if l, there := all.login(item.ID(key)); len(none) == 0 || there && exact && len(without(designed, all.further(l))) > 0 {
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
