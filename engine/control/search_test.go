package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A digest or a revision is found by its beginning. A few letters, which may be anywhere in one, find nothing that does not
// show them.
func TestDigestsAreFoundByTheirBeginning(t *testing.T) {
	const digest = "4f2a51c09d3e7788aabbccddeeff00112233445566778899aabbccddeeff0011"
	for text, want := range map[string]bool{"4f2a51c": true, "4F2A51C09D3E": true, digest: true, "4f2a51": false, "f2a51c0": false, "0011": false} {
		if got := SearchFor(text).isDigest(digest); got != want {
			t.Errorf("%q finds it: %t", text, got)
		}
		s := selection{Search: SearchFor(text), before: endless}
		if got := s.has(7, digest, "approve", "ana"); got != want {
			t.Errorf("%q selects it: %t", text, got)
		}
	}
	f := site.Finding{Code: "disk-failing", Message: "disk 3 fails"}
	for text, want := range map[string]bool{"DISK 3": true, f.ID(): true, f.ID()[:8]: false, "": true, "none": false} {
		if got := SearchFor(text).Finds(&f); got != want {
			t.Errorf("%q finds the finding: %t", text, got)
		}
	}
}

// numbered is a daemon with nine events and nine entries in its audit log.
type numbered struct{ fake }

func (n *numbered) History(context.Context, string, string) (all []site.Event, err error) {
	for seq := range uint64(9) {
		all = append(all, site.Event{Seq: seq + 1, Kind: site.EventOrder})
	}
	return all, nil
}

// The lists of events and of the audit log take the same place to go on from, and refuse the same.
func TestListsWithSeqsArePaged(t *testing.T) {
	d := &numbered{}
	for seq := range uint64(9) {
		d.audit = append(d.audit, site.AuditEntry{Seq: seq + 1, Verb: "approve"})
	}
	mux := newAPI(d, nil, Limits{}, 0, slog.New(slog.DiscardHandler)).mux()
	for _, list := range []string{"history", "audit"} {
		for query, want := range map[string]int{"before=4": 3, "before=0": 0, "before=1": 0, "before=4&limit=2": 2, "limit=9": 9, "q=7": 1, "q=nothing": 0, "limit=0": -1, "before=x": -1} {
			status, text := handled(mux, access.Caller{Kind: access.User, Name: "root"}, asked{route: route{method: http.MethodGet}, path: "/api/v1/sites/berlin/" + list + "?" + query})
			var got []struct {
				Seq uint64 `json:"seq"`
			}
			switch {
			case want < 0 && status != http.StatusBadRequest, want >= 0 && status != http.StatusOK:
				t.Errorf("%s?%s: %d", list, query, status)
			case want < 0:
			case json.Unmarshal([]byte(text), &got) != nil || len(got) != want:
				t.Errorf("%s?%s: %s", list, query, text)
			case query == "before=4&limit=2" && (got[0].Seq != 2 || got[1].Seq != 3):
				t.Errorf("%s?%s gives not the last ones before: %s", list, query, text)
			}
		}
	}
}
