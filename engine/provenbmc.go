package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// unprovenBMC is why a derived password is not sent: nothing proves the BMC that answers.
type unprovenBMC struct{ error }

func (e unprovenBMC) Unwrap() error { return e.error }

// provenBMC returns what proves the BMC of a node's machine, or nil.
func provenBMC(n *site.Node, r site.Recorded) *site.ProvenBMC {
	if r.BMC == nil || n.DerivedFrom() == "" || r.BMC.From != n.DerivedFrom() || r.BMC.Machine != n.Machine().UUID {
		return nil
	}
	return r.BMC
}

// withProvenBMC returns the endpoint of a BMC to which Slipway logs in with a derived password: it accepts the proven
// certificate alone. A fingerprint in the design stays, since a person may have replaced the certificate. With another
// login what the design trusts counts, so that a renewed certificate keeps nobody from switching the machine; derived
// passwords are not sent to it, see mayReceive.
func withProvenBMC(n *site.Node, ep site.Endpoint, r site.Recorded) site.Endpoint {
	_, derived := n.References.Derived[ep.Credential]
	if p := provenBMC(n, r); p != nil && derived && ep.Trust.Fingerprint == "" {
		ep.Trust.Fingerprint = p.Fingerprint
	}
	return ep
}

// shownBy is the certificate that an endpoint which is open has shown last; empty where none is open.
func (w *worker) shownBy(kind site.EndpointKind) string {
	if c := w.connections[kind]; c != nil {
		if s, ok := driver.As[driver.Shower](c.machine); ok {
			return s.Shown()
		}
	}
	return ""
}

// certificateOf is the certificate that a person is asked about: the one that the design says, or else the one that
// the BMC of the node shows. It is empty where neither is known.
func (w *worker) certificateOf(n *site.Node) string {
	ep := n.Endpoints[site.Manager]
	if c := w.connections[site.Manager]; ep.Trust.Fingerprint == "" && c != nil && c.endpoint.URL == ep.URL {
		return w.shownBy(site.Manager)
	}
	return strings.ToLower(ep.Trust.Fingerprint)
}

// mayReceive says why derived passwords do not go to a BMC with a certificate, or returns nil.
func (w *worker) mayReceive(j job, shown string) error {
	p, host := provenBMC(j.node, j.memory.Recorded), hostOf(j.node.Endpoints[site.Manager].URL)
	before, other := w.e.provenBefore(j.node.DerivedFrom()), w.e.sharesCertificate(j.node.DerivedFrom(), shown)
	switch {
	case j.node.DerivedFrom() == "":
		return errors.New("the design does not have the UUID of the machine, which the password is derived from: add identity.uuid")
	case p != nil && p.Fingerprint == shown:
		return nil
	case p != nil && shown == "":
		return unprovenBMC{fmt.Errorf("nothing was seen of the BMC at %s yet", host)}
	case p != nil:
		return unprovenBMC{fmt.Errorf("the BMC at %s shows the certificate %s, and %s is proven for this machine: if it was replaced on purpose, run `slipway approve %s`; if not, somebody may be collecting passwords", host, shown, p.Fingerprint, w.name)}
	case before != "" && shown != "":
		return unprovenBMC{fmt.Errorf("the BMC at %s shows the certificate %s, and derived passwords of this machine, %s, went to %s before: compare it on the BMC itself, then run `slipway approve %s`; if it is another BMC, somebody may be collecting passwords", host, shown, j.node.DerivedFrom(), before, w.name)}
	case before != "":
		return unprovenBMC{fmt.Errorf("derived passwords of this machine, %s, went to a BMC with the certificate %s before, of a node that is gone: compare the certificate on the BMC itself, write it as trust.fingerprint and run `slipway approve %s`", j.node.DerivedFrom(), before, w.name)}
	case shown != "" && other != "":
		return unprovenBMC{fmt.Errorf("the BMC at %s shows the certificate %s, and so does that of the machine %s, so it proves neither: give each BMC a certificate of its own. If you run `slipway approve %s` all the same, whoever has the key of this certificate can collect passwords", host, shown, other, w.name)}
	case shown == "":
		return unprovenBMC{fmt.Errorf("no certificate is proven for this machine yet: log in with another credential in endpoints.manager first, or compare the certificate on the BMC itself, write it as trust.fingerprint and run `slipway approve %s`", w.name)}
	}
	return unprovenBMC{fmt.Errorf("no certificate is proven for this machine yet, and the BMC at %s shows %s: compare it on the BMC itself, then run `slipway approve %s`", host, shown, w.name)}
}

func hostOf(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil {
		return u.Host
	}
	return ""
}

// asksCertificate is the question whether the BMC of a node is the right one; none where that is proven, or nobody
// can say which certificate it is.
func (w *worker) asksCertificate(j job) question {
	shown := w.certificateOf(j.node)
	var unproven unprovenBMC
	if len(j.node.References.Derived) == 0 || shown == "" || !errors.As(w.mayReceive(j, shown), &unproven) {
		return question{}
	}
	return question{kind: asksBMC, certificate: shown,
		text: fmt.Sprintf("derived passwords of this machine go to the BMC at %s, which has the certificate %s", hostOf(j.node.Endpoints[site.Manager].URL), shown)}
}

// acceptBMC has derived passwords go to the BMC with the certificate that a person has compared.
func (w *worker) acceptBMC(ctx context.Context, n *site.Node, certificate, by string) (string, error) {
	p := site.ProvenBMC{From: n.DerivedFrom(), Machine: n.Machine().UUID, Fingerprint: certificate, Since: time.Now(), By: by}
	return "derived passwords go to the BMC of " + w.name + " with the certificate " + certificate, w.keepProof(ctx, p)
}

// proveBMC records the certificate of a BMC that was looked at over a login with another credential, as the machine
// that the design says. It does so once for the UUID that passwords are derived from: from then on only a person says
// that they go elsewhere, under whatever name. It does so too where the design has no derived passwords yet. A machine in
// the place of another one waits for a person, and so do one whose BMC got another address in the design since it was
// first seen, and one whose certificate others show as well.
func (w *worker) proveBMC(ctx context.Context, j job, seen site.Identity) error {
	n, c, r := j.node, w.connections[site.Manager], w.job().memory.Recorded
	if n.DerivedFrom() == "" || provenBMC(n, r) != nil || c == nil || c.as != (secret.Of{}) || c.value.IsZero() {
		return nil
	}
	if n.Moved.Known() || !n.Machine().Matches(seen) || r.Adopted == nil || r.Adopted.Moved || !n.Machine().Matches(r.Adopted.Machine) {
		return nil
	}
	shown, before := w.shownBy(site.Manager), w.e.proofOf(n.DerivedFrom()).ProvenBMC
	p := site.ProvenBMC{From: n.DerivedFrom(), Machine: n.Machine().UUID, Fingerprint: shown, Since: time.Now()}
	known := shown != "" && before.Fingerprint == shown && before.Machine == p.Machine
	if _, read := w.e.publishedOf(w.name); !known && (!read || shown == "" || w.e.provenBefore(p.From) != "" || w.e.hasLostProofs() || w.e.sharesCertificate(p.From, shown) != "") {
		return nil
	}
	if len(n.References.Derived) == 0 {
		if known {
			return nil
		}
		return w.putProof(ctx, p) // before a commit could name derived passwords and another BMC at once
	}
	w.anew = true // the accounts were read before they could be set
	return w.keepProof(ctx, p)
}

// keepProof records a proven BMC for its UUID, which outlives the node, and for the node.
func (w *worker) keepProof(ctx context.Context, p site.ProvenBMC) error {
	if err := w.putProof(ctx, p); err != nil {
		return err
	}
	return w.save(ctx, func(r *site.Recorded) { r.BMC = &p })
}

func (w *worker) putProof(ctx context.Context, p site.ProvenBMC) error {
	if err := w.e.changeProof(ctx, p.From, func(all *site.MachineProof) { all.ProvenBMC = p }); err != nil {
		return fmt.Errorf("record the BMC of %s: %w", w.name, err)
	}
	return nil
}

// notePassword records the highest epoch of an account, and the derived password that is proven, with the machine, which
// outlives the node.
func (e *Engine) notePassword(ctx context.Context, from, account string, u site.AccountUse) error {
	is := e.proofOf(from)
	if from == "" || u.Highest <= is.Highest[account] && (u.ProvenAs == site.Derived{} || u.ProvenAs == is.Proven[account]) {
		return nil
	}
	return e.changeProof(ctx, from, func(p *site.MachineProof) {
		p.From, p.Highest, p.Proven = from, maps.Clone(p.Highest), maps.Clone(p.Proven)
		if p.Highest == nil {
			p.Highest = map[string]int{}
		}
		p.Highest[account] = max(p.Highest[account], u.Highest)
		if u.ProvenAs == (site.Derived{}) {
			return
		}
		if p.Proven == nil {
			p.Proven = map[string]site.Derived{}
		}
		p.Proven[account] = u.ProvenAs
	})
}

// lastPassword is the derived password that the account of a machine had last, of whatever node; false where none was ever
// offered to it. Records of an earlier version know its epoch alone, so that it has the form that the design says.
func (e *Engine) lastPassword(from string, designed site.Derived) (site.Derived, bool) {
	p := e.proofOf(from)
	if is, known := p.Proven[designed.Account]; known {
		return is, true
	}
	if epoch := p.Highest[designed.Account]; epoch > 0 {
		designed.Epoch = epoch
		return designed, true
	}
	return designed, false
}

// highestOf is the highest epoch that was ever offered to an account of a machine, of whatever node.
func (e *Engine) highestOf(from, account string) int { return e.proofOf(from).Highest[account] }

func (e *Engine) proofOf(from string) site.MachineProof {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proofs[from]
}

// changeProof changes what is recorded of a machine: a step and a person may do so at once.
func (e *Engine) changeProof(ctx context.Context, from string, change func(*site.MachineProof)) error {
	e.proving.Lock()
	defer e.proving.Unlock()
	p := e.proofOf(from)
	change(&p)
	if err := e.Records.PutProof(ctx, p); err != nil {
		return err
	}
	e.noteProof(p)
	return nil
}

func (e *Engine) noteProof(p site.MachineProof) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proofs == nil {
		e.proofs = map[string]site.MachineProof{}
	}
	e.proofs[p.From] = p
}

// sharesCertificate is the UUID of another machine whose BMC is proven by a certificate; empty for none. Vendors ship some
// BMCs with one certificate, whose key is known.
func (e *Engine) sharesCertificate(from, fingerprint string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, other := range slices.Sorted(maps.Keys(e.proofs)) {
		if other != from && e.proofs[other].Fingerprint == fingerprint {
			return other
		}
	}
	return ""
}

// readProofs reads the BMCs that were ever proven.
func (e *Engine) readProofs(ctx context.Context) error {
	all, err := e.Records.Proofs(ctx)
	if err != nil {
		return fmt.Errorf("read the proven BMCs: %w", err)
	}
	for _, p := range all {
		e.noteProof(p)
	}
	return nil
}

// provenBefore is the certificate to which derived passwords from a UUID went last, of whatever node, also of one that is
// gone or of which only the status branch tells; empty for none.
func (e *Engine) provenBefore(from string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.proofs[from]; p.Fingerprint != "" {
		return p.Fingerprint
	}
	for _, w := range e.workers {
		if p := w.memory.Recorded.BMC; p != nil && p.From == from {
			return p.Fingerprint
		}
	}
	for _, s := range e.published { // whoever signed: it only makes Slipway ask
		if s.BMC != nil && s.BMC.From == from {
			return s.BMC.Fingerprint
		}
	}
	return ""
}

// hasLostProofs reports whether the site had other records before these: then a BMC may have been proven of which
// nothing is known, as that of a node that was removed.
func (e *Engine) hasLostProofs() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.published {
		if s.Records != e.book.Records {
			return true
		}
	}
	return false
}
