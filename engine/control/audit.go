package control

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// auditTimeout bounds how long an entry may take to be written, also when the caller has gone.
const auditTimeout = 10 * time.Second

// entry is what the audit log says of the call.
func (c *call) entry() site.AuditEntry {
	verb := string(c.route.verb)
	if verb == "" {
		verb = "call"
	}
	return site.AuditEntry{
		When: time.Now().UTC(), By: c.caller.Name, Kind: string(c.caller.Kind), From: c.caller.From, Verb: verb,
		Node: c.order.Node + c.node, Digest: c.order.Digest, Reason: c.order.Reason, Outcome: site.AuditBegun,
	}
}

// audited does what is asked between two writes of the audit log. Without the first, nothing is done.
func (c *call) audited() (any, error) {
	c.limits.charge(c.caller, actCost)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), auditTimeout)
	defer cancel()
	e, err := c.daemon.AddAudit(ctx, c.site, c.entry())
	if err != nil {
		return nil, fmt.Errorf("nothing was done, because the audit log cannot be written: %w", err)
	}
	v, err := c.route.serve(c)
	e.Outcome, e.Text = outcomeOf(v, err)
	c.log.Info("act", "by", c.caller.String(), "from", e.From, "what", e.Verb, "node", e.Node, "outcome", string(e.Outcome), "text", e.Text)
	c.end(e)
	return v, err
}

// end records what came of an act. It has happened by then: that it cannot be recorded changes no
// answer, and is in the log of the daemon.
func (c *call) end(e site.AuditEntry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), auditTimeout)
	defer cancel()
	if err := c.daemon.EndAudit(ctx, c.site, e); err != nil {
		c.log.Error("audit log", "seq", e.Seq, "outcome", string(e.Outcome), "err", err)
	}
}

func outcomeOf(v any, err error) (site.AuditOutcome, string) {
	const most = 1000
	if w, ok := v.(written); ok && err == nil {
		err = w.err
	}
	if d, ok := v.(done); ok && err == nil {
		return site.AuditDone, d.Done
	}
	if err == nil {
		return site.AuditDone, ""
	}
	text := site.Printable(err.Error())
	text = text[:min(len(text), most)]
	if _, status := failureOf(err); status < http.StatusInternalServerError {
		return site.AuditRefused, text
	}
	return site.AuditFailed, text
}

// denied records that somebody tried what it may not do. The answer is the same when that cannot be
// recorded.
func (c *call) denied(why error) error {
	c.log.Warn("denied", "by", c.caller.String(), "from", c.caller.From, "what", c.route.method+" "+c.route.path, "why", why.Error())
	c.limits.charge(c.caller, deniedCost)
	if c.route.acts {
		e := c.entry()
		e.Outcome, e.Text = site.AuditDenied, site.Printable(why.Error())
		c.record(c.r.Context(), c.site, e)
	}
	return why
}

// deniedNobody records that somebody who is not known tried to do something, and not to read: as far as
// a budget goes that all such attempts share.
func (a *api) deniedNobody(r *http.Request, caller access.Caller, why error) {
	own := a.daemon.Sites()
	if r.Method == http.MethodGet || r.Method == http.MethodHead || len(own) == 0 || !a.limits.mayRecordNobody() {
		return
	}
	what := r.Method
	for _, m := range access.Verbs {
		if strings.HasSuffix(r.URL.Path, "/"+string(m.Verb)) {
			what = string(m.Verb)
		}
	}
	a.record(r.Context(), own[0], site.AuditEntry{
		When: time.Now().UTC(), Kind: string(caller.Kind), From: caller.From, Verb: site.Printable(what[:min(len(what), 32)]), Outcome: site.AuditDenied, Text: site.Printable(why.Error()),
	})
}

// record records what was denied.
func (a *api) record(ctx context.Context, siteName string, e site.AuditEntry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if _, err := a.daemon.AddAudit(ctx, siteName, e); err != nil {
		a.log.Error("audit log", "outcome", string(e.Outcome), "err", err)
	}
}
