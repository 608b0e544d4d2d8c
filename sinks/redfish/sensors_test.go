package redfish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/captures"
)

// told looks at sensors and log only, and gives the requests that it took.
func told(t *testing.T, r *replay, m *machine) (site.Observed, []string) {
	t.Helper()
	r.took()
	seen, err := m.Observe(t.Context(), &site.Node{}, []site.Facet{site.FacetSensors, site.FacetLog})
	if err != nil {
		t.Fatal(err)
	}
	return seen, r.took()
}

// The sensors that are not well and the log of each machine; once it is known
// where they are, each facet takes at most two requests beside the system.
func TestSensorsAndLogOfCaptures(t *testing.T) {
	for _, c := range inspected {
		t.Run(c.file, func(t *testing.T) {
			r := newReplay(t, captures.Read(t, c.file))
			m := r.machine(t, c.system)
			seen, _ := told(t, r, m)
			sensors, ok := seen.Facets[site.FacetSensors]
			if !ok || len(sensors.Have) > 0 {
				t.Errorf("got sensors %+v", sensors)
			}
			last := seen.Facets[site.FacetLog].Have["last"]
			if len(seen.Entries) == 0 || last != seen.Entries[len(seen.Entries)-1].ID || seen.Entries[0].When.IsZero() || seen.Entries[0].Text == "" {
				t.Errorf("got last %q, %+v", last, seen.Entries)
			}
			for n := 1; n < len(seen.Entries); n++ {
				if seen.Entries[n].When.Before(seen.Entries[n-1].When) {
					t.Errorf("entry %d is before the one before it", n)
				}
			}
			if _, reads := told(t, r, m); len(reads) > 1+2+2 {
				t.Errorf("got %d requests: %q", len(reads), reads)
			}
		})
	}
}

func TestSensors(t *testing.T) {
	all := small()
	all["/redfish/v1/Chassis/1"] = []byte(`{"Id":"1","Power":{"@odata.id":"/redfish/v1/Chassis/1/Power"},"Thermal":{"@odata.id":"/t"}}`)
	all["/t"] = []byte(`{"Fans":[{"Name":"Fan 1","Status":{"Health":"OK","State":"Enabled"}},{"Name":"Fan 2","Status":{"Health":"Critical","State":"Enabled"}},
		{"Name":"Fan 3","Status":{"Health":"Critical","State":"Absent"}},"rubbish",{"MemberId":"4","Status":{"Health":"Warning"}}],"Temperatures":"N/A"}`)
	r := newReplay(t, all)
	seen, _ := told(t, r, r.machine(t, "/redfish/v1/Systems/1"))
	if got, want := seen.Facets[site.FacetSensors].Have, (site.Values{"Fan 2": "critical", "sensor 4": "warning"}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, ok := seen.Facets[site.FacetLog]; ok {
		t.Error("a log was seen of a machine that has none")
	}
	// A BMC that will not tell of them is looked at all the same.
	r.spoil = func(path string, body []byte) (int, []byte) {
		if path == "/t" {
			return 403, nil
		}
		return 200, body
	}
	if seen, _ := told(t, r, r.machine(t, "/redfish/v1/Systems/1")); len(seen.Facets) != 0 {
		t.Errorf("got %+v", seen.Facets)
	}
}

// A log of many pages with the oldest first is read at its end.
func TestLogIsReadAtItsEnd(t *testing.T) {
	all := small()
	all["/redfish/v1/Systems/1"] = bytes.Replace(all["/redfish/v1/Systems/1"], []byte(`"Id":"1"`), []byte(`"Id":"1","LogServices":{"@odata.id":"/logs"}`), 1)
	all["/logs"] = []byte(`{"Members":[{"@odata.id":"/logs/Audit"},{"@odata.id":"/logs/SEL/"}]}`)
	all["/logs/SEL"] = []byte(`{"Entries":{"@odata.id":"/logs/SEL/Entries"}}`)
	page := func(from, to int, rest string) json.RawMessage {
		var entries []string
		for n := from; n <= to; n++ {
			entries = append(entries, fmt.Sprintf(`{"Id":"%d","Created":"2026-01-01T00:00:00Z","Severity":"Warning","Message":"m%d"}`, n, n))
		}
		return []byte(`{"Members":[` + strings.Join(entries, ",") + `],"Members@odata.count":100` + rest + `}`)
	}
	all["/logs/SEL/Entries"] = page(1, 50, `,"Members@odata.nextLink":"/logs/SEL/Entries?$skip=50"`)
	all["/logs/SEL/Entries?$skip=84"] = page(85, 100, "")
	r := newReplay(t, all)
	seen, _ := told(t, r, r.machine(t, "/redfish/v1/Systems/1"))
	if n := len(seen.Entries); n != mostEntries || seen.Entries[n-1].Text != "m100" || seen.Entries[0].Text != "m85" {
		t.Errorf("got %d entries: %+v", n, seen.Entries)
	}
}

// Of several logs that is read which is known to be the hardware's; one alone is
// read whatever it is called.
func TestLogsByName(t *testing.T) {
	for paths, want := range map[string]string{
		"/l/Audit /l/Sel/ /l/Event":          "/l/Sel/",
		"/l/Security /l/SystemEventLog":      "/l/SystemEventLog",
		"/l/InternalEventLog /l/IML":         "/l/IML",
		"/l/Whatever":                        "/l/Whatever",
		"/l/Audit /l/PostCodes /l/Crashdump": "",
	} {
		got := byName(strings.Fields(paths))
		if (len(got) == 0) != (want == "") || want != "" && got[0] != want {
			t.Errorf("%s: got %v, want %s", paths, got, want)
		}
	}
}
