package engine

import (
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// rootKey is a root key for tests.
type rootKey string

func (k rootKey) Derive(use string, length int) ([]byte, error) {
	sum := sha256.Sum256([]byte(string(k) + use))
	return sum[:length], nil
}

// A list that was signed while the clock was ahead is signed again once the clock is right: programs refuse everybody by a
// list that does not count yet. No entry is lost by it, also none of a node that is gone, and the number rises.
func TestListOfAClockThatWasAhead(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	a, err := tlsca.Derive(rootKey("k"), "test", 1)
	if err != nil {
		t.Fatal(err)
	}
	life := 14 * 24 * time.Hour
	f := listFacts{signers: map[string]*tlsca.Authority{a.Fingerprint(): a}, isRead: true, life: life}
	was := site.RevocationList{Authority: a.Fingerprint(), Entries: []site.RevokedTLS{{Serial: "4f", Since: now.Add(-time.Hour), Until: now.Add(30 * 24 * time.Hour)}}}
	ahead, err := f.next(was, now.AddDate(3, 0, 0))
	if err != nil || ahead.PEM == "" {
		t.Fatalf("signed with the clock ahead: %+v, %v", ahead, err)
	}
	is, err := f.next(ahead, now)
	if err != nil || is.PEM == ahead.PEM || is.Since.After(now) || is.Number <= ahead.Number {
		t.Fatalf("with the right clock the list is of %s with number %d, after %s with %d: %v", is.Since, is.Number, ahead.Since, ahead.Number, err)
	}
	l, err := a.ReadList([]byte(is.PEM))
	if err != nil || !l.Has("4f") || !slices.Equal(is.Entries, was.Entries) {
		t.Errorf("the list has %+v, and the record %+v: %v", l.Revoked, is.Entries, err)
	}
	if again, err := f.next(is, now.Add(time.Minute)); err != nil || again.PEM != is.PEM {
		t.Errorf("signed once more a minute later: %v", err)
	}
}
