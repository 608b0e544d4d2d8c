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
	"time"
	"unicode"
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
	// before are the passwords that it had.
	before []string
	// change says that it is good for nothing but a new password.
	change bool
}

// roles are the predefined roles with their privileges (DSP0266, Redfish
// service privilege model).
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
	mine := account{id: max(1, h.first), user: m.config.Username, password: m.config.Password, role: "Administrator", enabled: true}
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

// accountOfLocked is a user's account, empty when there is no such any more.
func (m *Machine) accountOfLocked(user string) account {
	for _, a := range m.accountsLocked() {
		if a.user == user && a.enabled {
			return a
		}
	}
	return account{}
}

// roleLocked is the role of a user, empty when there is no such any more.
func (m *Machine) roleLocked(user string) string { return m.accountOfLocked(user).role }

func (a account) path() string { return accountsPath + "/" + strconv.Itoa(a.id) }

// may says whether the user has the privilege that the request needs (DSP0266
// 13.3.3); it answers itself when not.
func (x *exchange) may() bool {
	role := locked(x.head, func() string { return x.head.roleLocked(x.user) })
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

// mustChange says whether the user's password has to be changed before
// anything else, and answers then (DSP0266, Password change required).
func (x *exchange) mustChange() bool {
	own := locked(x.head, func() (a account) {
		if x.head.accounts != nil { // else there is the one that was configured
			a = x.head.accountOfLocked(x.user)
		}
		return a
	})
	if !own.change || x.path == own.path() && (x.r.Method == http.MethodGet || x.r.Method == http.MethodHead || x.r.Method == http.MethodPatch) {
		return false
	}
	x.fail(http.StatusForbidden, "PasswordChangeRequired", own.path())
	return true
}

// privilege is what a change needs.
func (x *exchange) privilege() string {
	switch {
	case x.isSelf():
		return "ConfigureSelf"
	case strings.HasPrefix(x.path, accountsPath):
		return "ConfigureUsers"
	case strings.HasPrefix(x.path, x.kind.manager) && !strings.Contains(x.path, "/VirtualMedia"), x.ofService():
		return "ConfigureManager"
	}
	return "ConfigureComponents"
}

// ofService says whether the path is of what the BMC does for itself.
func (x *exchange) ofService() bool {
	services := []string{x.kind.sessionsPath(), root + "/AccountService", root + "/CertificateService", eventsPath}
	return slices.ContainsFunc(services, func(at string) bool { return strings.HasPrefix(x.path, at) })
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
			"ServiceEnabled": true, "HTTPBasicAuth": "Enabled", "Status": healthy(), "Accounts": ref(accountsPath), "Roles": ref(rolesPath), "MinPasswordLength": p.sessions.least(), "MaxPasswordLength": p.sessions.longest(),
			"AccountLockoutThreshold": p.sessions.shownTries(), "AccountLockoutDuration": int(p.sessions.locked.Seconds()), "AccountLockoutCounterResetAfter": int(p.sessions.locked.Seconds()),
		})
	}
	l.lists[accountsPath] = list{"ManagerAccount", func(m *Machine) []string {
		return locked(m, func() (ids []string) {
			for _, a := range m.accountsLocked() {
				ids = append(ids, fmt.Sprint(a.id))
			}
			if len(ids) > 1 && m.suffersLocked(FaultAccountsLate) {
				ids = ids[:len(ids)-1]
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
					"UserName": a.user, "Password": nil, "RoleId": a.role, "Enabled": a.enabled, "Locked": !p.sessions.blocks && time.Now().Before(m.lockedUntil), "PasswordChangeRequired": a.change, "AccountTypes": []string{"Redfish"},
					"Links": body{"Role": ref(rolesPath + "/" + a.role)},
				})
			}
		}
		return nil
	})
}

// accountChange makes of an account what it is to be, and says what of it
// cannot be.
func (x *exchange) accountChange(b body, a *account) (wrong []body) {
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if strings.Contains(name, "@") || name == "AccountTypes" {
			continue
		}
		if m := x.accountProperty(name, b[name], a); m != nil {
			wrong = append(wrong, m)
		}
	}
	return wrong
}

// accountProperty sets a property of an account; it gives the message about
// one that cannot be set.
func (x *exchange) accountProperty(name string, v any, a *account) body {
	s, isText := v.(string)
	on, isFlag := v.(bool)
	switch {
	case name == "UserName" && isText:
		a.user = s
	case name == "Password" && isText && x.meets(FaultPasswordEchoed):
		return x.kind.speech.info("PropertyValueFormatError", s, name)
	case name == "Password" && isText && x.kind.sessions.takes(s, *a):
		a.before, a.password, a.change = append(slices.Clone(a.before), a.password), s, false
	case name == "PasswordChangeRequired" && isFlag:
		a.change = on
	case name == "RoleId" && roles[s] != nil:
		a.role = s
	case name == "Enabled" && isFlag:
		a.enabled = on
	case name == "RoleId" && isText:
		return x.kind.speech.info("PropertyValueNotInList", s, name)
	case name == "Password":
		return x.kind.speech.info("PropertyValueFormatError", "******", name)
	case slices.Contains([]string{"UserName", "RoleId", "Enabled", "PasswordChangeRequired"}, name):
		return x.kind.speech.info("PropertyValueTypeError", shown(v), name)
	default:
		return x.unwritable(name)
	}
	return nil
}

// takes says whether an account can get a password.
func (h sessionHabits) takes(password string, a account) bool {
	if len(password) < h.least() || len(password) > h.longest() {
		return false
	}
	if h.mixed && !(strings.ContainsAny(password, "0123456789") && strings.ContainsFunc(password, unicode.IsLetter)) {
		return false
	}
	had := append(slices.Clone(a.before), a.password)
	return !slices.Contains(had[max(0, len(had)-h.again):], password)
}

// slotted says what an iDRAC refuses of a change of a slot: a password beside no name, a role
// or a state for a new account without one, and anything of the first slot.
func (x *exchange) slotted(b body, a account) body {
	_, password := b["Password"]
	switch {
	case x.fault.Kind == FaultPasswordBeside && !password && (b["RoleId"] != nil || b["Enabled"] != nil):
		return x.kind.speech.info("PropertyMissing", "Password")
	case x.kind.vendor != "Dell":
		return nil
	case a.id == 1:
		return x.kind.speech.info("PropertyNotWritable", "UserName")
	case b["UserName"] == "" && password:
		return x.kind.speech.info("PropertyValueFormatError", "******", "Password")
	case a.user == "" && !password && b["UserName"] != nil && b["UserName"] != "":
		return x.kind.speech.info("PropertyMissing", "Password")
	}
	return nil
}

// addAccount makes an account (DSP0266, POST (create)).
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
	if wrong := x.accountChange(b, &a); len(wrong) > 0 {
		x.failWith(http.StatusBadRequest, wrong...)
		return
	}
	lies := x.lies()
	made := locked(x.Machine, func() bool {
		all := x.accountsLocked()
		if x.roleLocked(a.user) != "" {
			return false
		}
		a.id = all[len(all)-1].id + 1
		if !lies {
			x.accounts = append(slices.Clone(all), a)
		}
		return true
	})
	if !made {
		x.fail(http.StatusBadRequest, "ResourceAlreadyExists", "ManagerAccount", "UserName", a.user)
		return
	}
	x.w.Header().Set("Location", a.path())
	x.reply(http.StatusCreated, x.resource(a.path()))
}

// patchAccount changes an account; who may change but their own change only
// its password. What can be changed is, when the rest cannot, and the answer
// says what (DSP0266, PATCH).
func (x *exchange) patchAccount() {
	b, ok := x.read()
	if !ok || !x.current(x.resource(x.path)) {
		return
	}
	asked := 0
	for name := range b {
		if !strings.Contains(name, "@") {
			asked++
		}
	}
	if asked == 0 {
		x.fail(http.StatusBadRequest, map[bool]string{true: "EmptyJSON", false: "NoOperation"}[len(b) == 0])
		return
	}
	own := locked(x.Machine, func() account { return x.accountOfLocked(x.user) })
	if others := asked > 1 || b["Password"] == nil; others && (own.change || !slices.Contains(roles[own.role], "ConfigureUsers")) {
		x.fail(http.StatusForbidden, "InsufficientPrivilege")
		return
	}
	all := locked(x.Machine, func() []account { return slices.Clone(x.accountsLocked()) })
	i := slices.IndexFunc(all, func(a account) bool { return a.path() == x.path })
	if i < 0 {
		x.fail(http.StatusNotFound, "ResourceMissingAtURI", x.path)
		return
	}
	if m := x.slotted(b, all[i]); m != nil {
		x.failWith(http.StatusBadRequest, m)
		return
	}
	wrong := x.accountChange(b, &all[i])
	if len(wrong) == asked || len(wrong) > 0 && x.kind.speech.talks {
		x.failWith(http.StatusBadRequest, wrong...)
		return
	}
	if !x.lies() {
		locked(x.Machine, func() any { x.accounts = all; return nil })
	}
	if len(wrong) == 0 {
		x.patched()
		return
	}
	now := x.resource(x.path)
	now["@Message.ExtendedInfo"] = wrong
	x.reply(http.StatusOK, now)
}

// dropAccount deletes an account, and ends its sessions.
func (x *exchange) dropAccount() {
	if !x.current(x.resource(x.path)) {
		return
	}
	if x.lies() {
		x.done()
		return
	}
	locked(x.Machine, func() any {
		all := slices.Clone(x.accountsLocked())
		for _, a := range all {
			if a.path() == x.path {
				maps.DeleteFunc(x.sessions, func(_ string, s session) bool { return s.user == a.user })
			}
		}
		x.accounts = slices.DeleteFunc(all, func(a account) bool { return a.path() == x.path })
		return nil
	})
	x.done()
}

// BMCAccount is an account of a BMC as it is now.
type BMCAccount struct {
	ID                   int
	User, Password, Role string
	Enabled              bool
}

// Accounts are those of the BMC, without empty slots.
func (m *Machine) Accounts() (all []BMCAccount) {
	return locked(m, func() (all []BMCAccount) {
		for _, a := range m.accountsLocked() {
			if a.user != "" {
				all = append(all, BMCAccount{a.id, a.user, a.password, a.role, a.enabled})
			}
		}
		return all
	})
}

// SetAccount makes an account of the BMC, or another one of it, as somebody else would.
func (m *Machine) SetAccount(user, password, role string) {
	locked(m, func() any {
		all := slices.Clone(m.accountsLocked())
		i := slices.IndexFunc(all, func(a account) bool { return a.user == user })
		if i < 0 {
			i = slices.IndexFunc(all, func(a account) bool { return a.user == "" && (a.id != 1 || m.kind.vendor != "Dell") })
		}
		if i < 0 {
			all = append(all, account{id: all[len(all)-1].id + 1})
			i = len(all) - 1
		}
		all[i].user, all[i].password, all[i].role, all[i].enabled = user, password, role, true
		m.accounts = all
		return nil
	})
}

// ResetAccounts gives the BMC the accounts that it was made with, as a reset to the settings of the factory does. Nobody
// is logged in then.
func (m *Machine) ResetAccounts() {
	m.ForgetSessions()
	locked(m, func() any { m.accounts = nil; return nil })
}

// SessionsOf is how many sessions of a user are open.
func (m *Machine) SessionsOf(user string) (count int) {
	for _, s := range m.openSessions() {
		if s.user == user {
			count++
		}
	}
	return count
}
