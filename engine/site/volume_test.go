package site_test

import (
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestVolumesIn(t *testing.T) {
	have := site.Values{
		"root.size": "20GiB", "root.pool": "default", "root.bus": "virtio", "data.size": "1GiB", "data.pool": "fast",
		site.FieldUnattached: "old 16MiB in the pool default (not attached), root 10GiB in the pool fast (not attached)",
	}
	const want = "data 1GiB in the pool fast, root 20GiB in the pool default, old 16MiB in the pool default (not attached), root 10GiB in the pool fast (not attached)"
	all := site.VolumesIn(have)
	if got := all.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := site.ParseVolumes(want); !slices.Equal(got, all) {
		t.Errorf("the text is read as %+v, want %+v", got, all)
	}
	for _, text := range []string{"", site.DisksUnknown, "S1, S2"} {
		if got := site.ParseVolumes(text); got != nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// Each volume that is named stands for one of its disk and pool, whatever its size
// is by now and whether it is attached.
func TestUnnamedVolumes(t *testing.T) {
	all := site.ParseVolumes("data 1GiB in the pool default, root 20GiB in the pool default, root 10GiB in the pool default")
	for named, want := range map[string]string{
		"":                           "data 1GiB in the pool default, root 20GiB in the pool default, root 10GiB in the pool default",
		site.DisksUnknown:            "data 1GiB in the pool default, root 20GiB in the pool default, root 10GiB in the pool default",
		"data 1GiB in the pool fast": "data 1GiB in the pool default, root 20GiB in the pool default, root 10GiB in the pool default",
		"data 2GiB in the pool default (not attached), root 20GiB in the pool default":                                            "root 10GiB in the pool default",
		"root 5GiB in the pool default, data 1GiB in the pool default, root 20GiB in the pool default, old 1GiB in the pool fast": "",
	} {
		if got := all.Unnamed(site.ParseVolumes(named)).String(); got != want {
			t.Errorf("%q does not name %q, want %q", named, got, want)
		}
	}
}
