package control

import (
	"context"
	"errors"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// hears follows a daemon until it has said something, and gives the error of the end.
func hears(t *testing.T, c *Client, after uint64) (said chan string, ended chan error, cancel func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	said, ended = make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- c.Stream(ctx, "berlin", after, Hearing{
			Opened: func() { said <- "opened" },
			Event:  func(e site.Event) { said <- e.Text },
			Gap:    func() { said <- "gap" },
		})
	}()
	if got := <-said; got != "opened" {
		t.Fatalf("heard %q first", got)
	}
	return said, ended, cancel
}

func TestClientHearsEventsAsTheyHappen(t *testing.T) {
	f := &fake{}
	socket, stop := serving(t, f)
	c := Dial(socket)
	defer c.Close()
	f.happens("long ago")
	said, ended, cancel := hears(t, c, 0)
	f.happens("first\nid: 9\n\nevent: gap")
	if got := <-said; got != "first\nid: 9\n\nevent: gap" {
		t.Errorf("heard %q", got)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	f.happens("second")
	said, _, cancel = hears(t, c, 2)
	defer cancel()
	if got := <-said; got != "second" {
		t.Errorf("heard %q after it was away", got)
	}
	said, ended, cancel = hears(t, c, 777)
	defer cancel()
	if got := <-said; got != "gap" {
		t.Errorf("heard %q, want a gap", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrNoDaemon) {
		t.Errorf("ended with %v when the daemon did", err)
	}
	if err := c.Stream(t.Context(), "berlin", 0, Hearing{}); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("without a daemon: %v", err)
	}
}

func TestClientLooksAgainOnlyAtWhatHasChanged(t *testing.T) {
	f := &fake{}
	socket, _ := serving(t, f)
	c := Dial(socket)
	defer c.Close()
	r, tag, changed, err := c.Look(t.Context(), "berlin", "")
	if err != nil || !changed || tag == "" || r.Status.Site != "berlin" {
		t.Fatalf("%v %q %t %v", r, tag, changed, err)
	}
	if _, now, changed, err := c.Look(t.Context(), "berlin", tag); err != nil || changed || now != tag {
		t.Errorf("%q %t %v", now, changed, err)
	}
	f.waits("n1")
	if r, _, changed, err := c.Look(t.Context(), "berlin", tag); err != nil || !changed || r.Status.Approve != digestOfAll {
		t.Errorf("%v %t %v", r, changed, err)
	}
}
