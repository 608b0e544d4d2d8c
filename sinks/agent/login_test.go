package agent_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
)

// server is an SSH server for what a healthy one does not do.
type server struct {
	address string
	hostKey string
	logins  atomic.Int32
}

func newServer(t *testing.T, answer func(io.Writer)) *server {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := gossh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{hostKey: strings.TrimSpace(string(gossh.MarshalAuthorizedKey(signer.PublicKey())))}
	config := &gossh.ServerConfig{PasswordCallback: func(c gossh.ConnMetadata, password []byte) (*gossh.Permissions, error) {
		s.logins.Add(1)
		if c.User() != "root" || string(password) != "hunter2" {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	s.address = listen(t, func(conn net.Conn) { s.serve(conn, config, answer) })
	return s
}

func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

func (s *server) serve(conn net.Conn, config *gossh.ServerConfig, answer func(io.Writer)) {
	_, channels, requests, err := gossh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go gossh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				r.Reply(true, nil)
				answer(channel)
				channel.SendRequest("exit-status", false, gossh.Marshal(struct{ Status uint32 }{1}))
				channel.Close()
			}
		}()
	}
}

func (s *server) endpoint() site.Endpoint {
	return site.Endpoint{URL: "ssh://root@" + s.address, Trust: site.Trust{HostKeys: []string{s.hostKey}}}
}

func observe(ctx context.Context, e site.Endpoint, s secret.Value) (site.Observed, error) {
	m, err := agent.New(agent.Options{}).Open(ctx, e, s)
	if err != nil {
		return site.Observed{}, err
	}
	defer m.Close()
	return m.Observe(ctx, &site.Node{}, []site.Facet{site.FacetOS})
}

var password = secret.New("", "hunter2")

func prints(s string) func(io.Writer) { return func(w io.Writer) { io.WriteString(w, s) } }

const answer = "--marker\n\n--boot\nb1\n\n--os\nID=x\n\n--kernel\n6.1\n"

func TestObserve(t *testing.T) {
	t.Parallel()
	seen, err := observe(t.Context(), newServer(t, prints(answer)).endpoint(), password)
	if err != nil || fmt.Sprint(seen.Facets[site.FacetOS].Have) != "map[bootID:b1 kernel:6.1 release:]" || seen.Marker != nil {
		t.Errorf("got %+v, %v", seen, err)
	}
}

func TestHostKeys(t *testing.T) {
	t.Parallel()
	s := newServer(t, prints(answer))
	other := newServer(t, prints(answer))
	for name, c := range map[string]struct {
		pinned []string
		says   []string
	}{
		"none pinned":  {nil, []string{"no host key is pinned", s.hostKey, "trust.hostKeys"}},
		"another":      {[]string{other.hostKey}, []string{"not one of the pinned ones", s.hostKey, "installed again"}},
		"not a key":    {[]string{other.hostKey, "ssh-ed25519 nonsense"}, []string{"trust.hostKeys[1]", "is not a public key"}},
		"one of a few": {[]string{other.hostKey, s.hostKey + " a comment"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := s.endpoint()
			e.Trust.HostKeys = c.pinned
			before := s.logins.Load()
			_, err := observe(t.Context(), e, password)
			if (err == nil) != (c.says == nil) || err != nil && !errors.Is(err, driver.ErrRefused) {
				t.Fatalf("got %v", err)
			}
			for _, says := range c.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v\ndoes not say %q", err, says)
				}
			}
			if err != nil && s.logins.Load() != before {
				t.Error("the password was sent all the same")
			}
		})
	}
}

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	closed := listen(t, func(net.Conn) {})
	banner := listen(t, greet)
	for name, c := range map[string]struct {
		endpoint site.Endpoint
		secret   secret.Value
		class    error
		says     string
	}{
		"wrong password":    {newServer(t, prints(answer)).endpoint(), secret.New("root", "hunter3"), driver.ErrDenied, "does not let root in"},
		"too much output":   {newServer(t, prints(strings.Repeat("x", 600<<10))).endpoint(), password, driver.ErrRefused, "more than 512 KiB"},
		"no Linux":          {newServer(t, prints("> \x1b[2J")).endpoint(), password, driver.ErrRefused, `it begins with "> \x1b[2J"`},
		"hangs up":          {site.Endpoint{URL: "ssh://root@" + closed}, password, driver.ErrUnreachable, ""},
		"speaks SMTP":       {site.Endpoint{URL: "ssh://root@" + banner}, password, driver.ErrUnreachable, ""},
		"nothing listens":   {site.Endpoint{URL: "ssh://root@127.0.0.1:1"}, password, driver.ErrUnreachable, "connection refused"},
		"no user":           {site.Endpoint{URL: "ssh://192.0.2.1"}, password, driver.ErrRefused, "no user to log in to 192.0.2.1 as; give the endpoint a credential with a username"},
		"password in Git":   {site.Endpoint{URL: "ssh://root:pw@192.0.2.1"}, password, driver.ErrRefused, "does not belong in Git"},
		"another scheme":    {site.Endpoint{URL: "https://192.0.2.1"}, password, driver.ErrRefused, "is not of the form"},
		"a path":            {site.Endpoint{URL: "ssh://root@192.0.2.1/x"}, password, driver.ErrRefused, "is not of the form"},
		"a broken key":      {site.Endpoint{URL: "ssh://root@192.0.2.1"}, secret.New("", "-----BEGIN OPENSSH PRIVATE KEY-----\nx"), driver.ErrDenied, "cannot be read"},
		"a key with a lock": {site.Endpoint{URL: "ssh://root@192.0.2.1"}, secret.New("", lockedKey(t)), driver.ErrDenied, "passphrase"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := observe(t.Context(), c.endpoint, c.secret)
			if !errors.Is(err, c.class) || !strings.Contains(fmt.Sprint(err), c.says) || strings.Contains(fmt.Sprint(err), "hunter") {
				t.Errorf("got %v; want %v that says %q", err, c.class, c.says)
			}
		})
	}
}

func greet(c net.Conn) {
	io.WriteString(c, "220 mail.example ESMTP\r\n"+strings.Repeat("x\n", 1000))
}

func lockedKey(t *testing.T) string {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := gossh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

// A system that accepts the login and then says nothing is given up when the
// context ends, at once.
func TestSilenceEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := newServer(t, func(io.Writer) {
		cancel()
		<-t.Context().Done()
	})
	began := time.Now()
	_, err := observe(ctx, s.endpoint(), password)
	if !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.Canceled) || time.Since(began) > lookSoon {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
}

const lookSoon = 5 * time.Second
