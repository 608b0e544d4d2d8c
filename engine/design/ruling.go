package design

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// ruling holds the policies and suppressions of another revision, which a site
// is checked against instead of its own.
type ruling struct {
	pack pack // has the policies
	site *site.Site
}

// Judge checks a site against the policies and suppressions of another revision
// of it, not its own. So a change cannot loosen the rule that it breaks. A
// revision that is itself broken gives no findings. Errors are those of
// Evaluate.
func (e *Evaluator) Judge(ctx context.Context, files, by fs.FS, siteName string) ([]site.Finding, error) {
	rules, err := e.Evaluate(ctx, by, siteName)
	if err != nil || rules.Site == nil {
		return nil, err
	}
	lim := e.Limits.withDefaults()
	p, _, err := collect(by, siteName, lim)
	if err != nil {
		return nil, fmt.Errorf("read design: %w", err)
	}
	other := evaluation{memory: newMemory(), atOnce: e.workers(), ask: e.asker(p.site, lim)}
	d, err := other.divide(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case d != nil:
		p = d.sharedPack()
	default:
		p.entangled = true
	}
	r, err := e.answerAnew(ctx, files, siteName, evaluation{by: &ruling{pack: p, site: rules.Site}})
	return r.Findings, err
}

// ruled adds the findings of a ruling's policies to a node.
func ruled(n *node, l layer) {
	for _, f := range l.findings {
		if isPolicy(f.Code) {
			n.findings = append(n.findings, f)
		}
	}
}

// rulingOf returns the digest of the text that a site's policies and
// suppressions depend on, wherever it is: their declarations, what these refer
// to, and the files of other packages. For an undivided package it covers all
// of it.
func rulingOf(p pack, d *division) string {
	h := sha256.New()
	own := map[string]bool{}
	if d != nil {
		reached := d.reach([]string{policiesSection, "suppressions"})
		for _, f := range d.files {
			own[f.name] = true
			for _, part := range f.outline.common {
				if part.Kind == clause || part.Kind == topField && reached[part.Name] {
					writeText(h, f.src[part.Start:part.End])
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		if !own[name] {
			writeText(h, name)
			writeText(h, p.files[name])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
