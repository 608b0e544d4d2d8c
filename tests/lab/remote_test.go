package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A medium is read in parts, as they are asked for, and those that were read last are kept.
func TestRemoteMediumIsReadInParts(t *testing.T) {
	content := imageBytes("seed", "name", 3*sectors+100)
	var mu sync.Mutex
	var ranges []string
	gone := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if gone {
			http.NotFound(w, r)
			return
		}
		if r.Method == http.MethodGet {
			ranges = append(ranges, r.Header.Get("Range"))
		}
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(content))
	}))
	defer srv.Close()
	r := newRemote(t.Context(), srv.URL)
	if size, err := r.Size(t.Context()); err != nil || size != int64(len(content)) {
		t.Fatalf("its size is %d, %v", size, err)
	}
	for _, c := range []struct{ at, n, requests int }{
		{2, 10, 1}, {100, sectors, 1}, {sectors - 1, 2, 0}, {3*sectors - 50, 150, 2}, {3 * sectors, 100, 0}, {0, sectors, 0},
	} {
		mu.Lock()
		before := len(ranges)
		mu.Unlock()
		got := make([]byte, c.n)
		err := r.ReadAt(t.Context(), got, int64(c.at))
		mu.Lock()
		if after := len(ranges); err != nil || !bytes.Equal(got, content[c.at:c.at+c.n]) || after-before != c.requests {
			t.Errorf("%d bytes at %d: %v, right: %v, by the requests %v", c.n, c.at, err, bytes.Equal(got, content[c.at:c.at+c.n]), ranges[before:])
		}
		mu.Unlock()
	}
	if want := fmt.Sprintf("bytes=%d-%d", 3*sectors, 3*sectors+99); ranges[len(ranges)-1] != want {
		t.Errorf("the last part was read as %s, want %s", ranges[len(ranges)-1], want)
	}
	mu.Lock()
	gone = true
	mu.Unlock()
	r.parts = nil
	if err := r.ReadAt(t.Context(), make([]byte, 1), 0); err == nil {
		t.Error("a medium that its server has no more was read")
	}
}

// A fleet that ends ends the reading of its media.
func TestRemoteMediumEndsWithTheFleet(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }))
	defer srv.Close()
	if _, err := newRemote(ctx, srv.URL).Size(t.Context()); err == nil {
		t.Error("it was read")
	}
}

// A connection to a real machine's system is forwarded, both ways and to the end.
func TestConnectionsAreForwarded(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "SSH-2.0-x\r\n")
		text, _ := io.ReadAll(c)
		heard <- string(text)
		io.WriteString(c, "bye")
	}()
	m := &Machine{fleet: &Fleet{ctx: t.Context()}, computer: &computer{ssh: l.Addr().String()}}
	front, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	led := make(chan struct{})
	go func() {
		defer close(led)
		if c, err := front.Accept(); err == nil {
			m.forward(c)
		}
	}()
	c, err := net.Dial("tcp4", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || string(text) != "SSH-2.0-x\r\nbye" {
		t.Errorf("it said %q, %v", text, err)
	}
	if got := <-heard; got != "hello" {
		t.Errorf("it heard %q", got)
	}
	<-led
}

// What firmware tries has places in this order, and drives have one with UEFI in any case.
func TestPlacesInTheBootOrder(t *testing.T) {
	for _, c := range []struct {
		targets string
		medium  string
		uefi    bool
		want    string
	}{
		{"Cd Hdd Pxe", "x", true, "cd 0 drives 1 2 ports 3"},
		{"Cd Hdd Pxe", "", true, "cd - drives 0 1 ports 2"},
		{"Hdd Hdd Pxe", "x", false, "cd - drives 0 1 ports 2"},
		{"Pxe", "x", true, "cd - drives 1 2 ports 0"},
		{"Pxe", "x", false, "cd - drives - - ports 0"},
		{"UsbCd Usb UefiHttp Pxe Hdd", "x", false, "cd 0 drives 2 3 ports 1"},
	} {
		place := firmwareTries{targets: strings.Fields(c.targets), medium: c.medium}.places(2, 1, c.uefi)
		at := func(target string, n int) string {
			var index string
			if _, err := fmt.Sscanf(place(target, n), ",bootindex=%s", &index); err != nil {
				return "-"
			}
			return index
		}
		got := fmt.Sprintf("cd %s drives %s %s ports %s", at("Cd", 0), at("Hdd", 0), at("Hdd", 1), at("Pxe", 0))
		if got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.targets, c.medium, got, c.want)
		}
	}
}
