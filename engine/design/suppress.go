package design

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// suppress removes the findings that a site's suppressions silence, and adds
// findings about the suppressions themselves. With whole, every rule was
// checked, so a suppression that silences nothing is reported.
func suppress(all []site.Finding, s *site.Site, now time.Time, whole bool) (kept, silenced []site.Finding) {
	q := silence{site: s, now: now, used: map[string]bool{}}
	q.known, q.firm = codes(s)
	for _, name := range slices.Sorted(maps.Keys(s.Suppressions)) {
		q.consider(name, s.Suppressions[name])
	}
	for _, f := range all {
		if q.silences(f) {
			silenced = append(silenced, f)
			continue
		}
		kept = append(kept, f)
	}
	if whole {
		q.unused()
	}
	return append(kept, q.findings.list...), silenced
}

// codes lists the codes that a finding can have, and those that cannot be
// silenced.
func codes(s *site.Site) (known []string, firm map[string]bool) {
	firm = map[string]bool{}
	for _, r := range rule.All() {
		known = append(known, r.Code)
		firm[r.Code] = r.Firm
	}
	for name := range s.Policies {
		known = append(known, policyCode(name))
	}
	slices.Sort(known)
	return known, firm
}

// silence holds the suppressions of a site while they are applied.
type silence struct {
	site  *site.Site
	now   time.Time
	known []string
	firm  map[string]bool
	// inForce are names of suppressions, in order.
	inForce  []string
	used     map[string]bool
	findings findings
}

// consider puts a suppression into force, or reports why it cannot.
func (q *silence) consider(name string, x *site.Suppression) {
	path := join("suppressions", name)
	switch {
	case !slices.Contains(q.known, x.Code):
		q.at(join(path, "code"), site.Finding{
			Code: "unknown-code", Severity: site.SeverityError,
			Message: fmt.Sprintf("no finding has the code %q%s", x.Code, rule.DidYouMean(x.Code, q.known)),
			Why:     "The suppression silences nothing, and nobody would notice.",
			Fix:     "Copy the code from the finding; " + q.codesLike(x.Code),
		})
	case q.firm[x.Code]:
		q.at(join(path, "code"), site.Finding{
			Code: "suppression-refused", Severity: site.SeverityError,
			Message: fmt.Sprintf("findings of the code %s cannot be silenced", x.Code),
			Why:     "A design with such findings cannot be applied, or acting on it could lose data.",
			Fix:     "Fix what they report, and remove the suppression.",
		})
	case !x.Until.IsZero() && !q.now.Before(x.Until):
		q.at(join(path, "until"), site.Finding{
			Code: "suppression-expired", Severity: site.SeverityWarning,
			Message: fmt.Sprintf("the suppression %s of %s ended %s", name, x.Code, x.Until.Format(time.RFC3339)),
			Why:     "Its findings are shown again.",
			Fix:     "Fix what the findings report and remove the suppression, or give it a later end.",
		})
	default:
		q.inForce = append(q.inForce, name)
	}
}

// codesLike names the known codes of the same kind.
func (q *silence) codesLike(code string) string {
	if !isPolicy(code) {
		return "`slipway rules` lists them all."
	}
	if len(q.site.Policies) == 0 {
		return "the site has no policies."
	}
	var named []string
	for _, name := range slices.Sorted(maps.Keys(q.site.Policies)) {
		named = append(named, policyCode(name))
	}
	return "those of the site's policies are " + strings.Join(named, ", ") + "."
}

// silences reports whether a suppression in force silences a finding.
func (q *silence) silences(f site.Finding) bool {
	if q.firm[f.Code] {
		return false
	}
	any := false
	for _, name := range q.inForce {
		x := q.site.Suppressions[name]
		if x.Code == f.Code && (len(x.Nodes) == 0 || slices.Contains(x.Nodes, f.Node)) {
			q.used[name], any = true, true
		}
	}
	return any
}

// unused reports suppressions that silence nothing.
func (q *silence) unused() {
	for _, name := range q.inForce {
		x := q.site.Suppressions[name]
		if q.used[name] || x.Reason == "" { // a wrong reason is already reported and comes first
			continue
		}
		what := "there is no such finding"
		if len(x.Nodes) > 0 {
			what += " of " + strings.Join(x.Nodes, ", ")
		}
		q.at(join("suppressions", name), site.Finding{
			Code: "suppression-unused", Severity: site.SeverityNote,
			Message: fmt.Sprintf("the suppression %s of %s silences nothing: %s%s", name, x.Code, what, q.strangers(x.Nodes)),
			Why:     "It would silence a future finding that nobody has looked at.",
			Fix:     "Remove it.",
		})
	}
}

// strangers lists the names that no node has.
func (q *silence) strangers(nodes []string) string {
	var text strings.Builder
	for _, name := range nodes {
		if q.site.Nodes[name] == nil {
			fmt.Fprintf(&text, "; there is no node %q%s", name, rule.DidYouMean(name, q.site.NodeNames()))
		}
	}
	return text.String()
}

// at adds a finding at the place of a path, or of what contains it.
func (q *silence) at(path string, f site.Finding) {
	f.Path = path
	o := q.site.Origins.Of(path)
	for up := path; o.IsZero() && up != ""; o = q.site.Origins.Of(up) {
		up = up[:max(0, strings.LastIndexByte(up, '.'))]
	}
	q.findings.at(o, f)
}
