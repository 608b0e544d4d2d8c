package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

func TestExchanged(t *testing.T) {
	processors := func(serials ...string) []site.Processor {
		all := []site.Processor{}
		for _, s := range serials {
			all = append(all, site.Processor{Part: site.Part{Name: "P", Serial: s}})
		}
		return all
	}
	for name, c := range map[string]struct {
		was, is *site.Inventory
		want    []string
	}{
		"a processor": {
			&site.Inventory{CPUs: processors("c1", "c2")}, &site.Inventory{CPUs: processors("c1", "c3")},
			[]string{"processor P (serial c2) is gone", "processor P (serial c3) is new"},
		},
		"a graphics processor that is gone with the list": {
			&site.Inventory{CPUs: processors("c1"), GPUs: processors("g1")}, &site.Inventory{CPUs: processors("c1")},
			[]string{"graphics processor P (serial g1) is gone"},
		},
		"a list that was not read": {
			&site.Inventory{CPUs: processors("c1"), GPUs: processors("g1")}, &site.Inventory{}, nil,
		},
		"processors without serial numbers": {
			&site.Inventory{CPUs: processors("", "")}, &site.Inventory{CPUs: processors("")}, nil,
		},
	} {
		if d := cmp.Diff(c.want, plan.Exchanged(c.was, c.is)); d != "" {
			t.Errorf("%s: want -, got +\n%s", name, d)
		}
	}
}
