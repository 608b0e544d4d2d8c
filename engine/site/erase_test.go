package site_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A second try under the same approval reports the disks of both: what the first one erased, and what it found instead.
func TestReportHasTheDisksOfAllTries(t *testing.T) {
	step := site.Step{Node: "n1", Action: site.ActionInstall, Generation: 2, Attempt: 1}
	layout := func(serials ...string) item.Layout {
		l := item.Layout{Erase: "secure"}
		for _, s := range serials {
			l.Destroys = append(l.Destroys, item.Destroyed{Name: "os", Serial: s})
		}
		return l
	}
	var r site.Recorded
	now := time.Now()
	r.NoteErasing(step, layout("A"), nil, now)
	r.NoteErased(step, item.Erasure{Serial: "A", Done: true}, now)
	before := r
	r.NoteErasing(step, layout("A", "B"), []string{"C"}, now)
	r.NoteErased(step, item.Erasure{Serial: "B", Done: true}, now)
	if len(r.Erased) != 1 || len(r.Erased[0].Disks) != 2 || !r.Erased[0].Disks[0].Done || !r.Erased[0].Disks[1].Done || len(r.Erased[0].Unseen) != 1 {
		t.Errorf("the report is %+v", r.Erased)
	}
	if len(before.Erased[0].Disks) != 1 {
		t.Errorf("an earlier state has changed: %+v", before.Erased)
	}
}
