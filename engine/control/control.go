// Package control is the API of a running daemon, on a unix socket in its
// state directory: what the commands talk to. Only the daemon's user, root and the
// members of the group that Serve is given can open the socket. It is HTTP with
// JSON:
//
//	GET  /v1/report?site=NAME   site.Report, with an ETag
//	GET  /v1/known?site=NAME    what is known beside the design, as site.Known
//	GET  /v1/events?site=NAME&after=SEQ
//	                            what happened since, as a list of site.Event
//	GET  /v1/history?site=NAME&node=NODE
//	                            the last events of a node, or of the site
//	GET  /v1/node?site=NAME&node=NODE
//	                            all that is known of one node, as site.Closeup
//	GET  /v1/file?site=NAME&node=NODE&key=KEY
//	                            what is in a file of the node's system, as item.Content
//	GET  /v1/said?site=NAME&node=NODE
//	                            the last that the agent of a node has said
//	GET  /v1/console?site=NAME&node=NODE
//	                            the last of what the node's machine wrote to its
//	                            serial console, as bytes in base64
//	GET  /v1/state              a copy of all records, see Exporter
//	POST /v1/order?site=NAME    a site.Order; answers {"done": "a sentence"}
//	POST /v1/ssh?site=NAME      a site.SSHRequest; answers site.SSHGrant
//	GET  /v1/artifacts          the artifact store, as artifact.Listing
//	PUT  /v1/artifacts?sha256=DIGEST&name=NAME
//	                            a file for it; answers artifact.Info
//	POST /v1/artifacts/fetch?url=URL&sha256=DIGEST
//	POST /v1/artifacts/verify   answer with lines of JSON until they are done
//	POST /v1/artifacts/collect?unused=DURATION&dry=BOOL
//	                            answers the files that are removed
//
// Without a name the only site is meant. Errors answer {"error": "text",
// "kind": "not-found" | "refused" | …} with status 404, 409 and 500.
package control

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Daemon is what a daemon answers. Errors wrap site.ErrNotFound for a site or
// node that does not exist and site.ErrRefused for an order that makes no
// sense; they do so on the client's side too.
type Daemon interface {
	// Report is a site's status and plan as they are now.
	Report(siteName string) (site.Report, error)
	// Known is what is known of a site beside its design.
	Known(siteName string) (site.Known, error)
	// Events are the latest events with a Seq above after, oldest first. The
	// daemon keeps some thousand; older ones are in the History.
	Events(siteName string, after uint64) ([]site.Event, error)
	// History are the last events of a node, oldest first; without a node
	// those of the site itself.
	History(ctx context.Context, siteName, node string) ([]site.Event, error)
	// File is what is in a file of a node's system, by its key, as far as it may be
	// shown.
	File(ctx context.Context, siteName, node, key string) (item.Content, error)
	// Closeup is all that is known of one node, with its inventory.
	Closeup(ctx context.Context, siteName, node string) (site.Closeup, error)
	// Console is the last of what a node's machine wrote to its serial console.
	Console(ctx context.Context, siteName, node string) ([]byte, error)
	// Said is the last of what the agent in the memory of a node's machine has said, oldest
	// first.
	Said(ctx context.Context, siteName, node string) ([]site.Said, error)
	// CertifyLogin signs a certificate by which a person logs in to a node's system.
	CertifyLogin(ctx context.Context, siteName string, r site.SSHRequest) (site.SSHGrant, error)
	// Do carries out an order and says in a sentence what was done.
	Do(ctx context.Context, siteName string, o site.Order) (string, error)
}

// ErrNoDaemon is wrapped by a client's errors when no daemon listens.
var ErrNoDaemon = errors.New("no daemon")

// Socket is the path of the socket in a state directory.
func Socket(stateDir string) string { return filepath.Join(stateDir, "control.sock") }

// kinds are the errors that cross the socket as what they are.
var kinds = []struct {
	name   string
	status int
	is     error
}{
	{"not-found", http.StatusNotFound, site.ErrNotFound},
	{"refused", http.StatusConflict, site.ErrRefused},
	{"mismatch", http.StatusConflict, artifact.ErrMismatch},
	{"not-fetched", http.StatusConflict, artifact.ErrRefused},
	{"no-room", http.StatusConflict, artifact.ErrNoRoom},
}

// failure is an error as it crosses the socket.
type failure struct {
	Text string `json:"error"`
	Kind string `json:"kind,omitempty"`
}

func (f *failure) Error() string { return f.Text }

// Unwrap is the error's kind.
func (f *failure) Unwrap() error {
	for _, k := range kinds {
		if k.name == f.Kind {
			return k.is
		}
	}
	return nil
}

// done is the answer to an order.
type done struct {
	Done string `json:"done"`
}
