package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// verifyWithin is how long a look that somebody asked for may take. A step or an inspection that
// is under way comes first, and so do other nodes if there are many.
const verifyWithin = 3 * time.Minute

// verifying is the last run of looks that somebody asked for. Its nodes are those of which a look
// was asked for since it began.
type verifying struct {
	run   site.VerificationRun
	nodes map[string]bool
}

// Verify has nodes looked at now, and returns at once. At most one run is under way: who asks during
// one joins it. The run then gets the nodes that it did not have, and looks again at those that it
// has looked at.
//
// A look repeats no login that was denied and gets no credential sent once more, as a retry does.
// It shortens no wait after a failure, ends no pause and continues no rollout. Its errors wrap
// site.ErrNotFound and site.ErrRefused.
func (e *Engine) Verify(ctx context.Context, r site.VerificationRequest) (site.VerificationRun, error) {
	select {
	case <-e.ready: // before, there are no nodes
	case <-ctx.Done():
		return site.VerificationRun{}, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var asked []*worker
	for _, name := range r.Nodes {
		w := e.workers[name]
		if w == nil || w.leaving {
			return site.VerificationRun{}, fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, name)
		}
		asked = append(asked, w)
	}
	if len(r.Nodes) == 0 {
		for _, w := range e.workers {
			if !w.leaving {
				asked = append(asked, w)
			}
		}
	}
	if len(asked) == 0 {
		return site.VerificationRun{}, fmt.Errorf("%w: site %s has no node to look at: no design is in force yet", site.ErrRefused, e.Site)
	}
	now := time.Now()
	run := e.verificationRunLocked()
	joins := run != nil && !run.IsOver(now)
	if !joins {
		e.verifying = verifying{site.VerificationRun{Since: now, By: r.By}, map[string]bool{}}
	}
	v := &e.verifying
	for _, w := range asked {
		if v.nodes[w.name] && !w.asked.IsZero() {
			continue // its look did not end yet
		}
		v.nodes[w.name] = true
		v.run.Until = now.Add(verifyWithin)
		w.asked = now
		signal(w.ask)
	}
	run = e.verificationRunLocked()
	run.Joined = joins
	return *run, nil
}

// verificationRunLocked is the last run as it is now; nil before the first.
func (e *Engine) verificationRunLocked() *site.VerificationRun {
	if e.verifying.nodes == nil {
		return nil
	}
	run := e.verifying.run
	for name := range e.verifying.nodes {
		w := e.workers[name]
		if w == nil || w.leaving {
			continue // it left the design
		}
		run.Nodes++
		if w.asked.IsZero() {
			run.Looked++
		}
	}
	return &run
}

// Verification returns what is known of the site's surroundings.
func (e *Engine) Verification() site.Verification {
	now := time.Now()
	v := site.Verification{Site: e.Site, When: now, Checks: e.siteChecks(now)}
	var design *site.Site
	var looks map[string]site.NodeLooks
	v.Run, design, looks = e.looksNow()
	if design != nil {
		v.Checks = append(v.Checks, site.VerifyNodes(design, looks, now)...)
	}
	return v
}

// looksNow returns the last run, the design in force and the last looks at its nodes, as they are at
// one time. The run and the design are nil if there is none.
func (e *Engine) looksNow() (*site.VerificationRun, *site.Site, map[string]site.NodeLooks) {
	e.mu.Lock()
	defer e.mu.Unlock()
	looks := make(map[string]site.NodeLooks, len(e.workers))
	for name, w := range e.workers {
		looks[name] = site.NodeLooks{By: maps.Clone(w.lastLooks), Asked: w.asked, Within: verifyWithin}
	}
	return e.verificationRunLocked(), e.design, looks
}

// putsOff is why a look that somebody asked for would come too early; empty if it would not. The
// machine may have named a time. And a login to which no answer accepts the password may count
// against the account, also if it was not denied: such a password is sent as often as Slipway
// sends it by itself.
func (w *worker) putsOff(now time.Time) string {
	until, why := w.notBefore, "the machine asked to wait"
	if !now.Before(until) {
		until, why = w.due, "the last login got no answer that accepts the password, and Slipway waits"
		if !now.Before(until) || !w.isUnanswered() {
			return ""
		}
	}
	return fmt.Sprintf("not asked, because %s until %s; `slipway retry %s` asks now", why, until.UTC().Format(time.DateTime+"Z"), w.name)
}

// isUnanswered reports whether the last login to some endpoint of the node may have sent a
// password and got no answer that accepts it.
func (w *worker) isUnanswered() bool {
	for kind := range w.job().node.Endpoints {
		if w.lastLogin(kind).unanswered {
			return true
		}
	}
	return false
}

// answerUnasked answers those who asked for a look that is put off.
func (w *worker) answerUnasked(why string) {
	w.beginAnswer()
	w.endAsked(w.job(), why)
}

// beginAnswer has the look that begins answer those who asked until now.
func (w *worker) beginAnswer() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.answers = w.asked
}

// lookOnly looks at a machine that waits after a failure, and leaves that wait as it is.
func (w *worker) lookOnly(ctx context.Context) {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	w.setCut(cut)
	defer w.setCut(nil)
	w.beginAnswer()
	w.oneTry, w.inside = false, time.Time{}
	j := w.job()
	v, err := w.look(ctx, j)
	if ctx.Err() != nil {
		return // the reconcile that follows a person's hold answers
	}
	w.saw(v, err)
	w.endAsked(j, whyNotAsked(v, err))
	if err == nil {
		err = w.learn(ctx, &j, v)
	}
	if err != nil {
		w.e.Log.Debug("looked at a node that waits after a failure", "node", w.name, "err", err)
	}
}

// noteLook notes how a look through an endpoint ended. It was asked if a request may have been
// sent to it.
func (w *worker) noteLook(ctx context.Context, j job, kind site.EndpointKind, seen site.Observed, err error, asked bool) {
	if ctx.Err() != nil {
		return // cut short
	}
	w.named(err)
	look := site.Look{When: time.Now(), Endpoint: j.node.Endpoints[kind], Machine: seen.Identity, Login: seen.Login}
	if err != nil {
		look.Trouble, look.Sentence = troubleOf(err, asked), site.Printable(verdict(err))
		if look.Trouble == site.TroubleNotAsked {
			not := "not asked: "
			if errors.Is(err, driver.ErrNotAsked) {
				not = "not asked again yet: "
			}
			look.Sentence = not + look.Sentence
		}
	} else {
		look.Accepted, look.Since = w.loggedIn(kind, seen.Login)
	}
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	was := w.lastLooks[kind]
	if errors.Is(err, driver.ErrNotAsked) && was.Trouble == site.TroubleSilent && was.Endpoint.URL == look.Endpoint.URL {
		return // it did not answer then, which is what is known
	}
	switch look.Trouble {
	case site.TroubleDenied:
		look.Denied = look.When
	case site.TroubleWithheld:
		if d := w.connections[kind]; d != nil && d.denied != nil && was.Endpoint.URL == look.Endpoint.URL {
			look.Denied = was.Denied
		}
		if at := w.deniedLocked(kind); !at.IsZero() {
			look.Denied = at
		}
	}
	w.lastLooks[kind] = look
}

// loggedIn is when the password of an endpoint that was read was last accepted; or, if no password
// opened the connection, since when the machine is read through it. Nodes of an enclosure share the
// logins at its host.
func (w *worker) loggedIn(kind site.EndpointKind, l *site.Login) (accepted, since time.Time) {
	d := w.connections[kind]
	if d == nil {
		return time.Time{}, time.Time{} // an agent, which calls by itself
	}
	if _, noPassword := d.value.Password(); noPassword == nil && !d.value.IsZero() && (l == nil || l.By == "" || l.By == site.ByPassword) {
		return w.lastLogin(kind).accepted, time.Time{}
	}
	return time.Time{}, d.since
}

// deniedLocked is when the machine denied the present credential of an endpoint; zero if it did
// not, as far as is recorded.
func (w *worker) deniedLocked(kind site.EndpointKind) time.Time {
	if w.connections[kind] == nil {
		return time.Time{}
	}
	l := w.loginTo(kind)
	if use := l.useLocked(); use.Denied != "" && use.Denied == l.value.Digest(w.e.Site) {
		return use.DeniedAt
	}
	return time.Time{}
}

func troubleOf(err error, asked bool) site.Trouble {
	switch {
	case errors.As(err, new(noKey)):
		return site.TroubleNoCredential
	case driver.WasDenied(err) && asked:
		return site.TroubleDenied
	case isDenied(err):
		return site.TroubleWithheld
	case !asked || errors.Is(err, driver.ErrNotSent) || errors.Is(err, driver.ErrNotAsked):
		return site.TroubleNotAsked
	}
	return site.TroubleSilent
}

// endAsked ends the wait of those who asked for the look that ended. They learn why an endpoint was
// not asked, if it was not.
func (w *worker) endAsked(j job, why string) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.answers.IsZero() {
		return
	}
	for kind, endpoint := range j.node.Endpoints {
		if was := w.lastLooks[kind]; was.When.Before(w.answers) {
			w.lastLooks[kind] = site.Look{When: time.Now(), Endpoint: endpoint, Trouble: site.TroubleNotAsked, Sentence: why, Denied: was.Denied}
		}
	}
	if w.asked.Equal(w.answers) {
		w.asked = time.Time{}
	}
	w.answers = time.Time{}
}

func whyNotAsked(v view, err error) string {
	switch {
	case err != nil:
		return "not asked, because the machine could not be looked at"
	case v.seen.Facets[site.FacetPower].Have["state"] != "on":
		return "not asked, because the machine is not on"
	}
	return "not asked, because the machine is being installed or runs Slipway's agent"
}

// siteChecks are the checks of the site as a whole.
func (e *Engine) siteChecks(now time.Time) []site.Check {
	problems, design, fetched, written := e.siteNow()
	checks := []site.Check{}
	about := map[string]bool{}
	for _, p := range problems {
		about[p.About] = true
		subject := p.About
		if subject == "" {
			subject = "site"
		}
		checks = append(checks, site.Check{Kind: site.CheckProblem, Subject: subject, Outcome: site.CheckWrong, Sentence: p.What, Seen: p.Since})
	}
	if !about["source"] {
		checks = append(checks, repositoryCheck(fetched, 3*e.PollEvery(), now))
	}
	if e.Branch != nil && !about["status branch"] {
		c := site.Check{Kind: site.CheckRepository, Subject: "status branch", Outcome: site.CheckOK, Sentence: "the last status was written to it", Seen: written}
		if written.IsZero() {
			c.Outcome, c.Sentence = site.CheckUnknown, "nothing was written to it since the daemon started"
		}
		checks = append(checks, c)
	}
	if e.Served != nil {
		for _, s := range e.Served() {
			c := site.Check{Kind: site.CheckService, Subject: "dhcp " + s.Network, Outcome: site.CheckOK, Sentence: s.Line(), Seen: now}
			if s.Why != "" {
				c.Outcome = site.CheckWrong
			}
			checks = append(checks, c)
		}
	}
	if e.Surroundings != nil {
		checks = append(checks, e.Surroundings(now)...)
	}
	if design != nil {
		checks = append(checks, e.fileChecks(design, now)...)
	}
	return checks
}

// siteNow returns what the checks of the site are made of. It is a small part of a report: many ask for it each second.
func (e *Engine) siteNow() (problems []site.Problem, design *site.Site, fetched, written time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.problemsLocked(), e.design, e.fetched, e.written
}

func repositoryCheck(fetched time.Time, fresh time.Duration, now time.Time) site.Check {
	c := site.Check{Kind: site.CheckRepository, Subject: "source", Outcome: site.CheckOK, Sentence: "the repository was read", Seen: fetched}
	switch {
	case fetched.IsZero():
		c.Outcome, c.Sentence = site.CheckUnknown, "the repository was not read since the daemon started"
	case now.Sub(fetched) > max(fresh, fetchTimeout):
		c.Outcome, c.Sentence = site.CheckUnknown, "the repository was not read lately"
	}
	return c
}

// fileChecks are those of the files that the daemon serves: the images of physical nodes, and
// artifacts.
func (e *Engine) fileChecks(design *site.Site, now time.Time) []site.Check {
	type file struct{ kind, name, sha256 string }
	var files []file
	added := map[file]bool{}
	add := func(f file) {
		if f.sha256 != "" && !added[f] {
			added[f] = true
			files = append(files, f)
		}
	}
	for _, name := range design.NodeNames() {
		n := design.Nodes[name]
		if image := design.Images[n.Image]; image != nil && !n.IsVirtual() {
			add(file{site.CheckImage, n.Image, image.For(name, n.Generation).SHA256})
		}
		for _, key := range slices.Sorted(maps.Keys(n.References.Artifacts)) {
			add(file{site.CheckArtifact, key, n.References.Artifacts[key].SHA256})
		}
	}
	if len(files) == 0 {
		return nil
	}
	if e.Artifacts == nil {
		return []site.Check{{Kind: site.CheckService, Subject: "artifact server", Outcome: site.CheckUnknown, Seen: now,
			Sentence: "this daemon has no artifact store, so it does not know of the images and artifacts of the design"}}
	}
	server := site.Check{Kind: site.CheckService, Subject: "artifact server", Outcome: site.CheckOK, Sentence: "it serves machines", Seen: now}
	if err := e.Artifacts.Serving(); err != nil {
		server.Outcome, server.Sentence = site.CheckWrong, site.Printable(err.Error())
	}
	checks := []site.Check{server}
	for _, f := range files {
		c := site.Check{Kind: f.kind, Subject: f.name, Outcome: site.CheckOK, Sentence: "the store has it with the digest of the design, " + f.sha256, Seen: now}
		switch state := e.Artifacts.State(f.sha256); {
		case state.Ready:
		case state.Why != "":
			c.Outcome, c.Sentence = site.CheckWrong, "it cannot be fetched: "+site.Printable(state.Why)
		case state.Fetching || state.Framing:
			c.Outcome, c.Sentence = site.CheckUnknown, "it is being fetched"
		default:
			c.Outcome, c.Sentence = site.CheckUnknown, "the store does not have it; Slipway fetches it when a node needs it"
			c.Release = "to fetch it earlier, run `slipway artifact add` with its URL"
		}
		checks = append(checks, c)
	}
	return checks
}
