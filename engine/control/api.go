package control

import (
	"log/slog"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// api answers for a daemon to the callers of one listener.
type api struct {
	daemon Daemon
	access *access.File // nil on the socket, whose callers may do everything
	limits *limits
	log    *slog.Logger

	reports shared[site.Report]
	knowns  shared[site.Known]
	events  hub
}

// newAPI makes the API of a listener. What is asked for more often than every so much time is computed
// once for all who ask.
func newAPI(d Daemon, file *access.File, l Limits, every time.Duration, log *slog.Logger) *api {
	a := &api{daemon: d, access: file, limits: newLimits(l), log: log}
	a.reports.every, a.knowns.every = every, every
	a.events.api = a
	return a
}

// policyNow is what callers may do now.
func (a *api) policyNow() (*access.Policy, error) {
	if a.access == nil {
		return &access.Policy{}, nil // which allows users of the host everything, and nobody else anything
	}
	return a.access.Policy()
}

// report is the report of a site as it is now, or became while this was waited for.
func (c *call) report() (site.Report, error) {
	s, err := c.reports.get(c.r.Context(), c.site, func() (site.Report, error) { return c.daemon.Report(c.site) })
	if err != nil {
		return site.Report{}, err
	}
	return s.value, nil
}
