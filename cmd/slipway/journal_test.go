package main

import (
	"log/slog"
	"strings"
	"testing"
)

func TestJournal(t *testing.T) {
	var b strings.Builder
	log := slog.New(newJournal(&b, slog.LevelInfo)).With("site", "fra")
	log.Debug("not shown")
	log.Info("step begun", "node", "m0")
	log.WithGroup("bmc").Warn("step failed", "what", "no answer")
	log.Error("record store failed")
	want := `<6>msg="step begun" site=fra node=m0
<4>msg="step failed" site=fra bmc.what="no answer"
<3>msg="record store failed" site=fra
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
