package record

import (
	"fmt"
	"testing"
	"time"
)

func TestDeliveriesAreForgotten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := s.Site("berlin")
	for n := range 2 * batchOps {
		must(t, b.TakeDelivery(t.Context(), fmt.Sprint("old-", n), day))
	}
	must(t, b.TakeDelivery(t.Context(), "new", day.Add(time.Hour)))
	must(t, s.Close())
	b = open(t, dir).Site("berlin")
	for range 2 {
		got, err := b.Deliveries(t.Context(), day.Add(time.Minute))
		if err != nil || len(got) != 1 || !got["new"].Equal(day.Add(time.Hour)) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if got, err := b.Deliveries(t.Context(), time.Time{}); err != nil || len(got) != 1 {
		t.Errorf("%d deliveries are left, %v", len(got), err)
	}
}
