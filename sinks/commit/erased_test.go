package commit

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A report of erased disks is a page of its own, which stays when its node has gone, and says no
// more than was observed.
func TestEraseReport(t *testing.T) {
	g := repotest.InitBare(t)
	r := reporter(t, g)
	rep := healthy(2)
	long := strings.Repeat("seen ", 200)
	rep.Status.Nodes[1].Erased = &site.EraseReport{Generation: 3, Attempt: 1, Machine: site.Identity{Serial: "X1"}, Began: since, Disks: []item.Erasure{
		{Disk: "os", Serial: "S1", Model: "M|<b>", Bytes: 480e9, Done: true, Began: since.Add(time.Minute), Ended: since.Add(time.Hour),
			Tries: []item.EraseTry{{Method: "nvme sanitize, block erase", Took: 5, Why: "the disk says that it failed"}, {Method: "overwrite", Took: 3535, Verified: long}}},
		{Disk: "data", Serial: "S2"},
	}}
	report(t, r, rep)
	file := "erased/" + nodeFile("n0001")[len("nodes/"):len(nodeFile("n0001"))-len(".json")] + "-20260301T120000Z.md"
	page := g.Git("show", branch+":"+file)
	for _, want := range []string{
		"# Erase report: n0001, generation 3\n", "serial number X1, begun 2026-03-01 12:00:00Z: 1 of 2 disks erased, no report on 1 from the agent.",
		"| S1 | os | M&#124;&#60;b&#62; | 480000000000 | erased | overwrite | 2026-03-01 12:01:00Z | 2026-03-01 13:00:00Z |\n",
		"| S2 | data |  | 0 | unknown: the agent did not report on it |  |  |  |\n",
		"- nvme sanitize, block erase, 5 s, did not erase it: the disk says that it failed\n", strings.TrimSpace(long),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if all := g.Git("show", branch+":README.md"); !strings.Contains(all, "| n0001 | [1 of 2 disks erased, no report on 1 from the agent]("+file+") |") {
		t.Errorf("README.md does not lead to it:\n%s", all)
	}
	report(t, r, healthy(1))
	if g.Git("show", branch+":"+file) != page {
		t.Error("it went with its node")
	}
}
