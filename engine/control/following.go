package control

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/slipway-gitops/slipway/engine/access"
)

// errElsewhere is what somebody reads who does not prove who they are.
var errElsewhere = fmt.Errorf("%w, and another one answers for the site. To read which, ask with a certificate or a token, or run `slipway status` on this host", ErrFollows)

// following answers while the daemon follows: everything is elsewhere. Who leads is for callers who prove who they are,
// whatever they may do: what the design says about that is known to the leader alone.
func (s *Listener) following(elsewhere func() error) http.Handler {
	limits := newLimits(s.network.Limits)
	identify := s.identification(func(access.Caller) bool { return true }).of
	says := func(r *http.Request) error {
		if len(r.Header.Values("Authorization")) == 0 && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0) {
			return errElsewhere
		}
		if _, err := identify(r); err == nil {
			return elsewhere()
		}
		if err := limits.unknown(addressOf(r)); err != nil {
			return err
		}
		return errElsewhere
	}
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fail(w, r.Context().Value(followsKey{}).(error)) })
	var pages Pages
	if s.network.Pages != nil {
		pages = s.network.Pages(api)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ofPages := pages != nil && isPage(r)
		if !isAcceptable(w, r, ofPages) {
			return
		}
		asked := r.Clone(context.WithValue(r.Context(), followsKey{}, says(r)))
		switch isGet := r.Method == http.MethodGet; {
		case !ofPages:
			api.ServeHTTP(w, asked)
			return
		case isGet && strings.HasPrefix(r.URL.Path, "/static/"):
		case isGet: // the browser asks again, until this daemon leads
			w.Header().Set("Refresh", "5")
			asked.URL.Path = "/" // each page says the same
		default: // asked again, a form would be another one
			asked.Method, asked.URL.Path = http.MethodGet, "/"
		}
		pages.ServeHTTP(w, asked)
	})
}

// followsKey is the context's key for what a request is told while the daemon follows.
type followsKey struct{}
