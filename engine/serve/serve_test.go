package serve

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func answers(l net.Listener) bool {
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// An answer that is under way when the context ends comes to its end, and no
// further one is given.
func TestUntil(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := listen(t)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		for answers(l) { // until it takes no further one
		}
		io.WriteString(w, "whole")
	})}
	ended := make(chan error, 1)
	go func() { ended <- Until(ctx, srv, l) }()
	resp, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "whole" {
		t.Errorf("got %q, %v", text, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// A listener that fails is an error at once.
func TestUntilTheListenerFails(t *testing.T) {
	l := listen(t)
	l.Close()
	if err := Until(t.Context(), &http.Server{}, l); err == nil {
		t.Error("no error")
	}
}
