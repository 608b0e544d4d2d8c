package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// Anchor is where a site publishes its term outside this host, together with what others must
// be able to trust after the host is lost. In practice it is the status branch. Its methods
// are called from several goroutines.
type Anchor interface {
	// Term returns the claim published last, by any daemon; zero for none. It costs one lookup
	// if nothing has changed.
	Term(ctx context.Context) (site.TermClaim, error)
	// Claim replaces the claim before with c. If a different claim is published, it fails with
	// site.ErrClaimed and changes nothing.
	Claim(ctx context.Context, c, before site.TermClaim) error
	// Sealed returns the sealed parts of all nodes as they were published.
	Sealed(ctx context.Context) ([]site.Sealed, error)
	// Seal publishes the status of one node, with its sealed part, and returns once it is
	// published. It publishes nothing else that is waiting.
	Seal(ctx context.Context, n site.NodeStatus) error
}

// Times of the anchor.
const (
	anchorEvery   = 30 * time.Second // how often Slipway reads the published term
	anchorTimeout = 20 * time.Second // for one check before something is destroyed
	mooring       = 2 * time.Minute  // limit for reading and publishing
)

// anchorage is what this daemon knows of the published term. Claims form a chain: a daemon
// publishes its claim only over one that was published from its own records. With two daemons
// on copies of the same records, the one that publishes first continues. Out-of-date records
// find a foreign claim, no matter how high their own term number is.
type anchorage struct {
	// tried is set once this process has read the term, or has failed to.
	tried bool
	// claimed is set once this daemon's claim is published.
	claimed bool
	// barred is why this daemon must not write; empty if it may.
	barred string
	// compared names the records that were compared with the published state.
	compared string
	// other is the claim that bars this daemon; zero if something else does.
	other site.TermClaim
	// later holds, by node, the later terms found in the names of sessions on machines.
	later map[string]uint64
}

// keepAnchor publishes this daemon's term and watches for another daemon's, as long as the
// engine runs.
func (e *Engine) keepAnchor(ctx context.Context) {
	if e.Anchor == nil || e.ObserveOnly {
		return
	}
	e.setProblem("published term", e.moor(ctx))
	for retry.Sleep(ctx, anchorEvery) {
		e.setProblem("published term", e.moor(ctx))
	}
}

// moor reads the published term and publishes its own, unless another daemon acts for the
// site.
func (e *Engine) moor(ctx context.Context) error {
	if e.heldTerm() == nil {
		return nil // there is nothing to publish
	}
	ctx, cancel := context.WithTimeout(ctx, mooring)
	defer cancel()
	err := e.claim(ctx)
	if errors.Is(err, site.ErrClaimed) {
		err = e.claim(ctx) // reads whose claim it is
	}
	e.mu.Lock()
	first, barred := !e.anchor.tried, e.anchor.barred
	e.anchor.tried = true
	e.mu.Unlock()
	if first {
		e.wakeHeld()
	}
	if err == nil && barred != "" {
		return errors.New(barred)
	}
	return err
}

// claim publishes the daemon's claim if it may and has not done so yet.
func (e *Engine) claim(ctx context.Context) error {
	is, err := e.lookForOthers(ctx)
	if err != nil {
		return err
	}
	if e.hasClaimed() && is.Instance == e.instance {
		return nil
	}
	if err := e.compareWithPublished(ctx); err != nil {
		return err
	}
	own, barred := e.ownClaim()
	if barred != "" {
		return nil
	}
	if err := e.putClaims(ctx, is.Instance, own.Instance); err != nil {
		return err
	}
	if err := e.publish(ctx, own, is); err != nil {
		return err
	}
	e.noteClaimed()
	e.wakeHeld()
	return e.putClaims(ctx, own.Instance)
}

// hasClaimed reports whether this daemon has published its claim.
func (e *Engine) hasClaimed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.anchor.claimed
}

// noteClaimed notes that this daemon has published its claim.
func (e *Engine) noteClaimed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.anchor.claimed = true
}

// ownClaim returns this daemon's claim, and why the daemon may not publish it.
func (e *Engine) ownClaim() (own site.TermClaim, barred string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.claimLocked(), e.anchor.barred
}

// putClaims records which claims count as published from these records.
func (e *Engine) putClaims(ctx context.Context, claims ...string) error {
	e.booking.Lock()
	defer e.booking.Unlock()
	book := e.currentBook()
	claims = slices.DeleteFunc(claims, func(c string) bool { return c == "" })
	if slices.Equal(book.Claims, claims) && book.Cluster == e.Cluster {
		return nil
	}
	book.Claims, book.Cluster = claims, e.Cluster
	if err := e.Records.PutBook(ctx, book); err != nil {
		return fmt.Errorf("record whose term is published: %w", err)
	}
	e.setBook(book)
	return nil
}

// publish signs a claim and publishes it in place of another one.
func (e *Engine) publish(ctx context.Context, own, before site.TermClaim) error {
	if e.Key != nil {
		signature, err := e.Key.Sign(sitekey.ForStatus, own)
		if err != nil {
			return err
		}
		own.Signature = signature
	}
	if err := e.Anchor.Claim(ctx, own, before); err != nil {
		return fmt.Errorf("publish that this daemon acts for the site: %w", err)
	}
	return nil
}

// claimLocked returns this daemon's claim.
func (e *Engine) claimLocked() site.TermClaim {
	c := site.TermClaim{Site: e.Site, Term: e.termNumberLocked(), Instance: e.instance, Records: e.book.Records, Cluster: e.Cluster}
	if t := e.term.Term; t != nil {
		c.Holder, c.Since = t.Holder, t.Began
	}
	return c
}

// lookForOthers reads the published term, and bars this daemon from writing if the term
// belongs to another daemon.
func (e *Engine) lookForOthers(ctx context.Context) (site.TermClaim, error) {
	is, err := e.Anchor.Term(ctx)
	if err != nil {
		return is, fmt.Errorf("read who acts for the site: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	keys := e.keysLocked()
	switch {
	case e.isOwnLocked(is):
		if e.anchor.other.Term > 0 {
			e.anchor.barred, e.anchor.other = "", site.TermClaim{}
		}
	case is.Site != e.Site || len(keys) > 0 && sitekey.Verify(keys, sitekey.ForStatus, is.Unsigned(), is.Signature) != nil:
		e.barLocked(is, "the status branch says who acts for this site, and its signature is not from a key of this site: somebody else writes to that branch, or the site key was replaced. "+
			"Find out who; then run `slipway take-over`")
	case is.Cluster != "" && is.Cluster != e.Cluster:
		e.barLocked(is, fmt.Sprintf("a daemon of another cluster acts for this site: %q began term %d at %s in cluster %s, and this daemon is of %s: `slipway member init` was run a second time, or these records are a copy. "+
			"Make sure which one has the records of today. If it is the other, stop this one and have its hosts replaced there (docs/members.md); if it is this one, stop all members of the other, then run `slipway take-over`",
			is.Holder, is.Term, is.Since.UTC().Format(time.RFC3339), is.Cluster, clusterName(e.Cluster)))
	default:
		e.barLocked(is, fmt.Sprintf("another daemon acts for this site: %q began term %d at %s, which is not in this daemon's records (this daemon has term %d): the records are a copy, or out of date. "+
			"Stop one of the two daemons; if the other one is gone forever, run `slipway take-over`", is.Holder, is.Term, is.Since.UTC().Format(time.RFC3339), e.termNumberLocked()))
	}
	return is, nil
}

// isOwnLocked reports whether a claim was published from these records, or there is none. If another
// cluster has published it, records that were copied from there have it too: they count it only once a
// person has taken over.
func (e *Engine) isOwnLocked(is site.TermClaim) bool {
	if is.Term == 0 || is.Instance == e.instance {
		return true
	}
	return slices.Contains(e.book.Claims, is.Instance) && (is.Cluster == "" || is.Cluster == e.Cluster || e.book.Cluster == e.Cluster)
}

// clusterName names the cluster of this daemon for people.
func clusterName(id string) string {
	if id == "" {
		return "no cluster"
	}
	return "cluster " + id
}

// barLocked stops this daemon from writing and cancels what it is doing. If the daemon is
// barred because its records are out of date, no later reason replaces that one.
func (e *Engine) barLocked(other site.TermClaim, why string) {
	if older := e.anchor.barred != "" && e.anchor.other.Term == 0; older || e.anchor.barred == why {
		return
	}
	e.anchor.barred, e.anchor.other = why, other
	e.Log.Warn("this daemon does not act for the site", "why", why)
	e.note(site.Event{Kind: site.EventState, Text: why})
	for _, w := range e.workers {
		if w.cut != nil {
			w.cut(errHeld)
		}
	}
	e.touch()
}

// machinesThatBar is how many machines must show a session of a later term before this daemon
// stops writing anywhere. It never writes to such a machine itself. But session names are not
// signed, and one lying BMC must not stop a whole site.
const machinesThatBar = 2

// noteLaterTerm notes that a session on a node's machine is named for a later term.
func (e *Engine) noteLaterTerm(node string, later *driver.LaterTermError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.anchor.later == nil {
		e.anchor.later = map[string]uint64{}
	}
	e.anchor.later[node] = later.Term
	if len(e.anchor.later) < machinesThatBar {
		return
	}
	nodes := slices.Sorted(maps.Keys(e.anchor.later))
	e.barLocked(site.TermClaim{}, fmt.Sprintf("another daemon acts for this site: sessions of a later term are open on the machines of %s, and this daemon has term %d. "+
		"The records are a copy, or out of date. Stop one of the two daemons; if the other one is gone forever, run `slipway take-over`", strings.Join(nodes[:machinesThatBar], " and "), e.termNumberLocked()))
}

// compareWithPublished compares the records with what was published from them. If the
// published state has an approval as used or ended and the records do not, the records were
// set back. The published state is kept for nodes whose records are lost: without its host
// keys Slipway would refuse every system that has such a key.
func (e *Engine) compareWithPublished(ctx context.Context) error {
	if e.hasCompared() {
		return nil
	}
	all, err := e.Anchor.Sealed(ctx)
	if err != nil {
		return fmt.Errorf("read what was published of the nodes: %w", err)
	}
	e.comparePublished(all)
	return nil
}

// hasCompared reports whether these records were compared.
func (e *Engine) hasCompared() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.anchor.compared == e.book.Records
}

// comparePublished compares the records with the published state of the nodes.
func (e *Engine) comparePublished(all []site.Sealed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.anchor.compared = e.book.Records
	was := map[string]site.Sealed{}
	for _, s := range all {
		if before, twice := was[s.Node]; twice && highestSealed(before) > highestSealed(s) {
			continue // somebody has put an old one beside it
		}
		was[s.Node], e.published[s.Node] = s, s
	}
	e.readBranchLocked(was)
	for _, s := range all {
		if !e.isSealedLocked(s) {
			continue
		}
		published := site.Account{Records: s.Records, Closed: s.Closed, Entries: s.Entries}
		if ledger.IsBehind(e.accountLocked(s.Node), published) {
			e.barLocked(site.TermClaim{}, fmt.Sprintf("this daemon's records are out of date: the status branch says that the approvals of %s ended, up to and including attempt %d, and the records do not. "+
				"Slipway writes to no machine. Restore newer records, or run `slipway take-over`: then Slipway asks again for everything that was approved", s.Node, s.Closed))
			return
		}
	}
	e.compareInstalledLocked()
}

// compareInstalledLocked compares the recorded installations with the published ones. Records
// set back to the middle of an installation would resume it on a machine that finished it long
// ago.
func (e *Engine) compareInstalledLocked() {
	for name, s := range e.published {
		w := e.workers[name]
		if w == nil || s.Records != e.book.Records || s.Closed != e.accountLocked(name).Closed ||
			s.Generation <= w.memory.Recorded.Generation() || !e.isSealedLocked(s) {
			continue
		}
		e.barLocked(site.TermClaim{}, fmt.Sprintf("this daemon's records are out of date: the status branch has generation %d of %s as installed, and the records know of generation %d. "+
			"Slipway writes to no machine. Restore newer records, or run `slipway take-over`: then Slipway asks again for everything that was approved", s.Generation, name, w.memory.Recorded.Generation()))
		return
	}
}

// anchoredLocked returns why Slipway may not write yet; empty if it may. The published term
// must have been read. For a destructive write, this daemon's own claim must be published too.
func (e *Engine) anchoredLocked(destructive bool) string {
	switch {
	case e.Anchor == nil || e.ObserveOnly:
		return ""
	case !e.anchor.tried:
		return "the daemon has not read the status branch since its start: another daemon may act for the site"
	case destructive && !e.anchor.claimed:
		return "the daemon could not read and write the status branch since its start: another daemon may act for the site; until then nothing is destroyed"
	}
	return ""
}

// compareWithMarker compares the records with a marker that has a valid signature. If the
// marker shows a later installation, another daemon of this site acted, or the records were
// set back.
func (e *Engine) compareWithMarker(r site.Recorded, m site.Marker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := max(r.Generation(), r.UnderWay()); !e.book.Blank && m.Generation > known {
		e.barLocked(site.TermClaim{}, fmt.Sprintf("this daemon's records are out of date: the system on %s proves that this site installed generation %d in term %d, and the records know of generation %d. "+
			"Another daemon acts for this site, or the records were set back. Restore newer records, or run `slipway take-over`: then Slipway asks again for everything that was approved", m.Node, m.Generation, m.Term, known))
	}
}

func (e *Engine) isBarred() bool { return e.whyBarred() != "" }

// whyBarred returns why this daemon must not write; empty if it may.
func (e *Engine) whyBarred() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.anchor.barred
}

// checkAnchor checks again, right before something is destroyed, whether another daemon acts
// for the site. If Git does not answer, the last result counts.
func (e *Engine) checkAnchor(ctx context.Context) {
	if e.Anchor == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, anchorTimeout)
	defer cancel()
	if _, err := e.lookForOthers(ctx); err != nil {
		e.Log.Warn("published term not read", "err", err)
	}
}

// takeOver makes this daemon act for the site although another daemon's claim is published or
// the records are out of date: a person has said that no other daemon acts. It ends all
// approvals, because this daemon does not know which of them were used.
func (e *Engine) takeOver(ctx context.Context, o site.Order) (string, error) {
	barred, later := e.othersThatAct()
	if barred == "" && len(later) == 0 {
		return "", fmt.Errorf("%w: this daemon acts for site %s already", site.ErrRefused, e.Site)
	}
	var other site.TermClaim
	if e.Anchor != nil {
		var err error
		if other, err = e.Anchor.Term(ctx); err != nil {
			return "", fmt.Errorf("read who acts for the site: %w", err)
		}
	}
	if err := e.beginAnew(ctx, other.Instance); err != nil {
		return "", err
	}
	if err := e.raiseTerm(ctx, e.above(append(later, other.Term))); err != nil {
		return "", err
	}
	e.forgetOthers()
	if e.Anchor != nil {
		if err := e.moor(ctx); err != nil {
			return "", err
		}
	}
	e.Log.Warn("term taken over", "from", other.Holder, "by", o.By)
	e.wakeAll(func(w *worker) { w.fresh = true })
	return fmt.Sprintf("this daemon acts for site %s from now on, with term %d; all earlier approvals have ended", e.Site, e.termNumber()), nil
}

// mostAhead bounds how far another daemon of the site can be ahead: a daemon begins one term each time that it starts.
const mostAhead = 1 << 32

// above returns the highest of the terms that another daemon of the site can have reached. Names of sessions are not
// signed, and a claim need not be by a key that the site still has: a number without end must not use up the numbers,
// since machines refuse a lower term for good.
func (e *Engine) above(terms []uint64) (highest uint64) {
	most := e.termNumber() + mostAhead
	for _, t := range terms {
		if t <= most {
			highest = max(highest, t)
		}
	}
	return highest
}

// othersThatAct returns why this daemon may not act, and the later terms whose sessions are
// open on machines.
func (e *Engine) othersThatAct() (barred string, later []uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.anchor.barred, slices.Collect(maps.Values(e.anchor.later))
}

// forgetOthers forgets what was seen of other daemons, and lets this daemon publish its claim
// again.
func (e *Engine) forgetOthers() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.anchor.barred, e.anchor.other, e.anchor.claimed, e.anchor.later = "", site.TermClaim{}, false, nil
}

// sealLocked returns the node's sealed part, signed again if it has changed. While the records
// have nothing to seal, it stays as it was published.
func (w *worker) sealLocked() *site.Sealed {
	e, r := w.e, w.memory.Recorded
	if p := e.published[w.name]; len(p.Passwords) > 0 && (w.recalled == "" || w.recalled != e.book.Records) {
		before, _ := e.publishedOfLocked(w.name) // what the records may not have yet
		r = withPublished(r, e.undisprovedLocked(before), w.node)
	}
	s := site.Sealed{Site: e.Site, Node: w.name, Records: e.book.Records, Closed: e.accounts[w.name].Closed, Entries: e.accounts[w.name].Entries,
		Generation: r.Generation(), HostKeys: e.hostKeysLocked(w.name, r),
		Passwords: sealedPasswords(r), BMC: r.BMC}
	announce(s.Passwords, w.node, r)
	if e.Key == nil || len(s.Entries)+len(s.HostKeys)+len(s.Passwords) == 0 && s.BMC == nil {
		if before, there := e.published[w.name]; there && (before.BMC == nil || e.undisprovedLocked(before).BMC != nil) {
			return &before
		}
		return nil
	}
	if w.sealed != nil && reflect.DeepEqual(w.sealed.Unsigned(), s) {
		return w.sealed
	}
	signature, err := e.Key.Sign(sitekey.ForStatus, s)
	if err != nil {
		e.Log.Warn("status not signed", "node", w.name, "err", err)
		return nil
	}
	s.Signature = signature
	w.sealed = &s
	return w.sealed
}
