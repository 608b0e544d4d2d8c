package record

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

func machineOf(drives int) *site.Inventory {
	inv := &site.Inventory{Model: "3500RX", Drives: []site.Drive{}, Missing: []string{"memory modules: busy"}}
	for n := range drives {
		inv.Drives = append(inv.Drives, site.Drive{Part: site.Part{ID: string(rune('a' + n)), Serial: "S"}, Bytes: 1e12})
	}
	return inv
}

// filesOf are the names of a store's files.
func filesOf(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "files", "*.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestInventory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := s.Site("berlin")
	load(t, b)
	ctx := t.Context()
	if inv, err := b.Inventory(ctx, "n1"); inv != nil || err != nil {
		t.Errorf("before: got %v, %v", inv, err)
	}
	for _, node := range []string{"n1", "n2"} { // of the same parts
		if err := b.PutNode(ctx, node, recorded(1)); err != nil {
			t.Fatal(err)
		}
		if err := b.PutInventory(ctx, node, machineOf(2)); err != nil {
			t.Fatal(err)
		}
	}
	before := filesOf(t, dir)
	if err := b.PutInventory(ctx, "n1", machineOf(2)); err != nil {
		t.Fatal(err)
	}
	if after := filesOf(t, dir); len(before) != 2 || !reflect.DeepEqual(before, after) {
		t.Errorf("the same again: got files %q, had %q", after, before)
	}
	if err := b.PutInventory(ctx, "n1", machineOf(3)); err != nil {
		t.Fatal(err)
	}
	if after := filesOf(t, dir); len(after) != 2 {
		t.Errorf("a drive more: got files %q", after)
	}
	var export bytes.Buffer
	if _, err := s.Export(ctx, &export); err != nil {
		t.Fatal(err)
	}
	s.Close()

	s = open(t, dir)
	b = s.Site("berlin")
	load(t, b)
	isInventory(t, b, "n1", machineOf(3))
	if err := b.DeleteNode(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	isInventory(t, b, "n1", nil)
	isInventory(t, b, "n2", machineOf(2))
	if after := filesOf(t, dir); len(after) != 1 {
		t.Errorf("a node less: got files %q", after)
	}
	s.Close()

	other := filepath.Join(t.TempDir(), "other")
	if _, err := Import(ctx, other, &export, false, quick); err != nil {
		t.Fatal(err)
	}
	b = open(t, other).Site("berlin")
	load(t, b)
	isInventory(t, b, "n1", machineOf(3))
}

func isInventory(t *testing.T, b *Site, node string, want *site.Inventory) {
	t.Helper()
	if got, err := b.Inventory(t.Context(), node); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, %v, want %+v", node, got, err, want)
	}
}

// An inventory whose file is gone is no reason not to start; the next
// inspection writes it anew.
func TestInventoryWithoutFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := s.Site("berlin")
	if err := b.PutNode(t.Context(), "n1", recorded(1)); err != nil {
		t.Fatal(err)
	}
	if err := b.PutInventory(t.Context(), "n1", machineOf(2)); err != nil {
		t.Fatal(err)
	}
	for _, file := range filesOf(t, dir) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	b = open(t, dir).Site("berlin")
	load(t, b)
	if inv, err := b.Inventory(t.Context(), "n1"); err == nil {
		t.Errorf("got %+v", inv)
	}
	if err := b.PutInventory(t.Context(), "n1", machineOf(2)); err != nil {
		t.Fatal(err)
	}
	isInventory(t, b, "n1", machineOf(2))
}
