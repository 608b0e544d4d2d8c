package main

import (
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A file whose content is as designed and whose mode or owner is not is not called as designed.
func TestHowAFileDiffers(t *testing.T) {
	designed := item.Item{Key: "files./etc/motd", Fields: map[string]string{"content": "sha256:1", "mode": "0644", "owner": "root:root"}}
	for name, c := range map[string]struct {
		have site.Values
		want []string
	}{
		"as designed":      {site.Values{"content": "sha256:1", "mode": "0644", "owner": "root:root"}, nil},
		"the content":      {site.Values{"content": "sha256:2", "mode": "0644", "owner": "root:root"}, nil}, // shown as a difference
		"mode and owner":   {site.Values{"content": "sha256:1", "mode": "0666", "owner": "ops\x1b:ops"}, []string{"mode is 0666 and is designed as 0644", `owner is ops\u001b:ops and is designed as root:root`}},
		"what is not told": {site.Values{"content": "sha256:1", "mode": "0644"}, []string{"owner is unknown and is designed as root:root"}},
	} {
		seen := site.FacetState{Have: site.Values{}}
		for field, v := range c.have {
			seen.Have[item.Name(designed.Key, field)] = v
		}
		if got := differing(designed, designed.Key, seen); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
