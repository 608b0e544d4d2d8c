package engine_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// A signed marker, and the host key that was published, bring a machine back
// after a loss of records without a person; a key of another site does not.
func TestSiteKeyOutlivesTheRecords(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(*world)
		state site.State
	}{
		"the key is there":      {func(*world) {}, site.InSync},
		"the key is lost too":   {func(w *world) { w.removeKey() }, site.Blocked},
		"nothing was published": {func(w *world) { w.anchor.(*board).sealed = nil }, site.Retrying},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, hosted, func(w *world) {
				w.anchor = &board{}
				w.withGuest("vm")
				w.lost()
				c.lose(w)
				w.up()
				w.after(30 * time.Minute)
				n := w.node("vm")
				if c.state == site.InSync && (n.State != site.InSync || n.Generation != 1) || c.state != site.InSync && n.State == site.InSync {
					t.Errorf("vm is %s (%s) of generation %d %v", n.State, n.Reason, n.Generation, n.Notes)
				}
				if got := w.fleet.Machine("vm").Counts().Installs; got != 1 {
					t.Errorf("%d installations", got)
				}
			}, "host")
		})
	}
}

// Host keys stay published for a system that did not answer since the records were
// lost, whatever starts and ends until it does.
func TestHostKeysStayPublishedUntilTheSystemIsSeen(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.anchor = &board{}
		w.withGuest("vm")
		w.lost()
		w.systems = unreachable{w.fleet.OSDriver()}
		for _, observe := range []bool{true, false, false} {
			w.observe = observe
			w.up()
			w.after(10 * time.Minute)
			if n := w.node("vm"); n.State == site.InSync {
				t.Fatalf("vm is %s although nobody looked inside", n.State)
			}
			w.down()
		}
		w.systems = nil
		w.up()
		w.after(30 * time.Minute)
		if n := w.node("vm"); n.State != site.InSync || n.Generation != 1 {
			t.Errorf("vm is %s (%s) of generation %d %v", n.State, n.Reason, n.Generation, n.Notes)
		}
		if got := w.fleet.Machine("vm").Counts().Installs; got != 1 {
			t.Errorf("%d installations", got)
		}
	}, "host")
}

// unreachable are systems that do not answer.
type unreachable struct{ driver.Driver }

func (unreachable) Open(context.Context, site.Endpoint, secret.Value) (driver.Machine, error) {
	return nil, driver.ErrUnreachable
}

// A change of keys: with both in the design nothing is unproven, whichever signed;
// when the old one is gone, what it alone has signed needs a person after a loss
// of records.
func TestSiteKeyIsChanged(t *testing.T) {
	for name, c := range map[string]struct {
		keys  func(old, new string) []string
		lost  bool
		state site.State
	}{
		"both in the design":                  {func(old, new string) []string { return []string{old, new} }, false, site.InSync},
		"both, and the records lost":          {func(old, new string) []string { return []string{old, new} }, true, site.InSync},
		"the new one alone":                   {func(_, new string) []string { return []string{new} }, false, site.InSync},
		"the new one, and the records lost":   {func(_, new string) []string { return []string{new} }, true, site.Blocked},
		"the old one, and the daemon has new": {func(old, _ string) []string { return []string{old} }, false, site.InSync},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, hosted, func(w *world) {
				b := &board{}
				w.anchor = b
				d := w.withGuest("vm")
				before := w.key().Public()
				w.down()
				w.removeKey()
				next := clone(d)
				next.Keys = c.keys(before, w.key().Public())
				w.commit(next)
				w.up()
				w.after(10 * time.Minute)
				w.want("vm", site.InSync)
				if c.lost {
					w.lost()
					w.up()
					w.after(20 * time.Minute)
				}
				if n := w.node("vm"); n.State != c.state {
					t.Errorf("vm is %s (%s), want %s", n.State, n.Reason, c.state)
				}
				if got := w.fleet.Machine("vm").Counts().Installs; got != 1 {
					t.Errorf("%d installations", got)
				}
				again := clone(next)
				again.Nodes["vm"].Generation = 2
				w.commit(again)
				w.after(2 * time.Minute)
				if c.state == site.InSync && !c.lost {
					w.approve()
					w.after(20 * time.Minute)
				}
				locked := len(next.Keys) == 1 && next.Keys[0] == before
				if n := w.node("vm"); !c.lost && (n.State == site.InSync) == locked {
					t.Errorf("vm is %s (%s), and the daemon's key is not in the design: %t", n.State, n.Reason, locked)
				}
			}, "host")
		})
	}
}

// A design that names other keys than the daemon's has nothing destroyed.
func TestDesignNamesOtherKeys(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		other, err := sitekey.Create(filepath.Join(t.TempDir(), "other"))
		if err != nil {
			t.Fatal(err)
		}
		d := w.installed(1)
		d.Keys = []string{other.Public()}
		w.commit(d)
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(5 * time.Minute)
		w.want("a", site.Blocked)
		w.reason("a", "the design names other site keys")
		both := clone(d)
		both.Keys = append(both.Keys, w.key().Public())
		w.commit(both)
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
	}, "a")
}
