package redfish

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// TestEnd holds what a BMC may answer when a session of an earlier term is to
// end.
func TestEnd(t *testing.T) {
	const path = "/redfish/v1/SessionService/Sessions/3"
	for name, c := range map[string]struct {
		get, del http.HandlerFunc
		deletes  int
		is       error
	}{
		"ours":                     {text(`{"UserName":"admin"}`), status(204, ""), 1, nil},
		"without a name":           {text(`{}`), status(200, ""), 1, nil},
		"over":                     {status(404, ""), nil, 0, nil},
		"over meanwhile":           {text(`{"UserName":"admin"}`), status(404, ""), 1, nil},
		"by now another user's":    {text(`{"UserName":"root"}`), nil, 0, nil},
		"that may not be ended":    {text(`{"UserName":"admin"}`), status(405, ""), 1, errors.ErrUnsupported},
		"on a BMC that is busy":    {text(`{"UserName":"admin"}`), status(503, ""), 1, driver.ErrBusy},
		"that may not be asked of": {status(403, ""), nil, 0, driver.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.answer("GET "+path, c.get)
			b.answer("DELETE "+path, c.del)
			m := open(t, b.endpoint())
			if _, err := look(m, nil); err != nil {
				t.Fatal(err)
			}
			b.took()
			if err := m.End(t.Context(), path); !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
				t.Errorf("got %v, want %v", err, c.is)
			}
			if n := b.count("DELETE " + path); n != c.deletes {
				t.Errorf("deleted %d times, want %d", n, c.deletes)
			}
		})
	}
}

func TestEndLeavesTheHandlesOwnSession(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	own := m.Session()
	if !strings.HasSuffix(own, "/Sessions/7") {
		t.Fatalf("the session is %q", own)
	}
	b.answer("GET "+own, text(`{"UserName":"admin"}`))
	if err := m.End(t.Context(), own); err != nil {
		t.Error(err)
	}
	if n := b.count("DELETE " + own); n != 0 {
		t.Error("the handle ended its own session")
	}
}

// A session is ended over that of the handle and no other: after a new login it
// might be another BMC that has no such session.
func TestEndLogsInNowhere(t *testing.T) {
	const path = "/redfish/v1/SessionService/Sessions/3"
	b := newBMC(t)
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	b.took()
	b.answer("GET "+path, status(http.StatusUnauthorized, ""))
	if err := m.End(t.Context(), path); !errors.Is(err, driver.ErrInterrupted) {
		t.Errorf("got %v, want driver.ErrInterrupted", err)
	}
	if asked := strings.Join(b.took(), ", "); asked != "GET "+path {
		t.Errorf("asked %s", asked)
	}
	if _, err := look(m, nil); err != nil || b.count(loggingIn) != 1 {
		t.Errorf("looking again: %v", err)
	}
}

// A BMC that does not say where its session is has said so in the answer, or has
// not at all; the session is used all the same, and made anew when it is over.
func TestQuirkSessionWithoutLocation(t *testing.T) {
	for name, c := range map[string]struct{ body, session string }{
		"in the answer": {`{"@odata.id":"/redfish/v1/SessionService/Sessions/7","Id":"7"}`, "/redfish/v1/SessionService/Sessions/7"},
		"nowhere":       {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.answer("POST /redfish/v1/SessionService/Sessions", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Auth-Token", "token")
				status(http.StatusCreated, c.body)(w, nil)
			})
			m := open(t, b.endpoint())
			if _, err := look(m, nil); err != nil || m.Session() != c.session {
				t.Fatalf("the session is %q: %v", m.Session(), err)
			}
			forgotten := true
			b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
				if forgotten {
					forgotten = false
					status(http.StatusUnauthorized, "")(w, r)
					return
				}
				text(healthySystem)(w, r)
			})
			if _, err := look(m, nil); err != nil {
				t.Errorf("after its end: %v", err)
			}
			b.took()
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if n := b.count("DELETE " + c.session); (n == 1) != (c.session != "") {
				t.Errorf("deleted %d times", n)
			}
		})
	}
}

// A session that the BMC has forgotten is over, which is all that was wanted.
func TestCloseAfterTheSessionIsOver(t *testing.T) {
	for _, code := range []int{401, 404} {
		b := newBMC(t)
		m := open(t, b.endpoint())
		if _, err := look(m, nil); err != nil {
			t.Fatal(err)
		}
		b.answer("DELETE "+m.Session(), status(code, ""))
		if err := m.Close(); err != nil {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// Some BMCs show nobody their service root who is not logged in, and one has to
// know where that is done.
func TestQuirkHiddenServiceRoot(t *testing.T) {
	b := newBMC(t)
	root := b.answers["GET /redfish/v1/"]
	b.answer("GET /redfish/v1/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Auth-Token") == "" {
			status(http.StatusUnauthorized, "")(w, r)
			return
		}
		root(w, r)
	})
	if seen, err := look(open(t, b.endpoint()), nil); err != nil || seen.Identity.UUID != uuid {
		t.Errorf("got %v, %v", seen.Identity, err)
	}
}

// full is a BMC that has no room until a session was ended, and lets that be
// done with the credential itself, or not.
func full(t *testing.T, basic bool) *bmc {
	b := newBMC(t)
	login := b.answers["POST /redfish/v1/SessionService/Sessions"]
	b.answer("POST /redfish/v1/SessionService/Sessions", status(503, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.SessionLimitExceeded"}]}}`))
	for path, user := range map[string]string{"/s/1": "admin", "/s/2": "root", "/s/3": "admin"} {
		asks := func(then http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if _, _, ok := r.BasicAuth(); !ok || !basic {
					then = status(http.StatusUnauthorized, "")
				}
				then(w, r)
			}
		}
		b.answer("GET "+path, asks(text(`{"UserName":"`+user+`"}`)))
		b.answer("DELETE "+path, asks(func(w http.ResponseWriter, r *http.Request) {
			b.answer("POST /redfish/v1/SessionService/Sessions", login)
			w.WriteHeader(http.StatusNoContent)
		}))
	}
	return b
}

// Where there is no room for a session those are ended that earlier terms have
// left, and no others.
func TestRoomIsMadeForASession(t *testing.T) {
	b := full(t, true)
	m := open(t, b.endpoint())
	m.Inherit([]string{"/s/1", "/s/2", "/s/9"})
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	asked := strings.Join(b.took(), " ")
	if strings.Count(asked, "DELETE") != 1 || !strings.Contains(asked, "DELETE /s/1") || strings.Count(asked, "POST") != 2 {
		t.Errorf("asked %s", asked)
	}
}

func TestNoRoomIsMadeForASession(t *testing.T) {
	for name, c := range map[string]struct {
		basic   bool
		inherit []string
		asked   int // with the credential itself
	}{
		"nothing is left":         {true, nil, 0},
		"another's by now":        {true, []string{"/s/2"}, 3},
		"no basic authentication": {false, []string{"/s/1", "/s/3"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := full(t, c.basic)
			m := open(t, b.endpoint())
			for range 3 {
				m.Inherit(c.inherit)
				if _, err := look(m, nil); !errors.Is(err, driver.ErrBusy) {
					t.Fatalf("got %v", err)
				}
			}
			asked := strings.Join(b.took(), " ")
			if n := strings.Count(asked, "/s/"); n != c.asked || strings.Count(asked, "POST") != 3 || strings.Contains(asked, "DELETE") {
				t.Errorf("asked %s", asked)
			}
		})
	}
}
