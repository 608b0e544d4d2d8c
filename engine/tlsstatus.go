package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// tlsStatusLocked are the TLS certificates that were signed for a node's system and that others may still accept,
// oldest first. Which of them the system has, it was seen to have.
func (w *worker) tlsStatusLocked(now time.Time) (all []site.TLSState) {
	recorded, seen := w.memory.Recorded.TLS, w.memory.Observed.Facets[site.FacetConfig]
	for i, c := range recorded {
		_, is := w.node.CertificateIn(w.memory.Observed.Facets[site.FacetBase].System, c.Name)
		shown := slices.IndexFunc(recorded, func(x site.TLSCertificate) bool { return x.Name == c.Name && x.Serial == seen.Signed[c.Name] })
		isLast := !slices.ContainsFunc(recorded[i+1:], func(later site.TLSCertificate) bool { return later.Name == c.Name && !later.Revoked })
		s := site.TLSState{Name: c.Name, Serial: c.Serial, Names: c.Names, Authority: c.Authority, Since: c.Since, Until: c.Until}
		switch {
		case c.Revoked:
			s.State = site.TLSRevoked
		case !is || w.leaving:
			s.State = site.TLSUnused
		case i < shown:
			s.State = site.TLSReplaced
		case !now.Before(c.Until) && (i == shown || isLast):
			s.State = site.TLSOver
		case i != shown:
			s.State = site.TLSUnseen
		case !now.Before(c.Late()):
			s.State = site.TLSLate
		case !now.Before(c.Due()):
			s.State = site.TLSDue
		default:
			s.State = site.TLSValid
		}
		if is && i == shown {
			s.ListUntil = seen.ListsUntil[c.Name]
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
	var names []string // most sites have none, and this is asked often
	for name, w := range e.workers {
		if len(w.memory.Recorded.TLS) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		late := map[string]site.TLSState{} // the last one of each name
		for _, s := range e.workers[name].tlsStatusLocked(now) {
			isOnSystem := s.State == site.TLSLate || s.State == site.TLSOver
			if !now.Before(s.Late()) && (isOnSystem || s.State == site.TLSUnseen) {
				late[s.Name] = s
			}
		}
		for _, certificate := range slices.Sorted(maps.Keys(late)) {
			s := late[certificate]
			if since.IsZero() || s.Late().Before(since) {
				since = s.Late()
			}
			which = append(which, fmt.Sprintf("%s of %s until %s", s.Name, name, s.Until.UTC().Format(time.DateOnly)))
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

// lateListsLocked is that systems have lists of revoked certificates that end soon, and are not replaced: programs that
// read them refuse everybody then.
func (e *Engine) lateListsLocked(now time.Time) []site.Problem {
	if e.design == nil {
		return nil
	}
	before := time.Duration(e.design.TLS.ListLifeOrDefault()) / 4
	var since time.Time
	var which []string
	for _, name := range e.namesLocked() {
		w := e.workers[name]
		if !w.hasListLocked() || w.leaving {
			continue
		}
		lists := w.memory.Observed.Facets[site.FacetConfig].ListsUntil
		for _, certificate := range slices.Sorted(maps.Keys(lists)) {
			late := lists[certificate].Add(-before)
			if now.Before(late) {
				continue
			}
			if since.IsZero() || late.Before(since) {
				since = late
			}
			which = append(which, fmt.Sprintf("of %s of %s until %s", certificate, name, lists[certificate].UTC().Format(time.DateTime)))
		}
	}
	if len(which) == 0 {
		return nil
	}
	return []site.Problem{{About: "revocation list", Since: since, What: fmt.Sprintf("%d lists of revoked certificates were not renewed in time: %s. After that time programs that read them refuse everybody. `slipway why NODE` says what keeps Slipway from it",
		len(which), say.Some(which, 3))}}
}

// endingLocked is that the intermediate ends before certificates that are signed soon: then all are over at once.
func (e *Engine) endingLocked(now time.Time) []site.Problem {
	if len(e.TLSIntermediate) == 0 {
		return nil // a derived authority outlives everything
	}
	a, err := e.tlsAuthorityLocked()
	if a == nil || err != nil {
		return nil // the notes say why
	}
	longest := time.Duration(site.TLS{}.LifeOrDefault())
	for _, name := range e.namesLocked() {
		for _, c := range e.workers[name].memory.Recorded.TLS {
			longest = max(longest, time.Duration(c.Life))
		}
	}
	since := a.Until().Add(-2 * longest)
	if now.Before(since) {
		return nil
	}
	return []site.Problem{{About: "certificates", Since: since, What: fmt.Sprintf("the TLS intermediate (--tls-intermediate) ends on %s, and every TLS certificate with it: have the root sign another one, put it into the file, and restart the daemon",
		a.Until().UTC().Format(time.DateOnly))}}
}
