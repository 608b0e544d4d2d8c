package inside_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The command of a boot action has the time that the design gives it, and is then ended with all that
// it has started.
func TestABootActionHasItsTime(t *testing.T) {
	n := start(t)
	n.Does("mkdir -p /etc/slipway; echo " + quoted(marker) + " > /etc/slipway/marker.json")
	const key = item.KindBootActions + ".waits"
	acts := func(timeout time.Duration) *site.Node {
		return &site.Node{Name: "n1", References: site.References{Family: "debian", Actions: map[string]site.BootAction{"waits": {
			Timeout: site.Duration(timeout), Run: []string{"/bin/sh", "-c", "echo began >> /var/cache/waits; [ -e /srv/enough ] || sleep 600"},
		}}}}
	}
	does := func(d *site.Node) (is, why string) {
		m := n.open(t)
		defer m.Close()
		seen, err := m.Observe(t.Context(), d, []site.Facet{site.FacetActions})
		if err == nil {
			err = step(t.Context(), m, d, site.FacetActions, seen)
		}
		if err == nil {
			n.Comes("systemctl is-active slipway-action-waits.service || true", "inactive")
			seen, err = m.Observe(t.Context(), d, []site.Facet{site.FacetActions})
		}
		if err != nil {
			t.Fatal(err)
		}
		f := seen.Facets[site.FacetActions]
		return f.Have[key], f.Cannot[key]
	}
	if is, why := does(acts(2 * time.Second)); is != item.Failed || !strings.Contains(why, "it did not end within 2s") {
		t.Errorf("it is %q: %q", is, why)
	}
	n.Says("cat /var/cache/waits; grep -lz '^600$' /proc/[0-9]*/cmdline 2>/dev/null || echo nothing runs", "began\nnothing runs")
	n.Does("touch /srv/enough")
	if is, why := does(acts(time.Minute)); is != item.Done {
		t.Errorf("it is %q: %q", is, why)
	}
	n.Says("cat /var/cache/waits", "began\nbegan")
}
