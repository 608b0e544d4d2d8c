package control

import (
	"encoding/json"
	"strings"
	"testing"

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
