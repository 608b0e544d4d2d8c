package control

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// No URL of a medium is in what the API answers to who may read records, a program among them: who has it can read what is
// served there.
func TestRecordsHaveNoURLOfAMedium(t *testing.T) {
	const url = "http://10.0.0.1:8069/slipway/TOKEN/debian.iso"
	for name, r := range map[string]site.Recorded{
		"an agent":        {Agent: &site.AgentBoot{Served: url}},
		"a step":          {InFlight: &site.InFlight{Served: url}},
		"a marker":        {InFlight: &site.InFlight{Marker: "TOKEN"}},
		"an installation": {Installing: &site.Installation{Served: url}},
	} {
		text, err := json.Marshal(withoutMedium(site.Memory{Recorded: r}))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "TOKEN") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A plan asks for everything that is known, and a client reads 256 MiB at most. So what each of 20,000 nodes was given in years
// has to be short there, and versions stay in the records.
func TestWhatIsKnownHasDeliveriesInBrief(t *testing.T) {
	d := site.Delivered{Since: time.Unix(1, 0)}
	for n := range 200 {
		d, _ = d.With(site.Delivery{Secret: fmt.Sprintf("credential bmc-%d", n%4), Version: fmt.Sprintf("VERSION.%d", n), To: site.ToBMC, As: site.AsLogin,
			Machine: "UUID 36ef4a5a-0000-4000-8000-000000000001", When: time.Unix(int64(n), 0), Seen: time.Unix(int64(n), 0)})
	}
	text, err := json.Marshal(withoutDetails(site.Known{Delivered: map[string]site.Delivered{"n1": d}}))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "VERSION") || len(text) > maxAnswer/20000/4 {
		t.Errorf("%d bytes for a node: %s", len(text), text)
	}
	for n := range 4 {
		if name := fmt.Sprintf("credential bmc-%d", n); strings.Count(string(text), name) != 1 {
			t.Errorf("%s: %s", name, text)
		}
	}
	if len(d.Given) != 200 || d.Given[0].Version == "" {
		t.Errorf("the record itself was changed: %+v", d)
	}
}
