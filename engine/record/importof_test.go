package record

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// Where each site has a directory of its own, the file of one site replaces no other's records.
func TestImportOfAnotherSite(t *testing.T) {
	paris := open(t, t.TempDir())
	must(t, paris.Site("paris").PutNode(t.Context(), "n1", recorded(1)))
	var export bytes.Buffer
	_, err := paris.Export(t.Context(), &export)
	must(t, err)
	berlin := open(t, filepath.Join(t.TempDir(), "records"))
	must(t, berlin.Site("berlin").PutNode(t.Context(), "n1", recorded(1)))
	must(t, berlin.Close())
	of := quick
	of.Of = "berlin"
	if _, err := Import(t.Context(), berlin.dir, bytes.NewReader(export.Bytes()), true, of); err == nil || !strings.Contains(err.Error(), "the records of paris, and not of site berlin alone") {
		t.Errorf("the records of paris: %v", err)
	}
	berlin = open(t, berlin.dir)
	if n := len(load(t, berlin.Site("berlin")).Nodes); n != 1 {
		t.Errorf("berlin has %d nodes left", n)
	}
	of.Of = "paris"
	_, err = Import(t.Context(), filepath.Join(t.TempDir(), "records"), bytes.NewReader(export.Bytes()), false, of)
	must(t, err)
}
