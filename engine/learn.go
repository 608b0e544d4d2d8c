package engine

import (
	"context"
	"maps"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// learn takes over what was seen: it adopts the machine at first contact, and believes a
// marker over a lost record.
func (w *worker) learn(ctx context.Context, j *job, v view) error {
	w.e.mu.Lock()
	switch was, is := w.memory.Observed.Identity, v.seen.Identity; {
	case is.Known() && j.node.Machine().Known() && !j.node.Machine().Matches(is):
		// Another machine says nothing about the node's own. What was seen of the node's
		// own says nothing about the other, which may become the node's next.
		w.blind = true
		if is != was {
			w.memory.Observed = site.Observed{Identity: is}
			w.noteOther(is, j.node.Machine())
		}
	case is.Known() && was.Known() && is != was:
		// What was seen of the previous machine says nothing about this one.
		w.noteOther(is, was)
		w.memory.Observed, w.inside, w.anew = v.seen, time.Time{}, true
	case v.seen.Facets[site.FacetDefinition].Have[site.FieldState] == site.StateAbsent:
		// What was inside a virtual machine is gone with it.
		w.memory.Observed, w.inside = v.seen, time.Time{}
	default:
		w.reinspect = w.reinspect || !alike(w.memory.Observed.Inventory, v.seen.Inventory)
		w.memory.Observed = w.memory.Observed.Merge(v.seen)
	}
	w.turned = true
	observed, health := w.memory.Observed, w.healthLocked()
	w.e.mu.Unlock()
	w.e.Records.Observe(w.name, observed)
	published := w.e.publishedKeys(w.name)
	own := ""
	if c := w.connections[site.Manager]; c != nil {
		own = c.as.Account
	}
	signed, blank := w.e.proves(observed.Identity, v.seen.Marker), w.e.isBlank()
	err := w.save(ctx, func(r *site.Recorded) {
		adopt(r, j.node, observed)
		w.e.noteAgent(r, j.node, observed, w.leavesAgentAlone(*j), j.site.Install.Allows(site.TrustNetwork), installTimeout(*j), time.Now())
		noteReached(r, j.node, observed, w.e.serves)
		noteOwned(r, j.node, v.seen)
		forgetAccounts(r, v.seen.Facets[site.FacetAccounts], own)
		plan.NoteOnce(r, v.seen, time.Now())
		noteHealth(r, health)
		plan.EndAttempts(j.node, r, observed, time.Now())
		believeMarker(r, j.node, v.seen.Marker, signed, blank, published)
		noteDecommission(r, j.node)
	})
	if err == nil {
		err = w.forgetMachine(ctx, *j, v.seen)
	}
	if err == nil {
		err = w.proveBMC(ctx, *j, v.seen.Identity)
	}
	j.memory = w.job().memory
	if signed {
		w.e.compareWithMarker(j.memory.Recorded, *v.seen.Marker)
	}
	return err
}

// adopt binds the node to the designed machine at first contact, or when the design
// moves the name to that machine, and follows it to a new endpoint.
func adopt(r *site.Recorded, n *site.Node, o site.Observed) {
	designed := n.Machine()
	if !designed.Known() || !o.Identity.Known() || !designed.Matches(o.Identity) {
		return
	}
	if plan.Moves(n, *r) {
		move(r)
	}
	if r.Adopted == nil {
		r.Adopted = &site.Adoption{Machine: o.Identity, When: time.Now()}
	}
	url := n.Endpoints[site.Manager].URL
	if a := *r.Adopted; a.Manager == url && a.Machine != o.Identity && a.Machine.Known() && a.Machine.Matches(o.Identity) {
		a.Machine = o.Identity // the design now names more of it
		r.Adopted = &a
	}
	if designed.Matches(r.Adopted.Machine) && r.Adopted.Manager != url {
		a := *r.Adopted
		a.Moved, a.Manager = a.Moved || a.Manager != "", url
		r.Adopted = &a
	}
}

// move forgets what was true of the previous machine. The disks should hold what was
// installed, which has to be proven from inside.
func move(r *site.Recorded) {
	r.Adopted, r.InFlight, r.Installing, r.Agent, r.NoEffect, r.Reached, r.Attempts, r.Credentials = nil, nil, nil, nil, nil, nil, nil, nil
	r.Accounts = nil
	r.Healthy, r.Unhealthy, r.EverHealthy, r.Owned = time.Time{}, time.Time{}, time.Time{}, site.Owned{}
	r.Retired, r.RetiredLayout = time.Time{}, ""
	if i := r.Installed; i != nil {
		r.Installed = &site.Installation{Generation: i.Generation, Image: i.Image, Since: time.Now(), Attempt: i.Attempt}
	}
}

// noteReached records which facets were seen as designed, so that a later difference
// counts as drift.
func noteReached(r *site.Recorded, n *site.Node, o site.Observed, serves map[site.Facet]bool) {
	for f := range serves {
		is := n.Asked(f)
		if is == "" || r.Reached[f] == is || !plan.AsDesigned(n, f, o.Facets[f]) {
			continue
		}
		r.Reached = maps.Clone(r.Reached)
		if r.Reached == nil {
			r.Reached = map[site.Facet]string{}
		}
		r.Reached[f] = is
	}
}

// believeMarker takes over what the installed system says about its own installation.
// The marker may show that the installation under way has finished, or that the last one
// is there. If nothing is recorded, or something older in records that may be
// incomplete, believeMarker takes over what the site's signature proves, with the host
// keys published for it. Anything else is for a person.
func believeMarker(r *site.Recorded, n *site.Node, m *site.Marker, signed, blank bool, hostKeys []string) {
	if m == nil || !speaksOf(n, m) {
		return
	}
	switch i := r.Installed; {
	case r.UnderWay() > 0:
		if is := underWay(*r); m.Generation == is.Generation && m.Image == is.Image && is.FirstBoot.Gave(m.Token) {
			r.Installed = &site.Installation{Generation: is.Generation, Image: is.Image, Since: time.Now(), Attempt: is.Attempt,
				Proven: true, Reported: true, Signed: signed, FirstBoot: site.FirstBoot{HostKeys: is.FirstBoot.HostKeys, Design: is.FirstBoot.Design}}
			r.Installed.ByAgent, r.Installed.BootUnknown = is.ByAgent, is.BootUnknown
			r.Installing, r.InFlight, r.Agent, r.Owned = nil, nil, nil, ownedBy(is)
		}
	case signed && (i == nil || blank && m.Generation > i.Generation):
		r.Installed, r.Owned = installedBy(m), site.Owned{}
		r.Installed.FirstBoot.HostKeys = hostKeys
	case i != nil && m.Generation == i.Generation && m.Image == i.Image && !(i.Proven && i.Reported && i.Signed == signed):
		reported := *i
		reported.Proven, reported.Reported, reported.Signed = true, true, signed
		r.Installed = &reported
	}
}

// underWay returns the installation that was begun and is not known to have ended.
func underWay(r site.Recorded) site.Installation {
	if r.Installing != nil && !r.InstallBegun() {
		return *r.Installing
	}
	f := r.InFlight
	return site.Installation{Generation: f.Step.Generation, Image: f.Step.Image.SHA256, Since: f.Since, Attempt: f.Step.Attempt,
		FirstBoot: f.FirstBoot, Served: f.Served, ByAgent: f.Step.ByAgent()}
}

// leavesAgentAlone reports whether Slipway does not want its agent on the machine.
func (w *worker) leavesAgentAlone(j job) bool {
	r := j.memory.Recorded
	erases := j.node.Retires() && !plan.HasRetired(j.node, r) && (r.Agent == nil || r.Agent.Generation == 0 || r.UnderWay() != 0) // an agent for an installation has other disks in mind
	return j.node.Away != "" || j.node.Decommission && !erases || j.site.Unused(j.node) != ""
}

func noteDecommission(r *site.Recorded, n *site.Node) {
	r.Retires = n.Retires()
	switch {
	case !n.Decommission:
		r.Decommissioned, r.Retired = time.Time{}, time.Time{}
	case r.Decommissioned.IsZero():
		r.Decommissioned = time.Now()
	}
}

// forgetSystem forgets what was seen of a system after the machine's disks were erased.
func (w *worker) forgetSystem() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	o := w.memory.Observed
	o.Marker, o.Inside, o.Login = nil, nil, nil
	o.Facets = maps.Clone(o.Facets)
	maps.DeleteFunc(o.Facets, func(f site.Facet, _ site.FacetState) bool { return site.Facets[f].Endpoint == site.OS })
	w.memory.Observed = o
	w.inside = time.Time{}
}
