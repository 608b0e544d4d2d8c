package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// MostAttempts is how often a machine is interrupted for one cause: a facet whose
// designed values it does not have. Some settings appear only after others took
// effect (Supermicro's HTTP boot of a network interface), so one boot may not be
// enough. After the last attempt the node waits for a person.
//
// Proven is how long a facet must stay as designed before its attempts are
// forgotten. If its values keep changing back sooner, the node waits for a person
// too: somebody has to find out what changes them.
const (
	MostAttempts = 3
	Proven       = 24 * time.Hour
)

// mostDeclined is how many requests a machine may decline before its node waits
// for a person. With the waits between tries they take more than an hour,
// longer than a BMC is busy. It is bounded because some BMCs report an error
// for a request that they carry out.
const mostDeclined = 30

// Causes returns the facets for which a step interrupts its machine. A step
// that destroys data or belongs to an installation has none: its approval
// allows it once. A step for a person's quarantine has none either.
func Causes(s site.Step) []site.Facet {
	if s.Force || s.Impact != site.ImpactReboot || s.Facet == site.FacetImage {
		return nil
	}
	var causes []site.Facet
	for _, c := range s.Changes {
		if f, _, _ := strings.Cut(c.Field, "."); !slices.Contains(causes, site.Facet(f)) {
			causes = append(causes, site.Facet(f))
		}
	}
	return causes
}

// Attempt counts one attempt of a step for each of its causes. It is called right
// before the request that interrupts the machine.
func Attempt(n *site.Node, r *site.Recorded, s site.Step, now time.Time) {
	changeAttempts(n, r, s, func(a site.Attempts, asked site.Values) site.Attempts {
		a.Asked, a.AsDesigned = asked, time.Time{}
		return a.With(site.Attempt{When: now, Action: s.Action})
	})
}

// Declined takes back the last counted attempt: the machine answered that it
// does not carry out the request.
func Declined(n *site.Node, r *site.Recorded, s site.Step) {
	changeAttempts(n, r, s, func(a site.Attempts, _ site.Values) site.Attempts {
		a.Made = slices.Clone(a.Made[:max(0, len(a.Made)-1)])
		a.Declined++
		return a
	})
}

// Failed notes why the last counted attempt has failed.
func Failed(n *site.Node, r *site.Recorded, s site.Step, why string) {
	changeAttempts(n, r, s, func(a site.Attempts, _ site.Values) site.Attempts {
		if len(a.Made) > 0 {
			a.Made = slices.Clone(a.Made)
			a.Made[len(a.Made)-1].Failed = why
		}
		return a
	})
}

func changeAttempts(n *site.Node, r *site.Recorded, s site.Step, change func(site.Attempts, site.Values) site.Attempts) {
	all := maps.Clone(r.Attempts)
	if all == nil {
		all = map[site.Facet]site.Attempts{}
	}
	for _, f := range Causes(s) {
		all[f] = change(attemptsFor(n, f, *r), askedBy(n, f, s.Changes))
	}
	r.Attempts = all
}

// EndAttempts forgets the attempts for what the design no longer asks for, and
// for what has stayed as designed long enough.
func EndAttempts(n *site.Node, r *site.Recorded, o site.Observed, now time.Time) {
	left := map[site.Facet]site.Attempts{}
	for f := range r.Attempts {
		a := attemptsFor(n, f, *r)
		switch {
		case !AsDesigned(n, f, o.Facets[f]):
			a.AsDesigned = time.Time{}
		case a.AsDesigned.IsZero():
			a.AsDesigned, a.Declined = now, 0
		}
		if proven := !a.AsDesigned.IsZero() && now.Sub(a.AsDesigned) >= Proven; len(a.Made)+a.Declined > 0 && !proven {
			left[f] = a
		}
	}
	if r.Attempts = left; len(left) == 0 {
		r.Attempts = nil
	}
}

// ForgetInside forgets what was recorded of a system that another one replaces: attempts
// inside it, its health, and its boot actions.
func ForgetInside(r *site.Recorded) {
	r.Healthy, r.Unhealthy, r.Actions = time.Time{}, time.Time{}, nil
	left := maps.Clone(r.Attempts)
	maps.DeleteFunc(left, func(f site.Facet, _ site.Attempts) bool { return site.Facets[f].Endpoint == site.OS })
	r.Attempts = left
}

// attemptsFor returns the attempts for a facet, or none if the design no longer
// asks for their values.
func attemptsFor(n *site.Node, f site.Facet, r site.Recorded) site.Attempts {
	a, asked := r.Attempts[f], n.Want(f)
	for field, value := range a.Asked {
		if asked[field] != value {
			return site.Attempts{}
		}
	}
	return a
}

// askedBy returns the designed values of a facet that the changes bring about.
// It returns all of them if a change stands for a part with many values.
func askedBy(n *site.Node, f site.Facet, changes []site.Change) site.Values {
	all, asked := n.Want(f), site.Values{}
	for _, c := range changes {
		field, of := strings.CutPrefix(c.Field, string(f)+".")
		if !of {
			continue
		}
		known := false
		for _, name := range []string{c.Intent, field, site.AttributeField(field)} {
			if value, ok := all[name]; ok && !known {
				asked[name], known = value, true
			}
		}
		if !known {
			return all
		}
	}
	return asked
}

// isSpent reports whether a machine may no longer be interrupted for a facet.
func isSpent(n *site.Node, f site.Facet, r site.Recorded) bool {
	a := attemptsFor(n, f, r)
	return len(a.Made) >= MostAttempts || a.Declined >= mostDeclined
}

// Spent says why a step may no longer interrupt its machine; empty while it may.
func Spent(n *site.Node, r site.Recorded, s site.Step) string {
	for _, f := range Causes(s) {
		if isSpent(n, f, r) {
			return spent(n, f, s.Changes, r)
		}
	}
	return ""
}

// spent says that a facet's attempts are used up, and what to do.
func spent(n *site.Node, f site.Facet, changes []site.Change, r site.Recorded) string {
	a := attemptsFor(n, f, r)
	did := fmt.Sprintf("Slipway interrupted the machine %d times for this (%s)", len(a.Made), told(a.Made))
	if len(a.Made) < MostAttempts {
		did = fmt.Sprintf("the machine declined %d requests for this", a.Declined)
	}
	return fmt.Sprintf("%s; %s and does not try again by itself. Check the machine, then run `slipway retry %s`, or change this in the design",
		differs(ofFacet(f, changes)), did, n.Name)
}

// told lists attempts for people, and why the last one failed.
func told(made []site.Attempt) string {
	parts, why := make([]string, len(made)), ""
	for i, x := range made {
		parts[i] = x.When.UTC().Format("2006-01-02 15:04 UTC") + " " + string(x.Action)
		if x.Failed != "" {
			parts[i] += " failed"
			why = "; last failure: " + x.Failed
		}
	}
	return strings.Join(parts, ", ") + why
}

// ofFacet returns the changes that belong to a facet.
func ofFacet(f site.Facet, changes []site.Change) []site.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c site.Change) bool { return !strings.HasPrefix(c.Field, string(f)+".") })
}
