package driver_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
)

type inspector interface{ Inspect() string }

type machine struct{}

func (machine) Inspect() string { return "inside" }

// wrapped is around something and has none of its abilities.
type wrapped struct{ inner any }

func (w wrapped) Unwrap() any { return w.inner }

func TestAbilitiesAreFoundBehindWrappers(t *testing.T) {
	for _, c := range []struct {
		of   any
		want bool
	}{
		{machine{}, true},
		{wrapped{wrapped{machine{}}}, true},
		{wrapped{"something else"}, false},
		{wrapped{nil}, false},
		{nil, false},
	} {
		able, ok := driver.As[inspector](c.of)
		if ok != c.want || ok && able.Inspect() != "inside" {
			t.Errorf("%#v: found %t, want %t", c.of, ok, c.want)
		}
	}
}
