package copies

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
)

// Two daemons of one name, because a host was cloned with its store, say so and do not take each other's place in
// turns.
func TestAClonedStore(t *testing.T) {
	b := newBoard()
	one, clone := b.node(t, "one", 0), b.node(t, "one", 0)
	one.leads()
	one.sync(t.Context())
	clone.sync(t.Context())
	key := b.shelves.Holders["one"].Key
	for range 3 {
		one.sync(t.Context())
		clone.sync(t.Context())
	}
	if b.shelves.Holders["one"].Key != key {
		t.Error("they replace each other")
	}
	if err := one.Problem(); err == nil || !strings.Contains(err.Error(), "another daemon has the name of this one's artifact store") {
		t.Errorf("it says %v", err)
	}
}

// No key is not a key, whatever the records say.
func TestNoKey(t *testing.T) {
	id, err := newIdentity()
	must(t, err)
	if err := id.tls(func(string) bool { return true }).VerifyConnection(tls.ConnectionState{}); !errors.Is(err, errStranger) {
		t.Errorf("a connection without a certificate: %v", err)
	}
	v := view{own: "one", isDaemon: func(string) bool { return true }}
	v.take(record.Shelves{Holders: map[string]record.Holder{"two": {Address: "127.0.0.1:9"}}}, time.Now())
	if keys := v.keys(); len(keys) > 0 {
		t.Errorf("keys %q", keys)
	}
}

// liar is a daemon in the records whose answers are not what they should be.
func (b *board) liar(t *testing.T, name string, digest string, answer http.HandlerFunc) {
	t.Helper()
	id, err := newIdentity()
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: answer, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go srv.Serve(tls.NewListener(l, id.tls(func(string) bool { return true })))
	t.Cleanup(func() { srv.Close() })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shelves.Holders[name] = record.Holder{Name: name, Host: "host " + name, Address: l.Addr().String(), Key: id.key, Has: map[string]bool{digest: true}}
}

// A daemon that lies is found out, its bytes are discarded, and a good copy is taken from another one.
func TestALyingDaemon(t *testing.T) {
	content := bytesOf(200_000)
	digest := digestOf(content)
	endless := func(w http.ResponseWriter) {
		for block := bytesOf(64 << 10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"wrong bytes": {func(w http.ResponseWriter, _ *http.Request) { w.Write(bytesOf(len(content))) }, "host a sent a file with the SHA-256 "},
		"too short":   {func(w http.ResponseWriter, _ *http.Request) { w.Write(content[:1000]) }, "would send 1 kB for x.iso, which has 200 kB"},
		"too long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "300000")
			w.Write(bytesOf(300_000))
		}, "would send 300 kB for x.iso, which has 200 kB"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, "sends more than the 200 kB of x.iso"},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "200000")
			w.Write(content[:5000])
		}, "broke off after 5 kB"},
		"another place": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "answers 302"},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "answers 404"},
		"wrong range": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 5-10/200000")
			w.WriteHeader(206)
			w.Write(content[:6])
		}, "answers 206"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard()
			b.liar(t, "a", digest, c.answer)
			n, a := b.lacks(t, digest, len(content))
			n.copy(t.Context(), a)
			if n.has(digest) {
				t.Fatal("it believes the liar")
			}
			if why := n.copying.states()[digest].Why; !strings.Contains(why, c.want) {
				t.Errorf("it says %q", why)
			}
			all, err := filepath.Glob(filepath.Join(n.dir, "files", "*"))
			if err != nil || len(all) > 0 {
				t.Errorf("files: %v %v", all, err)
			}
			// A good one comes, after the liar in the order.
			z := b.node(t, "z", 0)
			i, err := z.Files.AddFile(t.Context(), bytes.NewReader(content), 0, digest, "x.iso", nil)
			must(t, err)
			z.works()
			n.sync(t.Context())
			for range 3 { // a part of the liar's may be in the way once
				n.copy(t.Context(), a)
			}
			if !n.has(i.SHA256) || !bytes.Equal(n.content(digest), content) {
				t.Errorf("no good copy: %s", n.copying.states()[digest].Why)
			}
		})
	}
}

// A damaged file is never spread: who gets it refuses it, who gave it whole notices and gets a good one.
func TestADamagedFileIsReplaced(t *testing.T) {
	b := newBoard()
	one, two, three := b.node(t, "one", 0), b.node(t, "two", 0), b.node(t, "three", 0)
	one.leads()
	content := bytesOf(50_000)
	digest := one.add("x.iso", content)
	round(one, two)
	spoilt := slices.Clone(content)
	spoilt[20_000] ^= 1
	file := filepath.Join(one.dir, "files", digest)
	must(t, os.Chmod(file, 0o600))
	must(t, os.WriteFile(file, spoilt, 0o600))
	three.sync(t.Context())
	one.sync(t.Context())
	two.sync(t.Context())
	three.works() // asks one first
	if !bytes.Equal(three.content(digest), content) {
		t.Error("no good copy")
	}
	if one.has(digest) {
		t.Error("the damaged file was given whole and is still there")
	}
	round(one)
	if !bytes.Equal(one.content(digest), content) {
		t.Error("it was not replaced")
	}
	// Found by verify likewise.
	must(t, os.Chmod(filepath.Join(two.dir, "files", digest), 0o600))
	must(t, os.WriteFile(filepath.Join(two.dir, "files", digest), spoilt, 0o600))
	must(t, two.Keeper().Verify(t.Context(), func(int64, int64) {}, func(artifact.Checked) {}))
	if two.has(digest) {
		t.Error("verify left it")
	}
	round(two)
	if !bytes.Equal(two.content(digest), content) {
		t.Error("it was not replaced after verify")
	}
}

// Who has no key in the records gets nothing and gives nothing, and one that was removed neither, also in the middle.
func TestStrangers(t *testing.T) {
	b, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(32_000_000)) // more than the buffers of a connection hold
	one.sync(t.Context())
	at, _ := one.door.now()
	answers := 0 // whoever has no key is not even answered
	get := func(config *tls.Config) error {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		answer, err := c.Get("https://" + at + "/" + digest)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answers++; answer.TLS.DidResume {
			t.Error("a session was resumed")
		}
		if answer.StatusCode != 200 {
			return errors.New(answer.Status)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	if err := get(&tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("one without a key gets it")
	}
	stranger, err := newIdentity()
	must(t, err)
	any := func(string) bool { return true }
	if err := get(stranger.tls(any)); err == nil {
		t.Error("a stranger gets it")
	}
	if answer, err := http.Get("http://" + at + "/" + digest); err == nil && answer.StatusCode == 200 {
		t.Error("without TLS")
	}
	one.again = rate.NewLimiter(rate.Inf, 1)
	two.sync(t.Context()) // one has not read that yet, and does for it
	// It would resume an earlier session.
	known := two.identity.tls(any)
	known.SessionTicketsDisabled, known.ClientSessionCache = false, tls.NewLRUClientSessionCache(0)
	if err := get(known); err != nil {
		t.Errorf("another daemon: %v", err)
	}
	borrowed := identity{pair: tls.Certificate{Certificate: two.identity.pair.Certificate, PrivateKey: stranger.pair.PrivateKey}}
	if err := get(borrowed.tls(any)); err == nil {
		t.Error("one that shows the certificate of another daemon gets it")
	}
	// A stranger at the address of a daemon is not asked.
	b.mu.Lock()
	h := b.shelves.Holders["one"]
	h.Key = stranger.key
	b.shelves.Holders["one"] = h
	b.mu.Unlock()
	two.works()
	if two.has(digest) || !strings.Contains(two.copying.states()[digest].Why, "its key is not one that a running daemon of this site has recorded") {
		t.Errorf("copied from a stranger: %+v", two.copying.states())
	}
	one.sync(t.Context()) // it writes its own key again
	// It is removed while it copies.
	b.mu.Lock()
	b.members = map[string]bool{"one": true, "two": true}
	b.mu.Unlock()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: known, DisableKeepAlives: true}}
	answer, err := c.Get("https://" + at + "/" + digest)
	must(t, err)
	defer answer.Body.Close()
	_, err = io.ReadFull(answer.Body, make([]byte, 1000))
	must(t, err)
	b.mu.Lock()
	b.members = map[string]bool{"one": true}
	b.mu.Unlock()
	one.sync(t.Context())
	if n, err := io.Copy(io.Discard, answer.Body); err == nil {
		t.Errorf("one that was removed got the remaining %d bytes", n)
	}
	if err := get(known); err == nil {
		t.Error("one that was removed gets it again")
	}
	if answers != 1 {
		t.Errorf("%d were answered, and one is a daemon", answers)
	}
}

// A daemon that is cut off from the records neither gets nor gives after a while: it may have been removed.
func TestCutOffFromTheRecords(t *testing.T) {
	_, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(1000))
	one.sync(t.Context())
	two.sync(t.Context())
	two.desk.unplug(errors.New("no majority"))
	if two.Problem() != nil || len(two.view.keys()) == 0 {
		t.Error("it is said at once")
	}
	two.view.mu.Lock()
	two.view.read = two.view.read.Add(-silentAfter)
	two.view.mu.Unlock()
	two.works()
	if two.has(digest) || len(two.view.keys()) > 0 {
		t.Error("it copies")
	}
	if err := two.Problem(); err == nil || !strings.Contains(err.Error(), "no majority") {
		t.Errorf("it says %v", err)
	}
	if _, err := two.Named(); err == nil {
		t.Error("it would remove files to make room")
	}
	two.desk.unplug(nil)
	two.sync(t.Context())
	one.sync(t.Context())
	two.works()
	if !two.has(digest) || two.Problem() != nil {
		t.Errorf("afterwards: %v", two.Problem())
	}
}
