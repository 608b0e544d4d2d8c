package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

// Systems prove themselves by certificates of the site's host authority. Only certificates that are in the
// node's record count, so one is revoked by taking it out of the record: see site.Recorded.WithIdentity.

// The bounds of a node's record of certificates. The last certificate of a key counts on while the next one
// is on its way to the system.
const (
	mostOfKey            = 2
	mostHostCertificates = 16
)

// clockAhead is how far in the future a certificate may have been signed by the present clock. Where it is more, the
// clock is behind, and certificates that it made could be over already; or it was ahead when the last one was signed.
const clockAhead = 24 * time.Hour

// hostAuthorityLocked is the authority that signs host keys, nil where the design names none. Its error says
// why none signs although the design names some.
func (e *Engine) hostAuthorityLocked() (*sshca.Authority, error) {
	if e.design == nil || len(e.design.SSH.Hosts) == 0 {
		return nil, nil
	}
	if e.Key == nil {
		return nil, errors.New("this daemon has no site key, and its SSH authority for hosts is derived from that key: restore the key with `slipway site import-key`")
	}
	a, err := sshca.Hosts(e.Key, e.Site, e.design.SSH.Epoch)
	if err != nil {
		return nil, err
	}
	own := item.Fingerprint(a.Public())
	if !slices.ContainsFunc(e.design.SSH.Hosts, func(key string) bool { return item.Fingerprint(key) == own }) {
		return nil, fmt.Errorf("the design names other SSH authorities for hosts than this daemon's, %s: correct site.ssh.hosts (`slipway site ssh-authority` shows it), or put the right site key back", a.Public())
	}
	return a, nil
}

// identityLocked are the certificates that count for the system of a node, and the authorities that may have
// signed them.
func (w *worker) identityLocked() (counting []site.HostCertificate, authorities []string) {
	if w.e.design == nil || w.leaving || w.memory.Recorded.Quarantined != nil {
		return nil, nil
	}
	for _, line := range w.e.design.SSH.Hosts {
		authorities = append(authorities, bare(line))
	}
	for _, c := range w.memory.Recorded.HostCertificates {
		if slices.ContainsFunc(authorities, func(line string) bool { return item.Fingerprint(line) == c.Authority }) {
			counting = append(counting, c)
		}
	}
	return counting, authorities
}

// counting are the certificates that count for the system of a node.
func (w *worker) counting() []site.HostCertificate {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	all, _ := w.identityLocked()
	return all
}

// hostIdentityLocked is what status says of how the system proves itself; nil unless it was seen to show its
// certificates, or one of them at the last login. That one counts until it is over, also if it is to be renewed.
func (w *worker) hostIdentityLocked() *site.HostIdentity {
	counting, authorities := w.identityLocked()
	seen, names := w.memory.Observed, w.node.References.HostNames
	is := seen.Facets[site.FacetBase].Have[item.KindSSHHost+".certificates"]
	isAll := is != "" && is == item.List(names)
	if !isAll && (is == "" || seen.Login == nil || seen.Login.Host != site.ByCertificate) {
		return nil
	}
	id := &site.HostIdentity{Names: names, Authorities: authorities}
	shown := map[string]site.HostCertificate{}
	for _, c := range counting {
		_, older := shown[c.Key]
		switch {
		case !time.Now().Before(c.Until):
		case isAll || !older: // else it is not known which one of the key it was
			shown[c.Key] = c
		}
	}
	for _, c := range shown {
		if id.Until.IsZero() || c.Until.Before(id.Until) {
			id.Until = c.Until
		}
		id.Names = slices.DeleteFunc(slices.Clone(id.Names), func(name string) bool { return !slices.Contains(c.Names, name) })
	}
	if len(shown) == 0 {
		return nil
	}
	return id
}

// bare is a public key without its comment.
func bare(line string) string {
	words := strings.Fields(line)
	return strings.Join(words[:min(len(words), 2)], " ")
}

func serialsOf(all []site.HostCertificate) (serials []uint64) {
	for _, c := range all {
		serials = append(serials, c.Serial)
	}
	return serials
}

// hostCertificates are what a node's system proves itself by, and gets.
func (w *worker) hostCertificates(n *site.Node) driver.HostCertificates {
	w.e.mu.Lock()
	counting, authorities := w.identityLocked()
	a, err := w.e.hostAuthorityLocked()
	w.e.mu.Unlock()
	by := driver.HostCertificates{Node: n.Name, Authorities: authorities, Serials: serialsOf(counting)}
	switch {
	case err != nil:
		by.Why = err.Error()
	case w.e.ObserveOnly:
		by.Why = "this daemon only observes, and signs nothing"
	case a != nil && len(authorities) == 0:
		by.Why = "Slipway certifies no host key of a node under quarantine, or of one that has left the design"
	case a != nil:
		by.Valid = func(keys []string) (driver.SignedHostKeys, error) {
			have, why, err := w.validFor(n, a, keys)
			return driver.SignedHostKeys{Certificates: lines(have), Why: why, Given: w.given(keys)}, err
		}
		by.Sign = func(ctx context.Context, keys []string) ([]string, error) { return w.signHostKeys(ctx, n, a, keys) }
	}
	return by
}

func lines(all []site.HostCertificate) (text []string) {
	for _, c := range all {
		if c.Line != "" {
			text = append(text, c.Line)
		}
	}
	return text
}

// validFor are the certificates of the host keys of a node, in the order of the keys; one that is to be
// signed is zero, and why says why. Its error says why a key is not certified at all.
func (w *worker) validFor(n *site.Node, a *sshca.Authority, keys []string) (have []site.HostCertificate, why string, err error) {
	if other, key := w.e.sharesHostKey(n.Name, keys); other != nil {
		return nil, "", sameHostKey(n.Name, other.name, key)
	}
	counting := w.counting()
	if err := clockBehind(n.Name, counting, time.Now()); err != nil {
		return nil, "", err
	}
	now, own := time.Now(), item.Fingerprint(a.Public())
	for _, key := range keys {
		var c site.HostCertificate
		for _, of := range counting { // the newest is the last
			if of.Key == key {
				c = of
			}
		}
		switch {
		case c.Line == "":
			why = "none that counts for the host key " + item.Fingerprint(key)
		case c.Authority != own:
			why = "signed by an earlier authority"
		case !slices.Equal(c.Names, n.References.HostNames):
			why = "for other names: " + item.List(c.Names)
		case !now.Before(c.Due()):
			why = "to be renewed since " + c.Due().UTC().Format(time.DateOnly)
		default:
			have = append(have, c)
			continue
		}
		have = append(have, site.HostCertificate{})
	}
	return have, why, nil
}

// given are for each of the keys the certificates that count, oldest first.
func (w *worker) given(keys []string) (all [][]string) {
	counting := w.counting()
	for _, key := range keys {
		var of []string
		for _, c := range counting {
			if c.Key == key {
				of = append(of, c.Line)
			}
		}
		all = append(all, of)
	}
	return all
}

// clockBehind says that certificates were signed long after the present time.
func clockBehind(node string, counting []site.HostCertificate, now time.Time) error {
	for _, c := range counting {
		if c.Since.Sub(now) > clockAhead {
			return fmt.Errorf("the clock of this daemon is behind: it shows %s, and a host certificate of %s is of %s. Slipway signs no host key of it meanwhile, since the certificate could be over already: set the clock; if it was ahead then, quarantine the node and release it, which ends its certificates",
				now.UTC().Format(time.DateOnly), node, c.Since.UTC().Format(time.DateOnly))
		}
	}
	return nil
}

func sameHostKey(node, other, key string) error {
	return fmt.Errorf("the systems of %s and %s have the same SSH host key, %s, so each could pass for the other: make new keys on one of them (remove /etc/ssh/ssh_host_*, then run `ssh-keygen -A`)", node, other, item.Fingerprint(key))
}

// sharesHostKey is the worker of another node whose system has one of the keys, and the key; nil for none.
func (e *Engine) sharesHostKey(node string, keys []string) (other *worker, key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, w := range e.workers {
		if name == node || w.leaving {
			continue
		}
		r := w.memory.Recorded
		known := slices.Concat(w.node.Endpoints[site.OS].Trust.HostKeys, r.HostKeys())
		for _, c := range r.HostCertificates {
			known = append(known, c.Key)
		}
		for _, k := range keys {
			if slices.ContainsFunc(known, func(line string) bool { return bare(line) == bare(k) }) {
				return w, k
			}
		}
	}
	return nil, ""
}

// signHostKeys signs the host keys of a node's system that have no certificate yet, or whose is to be replaced. It
// records the certificates before it gives them. A run that was cut off gets the same ones again. The keys are all
// that the system has and that are certified: certificates of other keys count no longer.
func (w *worker) signHostKeys(ctx context.Context, n *site.Node, a *sshca.Authority, keys []string) ([]string, error) {
	if err := w.e.ofKept(n.Name, n.References.HostNames); err != nil {
		return nil, err
	}
	have, _, err := w.validFor(n, a, keys)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	var made []site.HostCertificate
	now := time.Now()
	for i, key := range keys {
		if have[i].Line != "" {
			continue
		}
		c, err := a.CertifyHost(key, n.Name, n.References.HostNames, now)
		if err != nil {
			return nil, fmt.Errorf("%w: sign a host key of %s: %w", driver.ErrRefused, n.Name, err)
		}
		have[i] = site.HostCertificate{Key: key, Authority: item.Fingerprint(a.Public()), Line: c.Line, Serial: c.Serial, Names: c.Names, Since: now, Until: c.Until}
		made = append(made, have[i])
	}
	replaced := slices.ContainsFunc(w.counting(), func(c site.HostCertificate) bool { return !slices.Contains(keys, c.Key) })
	if len(made) == 0 && !replaced {
		return lines(have), nil
	}
	err = w.save(context.WithoutCancel(ctx), func(r *site.Recorded) { r.HostCertificates = keepNewest(r.HostCertificates, made, keys) })
	if err != nil {
		return nil, fmt.Errorf("no host certificate was signed, because it could not be recorded: %w", err)
	}
	if other, key := w.e.sharesHostKey(n.Name, keys); other != nil { // it was signed at the same time
		err := errors.Join(other.forgetHostKeys(ctx, keys), w.forgetHostKeys(ctx, keys)) // in this order: until then it sees ours
		return nil, errors.Join(fmt.Errorf("%w: %w", driver.ErrRefused, sameHostKey(n.Name, other.name, key)), err)
	}
	counting := w.counting()
	for _, c := range made {
		if !slices.Contains(serialsOf(counting), c.Serial) { // a quarantine came meanwhile
			return nil, fmt.Errorf("%w: no host certificate was given to %s, because its identity has ended meanwhile", driver.ErrRefused, n.Name)
		}
		w.e.Log.Info("host certificate signed", "node", n.Name, "serial", c.Serial, "key", item.Fingerprint(c.Key), "until", c.Until)
	}
	return lines(have), nil
}

// forgetHostKeys takes the certificates of some host keys out of the node's record.
func (w *worker) forgetHostKeys(ctx context.Context, keys []string) error {
	return w.save(context.WithoutCancel(ctx), func(r *site.Recorded) {
		r.HostCertificates = slices.DeleteFunc(slices.Clone(r.HostCertificates), func(c site.HostCertificate) bool { return slices.Contains(keys, c.Key) })
	})
}

// keepNewest adds certificates to those of a record. It drops those of keys that the system does not have any more,
// and those of a key that two newer ones have followed. One that is over stays until then: the system shows it as long
// as it did not get the next one.
func keepNewest(all, made []site.HostCertificate, keys []string) (kept []site.HostCertificate) {
	count := map[string]int{}
	for _, c := range slices.Backward(slices.Concat(all, made)) {
		if count[c.Key]++; count[c.Key] <= mostOfKey && slices.Contains(keys, c.Key) && len(kept) < mostHostCertificates {
			kept = append(kept, c)
		}
	}
	slices.Reverse(kept)
	return kept
}

// forgetIdentity takes the host certificates of a node that left the design out of its record, and revokes its TLS
// certificates: they do not count if it comes back.
func (w *worker) forgetIdentity(ctx context.Context) error {
	if j := w.job(); !j.leaving || len(j.memory.Recorded.HostCertificates)+len(w.countingTLS()) == 0 || w.e.ObserveOnly {
		return nil
	}
	return w.save(ctx, func(r *site.Recorded) { r.HostCertificates, r.TLS = nil, site.Revoked(r.TLS) })
}

// isResigned reports whether another authority signs certificates of a system since a design: of its host keys, or those of
// TLS. The design of the node is the same, but the certificates that it was seen with are not those that it is to have.
func (w *worker) isResigned(n *site.Node, before, now *site.Site) bool {
	seen := w.memory.Observed.Facets
	asks := func(f site.Facet, kind string) bool {
		return slices.ContainsFunc(n.ItemsOn(f, seen[f].System), func(i item.Item) bool { return item.Kind(i.Key) == kind })
	}
	return max(1, before.SSH.Epoch) != max(1, now.SSH.Epoch) && asks(site.FacetBase, item.KindSSHHost) ||
		max(1, before.TLS.Epoch) != max(1, now.TLS.Epoch) && asks(site.FacetConfig, item.KindCertificates)
}
