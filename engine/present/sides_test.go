package present

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What a BMC tells is put beside what the agent and the system saw, by serial number and MAC
// address. A side that does not tell of a thing at all differs in nothing.
func TestCompareSides(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	bmc := &site.Inventory{
		Manufacturer: "Acme", Model: "R1", BIOS: "1.2", Processors: 2, MemoryGiB: 64,
		CPUs: []site.Processor{{Cores: 8}, {Cores: 8}},
		Drives: []site.Drive{
			{Part: site.Part{Serial: "SAME-1"}, Bytes: 480e9, Firmware: "F1"},
			{Part: site.Part{Serial: "OLDFW2"}, Bytes: 480e9, Firmware: "F1"},
			{Part: site.Part{Serial: "GONE-3"}, Bytes: 960e9},
			{Part: site.Part{Serial: "SIZE-4"}, Bytes: 960e9},
		},
		NICs: []site.NIC{{Ports: []site.Port{{ID: "1", MACs: []string{"52:54:00:aa:00:01"}, Link: "up", Mbps: 25000}, {ID: "2", MACs: []string{"52:54:00:aa:00:02"}, Link: "down"}}}},
	}
	agent := &site.Inventory{
		Manufacturer: "Acme Inc.", Model: "R1", BIOS: "1.3", Processors: 1, MemoryGiB: 31.2, CPUs: []site.Processor{{Cores: 8}},
		Drives: []site.Drive{
			{Part: site.Part{Serial: "SAME-1", Model: "M"}, Bytes: 480103981056, Firmware: "F1"},
			{Part: site.Part{Serial: "OLDFW2"}, Bytes: 480e9, Firmware: "F2"},
			{Part: site.Part{Serial: "SIZE-4"}, Bytes: 480e9},
			{Part: site.Part{Serial: "MORE-5"}, Bytes: 4e12},
		},
		NICs: []site.NIC{
			{Ports: []site.Port{{ID: "eth0", MACs: []string{"52:54:00:AA:00:01"}, Link: "up", Mbps: 10000, Neighbours: []item.Neighbour{{Chassis: "c", Port: "Eth8"}}}}},
			{Ports: []site.Port{{ID: "eth1", MACs: []string{"52:54:00:aa:00:02"}}}},
			{Ports: []site.Port{{ID: "eth2", MACs: []string{"52:54:00:aa:00:03"}}}},
		},
	}
	c := site.Closeup{Inventory: bmc}
	c.Observed = site.Observed{
		Facets: map[site.Facet]site.FacetState{site.FacetInventory: {Seen: at}, site.FacetOS: {Seen: at.Add(2 * time.Hour)}},
		Agent:  &site.AgentSeen{Seen: at.Add(time.Hour), Inventory: agent},
		Inside: &site.Inside{MemoryBytes: 62 << 30, Disks: []site.Block{
			{Name: "sda", Kind: "disk", Serial: "M_SAME-1", Bytes: 480e9}, {Name: "sda1", Kind: "part"}, {Name: "sdb", Kind: "disk", Serial: "OLDFW2", Bytes: 480e9},
			{Name: "sdc", Kind: "disk", Serial: "SIZE-4", Bytes: 960e9}, {Name: "sdd", Kind: "disk", Serial: "MORE-5", Bytes: 4e12},
		}},
		Links: &item.LinksSeen{Ports: []item.Port{
			{Name: "eth0", MAC: "52:54:00:aa:00:01", Carrier: "up", Speed: 10000, Neighbours: []item.Neighbour{{System: "leaf-1", Port: "Eth7"}}},
			{Name: "eth1", MAC: "52:54:00:aa:00:02", Carrier: "up"},
			{Name: "eth2", MAC: "52:54:00:aa:00:03", Off: true},
		}},
	}
	want := Sides{BMC: at, Agent: at.Add(time.Hour), System: at.Add(2 * time.Hour), Rows: []Sight{
		{What: "model", BMC: "Acme R1", Agent: "Acme Inc. R1"},
		{What: "firmware", Name: "BIOS", BMC: "1.2", Agent: "1.3", Differs: "version"},
		{What: "processors", BMC: "2 with 16 cores", Agent: "1 with 8 cores", Differs: "number"},
		{What: "memory", BMC: "64.0 GiB", Agent: "31.2 GiB", System: "62.0 GiB", Differs: "size"},
		{What: "disk", Name: "GONE-3", BMC: "960 GB", Differs: "not seen by the agent and the system"},
		{What: "disk", Name: "MORE-5", Agent: "4 TB", System: "4 TB", Differs: "not seen by the BMC"},
		{What: "disk", Name: "OLDFW2", BMC: "480 GB, F1", Agent: "480 GB, F2", System: "480 GB", Differs: "firmware"},
		{What: "disk", Name: "SAME-1", BMC: "480 GB, F1", Agent: "480 GB, M, F1", System: "480 GB"},
		{What: "disk", Name: "SIZE-4", BMC: "960 GB", Agent: "480 GB", System: "960 GB", Differs: "size"},
		{What: "port", Name: "52:54:00:aa:00:01", BMC: "1, up, 25000 Mb/s", Agent: "eth0, up, 10000 Mb/s, at c port Eth8", System: "eth0, up, 10000 Mb/s, at leaf-1 port Eth7", Differs: "speed, neighbour"},
		{What: "port", Name: "52:54:00:aa:00:02", BMC: "2, down", Agent: "eth1", System: "eth1, up", Differs: "link"},
		{What: "port", Name: "52:54:00:aa:00:03", Agent: "eth2", System: "eth2, off", Differs: "not seen by the BMC"},
	}}
	if diff := cmp.Diff(want, CompareSides(c)); diff != "" {
		t.Error(diff)
	}

	// Who tells of nothing is compared with nothing.
	if got := CompareSides(site.Closeup{}); got.Seen() != 0 || len(got.Rows) != 0 || got.Rows == nil {
		t.Errorf("of nothing: %+v", got)
	}
	alone := CompareSides(site.Closeup{Inventory: bmc})
	if alone.Seen() != 0 { // nobody knows when
		t.Errorf("%+v", alone)
	}
	for _, row := range alone.Rows {
		if row.Differs != "" || row.Agent != "" || row.System != "" {
			t.Errorf("with one side: %+v", row)
		}
	}
	quiet := &site.Inventory{Manufacturer: "Acme", Model: "R1"} // a BMC that tells of no parts
	c.Inventory, c.Observed.Agent, c.Observed.Links = quiet, nil, nil
	for _, row := range CompareSides(c).Rows {
		if row.Differs != "" {
			t.Errorf("a BMC that tells of no parts: %+v", row)
		}
	}
}
