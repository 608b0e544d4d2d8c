// Package engine keeps one site as its design says: it follows a Source,
// evaluates, and has one worker per node that observes, plans, passes the
// gates, applies the first step and looks again.
package engine

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Source gives the revisions of a site's design.
type Source interface {
	// Fetch returns the newest revision. A fetch without change costs one
	// listing of remote references and returns the same ID with the Files of
	// the earlier call. An error never looks like an empty design.
	Fetch(ctx context.Context) (site.Revision, error)
}

// Reporter tells people how a site is.
type Reporter interface {
	// Report is called on every semantic change, one call at a time, and
	// again after an error. It must not keep the report.
	Report(ctx context.Context, r site.Report) error
}
