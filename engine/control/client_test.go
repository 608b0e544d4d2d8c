package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Somebody who interrupts a command does not wait for a daemon that does not answer.
func TestRequestsEndWithTheirContext(t *testing.T) {
	socket := Socket(t.TempDir())
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	c := dial(t, socket)
	for name, ask := range map[string]func(context.Context) error{
		"report": func(ctx context.Context) error { _, err := c.Report(ctx, ""); return err },
		"chart":  func(ctx context.Context) error { _, err := c.Chart(ctx, ""); return err },
		"known":  func(ctx context.Context) error { _, err := c.Known(ctx, ""); return err },
		"events": func(ctx context.Context) error { _, err := c.Events(ctx, "", 0); return err },
		"follow": func(ctx context.Context) error { return c.Follow(ctx, "", 0, func(site.Event) {}) },
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- ask(ctx) }()
		<-asked
		interrupt()
		if err := <-ended; (name == "follow") != (err == nil) || err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
