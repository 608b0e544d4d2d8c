package control

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/openid"
	"github.com/slipway-gitops/slipway/engine/site"
)

// api answers for a daemon to the callers of one listener.
type api struct {
	daemon Daemon
	front  *Front       // the daemon, where each site has a process of its own; nil elsewhere
	access *access.File // nil on the socket, whose callers may do everything
	limits *limits
	log    *slog.Logger
	// problem is told when the access file is found wrong, and with nil when it is right again.
	problem func(error)
	wrong   lastError
	// pages makes what answers paths outside /api/; nil for none.
	pages func(api http.Handler) Pages
	// logins lets persons in by OpenID Connect; nil on the socket.
	logins *openid.Logins
	// certificates says whether persons can show one.
	certificates bool

	reports       shared[site.Report]
	knowns        shared[site.Known]
	charts        shared[site.RolloutChart]
	verifications shared[site.Verification]
	events        hub

	encoding slots
	consoles consoles
	rejected rejected
}

// newAPI makes the API of a listener. What is asked for more often than every so much time is computed
// once for all who ask.
func newAPI(d Daemon, file *access.File, l Limits, every time.Duration, log *slog.Logger) *api {
	a := &api{daemon: d, access: file, limits: newLimits(l), log: log}
	a.front, _ = d.(*Front)
	a.encoding = make(slots, 2) // the cores of a small host
	a.reports.every, a.knowns.every, a.verifications.every, a.charts.every = every, every, every, max(every, chartEvery)
	a.charts.rest = chartRest
	a.events.api = a
	return a
}

// chartEvery is the least time from one chart to the next, on every listener. The forecast of a large
// site takes long: chartRest keeps it below a twentieth of a core.
const (
	chartEvery = time.Second
	chartRest  = 20
)

// policyNow is what callers may do at a site now, or without one what the access file alone allows. While
// that file is wrong nobody from the network may do anything.
func (a *api) policyNow(siteName string) *access.Policy {
	p := a.filePolicy()
	if siteName == "" {
		return p
	}
	approved, inForce, err := a.daemon.Access(siteName)
	if err != nil {
		return p // the design of a site that is not known grants nothing
	}
	return p.With(access.Design{Site: siteName, Approved: approved.Granted, InForce: inForce})
}

func (a *api) filePolicy() *access.Policy {
	if a.access == nil {
		return &access.Policy{} // which allows users of the host everything, and nobody else anything
	}
	p, err := a.access.Policy()
	if a.wrong.isOther(err) && a.problem != nil {
		a.problem(err)
	}
	return p
}

// lastError tells whether an error is the one of before.
type lastError struct {
	mu   sync.Mutex
	text string
}

func (l *lastError) isOther(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	other := text != l.text
	l.text = text
	return other
}

// report is the report of a site as it is now, or became while this was waited for. That of a page may be as old as
// the page says.
func (c *call) report() (*snapshot[site.Report], error) {
	one, _ := c.r.Context().Value(oneReportKey{}).(*oneReport)
	compute := func() (site.Report, error) { return c.daemon.Report(c.site) }
	if one == nil {
		return c.reports.get(c.r.Context(), c.site, compute)
	}
	if kept := one.kept.Load(); kept != nil && kept.site == c.site {
		return kept.report, nil
	}
	s, err := one.ask(c, compute)
	if err == nil {
		one.kept.Store(&keptReport{c.site, s})
	}
	return s, err
}

// ask asks for the report of the page, which is as old as the page allows.
func (o *oneReport) ask(c *call, compute func() (site.Report, error)) (*snapshot[site.Report], error) {
	switch {
	case o.recent:
		return c.reports.recent(c.r.Context(), c.site, compute)
	case !o.since.IsZero():
		return c.reports.since(c.r.Context(), c.site, o.since, compute)
	}
	return c.reports.get(c.r.Context(), c.site, compute)
}
