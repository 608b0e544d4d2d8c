package lab

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"time"
)

// A BMC has room for few sessions and forgets idle ones.
const (
	maxSessions = 16
	sessionIdle = 30 * time.Minute
)

type session struct {
	id   int
	used time.Time
}

// touchLocked uses a session, if it is known and not too old.
func (m *Machine) touchLocked(token string) bool {
	s, ok := m.sessions[token]
	if !ok || time.Since(s.used) > sessionIdle {
		delete(m.sessions, token)
		return false
	}
	s.used = time.Now()
	m.sessions[token] = s
	return true
}

// login opens a session (DSP0266 13.3.4.3).
func (m *Machine) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		UserName, Password string
		Context, Token     *string
	}
	if !read(w, r, &body) {
		return
	}
	if !m.accepts(body.UserName, body.Password) {
		fail(w, http.StatusUnauthorized, "Base.1.18.NoValidSession", "The user name or password is not accepted.")
		return
	}
	token := rand.Text()
	id := locked(m, func() int { return m.openLocked(token) })
	if id == 0 {
		fail(w, http.StatusServiceUnavailable, "Base.1.18.SessionLimitExceeded", "The session establishment failed due to the number of simultaneous sessions exceeding the limit of the implementation.")
		return
	}
	path := fmt.Sprintf("%s/%d", sessionsPath, id)
	w.Header().Set("X-Auth-Token", token)
	w.Header().Set("Location", path)
	reply(w, r, http.StatusCreated, sessionResource(path, id, body.UserName))
}

// openLocked adds a session and gives its number, 0 when there is no room.
func (m *Machine) openLocked(token string) int {
	for t, s := range m.sessions {
		if time.Since(s.used) > sessionIdle {
			delete(m.sessions, t)
		}
	}
	if len(m.sessions) >= maxSessions {
		return 0
	}
	m.counts.Sessions++
	m.sessions[token] = session{id: m.counts.Sessions, used: time.Now()}
	return m.counts.Sessions
}

func sessionResource(path string, id int, user string) map[string]any {
	return map[string]any{"@odata.id": path, "@odata.type": "#Session.v1_7_0.Session", "Id": fmt.Sprint(id), "Name": "Session", "UserName": user}
}

// sessionIDs lists the open sessions' numbers.
func (m *Machine) sessionIDs() []int {
	return locked(m, func() []int {
		var ids []int
		for _, s := range m.sessions {
			ids = append(ids, s.id)
		}
		return ids
	})
}

// logout ends a session.
func (m *Machine) logout(id int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		locked(m, func() any {
			for t, s := range m.sessions {
				if s.id == id {
					delete(m.sessions, t)
				}
			}
			return nil
		})
		w.WriteHeader(http.StatusNoContent)
	}
}
