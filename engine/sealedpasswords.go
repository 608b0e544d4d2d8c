package engine

import (
	"context"
	"fmt"
	"maps"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// errUnread is why nothing is known yet of derived passwords.
var errUnread = fmt.Errorf("%w: which derived passwords its BMC has stands on the status branch, which was not read yet", driver.ErrBusy)

// recallPasswords takes over what was published of the derived passwords of a node's BMC where the records do not have
// it: they were lost with the host, or are a copy of earlier ones. Before that was read, nobody knows which password an
// account has of which nothing is recorded.
func (w *worker) recallPasswords(ctx context.Context, n *site.Node) error {
	if len(n.References.Derived) == 0 {
		return nil
	}
	s, read := w.e.publishedOf(w.name)
	s = w.e.undisproved(s)
	if r := w.job().memory.Recorded; !read && r.BMC == nil && len(r.Accounts) == 0 {
		return errUnread
	}
	if !read || w.hasRecalled() {
		return nil
	}
	blank := w.e.isBlank()
	if err := w.save(ctx, func(r *site.Recorded) {
		if *r = withPublished(*r, s, n); blank {
			*r = withDesigned(*r, n)
		}
	}); err != nil {
		return err
	}
	w.noteRecalled()
	return nil
}

// undisproved is what was published of a node without what the records have proven otherwise since: another certificate of
// the same machine, or a later password. What is published is read once, and a node may have left and returned since.
func (e *Engine) undisproved(s site.Sealed) site.Sealed {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.undisprovedLocked(s)
}

func (e *Engine) undisprovedLocked(s site.Sealed) site.Sealed {
	if s.BMC == nil {
		return s
	}
	p := e.proofs[s.BMC.From]
	if p.Fingerprint != "" && p.Fingerprint != s.BMC.Fingerprint {
		s.BMC, s.Passwords = nil, nil
		return s
	}
	s.Passwords = maps.Clone(s.Passwords)
	maps.DeleteFunc(s.Passwords, func(account string, is site.SealedPassword) bool {
		return (is.From == "" || is.From == p.From) && is.Highest < p.Highest[account]
	})
	return s
}

// hasRecalled reports whether the records have what was published of the node.
func (w *worker) hasRecalled() bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.recalled != "" && w.recalled == w.e.book.Records
}

func (w *worker) noteRecalled() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.recalled = w.e.book.Records
}

// withPublished returns what is recorded of a node with what was published of its BMC and is later. What was published is
// later if it has a later epoch than any that is recorded.
func withPublished(r site.Recorded, s site.Sealed, n *site.Node) site.Recorded {
	all, behind := maps.Clone(r.Accounts), false
	for account, p := range s.Passwords {
		use, there := all[account]
		if s.BMC != nil && p.From == "" {
			p.From = s.BMC.From
		}
		switch {
		case !there:
		case !use.IsOf(p.From):
			continue // of another machine than the one that was published
		case p.Highest < use.Highest, p.Highest == use.Highest && p.Proven.Epoch <= use.ProvenAs.Epoch:
			continue
		default:
			behind = true
		}
		if all == nil {
			all = map[string]site.AccountUse{}
		}
		is := recalled(p, n)
		is.Tries, is.TriedAt = use.Tries, use.TriedAt
		all[account] = is
	}
	r.Accounts = all
	if r.BMC == nil || behind && s.BMC != nil {
		r.BMC = s.BMC
	}
	return r
}

// withDesigned returns what is recorded of a node in records that may be those of a backup, and lack what was done since: an
// account may have the password that the design says now.
func withDesigned(r site.Recorded, n *site.Node) site.Recorded {
	all := maps.Clone(r.Accounts)
	for _, d := range n.References.Derived {
		use := all[d.Account]
		if use.ProvenAs == (site.Derived{}) || use.OfferedAs != (site.Derived{}) || !use.IsOf(n.DerivedFrom()) ||
			d.Epoch <= use.Highest || d.Epoch > use.Highest+mostRaised {
			continue
		}
		use.OfferedAs, use.OfferedDenied, use.Highest = d, false, d.Epoch
		all[d.Account] = use
	}
	r.Accounts = all
	return r
}

// recalled is what is known of a password by what was published of it. What was published may be older than the last
// change: then the account may have the password that the design says now.
func recalled(p site.SealedPassword, n *site.Node) site.AccountUse {
	use := site.AccountUse{Proven: p.ProvenDigest, ProvenAs: p.Proven, Offered: p.OfferedDigest, OfferedAs: p.Offered, Highest: p.Highest, From: p.From, Changing: p.Offered != site.Derived{}}
	for _, d := range n.References.Derived {
		if d.Account == p.Proven.Account && d.Epoch > p.Proven.Epoch && d.Epoch <= max(p.Highest, p.Proven.Epoch)+mostRaised && p.Offered == (site.Derived{}) && p.From == n.DerivedFrom() {
			use.OfferedAs, use.Highest = d, max(use.Highest, d.Epoch)
		}
	}
	return use
}

// publishedOf is what was published of a node and has the signature of a site key; read is false while it may come
// yet.
func (e *Engine) publishedOf(node string) (s site.Sealed, read bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.publishedOfLocked(node)
}

func (e *Engine) publishedOfLocked(node string) (s site.Sealed, read bool) {
	if e.Anchor != nil && e.anchor.compared != e.book.Records {
		return s, false
	}
	s = e.published[node]
	if !e.isSealedLocked(s) {
		return site.Sealed{}, true
	}
	return s, true
}

// isSealedLocked reports whether what was published of a node is of this site and has the signature of one of its keys.
func (e *Engine) isSealedLocked(s site.Sealed) bool {
	return s.Site == e.Site && sitekey.Verify(e.keysLocked(), sitekey.ForStatus, s.Unsigned(), s.Signature) == nil
}

// highestSealed is the highest epoch of what was published of a node.
func highestSealed(s site.Sealed) (highest int) {
	for _, p := range s.Passwords {
		highest = max(highest, p.Highest)
	}
	return highest
}

// sealedPasswords are the derived passwords of accounts by what is recorded.
func sealedPasswords(r site.Recorded) map[string]site.SealedPassword {
	var all map[string]site.SealedPassword
	for account, use := range r.Accounts {
		p := site.SealedPassword{Proven: use.ProvenAs, Offered: use.OfferedAs, Highest: use.Highest}
		if p.Proven != (site.Derived{}) {
			p.ProvenDigest = use.Proven
		}
		if p.Offered != (site.Derived{}) {
			p.OfferedDigest = use.Offered
		}
		if p == (site.SealedPassword{}) {
			continue
		}
		p.From = use.From
		if all == nil {
			all = map[string]site.SealedPassword{}
		}
		all[account] = p
	}
	return all
}
