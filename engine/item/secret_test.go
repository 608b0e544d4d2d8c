package item

import (
	"strings"
	"testing"
)

// A secret has another digest with each key, and no content of a file with a secret is shown.
func TestContentsThatAreSecret(t *testing.T) {
	one, two := KeyedDigest([]byte("k1"), []byte("calvin")), KeyedDigest([]byte("k2"), []byte("calvin"))
	// HMAC-SHA-256 of RFC 4231, test case 2.
	if want := "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"; KeyedDigest([]byte("Jefe"), []byte("what do ya want for nothing?")) != want {
		t.Errorf("the digest is not %s", want)
	}
	if one == two || !IsKeyed(one) || IsKeyed(Digest([]byte("calvin"))) {
		t.Errorf("got %s and %s", one, two)
	}
	designed := New("files./etc/key", map[string]string{"content": ValueOf("app-tls"), "mode": "0644"}, File{Mode: "0644"})
	if name, is := designed.Credential(); name != "app-tls" || !is {
		t.Errorf("got %q, %t", name, is)
	}
	if c, is := designed.Content(); !is || !strings.HasPrefix(c.Withheld, "[redacted]") || c.Bytes != 0 {
		t.Errorf("got %+v, %t", c, is)
	}
	sent := File{Content: []byte("calvin"), Key: []byte("k1"), Mode: "0600", Owner: "root", Group: "root"}
	if got := sent.Fields()["content"]; got != one {
		t.Errorf("got %s", got)
	}
	file := New("files./etc/key", sent.Fields(), sent)
	action := New("bootActions.join", nil, Action{Config: []Item{New("files./etc/token", nil, sent)}})
	keys := DigestKeys([]Item{file, action, New("units.a.service", nil, Unit{})})
	if len(keys) != 2 || string(keys["files./etc/key"]) != "k1" || string(keys["files./etc/token"]) != "k1" {
		t.Errorf("got %v", keys)
	}
}
