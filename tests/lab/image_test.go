package lab_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// A BMC takes an image only where it can be read as a medium is, and an installer
// runs only if all of it came.
func TestMediaAreReadBeforeTheyAreTaken(t *testing.T) {
	content := strings.Repeat("0123456789", 30_000)
	good := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	}
	var gone atomic.Bool
	for name, c := range map[string]struct {
		h      http.HandlerFunc
		taken  bool
		booted bool
	}{
		"good":      {good, true, true},
		"not there": {http.NotFound, false, false},
		"no ranges": {func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			good(w, r)
		}, false, false},
		"no HEAD": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				http.Error(w, "no", http.StatusMethodNotAllowed)
				return
			}
			good(w, r)
		}, false, false},
		"no size": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusOK)
				return
			}
			good(w, r)
		}, false, false},
		"another range than asked for": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				r.Header.Set("Range", "bytes=1-65536")
			}
			good(w, r)
		}, false, false},
		"a larger size than it has": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.Header().Set("Content-Length", fmt.Sprint(len(content)+1))
				return
			}
			good(w, r)
		}, true, false},
		"gone when the machine boots": {func(w http.ResponseWriter, r *http.Request) {
			if gone.Load() {
				http.NotFound(w, r)
				return
			}
			good(w, r)
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			gone.Store(false)
			srv := httptest.NewServer(c.h)
			defer srv.Close()
			f := start(t, lab.Config{Seed: "test", Machines: one(lab.Latency{}, isBlank).Machines})
			b := beside(t, f)
			if !c.taken {
				b.want(500, "POST", media+"/Actions/VirtualMedia.InsertMedia", `{"Image": "`+srv.URL+`/x.iso"}`)
				if m := f.Machine("n1").State().Media; m != "" {
					t.Errorf("inserted is %q", m)
				}
				return
			}
			b.insert(srv.URL + "/x.iso")
			gone.Store(true)
			b.override("Once", "Cd")
			b.reset("On")
			eventually(t, "the installer has come and gone", func() bool {
				s := f.Machine("n1").State()
				return s.Counts.Installers == 1 && s.Runs != "installer"
			})
			if s := f.Machine("n1").State(); (s.Counts.Installs == 1) != c.booted {
				t.Errorf("the machine has %+v", s)
			}
		})
	}
}

// A medium that is in use survives a restart of its server: the BMC reads again
// what a broken connection did not bring.
func TestMediaOutliveBrokenConnections(t *testing.T) {
	content := strings.Repeat("0123456789", 30_000)
	var gets, heads atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := gets.Load(); r.Method == http.MethodHead && heads.Add(1) == 2 || r.Method == http.MethodGet && n >= 2 && n <= 4 {
			gets.Add(1)
			w.Header().Set("Content-Length", "10")
			w.Write([]byte("half"))
			panic(http.ErrAbortHandler)
		}
		if r.Method == http.MethodGet {
			gets.Add(1)
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	}))
	defer srv.Close()
	f := start(t, lab.Config{Seed: "test", Machines: one(lab.Latency{}, isBlank).Machines})
	b := beside(t, f)
	b.insert(srv.URL + "/x.iso")
	b.override("Once", "Cd")
	b.reset("On")
	eventually(t, "the machine is installed", func() bool { return f.Machine("n1").State().Counts.Installs == 1 })
}
