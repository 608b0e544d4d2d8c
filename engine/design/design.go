// Package design turns a commit's files into the effective design of a site,
// with the origin of each value. If they are wrong, it returns findings that
// say what is wrong and where. It is the only importer of CUE.
//
// CUE types, constrains and composes. Layers (profiles and nodes) are read from
// it one by one and merged here, because CUE's defaults do not stack. Only
// worker processes parse and evaluate repository bytes, see Evaluator: CUE's
// parser can overflow the stack on a few megabytes of nesting, from which Go
// cannot recover.
package design

import (
	"context"
	"fmt"
	"io/fs"
	"time"

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

// EvaluateHere evaluates a site in this process and as a whole. It is the
// reference for every other way of evaluating. Never call it on untrusted
// files. It reads nothing but files.
func EvaluateHere(files fs.FS, siteName string) Result {
	p, findings, err := collect(files, siteName, Limits{}.withDefaults())
	if err != nil {
		return Result{Findings: []site.Finding{{
			Code: "unreadable", Severity: site.SeverityError,
			Message: fmt.Sprintf("the files cannot be read: %v", err),
			Why:     "Slipway does not apply a design that it can read only in part.",
			Fix:     "Make the files readable, and check again.",
		}}}
	}
	if site.HasErrors(findings) {
		return Result{Findings: limit(findings)}
	}
	return evaluateHere(p, "")
}

func evaluateHere(p pack, explain string) Result {
	whole := evaluation{memory: newMemory(), ask: askHere, most: Limits{}.withDefaults().Values, atOnce: 1, now: time.Now(), explain: explain, undivided: true}
	r, err := whole.run(context.Background(), p)
	if err != nil {
		panic(err) // this process never garbles its own answers
	}
	return r
}

// askHere answers a request in this process.
func askHere(_ context.Context, r request) ([]byte, error) {
	return answer(r, nil, func(string) {}), nil
}

// unchecked and uncompared say that there may be more findings.
var (
	unchecked = site.Finding{
		Code: "rules-not-checked", Severity: site.SeverityNote,
		Message: "references and required fields were not checked",
		Why:     "Parts of the design cannot be read, so what they declare would be reported as missing.",
		Fix:     "Correct what cannot be read, and check again.",
	}
	uncompared = site.Finding{
		Code: "rules-not-checked", Severity: site.SeverityNote,
		Message: "nodes that have no value, and what spans several nodes, were not checked",
		Why:     "A node, or a part of one, has no value, so these checks would report what it holds as missing.",
		Fix:     "Correct that first, and check again.",
	}
)
