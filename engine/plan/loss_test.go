package plan_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The disks of a machine are those that its BMC tells of, and those that only its
// system does. Systems tell a disk's model beside its serial number, so that one
// disk has two names.
func TestDisksThatAStepErases(t *testing.T) {
	inside := func(serials ...string) *site.Inside {
		in := &site.Inside{}
		for _, s := range serials {
			in.Disks = append(in.Disks, site.Block{Name: "sd" + s, Kind: "disk", Serial: s})
		}
		return in
	}
	for name, c := range map[string]struct {
		bmc    *site.Disks
		inside *site.Inside
		want   string
	}{
		"nobody was asked":              {nil, inside("A"), ""},
		"none is told":                  {&site.Disks{}, nil, site.DisksUnknown},
		"the BMC alone":                 {&site.Disks{Serials: []string{"A", "B"}}, nil, "A, B"},
		"the system alone, in order":    {&site.Disks{}, inside("B", "A"), "A, B"},
		"both the same":                 {&site.Disks{Serials: []string{"A1"}}, inside("a1 "), "A1"},
		"with the model before it":      {&site.Disks{Serials: []string{"S4EVN1"}}, inside("Samsung_SSD_S4EVN1"), "S4EVN1"},
		"shorter than the BMC has it":   {&site.Disks{Serials: []string{"NVME-S4EVN1"}}, inside("S4EVN1"), "NVME-S4EVN1"},
		"another one beside it":         {&site.Disks{Serials: []string{"S4EVN1"}}, inside("S4EVN1", "S4EVN1X"), "S4EVN1, S4EVN1X"},
		"each with its model before it": {&site.Disks{Serials: []string{"S4EVN1", "S4EVN1X"}}, inside("SSD_S4EVN1", "SSD_S4EVN1X"), "S4EVN1, S4EVN1X"},
		"two that have it as a part":    {&site.Disks{Serials: []string{"S4EVN1"}}, inside("A_S4EVN1", "B_S4EVN1"), "B_S4EVN1, S4EVN1"},
		"a part that is no serial":      {&site.Disks{Serials: []string{"S4EVN1"}}, inside("4EVN1"), "4EVN1, S4EVN1"},
		"one that the BMC does not see": {&site.Disks{Serials: []string{"B"}}, inside("A"), "A, B"},
		"two of one serial number":      {&site.Disks{}, inside("A", "A"), "A"},
		"others of the same make":       {&site.Disks{Serials: []string{"S4EVN1"}}, inside("S4EVN2", "SSD_S4EVN3"), "S4EVN1, S4EVN2, SSD_S4EVN3"},
		"seen by two ways":              {&site.Disks{}, inside("A", "B", "A"), "A, B"},
		"one without a serial number":   {&site.Disks{Serials: []string{"A"}}, &site.Inside{Disks: []site.Block{{Name: "sdb", Kind: "disk"}}}, "A, sdb"},
		"one without any name":          {&site.Disks{Serials: []string{"A"}}, &site.Inside{Disks: []site.Block{{Kind: "disk"}}}, "A"},
		"parts of disks":                {&site.Disks{}, &site.Inside{Disks: []site.Block{{Name: "sda1", Kind: "part", Serial: "A"}}}, site.DisksUnknown},
		"some could not be read":        {&site.Disks{Serials: []string{"B"}, Partly: true}, inside("A"), "A, B, " + site.DisksUnread},
		"none of them could be":         {&site.Disks{Partly: true}, nil, site.DisksUnknown},
	} {
		o := site.Observed{Disks: c.bmc, Inside: c.inside}
		if got := plan.Disks(site.Step{Action: site.ActionInstall}, &site.Node{Name: "n1"}, o); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
