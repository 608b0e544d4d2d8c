package control

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// ServeBehind answers the host's daemon on a socket until the context ends. Who asks is what that daemon says: the
// socket is for its user alone. What a caller from the network may do is said by the file and by the design; the file is
// nil where the host has no API on the network. Own answers paths that are not of the API.
func ServeBehind(ctx context.Context, socket string, d Daemon, file *access.File, problem func(error), own http.Handler, log *slog.Logger) error {
	onHost := newAPI(d, nil, Limits{}, 0, log)
	onNetwork := newAPI(d, file, NetworkLimits, snapshotEvery, log)
	onNetwork.problem = problem
	b := &behind{api: onNetwork, onHost: onHost.mux(), onNetwork: onNetwork.mux()}
	mux := http.NewServeMux()
	mux.Handle("/api/", onSocket(b))
	mux.HandleFunc("GET /granted", b.granted)
	mux.HandleFunc("POST /denied", b.denied)
	mux.Handle("/", own)
	if err := serveOn(ctx, socket, "", mux, log); err != nil {
		return fmt.Errorf("serve the host's daemon: %w", err)
	}
	return nil
}

// behind is the API of a site's process for the host's daemon.
type behind struct {
	*api              // of callers from the network
	onHost, onNetwork http.Handler
}

func (b *behind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := callerIn(r)
	if err != nil {
		fail(w, err)
		return
	}
	ctx := context.WithValue(r.Context(), callerKey{}, caller)
	switch how := r.Header.Get(reportHeader); how {
	case "":
	case "recent":
		ctx = WithRecentReport(ctx)
	default:
		if since, err := time.Parse(time.RFC3339Nano, how); err == nil {
			ctx = WithReportSince(ctx, since)
		}
	}
	if caller.Kind == access.User {
		b.onHost.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	b.onNetwork.ServeHTTP(w, r.WithContext(ctx))
}

// callerIn is who asks, as the host's daemon says.
func callerIn(r *http.Request) (c access.Caller, err error) {
	text, err := base64.StdEncoding.DecodeString(r.Header.Get(callerHeader))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if kinds := []access.Kind{access.User, access.Person, access.OIDC, access.Token}; err != nil || !slices.Contains(kinds, c.Kind) || c.Name == "" {
		return c, fmt.Errorf("%w: the daemon of the host has not said who asks", ErrWhoAreYou)
	}
	return c, nil
}

func (b *behind) granted(w http.ResponseWriter, _ *http.Request) {
	var g granted
	var err error
	if g.Approved, g.InForce, err = b.daemon.Access(b.daemon.Sites()[0]); err != nil {
		fail(w, err)
		return
	}
	json.NewEncoder(w).Encode(g)
}

// denied records an attempt that the host's daemon has rejected.
func (b *behind) denied(w http.ResponseWriter, r *http.Request) {
	var e site.AuditEntry
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder)).Decode(&e); err != nil || e.Outcome != site.AuditDenied {
		fail(w, fmt.Errorf("%w: not an attempt that was denied", ErrBadRequest))
		return
	}
	e, err := b.daemon.AddAudit(r.Context(), b.daemon.Sites()[0], e)
	if err != nil {
		fail(w, err)
		return
	}
	json.NewEncoder(w).Encode(e)
}
