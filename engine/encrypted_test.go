package engine

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Only a layout with encrypted volumes gets a passphrase: that of the machine, for its generation.
// Without a site key, or a UUID of the machine, there is none.
func TestPassphraseOfDisks(t *testing.T) {
	e, _, _ := ashore(t)
	n := &site.Node{Name: "n1", Generation: 2, Identity: site.Identity{UUID: "4c4c4544-0051-4810-8057-b4c04f4a4e33"}}
	locked := item.Layout{Encrypted: []item.LayoutEncrypted{{Name: "luks-u", Opens: item.OpenedByTPM}}}
	if none, _, err := e.diskPassphrase("lab", n, item.Layout{}); err != nil || !none.IsZero() {
		t.Errorf("a layout without encryption has a passphrase, or fails: %v", err)
	}
	first, from, err := e.diskPassphrase("lab", n, locked)
	if err != nil || first.IsZero() {
		t.Fatal(err)
	}
	if want := (item.DerivedFrom{Site: "lab", Machine: n.Identity.UUID, Generation: 2, Key: e.Key.Public()}); from != want {
		t.Errorf("it is derived from %+v, want %+v", from, want)
	}
	n.Generation++
	if next, _, err := e.diskPassphrase("lab", n, locked); err != nil || next == first {
		t.Errorf("the next generation has the same passphrase: %v", err)
	}
	n.Identity.UUID = ""
	if _, _, err := e.diskPassphrase("lab", n, locked); err == nil || !strings.Contains(err.Error(), "the passphrase of encrypted disks cannot be derived") {
		t.Errorf("without a UUID: %v", err)
	}
	e.Key = nil
	if _, _, err := e.diskPassphrase("lab", n, locked); err == nil || !strings.Contains(err.Error(), "is derived from the site key, and there is none") {
		t.Errorf("without a site key: %v", err)
	}
}
