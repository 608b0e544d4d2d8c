package rule

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
)

func extent(t *testing.T, text string) site.Extent {
	t.Helper()
	e, err := site.ParseExtent(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// What is known of a disk goes on to its partitions, arrays and volume groups;
// what is not known of one member is not known of the whole.
func TestLayout(t *testing.T) {
	partition := func(size string, use site.Use) site.Partition { return site.Partition{Size: extent(t, size), Use: use} }
	n := &site.Node{Storage: site.Storage{
		Disks: map[string]site.Disk{
			"a": {Match: &site.DiskMatch{MinSize: 100 << 30}, Partitions: map[string]site.Partition{
				"1": partition("10GiB", site.Use{}),
				"2": partition(">1GiB", site.Use{Array: "md0"}),
			}},
			"b": {Device: "alias", Partitions: map[string]site.Partition{"1": partition("50%", site.Use{Array: "md0"})}},
			"c": {Device: "other", Use: site.Use{Group: "unknown"}},
		},
		Arrays: map[string]site.Array{"md0": {Level: "raid1", Use: site.Use{Group: "g"}}},
		Groups: map[string]site.VolumeGroup{
			"g":       {Volumes: map[string]site.LogicalVolume{"v": {Size: extent(t, "1MiB")}, "w": {Size: extent(t, ">1GiB")}}},
			"unknown": {Volumes: map[string]site.LogicalVolume{"v": {Size: extent(t, "50%")}}},
		},
	}, Hardware: site.Hardware{Devices: map[string]site.Device{"alias": {Size: 100<<30 + 2<<20}}}}
	got := map[string]site.Size{}
	for _, p := range sized(n) {
		got[p.String()] = p.size
	}
	want := map[string]site.Size{
		"the disk a": 100 << 30, "the disk b": 100<<30 + 2<<20, "the disk c": 0,
		"the partition 1 of the disk a": 10 << 30, "the partition 2 of the disk a": 90<<30 - 2<<20,
		"the partition 1 of the disk b": 50 << 30,
		"the array md0":                 50<<30 - 50<<20, // less what each member keeps
		"the volume v of the group g":   4 << 20, "the volume w of the group g": 51148<<20 - 4<<20,
		"the volume v of the group unknown": 0,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("sizes (-want, +got):\n%s", d)
	}
}

func TestSizesDoNotOverflow(t *testing.T) {
	const most = site.Size(math.MaxInt64)
	if got := most.Plus(most); got != most {
		t.Errorf("plus: %d", got)
	}
	if got := (most / 2).Times(3); got != most {
		t.Errorf("times: %d", got)
	}
	if got := layout.VolumeBytes(site.Extent{Size: most}, most); got <= 0 {
		t.Errorf("rounded up: %d", got)
	}
}

// A rule takes whatever is left of a design of which parts were wrong.
func TestStorageRulesTakeOddValues(t *testing.T) {
	for _, odd := range []string{"", "x", "/", "x/x", "a", "0-", "-", ",", "raid1", "{", "mbr", "efi"} {
		use := site.Use{Filesystem: &site.Filesystem{Type: odd, Mount: odd, Options: []string{odd}, Label: odd}, Group: odd, Array: odd}
		extents := []site.Extent{{}, {Share: 100}, {Rest: true}, {Size: math.MaxInt64, Rest: true}, {Size: math.MaxInt64}}
		partitions := map[string]site.Partition{"": {}}
		volumes := map[string]site.LogicalVolume{"": {}}
		for i, e := range extents {
			partitions[string(rune('a'+i))] = site.Partition{Size: e, Number: i, Flag: odd, Use: use}
			volumes[string(rune('a'+i))] = site.LogicalVolume{Size: e, Filesystem: use.Filesystem}
		}
		n := &site.Node{
			Name: "n", Image: odd, Boot: site.Boot{Mode: "uefi", Order: []string{odd}, Interface: odd},
			Interfaces: map[string]site.Interface{"": {Device: odd}, "x": {Device: odd, Link: odd, Networks: []string{odd}}},
			Hardware: site.Hardware{
				CPUs: 1, Memory: 1, CPUSets: map[string]string{"": odd, "x": odd},
				Devices:   map[string]site.Device{"": {}, "x": {Kind: odd, Size: math.MaxInt64, Neighbour: &site.Neighbour{System: odd}}},
				Hugepages: map[string]site.Hugepages{"": {}, "x": {Size: math.MaxInt64, Count: math.MaxInt}, "y": {Size: -1, Count: -1}},
			},
			BIOS:     site.BIOS{Attributes: map[string]any{odd: nil}},
			Firmware: map[string]site.Firmware{odd: {Artifact: odd}},
			Kernel:   site.Kernel{Package: odd, Parameters: map[string]any{"": nil, "x": odd, "y": "{" + odd + "}", "hugepages": true, "hugepagesz": odd}},
			Storage: site.Storage{
				BootDisk: odd,
				Disks: map[string]site.Disk{
					"": {}, "x": {Device: odd, Match: &site.DiskMatch{}, Use: use},
					"y": {Match: &site.DiskMatch{MinSize: math.MaxInt64, MaxSize: 1}, Partitions: partitions, Table: odd, Use: use},
					"z": {Device: odd, Count: site.DiskCount(odd), Keep: true, Partitions: partitions, Use: use},
					"n": {Match: &site.DiskMatch{Kind: odd}, Count: "99999999999", Partitions: partitions, Use: use},
				},
				Arrays:      map[string]site.Array{"": {}, "x": {Level: odd, Spares: math.MaxInt, Use: use}},
				Groups:      map[string]site.VolumeGroup{"": {}, "x": {Volumes: volumes}},
				Controllers: map[string]site.RAIDController{"": {}, "x": {Device: odd, Volumes: map[string]site.RAIDVolume{"": {}, "x": {Level: odd, Drives: []string{odd, odd}}}}},
			},
		}
		found, _ := OnNode(&site.Site{Images: map[string]*site.Image{"x": {}}}, n)
		for _, f := range found {
			if f.Code == "panic" {
				t.Errorf("with %q: %s %s", odd, f.Message, f.Fix)
			}
		}
	}
}
