package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An endpoint is wrong only if a request was sent to it. A login that waited in vain for the answers
// of other machines was not.
func TestTroubleOfALook(t *testing.T) {
	value := secret.New("root", "x")
	e := &Engine{Config: Config{Site: "s"}, loginDone: make(chan struct{}), underway: map[string]int{value.Digest("s"): driver.MostDenied}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	waited := login{e: e, who: "n1", url: "redfish+https://n1", credential: "bmc", value: value}.Login(ctx, func() error {
		t.Error("the password was sent")
		return nil
	})
	if !errors.Is(waited, driver.ErrBusy) {
		t.Fatal(waited)
	}
	failed := func(class error) error { return fmt.Errorf("%w: so", class) }
	for _, x := range []struct {
		err   error
		asked bool
		want  site.Trouble
	}{
		{waited, true, site.TroubleNotAsked},
		{failed(driver.ErrBusy), true, site.TroubleSilent},
		{failed(driver.ErrUnreachable), true, site.TroubleSilent},
		{errors.Join(driver.ErrUnreachable, driver.ErrNotAsked), true, site.TroubleNotAsked},
		{failed(driver.ErrRefused), true, site.TroubleSilent},
		{failed(driver.ErrRefused), false, site.TroubleNotAsked},
		{failed(driver.ErrUnreachable), false, site.TroubleNotAsked},
		{failed(driver.ErrDenied), true, site.TroubleDenied},
		{failed(driver.ErrDenied), false, site.TroubleWithheld},
		{driver.Withhold("denied before"), true, site.TroubleWithheld},
		{noKey{failed(driver.ErrDenied)}, false, site.TroubleNoCredential},
	} {
		if got := troubleOf(x.err, x.asked); got != x.want {
			t.Errorf("%v, asked %t: %q, want %q", x.err, x.asked, got, x.want)
		}
	}
}

// A machine that did not answer, and is not asked again yet, is still one that did not answer.
func TestSilentUntilAskedAgain(t *testing.T) {
	e := &Engine{Config: Config{Site: "s", Log: slog.New(slog.DiscardHandler)}}
	const manager = site.Manager
	w := &worker{e: e, name: "n1", lastLooks: map[site.EndpointKind]site.Look{}}
	j := job{node: &site.Node{Name: "n1", Endpoints: map[site.EndpointKind]site.Endpoint{manager: {URL: "redfish+https://n1"}}}}
	silent := fmt.Errorf("%w: so", driver.ErrUnreachable)
	w.noteLook(t.Context(), j, manager, site.Observed{}, silent, true)
	first := w.lastLooks[manager]
	w.noteLook(t.Context(), j, manager, site.Observed{}, errors.Join(silent, driver.ErrNotAsked), true)
	if got := w.lastLooks[manager]; got.Trouble != site.TroubleSilent || !got.When.Equal(first.When) {
		t.Errorf("got %+v", got)
	}
	j.node.Endpoints[manager] = site.Endpoint{URL: "redfish+https://n2"}
	w.noteLook(t.Context(), j, manager, site.Observed{}, errors.Join(silent, driver.ErrNotAsked), true)
	if got := w.lastLooks[manager]; got.Trouble != site.TroubleNotAsked {
		t.Errorf("another endpoint: %+v", got)
	}
}
