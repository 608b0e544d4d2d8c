package record

import (
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Leases are there after a restart, the last word on each address, and those that
// were dropped are not.
func TestLeases(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := s.Site("berlin")
	a := site.Lease{Network: "mgmt", Address: "10.1.0.11", MAC: "52:54:00:00:00:01", Node: "n1", Expires: day}
	other := site.Lease{Network: "lab", Address: "10.1.0.11", MAC: "52:54:00:00:00:02", Expires: day}
	must(t, b.PutLease(t.Context(), a))
	must(t, b.PutLease(t.Context(), other))
	must(t, b.PutLease(t.Context(), site.Lease{Network: "mgmt", Address: "10.1.0.12", Expires: day}))
	a.Expires = day.Add(time.Hour)
	must(t, b.PutLease(t.Context(), a))
	must(t, b.DropLease(t.Context(), site.Lease{Network: "mgmt", Address: "10.1.0.12"}))
	must(t, s.Close())
	got, err := open(t, dir).Site("berlin").Leases(t.Context())
	if err != nil || !slices.Equal(got, []site.Lease{other, a}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := open(t, t.TempDir()).Site("paris").Leases(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("another site has %+v, %v", got, err)
	}
}
