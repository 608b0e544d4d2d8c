package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// Each authority for TLS has a list of the certificates that it revoked (a CRL). What is revoked follows from the
// records of the nodes and, for nodes that are gone, from the record of the list. The signed list is on the status
// branch too: a daemon that has lost its records takes the entries from there, since the signature proves them.

// listEvery is how often Slipway looks whether a list is to be signed again, besides each change.
const listEvery = time.Minute

// errListsUnread is why an authority's first list is not signed yet. A problem of its own says why the branch was not read.
var errListsUnread = errors.New("the list of revoked TLS certificates is not signed yet: the daemon has not read the status branch since its start, which may have an earlier one")

// keepLists keeps the lists of revoked certificates as long as the engine runs.
func (e *Engine) keepLists(ctx context.Context) {
	for {
		e.setProblem("revocation list", errors.Join(e.signLists(ctx), e.wantedListTrouble()))
		select {
		case <-ctx.Done():
			return
		case <-e.revoked:
		case <-time.After(listEvery):
		}
	}
}

// wantedListTrouble is why a list could not be signed, if a node is to have it.
func (e *Engine) wantedListTrouble() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		if w.hasListLocked() && !errors.Is(e.listTrouble, errListsUnread) {
			return e.listTrouble
		}
	}
	return nil
}

// hasListLocked reports whether the design asks for lists of revoked certificates on the node.
func (w *worker) hasListLocked() bool {
	asks := func(s site.System) bool {
		for _, c := range s.Certificates {
			if c.RevocationList {
				return true
			}
		}
		return false
	}
	return asks(w.node.System) || slices.ContainsFunc(slices.Collect(maps.Values(w.node.Families)), asks)
}

// listFacts is what the lists follow from.
type listFacts struct {
	signers   map[string]*tlsca.Authority      // by fingerprint
	revoked   map[string][]site.TLSCertificate // of the nodes, by authority
	recorded  map[string]site.RevocationList   // by authority
	published []string                         // in PEM
	isRead    bool                             // whether it is known what was published
	records   string                           // the ID of these records
	life      time.Duration                    // of a list
}

// signLists records what was revoked, and signs the lists that are to be signed. Its error says that something could
// not be recorded; why a list could not be signed is noted.
func (e *Engine) signLists(ctx context.Context) error {
	e.listing.Lock()
	defer e.listing.Unlock()
	now := time.Now()
	f := e.listFacts()
	var trouble error
	changed := false
	for _, authority := range f.authorities() {
		was := f.recorded[authority]
		was.Authority = authority
		is, err := f.next(was, now)
		trouble = errors.Join(trouble, err)
		switch {
		case is.PEM == was.PEM && slices.Equal(is.Entries, was.Entries):
			continue
		case is.PEM == "" && len(is.Entries) == 0:
			err = e.Records.ForgetRevoked(context.WithoutCancel(ctx), authority)
		default:
			err = e.Records.PutRevoked(context.WithoutCancel(ctx), is)
		}
		if err != nil {
			return fmt.Errorf("record the revoked TLS certificates: %w", err)
		}
		e.noteList(is)
		changed = changed || is.PEM != was.PEM
	}
	e.noteListTrouble(trouble)
	if f.isRead && (len(f.signers) > 0 || len(f.published) == 0) { // without a key nobody can tell whose those are
		e.noteListsJoined(f.records)
	}
	if changed {
		e.lookAtLists()
	}
	return nil
}

// listFacts collects what the lists follow from. There is nothing while this daemon does not act for the site.
func (e *Engine) listFacts() listFacts {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := listFacts{signers: map[string]*tlsca.Authority{}, revoked: map[string][]site.TLSCertificate{}, recorded: map[string]site.RevocationList{}}
	if e.design == nil || e.whyReadOnlyLocked() != "" || e.anchor.barred != "" {
		return f
	}
	f.published, f.life = e.publishedLists, time.Duration(e.design.TLS.ListLifeOrDefault())
	f.records, f.isRead = e.book.Records, e.Anchor == nil || e.anchor.compared == e.book.Records
	maps.Copy(f.recorded, e.lists)
	for _, w := range e.workers {
		for _, c := range w.memory.Recorded.TLS {
			if c.Revoked || w.leaving {
				f.revoked[c.Authority] = append(f.revoked[c.Authority], c)
			}
		}
	}
	for _, a := range e.listSignersLocked() {
		f.signers[a.Fingerprint()] = a
	}
	return f
}

// listSignersLocked are the authorities whose keys this daemon has: the one that signs, and those of the design that
// follow from the root key with another epoch, whose certificates still count.
func (e *Engine) listSignersLocked() (all []*tlsca.Authority) {
	if a, err := e.tlsAuthorityLocked(); err == nil && a != nil {
		all = append(all, a)
	}
	if e.Key == nil {
		return all
	}
	for _, text := range e.design.TLS.Authorities {
		if a, err := tlsca.Derive(e.Key, e.Site, tlsca.EpochOf(text)); err == nil && a.Fingerprint() == tlsca.Fingerprint(text) {
			all = append(all, a)
		}
	}
	return all
}

// authorities are the fingerprints of all that have a list, or are to have one.
func (f listFacts) authorities() []string {
	all := map[string]bool{}
	for authority := range f.signers {
		all[authority] = true
	}
	for authority := range f.recorded {
		all[authority] = true
	}
	for authority := range f.revoked {
		all[authority] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// next is what is to be recorded of an authority, with another list if one is to be signed. Its error says why that
// could not be signed; the entries count all the same.
func (f listFacts) next(was site.RevocationList, now time.Time) (site.RevocationList, error) {
	a := f.signers[was.Authority]
	is := was
	if a != nil {
		is = withPublishedLists(was, a, f.published, now)
	}
	is.Entries = f.entries(is, now)
	if a != nil {
		is = f.withEarlier(is, a, now)
	}
	switch {
	case a == nil && is.IsOver(now) && !slices.ContainsFunc(is.Entries, func(r site.RevokedTLS) bool { return now.Before(r.Until) }):
		return site.RevocationList{Authority: was.Authority}, nil // nobody accepts any of them
	case a == nil || !f.isToBeSigned(is, a, now):
		return is, nil
	case is.PEM == "" && !f.isRead:
		return is, errListsUnread
	}
	// An entry stays until a list that was signed after the end of the certificate has had it (RFC 5280, section 3.3).
	// One that was signed while the clock was ahead says nothing of that.
	is.Entries = slices.DeleteFunc(is.Entries, func(r site.RevokedTLS) bool { return r.Until.Before(is.Since) && r.Until.Before(now) })
	var revoked []tlsca.Revoked
	for _, r := range is.Entries {
		revoked = append(revoked, tlsca.Revoked{Serial: r.Serial, Since: r.Since})
	}
	l, err := a.List(revoked, max(is.Number+1, now.Unix()), f.life, now)
	if err != nil {
		return is, fmt.Errorf("the list of revoked TLS certificates is not signed: %w", err)
	}
	is.PEM, is.Number, is.Since, is.Until = l.PEM, l.Number, l.Since, l.Until
	return is, nil
}

// withEarlier adds what was revoked under other certificates of the same key and name: to programs they are one issuer.
func (f listFacts) withEarlier(is site.RevocationList, a *tlsca.Authority, now time.Time) site.RevocationList {
	for authority, other := range f.recorded {
		if authority == is.Authority {
			continue
		}
		if l, err := a.ReadList([]byte(other.PEM)); err == nil {
			count := slices.DeleteFunc(f.entries(other, now), func(r site.RevokedTLS) bool { return !now.Before(r.Until) })
			is.Entries, is.Number = withEntries(is.Entries, count), max(is.Number, l.Number)
		}
	}
	return is
}

// withPublishedLists adds the entries that the status branch has in a list of the authority. The number of the next list is
// above that of this one.
func withPublishedLists(is site.RevocationList, a *tlsca.Authority, published []string, now time.Time) site.RevocationList {
	for _, text := range published {
		l, err := a.ReadList([]byte(text))
		if err != nil {
			continue // of another authority, or somebody else wrote it
		}
		is.Number = max(is.Number, l.Number)
		var all []site.RevokedTLS
		for _, r := range l.Revoked {
			if entry := (site.RevokedTLS{Serial: r.Serial, Since: r.Since}).Read(); now.Before(entry.Until) {
				all = append(all, entry)
			}
		}
		is.Entries = withEntries(is.Entries, all)
	}
	return is
}

// withEntries adds entries that are not there yet. They are sorted by serial number.
func withEntries(all, more []site.RevokedTLS) []site.RevokedTLS {
	there := map[string]bool{}
	for _, r := range all {
		there[r.Serial] = true
	}
	all = slices.Clone(all)
	for _, r := range more {
		if !there[r.Serial] {
			there[r.Serial] = true
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(x, y site.RevokedTLS) int { return cmp.Compare(x.Serial, y.Serial) })
	return all
}

// entries are those of a list, and what nodes have of revoked certificates that are not over.
func (f listFacts) entries(is site.RevocationList, now time.Time) []site.RevokedTLS {
	var more []site.RevokedTLS
	for _, c := range f.revoked[is.Authority] {
		if now.Before(c.Until) {
			more = append(more, site.RevokedTLS{Serial: c.Serial, Since: now.UTC().Truncate(time.Second), Until: c.Until.UTC()})
		}
	}
	return withEntries(is.Entries, more)
}

// isToBeSigned reports whether the authority has to sign another list: there is none, it is due, it counts only later since
// the clock was ahead, it lacks an entry, or the design asks for another life.
func (f listFacts) isToBeSigned(is site.RevocationList, a *tlsca.Authority, now time.Time) bool {
	l, err := a.ReadList([]byte(is.PEM))
	if err != nil || !now.Before(l.Due()) || now.Before(l.Since.Add(-tlsca.Skew)) {
		return true
	}
	until := l.Since.Add(f.life).Truncate(time.Second)
	if until.After(a.Until()) {
		until = a.Until()
	}
	there := map[string]bool{}
	for _, r := range l.Revoked {
		there[r.Serial] = true
	}
	return !l.Until.Equal(until) || slices.ContainsFunc(is.Entries, func(r site.RevokedTLS) bool { return !there[r.Serial] })
}

func (e *Engine) noteList(l site.RevocationList) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lists[l.Authority] = l; l.PEM == "" && len(l.Entries) == 0 {
		delete(e.lists, l.Authority)
	}
	e.touch()
}

func (e *Engine) noteListTrouble(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listTrouble = why
}

// notePublishedLists notes what the status branch has, before this daemon writes to it.
func (e *Engine) notePublishedLists(lists []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.publishedLists = lists
}

// noteListsJoined notes that the lists have the entries of those that were published.
func (e *Engine) noteListsJoined(records string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.joinedLists != records {
		e.joinedLists = records
		e.touch()
	}
}

// listsForBranchLocked are the lists that may replace those on the status branch: none before they have the entries of
// those. Records from a backup have older lists.
func (e *Engine) listsForBranchLocked() []site.RevocationList {
	if e.joinedLists != e.book.Records {
		return nil
	}
	return e.listsLocked()
}

// lookAtLists has the nodes that are to have the lists looked at.
func (e *Engine) lookAtLists() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		if w.hasListLocked() {
			w.recheck = true
			w.wakeUp()
		}
	}
}

// presentLists are the lists to have beside a certificate of an authority, in PEM: its own, and those of others that
// are not over, whose certificates may still be shown.
func (e *Engine) presentLists(authority string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.lists[authority].IsOver(now) {
		return "", cmp.Or(e.listTrouble, errors.New("the list of revoked TLS certificates is not signed yet"))
	}
	var text strings.Builder
	for _, l := range e.listsLocked() {
		if !l.IsOver(now) {
			text.WriteString(l.PEM)
		}
	}
	return text.String(), nil
}

// listsLocked are the lists that were signed, by authority.
func (e *Engine) listsLocked() (all []site.RevocationList) {
	for _, authority := range slices.Sorted(maps.Keys(e.lists)) {
		if l := e.lists[authority]; l.PEM != "" {
			all = append(all, l)
		}
	}
	return all
}

func (e *Engine) listStatesLocked() (all []site.RevocationListState) {
	for _, l := range e.listsLocked() {
		all = append(all, l.State())
	}
	return all
}
