package start

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// An image is read from any byte on, by http, and by https from the server that was named; a
// token is in no error.
func TestImageIsRead(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 1000)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/TOKEN/image.tar":
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		case "/TOKEN/whole":
			w.Write(content) // it knows no ranges
		case "/TOKEN/away":
			http.Redirect(w, r, "/TOKEN/image.tar", http.StatusFound)
		case "/TOKEN/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	ca := fmt.Sprintf("sha256:%x", sha256.Sum256(secure.Certificate().Raw))
	for name, c := range map[string]struct {
		url, ca, path string
		from          int64
		says          string // empty for what is read
		gone          bool
	}{
		"http":                {plain.URL, "", "/TOKEN/image.tar", 0, "", false},
		"http, from a byte":   {plain.URL, "", "/TOKEN/image.tar", 4321, "", false},
		"https":               {secure.URL, ca, "/TOKEN/image.tar", 9999, "", false},
		"https of another":    {secure.URL, "sha256:" + strings.Repeat("ab", 32), "/TOKEN/image.tar", 0, "does not have its certificate", false},
		"nothing there":       {plain.URL, "", "/TOKEN/other", 0, "no longer in use", true},
		"no ranges":           {plain.URL, "", "/TOKEN/whole", 10, "answers 200 where byte 10", true},
		"another place":       {plain.URL, "", "/TOKEN/away", 0, "answers 302", true},
		"a server in trouble": {plain.URL, "", "/TOKEN/busy", 0, "answers 503", false},
		"behind the end":      {plain.URL, "", "/TOKEN/image.tar", 10001, "answers 416", true},
		"no server":           {"http://127.0.0.1:1", "", "/TOKEN/image.tar", 0, "connection refused", false},
	} {
		s, err := openImage(wire.Image{URL: c.url + c.path, CA: c.ca})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := s.Open(t.Context(), c.from)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, err := io.ReadAll(body)
			if body.Close(); err != nil || !bytes.Equal(got, content[c.from:]) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, image.ErrGone) != c.gone || strings.Contains(err.Error(), "TOKEN") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, i := range []wire.Image{{URL: "ftp://x/y"}, {URL: "nothing"}, {URL: "https://x/y"}, {URL: "https://x/y", CA: "sha256:ab"}, {URL: "http://[x"}} {
		if _, err := openImage(i); err == nil || !strings.HasSuffix(err.Error(), "nothing was written") {
			t.Errorf("%+v: %v", i, err)
		}
	}
}
