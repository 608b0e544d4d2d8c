package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The system of before an installation is not said to answer after it.
func TestNotReported(t *testing.T) {
	done := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	for seen, want := range map[time.Duration]string{
		-time.Minute: "Slipway has not seen from inside yet that it runs",
		time.Minute:  "the system that answers says that it is generation 1",
	} {
		m := site.Memory{Recorded: site.Recorded{Installed: &site.Installation{Generation: 2, Since: done}},
			Observed: site.Observed{Marker: &site.Marker{Node: "n1", Generation: 1}, Facets: map[site.Facet]site.FacetState{site.FacetOS: {Seen: done.Add(seen)}}}}
		if got := notReported(&site.Node{Name: "n1"}, m, 2); !strings.Contains(got, want) {
			t.Errorf("seen %s after the installation: %s", seen, got)
		}
	}
}
