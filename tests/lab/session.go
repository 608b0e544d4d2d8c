package lab

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const sessionsPath = root + "/SessionService/Sessions"

func isSession(path string) bool { return strings.HasPrefix(path, sessionsPath) }

type session struct {
	id      int
	user    string
	context any // text, or nil where the login had none
	used    time.Time
}

// authenticate finds out who asks; it answers itself when that is nobody
// known.
func (x *exchange) authenticate() bool {
	if token := x.r.Header.Get("X-Auth-Token"); token != "" {
		if locked(x.head, func() bool { x.user = x.head.sessions[token].user; return x.head.touchLocked(token) }) {
			return true
		}
	} else if user, password, ok := x.r.BasicAuth(); ok && x.accepts(user, password) {
		x.user = user
		return true
	}
	x.w.Header().Set("WWW-Authenticate", `Basic realm="Redfish"`)
	x.fail(http.StatusUnauthorized, "NoValidSession")
	return false
}

// accepts checks an account.
func (x *exchange) accepts(user, password string) bool {
	m := x.head
	if x.fleet.config.Latency.Tails && locked(m, func() bool { return m.bad > 0 }) {
		x.fleet.sleep(x.r.Context(), m.kind.sessions.delay)
	}
	return locked(m, func() bool {
		if time.Now().Before(m.lockedUntil) {
			m.counts.Denied++
			return false
		}
		if _, ok := m.knownLocked(user, password); ok {
			m.bad = 0
			return true
		}
		m.denyLocked()
		return false
	})
}

// denyLocked counts a bad login, which may be one too many.
func (m *Machine) denyLocked() {
	m.counts.Denied++
	m.bad++
	tries, wait := m.kind.sessions.tries, m.kind.sessions.locked
	if m.fault.Kind == FaultLockout {
		tries, wait = 3, m.fleet.scaled(time.Duration(m.fault.Delay))
	}
	if tries > 0 && m.bad >= tries {
		m.bad, m.lockedUntil = 0, time.Now().Add(wait)
		m.counts.Lockouts++
	}
}

// touchLocked uses a session, if it is known and not too old.
func (m *Machine) touchLocked(token string) bool {
	s, ok := m.sessions[token]
	if !ok || time.Since(s.used) > m.kind.sessions.idle {
		delete(m.sessions, token)
		return false
	}
	s.used = time.Now()
	m.sessions[token] = s
	return true
}

// login opens a session (DSP0266, Session login).
func (x *exchange) login() {
	b, ok := x.read()
	if !ok {
		return
	}
	user, password, ok := x.credentials(b)
	context := b["Context"]
	if !ok {
		return
	}
	if !x.accepts(user, password) {
		x.fail(http.StatusUnauthorized, "ResourceAtUriUnauthorized", x.path, "Invalid username or password.")
		return
	}
	token := rand.Text()
	id := locked(x.Machine, func() int { return x.openLocked(token, session{user: user, context: context}) })
	if id == 0 {
		x.fail(http.StatusServiceUnavailable, x.kind.sessions.full)
		return
	}
	at := fmt.Sprintf("%s/%d", x.kind.sessionsPath(), id)
	x.w.Header().Set("X-Auth-Token", token)
	x.w.Header().Set("Location", at)
	made := x.resource(at)
	if own := locked(x.Machine, func() account { return x.accountOfLocked(user) }); own.change {
		made["@Message.ExtendedInfo"] = []any{x.kind.speech.info("PasswordChangeRequired", own.path())}
	}
	x.reply(http.StatusCreated, made)
}

// credentials reads a login; it answers itself when it is none.
func (x *exchange) credentials(b body) (user, password string, ok bool) {
	for name, v := range b {
		switch s, isText := v.(string); {
		case name == "Context" && !x.kind.complete && !x.config.SessionContext: // Session before 1.5 has none
			x.fail(http.StatusBadRequest, "PropertyUnknown", name)
			return "", "", false
		case !slices.Contains([]string{"UserName", "Password", "Context", "Token", "SessionType"}, name) && !strings.Contains(name, "@"):
			x.fail(http.StatusBadRequest, "PropertyUnknown", name)
			return "", "", false
		case !isText && v != nil:
			x.fail(http.StatusBadRequest, "PropertyValueTypeError", shown(v), name)
			return "", "", false
		case name == "UserName":
			user = s
		case name == "Password":
			password = s
		}
	}
	for _, name := range []string{"UserName", "Password"} {
		if b[name] == nil {
			x.fail(http.StatusBadRequest, "PropertyMissing", name)
			return "", "", false
		}
	}
	return user, password, true
}

// openLocked adds a session and gives its number, 0 when there is no room.
func (m *Machine) openLocked(token string, s session) int {
	for t, s := range m.sessions {
		if time.Since(s.used) > m.kind.sessions.idle {
			delete(m.sessions, t)
		}
	}
	if len(m.sessions) >= cmp.Or(m.config.MaxSessions, m.kind.sessions.max) {
		return 0
	}
	m.counts.Sessions++
	s.id, s.used = m.counts.Sessions, time.Now()
	m.sessions[token] = s
	return s.id
}

// sessionAt is the open session at a path, nil for none.
func (m *Machine) sessionAt(path string) body {
	id, ok := strings.CutPrefix(path, m.kind.sessionsPath()+"/")
	if !ok {
		return nil
	}
	for _, s := range m.openSessions() {
		if fmt.Sprint(s.id) == id {
			b := m.kind.thing("Session", path, "User Session", body{"UserName": s.user})
			if m.config.SessionContext {
				b["@odata.type"], b["Context"] = "#Session.v1_7_0.Session", s.context
			}
			return b
		}
	}
	return nil
}

// openSessions lists the open sessions, oldest first.
func (m *Machine) openSessions() []session {
	return locked(m, func() []session {
		all := make([]session, 0, len(m.sessions))
		for _, s := range m.sessions {
			all = append(all, s)
		}
		slices.SortFunc(all, func(a, b session) int { return cmp.Compare(a.id, b.id) })
		return all
	})
}

// liveSessions shows the open sessions in their collection.
func (m *Machine) liveSessions(at string, b body) {
	var ids []string
	for _, s := range m.openSessions() {
		ids = append(ids, fmt.Sprint(s.id))
	}
	b["Members"], b["Members@odata.count"] = refs(at, ids...), len(ids)
}

// logout ends a session.
func (x *exchange) logout() {
	if !x.current(x.resource(x.path)) {
		return
	}
	id := strings.TrimPrefix(x.path, x.kind.sessionsPath()+"/")
	locked(x.Machine, func() any {
		for t, s := range x.sessions {
			if fmt.Sprint(s.id) == id {
				delete(x.sessions, t)
			}
		}
		return nil
	})
	x.done()
}

// OpenSession opens a session as another client would, with a context where one
// is given.
func (m *Machine) OpenSession(user, context string) {
	s := session{user: user}
	if context != "" {
		s.context = context
	}
	locked(m, func() int { return m.openLocked(rand.Text(), s) })
}

// SessionContexts are the contexts of the open sessions, empty for none.
func (m *Machine) SessionContexts() (all []string) {
	for _, s := range m.openSessions() {
		text, _ := s.context.(string)
		all = append(all, text)
	}
	return all
}
