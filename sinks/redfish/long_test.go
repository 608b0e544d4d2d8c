package redfish

import (
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A BMC that lists 180,000 of everything costs what it costs to receive the lists: no
// more than the first of each are looked at, and few of those are read.
func TestEndlessLists(t *testing.T) {
	r := newRig(t, "Acme")
	var refs strings.Builder
	for i := range 180_000 {
		if i > 0 {
			refs.WriteByte(',')
		}
		refs.WriteString(`{"@odata.id":"/m"}`)
	}
	long := text(`{"Members":[` + refs.String() + `]}`)
	for _, part := range []string{"Processors", "Memory", "EthernetInterfaces", "LogServices", "Storage"} {
		r.system[part] = map[string]any{"@odata.id": "/long/" + part}
		r.answer("GET /long/"+part, long)
	}
	r.answer("GET /redfish/v1/Chassis", long)
	r.answer("GET /redfish/v1/Managers", long)
	r.answer("GET /m", text(`{"@odata.id":"/m","Id":"m","Members":[`+refs.String()+`]}`))
	m := open(t, r.endpoint())
	n := &site.Node{Name: "n1", Identity: site.Identity{UUID: uuid}, Power: "on"}
	before := allocated()
	if _, err := m.Observe(t.Context(), n, New(fast).Facets()); err != nil {
		t.Error(err)
	}
	inv, err := m.Inspect(t.Context(), n)
	if err != nil {
		t.Error(err)
	}
	if got := strings.Join(inv.Missing, "\n"); !strings.Contains(got, "/long/Processors: it lists more members than the 512 that are read") {
		t.Errorf("that not all members were read is said nowhere:\n%s", got)
	}
	asked := r.took()
	if got, most := (allocated()-before)>>20, uint64(len(asked))*64; got > most {
		t.Errorf("%d MiB are allocated for %d requests", got, len(asked))
	}
	if len(asked) > 60 {
		t.Errorf("%d requests are sent: %v", len(asked), asked)
	}
}

// allocated is how many bytes were ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
