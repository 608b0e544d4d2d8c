package plan_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An approval that says "kept: data" does not cover the erasure of the disk that was "data" when Slipway last saw the disks: the kernel
// of the ramdisk numbers the controllers the other way round this time (or somebody has swapped the bays).
func TestApprovalDoesNotCoverAKeptDisk(t *testing.T) {
	rest, err := site.ParseExtent(">1GiB")
	if err != nil {
		t.Fatal(err)
	}
	n := &site.Node{
		Name: "n1", Power: "on", Image: "debian", Generation: 2, Identity: site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001"},
		References: site.References{ByAgent: true},
		Hardware:   site.Hardware{Devices: map[string]site.Device{"first": {SCSI: "0:0:0:0"}, "second": {SCSI: "1:0:0:0"}}},
		Storage: site.Storage{BootDisk: "os", Disks: map[string]site.Disk{
			"os":   {Device: "first", Table: "gpt", Partitions: map[string]site.Partition{"root": {Size: rest, Use: site.Use{Filesystem: &site.Filesystem{Type: "ext4", Mount: "/"}}}}},
			"data": {Device: "second", Keep: true},
		}},
	}
	s := &site.Site{Name: "s", Nodes: map[string]*site.Node{"n1": n}, Images: map[string]*site.Image{"debian": {URL: "http://images.example/d.tar", SHA256: "d2", Kind: site.KindRoot}}}
	disks := func(first, second string) []item.Disk {
		disk := func(name, at, serial string) item.Disk {
			return item.Disk{Name: name, SCSI: at, Serial: serial, Kind: "ssd", Bytes: 480e9 / 512 * 512, Sector: 512}
		}
		return []item.Disk{disk("sda", "0:0:0:0", first), disk("sdb", "1:0:0:0", second)}
	}
	m := site.Memory{
		Recorded: site.Recorded{Adopted: &site.Adoption{Machine: n.Identity, Settled: now}, Installed: &site.Installation{Generation: 1, Proven: true, ByAgent: true, Since: now}},
		Observed: site.Observed{Identity: n.Identity, Disks: &site.Disks{Serials: []string{"OSDISK-1", "PRECIOUS-2"}},
			Agent: &site.AgentSeen{Generation: 1, Disks: disks("OSDISK-1", "PRECIOUS-2"), Seen: now}}, // as generation 1 was installed
	}
	lossOf := func() site.Loss {
		t.Helper()
		p := site.Plan{Nodes: []site.NodePlan{plan.Node(s, n, site.Known{Records: "r", Nodes: map[string]site.Memory{"n1": m}, Accounts: map[string]site.Account{"n1": m.Account}})}}
		all := p.Destroys()
		if len(all) != 1 {
			t.Fatalf("losses %+v of %+v", all, p.Nodes[0])
		}
		return all[0]
	}
	read := lossOf()
	if m.Account, err = ledger.Open(site.Account{Records: "r"}, read, ledger.Approval{Set: "x", When: time.Now()}); err != nil {
		t.Fatal(err)
	}
	m.Recorded.Agent = &site.AgentBoot{Generation: 2, Key: "k", Since: now, Started: now}
	m.Observed.Agent = &site.AgentSeen{Connected: true, Generation: 2, Disks: disks("PRECIOUS-2", "OSDISK-1"), Seen: now}
	if m.Account.Open(lossOf()) != nil {
		t.Error("the approval covers that PRECIOUS-2 is erased, which was the kept disk when its text was read")
	}
}
