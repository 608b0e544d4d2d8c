package sshclient

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"sync"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// OpenSSH tells of all its host keys after a login, and proves on demand that it has them, by signatures
// that are bound to the connection (PROTOCOL in its source, section 2.5). So nobody in the middle, and no
// host that forwards to another one, can have a key counted that is not its own.
const (
	tellsHostKeys  = "hostkeys-00@openssh.com"
	provesHostKeys = "hostkeys-prove-00@openssh.com"
)

// The bounds of what a host tells.
const (
	mostHostKeys = 16
	leastRSA     = 2048 // bits; clients refuse shorter ones
)

// proof is how a host proves itself by certificate. It may be used by several at once.
type proof struct {
	mu    sync.Mutex
	trust hostTrust
}

func (p *proof) set(t hostTrust) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trust = t
}

func (p *proof) now() hostTrust {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trust
}

// CertifyHost has the host prove itself by these certificates from now on, besides what the endpoint
// trusts.
func (c *Client) CertifyHost(by driver.HostCertificates) {
	t := hostTrust{node: by.Node, serials: slices.Clone(by.Serials)}
	for _, line := range by.Authorities {
		if key, _, _, _, err := gossh.ParseAuthorizedKey([]byte(line)); err == nil {
			t.authorities = append(t.authorities, key)
		}
	}
	c.proof.set(t)
}

// told are the host keys that a server told of on a connection.
type told struct {
	conn gossh.Conn
	ask  chan chan []byte
	done chan struct{}
	keys []byte // as it was sent; until done it belongs to listen
}

func listenTo(conn gossh.Conn, in <-chan *gossh.Request) (*told, <-chan *gossh.Request) {
	t, out := &told{conn: conn, ask: make(chan chan []byte), done: make(chan struct{})}, make(chan *gossh.Request)
	go t.listen(in, out)
	return t, out
}

// listen keeps what the server tells, and passes on all else, until the connection ends.
func (t *told) listen(in <-chan *gossh.Request, out chan<- *gossh.Request) {
	defer close(t.done)
	defer close(out)
	take := func(r *gossh.Request) {
		if r.Type == tellsHostKeys {
			t.keys = r.Payload
		} else {
			out <- r
		}
	}
	for {
		select {
		case r, open := <-in:
			if !open {
				return
			}
			take(r)
		case answer := <-t.ask:
			for waits := true; waits; { // what came before is taken first
				select {
				case r, open := <-in:
					if !open {
						answer <- t.keys
						return
					}
					take(r)
				default:
					waits = false
				}
			}
			answer <- t.keys
		}
	}
}

// now is what the server has told so far.
func (t *told) now() []byte {
	answer := make(chan []byte, 1)
	select {
	case t.ask <- answer:
		return <-answer
	case <-t.done:
		return t.keys
	}
}

// proven are the host keys that the server has, the first of each kind, as in authorized_keys(5).
// Kinds that are not certified are left out. A server tells of them right after the login, so one
// session or request has to have been answered before.
func (t *told) proven() ([]string, error) {
	var keys []gossh.PublicKey
	var asked []byte
	for rest, n := t.now(), 0; len(rest) > 0 && n < mostHostKeys; n++ {
		var next struct {
			Key  string
			Rest []byte `ssh:"rest"`
		}
		if err := gossh.Unmarshal(rest, &next); err != nil {
			return nil, refused("the host reports host keys that cannot be read")
		}
		rest = next.Rest
		key, err := gossh.ParsePublicKey([]byte(next.Key))
		if err != nil || !isCertifiable(key) || slices.ContainsFunc(keys, func(k gossh.PublicKey) bool { return k.Type() == key.Type() }) {
			continue
		}
		keys = append(keys, key)
		asked = append(asked, gossh.Marshal(struct{ Key string }{next.Key})...)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	ok, answer, err := t.conn.SendRequest(provesHostKeys, true, asked)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	case !ok:
		return nil, refused("the host does not prove that it has the host keys that it reports")
	}
	var lines []string
	for _, key := range keys {
		var next struct {
			Signature string
			Rest      []byte `ssh:"rest"`
		}
		if err := gossh.Unmarshal(answer, &next); err != nil {
			return nil, refused("the host does not prove that it has the host key %s", gossh.FingerprintSHA256(key))
		}
		answer = next.Rest
		if err := t.verify(key, next.Signature); err != nil {
			return nil, refused("the host does not prove that it has the host key %s: %.200v", gossh.FingerprintSHA256(key), err)
		}
		lines = append(lines, authorized(key))
	}
	return lines, nil
}

// verify checks the signature by which a host proves on this connection that it has a key.
func (t *told) verify(key gossh.PublicKey, signature string) error {
	var s gossh.Signature
	if err := gossh.Unmarshal([]byte(signature), &s); err != nil {
		return err
	}
	if s.Format == gossh.KeyAlgoRSA {
		return errors.New("it signs by SHA-1")
	}
	return key.Verify(gossh.Marshal(struct{ What, Session, Key string }{provesHostKeys, string(t.conn.SessionID()), string(key.Marshal())}), &s)
}

// isCertifiable says whether a host key is of a kind that is certified.
func isCertifiable(key gossh.PublicKey) bool {
	switch key.Type() {
	case gossh.KeyAlgoED25519, gossh.KeyAlgoECDSA256, gossh.KeyAlgoECDSA384, gossh.KeyAlgoECDSA521:
		return true
	case gossh.KeyAlgoRSA:
		c, is := key.(gossh.CryptoPublicKey)
		if !is {
			return false
		}
		k, is := c.CryptoPublicKey().(*rsa.PublicKey)
		return is && k.N.BitLen() >= leastRSA
	}
	return false
}
