package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// certificates is a driver whose machines show a certificate, around one whose
// machines do not.
type certificates struct {
	driver.Driver
	mu    sync.Mutex
	shown string
	told  []string // the fingerprints that machines were opened with
}

func (c *certificates) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, e.Trust.Fingerprint)
	if want := e.Trust.Fingerprint; want != "" && want != c.shown {
		return nil, fmt.Errorf("%w: the BMC shows the certificate %s, and %s is expected", driver.ErrRefused, c.shown, want)
	}
	m, err := c.Driver.Open(ctx, e, s)
	return certified{m, c.shown}, err
}

type certified struct {
	driver.Machine
	shown string
}

func (m certified) Certificate() string { return m.shown }

// TestTrustOnFirstUse holds that the certificate of the first use is recorded
// and shown, is expected by the next daemon, and that another one stops the
// node until the design names it.
func TestTrustOnFirstUse(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		c := &certificates{Driver: w.fleet.Driver(), shown: "sha256:one"}
		w.bmcs = c
		trusts := func(t site.Trust) *site.Site {
			s := w.design("a")
			e := s.Nodes["a"].Endpoints[site.Manager]
			e.Trust = t
			s.Nodes["a"].Endpoints[site.Manager] = e
			return s
		}
		w.commit(trusts(site.Trust{FirstUse: true}))
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		if notes := fmt.Sprint(w.node("a").Notes); !strings.Contains(notes, "sha256:one") {
			t.Errorf("the notes are %s", notes)
		}
		if len(c.told) != 1 {
			t.Errorf("the machine was opened %d times", len(c.told))
		}
		w.crash()
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		if last := c.told[len(c.told)-1]; last != "sha256:one" {
			t.Errorf("the next daemon expects %q", last)
		}
		w.crash()
		c.shown = "sha256:two"
		w.up()
		w.after(5 * time.Minute)
		w.want("a", site.Stalled)
		if why := w.node("a").Reason; !strings.Contains(why, "sha256:two") || !strings.Contains(why, "sha256:one") {
			t.Errorf("it is told that %s", why)
		}
		w.commit(trusts(site.Trust{FirstUse: true, Fingerprint: "sha256:two"}))
		w.after(5 * time.Minute)
		w.want("a", site.InSync)
		if notes := fmt.Sprint(w.node("a").Notes); strings.Contains(notes, "sha256:") {
			t.Errorf("the notes are %s", notes)
		}
	}, "a")
}
