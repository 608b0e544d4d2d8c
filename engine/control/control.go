// Package control is the API of a running daemon, for the commands and for other programs: HTTP with
// JSON below /api/v1, the same on a unix socket in the state directory (Serve) and over TLS (Network).
//
// One table has every route (routes.go): its method and path, the verb that a caller needs, what it
// takes and what it gives. The handlers, the OpenAPI document, the reference in docs/api.md and the
// test of who may do what are made of it.
//
// The kernel names the caller on the socket, which only the daemon's user, root and the members of a
// group can open. Over TLS a caller shows a certificate or a token, and package access says what it
// may do. What is asked to be done is in the audit log before it is done.
//
// In a path the site "-" is the daemon's only one. A host that keeps several sites has a process for each, and its daemon
// passes requests on (Front, ServeBehind). Errors answer {"error": "text", "kind": "…"}.
package control

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/openid"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Daemon is what a daemon answers. Errors wrap site.ErrNotFound for a site or
// node that does not exist and site.ErrRefused for an order that makes no
// sense; they do so on the client's side too.
type Daemon interface {
	// Sites are the names of the sites that it manages.
	Sites() []string
	// Design is the design in force; nil before the first. It must not be changed.
	Design(siteName string) (*site.Site, error)
	// Where says which rack a node is in and which role it has; false for one that is not known.
	Where(siteName, node string) (rack, role string, known bool)
	// Access is what people have approved of the access of the design, and what the design in force would
	// grant. Neither must be changed.
	Access(siteName string) (approved site.GrantedState, inForce site.Granted, err error)
	// AccessReport is what of that waits for a person. It must not be changed.
	AccessReport(siteName string) (site.AccessReport, error)
	Auditor
	// Report is a site's status and plan as they are now.
	Report(siteName string) (site.Report, error)
	// Chart is the site's last rollout over time, with the forecast of what is left.
	Chart(siteName string) (site.RolloutChart, error)
	// Proposals are the pull requests that it has looked at, the highest number first, and Proposal is one of them. What they
	// return must not be changed.
	Proposals(siteName string) ([]site.ProposalBrief, error)
	Proposal(siteName string, number int) (site.ProposalDetail, error)
	// ProposalsOf are the open ones that do something to a node.
	ProposalsOf(siteName, node string) ([]site.NodeProposal, error)
	// Commits are those that can be planned without a pull request, and Commit is one of them with its last plan. PlanCommit is
	// Commit, but has it planned first if that plan is outdated, and waits a moment for it. What they return must not be changed.
	Commits(ctx context.Context, siteName string) (site.CommitList, error)
	Commit(ctx context.Context, siteName, id string) (site.CommitDetail, error)
	PlanCommit(ctx context.Context, siteName, id string) (site.CommitDetail, error)
	// Verification is what the last looks show of a site's surroundings.
	Verification(siteName string) (site.Verification, error)
	// RunVerification has nodes looked at now, and does not wait for that.
	RunVerification(ctx context.Context, siteName string, r site.VerificationRequest) (site.VerificationRun, error)
	// Known is what is known of a site beside its design.
	Known(siteName string) (site.Known, error)
	// Events are the latest events with a Seq above after, oldest first. The
	// daemon keeps some thousand; older ones are in the History.
	Events(siteName string, after uint64) ([]site.Event, error)
	// History are the last events of a node, oldest first; without a node
	// those of the site itself.
	History(ctx context.Context, siteName, node string) ([]site.Event, error)
	// MachineLog is the end of the own log of a node's machine, as it was last read.
	MachineLog(siteName, node string) (site.MachineLog, error)
	// Watched is when the daemon and those before it looked at machines at all.
	Watched(siteName string) (site.Watched, error)
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

// Auditor keeps the audit log of a site.
type Auditor interface {
	// AddAudit records an attempt before anything is done, and gives it its Seq.
	AddAudit(ctx context.Context, siteName string, e site.AuditEntry) (site.AuditEntry, error)
	// EndAudit records what came of one.
	EndAudit(ctx context.Context, siteName string, e site.AuditEntry) error
	// Audit are the first attempts with a Seq above after, oldest first, at most so many.
	Audit(ctx context.Context, siteName string, after uint64, most int) ([]site.AuditEntry, error)
}

// ErrNoDaemon is wrapped by a client's errors when no daemon listens.
var ErrNoDaemon = errors.New("no daemon")

// Socket is the path of the socket in a state directory.
func Socket(stateDir string) string { return filepath.Join(stateDir, "control.sock") }

// Errors of requests that are not carried out.
var (
	ErrBadRequest = errors.New("not understood")
	ErrWhoAreYou  = errors.New("not authenticated")
	ErrTooMany    = errors.New("too many requests")
	// ErrWhichSite is of a daemon that manages several sites, for a request that names none.
	ErrWhichSite = errors.New("name one site, with --site on the command line")
	// ErrFollows is of a daemon that follows: another one answers for the site. It is a site.ErrRefused too.
	ErrFollows error = followsError{}
)

type followsError struct{}

func (followsError) Error() string { return "this daemon follows" }
func (followsError) Unwrap() error { return site.ErrRefused }

// kinds are the errors that cross the connection as what they are.
var kinds = []struct {
	name   string
	status int
	is     error
}{
	{"not-authenticated", http.StatusUnauthorized, ErrWhoAreYou},
	{"issuer-away", http.StatusServiceUnavailable, openid.ErrAway},
	{"access-file-wrong", http.StatusServiceUnavailable, openid.ErrBroken},
	{"denied", http.StatusForbidden, access.ErrDenied},
	{"which-site", http.StatusBadRequest, ErrWhichSite},
	{"bad-request", http.StatusBadRequest, ErrBadRequest},
	{"too-many-requests", http.StatusTooManyRequests, ErrTooMany},
	{"not-found", http.StatusNotFound, site.ErrNotFound},
	{"away", http.StatusServiceUnavailable, ErrAway},
	{"follows", http.StatusServiceUnavailable, ErrFollows},
	{"refused", http.StatusConflict, site.ErrRefused},
	{"mismatch", http.StatusConflict, artifact.ErrMismatch},
	{"not-fetched", http.StatusConflict, artifact.ErrRefused},
	{"no-room", http.StatusConflict, artifact.ErrNoRoom},
}

// failure is an error as it crosses the connection.
type failure struct {
	Text string `json:"error"`
	// Kind is one of kinds; empty for an error of the daemon.
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
