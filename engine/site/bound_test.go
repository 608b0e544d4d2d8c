package site_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestBound(t *testing.T) {
	for _, c := range []struct {
		text     string
		of, want int
	}{
		{"2", 10, 2}, {"25%", 10, 2}, {"0", 10, 0}, {"100%", 7, 7}, {"900%", 7, 7}, {"1%", 10, 0},
		{"", 10, 0}, {"%", 10, 0}, {"-3", 10, 0}, {"two", 10, 0},
	} {
		if got := site.Bound(c.text, c.of); got != c.want {
			t.Errorf("Bound(%q, %d) = %d, want %d", c.text, c.of, got, c.want)
		}
	}
}
