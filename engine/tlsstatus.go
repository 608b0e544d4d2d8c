package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// tlsStatusLocked are the TLS certificates that were signed for a node's system and that others may still accept,
// oldest first.
func (w *worker) tlsStatusLocked(now time.Time) (all []site.TLSState) {
	recorded := w.memory.Recorded.TLS
	for i, c := range recorded {
		_, is := w.node.CertificateIn(w.memory.Observed.Facets[site.FacetBase].System, c.Name)
		replaced := slices.ContainsFunc(recorded[i+1:], func(later site.TLSCertificate) bool { return later.Name == c.Name && !later.Revoked })
		s := site.TLSState{Name: c.Name, Serial: c.Serial, Names: c.Names, Authority: c.Authority, Since: c.Since, Until: c.Until}
		switch {
		case c.Revoked:
			s.State = site.TLSRevoked
		case replaced:
			s.State = site.TLSReplaced
		case !is || w.leaving:
			s.State = site.TLSUnused
		case !now.Before(c.Until):
			s.State = site.TLSOver
		case !now.Before(c.Late()):
			s.State = site.TLSLate
		case !now.Before(c.Due()):
			s.State = site.TLSDue
		default:
			s.State = site.TLSValid
		}
		if s.State == site.TLSOver || now.Before(c.Until) {
			all = append(all, s)
		}
	}
	return all
}

// lateLocked is what is wrong with TLS certificates that were not renewed in time; none where nothing is.
func (e *Engine) lateLocked(now time.Time) []site.Problem {
	var since time.Time
	var which []string
	for _, name := range e.namesLocked() {
		for _, c := range e.workers[name].memory.Recorded.TLS {
			if now.Before(c.Late()) {
				continue
			}
			for _, s := range e.workers[name].tlsStatusLocked(now) {
				if s.Serial != c.Serial || s.State != site.TLSLate && s.State != site.TLSOver {
					continue
				}
				if since.IsZero() || c.Late().Before(since) {
					since = c.Late()
				}
				which = append(which, fmt.Sprintf("%s of %s until %s", c.Name, name, c.Until.UTC().Format(time.DateOnly)))
			}
		}
	}
	if len(which) == 0 {
		return nil
	}
	const some = 3
	more := ""
	if len(which) > some {
		more = fmt.Sprintf(", and %d more", len(which)-some)
	}
	return []site.Problem{{About: "certificates", Since: since, What: fmt.Sprintf("%d TLS certificates were not renewed in time: %s%s. After that day programs refuse them. `slipway certificate list` shows them, and `slipway why NODE` what keeps Slipway from renewing them",
		len(which), strings.Join(which[:min(len(which), some)], ", "), more)}}
}
