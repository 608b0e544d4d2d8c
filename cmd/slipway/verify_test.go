package main

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestVerdictOfChecks(t *testing.T) {
	well, unknown, wrong := site.Check{Outcome: site.CheckOK}, site.Check{Outcome: site.CheckUnknown}, site.Check{Outcome: site.CheckWrong}
	for _, x := range []struct {
		checks []site.Check
		code   int
	}{
		{nil, exitUnknown}, // nothing was checked
		{[]site.Check{well}, 0},
		{[]site.Check{well, unknown}, exitUnknown},
		{[]site.Check{well, unknown, wrong}, 1},
	} {
		if got := exitCode(t.Context(), verdictOf(x.checks)); got != x.code {
			t.Errorf("%v: exit code %d, want %d", x.checks, got, x.code)
		}
	}
}
