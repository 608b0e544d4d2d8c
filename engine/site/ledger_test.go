package site_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestResultOfAnApproval(t *testing.T) {
	at := func(day int) time.Time { return time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC) }
	for want, e := range map[string]site.LedgerEntry{
		"not used yet, expires at 2026-11-08 12:00:00Z":                  {Expires: at(8)},
		"used at 2026-11-02 12:00:00Z":                                   {Expires: at(8), Consumed: at(2)},
		"ended at 2026-11-03 12:00:00Z without being used: bob undid it": {Expires: at(8), Ended: at(3), Why: "bob undid it"},
	} {
		if got := e.Result(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		open := strings.HasPrefix(want, "not used")
		a := site.Account{Entries: []site.LedgerEntry{{Consumed: at(1)}, e}}
		if e.IsOpen() != open || a.HasOpen() != open || (a.Open(e.Loss) != nil) != open {
			t.Errorf("%s: it is open: %t, in its account: %t", want, e.IsOpen(), a.HasOpen())
		}
	}
	if (site.Account{}).HasOpen() {
		t.Error("an empty account has an open entry")
	}
}

func TestNumberOfALoss(t *testing.T) {
	l := site.Loss{Node: "n1", Action: "install generation 1", Disks: "S1"}
	approved := l
	approved.Attempt, approved.Records = 3, "r1"
	other := approved
	other.Disks = "S2"
	used := approved
	used.Attempt = 2
	a := site.Account{Records: "r1", Closed: 3, Entries: []site.LedgerEntry{
		{Loss: used, Consumed: time.Unix(1, 0)}, {Loss: other}, {Loss: approved},
	}}
	if got := a.Numbered(l); got != approved {
		t.Errorf("an approved loss: got %+v", got)
	}
	l.Disks = "S3"
	if got := a.Numbered(l); got.Attempt != 4 || got.Records != "r1" {
		t.Errorf("a loss that nobody approved: got %+v", got)
	}
	l.Disks, a.Entries = "S1", a.Entries[:1]
	if got := a.Numbered(l); got.Attempt != 4 {
		t.Errorf("a loss like one whose approval was used: got %+v", got)
	}
}
