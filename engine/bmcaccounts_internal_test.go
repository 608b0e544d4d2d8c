package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A password that an account does not accept is sent twice, and no third time within an hour, whatever
// becomes of the daemon meanwhile. What is recorded of it is no digest that is fast to try.
func TestAPasswordIsSentTwice(t *testing.T) {
	e, w := gated(t)
	p := w.passwords(w.node)
	old, fresh := secret.New("monitor", "canary-old"), secret.New("monitor", "canary-new")
	sent := 0
	answer := func(err error) func() error { return func() error { sent++; return err } }
	denied := fmt.Errorf("%w: wrong", driver.ErrDenied)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Begin(t.Context(), "monitor", old))
	must(p.Prove(t.Context(), "monitor", old, answer(nil)))
	must(p.Done(t.Context(), "monitor"))
	if k := p.Known("monitor", old); !k.Proven || k.Offered || len(p.Changing()) > 0 {
		t.Errorf("once it is proven: %+v, %v is being changed", k, p.Changing())
	}
	must(p.Begin(t.Context(), "monitor", fresh))
	if k := p.Known("monitor", fresh); k.Proven || !k.Other || !k.Offered || !slices.Equal(p.Changing(), []string{"monitor"}) {
		t.Errorf("once another is offered: %+v, %v is being changed", k, p.Changing())
	}
	if k := p.Known("monitor", old); k.Proven {
		t.Errorf("the one before counts as proven while another may have been set: %+v", k)
	}
	sent = 0
	if err := p.Prove(t.Context(), "monitor", fresh, answer(denied)); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("denied: %v", err)
	}
	if err := p.Prove(t.Context(), "monitor", fresh, answer(fmt.Errorf("%w: later", driver.ErrBusy))); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("busy: %v", err)
	}
	again := newWorker(e, w.node, w.memory, false, func() {}).passwords(w.node) // after a restart
	for _, v := range []secret.Value{fresh, secret.New("monitor", "canary-third")} {
		err := again.Prove(t.Context(), "monitor", v, answer(nil))
		if driver.WasDenied(err) || !errors.Is(err, driver.ErrDenied) || sent != 2 || !strings.Contains(err.Error(), "slipway retry n1") {
			t.Errorf("a third time: %v, and %d were sent", err, sent)
		}
	}
	err := again.Prove(t.Context(), "monitor", fresh, answer(nil))
	text, jerr := json.Marshal(again.w.job().memory)
	must(jerr)
	if strings.Contains(string(text)+fmt.Sprint(err), "canary") {
		t.Errorf("the password is in %s", text)
	}
	must(again.w.save(t.Context(), retryAccounts))
	must(again.Prove(t.Context(), "monitor", fresh, answer(nil)))
	if k := again.Known("monitor", fresh); !k.Proven {
		t.Errorf("after a person had it tried again: %+v", k)
	}
	must(again.Done(t.Context(), "monitor"))

	seen := site.FacetState{Seen: time.Now(), Have: site.Values{"root.state": "enabled"}}
	must(again.w.save(t.Context(), func(r *site.Recorded) { forgetAccounts(r, seen, "") }))
	if k := again.Known("monitor", fresh); k.Proven {
		t.Error("an account that the BMC has no longer counts as proven")
	}
}
