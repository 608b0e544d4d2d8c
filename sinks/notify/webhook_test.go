package notify

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/secret"
)

const canary = "hunter2-canary"

// keys gives one credential, for one host.
type keys struct{ host string }

func (k keys) Get(r secret.Request) (secret.Value, error) {
	if r.Name != "pager" || r.Host != k.host || r.Use != secret.Notify || r.Port == 0 {
		return secret.Value{}, errors.New("credential not for this host")
	}
	return secret.New("", canary), nil
}

// post sends one message to a handler, and gives what came of it.
func post(t *testing.T, credential string, h http.HandlerFunc) error {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	w, err := NewWebhook(s.URL+"/hooks/"+canary, credential, Own, keys{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	return w.Send(t.Context(), message())
}

func message() Message {
	return newMessage("example", "abcd", time.Now(), []Event{{Event: EventNew, Kind: Stalled, What: "denied", all: []string{"a"}}})
}

func TestWebhookIsPostedAndSigned(t *testing.T) {
	err := post(t, "pager", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m Message
		if err != nil || json.Unmarshal(body, &m) != nil || m.Site != "example" || r.Method != "POST" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s %s %v", r.Method, body, r.Header)
		}
		if got := r.Header.Get(signatureHeader); got != sign(canary, body) || len(got) != len("sha256=")+64 {
			t.Errorf("signature %q", got)
		}
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), canary) {
				t.Errorf("the secret is in %s", name)
			}
		}
		if strings.Contains(string(body), canary) {
			t.Error("the secret is in the body")
		}
		w.WriteHeader(http.StatusAccepted)
	})
	if err != nil {
		t.Error(err)
	}
}

// The signature is what others compute too: RFC 4231, test case 2.
func TestSignatureIsHMACSHA256(t *testing.T) {
	got := sign("Jefe", []byte("what do ya want for nothing?"))
	if want := "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWebhookWithoutCredentialIsNotSigned(t *testing.T) {
	if err := post(t, "", func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get(signatureHeader) != "" {
			t.Error("signed")
		}
	}); err != nil {
		t.Error(err)
	}
}

// Whatever goes wrong is told without the address, which may be a secret.
func TestWebhookThatDoesNotTakeIt(t *testing.T) {
	for what, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			io.WriteString(w, "out of\norder"+strings.Repeat("x", 1<<20))
		}, "answers 500 Internal Server Error: out of order"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				t.Error("the redirect is followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, "answers 302 Found"},
		"hanging up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		err := post(t, "pager", c.answer)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) || len(err.Error()) > 2*maxWhat {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

func TestWebhookProvesItself(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	w, err := NewWebhook(s.URL, "", Own, keys{})
	if err != nil {
		t.Fatal(err)
	}
	var unknown *tls.CertificateVerificationError
	if err := w.Send(t.Context(), message()); !errors.As(err, &unknown) {
		t.Errorf("a certificate of nobody's: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	w.client.Transport.(*http.Transport).TLSClientConfig.RootCAs = pool
	if err := w.Send(t.Context(), message()); err != nil {
		t.Errorf("a certificate that is trusted: %v", err)
	}
}

func TestWebhooksThatCannotBe(t *testing.T) {
	for address, want := range map[string]string{
		"http://hooks.example.org/x":         "use https://",
		"ftp://127.0.0.1/x":                  "use https://",
		"https://u:" + canary + "@h.example": "--notify-credential",
		"hooks.example.org":                  "is not a URL",
		"https://hooks.example.org/x":        "credential not for this host",
		"https://\x00":                       "is not a URL",
	} {
		if _, err := NewWebhook(address, "pager", Own, keys{"127.0.0.1"}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}
