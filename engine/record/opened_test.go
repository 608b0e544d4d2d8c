package record

import (
	"maps"
	"testing"
	"time"
)

// When the newest values of credentials were changed is there after a restart, for
// each site by itself.
func TestOpenedSecrets(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := s.Site("berlin")
	must(t, b.PutOpened(t.Context(), "bmc", day))
	must(t, b.PutOpened(t.Context(), "os.key", day))
	must(t, b.PutOpened(t.Context(), "bmc", day.Add(time.Hour)))
	must(t, s.Close())
	again := open(t, dir)
	got, err := again.Site("berlin").Opened(t.Context())
	if err != nil || !maps.EqualFunc(got, map[string]time.Time{"bmc": day.Add(time.Hour), "os.key": day}, time.Time.Equal) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := again.Site("paris").Opened(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("another site has %v, %v", got, err)
	}
}
