package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// modules is a number of memory modules of 32 GiB.
func modules(n int) []site.DIMM { return slices.Repeat([]site.DIMM{{Bytes: 32 << 30}}, n) }

func number(n int) *int { return &n }

func TestHardware(t *testing.T) {
	drive := site.Drive{Part: site.Part{ID: "1", Name: "Bay 1", Model: "MZXLR6T4HALA-000H3", Serial: "S1", Health: "OK"}, Bytes: 6_400_000_000_000, Media: "SSD", Protocol: "NVMe"}
	worn := drive
	worn.Failing = true
	for name, c := range map[string]struct {
		node *site.Node
		have site.Inventory
		want []string
	}{
		"nothing is expected": {&site.Node{}, site.Inventory{Model: "R750", DIMMs: modules(3)}, nil},
		"all as expected": {
			&site.Node{Hardware: site.Hardware{Manufacturer: "Dell Inc.", Model: "R750", Memory: 64 << 30, Sockets: 1, CPUs: 36, Architecture: "amd64", DIMMs: number(2), Drives: number(0)}},
			site.Inventory{Manufacturer: "Dell Inc.", Model: "R750", MemoryGiB: 63.5, DIMMs: modules(2), Drives: []site.Drive{},
				CPUs: []site.Processor{{Architecture: "amd64", Cores: 18, Threads: 36}}}, nil,
		},
		"another model": {&site.Node{Hardware: site.Hardware{Model: "R750"}}, site.Inventory{Model: "R650"}, []string{`its model is "R650", the design expects "R750"`}},
		"what was not read is not compared": {
			&site.Node{Hardware: site.Hardware{DIMMs: number(16), Drives: number(2), NICs: number(2), Supplies: number(2), GPUs: number(8)}, Storage: disk(site.DiskMatch{Kind: "ssd"}),
				Firmware: map[string]site.Firmware{"BIOS": {Version: "1"}}}, site.Inventory{}, nil,
		},
		"a memory module is missing": {&site.Node{Hardware: site.Hardware{DIMMs: number(16), Memory: 512 << 30}}, site.Inventory{MemoryGiB: 512, DIMMs: modules(15)},
			[]string{"it has 480 GiB of memory, the design expects at least 512GiB", "it has 15 memory modules, the design expects 16: 1 missing"}},
		"memory without modules": {&site.Node{Hardware: site.Hardware{Memory: 512 << 30}}, site.Inventory{MemoryGiB: 256}, []string{"it has 256 GiB of memory, the design expects at least 512GiB"}},
		"a drive too many":       {&site.Node{Hardware: site.Hardware{Drives: number(0)}}, site.Inventory{Drives: []site.Drive{drive}}, []string{"it has 1 drive, the design expects 0: 1 too many"}},
		"no adapter, half the power, a GPU": {&site.Node{Hardware: site.Hardware{NICs: number(1), Supplies: number(2), GPUs: number(0)}},
			site.Inventory{NICs: []site.NIC{}, Supplies: make([]site.PowerSupply, 1), GPUs: make([]site.Processor, 1)},
			[]string{"it has 0 network adapters, the design expects 1: 1 missing", "it has 1 power supply unit, the design expects 2: 1 missing", "it has 1 GPU, the design expects 0: 1 too many"}},
		"processors": {&site.Node{Hardware: site.Hardware{Sockets: 2, CPUs: 72, Architecture: "arm64"}},
			site.Inventory{Processors: 2, CPUs: []site.Processor{{Part: site.Part{Name: "CPU 1"}, Architecture: "amd64", Cores: 18, Threads: 36}}},
			[]string{"it has 1 processor, the design expects at least 2", "processor CPU 1 is amd64, the design expects arm64", "it has 36 logical processors, the design expects 72"}},
		"multithreading is off": {&site.Node{Hardware: site.Hardware{CPUs: 18}}, site.Inventory{CPUs: []site.Processor{{Cores: 18, Threads: 36}}}, nil},
		"an address is not there": {
			&site.Node{Hardware: site.Hardware{Devices: map[string]site.Device{"storage": {MAC: "02:00:00:00:00:09"}, "lan": {MAC: "02:00:00:00:00:01"}, "gpu": {PCI: "0000:18:00.0"}}}},
			site.Inventory{NICs: []site.NIC{{Ports: []site.Port{{MACs: []string{"02:00:00:00:00:01"}}}}}},
			[]string{"device storage is missing: no network adapter has the address 02:00:00:00:00:09"},
		},
		"addresses that the BMC does not tell": {&site.Node{Hardware: site.Hardware{Devices: map[string]site.Device{"lan": {MAC: "02:00:00:00:00:01"}}}}, site.Inventory{NICs: []site.NIC{{}}}, nil},
		"no drive to install on":               {&site.Node{Storage: disk(site.DiskMatch{Kind: "hdd", MinSize: 1e12})}, site.Inventory{Drives: []site.Drive{drive}}, []string{"no drive fits disk root (hdd, at least 1TB)"}},
		"too large": {&site.Node{Storage: disk(site.DiskMatch{MaxSize: 1e12, Model: "MZ*"})}, site.Inventory{Drives: []site.Drive{drive}},
			[]string{`no drive fits disk root (model "MZ*", at most 1TB)`}},
		"a drive by model":         {&site.Node{Storage: disk(site.DiskMatch{Model: "MZXLR*-000H3", Kind: "nvme", MinSize: 6e12})}, site.Inventory{Drives: []site.Drive{drive}}, nil},
		"an NVMe drive is an SSD":  {&site.Node{Storage: disk(site.DiskMatch{Kind: "ssd"})}, site.Inventory{Drives: []site.Drive{drive}}, nil},
		"a drive of no known kind": {&site.Node{Storage: disk(site.DiskMatch{Kind: "hdd"})}, site.Inventory{Drives: []site.Drive{{}}}, nil},
		"firmware": {&site.Node{Firmware: map[string]site.Firmware{"BIOS": {Version: "1.9"}, "NIC.1": {Version: "2"}, "PSU": {Version: "3"}, "BMC": {Version: "7"}}},
			site.Inventory{Firmware: []site.Component{{ID: "a", Name: "BIOS", Version: "1.8"}, {ID: "NIC.1", Version: "2"}, {ID: "b", Name: "PSU", Version: "3"}, {ID: "c", Name: "PSU", Version: "2"}}},
			[]string{"firmware BIOS is 1.8, the design expects 1.9", `it has no firmware component "BMC", the design expects version 7 of it`, "firmware PSU is 3 and 2, the design expects 3"}},
		"parts that are not well": {&site.Node{},
			site.Inventory{DIMMs: []site.DIMM{{Part: site.Part{ID: "A1", Health: "Critical"}}}, Drives: []site.Drive{drive, worn}, Supplies: []site.PowerSupply{{Part: site.Part{Name: "PSU\x1b1", Health: "Warning"}}}},
			[]string{"memory module A1 is critical", "drive Bay 1 (serial S1) predicts its own failure", `power supply PSU\u001b1 is warning`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Hardware(c.node, &c.have) {
				got = append(got, f.Message)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func disk(m site.DiskMatch) site.Storage {
	return site.Storage{Disks: map[string]site.Disk{"root": {Match: &m}}}
}

// A finding has the place of the line that expects something, or of what that
// is in.
func TestHardwarePlaces(t *testing.T) {
	n := &site.Node{Name: "n1", Hardware: site.Hardware{Model: "R750", DIMMs: number(2)}, Origins: site.OriginsByPath(map[string]site.Origin{
		"hardware.model": site.At("profiles.cue", 7, 10, "profile/r750"), "hardware": site.At("rack-1.cue", 3, 2, "node/n1")})}
	got := Hardware(n, &site.Inventory{Model: "R650", DIMMs: modules(1)})
	if len(got) != 2 || got[0].Place() != "profiles.cue:7:10" || got[1].Place() != "rack-1.cue:3:2" || got[1].Code != "hardware-dimms" || got[1].Node != "n1" {
		t.Errorf("got %+v", got)
	}
}

// A machine of which much differs does not fill the status.
func TestHardwareIsBounded(t *testing.T) {
	have := site.Inventory{DIMMs: slices.Repeat([]site.DIMM{{Part: site.Part{Health: "Critical"}}}, 500)}
	got := Hardware(&site.Node{}, &have)
	if len(got) != mostFindings+1 || !strings.Contains(got[mostFindings].Message, "468 more") {
		t.Errorf("got %d findings", len(got))
	}
}
