package control

import (
	"cmp"
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

// repairTimeout is how long what is done in any case waits for its entry.
const repairTimeout = 2 * time.Second

// entry is what the audit log says of the call.
func (c *call) entry() site.AuditEntry {
	return site.AuditEntry{
		When: time.Now().UTC(), By: c.caller.Name, Kind: string(c.caller.Kind), Issuer: c.caller.Issuer, From: c.caller.From, Verb: string(c.route.verb),
		Node: cmp.Or(c.order.Node, c.node), Digest: c.order.Digest, Reason: c.order.Reason, Outcome: site.AuditBegun,
	}
}

// audited does what is asked between two writes of the audit log. Without the first, nothing is done that
// the network asks for, but for what repairs. A user of the host is not kept from what the host needs.
func (c *call) audited() (any, error) {
	c.limits.charge(c.caller, actCost)
	regardless, within := c.route.repairs || c.caller.Kind == access.User, auditTimeout
	if regardless {
		within = repairTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), within)
	defer cancel()
	e, err := c.daemon.AddAudit(ctx, c.site, c.entry())
	recorded := err == nil
	switch {
	case !recorded && !regardless:
		return nil, fmt.Errorf("nothing was done, because the audit log cannot be written: %w", err)
	case !recorded:
		c.log.Error("goes on without an entry in the audit log, which cannot be written", "by", c.caller.String(), "from", c.caller.From, "what", string(c.route.verb), "node", cmp.Or(c.order.Node, c.node), "err", err)
		e = c.entry()
	}
	ended := false
	defer func() {
		if !ended { // it panicked
			e.Outcome, e.Text = site.AuditFailed, "the daemon failed in the middle of it"
			c.end(e, recorded)
		}
	}()
	v, err := c.route.serve(c)
	ended = true
	c.reports.forget(c.site) // whoever acts sees what came of it
	e.Outcome, e.Text = outcomeOf(v, err)
	c.end(e, recorded)
	return v, err
}

// end records what came of an act whose begin is recorded, and says it in the log of the daemon. It has
// happened by then: that it cannot be recorded changes no answer.
func (c *call) end(e site.AuditEntry, recorded bool) {
	c.log.Info("act", "by", c.caller.String(), "from", e.From, "what", e.Verb, "node", e.Node, "outcome", string(e.Outcome), "text", e.Text)
	if !recorded {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), auditTimeout)
	defer cancel()
	if err := c.daemon.EndAudit(ctx, c.site, e); err != nil {
		c.log.Error("audit log", "seq", e.Seq, "outcome", string(e.Outcome), "err", err)
	}
}

func outcomeOf(v any, err error) (site.AuditOutcome, string) {
	if w, ok := v.(written); ok && err == nil {
		err = w.err
	}
	if d, ok := v.(done); ok && err == nil {
		return site.AuditDone, d.Done
	}
	if g, ok := v.(site.SSHGrant); ok && err == nil {
		return site.AuditDone, fmt.Sprintf("SSH certificate %d for %s, valid until %s", g.Serial, g.Principal, g.Until.UTC().Format(time.RFC3339))
	}
	if err == nil {
		return site.AuditDone, ""
	}
	text := entryText(err)
	if _, status := failureOf(err); status < http.StatusInternalServerError {
		return site.AuditRefused, text
	}
	return site.AuditFailed, text
}

// entryText is an error as an entry has it.
func entryText(err error) string {
	const most = 1000
	text := err.Error()
	return site.Printable(strings.ToValidUTF8(text[:min(len(text), most)], ""))
}

// refused records that somebody with a right to such an order gave one that makes no sense.
func (c *call) refused(why error) error {
	c.limits.charge(c.caller, actCost)
	e := c.entry()
	e.Outcome, e.Text = site.AuditRefused, entryText(why)
	c.record(c.r.Context(), c.site, e)
	return why
}

// denied records that somebody tried what it may not do. The answer is the same when that cannot be
// recorded.
func (c *call) denied(why error) error {
	c.log.Warn("denied", "by", c.caller.String(), "from", c.caller.From, "what", c.route.method+" "+c.route.path, "why", entryText(why))
	c.limits.charge(c.caller, deniedCost)
	if c.route.acts && !c.policy.Names(c.caller) {
		c.reject(why) // anybody with a certificate can make the daemon write that
		return why
	}
	if c.route.acts {
		e := c.entry()
		e.Outcome, e.Text = site.AuditDenied, entryText(why)
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
	if strings.HasSuffix(r.URL.Path, "/verification") {
		what = string(access.Verify)
	}
	for _, m := range access.Verbs {
		if m.Verb != access.Verify && strings.HasSuffix(r.URL.Path, "/"+string(m.Verb)) { // the path of artifacts ends so too
			what = string(m.Verb)
		}
	}
	a.record(r.Context(), own[0], site.AuditEntry{
		When: time.Now().UTC(), Kind: string(caller.Kind), From: caller.From, Verb: site.Printable(what[:min(len(what), 32)]), Outcome: site.AuditDenied, Text: entryText(why),
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
