package rule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// TestRulesAndLayoutAgree holds the rules about sizes against the layout of designs by
// chance, on the smallest disks that fit their rules: what the rules let pass can be laid
// out, and nothing is smaller than the rules take it for.
func TestRulesAndLayoutAgree(t *testing.T) {
	passed := 0
	for seed := range uint64(4000) {
		n, seen := chance(rand.New(rand.NewPCG(seed, 7)))
		var found []site.Finding
		for _, check := range []func(*site.Site, *site.Node) []site.Finding{severalRests, sizesOverWhole, sizeOverDisk, arrayMembers, groupWithoutMembers, partitionNumber, mbrLimits, diskCount} {
			found = append(found, check(nil, n)...)
		}
		if len(found) > 0 {
			continue
		}
		l, findings := layout.Of(n, seen)
		for _, f := range findings {
			if !strings.Contains(f.Message, "smaller than the smallest") && !strings.Contains(f.Message, "too little") {
				t.Fatalf("seed %d: the rules let pass what cannot be laid out: %s: %s\n%+v", seed, f.Path, f.Message, n.Storage)
			}
		}
		if len(findings) > 0 {
			continue
		}
		passed++
		sizes := map[string]int64{}
		for _, d := range l.Disks {
			for _, p := range d.Partitions {
				sizes["the partition "+p.Name+" of the disk "+d.Name] = (p.Last - p.First + 1) * int64(d.Sector)
			}
		}
		for _, a := range l.Arrays {
			sizes["the array "+a.Name] = a.Bytes
		}
		for _, g := range l.Groups {
			for _, v := range g.Volumes {
				sizes["the volume "+v.Name+" of the group "+g.Name] = v.Extents * item.ExtentBytes
			}
		}
		for _, p := range sized(n) {
			if is, ok := sizes[p.String()]; ok && is < int64(p.size) {
				t.Fatalf("seed %d: %s has %d, and the rules take it for %d\n%+v", seed, p, is, p.size, n.Storage)
			}
		}
	}
	if passed < 150 {
		t.Errorf("only %d designs were laid out", passed)
	}
}

// chance is a node with the smallest disks that fit its rules.
func chance(r *rand.Rand) (*site.Node, []item.Disk) {
	s := site.Storage{Disks: map[string]site.Disk{}, Arrays: map[string]site.Array{"md0": {Level: []string{"raid0", "raid1", "raid5", "raid6", "raid10"}[r.IntN(5)], Spares: r.IntN(2), Use: site.Use{Group: "vg"}}}}
	some := func() site.Extent {
		return []site.Extent{{Share: 1 + r.IntN(60)}, {Size: site.Size(1 + r.IntN(500e6)), Rest: true}, {Size: site.Size(1+r.IntN(5000)) * 1e6}, {Size: site.Size(1 + r.Int64N(8<<30))}}[r.IntN(4)]
	}
	var seen []item.Disk
	for i := range 1 + r.IntN(5) {
		name := fmt.Sprintf("d%d", i)
		size := site.Size(8+r.IntN(20000)) * 4096 * 250
		d := site.Disk{Match: &site.DiskMatch{Model: name, MinSize: size}, Table: []string{"gpt", "mbr"}[r.IntN(2)], Partitions: map[string]site.Partition{}}
		for k := range 1 + r.IntN(3) {
			d.Partitions[fmt.Sprintf("p%d", k)] = site.Partition{Size: some(), Number: k + 1, Use: []site.Use{{Array: "md0"}, {Group: "vg"}, {}}[r.IntN(3)]}
		}
		s.Disks[name] = d
		seen = append(seen, item.Disk{Name: "sd" + name, Serial: name, Model: name, Bytes: int64(size), Sector: []int{512, 4096}[r.IntN(2)]})
	}
	v := map[string]site.LogicalVolume{}
	for k := range 1 + r.IntN(4) {
		v[fmt.Sprintf("v%d", k)] = site.LogicalVolume{Size: some()}
	}
	s.Groups = map[string]site.VolumeGroup{"vg": {Volumes: v}}
	return &site.Node{Name: "n1", Storage: s}, seen
}
