package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// rights are what a person may do by the design, as the API asks it.
func (w *world) rights(who string, v access.Verb, node string) bool {
	p, err := access.Parse("design: true")
	if err != nil {
		w.t.Fatal(err)
	}
	approved, inForce := w.engine.Access()
	p = p.With(access.Design{Site: w.engine.Site, Approved: approved.Granted, InForce: inForce})
	return p.Allows(access.Caller{Kind: access.Person, Name: who}, v, access.Target{Site: w.engine.Site, Node: node}) == nil
}

// lets has the design give roles.
func lets(d *site.Site, people map[string][]string) *site.Site {
	d.Access = site.Access{People: people, Roles: map[string]site.AccessRole{
		"oncall": {Verbs: []string{"pause", "approve"}, Nodes: &site.Selector{Match: site.Match{Names: []string{"a"}}}},
		"lead":   {Verbs: []string{"approve", "grant"}},
	}}
	return d
}

// note says whether the status has a note with a text.
func (w *world) note(part string) bool {
	return slices.ContainsFunc(w.engine.Report().Status.Notes, func(n string) bool { return strings.Contains(n, part) })
}

// A merge gives nobody a right, and takes one away at once, for good. What was approved outlives a restart.
func TestAccessIsApproved(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		ana := map[string][]string{"ana": {"oncall"}}
		w.on(lets(w.design("a", "b"), ana), "a", "b")
		if w.rights("ana", access.Pause, "a") || !w.note("1 change of who may do what") {
			t.Errorf("a merge gave a right, or no note says that it waits: %q", w.engine.Report().Status.Notes)
		}
		_, inForce := w.engine.Access()
		w.refuses(site.Order{Verb: site.VerbGrant, Digest: strings.Repeat("0", site.DigestDigits)}, "not 0000")
		w.do(site.Order{Verb: site.VerbGrant, Digest: inForce.Digest()})
		w.refuses(site.Order{Verb: site.VerbGrant, Digest: inForce.Digest()}, "grants nothing that was not approved")
		if !w.rights("ana", access.Pause, "a") || w.rights("ana", access.Pause, "b") || w.note("who may do what") {
			t.Error("what was approved does not count")
		}
		w.down()
		w.up()
		w.after(time.Minute)
		if !w.rights("ana", access.Pause, "a") {
			t.Error("what was approved is lost by a restart")
		}
		w.commit(lets(w.design("a", "b"), map[string][]string{"ana": {"oncall"}, "eve": {"lead"}}))
		w.after(time.Minute)
		if w.rights("eve", access.Grant, "") || w.rights("eve", access.Approve, "b") || !w.rights("ana", access.Approve, "a") {
			t.Error("a commit gives itself rights, or takes those of others")
		}
		w.commit(lets(w.design("a", "b"), nil))
		w.after(time.Minute)
		if w.rights("ana", access.Pause, "a") {
			t.Error("a right that was taken away counts")
		}
		w.commit(lets(w.design("a", "b"), ana))
		w.after(time.Minute)
		if w.rights("ana", access.Pause, "a") {
			t.Error("a right that was taken away has come back by itself")
		}
		if text := w.engine.Report().Status.Notes; !w.note("`slipway grant`") {
			t.Errorf("notes %q", text)
		}
	}, "a", "b")
}

// A merge that takes the nodes from a role gives no right over the machines that it exchanges, also not once they are
// exchanged back.
func TestAccessIsOfMachines(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		ana := map[string][]string{"ana": {"oncall"}}
		w.on(lets(w.design("a", "b"), ana), "a", "b")
		_, inForce := w.engine.Access()
		w.do(site.Order{Verb: site.VerbGrant, Digest: inForce.Digest()})
		exchanged := lets(w.design("a", "b"), ana)
		a, b := exchanged.Nodes["a"], exchanged.Nodes["b"]
		a.Identity, b.Identity, a.Endpoints, b.Endpoints = b.Identity, a.Identity, b.Endpoints, a.Endpoints
		exchanged.Access.Roles["oncall"] = site.AccessRole{Verbs: []string{"pause", "approve"}}
		w.commit(exchanged)
		w.after(time.Minute)
		if w.rights("ana", access.Approve, "a") || w.rights("ana", access.Approve, "b") {
			t.Error("a merge gave a right over another machine")
		}
		w.commit(lets(w.design("a", "b"), ana))
		w.after(time.Minute)
		if w.rights("ana", access.Approve, "a") {
			t.Error("a right that a merge had taken away has come back by itself")
		}
	}, "a", "b")
}

// What a commit removes is gone also while it waits for a rollout, and does not come back when it is taken back.
func TestAccessGoesWhileARevisionWaits(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		all, ana := names(3), map[string][]string{"ana": {"lead"}, "bob": {"lead"}}
		d := w.serving(all...)
		d = w.patch(d, "2", func(d *site.Site) { lets(d, ana).Rollout.OnChange = "queue" })
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbGrant, Digest: w.engine.AccessReport().Waiting})
		if r := w.engine.AccessReport(); r.Waiting != "" || len(r.Changes) > 0 || !w.rights("ana", access.Approve, "n1") {
			t.Errorf("approved, and %+v", r)
		}
		w.patch(d, "3", func(d *site.Site) { lets(d, map[string][]string{"bob": {"lead"}}) })
		w.after(time.Minute)
		if st := w.engine.Report().Status; st.Rollout.Queued == nil || st.Applied.ID != "commit-2" {
			t.Fatalf("in force %s, rollout %+v", st.Applied.ID, st.Rollout)
		}
		if w.rights("ana", access.Approve, "n1") || !w.rights("bob", access.Approve, "n1") || !w.note("1 change of who may do what") {
			t.Error("a right counts that a commit has removed, or one that it has not does not")
		}
		w.after(20 * time.Minute)
		w.patch(d, "4", func(d *site.Site) { lets(d, ana) })
		w.after(20 * time.Minute)
		if w.rights("ana", access.Approve, "n1") || !w.rights("bob", access.Approve, "n1") {
			t.Error("a right that was removed has come back by itself")
		}
	}, names(3)...)
}

// What a person with a shell reads at `slipway grant`, and what the digest approves.
func TestGrantShowsEachNode(t *testing.T) {
	all := []string{"a01", "a02", "a03", "a04", "a05", "a06", "a07", "a08", "a09", "a10", "vault"}
	inBubble(t, usual, func(w *world) {
		d := w.design(all...)
		d.Access = site.Access{People: map[string][]string{"eve": {"r"}}, Roles: map[string]site.AccessRole{
			"r": {Verbs: []string{"approve"}, Nodes: &site.Selector{Match: site.Match{Names: all}}}}}
		w.on(d, all...)
		w.after(time.Minute)
		r := w.engine.AccessReport()
		w.do(site.Order{Verb: site.VerbGrant, Digest: r.Waiting})
		if w.rights("eve", "approve", "vault") && !strings.Contains(strings.Join(r.Changes, "\n"), "vault") {
			t.Errorf("eve may approve on vault, and the person who granted it was shown %q", r.Changes)
		}
	}, all...)
}
