package engine_test

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// listed are the entries of the list of an authority that is the first in a text, as programs read it.
func (w *world) listed(a *tlsca.Authority, text string) tlsca.List {
	w.t.Helper()
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if l, err := a.ReadList(pem.EncodeToMemory(block)); err == nil {
			return l
		}
	}
	w.t.Fatalf("no list of the authority is in %q", text)
	return tlsca.List{}
}

// withList is a design whose first node has the lists of revoked certificates.
func (w *world) withList(authorities []string, names ...string) *site.Site {
	d := w.withTLS(1, authorities, names...)
	c := d.Nodes[names[0]].System.Certificates["web"]
	c.RevocationList = true
	d.Nodes[names[0]].System.Certificates["web"] = c
	return d
}

// The certificates of a quarantined node are in the next list, which the nodes that are to have it get at once. The
// number of each list is above that of the one before, and a list is signed again at half of its life. A node that is
// removed from the records stays in it.
func TestRevokedCertificatesAreListed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		a := w.tlsAuthority(1)
		w.commit(w.withList([]string{a.PEM()}, "b", "a"))
		w.up()
		w.after(20 * time.Minute)
		w.want("b", site.InSync)
		first := w.listed(a, systems.list("b"))
		if len(first.Revoked) != 0 || first.Until.Sub(first.Since) != 14*24*time.Hour || systems.list("a") != "" {
			t.Fatalf("the first list is %+v, and a has %q", first, systems.list("a"))
		}
		gone, _, _ := systems.state("a")
		_, given, _ := systems.state("b")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", By: "ana", Reason: "odd"})
		w.after(2 * time.Minute)
		second := w.listed(a, systems.list("b"))
		if _, now, _ := systems.state("b"); len(second.Revoked) != 1 || !second.Has(tlsSerial(gone)) || second.Number <= first.Number || now != given {
			t.Fatalf("under quarantine the list is %+v after %+v; b was given %d certificates, and %d", second, first, given, now)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "a", By: "ana"})
		w.after(time.Hour)
		lives, _, _ := systems.state("a")
		if l := w.listed(a, systems.list("b")); l.Has(tlsSerial(lives)) || !l.Has(tlsSerial(gone)) || l.Number != second.Number {
			t.Errorf("after the release the list is %+v", l)
		}

		d := w.withList([]string{a.PEM()}, "b", "a")
		d.Nodes["a"].Decommission = true
		w.commit(d)
		w.after(time.Hour)
		w.commit(w.withList([]string{a.PEM()}, "b"))
		w.after(time.Hour)
		for _, n := range w.engine.Report().Status.Nodes {
			if n.Name == "a" {
				t.Fatalf("a is still there: %s", n.Reason)
			}
		}
		if l := w.listed(a, systems.list("b")); !l.Has(tlsSerial(gone)) || !l.Has(tlsSerial(lives)) {
			t.Errorf("after a was removed the list is %+v", l)
		}
		state := w.engine.Report().Status.RevocationLists
		if len(state) != 1 || state[0].Revoked != 2 || state[0].Authority != a.Fingerprint() {
			t.Errorf("the status has %+v", state)
		}

		before := w.listed(a, systems.list("b"))
		w.sleep(7*24*time.Hour + time.Hour)
		renewed := w.listed(a, systems.list("b"))
		if renewed.Number <= before.Number || !renewed.Until.After(before.Until.Add(6*24*time.Hour)) || len(renewed.Revoked) != 2 {
			t.Errorf("after half of its life the list is %+v", renewed)
		}
		w.sleep(16 * 24 * time.Hour) // all of them are over, and a list since then has had them
		w.sleep(8 * 24 * time.Hour)
		if l := w.listed(a, systems.list("b")); len(l.Revoked) != 0 {
			t.Errorf("after all were over the list is %+v", l)
		}
	}, "a", "b")
}

// A daemon that has lost its records has what was revoked from the status branch, and signs no list before it has read
// that branch. What somebody else wrote there does not count.
func TestListsAreBackAfterTheRecordsAreLost(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		b := &board{}
		w.anchor = b
		a := w.tlsAuthority(1)
		w.commit(w.withList([]string{a.PEM()}, "b", "a"))
		w.up()
		w.after(20 * time.Minute)
		gone, _, _ := systems.state("a")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", By: "ana", Reason: "odd"})
		w.after(5 * time.Minute)
		before := w.listed(a, systems.list("b"))
		if published, _ := b.RevocationLists(t.Context()); len(published) != 1 || published[0] != before.PEM {
			t.Fatalf("published is %q", published)
		}
		w.down()
		if err := os.RemoveAll(w.dir); err != nil {
			t.Fatal(err)
		}
		forged, err := w.tlsAuthority(7).List([]tlsca.Revoked{{Serial: "4f", Since: time.Now()}}, 99, time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		b.lists = slices.Concat([]string{"x", forged.PEM}, b.lists)
		b.mu.Unlock()
		b.set(errors.New("no route to the forge"))
		w.up()
		w.after(20 * time.Minute)
		if lists := w.engine.Report().RevocationLists; len(lists) != 0 {
			t.Fatalf("signed before the branch was read: %+v", lists)
		}
		b.set(nil)
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbTakeOver, By: "ana", Reason: "host lost"})
		w.after(time.Hour)
		l := w.listed(a, systems.list("b"))
		if !l.Has(tlsSerial(gone)) || l.Has("4f") || l.Number <= before.Number {
			t.Errorf("afterwards the list is %+v", l)
		}
	}, "a", "b")
}

// Records from a backup have an older list. It does not replace the one on the status branch that has more, also while the
// site key is not restored: the entries that only the branch has would be lost.
func TestListsFromABackupReplaceNone(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		b := &board{}
		w.anchor = b
		a := w.tlsAuthority(1)
		w.commit(w.withList([]string{a.PEM()}, "b", "a"))
		w.up()
		w.after(20 * time.Minute)
		w.down()
		b.mu.Lock()
		claim, backup := b.claim, t.TempDir()
		b.mu.Unlock()
		if err := os.CopyFS(backup, os.DirFS(w.dir)); err != nil {
			t.Fatal(err)
		}
		w.up()
		w.after(time.Minute)
		gone, _, _ := systems.state("a")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", By: "ana", Reason: "odd"})
		w.after(5 * time.Minute)
		if l := w.listed(a, strings.Join(b.lists, "")); !l.Has(tlsSerial(gone)) {
			t.Fatalf("published is %+v", l)
		}
		w.down()
		b.mu.Lock()
		b.claim, b.reported = claim, nil // nothing on the branch bars the records from the backup
		b.mu.Unlock()
		w.dir = backup // and the site key is another one
		w.up()
		w.after(10 * time.Minute)
		b.mu.Lock()
		defer b.mu.Unlock()
		for at, lists := range b.reported {
			if len(lists) > 0 && !w.listed(a, strings.Join(lists, "")).Has(tlsSerial(gone)) {
				t.Errorf("report %d of %d has a list without what was revoked", at+1, len(b.reported))
			}
		}
		if len(b.reported) == 0 || !w.listed(a, strings.Join(b.lists, "")).Has(tlsSerial(gone)) {
			t.Errorf("after %d reports the branch has %q", len(b.reported), b.lists)
		}
	}, "a", "b")
}

// While the authorities are exchanged the nodes have the lists of both: the certificates of either may be shown.
func TestListsOfBothAuthorities(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		old, next := w.tlsAuthority(1), w.tlsAuthority(2)
		w.commit(w.withList([]string{old.PEM()}, "b", "a"))
		w.up()
		w.after(20 * time.Minute)
		gone, _, _ := systems.state("a")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", By: "ana", Reason: "odd"})
		w.after(5 * time.Minute)
		d := w.withList([]string{old.PEM(), next.PEM()}, "b", "a")
		d.TLS.Epoch = 2
		w.commit(d)
		w.after(time.Hour)
		if l := w.listed(old, systems.list("b")); !l.Has(tlsSerial(gone)) {
			t.Errorf("the list of the earlier authority is %+v", l)
		}
		if l := w.listed(next, systems.list("b")); len(l.Revoked) != 0 {
			t.Errorf("the list of the next authority is %+v", l)
		}
		d = w.withList([]string{next.PEM()}, "b", "a")
		d.TLS.Epoch = 2
		w.commit(d)
		w.after(time.Hour)
		w.sleep(15 * 24 * time.Hour)
		if text := systems.list("b"); strings.Count(text, "BEGIN X509 CRL") != 1 {
			t.Errorf("after the earlier one was over b has %q", text)
		}
	}, "a", "b")
}

// tlsSerial is the serial number of a certificate as records have it.
func tlsSerial(c *x509.Certificate) string { return hex.EncodeToString(c.SerialNumber.Bytes()) }
