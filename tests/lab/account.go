package lab

import (
	"crypto/subtle"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	accountsPath = root + "/AccountService/Accounts"
	rolesPath    = root + "/AccountService/Roles"
)

// account is somebody whom a BMC lets in, or an empty place for one.
type account struct {
	id                   int
	user, password, role string
	enabled              bool
}

// roles are the predefined roles with their privileges (DSP0266 13.3.2).
var roles = map[string][]string{
	"Administrator": {"Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"},
	"Operator":      {"Login", "ConfigureComponents", "ConfigureSelf"},
	"ReadOnly":      {"Login", "ConfigureSelf"},
}

// accountsLocked are the machine's accounts: the configured one, until
// somebody changes them.
func (m *Machine) accountsLocked() []account {
	if m.accounts != nil {
		return m.accounts
	}
	h := m.kind.sessions
	mine := account{max(1, h.first), m.config.Username, m.config.Password, "Administrator", true}
	if h.slots == 0 {
		return []account{mine}
	}
	all := make([]account, h.slots)
	for i := range all {
		all[i] = account{id: i + 1, role: "ReadOnly"}
	}
	all[mine.id-1] = mine
	return all
}

// knownLocked is the account of a name and password, if there is one.
func (m *Machine) knownLocked(user, password string) (account, bool) {
	for _, a := range m.accountsLocked() {
		if a.enabled && a.user != "" && subtle.ConstantTimeCompare([]byte(user+"\x00"+password), []byte(a.user+"\x00"+a.password)) == 1 {
			return a, true
		}
	}
	return account{}, false
}

// roleLocked is the role of a user, empty when there is no such any more.
func (m *Machine) roleLocked(user string) string {
	for _, a := range m.accountsLocked() {
		if a.user == user && a.enabled {
			return a.role
		}
	}
	return ""
}

// may says whether the user has the privilege that the request needs (DSP0266
// 13.3.3); it answers itself when not.
func (x *exchange) may() bool {
	role := locked(x.Machine, func() string { return x.roleLocked(x.user) })
	if x.r.Method == http.MethodGet || x.r.Method == http.MethodHead || x.r.Method == http.MethodOptions {
		if path.Dir(x.path) != accountsPath || x.isSelf() || slices.Contains(roles[role], "ConfigureUsers") {
			return true
		}
	} else if slices.Contains(roles[role], x.privilege()) {
		return true
	}
	x.fail(http.StatusForbidden, "InsufficientPrivilege")
	return false
}

// privilege is what a change needs.
func (x *exchange) privilege() string {
	switch {
	case x.isSelf():
		return "ConfigureSelf"
	case strings.HasPrefix(x.path, accountsPath):
		return "ConfigureUsers"
	case strings.HasPrefix(x.path, x.kind.manager) && !strings.Contains(x.path, "/VirtualMedia"), strings.HasPrefix(x.path, x.kind.sessionsPath()), strings.HasPrefix(x.path, root+"/AccountService"):
		return "ConfigureManager"
	}
	return "ConfigureComponents"
}

// isSelf says whether the path is of the user's own account or session.
func (x *exchange) isSelf() bool {
	id := path.Base(x.path)
	return locked(x.Machine, func() bool {
		switch path.Dir(x.path) {
		case accountsPath:
			return slices.ContainsFunc(x.accountsLocked(), func(a account) bool { return fmt.Sprint(a.id) == id && a.user == x.user })
		case x.kind.sessionsPath():
			for _, s := range x.sessions {
				if fmt.Sprint(s.id) == id {
					return s.user == x.user
				}
			}
		}
		return false
	})
}

// growAccounts adds the accounts and their roles.
func (p *personality) growAccounts(l layout) {
	const at = root + "/AccountService"
	l.singles[at] = func(*Machine) body {
		return p.thing("AccountService", at, "Account Service", body{
			"ServiceEnabled": true, "Status": healthy(), "Accounts": ref(accountsPath), "Roles": ref(rolesPath), "MinPasswordLength": 1, "MaxPasswordLength": 40,
			"AccountLockoutThreshold": p.sessions.tries, "AccountLockoutDuration": int(p.sessions.locked.Seconds()), "AccountLockoutCounterResetAfter": int(p.sessions.locked.Seconds()),
		})
	}
	l.lists[accountsPath] = list{"ManagerAccount", func(m *Machine) []string {
		return locked(m, func() (ids []string) {
			for _, a := range m.accountsLocked() {
				ids = append(ids, fmt.Sprint(a.id))
			}
			return ids
		})
	}, p.accountBody}
	l.lists[rolesPath] = list{"Role", fixed(slices.Sorted(maps.Keys(roles))...), func(_ *Machine, id, at string) body {
		return p.thing("Role", at, id+" role", body{"RoleId": id, "IsPredefined": true, "AssignedPrivileges": roles[id]})
	}}
}

func (p *personality) accountBody(m *Machine, id, at string) body {
	return locked(m, func() body {
		for _, a := range m.accountsLocked() {
			if fmt.Sprint(a.id) == id {
				return p.thing("ManagerAccount", at, "User Account", body{
					"UserName": a.user, "Password": nil, "RoleId": a.role, "Enabled": a.enabled, "Locked": false, "AccountTypes": []string{"Redfish"},
					"Links": body{"Role": ref(rolesPath + "/" + a.role)},
				})
			}
		}
		return nil
	})
}

// accountChange reads what an account is to be; it answers itself when that
// cannot be.
func (x *exchange) accountChange(b body, a *account) bool {
	for _, name := range slices.Sorted(maps.Keys(b)) {
		s, isText := b[name].(string)
		on, isFlag := b[name].(bool)
		switch {
		case strings.Contains(name, "@"), name == "AccountTypes":
		case name == "UserName" && isText:
			a.user = s
		case name == "Password" && isText && len(s) > 0 && len(s) <= 40:
			a.password = s
		case name == "RoleId" && roles[s] != nil:
			a.role = s
		case name == "Enabled" && isFlag:
			a.enabled = on
		case name == "RoleId" && isText:
			x.fail(http.StatusBadRequest, "PropertyValueNotInList", s, name)
			return false
		case slices.Contains([]string{"UserName", "RoleId", "Enabled"}, name):
			x.fail(http.StatusBadRequest, "PropertyValueTypeError", shown(b[name]), name)
			return false
		case name == "Password":
			x.fail(http.StatusBadRequest, "PropertyValueFormatError", "******", name)
			return false
		default:
			x.unwritable(name)
			return false
		}
	}
	return true
}

// addAccount makes an account (DSP0266 7.10).
func (x *exchange) addAccount() {
	b, ok := x.read()
	if !ok {
		return
	}
	a := account{enabled: true}
	for _, name := range []string{"UserName", "Password", "RoleId"} {
		if b[name] == nil {
			x.fail(http.StatusBadRequest, "PropertyMissing", name)
			return
		}
	}
	if !x.accountChange(b, &a) {
		return
	}
	made := locked(x.Machine, func() bool {
		all := x.accountsLocked()
		if x.roleLocked(a.user) != "" {
			return false
		}
		a.id = all[len(all)-1].id + 1
		x.accounts = append(slices.Clone(all), a)
		return true
	})
	if !made {
		x.fail(http.StatusBadRequest, "ResourceAlreadyExists", "ManagerAccount", "UserName", a.user)
		return
	}
	at := accountsPath + "/" + strconv.Itoa(a.id)
	x.w.Header().Set("Location", at)
	x.reply(http.StatusCreated, x.resource(at))
}

// patchAccount changes an account; who may change but their own change only
// its password.
func (x *exchange) patchAccount() {
	b, ok := x.read()
	if !ok || !x.current(x.resource(x.path)) {
		return
	}
	if len(b) == 0 {
		x.fail(http.StatusBadRequest, "EmptyJSON")
		return
	}
	role := locked(x.Machine, func() string { return x.roleLocked(x.user) })
	if others := len(b) > 1 || b["Password"] == nil; others && !slices.Contains(roles[role], "ConfigureUsers") {
		x.fail(http.StatusForbidden, "InsufficientPrivilege")
		return
	}
	all := locked(x.Machine, func() []account { return slices.Clone(x.accountsLocked()) })
	i := slices.IndexFunc(all, func(a account) bool { return fmt.Sprint(a.id) == path.Base(x.path) })
	if i < 0 || !x.accountChange(b, &all[i]) {
		return
	}
	if !x.lies() {
		locked(x.Machine, func() any { x.accounts = all; return nil })
	}
	x.patched()
}

// dropAccount deletes an account, and ends its sessions.
func (x *exchange) dropAccount() {
	if !x.current(x.resource(x.path)) {
		return
	}
	locked(x.Machine, func() any {
		all := slices.Clone(x.accountsLocked())
		for _, a := range all {
			if fmt.Sprint(a.id) == path.Base(x.path) {
				maps.DeleteFunc(x.sessions, func(_ string, s session) bool { return s.user == a.user })
			}
		}
		x.accounts = slices.DeleteFunc(all, func(a account) bool { return fmt.Sprint(a.id) == path.Base(x.path) })
		return nil
	})
	x.done()
}
