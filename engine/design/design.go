// Package design turns a commit's files into the effective design of a site,
// each value with its origin, or into findings that say what is wrong and
// where. It is the only importer of CUE.
//
// CUE types, constrains and composes; layers (profiles and nodes) are read out
// of it one by one and merged here, because CUE's defaults do not stack.
// Repository bytes are parsed and evaluated in worker processes only, see
// Evaluator: CUE's parser can overflow the stack on a few megabytes of
// nesting, from which Go cannot recover.
package design

import (
	"fmt"
	"io/fs"
	"time"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Result is what a revision says about one site.
type Result struct {
	// Site is nil when a finding is an error.
	Site     *site.Site
	Findings []site.Finding
	// Suppressed are findings that the design silences.
	Suppressed []site.Finding
	// Explanation is nil unless one was asked for and its node exists.
	Explanation *Explanation
}

// EvaluateHere evaluates a site in this process. It is what a worker does;
// never call it on files that are not trusted. It reads nothing but files.
func EvaluateHere(files fs.FS, siteName string) Result {
	p, findings, err := collect(files, siteName, Limits{}.withDefaults())
	if err != nil {
		return Result{Findings: []site.Finding{{
			Code: "unreadable", Severity: site.SeverityError,
			Message: fmt.Sprintf("the files cannot be read: %v", err),
			Why:     "A design that is read in part is not a design.",
			Fix:     "Make the files readable, and check again.",
		}}}
	}
	if site.HasErrors(findings) {
		return Result{Findings: limit(findings)}
	}
	p.now = time.Now()
	return evaluate(p, func(string) {})
}

// evaluate evaluates a collected site. It calls progress with what it is about
// to do, so that a parent can say where a worker died.
func evaluate(p pack, progress func(string)) (r Result) {
	defer func() {
		if cause := recover(); cause != nil {
			r = Result{Findings: []site.Finding{rule.Panicked("the evaluation", cause)}}
		}
	}()
	l := newLoader(p)
	progress("parsing the files")
	l.readModule()
	c := compiler{loader: l}
	v, ok := c.compile(progress)
	if !ok {
		return Result{Findings: limit(l.findings.list)}
	}
	progress("merging the layers")
	a := newAssembly(&c)
	s := a.assemble(v)
	progress("checking the rules")
	if a.lost {
		l.findings.add(unchecked)
	} else {
		l.findings.add(check(s)...)
	}
	kept, silenced := suppress(l.findings.list, s, p.now, !a.lost)
	r.Findings, r.Suppressed = limit(kept), limit(silenced)
	if !site.HasErrors(r.Findings) {
		r.Site, r.Explanation = s, a.explanation
	}
	return r
}

// unchecked says that there may be more to find.
var unchecked = site.Finding{
	Code: "rules-not-checked", Severity: site.SeverityNote,
	Message: "references and required fields were not checked",
	Why:     "Parts of the design cannot be read, and what they declare would be missed for no other reason.",
	Fix:     "Repair what cannot be read, and check again.",
}

// check runs every rule.
func check(s *site.Site) []site.Finding {
	all := rule.OnSite(s)
	fleet := rule.NewFleet()
	for _, name := range s.NodeNames() {
		found, facts := rule.OnNode(s, s.Nodes[name])
		all = append(all, found...)
		fleet.Put(name, facts)
	}
	return append(all, fleet.Check(s)...)
}
